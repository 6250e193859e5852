package stripemock

import (
	"fmt"
	"time"

	"github.com/stripe/stripe-go/v84/webhook"
)

// The keys of a host in tests.
const (
	Key     = "sk_test_canary"
	Signing = "whsec_canary"
)

// Sign is the header of a webhook that is sent at a time, by Stripe's library.
func Sign(body, key string, at time.Time) string {
	return webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: []byte(body), Secret: key, Timestamp: at}).Header
}

// Paid is the webhook of a payment to an account of a host.
func Paid(payment, host, account string, cents int) string {
	return eventOf("checkout.session.completed", fmt.Sprintf(`"object":"checkout.session","payment_status":"paid","payment_intent":%q,"currency":"usd","amount_total":%d,
		"metadata":{"vacancy_host":%q,"vacancy_account":%q}`, payment, cents, host, account))
}

// Refunded returns the webhook about the total refunded of a payment until now.
func Refunded(payment string, cents int) string {
	return eventOf("charge.refunded", fmt.Sprintf(`"object":"charge","payment_intent":%q,"currency":"usd","amount_refunded":%d`, payment, cents))
}

// Refund is the webhook of a refund of a payment: kind is created, updated or failed.
func Refund(kind, payment, refund, status string, cents int) string {
	return eventOf("refund."+kind, fmt.Sprintf(`"object":"refund","id":%q,"payment_intent":%q,"currency":"usd","amount":%d,"status":%q`, refund, payment, cents, status))
}

// Disputed is the webhook of a dispute about a payment.
func Disputed(payment, dispute, status string, cents int) string {
	return eventOf("charge.dispute.created", fmt.Sprintf(`"object":"dispute","id":%q,"payment_intent":%q,"currency":"usd","amount":%d,"status":%q`, dispute, payment, cents, status))
}

func eventOf(kind, members string) string {
	return fmt.Sprintf(`{"id":"evt_1","object":"event","livemode":false,"type":%q,"data":{"object":{%s}}}`, kind, members)
}
