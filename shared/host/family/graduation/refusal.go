package graduation

import (
	"encoding/json"
	"errors"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

type CollusionError struct {
	Findings gate.Findings
	Err      error
}

func (e *CollusionError) Error() string { return e.Err.Error() }

func (e *CollusionError) Unwrap() error { return e.Err }

func NewRefusal(step gate.StepName, err error) *Refusal {
	p := problem.AsError(err)
	r := &Refusal{Error: gate.ErrorName(p.Kind), Kind: p.Kind.String(), Detail: p.Text(), Step: step}
	var collusionErr *CollusionError
	if errors.As(err, &collusionErr) {
		r.Findings = &collusionErr.Findings
	}
	return r
}

// MaxCauseBytes limits the length of a Cause as a JSON string. A state machine stores at most 32
// KiB for a cause and an error name.
const MaxCauseBytes = 30 << 10

func (r *Refusal) Cause() string {
	if text, ok := r.encodeCause(); ok {
		return text
	}
	withoutFindings := *r
	withoutFindings.Findings = nil
	if text, ok := withoutFindings.encodeCause(); ok {
		return text
	}
	return r.Error
}

func (r *Refusal) encodeCause() (string, bool) {
	b, err := encodeJSON(r)
	if err != nil {
		return "", false
	}
	quoted, err := json.Marshal(string(b))
	return string(b), err == nil && len(quoted) <= MaxCauseBytes
}

// ParseCause returns the Refusal for an error that a state machine caught. An unknown error becomes
// a failure.
func ParseCause(step gate.StepName, name, cause string) *Refusal {
	var taskError struct {
		Message string `json:"errorMessage"`
	}
	r := &Refusal{}
	kind, isKnown := gate.ParseErrorName(name)
	if json.Unmarshal([]byte(cause), &taskError) == nil && json.Unmarshal([]byte(taskError.Message), r) == nil && isKnown && r.Error == name {
		r.Step = step
		return r
	}
	if isKnown {
		return NewRefusal(step, problem.New(kind, "%s", kind.Forms().DefaultMessage))
	}
	return NewRefusal(step, problem.New(problem.Internal, "the step did not end: %.80s", name))
}
