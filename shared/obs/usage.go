// Package obs is what a host tells about itself: what a call asked of AWS, and
// the log lines that say so, in the form from which CloudWatch takes metrics.
//
// It imports the standard library only, and runs through all floors: an
// adapter counts into the Usage of its context, a door logs with that context,
// and neither knows who listens. The invariants: without a Usage in the
// context nothing is counted and nothing fails; one invocation is counted in
// one log line; no line holds more than its record and these numbers.
package obs

import (
	"context"
	"math"
	"sync"
	"time"
)

// Call is what is known of an invocation when it begins.
type Call struct {
	Request string // Lambda's request id
	Trace   string // X-Ray's trace id, 1-xxxxxxxx-xxxxxxxxxxxxxxxxxxxxxxxx; "" if there is none
	Cold    bool   // the first of its process
	Now     func() time.Time
}

// Usage counts what one invocation asks of AWS. It is safe for concurrent use,
// and a nil Usage counts nothing.
type Usage struct {
	call  Call
	began time.Time

	mu     sync.Mutex
	tick   int // of this usage, not of a clock: orders beginnings and ends
	free   int // the tick at which the last trip that counts ended
	counts Counts
	told   bool // the log line with the counts is written
}

// Counts is what a Usage has counted so far.
type Counts struct {
	Trips  int     // requests to DynamoDB, one after another; overlapping ones count once
	Reads  float64 // read units
	Writes float64 // write units
	KMS    int     // requests to KMS
}

// Step is a request that has begun.
type Step int

type key struct{}

// With begins the usage of an invocation and puts it into the context.
func With(ctx context.Context, c Call) (context.Context, *Usage) {
	u := &Usage{call: c, began: c.Now()}
	return context.WithValue(ctx, key{}, u), u
}

// UsageOf is the Usage in ctx, nil if there is none.
func UsageOf(ctx context.Context) *Usage {
	u, _ := ctx.Value(key{}).(*Usage)
	return u
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

// End is called when a request has its answer, or has none to come, with what
// it cost in read and write units.
//
// A request counts as a trip if it began after the last one that counted had
// ended. Taken in the order of their ends, that is the longest row of requests
// that waited for each other.
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

// Counts is what was counted so far.
func (u *Usage) Counts() Counts {
	if u == nil {
		return Counts{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.counts
}

// Trace is X-Ray's trace id of the invocation, "" if there is none.
func (u *Usage) Trace() string {
	if u == nil {
		return ""
	}
	return u.call.Trace
}

// Milliseconds is how long the invocation takes so far, to a hundredth.
func (u *Usage) Milliseconds() float64 {
	if u == nil {
		return 0
	}
	return math.Round(float64(u.call.Now().Sub(u.began).Microseconds())/10) / 100
}

// Told says whether the log line with the counts is written.
func (u *Usage) Told() bool {
	if u == nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.told
}

// tell gives the counts to the first who asks.
func (u *Usage) tell() (c Counts, first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	first, u.told = !u.told, true
	return u.counts, first
}
