// Package ratelimit has the token bucket of all rate limits.
package ratelimit

import "time"

// Bucket is a token bucket. The zero Bucket is full, so an idle bucket equals
// an unused one.
type Bucket struct {
	Spent float64 // tokens below capacity
	at    int64   // time of the last Fill, in nanoseconds of the wall clock
}

// Fill adds the tokens since the last Fill, at perSecond.
//
// It uses the wall clock, because the monotonic clock may stop while a function
// is frozen. If the wall clock steps back, the bucket gains nothing until the
// clock catches up; if it leaps ahead, the bucket is full.
func (b *Bucket) Fill(perSecond float64, now time.Time) {
	at := now.UnixNano()
	if passed := at - b.at; passed > 0 {
		b.Spent = max(0, b.Spent-float64(passed)/1e9*perSecond)
	}
	b.at = at
}
