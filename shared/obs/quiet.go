package obs

import (
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/ratelimit"
)

// Log lines are billed by the byte, and anybody can send requests that are
// refused or only read. The lines of such requests are limited, separately for
// failed ones, so that no flood hides a failure. What is not logged is counted
// in the next line.
const (
	QuietPerSecond = 0.5 // lines a second of each kind
	QuietBurst     = 60  // lines at once
)

// quiet limits the lines of requests that wrote nothing. A nil quiet does not.
type quiet struct {
	mu    sync.Mutex
	kinds [2]quietKind // requests that failed are the second
}

type quietKind struct {
	bucket ratelimit.Bucket
	held   held
}

// held sums up requests whose lines were not written.
type held struct {
	Counts
	requests, refused, failed int
}

// take reports whether a request's line may be written, and what it has to sum
// up. Otherwise the request is held for the next line of its kind. A line of a
// request that wrote is always written: the tables' ceilings limit writes.
func (q *quiet) take(c Counts, o problem.Outcome, at time.Time) (h held, ok bool) {
	if q == nil || c.Writes > 0 {
		return held{}, true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	k := &q.kinds[0]
	if o == problem.Failed {
		k = &q.kinds[1]
	}
	k.bucket.Fill(QuietPerSecond, at)
	if k.bucket.Spent+1 <= QuietBurst {
		k.bucket.Spent++
		h, k.held = k.held, held{}
		return h, true
	}
	k.held.add(c, o)
	return held{}, false
}

func (h *held) add(c Counts, o problem.Outcome) {
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
