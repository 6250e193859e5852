package serve

import (
	"context"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/agp"
	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type AGP struct {
	http.Handler
	Bookings *booking.Service
}

type FindFunc func(context.Context, search.Request) (search.Page, error)

// OpenAGP returns the handler of AGP, or nil if the host has no accounts.
func (h *Server) OpenAGP(a *A2A, find FindFunc, metrics bool) *AGP {
	if h.Billing == nil {
		return nil
	}
	a.Bookings = h.OpenBookings(a.taskQueue, find)
	h.AddAGPRoutes(a.Bookings)
	agpHandler := h.AGPHandler(a.Bookings, find, metrics)
	a.AGPHandler = agpHandler
	return agpHandler
}

// OpenBookings returns the booking service. The consumer of queue must dispatch the bookings
// (booking.Service.HandleMessage).
func (h *Server) OpenBookings(queue task.Queue, find FindFunc) *booking.Service {
	c := &h.config
	return booking.New(booking.Config{
		Store: c.Store, Billing: h.Billing, Registry: h.Registry, Calls: h.Calls, Guests: h.guests, Signer: h.SigningKeys.Signer, BaseURL: h.gatewayURL,
		FindByShortID: func(ctx context.Context, short string) (identity.ID, error) {
			if find == nil {
				return identity.ID{}, nil
			}
			page, err := find(ctx, search.Request{ShortID: short, Limit: 1})
			if err != nil || len(page.Matches) == 0 {
				return identity.ID{}, err
			}
			return page.Matches[0].Registration.ID, nil
		},
		Outbound: h.Outbound,
		Queue:    queue, Price: c.BookingPrice, Log: c.Log, Now: c.Now, Rand: c.Rand,
	})
}

func (h *Server) AGPHandler(b *booking.Service, find FindFunc, metrics bool) *AGP {
	config := h.agpConfig(b)
	config.Search, config.Metrics = find, metrics
	return &AGP{agp.Handler(config), b}
}

func (h *Server) AddAGPRoutes(b *booking.Service) {
	h.extraRoutes = append(h.extraRoutes, agp.OperatorRoutes(h.agpConfig(b))...)
}

func (h *Server) agpConfig(b *booking.Service) agp.Config {
	c := &h.config
	return agp.Config{
		Bookings: b, TenantOf: h.tenantOf, Log: c.Log, Now: c.Now, Rand: c.Rand,
		Callers: caller.Verifier{URL: h.Vacants.BaseURL, TrustHostHeader: c.TrustHostHeader, IsRevoked: h.Registry.IsRevoked, Now: c.Now},
	}
}
