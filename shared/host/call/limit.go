package call

import (
	"context"
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

type TimeLimit struct {
	Duration time.Duration
	Name     string // for example "the timeout of its agent"
	// IsWaitLimit is set if only callers that wait for the answer have this limit.
	IsWaitLimit bool
	Err         error
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
