package problem

import "net/http"

// Outcome says whether a call was answered and, if not, by whose fault. The log, status, list, usage,
// metrics and doctor use one table of outcomes: Kind.Outcome and OutcomeOf.
type Outcome string

// The outcomes. A request that neither ends a call nor is refused has none, such as a request for
// the state of a call.
const (
	Answered Outcome = "answered"
	Refused  Outcome = "refused" // fault of the caller, or canceled by the caller
	Failed   Outcome = "failed"  // fault of the agent or the host
)

// Verdicts in the log besides the codes of kinds.
const (
	VerdictOK     = "ok"
	VerdictResent = "resent" // a request that came again: its call has a row of its own, or gets one
)

// Outcome returns the outcome of a call that ends with an error of kind k.
func (k Kind) Outcome() Outcome {
	switch {
	case k == Pending:
		return ""
	case k.Row().Status >= http.StatusInternalServerError:
		return Failed
	}
	return Refused
}

var outcomes = func() map[string]Outcome {
	all := map[string]Outcome{VerdictOK: Answered, VerdictResent: ""}
	for _, k := range Kinds() {
		all[k.String()] = k.Outcome()
	}
	return all
}()

// OutcomeOf returns the outcome that a line of the log tells by its verdict, or, for a word of another
// protocol, by its HTTP status; without a status such a word means refused.
func OutcomeOf(verdict string, status int) Outcome {
	o, known := outcomes[verdict]
	switch {
	case known:
		return o
	case status >= http.StatusInternalServerError:
		return Failed
	case status == 0 || status >= http.StatusBadRequest:
		return Refused
	}
	return Answered
}
