package call

import (
	"context"
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// TimeLimit is a limit of the time for an answer, as an error. It is the cause of a context that ends by
// it, and in the chain of the error of a call that it ended.
type TimeLimit struct {
	Time time.Duration
	Of   string // whose limit it is, for example "the timeout of its agent"
	// Waiting: the limit is for callers that wait for the answer. A turn that is a stream, or runs in the
	// background, has more time.
	Waiting bool
	Err     error // what the limit ended, or nil
}

func (l *TimeLimit) Error() string {
	return problem.Wrap(problem.Deadline, l.Err, "no answer within %s, %s", l.rounded(), l.Of).Error()
}

// Unwrap returns what the limit ended.
func (l *TimeLimit) Unwrap() error { return l.Err }

func (l *TimeLimit) rounded() time.Duration {
	if l.Time < time.Second {
		return l.Time.Round(time.Millisecond)
	}
	return l.Time.Round(time.Second / 10)
}

// PassedLimit returns the limit that ended what returned err, or nil if err has another reason than a
// limit of ctx: for example a timeout of a connection.
func PassedLimit(ctx context.Context, err error) *TimeLimit {
	var limit *TimeLimit
	switch {
	case !problem.Is(err, problem.Deadline) && !errors.Is(err, context.DeadlineExceeded):
		return nil
	case errors.As(err, &limit):
		return limit
	case !errors.As(context.Cause(ctx), &limit):
		return nil
	}
	passed := *limit
	passed.Err = err
	return &passed
}
