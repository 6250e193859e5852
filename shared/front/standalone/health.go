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

// HealthPath and ReadyPath are for monitors and load balancers. They are answered for any Host
// header, because load balancers may send an IP address.
const (
	HealthPath = "/health"
	ReadyPath  = "/ready"
)

const readyTime = 2 * time.Second

type status struct {
	Status string `json:"status"`
}

// withHealth adds two paths to a public handler:
//
//	GET /health   200 while the process serves
//	GET /ready    200 if Ready succeeds, otherwise 503
//
// A host with a single vacant answers /health as the reference implementation does, with the
// vacant's name and state (PROTOCOL §6.1).
func (h *Host) withHealth(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		get := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch {
		case get && r.URL.Path == ReadyPath:
			if err := h.Ready(r.Context()); err != nil {
				httpapi.Fail(w, err)
				return
			}
			_ = httpapi.SendJSON(w, http.StatusOK, status{"ready"})
		case get && r.URL.Path == HealthPath && r.URL.RawQuery == "":
			page := httpapi.NewRecorder(math.MaxInt64)
			next.ServeHTTP(page, r)
			if page.Status != http.StatusOK {
				_ = httpapi.SendJSON(w, http.StatusOK, status{"ok"})
				return
			}
			for name, values := range page.Header() {
				w.Header()[name] = values
			}
			_, _ = w.Write(page.Body.Bytes())
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// Ready returns an error unless the store answers and accepts writes, the disk has space for public
// writes, and the host can open its keys. It opens the key of the host's own identity, and creates
// that key on a new host.
func (h *Host) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if _, _, err := h.Vacants.List(ctx, vacants.Operator(), "", 1); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the store does not answer")
	}
	if err := h.room.check(); err != nil {
		return err
	}
	if err := h.writes.check(ctx); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the store does not accept writes")
	}
	if _, err := h.Vacants.HostID(ctx); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the host's identity cannot be loaded")
	}
	if _, err := h.Vacants.Self(ctx); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the host's keys cannot be opened")
	}
	return nil
}

// writeCheck is the time for which the result of a test write is cached, because anyone may request
// ReadyPath.
const writeCheck = 10 * time.Second

// writes checks whether the store accepts writes.
type writes struct {
	store.Updater
	now func() time.Time

	mu      sync.Mutex
	checked time.Time // time of the last test write, or zero
	failed  error     // result of the last test write
}

func (w *writes) check(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if !w.checked.IsZero() && now.Sub(w.checked).Abs() < writeCheck {
		return w.failed
	}
	// A client that disconnects must not determine the cached result.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTime)
	defer cancel()
	w.failed = w.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, vacants.ReadyDocs.Key())
		vacants.ReadyDocs.Put(tx, d, now)
		return err
	})
	w.checked = now
	return w.failed
}
