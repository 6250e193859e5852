package obs

import (
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/ratelimit"
)

// Log lines are billed by the byte, and anyone can send requests that write no data. Failed
// requests have a separate limit, so a flood of other requests cannot hide a failure.
const (
	LimitedLinesPerSecond = 0.5
	LimitedLineBurst      = 60
)

// A nil lineLimiter has no limit.
type lineLimiter struct {
	mu    sync.Mutex
	kinds [2]lineKind // other requests, failed requests
}

type lineKind struct {
	bucket     ratelimit.Bucket
	suppressed requestSummary
}

type requestSummary struct {
	Counts
	requests, refused, failed int
}

// allow reports whether a request's line may be written, and returns the suppressed requests that
// the line must summarize. It never suppresses the line of a request that wrote data, because the
// write limits of the tables bound the number of such requests.
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
