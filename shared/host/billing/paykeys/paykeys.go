// Package paykeys stores the API key and the webhook key of the payment provider. Other parts of a
// host cannot decrypt them, because their encryption context is used only here.
package paykeys

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	StripeAPIKey     = "stripe"
	StripeWebhookKey = "stripe-webhook"
)

const SignatureHeader = "Stripe-Signature"

// stripeHost receives the API key unless the key's settings name another host.
const stripeHost = "api.stripe.com"

var validPrefixes = map[string][]string{
	StripeAPIKey:     {"sk_live_", "sk_test_", "rk_live_", "rk_test_"},
	StripeWebhookKey: {"whsec_"},
}

var KeyDocs = kind.Docs()

var kind = secrets.Kind{
	Name:        "payment key",
	Prefix:      "paykey",
	DefaultHost: func(string) string { return stripeHost },
	CheckValue: func(name string, value []byte) error {
		known, ok := validPrefixes[name]
		if !ok {
			return problem.Invalid("secret", StripeAPIKey+" or "+StripeWebhookKey, fmt.Sprintf("%.80q", name))
		}
		if !slices.ContainsFunc(known, func(p string) bool { return strings.HasPrefix(string(value), p) }) {
			return problem.Invalid("value", "a key that begins with "+strings.Join(known, ", "), "another")
		}
		return nil
	},
}

func New(s store.Store, v custody.Vault, now func() time.Time, rand io.Reader) *secrets.Secrets {
	return secrets.New(kind, s, v, now, rand)
}

func IsLive(key string) bool { return strings.Contains(key, "_live_") }

type Config struct {
	Keys    *secrets.Secrets
	Client  *outbound.Client
	HostID  func(context.Context) (identity.ID, error)
	BaseURL func(context.Context) (string, error) // URL to which payers return
	Now     func() time.Time
}
