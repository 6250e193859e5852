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

// HealthPath and ReadyPath are for monitors and load balancers. They are
// answered under any Host, because balancers ask by address.
const (
	HealthPath = "/health"
	ReadyPath  = "/ready"
)

const readyTime = 2 * time.Second

// status is the body of both paths.
type status struct {
	Status string `json:"status"`
}

// checked adds to a public handler
//
//	GET /health   200 while the process serves
//	GET /ready    200 if the store takes writes, the disk has room and the keys open, else 503
//
// A host of one vacant answers /health as the reference does, with that vacant's
// name and state (PROTOCOL §6.1).
func (h *Host) checked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		get := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch {
		case get && r.URL.Path == ReadyPath:
			if err := h.Ready(r.Context()); err != nil {
				httpapi.Fail(w, err)
				return
			}
			_ = httpapi.Answer(w, http.StatusOK, status{"ready"})
		case get && r.URL.Path == HealthPath && r.URL.RawQuery == "":
			page := httpapi.NewRecorder(math.MaxInt64)
			next.ServeHTTP(page, r)
			if page.Status != http.StatusOK {
				_ = httpapi.Answer(w, http.StatusOK, status{"ok"})
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

// Ready reports whether the store answers and takes writes, whether the disk has room for
// the public's writes, and whether the host can open its keys. It tries the key of the host's
// own identity; a new host makes that key here.
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
		return problem.Wrap(problem.Unavailable, err, "the store takes no writes")
	}
	if _, err := h.Vacants.SelfID(ctx); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the host's identity is not there")
	}
	if _, err := h.Vacants.Self(ctx); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the keys do not open")
	}
	return nil
}

// writeCheck is the time for which the outcome of a write is reported again, because
// anybody may ask for ReadyPath.
const writeCheck = 10 * time.Second

// writes tries whether the store takes a write.
type writes struct {
	store.Updater
	now func() time.Time

	mu      sync.Mutex
	checked time.Time
	failed  error
}

// check writes one document, always the same.
func (w *writes) check(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if !w.checked.IsZero() && now.Sub(w.checked).Abs() < writeCheck {
		return w.failed
	}
	// A client that leaves does not decide for others.
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
