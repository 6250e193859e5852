package call

import (
	"context"
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// TimeLimit is a time limit of a call, and the error if the answer takes longer. It is the
// context.Cause of the context that the limit cancels, and is in the error chain of the failed
// call.
type TimeLimit struct {
	Duration time.Duration
	Name     string // name of the limit, for example "the timeout of its agent"
	// IsWaitLimit is set if the limit applies only to callers that wait for the answer. A streamed
	// turn or a turn in the background has more time.
	IsWaitLimit bool
	Err         error // error of the operation that the limit ended, or nil
}

func (l *TimeLimit) Error() string {
	return problem.Wrap(problem.DeadlineExceeded, l.Err, "no answer within %s, %s", l.roundedDuration(), l.Name).Error()
}

func (l *TimeLimit) Unwrap() error { return l.Err }

func (l *TimeLimit) roundedDuration() time.Duration {
	if l.Duration < time.Second {
		return l.Duration.Round(time.Millisecond)
	}
	return l.Duration.Round(time.Second / 10)
}

// ExceededLimit returns the TimeLimit in the error chain of err. If the chain has no TimeLimit, it
// returns a copy of the TimeLimit that is the cause of ctx, with err as its Err. If no TimeLimit
// caused err, for example because a connection timed out, ExceededLimit returns nil.
func ExceededLimit(ctx context.Context, err error) *TimeLimit {
	var limit *TimeLimit
	switch {
	case !problem.Is(err, problem.DeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded):
		return nil
	case errors.As(err, &limit):
		return limit
	case !errors.As(context.Cause(ctx), &limit):
		return nil
	}
	exceeded := *limit
	exceeded.Err = err
	return &exceeded
}
