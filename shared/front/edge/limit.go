package edge

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Config configures Limit. A zero Rate is no limit.
type Config struct {
	// Rate bounds all requests of an address; a request costs a token, and one more
	// for each 4 KB of its body.
	Rate Rate
	// PairRate limits an address's envelopes that open or reopen a pair: calls
	// with seq 1 and resets. message.Handler enforces it.
	PairRate Rate
	// Reads limits the read units of all requests together.
	Reads Rate
	Now   func() time.Time
}

// Limit refuses requests with 429 and Retry-After if too many come from one
// address (r.RemoteAddr, as Guard or Lambda set it), or if earlier requests have
// read too much. It counts in this process: n instances of a function admit n
// times as much.
func Limit(c Config, next http.Handler) http.Handler {
	if c.Reads != (Rate{}) {
		next = &reads{next: next, rate: c.Reads, now: c.Now}
	}
	l := &limit{next: next}
	if c.Rate != (Rate{}) {
		l.requests = newBuckets(c.Rate, c.Now)
	}
	if c.PairRate != (Rate{}) {
		l.pairs = newBuckets(c.PairRate, c.Now)
	}
	return l
}

type limit struct {
	next            http.Handler
	requests, pairs *buckets // nil: no limit
}

func (l *limit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who := origin(r.RemoteAddr)
	if l.requests != nil {
		if wait, ok := l.requests.take(who, cost(r)); !ok {
			refuse(w, wait, "too many requests from this address")
			return
		}
	}
	if l.pairs != nil {
		r = r.WithContext(message.WithNewPairLimit(r.Context(), func(w http.ResponseWriter) bool {
			wait, ok := l.pairs.take(who, 1)
			if !ok {
				refuse(w, wait, "too many new pairs and resets from this address")
			}
			return !ok
		}))
	}
	l.next.ServeHTTP(w, r)
}

// perToken is the bytes of a body that cost a token: what is stored of it costs as
// much as a small request.
const perToken = 4 << 10

// cost is the tokens of a request. A body of unknown length costs as much as the
// largest.
func cost(r *http.Request) float64 {
	size := r.ContentLength
	if most := int64(canon.DefaultLimits().Bytes); size < 0 || size > most {
		size = most
	}
	return float64(1 + size/perToken)
}

func refuse(w http.ResponseWriter, wait time.Duration, why string) {
	seconds := strconv.FormatInt(int64(math.Ceil(wait.Seconds())), 10)
	w.Header().Set("Retry-After", seconds)
	httpapi.Fail(w, problem.New(problem.TooMany, "%s; try again in %s s", why, seconds))
}
