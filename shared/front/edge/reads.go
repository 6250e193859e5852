package edge

import (
	"net/http"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/obs"
)

// reads is one bucket of read units for all requests, and lets them through
// while it holds any. What a request reads is known when it has its answer: the
// last one may take more than there is, and the others wait until that is paid
// back. Those that are served at the same time may all be the last; Lambda gives
// an instance one at a time.
type reads struct {
	next http.Handler
	rate Rate
	now  func() time.Time

	mu     sync.Mutex
	bucket bucket
}

func (l *reads) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if wait, ok := l.open(); !ok {
		refuse(w, wait, "too many requests of all callers together")
		return
	}
	usage := obs.UsageOf(r.Context())
	before := usage.Counts().Reads
	// A handler that panics has read as well.
	defer func() { l.spend(usage.Counts().Reads - before) }()
	l.next.ServeHTTP(w, r)
}

// open reports whether anything is left, or how long it is until it is.
func (l *reads) open() (wait time.Duration, ok bool) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bucket.fill(l.rate, now)
	if over := l.bucket.spent - float64(l.rate.Burst); over >= 0 {
		return l.rate.within(over) + 1, false // a nanosecond after it is paid back
	}
	return 0, true
}

func (l *reads) spend(units float64) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bucket.fill(l.rate, now)
	l.bucket.spent += units
}
