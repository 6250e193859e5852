package problem

import "net/http"

// Outcome states whether a call was answered or who caused its failure.
type Outcome string

// Some requests have no outcome, for example a request for the state of a call.
const (
	Answered Outcome = "answered"
	Refused  Outcome = "refused" // fault of the caller, or canceled by the caller
	Failed   Outcome = "failed"  // fault of the agent or the host
)

// Verdicts of log lines in addition to the codes of kinds.
const (
	VerdictOK     = "ok"
	VerdictResent = "resent" // a repeated request, whose call is logged separately
)

func (k Kind) Outcome() Outcome {
	switch {
	case k == Pending:
		return ""
	case k.Forms().HTTPStatus >= http.StatusInternalServerError:
		return Failed
	}
	return Refused
}

var outcomeByVerdict = func() map[string]Outcome {
	all := map[string]Outcome{VerdictOK: Answered, VerdictResent: ""}
	for _, k := range Kinds() {
		all[k.String()] = k.Outcome()
	}
	return all
}()

// OutcomeOf returns the outcome for the verdict of a log line. If the verdict is unknown, the HTTP
// status decides. A status of 0 then means Refused.
func OutcomeOf(verdict string, status int) Outcome {
	o, isKnown := outcomeByVerdict[verdict]
	switch {
	case isKnown:
		return o
	case status >= http.StatusInternalServerError:
		return Failed
	case status == 0 || status >= http.StatusBadRequest:
		return Refused
	}
	return Answered
}
