// Package obs makes a host observable: it counts a call's requests to AWS and writes log lines from
// which CloudWatch extracts metrics.
//
// Adapters count requests in the Usage of their context, and handlers log with the same context.
// The first line of an invocation with a verdict has the counts.
package obs

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"
)

type Invocation struct {
	RequestID string
	TraceID   string
	Cold      bool
	Now       func() time.Time
}

// Usage counts the AWS requests of one invocation. It is safe for concurrent use. A nil Usage does
// not count.
type Usage struct {
	invocation Invocation
	startedAt  time.Time

	mu           sync.Mutex
	tick         int // logical time that orders starts and ends of requests
	lastTripEnd  int
	counts       Counts
	countsLogged bool
}

type Counts struct {
	Trips  int // sequential requests to DynamoDB; overlapping requests count once
	Reads  float64
	Writes float64
	KMS    int
}

type StartTick int

type usageKey struct{}

func WithUsage(ctx context.Context, c Invocation) (context.Context, *Usage) {
	u := &Usage{invocation: c, startedAt: c.Now()}
	return context.WithValue(ctx, usageKey{}, u), u
}

func UsageOf(ctx context.Context) *Usage {
	u, _ := ctx.Value(usageKey{}).(*Usage)
	return u
}

type requestIDKey struct{}

func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

func RequestID(ctx context.Context) string {
	if u := UsageOf(ctx); u != nil && u.invocation.RequestID != "" {
		return u.invocation.RequestID
	}
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// WithoutCounts returns a context for lines about other calls. The lines never have the
// invocation's counts.
func WithoutCounts(ctx context.Context) context.Context {
	if u := UsageOf(ctx); u != nil {
		return context.WithValue(ctx, usageKey{}, &Usage{invocation: u.invocation, startedAt: u.startedAt, countsLogged: true})
	}
	return ctx
}

// QuietLevel returns the level for a line about a call that another line logs.
func QuietLevel(ctx context.Context) slog.Level {
	if u := UsageOf(ctx); u != nil && !u.HasLoggedCounts() {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func DurationAttr(d time.Duration) slog.Attr {
	return slog.Float64("ms", float64(d.Microseconds()/10)/100)
}

func (u *Usage) BeginRequest() StartTick {
	if u == nil {
		return 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tick++
	return StartTick(u.tick)
}

// EndRequest counts a trip if the request began after the last counted trip had ended. The number
// of trips is therefore the longest chain of sequential requests.
func (u *Usage) EndRequest(start StartTick, reads, writes float64) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tick++
	if int(start) > u.lastTripEnd {
		u.counts.Trips, u.lastTripEnd = u.counts.Trips+1, u.tick
	}
	u.counts.Reads += reads
	u.counts.Writes += writes
}

func (u *Usage) CountKMSRequest() {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counts.KMS++
}

func (u *Usage) Counts() Counts {
	if u == nil {
		return Counts{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.counts
}

func (u *Usage) TraceID() string {
	if u == nil {
		return ""
	}
	return u.invocation.TraceID
}

func (u *Usage) ElapsedMilliseconds() float64 {
	if u == nil {
		return 0
	}
	return math.Round(float64(u.invocation.Now().Sub(u.startedAt).Microseconds())/10) / 100
}

func (u *Usage) HasLoggedCounts() bool {
	if u == nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.countsLogged
}

func (u *Usage) claimCounts() (c Counts, isFirst bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	isFirst, u.countsLogged = !u.countsLogged, true
	return u.counts, isFirst
}
