package serve

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/family/spawning"
)

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
