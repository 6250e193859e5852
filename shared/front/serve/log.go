package serve

import (
	"context"
	"log/slog"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// SealEvery seals a log at intervals until ctx ends, if there are new events.
// Failures are logged and tried again; a lease held by another process is not a
// failure.
func SealEvery(ctx context.Context, l *translog.Log, every time.Duration, log *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s, err := l.Seal(ctx)
		switch {
		case err == nil && s.Added > 0:
			log.LogAttrs(ctx, slog.LevelInfo, "the log is sealed", slog.Uint64("events", s.Size), slog.Uint64("added", s.Added))
		case err != nil && ctx.Err() == nil && !problem.Is(err, problem.Conflict):
			log.LogAttrs(ctx, slog.LevelError, "the log could not be sealed", slog.String("cause", err.Error()))
		}
	}
}

// seal seals the host's log now.
func (h *Server) seal(ctx context.Context) (admin.Sealed, error) {
	l, err := h.OpenLog(nil)
	if err != nil {
		return admin.Sealed{}, err
	}
	s, err := l.Seal(ctx)
	return admin.Sealed{Host: s.Host, Size: s.Size, Root: s.Root, Epochs: s.Epochs, Added: s.Added}, err
}
