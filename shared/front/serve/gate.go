package serve

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/answer/delegation"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/family/collusionevidence"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/family/spawning"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// newGate makes the gate of a server.
func (h Config) newGate(server *Server) *graduation.Service {
	return graduation.New(graduation.Config{
		Store: h.Store, Vacants: server.Vacants, Registry: server.Registry, Now: h.Now, Rand: h.Rand,
		Evidence: &collusionevidence.Collector{Store: h.Store, Vacants: server.Vacants, Registry: server.Registry, Texts: server.Texts, Now: h.Now},
	})
}

// LogGateWarnings logs for whom the collusion check was switched off. A host
// calls it when it starts.
func (h *Server) LogGateWarnings(ctx context.Context, log *slog.Logger) {
	said, err := h.Gate.Warnings(ctx)
	for _, text := range said {
		log.LogAttrs(ctx, slog.LevelWarn, text)
	}
	if err != nil {
		log.LogAttrs(ctx, slog.LevelError, "the policies of the gate cannot be read", slog.String("cause", err.Error()))
	}
}

// GateHandler is the public handler of the gate. nil means the server's own
// gate, which completes an attempt before it answers.
func (h *Server) GateHandler(gate graduation.Gate) http.Handler {
	if gate == nil {
		gate = h.Gate
	}
	return registryapi.Graduations(registryapi.GraduationsConfig{
		Gate: gate, Revoked: h.Registry.IsRevoked, URL: h.Vacants.Base, TrustedHost: h.config.TrustedHost, Now: h.config.Now, Logger: h.config.Log,
	})
}

// ChildrenHandler is the route where a parent requests children by its own
// signature.
func (h *Server) ChildrenHandler() http.Handler {
	return admin.SignedChildren(admin.Config{Vacants: h.Vacants, Log: h.config.Log},
		&spawning.Requests{Store: h.config.Store, Now: h.config.Now, Rand: h.config.Rand})
}

// report returns the children for the admin socket.
func (h *Server) report(ctx context.Context, by vacants.Asker, parent identity.ID, cursor string, n int) ([]delegation.Child, string, error) {
	return delegation.Report(ctx, by, h.Vacants, h.config.Store, parent, cursor, n)
}

// requireOperatorKey admits holders of the operator's key to all routes. It admits parents
// to the route where they request children by their own signature, and tenants, by a key of
// their account, to the routes of their vacants.
func (h Config) requireOperatorKey(routes, children, tenants http.Handler) http.Handler {
	operators := admin.RequireKey(h.Operator, routes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && admin.ChildrenPath(r.URL.Path) && r.Header["Authorization"] == nil {
			children.ServeHTTP(w, r)
			return
		}
		if secret, err := billing.Bearer(r); err == nil && tenants != nil && billing.IsSecret(secret) {
			tenants.ServeHTTP(w, r)
			return
		}
		operators.ServeHTTP(w, r)
	})
}
