package serve

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/family/collusionevidence"
	"github.com/vacancy-host/vacancy/shared/host/family/delegation"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/family/spawning"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// openGate makes the gate of a house that is put together but for its doors.
func (h Home) openGate(house *House) *graduation.Service {
	return graduation.New(graduation.Config{
		Store: h.Store, Vacants: house.Vacants, Registry: house.Registry, Now: h.Now, Rand: h.Rand,
		Evidence: &collusionevidence.Collector{Store: h.Store, Vacants: house.Vacants, Registry: house.Registry, Texts: house.Texts, Now: h.Now},
	})
}

// WarnOfGate says in the log where the check for collusion was switched off. A
// home calls it when it starts.
func (h *House) WarnOfGate(ctx context.Context, log *slog.Logger) {
	said, err := h.Gate.Warnings(ctx)
	for _, text := range said {
		log.LogAttrs(ctx, slog.LevelWarn, text)
	}
	if err != nil {
		log.LogAttrs(ctx, slog.LevelError, "the policies of the gate cannot be read", slog.String("cause", err.Error()))
	}
}

// GateDoor is the public door of the gate: nil is the house's own, which walks
// an attempt to its end before it answers.
func (h *House) GateDoor(gate graduation.Gate) http.Handler {
	if gate == nil {
		gate = h.Gate
	}
	return registryapi.Graduations(registryapi.GraduationsConfig{
		Gate: gate, Revoked: h.Registry.IsRevoked, URL: h.Vacants.Base, Routed: h.home.Routed, Now: h.home.Now, Logger: h.home.Log,
	})
}

// ChildrenDoor is where a parent asks for children by its own signature.
func (h *House) ChildrenDoor() http.Handler {
	return admin.Signed(admin.Config{Vacants: h.Vacants, Log: h.home.Log},
		&spawning.Requests{Store: h.home.Store, Now: h.home.Now, Rand: h.home.Rand})
}

// report is what the control door tells of children.
func (h *House) report(ctx context.Context, parent identity.ID, cursor string, n int) ([]delegation.Child, string, error) {
	return delegation.Report(ctx, h.Vacants, h.home.Store, parent, cursor, n)
}

// keyed is the control door of a home with an operator: by the operator's key
// alone, but for parents, which ask for their children by their own.
func (h Home) keyed(routes, children http.Handler) http.Handler {
	operators := admin.Keyed(h.Operator, routes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && admin.ChildrenPath(r.URL.Path) && r.Header["Authorization"] == nil {
			children.ServeHTTP(w, r)
			return
		}
		operators.ServeHTTP(w, r)
	})
}
