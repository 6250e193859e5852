// Package ratelimit implements the token bucket of all rate limits.
package ratelimit

import "time"

// Bucket is a token bucket. The zero Bucket is full, so a bucket that has become full again can be
// dropped.
type Bucket struct {
	Spent    float64 // tokens used and not yet refilled
	lastFill int64   // wall clock time of the last Fill, in nanoseconds
}

// Fill refills the bucket with perSecond tokens for each second since the last Fill. It uses
// the wall clock, because the monotonic clock may stop while a Lambda function is frozen. If the
// wall clock was set back since the last Fill, Fill adds no tokens. If it was set far forward, the
// bucket becomes full.
func (b *Bucket) Fill(perSecond float64, now time.Time) {
	nanos := now.UnixNano()
	if elapsed := nanos - b.lastFill; elapsed > 0 {
		b.Spent = max(0, b.Spent-float64(elapsed)/1e9*perSecond)
	}
	b.lastFill = nanos
}
