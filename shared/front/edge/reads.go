package edge

import (
	"net/http"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/ratelimit"
)

// reads is one bucket of read units for all requests. The units of a request
// are known only after its answer, so a request is admitted while any unit is
// left and may overdraw the bucket; later requests wait until the debt is
// refilled. Concurrent requests may all overdraw, but Lambda gives an instance
// one request at a time.
type reads struct {
	next http.Handler
	rate Rate
	now  func() time.Time

	mu     sync.Mutex
	bucket ratelimit.Bucket
}

func (l *reads) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if wait, ok := l.open(); !ok {
		refuse(w, r, wait, "too many requests of all callers together")
		return
	}
	usage := obs.UsageOf(r.Context())
	before := usage.Counts().Reads
	// A handler that panics has spent reads too.
	defer func() { l.spend(usage.Counts().Reads - before) }()
	l.next.ServeHTTP(w, r)
}

// open reports whether units are left, or how long until there are.
func (l *reads) open() (wait time.Duration, ok bool) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bucket.Fill(l.rate.PerSecond, now)
	if over := l.bucket.Spent - float64(l.rate.Burst); over >= 0 {
		return l.rate.within(over) + 1, false // one nanosecond after the debt is refilled
	}
	return 0, true
}

func (l *reads) spend(units float64) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bucket.Fill(l.rate.PerSecond, now)
	l.bucket.Spent += units
}
