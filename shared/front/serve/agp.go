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

// AGP contains the handler of AGP and its booking service.
type AGP struct {
	http.Handler
	Bookings *booking.Service
}

// Find is a function that searches for vacants, for example search.Service.Find.
type Find func(context.Context, search.Request) (search.Page, error)

// OpenAGP returns the handler of AGP, or nil if the host has no accounts. It adds the operator's
// routes to Admin and the AGP tools to MCP, and lets A2A.Work dispatch bookings. If metrics is
// true, the handler serves the host's counters to anyone.
func (h *Server) OpenAGP(a *A2A, find Find, metrics bool) *AGP {
	if h.Billing == nil {
		return nil
	}
	a.Bookings = h.OpenBookings(a.tasks, find)
	h.OperateAGP(a.Bookings)
	network := h.AGPHandler(a.Bookings, find, metrics)
	a.AGP = network
	return network
}

// OpenBookings returns the booking service of a host with accounts. The consumer of queue must
// dispatch the bookings (booking.Service.HandleMessage). find resolves short ids of venues. If find
// is nil, all short ids are unknown.
func (h *Server) OpenBookings(queue task.Queue, find Find) *booking.Service {
	c := &h.config
	return booking.New(booking.Config{
		Store: c.Store, Billing: h.Billing, Registry: h.Registry, Calls: h.Calls, Guests: h.guests, Signer: h.SigningKeys.Signer, URL: h.gatewayURL,
		ByShort: func(ctx context.Context, short string) (identity.ID, error) {
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

func (h *Server) AGPHandler(b *booking.Service, find Find, metrics bool) *AGP {
	config := h.agp(b)
	config.Search, config.Metrics = find, metrics
	return &AGP{agp.Handler(config), b}
}

func (h *Server) OperateAGP(b *booking.Service) { h.more = append(h.more, agp.Operator(h.agp(b))...) }

func (h *Server) agp(b *booking.Service) agp.Config {
	c := &h.config
	return agp.Config{
		Bookings: b, Owner: h.owner, Log: c.Log, Now: c.Now, Rand: c.Rand,
		Callers: caller.Verifier{URL: h.Vacants.Base, Routed: c.TrustedHost, Revoked: h.Registry.IsRevoked, Now: c.Now},
	}
}
