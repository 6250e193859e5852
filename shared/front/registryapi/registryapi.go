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
	"time"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// Config configures the registry's handler.
type Config struct {
	Registry *registry.Registry
	// Vacants stores revocations and manifests, which also change the records of
	// hosted vacants.
	Vacants *vacants.Directory
	// Log is the transparency log of the registry's events; nil: no log routes.
	Log Log
	// URL returns the host's base URL, for which callers may sign their proofs;
	// nil: none.
	URL func(context.Context) (string, error)
	// TrustedHost: a router chose this host by the request's Host, so callers
	// may sign for that Host too. Otherwise the sender chose the Host freely,
	// and only a loopback address is accepted.
	TrustedHost bool
	Now         func() time.Time
	Logger      *slog.Logger
}

// Registry returns the handler of everything but search: of the operations that write (publish.go),
// of
//
//	GET  /v1/capability_card/{id}
//	GET  /v1/event_log/{id}?from_seq=&limit=
//	GET  /v1/event/{seq}
//	GET  /v1/lineage/{id}?direction=&depth=
//	GET  /v1/revocation_list?cursor=&limit=
//
// and the routes of the transparency log. Refusals are {"detail", "code"}.
func Registry(c Config) http.Handler {
	d := &api{Config: c, caller: caller.Verifier{URL: c.URL, Routed: c.TrustedHost, Revoked: c.Registry.IsRevoked, Now: c.Now}}
	routes := op.Routes(d.writes()...)
	for path, serve := range map[string]httpapi.Handler{
		"/v1/capability_card/{id}": d.card,
		"/v1/event_log/{id}":       d.eventLog,
		"/v1/event/{seq}":          d.event,
		"/v1/lineage/{id}":         d.lineage,
		"/v1/revocation_list":      d.revocations,
	} {
		routes[path] = httpapi.Methods{http.MethodGet: serve}
	}
	for path, m := range logRoutes(c.Log) {
		routes[path] = m
	}
	return httpapi.API{Name: "registry", Log: c.Logger, Now: c.Now, ReadLevel: slog.LevelDebug}.Mux(routes)
}

// writes are the routes of what anybody brings that is signed.
func (d *api) writes() []op.Route {
	return []op.Route{
		op.On(op.Server{}, Publish, d.publish),
		op.On(op.Server{}, Revoke, d.revoke),
		op.On(op.Server{}, PutListing, d.listing),
		op.On(op.Server{}, AddManifest, d.manifest),
	}
}

// Operations lists the operations that write, those of the log and of the gate, too.
func Operations() []op.Spec {
	return append(op.Specs((&api{}).writes()), Witness.Spec(), Submit.Spec())
}

type api struct {
	Config
	caller caller.Verifier
}
