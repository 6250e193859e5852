// Package paykeys is the keys of the provider of payments: the one that the host calls it
// with, and the one by which it signs its webhooks. They are sealed for a context of their
// own, so that no other part of a host opens them.
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

// The names of the keys.
const (
	Stripe        = "stripe"         // of its API: secret or restricted
	StripeWebhook = "stripe-webhook" // signs its webhooks
)

// SignatureHeader is the header of a webhook's signature: t=SECONDS,v1=HEX.
const SignatureHeader = "Stripe-Signature"

// stripeHost is where the key of Stripe's API is sent, unless its setting names another
// host, for tests.
const stripeHost = "api.stripe.com"

// prefixes lists the beginnings of valid values.
var prefixes = map[string][]string{
	Stripe:        {"sk_live_", "sk_test_", "rk_live_", "rk_test_"},
	StripeWebhook: {"whsec_"},
}

// KeyDocs are the documents of the keys.
var KeyDocs = kind.Docs()

var kind = secrets.Kind{
	Name: "payment key",
	Word: "paykey",
	Host: func(string) string { return stripeHost },
	Check: func(name string, value []byte) error {
		known, ok := prefixes[name]
		if !ok {
			return problem.Invalid("secret", Stripe+" or "+StripeWebhook, fmt.Sprintf("%.80q", name))
		}
		if !slices.ContainsFunc(known, func(p string) bool { return strings.HasPrefix(string(value), p) }) {
			return problem.Invalid("value", "a key that begins with "+strings.Join(known, ", "), "another")
		}
		return nil
	},
}

// New returns the keys in a store.
func New(s store.Store, v custody.Vault, now func() time.Time, rand io.Reader) *secrets.Secrets {
	return secrets.New(kind, s, v, now, rand)
}

// IsLive reports whether a key of Stripe's API moves real money.
func IsLive(key string) bool { return strings.Contains(key, "_live_") }

// Config holds the parts of a host that a provider of payments needs.
type Config struct {
	Keys   *secrets.Secrets
	Client *outbound.Client
	Self   func(context.Context) (identity.ID, error) // who the host is
	Base   func(context.Context) (string, error)      // its URL, for pages that payers return to
	Now    func() time.Time
}
