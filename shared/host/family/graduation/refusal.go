package graduation

import (
	"encoding/json"
	"errors"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

// JudgedError is a refusal by the check of collusion, with the findings.
type JudgedError struct {
	Findings gate.Findings
	Err      error
}

func (e *JudgedError) Error() string { return e.Err.Error() }

func (e *JudgedError) Unwrap() error { return e.Err }

func NewRefusal(step gate.StepName, err error) *Refusal {
	p := problem.AsError(err)
	r := &Refusal{Error: gate.ErrorName(p.Kind), Kind: p.Kind.String(), Detail: p.Text(), Step: step}
	var judged *JudgedError
	if errors.As(err, &judged) {
		r.Findings = &judged.Findings
	}
	return r
}

// MaxCause is the maximum length in bytes of a Cause that is encoded as a JSON string. A state
// machine stores at most 32 KiB for the cause and the name of an error together.
const MaxCause = 30 << 10

// Cause returns r as the message of a task's error, which ParseCause parses. It omits findings that
// do not fit. The findings for the parent and eight siblings take a third of MaxCause.
func (r *Refusal) Cause() string {
	if text, ok := r.fitting(); ok {
		return text
	}
	short := *r
	short.Findings = nil
	if text, ok := short.fitting(); ok {
		return text
	}
	return r.Error
}

func (r *Refusal) fitting() (string, bool) {
	b, err := encode(r)
	if err != nil {
		return "", false
	}
	quoted, err := json.Marshal(string(b))
	return string(b), err == nil && len(quoted) <= MaxCause
}

// ParseCause returns the Refusal for the name and the cause of an error that a state machine caught
// in a step. An unknown error, for example a timeout or a crash of the task, becomes a failure.
func ParseCause(step gate.StepName, name, cause string) *Refusal {
	var task struct {
		Message string `json:"errorMessage"`
	}
	r := &Refusal{}
	kind, isKnown := gate.ParseErrorName(name)
	if json.Unmarshal([]byte(cause), &task) == nil && json.Unmarshal([]byte(task.Message), r) == nil && isKnown && r.Error == name {
		r.Step = step
		return r
	}
	if isKnown {
		return NewRefusal(step, problem.New(kind, "%s", kind.Row().Text))
	}
	return NewRefusal(step, problem.New(problem.Internal, "the step did not end: %.80s", name))
}
