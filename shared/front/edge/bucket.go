package edge

import (
	"hash/maphash"
	"math"
	"net/netip"
	"sync"
	"time"
)

// Rate is how many tokens a bucket gets in a second, and how many it holds.
type Rate struct {
	PerSecond float64
	Burst     int
}

// size is how many buckets there are: 1.5 MiB, of which only what is used is
// ever touched.
const size = 1 << 16

// buckets are token buckets by address. Their number is fixed, and an address
// is mapped to its bucket by a keyed hash. A flood of addresses therefore uses
// no memory, evicts no bucket, and cannot choose whose bucket to share; two
// addresses share one with a probability of 1 in 65,536.
type buckets struct {
	rate Rate
	now  func() time.Time
	seed maphash.Seed

	mu  sync.Mutex
	all []bucket
}

// bucket is full at first, and whenever nobody asked for long: then it is the
// same as none.
type bucket struct {
	spent float64 // tokens below full
	at    int64   // of this, in nanoseconds of the wall clock
}

func newBuckets(r Rate, now func() time.Time) *buckets {
	return &buckets{rate: r, now: now, seed: maphash.MakeSeed(), all: make([]bucket, size)}
}

// take takes a token, or says how long it is until there is one.
func (b *buckets) take(who netip.Prefix) (wait time.Duration, ok bool) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	k := &b.all[maphash.Comparable(b.seed, who)%size]
	k.fill(b.rate, now)
	over := k.spent + 1 - float64(b.rate.Burst)
	if over > 0 {
		return b.rate.within(over), false
	}
	k.spent++
	return 0, true
}

// fill lets in what came since the bucket was looked at.
//
// Time is the wall clock's: the monotonic one may stand still while a function
// is frozen. When the wall clock steps back, time stands still for a bucket;
// when it leaps ahead, the bucket is full.
func (k *bucket) fill(r Rate, now time.Time) {
	at := now.UnixNano()
	if passed := at - k.at; passed > 0 {
		k.spent = max(0, k.spent-float64(passed)/1e9*r.PerSecond)
	}
	k.at = at
}

// within is how long it takes until so many tokens have come.
func (r Rate) within(tokens float64) time.Duration {
	return time.Duration(math.Ceil(tokens / r.PerSecond * 1e9))
}

// origin returns the prefix whose bucket an address uses: the address itself,
// or for IPv6 its /64, because one customer has all of it. Texts that are no
// address share one bucket.
func origin(remote string) netip.Prefix {
	addr, err := netip.ParseAddr(remote)
	if err != nil {
		at, err := netip.ParseAddrPort(remote)
		if err != nil {
			return netip.Prefix{}
		}
		addr = at.Addr()
	}
	addr = addr.Unmap().WithZone("")
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
