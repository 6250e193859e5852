package hammer

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestABucketHoldsItsDurations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(30*time.Minute)).Draw(t, "d")).Truncate(time.Microsecond)
		b := bucketOf(d)
		if top := upper(b); top < d || top > d+d/64+time.Microsecond {
			t.Fatalf("%v is in the bucket up to %v", d, top)
		}
		if b > 0 && upper(b-1) >= d && upper(b-1) != 0 {
			t.Fatalf("%v is in bucket %d, though the one before goes up to %v", d, b, upper(b-1))
		}
	})
	for _, d := range []time.Duration{-1, 0, 1 << 62} {
		if b := bucketOf(d); b < 0 || b >= buckets {
			t.Errorf("bucketOf(%v) = %d", d, b)
		}
	}
}

func TestQuantilesOfKnownDurations(t *testing.T) {
	var h histogram
	if got := h.quantile(0.5); got != 0 {
		t.Errorf("quantile of nothing = %v", got)
	}
	for ms := 1; ms <= 100; ms++ {
		h[bucketOf(time.Duration(ms)*time.Millisecond)]++
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 51, 0.99: 100, 1: 100} {
		want *= time.Millisecond
		if got := h.quantile(q); got < want || got > want+want/64 {
			t.Errorf("quantile(%v) = %v, want %v", q, got, want)
		}
	}
}
