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

// ConvertRequestError returns the error for a request that package outbound could not complete. If
// err is of kind DeadlineExceeded or Canceled, it is returned unchanged. If the answer is too long,
// the new kind is SubstrateTooLarge. If the host refused the request or the certificate is invalid,
// it is SubstrateMisconfigured. In all other cases, it is SubstrateUnavailable.
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

// ContextError returns the error for an operation that was still running when ctx ended. The kind
// of the error is Canceled or DeadlineExceeded.
func ContextError(ctx context.Context, operation string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return problem.Wrap(problem.Canceled, ctx.Err(), "%s was canceled", operation)
	}
	return problem.Wrap(problem.DeadlineExceeded, ctx.Err(), "%s did not end in time", operation)
}

// AnswerError returns an error with an excerpt of an agent's answer for the operator.
func AnswerError(status int, h http.Header, body []byte, err error) *call.AgentError {
	seconds, parseErr := strconv.ParseUint(h.Get("Retry-After"), 10, 31)
	if parseErr != nil { // absent, or in the date format of RFC 9110 §10.2.3
		seconds = 0
	}
	return &call.AgentError{Status: status, RetryAfter: time.Duration(seconds) * time.Second, Body: Excerpt(body), Err: err}
}

const (
	maxRefusedTime = 2 * time.Second       // total waiting time of RetryConnectionRefused
	firstBackoff   = 50 * time.Millisecond // doubles with each try
)

// RetryConnectionRefused repeats send for up to maxRefusedTime while the server refuses
// connections, because the agent may be restarting. A retry is safe, because the agent has not
// received the call.
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
