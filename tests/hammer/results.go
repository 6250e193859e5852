package hammer

import (
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// histogram counts durations in buckets of about 1.5 %: 128 to each power of
// two of microseconds.
const (
	bucketBits = 7
	maxShift   = 24 // about 35 minutes
	buckets    = (maxShift + 1) << bucketBits
)

type histogram [buckets]uint64

func bucketOf(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	shift := max(bits.Len64(us)-bucketBits, 0)
	if shift > maxShift {
		return buckets - 1
	}
	return shift<<bucketBits | int(us>>shift)
}

// upper is the longest duration in a bucket.
func upper(bucket int) time.Duration {
	shift := bucket >> bucketBits
	us := (uint64(bucket)&(1<<bucketBits-1) + 1) << shift
	return time.Duration(us-1) * time.Microsecond
}

// quantile is the duration that a share of all is not longer than.
func (h *histogram) quantile(q float64) time.Duration {
	var all uint64
	for _, n := range h {
		all += n
	}
	rank, seen := uint64(q*float64(all)), uint64(0)
	for i, n := range h {
		if seen += n; n > 0 && seen > rank || seen == all && n > 0 {
			return upper(i)
		}
	}
	return 0
}

// Results are the counts of a run. Answered calls, which are many, are counted
// in shards; others are rare.
type Results struct {
	shards []shard

	mu     sync.Mutex
	errors map[string]uint64
	first  map[string]string // by code: the first text
	resent uint64
	fatal  error
}

type shard struct {
	counts [buckets]atomic.Uint64
	_      [64]byte // pads to the next cache line
}

func newResults(pairs int) Results {
	return Results{shards: make([]shard, min(pairs, 16)), errors: map[string]uint64{}, first: map[string]string{}}
}

func (r *Results) answered(caller int, took time.Duration) {
	r.shards[caller%len(r.shards)].counts[bucketOf(took)].Add(1)
}

// failed counts a call without a valid answer.
func (r *Results) failed(code, detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.errors[code]++; r.errors[code] == 1 {
		r.first[code] = detail
	}
}

// sentAgain counts a repeated request.
func (r *Results) sentAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resent++
}

// refuse records the refusal that ends the run.
func (r *Results) refuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fatal == nil {
		r.fatal = err
	}
}

func (r *Results) refused() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fatal
}

// counts is a snapshot of the results.
type counts struct {
	calls  uint64
	took   histogram
	errors map[string]uint64
	first  map[string]string
	resent uint64
}

func (r *Results) take() *counts {
	c := &counts{}
	for i := range r.shards {
		for b := range r.shards[i].counts {
			n := r.shards[i].counts[b].Load()
			c.took[b] += n
			c.calls += n
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c.errors, c.first, c.resent = maps.Clone(r.errors), maps.Clone(r.first), r.resent
	return c
}

// Summary is the result of a run. Durations are from the first byte sent to the
// last received, of answered calls.
type Summary struct {
	Elapsed            time.Duration
	Calls              uint64 // answered and verified
	PerSecond          float64
	P50, P90, P99, Max time.Duration
	Resent             uint64            // requests sent again with the same bytes
	Errors             map[string]uint64 // by code
	First              map[string]string // by code: the first text
	Interrupted        bool
}

func (r *Results) summary(elapsed time.Duration) Summary {
	c := r.take()
	return Summary{
		Elapsed: elapsed, Calls: c.calls, PerSecond: float64(c.calls) / max(elapsed.Seconds(), 1e-9),
		P50: c.took.quantile(0.5), P90: c.took.quantile(0.9), P99: c.took.quantile(0.99), Max: c.took.quantile(1),
		Resent: c.resent, Errors: c.errors, First: c.first,
	}
}
