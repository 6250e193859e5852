package edge

import (
	"net/http"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/ratelimit"
)

// readLimit limits the read units of all requests. The units are known only after the answer, so a
// request may overdraw the bucket. Concurrent requests could all overdraw it, but a Lambda instance
// serves only one request at a time.
type readLimit struct {
	next http.Handler
	rate Rate
	now  func() time.Time

	mu     sync.Mutex
	bucket ratelimit.Bucket
}

func (l *readLimit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	debt := l.spend(0) - float64(l.rate.Burst)
	if debt >= 0 {
		wait := l.rate.refillTime(debt) + 1 // at a debt of exactly zero, requests are still refused
		sendTooMany(w, r, wait, "this host receives too many requests")
		return
	}
	usage := obs.UsageOf(r.Context())
	readsBefore := usage.Counts().Reads
	// The reads are counted even if the handler panics.
	defer func() { l.spend(usage.Counts().Reads - readsBefore) }()
	l.next.ServeHTTP(w, r)
}

func (l *readLimit) spend(units float64) (spent float64) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bucket.Fill(l.rate.PerSecond, now)
	l.bucket.Spent += units
	return l.bucket.Spent
}
