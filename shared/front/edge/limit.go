package edge

import (
	"crypto/sha256"
	"math"
	"net/http"
	"strconv"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/protocol"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Config configures Limit. A zero Rate means no limit.
type Config struct {
	// Rate limits all requests of an address. A request costs one token, one more for each 4 KB of
	// its body, and one more for each further operation that it runs (httpapi.TakeTokens).
	Rate Rate
	// PairRate limits the messages by which an address begins a chain of calls with a vacant, or
	// begins it again: calls with seq 1 and resets. message.Handler enforces it.
	PairRate Rate
	// Reads limits the read units (of DynamoDB) of all requests together, and PageReadRate limits
	// the read units of all GET requests.
	Reads, PageReads Rate
	// Urgent reports whether a request is urgent. Urgent requests have an additional budget, a
	// quarter of ReadRate, so that a flood of other requests cannot block them. If IsUrgent is nil,
	// no request is urgent.
	Urgent func(*http.Request) bool
	// ExemptKeys exempts requests from ReadRate if their key (the Authorization header) has already
	// been accepted.
	ExemptKeys bool
	// Bytes limits the request bodies of an address: each complete KB costs a token. The host pays
	// for stored bodies by the KB, and a single address must not use up the tables' write capacity.
	Bytes Rate
	Now   func() time.Time
}

// Limit refuses a request with 429 and Retry-After if too many requests come from its address
// (r.RemoteAddr, as set by Guard or Lambda), or if earlier requests have exhausted the read budget.
// Each process counts separately: n instances of a function accept n times as many requests.
func Limit(c Config, next http.Handler) http.Handler {
	inner := next
	if c.Reads != (Rate{}) {
		next = &readLimit{next: inner, rate: c.Reads, now: c.Now}
		if c.ExemptKeys {
			keyCache, err := lru.New[[sha256.Size]byte, struct{}](knownKeys)
			if err != nil {
				panic(err) // only if the size is not positive
			}
			next = &keyed{inner, next, keyCache}
		}
		if c.Urgent != nil {
			quarter := Rate{PerSecond: c.Reads.PerSecond / 4, Burst: max(1, c.Reads.Burst/4)}
			next = either(c.Urgent, &readLimit{next: inner, rate: quarter, now: c.Now}, next)
		}
	}
	if c.PageReads != (Rate{}) {
		pages := func(r *http.Request) bool { return r.Method == http.MethodGet }
		next = either(pages, &readLimit{next: next, rate: c.PageReads, now: c.Now}, next)
	}
	l := &limit{next: next}
	if c.Bytes != (Rate{}) {
		l.bytes = newBuckets(c.Bytes, c.Now)
	}
	if c.Rate != (Rate{}) {
		l.requests = newBuckets(c.Rate, c.Now)
	}
	if c.PairRate != (Rate{}) {
		l.pairs = newBuckets(c.PairRate, c.Now)
	}
	return l
}

func either(fits func(*http.Request) bool, match, other http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fits(r) {
			match.ServeHTTP(w, r)
			return
		}
		other.ServeHTTP(w, r)
	})
}

type limit struct {
	next                   http.Handler
	requests, pairs, bytes *buckets // nil if there is no limit
}

func (l *limit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who := caller.RateKey(r.RemoteAddr)
	if l.requests != nil {
		if wait, ok := l.requests.take(who, float64(1+bodySize(r)/perToken)); !ok {
			refuse(w, r, wait, tooManyRequests)
			return
		}
		r = r.WithContext(httpapi.WithTokens(r.Context(), func(h http.Header, tokens int) error {
			if wait, ok := l.requests.take(who, float64(tokens)); !ok {
				return tooMany(h, wait, tooManyRequests)
			}
			return nil
		}))
	}
	if l.bytes != nil {
		if kb := bodySize(r) >> 10; kb > 0 {
			if wait, ok := l.bytes.take(who, float64(kb)); !ok {
				refuse(w, r, wait, "too many bytes from this address")
				return
			}
		}
	}
	if l.pairs != nil {
		r = r.WithContext(message.WithNewPairLimit(r.Context(), func(h http.Header) error {
			if wait, ok := l.pairs.take(who, 1); !ok {
				return tooMany(h, wait, "too many new pairs and resets from this address")
			}
			return nil
		}))
	}
	l.next.ServeHTTP(w, r)
}

const tooManyRequests = "too many requests from this address"

// perToken is the number of body bytes that cost a token. Storing that many bytes costs as much as
// a small request.
const perToken = 4 << 10

func bodySize(r *http.Request) int64 {
	// A body of unknown length counts as a body of the maximum size.
	maxBytes := int64(canon.DefaultLimits().Bytes)
	if r.ContentLength < 0 || r.ContentLength > maxBytes {
		return maxBytes
	}
	return r.ContentLength
}

func refuse(w http.ResponseWriter, r *http.Request, wait time.Duration, why string) {
	protocol.Refuse(w, r, tooMany(w.Header(), wait, why))
}

func tooMany(h http.Header, wait time.Duration, why string) error {
	seconds := strconv.FormatInt(int64(math.Ceil(wait.Seconds())), 10)
	h.Set("Retry-After", seconds)
	return problem.New(problem.TooMany, "%s; try again in %s s", why, seconds)
}
