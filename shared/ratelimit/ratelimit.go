// Package ratelimit implements the token bucket of all rate limits.
package ratelimit

import "time"

// Bucket is a token bucket. The zero Bucket is full.
type Bucket struct {
	Spent    float64
	lastFill int64 // in nanoseconds
}

// Fill uses the wall clock, because the monotonic clock may stop while a Lambda function is frozen.
func (b *Bucket) Fill(perSecond float64, now time.Time) {
	nanos := now.UnixNano()
	if elapsed := nanos - b.lastFill; elapsed > 0 {
		b.Spent = max(0, b.Spent-float64(elapsed)/1e9*perSecond)
	}
	b.lastFill = nanos
}
