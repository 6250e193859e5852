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

// MinFreeBytes returns the free space below which a host refuses public writes on a disk of the
// given size.
func MinFreeBytes(size int64) int64 { return max(min(1<<30, size/20), 0) }

// A host writes at most about 100 MB in this interval, which fits into the reserve of MinFreeBytes.
const spaceCheckInterval = 5 * time.Second

type diskMonitor struct {
	measure func() (free, size int64)
	now     func() time.Time

	mu        sync.Mutex
	lastCheck time.Time
	freeBytes int64
	isLow     bool
}

func (d *diskMonitor) check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.now(); d.lastCheck.IsZero() || now.Sub(d.lastCheck).Abs() >= spaceCheckInterval {
		free, size := d.measure()
		d.lastCheck, d.freeBytes, d.isLow = now, free, free >= 0 && free < MinFreeBytes(size)
	}
	if !d.isLow {
		return nil
	}
	return problem.New(problem.Unavailable, "the disk of the host's data has only %d MB left", d.freeBytes>>20)
}

const retryAfterSeconds = 60

// refuseWrites refuses requests that may write while the disk has too little space. It accepts
// revocations and payments, because they are small and urgent.
func (d *diskMonitor) refuseWrites(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isRead := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
		if isRead || r.URL.Path == registryapi.Revoke.Path || r.URL.Path == account.StripePath || d.check() == nil {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", strconv.Itoa(retryAfterSeconds))
		httpapi.Fail(w, problem.New(problem.TooManyRequests, "the host has too little disk space for most writes now; try again in %d s", retryAfterSeconds))
	})
}
