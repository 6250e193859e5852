package serve

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Meter folds the host's rows into usage; nil if the host has no feed.
func (h *Server) Meter() *usage.Meter {
	c := &h.config
	if c.Feed == nil {
		return nil
	}
	return &usage.Meter{Store: c.Store, Feed: c.Feed, Now: c.Now, Rand: c.Rand, Owner: h.owner}
}

func (h *Server) owner(ctx context.Context, id identity.ID) (string, error) {
	return vacants.TenantOf(ctx, h.config.Store, id)
}

// recount corrects usage by all rows; nil if the host cannot list them.
func (h *Server) recount() func(context.Context) (usage.Recounted, error) {
	if h.config.Rows == nil {
		return nil
	}
	return func(ctx context.Context) (usage.Recounted, error) {
		m := h.Meter()
		r := usage.Recounter{Meter: m, Rows: h.config.Rows, Fold: func(ctx context.Context) error {
			_, err := m.Fold(ctx)
			return err
		}}
		return r.Recount(ctx)
	}
}

// MeterEvery folds usage at once and then at intervals, until ctx ends. Failures are logged
// once, and tried again.
func (h *Server) MeterEvery(ctx context.Context, every time.Duration, log *slog.Logger) {
	m := h.Meter()
	if m == nil {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last error
	for {
		f, err := m.Fold(ctx)
		LogUnreported(ctx, f, log)
		if err != nil && ctx.Err() == nil && (last == nil || !errors.Is(err, last) && err.Error() != last.Error()) {
			log.LogAttrs(ctx, slog.LevelError, "usage is not folded", slog.String("cause", err.Error()))
		}
		last = err
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// LogUnreported warns of vacants whose answers have a price by tokens that their agents do not
// report, once an hour each. The tokens cost nothing then.
func LogUnreported(ctx context.Context, f usage.Folded, log *slog.Logger) {
	for _, h := range f.Unreported {
		log.LogAttrs(ctx, slog.LevelWarn, "the agent does not report all tokens, so a price by tokens does not charge for them",
			slog.String("vacant", h.Vacant.String()), slog.Time("hour", h.Start), slog.Uint64("answers", h.Unreported))
	}
}
