package standalone

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// MinFree is the free space below which the public may not write to a disk of the given size:
// the rest is for the operator, the sweeper and the calls under way. It is 1 GiB, or 5 % of
// a small disk; 0 if the size is unknown.
func MinFree(size int64) int64 { return max(min(1<<30, size/20), 0) }

// roomCheck is the time for which a look at the disk counts. In this time one host writes
// some 100 MB at most, which the space below MinFree takes.
const roomCheck = 5 * time.Second

// room watches the space of the data directory's disk.
type room struct {
	disk func() (free, size int64)
	now  func() time.Time

	mu      sync.Mutex
	checked time.Time
	free    int64
	short   bool
}

// check returns an error while the disk has less than MinFree.
func (d *room) check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.now(); d.checked.IsZero() || now.Sub(d.checked).Abs() >= roomCheck {
		free, size := d.disk()
		d.checked, d.free, d.short = now, free, free >= 0 && free < MinFree(size)
	}
	if !d.short {
		return nil
	}
	return problem.New(problem.Unavailable, "the disk of the host's data has only %d MB left", d.free>>20)
}

// retryAfter is told to writers that found no room, in seconds.
const retryAfter = 60

// spare refuses requests that may write while there is too little room. Revocations and
// payments are small and must not wait.
func (d *room) spare(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
		if reads || r.URL.Path == registryapi.Revoke.Path || r.URL.Path == account.StripePath || d.check() == nil {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		httpapi.Fail(w, problem.New(problem.TooMany, "the host has no room for more now; try again in %d s", retryAfter))
	})
}
