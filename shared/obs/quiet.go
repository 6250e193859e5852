package obs

import (
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/ratelimit"
)

// Log lines are billed by the byte, and anyone can send requests that are refused or only read. The lines
// of such requests are limited. Lines of failed requests have their own limit, so that a flood cannot hide
// a failure. The next line of the same kind includes the counts of the suppressed lines.
const (
	QuietPerSecond = 0.5 // lines per second of each kind
	QuietBurst     = 60  // lines at once
)

// quiet limits the lines of requests that wrote no data. A nil quiet has no limit.
type quiet struct {
	mu    sync.Mutex
	kinds [2]quietKind // other requests, failed requests
}

type quietKind struct {
	bucket ratelimit.Bucket
	held   suppressed
}

// suppressed sums up requests whose lines were suppressed.
type suppressed struct {
	Counts
	requests, refused, failed int
}

// take reports whether a request's line may be written, and returns the suppressed requests that
// the line must summarize. If the line may not be written, take adds the request to the suppressed
// requests. The line of a request that wrote data is never suppressed, because the write limits of
// the tables bound the number of such requests.
func (q *quiet) take(c Counts, o problem.Outcome, timestamp time.Time) (h suppressed, ok bool) {
	if q == nil || c.Writes > 0 {
		return suppressed{}, true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	k := &q.kinds[0]
	if o == problem.Failed {
		k = &q.kinds[1]
	}
	k.bucket.Fill(QuietPerSecond, timestamp)
	if k.bucket.Spent+1 <= QuietBurst {
		k.bucket.Spent++
		h, k.held = k.held, suppressed{}
		return h, true
	}
	k.held.add(c, o)
	return suppressed{}, false
}

func (h *suppressed) add(c Counts, o problem.Outcome) {
	h.requests++
	h.Trips += c.Trips
	h.Reads += c.Reads
	h.KMS += c.KMS
	switch o {
	case problem.Failed:
		h.failed++
	case problem.Refused:
		h.refused++
	}
}
