// Package registryapi is the handler of the registry: publishing, revoking,
// reading cards and events, and searching, in the shapes of the reference with
// additional members (PROTOCOL §19).
//
// It translates HTTP to host/registry, search and translog, and decides
// nothing. The invariants: a body is strict JSON of at most 256 KiB. The reader
// is the signer of the proof header, never a query parameter. Cacheable answers
// are the same for everybody. No query and no key reaches the log.
package registryapi

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/openapi"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// Config configures the registry's handler.
type Config struct {
	Registry *registry.Registry
	// Vacants stores revocations and manifests, which also change the records of
	// hosted vacants.
	Vacants *vacants.Directory
	// Log is the transparency log of the registry's events. Without it there are no routes of the log.
	Log Log
	// URL returns the host's base URL, for which callers may sign their proofs.
	// Nil means that there is none.
	URL func(context.Context) (string, error)
	// TrustedHost: a router chose this host by the request's Host, so callers
	// may sign for that Host too. Otherwise the sender chose the Host freely,
	// and only a loopback address is accepted.
	TrustedHost bool
	Now         func() time.Time
	Logger      *slog.Logger
}

// Registry returns the handler of everything but search and the gate.
func Registry(c Config) http.Handler {
	d := &api{Config: c, caller: caller.Verifier{URL: c.URL, Routed: c.TrustedHost, Revoked: c.Registry.IsRevoked, Now: c.Now}}
	return httpapi.API{Name: "registry", Log: c.Logger, Now: c.Now, ReadLevel: slog.LevelDebug}.Mux(op.Routes(append(d.routes(), logRoutes(c.Log)...)...))
}

func (d *api) routes() []op.Route {
	s := op.Server{}
	return []op.Route{
		op.On(s, Publish, d.publish),
		op.On(s, Revoke, d.revoke),
		op.On(s, PutListing, d.listing),
		op.On(s, AddManifest, d.manifest),
		op.Handle(GetCard.Spec(), d.card),
		op.Handle(ListEvents.Spec(), d.eventLog),
		op.Handle(GetEvent.Spec(), d.event),
		op.Handle(GetLineage.Spec(), d.lineage),
		op.Handle(ListRevocations.Spec(), d.revocations),
		op.Handle(Describe.Spec(), func(w http.ResponseWriter, r *http.Request) error {
			revalidated(w, r, openapi.JSON)
			return nil
		}),
	}
}

// The operations that read. Their handlers read the query, because what is wrong in it is 422, as in
// the reference, and answer by what a cache may keep.
var (
	GetCard         = op.Op[OneCard, registryclient.HaloMatch]{Method: "GET", Path: "/v1/capability_card/{id}", Access: readers, Doc: "shows the capability card of a vacant"}
	ListEvents      = op.Op[EventList, []registryclient.Event]{Method: "GET", Path: "/v1/event_log/{id}", Access: readers, Doc: "lists the events of a vacant"}
	GetEvent        = op.Op[OneEvent, registryclient.Event]{Method: "GET", Path: "/v1/event/{seq}", Access: readers, Doc: "shows an event"}
	GetLineage      = op.Op[Kin, registryclient.Lineage]{Method: "GET", Path: "/v1/lineage/{id}", Access: readers, Doc: "lists the ancestors or descendants of a vacant"}
	ListRevocations = op.Op[RevocationList, []registryclient.Revoked]{Method: "GET", Path: "/v1/revocation_list", Access: op.Access{Anybody: true}, Doc: "lists revoked keys"}
	Describe        = op.Op[op.None, op.Raw[any]]{Method: "GET", Path: "/v1/openapi.json", Access: op.Access{Anybody: true}, Doc: "describes all operations, as this document"}
)

// readers admits anybody. A vacant that signs its request sees more: what only it may see.
var readers = op.Access{Anybody: true, Vacant: true}

// Requests.
type (
	// OneCard names a vacant by its id.
	OneCard struct {
		ID string `path:"id"`
	}
	// EventList is a page of events after a number.
	EventList struct {
		OneCard
		From  uint64 `query:"from_seq"`
		Limit uint64 `query:"limit"`
	}
	// OneEvent names an event by its number.
	OneEvent struct {
		Seq uint64 `path:"seq"`
	}
	// Kin is a part of a vacant's lineage, to a depth. Direction is ancestors or descendants.
	Kin struct {
		OneCard
		Direction string `query:"direction"`
		Depth     uint64 `query:"depth"`
	}
	// RevocationList is a page of revoked keys.
	RevocationList struct {
		Cursor string `query:"cursor"`
		Limit  uint64 `query:"limit"`
	}
)

// Ranges implements op.Ranged.
func (EventList) Ranges() map[string]op.Range {
	return map[string]op.Range{"from_seq": {Max: maxNumber}, "limit": {Min: 1, Max: maxEvents, Default: int64(defaultEvents)}}
}

// Ranges implements op.Ranged.
func (Kin) Ranges() map[string]op.Range {
	return map[string]op.Range{
		"direction": {Words: []string{string(registry.Descendants), string(registry.Ancestors)}, Default: string(registry.Descendants)},
		"depth":     {Min: 1, Max: maxDepth, Default: int64(defaultDepth)},
	}
}

// Ranges implements op.Ranged.
func (RevocationList) Ranges() map[string]op.Range {
	return map[string]op.Range{"limit": {Min: 1, Max: maxRevocations, Default: int64(maxRevocations)}}
}

// Operations lists the operations of the registry, of search and of the gate.
func Operations() []op.Spec {
	return op.Specs(slices.Concat((&api{}).routes(), logRoutes(&translog.Log{}), (&searchAPI{}).routes(), (&gateAPI{}).routes()))
}

type api struct {
	Config
	caller caller.Verifier
}
