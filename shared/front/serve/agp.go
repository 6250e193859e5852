package serve

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/agp"
	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// AGP serves AGP, and keeps its bookings.
type AGP struct {
	http.Handler
	Bookings *booking.Service
}

// OpenAGP makes the handler of AGP over a search, and adds its routes to Admin. The worker
// of a dispatches bookings. It is nil for a host without accounts. metrics shows the
// host's counters to anybody.
func (h *Server) OpenAGP(a *A2A, find func(context.Context, search.Request) (search.Page, error), metrics bool) *AGP {
	if h.Billing == nil {
		return nil
	}
	c := &h.config
	a.bookings = booking.New(booking.Config{
		Store: c.Store, Billing: h.Billing, Registry: h.Registry, Calls: h.Calls, Guests: a.guests, Signer: h.Vacants.Self, URL: h.Vacants.Base,
		ByShort:  func(ctx context.Context, short string) (identity.ID, error) { return byShort(ctx, find, short) },
		Outbound: outbound.New(outbound.Options{AllowLoopback: c.AllowLoopback}),
		Queue:    a.tasks, Price: c.BookingPrice, Log: c.Log, Now: c.Now, Rand: c.Rand,
	})
	config := agp.Config{
		Bookings: a.bookings, Search: find, Owner: h.owner, Metrics: metrics, Log: c.Log, Now: c.Now, Rand: c.Rand,
		Callers: caller.Verifier{URL: h.Vacants.Base, Routed: c.TrustedHost, Revoked: h.Registry.IsRevoked, Now: c.Now},
	}
	h.more = agp.Operator(config)
	return &AGP{agp.Handler(config), a.bookings}
}

// byShort finds a listed vacant by the beginning of its id.
func byShort(ctx context.Context, find func(context.Context, search.Request) (search.Page, error), short string) (identity.ID, error) {
	page, err := find(ctx, search.Request{ShortID: short, Limit: 1})
	if err != nil || len(page.Matches) == 0 {
		return identity.ID{}, err
	}
	return page.Matches[0].Registration.ID, nil
}

// SweepEvery follows the reminders of bookings at once and then at intervals, until ctx
// ends. Failures are logged and tried again.
func (a *AGP) SweepEvery(ctx context.Context, every time.Duration, log *slog.Logger) {
	if a == nil {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if _, err := a.Bookings.Sweep(ctx); err != nil && ctx.Err() == nil {
			log.LogAttrs(ctx, slog.LevelError, "sweep of bookings", slog.String("cause", err.Error()))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
