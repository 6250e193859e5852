// Package registryapi is the HTTP handler of the registry. It publishes and revokes vacants, serves
// cards and events, and searches, in the forms of the reference with additional members (PROTOCOL
// §19).
//
// A reader is identified by the signature in the proof header, never by a query parameter. Answers
// that caches may store are the same for every client. Queries and keys are not logged.
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
	"github.com/vacancy-host/vacancy/shared/host/reviews"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

type Config struct {
	Registry *registry.Registry
	// Vacants stores revocations and manifests, because both also change the records of hosted
	// vacants.
	Vacants *vacants.Directory
	Reviews *reviews.Service
	// If Log is nil, the handler has no log routes.
	Log Log
	// URL returns the host's base URL, which callers may name in signed proofs. If URL is nil, the
	// host has no base URL.
	URL func(context.Context) (string, error)
	// TrustHostHeader is true if a router chose this host by the Host header of the request.
	// Otherwise the sender chooses the header, and it is accepted only if it is a loopback address.
	TrustHostHeader bool
	Now             func() time.Time
	Logger          *slog.Logger
}

// NewRegistryHandler returns the handler of all operations except search and the gate.
func NewRegistryHandler(c Config) http.Handler {
	d := &api{Config: c, verifier: caller.Verifier{URL: c.URL, TrustHostHeader: c.TrustHostHeader, IsRevoked: c.Registry.IsRevoked, Now: c.Now}}
	return httpapi.API{Name: "registry", Log: c.Logger, Now: c.Now, ReadLevel: slog.LevelDebug}.Mux(op.RoutesByPath(slices.Concat(d.routes(), d.reviewRoutes(), logRoutes(c.Log))...))
}

func (d *api) routes() []op.Route {
	s := op.Server{}
	return []op.Route{
		op.NewRoute(s, Publish, d.acceptPublication),
		op.NewRoute(s, Revoke, d.acceptRevocation),
		op.NewRoute(s, PutListing, d.acceptListing),
		op.NewRoute(s, AddManifest, d.acceptManifest),
		op.NewHandlerRoute(GetCard.Spec(), d.serveCard),
		op.NewHandlerRoute(ListEvents.Spec(), d.serveEvents),
		op.NewHandlerRoute(GetEvent.Spec(), d.serveEvent),
		op.NewHandlerRoute(GetLineage.Spec(), d.serveLineage),
		op.NewHandlerRoute(ListRevocations.Spec(), d.serveRevocations),
		op.NewHandlerRoute(Describe.Spec(), func(w http.ResponseWriter, r *http.Request) error {
			sendWithETag(w, r, openapi.JSON)
			return nil
		}),
	}
}

// The handlers parse the query themselves, because an invalid parameter becomes 422 as in the
// reference.
var (
	GetCard         = op.Op[VacantRef, registryclient.Match]{Method: "GET", Path: "/v1/capability_card/{id}", Access: readerAccess, Doc: "shows the capability card of a vacant"}
	ListEvents      = op.Op[EventsRequest, []registryclient.Event]{Method: "GET", Path: "/v1/event_log/{id}", Access: readerAccess, Doc: "lists the events of a vacant"}
	GetEvent        = op.Op[EventRef, registryclient.Event]{Method: "GET", Path: "/v1/event/{seq}", Access: readerAccess, Doc: "shows an event"}
	GetLineage      = op.Op[LineageRequest, registryclient.Lineage]{Method: "GET", Path: "/v1/lineage/{id}", Access: readerAccess, Doc: "lists the ancestors or descendants of a vacant"}
	ListRevocations = op.Op[RevocationsRequest, []registryclient.Revoked]{Method: "GET", Path: "/v1/revocation_list", Access: op.Access{Anybody: true}, Doc: "lists revoked keys"}
	Describe        = op.Op[op.None, op.Raw[any]]{Method: "GET", Path: "/v1/openapi.json", Access: op.Access{Anybody: true}, Doc: "describes all operations, as this document"}
)

// readerAccess admits any client. A vacant that signs its request also sees its private data.
var readerAccess = op.Access{Anybody: true, Vacant: true}

type (
	VacantRef struct {
		ID string `path:"id"`
	}
	EventsRequest struct {
		VacantRef
		From  uint64 `query:"from_seq"`
		Limit uint64 `query:"limit"`
	}
	EventRef struct {
		Seq uint64 `path:"seq"`
	}
	// Direction is "ancestors" or "descendants".
	LineageRequest struct {
		VacantRef
		Direction string `query:"direction"`
		Depth     uint64 `query:"depth"`
	}
	RevocationsRequest struct {
		Cursor string `query:"cursor"`
		Limit  uint64 `query:"limit"`
	}
)

func (EventsRequest) Ranges() map[string]op.Range {
	return map[string]op.Range{"from_seq": {Max: maxNumber}, "limit": {Min: 1, Max: maxEvents, Default: int64(defaultEvents)}}
}

func (LineageRequest) Ranges() map[string]op.Range {
	return map[string]op.Range{
		"direction": {Words: []string{string(registry.Descendants), string(registry.Ancestors)}, Default: string(registry.Descendants)},
		"depth":     {Min: 1, Max: maxDepth, Default: int64(defaultDepth)},
	}
}

func (RevocationsRequest) Ranges() map[string]op.Range {
	return map[string]op.Range{"limit": {Min: 1, Max: maxRevocations, Default: int64(maxRevocations)}}
}

func Operations() []op.Spec {
	return op.Specs(slices.Concat((&api{}).routes(), (&api{}).reviewRoutes(), logRoutes(&translog.Log{}), (&searchAPI{}).routes(), (&gateAPI{}).routes()))
}

type api struct {
	Config
	verifier caller.Verifier
}
