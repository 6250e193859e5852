package graduation

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Gate is what stands behind the handler of graduations.
type Gate interface {
	// Submit begins what is sent and starts its run, if it is not decided. The
	// run may be over when it returns.
	Submit(ctx context.Context, sub Submission) (Status, error)
	// StatusFor tells the parent or the child of an attempt of it; NotFound if
	// there is none, and to everybody else.
	StatusFor(ctx context.Context, who identity.ID, id ID) (Status, error)
}

// Service is the Gate of one process.
var _ Gate = (*Service)(nil)

// Submit begins what is sent and walks it.
func (s *Service) Submit(ctx context.Context, sub Submission) (Status, error) {
	st, err := s.Begin(ctx, sub)
	if err != nil || st.Phase != Open {
		return st, err
	}
	return s.Walk(ctx, st.Attempt)
}

// maxWalkTries is how often a step is tried whose storage cannot be reached.
const maxWalkTries = 3

// Walk takes an attempt through all steps, in this process, and records what it
// came to. A refusal is no error: the status has it. Whoever asked may be gone
// meanwhile; the attempt is walked to its end all the same.
func (s *Service) Walk(ctx context.Context, a Attempt) (Status, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(a.Due.Sub(s.now()), 0))
	defer cancel()
	st, state := Status{Attempt: a, Phase: Open}, a.State()
	for _, step := range gate.Steps() {
		next, err := s.try(ctx, step.Name, &st, state)
		if err != nil {
			return s.Record(context.WithoutCancel(ctx), state, Refuse(step.Name, err))
		}
		state = next
	}
	return s.Record(context.WithoutCancel(ctx), state, nil)
}

// try runs a step, and again while storage cannot be reached.
func (s *Service) try(ctx context.Context, name gate.StepName, st *Status, state State) (State, error) {
	for try := 1; ; try++ {
		next, err := s.step(ctx, name, st, state)
		if !problem.Is(err, problem.Unavailable) || try == maxWalkTries || s.updater().Backoff(ctx, try) != nil {
			return next, err
		}
	}
}
