package graduation

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Gate interface {
	// Submit begins an attempt. It may return before the attempt ends.
	Submit(ctx context.Context, sub Submission) (Status, error)
	// StatusFor returns an attempt to its parent or child. For other vacants, the error is
	// NotFound.
	StatusFor(ctx context.Context, party identity.ID, id ID) (Status, error)
}

var _ Gate = (*Service)(nil)

func (s *Service) Submit(ctx context.Context, sub Submission) (Status, error) {
	st, err := s.Begin(ctx, sub)
	if err != nil || st.Phase != Open {
		return st, err
	}
	return s.RunSteps(ctx, st.Attempt)
}

const maxStepTries = 3

// RunSteps runs all steps of an attempt, even if ctx ends. A refusal is part of the Status and not
// an error.
func (s *Service) RunSteps(ctx context.Context, a Attempt) (Status, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(a.DueAt.Sub(s.now()), 0))
	defer cancel()
	st, state := Status{Attempt: a, Phase: Open}, a.InitialState()
	for _, step := range gate.Steps() {
		next, err := s.retryStep(ctx, step.Name, &st, state)
		if err != nil {
			return s.Record(context.WithoutCancel(ctx), state, NewRefusal(step.Name, err))
		}
		state = next
	}
	return s.Record(context.WithoutCancel(ctx), state, nil)
}

func (s *Service) retryStep(ctx context.Context, name gate.StepName, st *Status, state RunState) (RunState, error) {
	for try := 1; ; try++ {
		next, err := s.runStep(ctx, name, st, state)
		if !problem.Is(err, problem.Unavailable) || try == maxStepTries || s.updater().Backoff(ctx, try) != nil {
			return next, err
		}
	}
}
