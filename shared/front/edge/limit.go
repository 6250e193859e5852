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
	RequestRate Rate
	// PairRate limits calls with seq 1 and resets.
	PairRate Rate
	// ReadRate and PageReadRate limit the DynamoDB read units of all requests and of GET requests.
	ReadRate, PageReadRate Rate
	// IsUrgent selects requests with a separate budget, which other requests cannot exhaust. It may
	// be nil.
	IsUrgent func(*http.Request) bool
	// ExemptKeys exempts known keys from ReadRate.
	ExemptKeys bool
	// BodyRate limits the request bodies of an address, in KB, because one address must not use up
	// the tables' write capacity.
	BodyRate Rate
	Now      func() time.Time
}

// Limit refuses requests above the limits with 429 and Retry-After. Each process counts separately.
func Limit(c Config, next http.Handler) http.Handler {
	unlimited := next
	if c.ReadRate != (Rate{}) {
		next = &readLimit{next: unlimited, rate: c.ReadRate, now: c.Now}
		if c.ExemptKeys {
			keyCache, err := lru.New[[sha256.Size]byte, struct{}](maxKnownKeys)
			if err != nil {
				panic(err) // only if the size is not positive
			}
			next = &keyExemption{unlimited, next, keyCache}
		}
		if c.IsUrgent != nil {
			urgentRate := Rate{PerSecond: c.ReadRate.PerSecond / 4, Burst: max(1, c.ReadRate.Burst/4)}
			next = routeIf(c.IsUrgent, &readLimit{next: unlimited, rate: urgentRate, now: c.Now}, next)
		}
	}
	if c.PageReadRate != (Rate{}) {
		isGet := func(r *http.Request) bool { return r.Method == http.MethodGet }
		next = routeIf(isGet, &readLimit{next: next, rate: c.PageReadRate, now: c.Now}, next)
	}
	l := &addressLimit{next: next}
	if c.BodyRate != (Rate{}) {
		l.bytes = newBuckets(c.BodyRate, c.Now)
	}
	if c.RequestRate != (Rate{}) {
		l.requests = newBuckets(c.RequestRate, c.Now)
	}
	if c.PairRate != (Rate{}) {
		l.pairs = newBuckets(c.PairRate, c.Now)
	}
	return l
}

func routeIf(matches func(*http.Request) bool, match, other http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if matches(r) {
			match.ServeHTTP(w, r)
			return
		}
		other.ServeHTTP(w, r)
	})
}

type addressLimit struct {
	next                   http.Handler
	requests, pairs, bytes *buckets
}

func (l *addressLimit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	address := caller.RateLimitPrefix(r.RemoteAddr)
	if l.requests != nil {
		if wait, ok := l.requests.takeTokens(address, float64(1+bodySize(r)/bytesPerToken)); !ok {
			sendTooMany(w, r, wait, tooManyRequests)
			return
		}
		r = r.WithContext(httpapi.WithTokens(r.Context(), func(h http.Header, tokens int) error {
			if wait, ok := l.requests.takeTokens(address, float64(tokens)); !ok {
				return newTooManyError(h, wait, tooManyRequests)
			}
			return nil
		}))
	}
	if l.bytes != nil {
		if kb := bodySize(r) >> 10; kb > 0 {
			if wait, ok := l.bytes.takeTokens(address, float64(kb)); !ok {
				sendTooMany(w, r, wait, "too many bytes from this address")
				return
			}
		}
	}
	if l.pairs != nil {
		r = r.WithContext(message.WithNewPairLimit(r.Context(), func(h http.Header) error {
			if wait, ok := l.pairs.takeTokens(address, 1); !ok {
				return newTooManyError(h, wait, "too many new pairs and resets from this address")
			}
			return nil
		}))
	}
	l.next.ServeHTTP(w, r)
}

const tooManyRequests = "too many requests from this address"

const bytesPerToken = 4 << 10

func bodySize(r *http.Request) int64 {
	// A body of unknown length counts as the maximum.
	maxBytes := int64(canon.DefaultLimits().Bytes)
	if r.ContentLength < 0 || r.ContentLength > maxBytes {
		return maxBytes
	}
	return r.ContentLength
}

func sendTooMany(w http.ResponseWriter, r *http.Request, wait time.Duration, reason string) {
	protocol.Refuse(w, r, newTooManyError(w.Header(), wait, reason))
}

func newTooManyError(h http.Header, wait time.Duration, reason string) error {
	seconds := strconv.FormatInt(int64(math.Ceil(wait.Seconds())), 10)
	h.Set("Retry-After", seconds)
	return problem.New(problem.TooManyRequests, "%s; try again in %s s", reason, seconds)
}
