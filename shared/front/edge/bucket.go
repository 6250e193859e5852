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

// ParseRate parses tokens-per-second:burst, for example 20:40.
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

const bucketCount = 1 << 16

// buckets maps addresses to a fixed number of token buckets by a keyed hash. A flood of addresses
// therefore uses no additional memory and cannot choose whose bucket it shares.
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

// takeTokens returns the wait for a token if the bucket is empty. A request may overdraw the
// bucket.
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

func (r Rate) refillTime(tokens float64) time.Duration {
	return time.Duration(math.Ceil(tokens / r.PerSecond * 1e9))
}
