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

func (h *Server) LogGateWarnings(ctx context.Context, log *slog.Logger) {
	warnings, err := h.Gate.Warnings(ctx)
	for _, text := range warnings {
		log.LogAttrs(ctx, slog.LevelWarn, text)
	}
	if err != nil {
		log.LogAttrs(ctx, slog.LevelError, "the policies of the gate cannot be read", slog.String("cause", err.Error()))
	}
}

func (h *Server) GateHandler(gate graduation.Gate) http.Handler {
	if gate == nil {
		gate = h.Gate
	}
	return registryapi.NewGraduationHandler(registryapi.GraduationConfig{
		Gate: gate, IsRevoked: h.Registry.IsRevoked, URL: h.Vacants.BaseURL, TrustHostHeader: h.config.TrustHostHeader, Now: h.config.Now, Logger: h.config.Log,
	})
}

func (h *Server) ChildrenHandler() http.Handler {
	return admin.SignedChildrenHandler(admin.Config{Vacants: h.Vacants, Log: h.config.Log},
		&spawning.Requests{Store: h.config.Store, Now: h.config.Now, Rand: h.config.Rand})
}
