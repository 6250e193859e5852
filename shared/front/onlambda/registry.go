package onlambda

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// RegistryHandler is the handler of the registry, with its transparency log.
func RegistryHandler(h *Env) http.Handler { return h.Server.RegistryHandler(h.log()) }

// renewTime bounds what a key may take, so that time is left for the log.
const renewTime = 10 * time.Second

// Seal seals the log at each invocation, and makes the key that signs receipts in time. It
// ignores the event. If another process is sealing, that is no error. It does not return.
func Seal() {
	Run(functions.Checkpointer, func(h *Env) Work {
		log := h.log()
		return func(ctx context.Context, _ json.RawMessage) ([]slog.Attr, error) {
			// The log is sealed even if no key can be made, and the reverse.
			short, cancel := context.WithTimeout(ctx, renewTime)
			renewed := h.Server.SigningKeys.Renew(short)
			cancel()
			sealed, err := log.Seal(ctx)
			if problem.Is(err, problem.Conflict) {
				return []slog.Attr{slog.String("sealing", "another")}, renewed
			}
			return []slog.Attr{slog.Uint64("size", sealed.Size), slog.Uint64("added", sealed.Added)}, errors.Join(err, renewed)
		}
	})
}

// Reach probes endpoints elsewhere at each invocation and ignores the event. It
// does not return.
func Reach() {
	Run(functions.Prober, func(h *Env) Work {
		probe := registry.Prober(h.Outbound)
		return func(ctx context.Context, _ json.RawMessage) ([]slog.Attr, error) {
			reached, err := h.Server.Registry.Reach(ctx, probe)
			return []slog.Attr{slog.Int("listed", reached.Listed), slog.Int("silent", reached.Silent), slog.Bool("more", reached.More)}, err
		}
	})
}

// log is the transparency log of the registry.
func (h *Env) log() *translog.Log {
	l, err := h.Server.OpenLog(nil)
	if err != nil {
		panic(err) // only a witness's key can be wrong, and none is configured
	}
	return l
}
