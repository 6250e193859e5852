package standalone

import (
	"context"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// HealthPath and ReadyPath are answered for any Host header, because load balancers may send an IP
// address.
const (
	HealthPath = "/health"
	ReadyPath  = "/ready"
)

const readyTimeout = 2 * time.Second

type healthStatus struct {
	Status string `json:"status"`
}

// withHealth adds two paths to a public handler:
//
//	GET /health   200 while the process serves
//	GET /ready    200 if CheckReady succeeds, otherwise 503
func (h *Host) withHealth(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch {
		case isRead && r.URL.Path == ReadyPath:
			if err := h.CheckReady(r.Context()); err != nil {
				httpapi.Fail(w, err)
				return
			}
			_ = httpapi.SendJSON(w, http.StatusOK, healthStatus{"ready"})
		case isRead && r.URL.Path == HealthPath && r.URL.RawQuery == "":
			// For a host with a single vacant, next answers with the vacant's name and state, as
			// the reference does (PROTOCOL §6.1).
			recorder := httpapi.NewRecorder(math.MaxInt64)
			next.ServeHTTP(recorder, r)
			if recorder.Status != http.StatusOK {
				_ = httpapi.SendJSON(w, http.StatusOK, healthStatus{"ok"})
				return
			}
			for name, values := range recorder.Header() {
				w.Header()[name] = values
			}
			_, _ = w.Write(recorder.Body.Bytes())
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// CheckReady returns an error unless the store answers and accepts writes, the disk has space, and
// the host can open its keys.
func (h *Host) CheckReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if _, _, err := h.Vacants.List(ctx, vacants.OperatorAsker(), "", 1); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the store does not answer")
	}
	if err := h.diskMonitor.check(); err != nil {
		return err
	}
	if err := h.writeProbe.check(ctx); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the store does not accept writes")
	}
	if _, err := h.Vacants.HostID(ctx); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the host's identity cannot be loaded")
	}
	if _, err := h.Vacants.HostSigner(ctx); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the host's keys cannot be opened")
	}
	return nil
}

// Anyone may request ReadyPath, so the result of a test write is cached for this interval.
const writeProbeInterval = 10 * time.Second

type writeProbe struct {
	store.Updater
	now func() time.Time

	mu        sync.Mutex
	lastProbe time.Time
	lastErr   error
}

func (w *writeProbe) check(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if !w.lastProbe.IsZero() && now.Sub(w.lastProbe).Abs() < writeProbeInterval {
		return w.lastErr
	}
	// A client that disconnects must not determine the cached result.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	w.lastErr = w.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, vacants.ReadyDocs.Key())
		vacants.ReadyDocs.Put(tx, d, now)
		return err
	})
	w.lastProbe = now
	return w.lastErr
}
