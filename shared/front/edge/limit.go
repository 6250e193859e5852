package edge

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// Config is what Limit needs. A zero Rate is no limit.
type Config struct {
	// Rate bounds the requests of an address, all of them.
	Rate Rate
	// PairRate bounds what opens a pair, or opens it again: envelopes with seq 1
	// and resets. They are what a host cannot expect to be the last of.
	PairRate Rate
	// Reads bounds the read units that all requests together cost, whoever asks.
	Reads Rate
	Now   func() time.Time
}

// Limit refuses with 429 and Retry-After what comes too often from one address:
// r.RemoteAddr, as Guard or Lambda wrote it; and whatever comes while those
// before have read too much. What it counts is this process's: n instances of a
// function let n times as much through.
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
		if wait, ok := l.requests.take(who); !ok {
			refuse(w, wait, "too many requests from this address")
			return
		}
	}
	if l.pairs != nil && opensPair(r) {
		if wait, ok := l.pairs.take(who); !ok {
			refuse(w, wait, "too many new pairs and resets from this address")
			return
		}
	}
	l.next.ServeHTTP(w, r)
}

func refuse(w http.ResponseWriter, wait time.Duration, why string) {
	seconds := strconv.FormatInt(int64(math.Ceil(wait.Seconds())), 10)
	w.Header().Set("Retry-After", seconds)
	httpapi.Fail(w, problem.New(problem.TooMany, "%s; try again in %s s", why, seconds))
}

// opensPair looks ahead at what message will read. It decodes as strictly as
// that handler: what does not decode is refused there, before any signature.
func opensPair(r *http.Request) bool {
	path := r.URL.Path
	switch {
	case r.Method != http.MethodPost:
		return false
	case strings.HasSuffix(path, message.ResetPath):
		return true
	case path != "/" && !strings.HasSuffix(path, message.SendPath):
		return false
	}
	body, err := peek(r)
	if err != nil {
		return false // the handler meets the same error
	}
	req, err := envelope.DecodeRequest(body)
	return err == nil && req.Envelope.Seq == 1
}

// peek reads a body as far as the handler would, and puts it back: the handler finds
// every byte, the error at the end and what lies beyond its limit as they were.
func peek(r *http.Request) ([]byte, error) {
	most := canon.DefaultLimits().Bytes
	if r.ContentLength > int64(most) {
		return nil, io.ErrShortBuffer
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(most)+1))
	rest := io.Reader(r.Body)
	if err != nil {
		rest = failing{err}
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), r.Body}
	return body, err
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
