// Package obs makes a host observable: it counts the requests of a call to AWS
// and writes log lines from which CloudWatch extracts metrics.
//
// Adapters count into the Usage of their context, and handlers log with that
// context. The invariants: without a Usage nothing is counted and nothing
// fails. The counts of an invocation are in one log line: its own, or one that
// sums up requests that were not logged. No line holds more than its record and
// these numbers.
package obs

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"
)

// Call identifies an invocation when it begins.
type Call struct {
	Request string // Lambda's request id
	Trace   string // X-Ray's trace id, 1-xxxxxxxx-xxxxxxxxxxxxxxxxxxxxxxxx, or ""
	Cold    bool   // first invocation of its process
	Now     func() time.Time
}

// Usage counts the requests of one invocation to AWS. It is safe for concurrent
// use. A nil Usage counts nothing.
type Usage struct {
	call  Call
	began time.Time

	mu     sync.Mutex
	tick   int // logical time of this usage: orders starts and ends
	free   int // the tick at which the last counted trip ended
	counts Counts
	logged bool // the log line with the counts was written
}

// Counts are the counters of a Usage.
type Counts struct {
	Trips  int     // requests to DynamoDB, one after another; overlapping ones count once
	Reads  float64 // read units
	Writes float64 // write units
	KMS    int     // requests to KMS
}

// Step identifies a request that has begun.
type Step int

type key struct{}

// With starts the usage of an invocation and puts it into the context.
func With(ctx context.Context, c Call) (context.Context, *Usage) {
	u := &Usage{call: c, began: c.Now()}
	return context.WithValue(ctx, key{}, u), u
}

// UsageOf returns the Usage in ctx, or nil.
func UsageOf(ctx context.Context) *Usage {
	u, _ := ctx.Value(key{}).(*Usage)
	return u
}

type requestKey struct{}

// WithRequest returns a context for a request with an id.
func WithRequest(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// RequestOf returns the id of the request that ctx belongs to, which is Lambda's within an invocation; "" outside of
// requests.
func RequestOf(ctx context.Context) string {
	if u := UsageOf(ctx); u != nil && u.call.Request != "" {
		return u.call.Request
	}
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// WithoutCounts returns a context whose lines never have the counts of the invocation. Rows of other
// calls use it, such as a call that the invocation closes because it is overdue.
func WithoutCounts(ctx context.Context) context.Context {
	if u := UsageOf(ctx); u != nil {
		return context.WithValue(ctx, key{}, &Usage{call: u.call, began: u.began, logged: true})
	}
	return ctx
}

// QuietLevel returns the level of the line of a request whose call has a row of its own. It is Debug,
// or Info if no line of the invocation has the counts yet.
func QuietLevel(ctx context.Context) slog.Level {
	if u := UsageOf(ctx); u != nil && !u.Logged() {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// Took returns the attribute with the duration of a request or a call, in milliseconds with two decimals.
func Took(d time.Duration) slog.Attr {
	return slog.Float64("ms", float64(d.Microseconds()/10)/100)
}

// Begin is called before a request to DynamoDB is sent.
func (u *Usage) Begin() Step {
	if u == nil {
		return 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tick++
	return Step(u.tick)
}

// End is called when a request has ended, with its cost in read and write
// units.
//
// A request counts as a trip if it began after the last counted one had ended.
// In the order of their ends, that is the longest chain of requests that waited
// for each other.
func (u *Usage) End(s Step, reads, writes float64) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tick++
	if int(s) > u.free {
		u.counts.Trips, u.free = u.counts.Trips+1, u.tick
	}
	u.counts.Reads += reads
	u.counts.Writes += writes
}

// AskedKMS counts one request to KMS.
func (u *Usage) AskedKMS() {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counts.KMS++
}

// Counts returns the counts so far.
func (u *Usage) Counts() Counts {
	if u == nil {
		return Counts{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.counts
}

// Trace returns the X-Ray trace id of the invocation, or "".
func (u *Usage) Trace() string {
	if u == nil {
		return ""
	}
	return u.call.Trace
}

// Milliseconds returns the duration so far, to a hundredth.
func (u *Usage) Milliseconds() float64 {
	if u == nil {
		return 0
	}
	return math.Round(float64(u.call.Now().Sub(u.began).Microseconds())/10) / 100
}

// Logged reports whether the log line with the counts was written.
func (u *Usage) Logged() bool {
	if u == nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.logged
}

// tell returns the counts; first is true on the first call only.
func (u *Usage) tell() (c Counts, first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	first, u.logged = !u.logged, true
	return u.counts, first
}
