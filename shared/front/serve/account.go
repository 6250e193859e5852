package serve

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/paykeys"
)

// AccountHandler is the public handler of tenants; nil if the host has no accounts. open
// opens the provider of payments; nil: there is none.
func (h *Server) AccountHandler(open func(paykeys.Config) billing.Payments) http.Handler {
	if h.Billing == nil {
		return nil
	}
	var payments billing.Payments
	if c := &h.config; open != nil {
		payments = open(paykeys.Config{
			Keys: h.paymentKeys, Client: h.Outbound,
			Self: h.Vacants.SelfID, Base: h.gatewayURL, Now: c.Now,
		})
	}
	return account.Handler(h.Billing, h.receipts(), payments, h.config.Log, h.config.Now)
}

// receipts are where receipts of the host's calls come from.
func (h *Server) receipts() *account.Receipts {
	c := &h.config
	return &account.Receipts{
		Settled: h.Calls.Settled, Signer: h.SigningKeys.Signer, Owner: h.owner,
		Callers: caller.Verifier{URL: h.Vacants.Base, Routed: c.TrustedHost, Revoked: h.Registry.IsRevoked, Now: c.Now},
	}
}

// SweepEvery sweeps the calls with a price that are due, at once and then at intervals,
// until ctx ends. Failures are logged and tried again.
func (h *Server) SweepEvery(ctx context.Context, every time.Duration, log *slog.Logger) {
	if h.Billing == nil {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		swept, err := h.Billing.Sweep(ctx, h.Calls)
		if err != nil && ctx.Err() == nil {
			log.LogAttrs(ctx, slog.LevelError, "sweep of priced calls", slog.String("cause", err.Error()))
		}
		if swept.Waiting > 0 {
			log.LogAttrs(ctx, slog.LevelWarn, "priced calls wait for their settlement", slog.Int("calls", swept.Waiting))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
