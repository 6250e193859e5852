package substrate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
)

// ConvertRequestError converts an error of package outbound.
func ConvertRequestError(err error) error {
	kind := problem.SubstrateUnavailable
	switch problem.AsError(err).Kind {
	case problem.DeadlineExceeded, problem.Canceled:
		return err
	case problem.TooLarge:
		kind = problem.SubstrateTooLarge
	case problem.Forbidden, problem.Untrusted, problem.Malformed, problem.TreeOnly:
		kind = problem.SubstrateMisconfigured
	}
	return problem.WithPlace(kind, "the agent gave no answer", err)
}

func KindOfStatus(status int) problem.Kind {
	switch {
	case status == http.StatusTooManyRequests:
		return problem.SubstrateBusy
	case status >= 500, status == http.StatusRequestTimeout:
		return problem.SubstrateUnavailable
	}
	return problem.SubstrateMisconfigured
}

func StatusError(status int) error {
	return &problem.Error{Kind: KindOfStatus(status), Field: "answer of the agent: status", Want: "200", Got: fmt.Sprint(status)}
}

func ContextError(ctx context.Context, operation string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return problem.Wrap(problem.Canceled, ctx.Err(), "%s was canceled", operation)
	}
	return problem.Wrap(problem.DeadlineExceeded, ctx.Err(), "%s did not end in time", operation)
}

func AnswerError(status int, h http.Header, body []byte, err error) *call.AgentError {
	seconds, parseErr := strconv.ParseUint(h.Get("Retry-After"), 10, 31)
	if parseErr != nil { // absent, or in the date format of RFC 9110 §10.2.3
		seconds = 0
	}
	return &call.AgentError{Status: status, RetryAfter: time.Duration(seconds) * time.Second, Body: Excerpt(body), Err: err}
}

const (
	maxRefusedTime = 2 * time.Second
	firstBackoff   = 50 * time.Millisecond
)

// RetryConnectionRefused repeats send while the server refuses connections. A retry is safe,
// because the agent has not received the call.
func RetryConnectionRefused[T any](ctx context.Context, send func() (T, error)) (T, error) {
	for delay, totalWait := firstBackoff, time.Duration(0); ; delay *= 2 {
		result, err := send()
		if !errors.Is(err, syscall.ECONNREFUSED) || totalWait >= maxRefusedTime {
			return result, err
		}
		delay = min(delay, maxRefusedTime-totalWait)
		if retry.Sleep(ctx, delay) != nil {
			return result, err
		}
		totalWait += delay
	}
}
