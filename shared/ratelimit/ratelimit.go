// Package ratelimit implements the token bucket of all rate limits.
package ratelimit

import "time"

// Bucket is a token bucket. The zero Bucket is full, so an idle bucket equals an unused one.
type Bucket struct {
	Spent float64 // tokens missing to capacity
	at    int64   // wall clock time of the last Fill, in nanoseconds
}

// Fill adds the tokens since the last Fill, at perSecond. It uses the wall clock, because the
// monotonic clock may stop while a function is frozen. If the wall clock steps back, the bucket
// does not fill until it has caught up. If it jumps forward, the bucket becomes full.
func (b *Bucket) Fill(perSecond float64, now time.Time) {
	nanos := now.UnixNano()
	if passed := nanos - b.at; passed > 0 {
		b.Spent = max(0, b.Spent-float64(passed)/1e9*perSecond)
	}
	b.at = nanos
}
