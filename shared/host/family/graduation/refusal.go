package graduation

import (
	"encoding/json"
	"errors"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

// JudgedError is a refusal of the collusion check, and by what it was judged.
type JudgedError struct {
	Findings gate.Findings
	Err      error
}

func (e *JudgedError) Error() string { return e.Err.Error() }

// Unwrap is the problem.
func (e *JudgedError) Unwrap() error { return e.Err }

// Refuse is what an error of step says of an attempt.
func Refuse(step gate.StepName, err error) *Refusal {
	p := problem.Of(err)
	r := &Refusal{Error: gate.ErrorName(p.Kind), Kind: p.Kind.String(), Detail: p.Text(), Step: step}
	var judged *JudgedError
	if errors.As(err, &judged) {
		r.Findings = &judged.Findings
	}
	return r
}

// MaxCause is how many bytes a Cause may have as a JSON string: a state machine
// keeps 32 KiB of one, and the name of the error beside it.
const MaxCause = 30 << 10

// Cause is r as the text of a task's error, from which ReadCause makes r again.
// Findings that are too long to go there are left out: those of nine pairs are
// a third of it.
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

// ReadCause is the refusal behind what a state machine caught at step: the name
// of the error, and its cause. What is not one of ours (a timeout, a task that
// died) is a failure.
func ReadCause(step gate.StepName, name, cause string) *Refusal {
	var task struct {
		Message string `json:"errorMessage"`
	}
	r := &Refusal{}
	kind, known := gate.KindOf(name)
	if json.Unmarshal([]byte(cause), &task) == nil && json.Unmarshal([]byte(task.Message), r) == nil && known && r.Error == name {
		r.Step = step
		return r
	}
	if known {
		return Refuse(step, problem.New(kind, "%s", kind.Row().Text))
	}
	return Refuse(step, problem.New(problem.Internal, "the step came to no end: %.80s", name))
}

// phase is what an attempt with r is: refused by what its step refuses, failed
// by everything else.
func (r *Refusal) phase() Phase {
	if kind, ok := gate.KindOf(r.Error); ok && gate.Refuses(r.Step, kind) {
		return Refused
	}
	return Failed
}
