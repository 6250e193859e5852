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

// MinFreeBytes returns the free space below which public writes are refused on a disk of the given
// size. It is 1 GiB, or 5 % of a small disk, or zero if the size is unknown. The remaining space is
// for the operator, the deletion of expired data and running calls.
func MinFreeBytes(size int64) int64 { return max(min(1<<30, size/20), 0) }

// spaceCheckInterval is the time for which a check of the disk is cached. A host writes at most
// about 100 MB in this time, which fits into the reserve of MinFreeBytes.
const spaceCheckInterval = 5 * time.Second

// diskMonitor watches the free space of the data directory's disk.
type diskMonitor struct {
	measure func() (free, size int64)
	now     func() time.Time

	mu        sync.Mutex
	lastCheck time.Time // time of the last check, or zero
	freeBytes int64     // free bytes at the last check
	isLow     bool      // freeBytes is less than MinFreeBytes
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

// retryAfterSeconds is the Retry-After value in seconds for refused writes.
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
