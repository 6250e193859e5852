package call

import (
	"context"
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// TimeLimit is a time limit of a call, and the error if the answer takes longer. It is the
// context.Cause of the context that the limit cancels, and is in the error chain of the failed call.
type TimeLimit struct {
	Time time.Duration
	Name string // name of the limit, for example "the timeout of its agent"
	// IsForWaiting is set if the limit applies only to callers that wait for the answer. A streamed turn
	// or a turn in the background has more time.
	IsForWaiting bool
	Err          error // error of the operation that the limit ended, or nil
}

func (l *TimeLimit) Error() string {
	return problem.Wrap(problem.Deadline, l.Err, "no answer within %s, %s", l.roundedTime(), l.Name).Error()
}

func (l *TimeLimit) Unwrap() error { return l.Err }

func (l *TimeLimit) roundedTime() time.Duration {
	if l.Time < time.Second {
		return l.Time.Round(time.Millisecond)
	}
	return l.Time.Round(time.Second / 10)
}

// ExceededLimit returns the TimeLimit that caused err: the one in the error chain of err or, if the
// chain has none, a copy of the cause of ctx with err as its Err. If no TimeLimit caused err, for
// example because a connection timed out, ExceededLimit returns nil.
func ExceededLimit(ctx context.Context, err error) *TimeLimit {
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
