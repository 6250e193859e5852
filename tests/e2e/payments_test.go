package e2e

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/vacancy-host/vacancy/tests/stripemock"
)

// startStripe is the command: stripe starts Stripe's mock, sets STRIPE to its HOST:PORT, and
// writes a key of its API to key.txt and one of webhooks to signing.txt.
func startStripe(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: stripe")
	}
	at, stop, err := stripemock.Run(context.Background())
	ts.Check(err)
	ts.Defer(stop)
	ts.Setenv("STRIPE", at)
	ts.Check(os.WriteFile(ts.MkAbs("key.txt"), []byte(stripemock.Key+"\n"), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("signing.txt"), []byte(stripemock.Signing+"\n"), 0o600))
}

// writeWebhook is the command: webhook KIND PAYMENT CENTS [KEY] [AGE]. A kind is paid, refunded
// (the total of a charge), refund or refund-failed (of one refund), or disputed. It writes a webhook of Stripe to webhook.json and its signature to webhook.header. The payment
// is to ACCOUNT at HOSTID. KEY signs instead of the right one, AGE seconds ago.
func writeWebhook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 5 {
		ts.Fatalf("usage: webhook paid|refunded|refund|refund-failed|disputed PAYMENT CENTS [KEY] [AGE]")
	}
	cents, err := strconv.Atoi(args[2])
	ts.Check(err)
	key, age := stripemock.Signing, 0
	if len(args) > 3 {
		key = args[3]
	}
	if len(args) > 4 {
		age, err = strconv.Atoi(args[4])
		ts.Check(err)
	}
	var body string
	switch args[0] {
	case "paid":
		body = stripemock.Paid(args[1], ts.Getenv("HOSTID"), ts.Getenv("ACCOUNT"), cents)
	case "refunded":
		body = stripemock.Refunded(args[1], cents)
	case "refund":
		body = stripemock.Refund("created", args[1], "re_"+args[1], "pending", cents)
	case "refund-failed":
		body = stripemock.Refund("failed", args[1], "re_"+args[1], "failed", cents)
	case "disputed":
		body = stripemock.Disputed(args[1], "dp_1", "needs_response", cents)
	default:
		ts.Fatalf("webhook: unknown kind %q", args[0])
	}
	header := "Stripe-Signature: " + stripemock.Sign(body, key, time.Now().Add(-time.Duration(age)*time.Second))
	ts.Check(os.WriteFile(ts.MkAbs("webhook.json"), []byte(body), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("webhook.header"), []byte(header), 0o600))
}
