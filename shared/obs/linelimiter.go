package obs

import (
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/ratelimit"
)

// Limits of the lines about requests that wrote no data. Log lines are billed by the byte, and
// anyone can send such requests. Failed requests have a separate limit, so a flood of other
// requests cannot hide a failure. The next line of a kind includes the counts of the suppressed
// lines.
const (
	LimitedLinesPerSecond = 0.5 // lines per second of each kind
	LimitedLineBurst      = 60  // lines at once
)

// lineLimiter limits the lines of requests that wrote no data. A nil lineLimiter has no
// limit.
type lineLimiter struct {
	mu    sync.Mutex
	kinds [2]lineKind // index 0: requests that did not fail; index 1: failed requests
}

type lineKind struct {
	bucket     ratelimit.Bucket
	suppressed requestSummary
}

// requestSummary sums up requests whose lines were suppressed.
type requestSummary struct {
	Counts
	requests, refused, failed int
}

// allow reports whether a request's line may be written, and returns the suppressed requests that
// the line must summarize. If the line may not be written, allow adds the request to the suppressed
// requests. The line of a request that wrote data is never suppressed, because the write limits of
// the tables bound the number of such requests.
func (l *lineLimiter) allow(c Counts, o problem.Outcome, timestamp time.Time) (summary requestSummary, ok bool) {
	if l == nil || c.Writes > 0 {
		return requestSummary{}, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &l.kinds[0]
	if o == problem.Failed {
		k = &l.kinds[1]
	}
	k.bucket.Fill(LimitedLinesPerSecond, timestamp)
	if k.bucket.Spent+1 <= LimitedLineBurst {
		k.bucket.Spent++
		summary, k.suppressed = k.suppressed, requestSummary{}
		return summary, true
	}
	k.suppressed.add(c, o)
	return requestSummary{}, false
}

func (s *requestSummary) add(c Counts, o problem.Outcome) {
	s.requests++
	s.Trips += c.Trips
	s.Reads += c.Reads
	s.KMS += c.KMS
	switch o {
	case problem.Failed:
		s.failed++
	case problem.Refused:
		s.refused++
	}
}
