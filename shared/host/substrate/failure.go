package substrate

import (
	"fmt"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Unreached gives the error of a request without an answer, by package outbound,
// its kind: a deadline and a cancellation stay, a refusal of the host's or a
// certificate is SubstrateMisconfigured, and the rest SubstrateUnavailable.
func Unreached(err error) error {
	kind := problem.SubstrateUnavailable
	switch problem.Of(err).Kind {
	case problem.Deadline, problem.Canceled:
		return err
	case problem.TooLarge:
		kind = problem.SubstrateTooLarge
	case problem.Forbidden, problem.Untrusted, problem.Malformed, problem.TreeOnly:
		kind = problem.SubstrateMisconfigured
	}
	return problem.New(kind, "the agent gave no answer: %v", err)
}

// BadStatus is the error of an answer with another HTTP status than 200.
func BadStatus(status int) error {
	kind := problem.SubstrateMisconfigured
	switch {
	case status == http.StatusTooManyRequests:
		kind = problem.SubstrateBusy
	case status >= 500, status == http.StatusRequestTimeout:
		kind = problem.SubstrateUnavailable
	}
	return &problem.Error{Kind: kind, Field: "answer of the agent: status", Want: "200", Got: fmt.Sprint(status)}
}
