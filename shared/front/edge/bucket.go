package edge

import (
	"hash/maphash"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/ratelimit"
)

type Rate struct {
	PerSecond float64
	Burst     int
}

// ParseRate parses a rate in the form tokens-per-second:burst, for example 20:40. It accepts rates
// from 0.001 and bursts from 1, both up to 1,000,000.
func ParseRate(s string) (Rate, bool) {
	rateText, burstText, ok := strings.Cut(s, ":")
	if !ok {
		return Rate{}, false
	}
	perSecond, err := strconv.ParseFloat(rateText, 64)
	if err != nil || math.IsNaN(perSecond) || perSecond < 0.001 || perSecond > 1e6 {
		return Rate{}, false
	}
	burst, err := strconv.Atoi(burstText)
	if err != nil || burst < 1 || burst > 1e6 {
		return Rate{}, false
	}
	return Rate{PerSecond: perSecond, Burst: burst}, true
}

func (r Rate) String() string {
	return strconv.FormatFloat(r.PerSecond, 'f', -1, 64) + ":" + strconv.Itoa(r.Burst)
}

// bucketCount is the number of buckets. All buckets take 1.5 MiB, but memory pages without used
// buckets stay unallocated.
const bucketCount = 1 << 16

// buckets contains token buckets by address. The number of buckets is fixed, and a keyed hash maps
// an address to its bucket. A flood of addresses therefore uses no additional memory, evicts no
// bucket, and cannot choose whose bucket it shares. Two addresses share a bucket with a probability
// of 1 in 65,536.
type buckets struct {
	rate Rate
	now  func() time.Time
	seed maphash.Seed

	mu    sync.Mutex
	table []ratelimit.Bucket
}

func newBuckets(r Rate, now func() time.Time) *buckets {
	return &buckets{rate: r, now: now, seed: maphash.MakeSeed(), table: make([]ratelimit.Bucket, bucketCount)}
}

// takeTokens takes tokens from the bucket of an address. If the bucket has less than one token, ok
// is false and wait is the time until it has one. A request that costs more than the remaining
// tokens is also accepted, but later requests are refused until the debt is refilled.
func (b *buckets) takeTokens(address netip.Prefix, tokens float64) (wait time.Duration, ok bool) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	bucket := b.bucketFor(address)
	bucket.Fill(b.rate.PerSecond, now)
	excess := bucket.Spent + 1 - float64(b.rate.Burst)
	if excess > 0 {
		return b.rate.refillTime(excess), false
	}
	bucket.Spent += tokens
	return 0, true
}

func (b *buckets) bucketFor(address netip.Prefix) *ratelimit.Bucket {
	return &b.table[maphash.Comparable(b.seed, address)%bucketCount]
}

// refillTime returns the time in which a bucket with this rate refills a number of tokens, rounded
// up to a nanosecond.
func (r Rate) refillTime(tokens float64) time.Duration {
	return time.Duration(math.Ceil(tokens / r.PerSecond * 1e9))
}
