package graduation

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// RunState is the input and output of every task of a state machine.
type RunState struct {
	Child       identity.ID    `json:"child"`
	Position    uint64         `json:"position"`
	RequestHash identity.Hash  `json:"request"`
	Passed      []Verdict      `json:"passed,omitempty"`
	Findings    *gate.Findings `json:"findings,omitempty"`
}

type Verdict struct {
	Step     gate.StepName `json:"step"`
	PassedAt int64         `json:"at"` // Unix microseconds
}

func (s *RunState) ID() ID { return ID{s.Child, s.Position} }

// checkFor returns an error unless all steps before name have passed in order since a began.
func (s *RunState) checkFor(a *Attempt, name gate.StepName) error {
	if s.ID() != a.ID || s.RequestHash != a.Request.Hash() {
		return problem.New(problem.Untrusted, "graduation %s: the state belongs to another attempt", a.ID)
	}
	passed := s.Passed
	for _, step := range gate.Steps() {
		if step.Name == name {
			if len(passed) > 0 {
				return problem.New(problem.Untrusted, "graduation %s: the step %s has already passed", a.ID, name)
			}
			return nil
		}
		switch {
		case len(passed) == 0 || passed[0].Step != step.Name:
			return problem.New(problem.Untrusted, "graduation %s: the step %s has not passed before %s", a.ID, step.Name, name)
		case passed[0].PassedAt < a.StartedAt.UnixMicro():
			return problem.New(problem.Untrusted, "graduation %s: the verdict of %s is older than the attempt", a.ID, step.Name)
		}
		passed = passed[1:]
	}
	return problem.New(problem.Untrusted, "graduation %s: %.40q is not a step", a.ID, string(name))
}

func (s RunState) withVerdict(a *Attempt, name gate.StepName, now time.Time) RunState {
	// Clocks may differ, so the time of the verdict is at least the start of the attempt.
	passed := append(make([]Verdict, 0, len(s.Passed)+1), s.Passed...)
	s.Passed = append(passed, Verdict{name, max(now.UnixMicro(), a.StartedAt.UnixMicro())})
	return s
}

func (s *RunState) NextStep() gate.StepName {
	if steps := gate.Steps(); len(s.Passed) < len(steps) {
		return steps[len(s.Passed)].Name
	}
	return ""
}
