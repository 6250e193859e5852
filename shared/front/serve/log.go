package serve

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
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

// SealHandler serves POST /v1/admin/log/seal with the log that open returns.
func SealHandler(open func() (*translog.Log, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l, err := open()
		if err != nil {
			httpapi.Fail(w, err)
			return
		}
		s, err := l.Seal(r.Context())
		if err != nil {
			httpapi.Fail(w, err)
			return
		}
		b, err := json.Marshal(admin.Sealed{Host: s.Host, Size: s.Size, Root: s.Root, Epochs: s.Epochs, Added: s.Added})
		if err != nil {
			httpapi.Fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(b)
	})
}
