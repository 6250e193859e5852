package graduation

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// RunTask runs one step of an attempt and returns the state for the next step. Step Functions may
// run a task more than once. If the attempt is already accepted, the step passes without running.
func (s *Service) RunTask(ctx context.Context, name gate.StepName, state RunState) (RunState, error) {
	st, err := s.loadStatus(ctx, state.ID())
	if err != nil {
		return state, faultError(err)
	}
	if err := state.checkFor(&st.Attempt, name); err != nil {
		return state, err
	}
	switch st.Phase {
	case Accepted:
		return state.withVerdict(&st.Attempt, name, s.now()), nil
	case Refused, Failed:
		return state, decidedError(&st)
	}
	return s.runStep(ctx, name, &st, state)
}

func (s *Service) runStep(ctx context.Context, name gate.StepName, st *Status, state RunState) (RunState, error) {
	err := s.checkNotOverdue(st)
	if err != nil {
		return state, err
	}
	switch name {
	case gate.StepConsent:
		err = s.checkConsent(ctx, st)
	case gate.StepRateLimit:
		err = s.checkRateLimit(ctx, st)
	case gate.StepCollusion:
		state.Findings, err = s.checkCollusion(ctx, st)
	case gate.StepCommit:
		err = s.commit(ctx, &st.Attempt, state.Findings)
	}
	if err != nil {
		return state, faultError(err)
	}
	return state.withVerdict(&st.Attempt, name, s.now()), nil
}

func decidedError(st *Status) error {
	return problem.New(problem.Conflict, "graduation %s is already decided: %s", st.ID, st.Phase)
}

func (s *Service) checkNotOverdue(st *Status) error {
	if s.now().Before(st.DueAt) {
		return nil
	}
	return problem.New(problem.DeadlineExceeded, "graduation %s was not completed before %s", st.ID, st.DueAt.Format("15:04:05Z07:00"))
}

func (s *Service) checkConsent(ctx context.Context, st *Status) error {
	m, err := s.loadManifest(ctx, st.Child)
	if err != nil {
		return err
	}
	if err := gate.CheckConsent(&st.Request, m); err != nil {
		return err
	}
	for _, id := range []identity.ID{st.Request.ParentID, st.Child} {
		isRevoked, err := s.Registry.IsRevoked(ctx, id)
		if err != nil {
			return err
		}
		if isRevoked {
			return problem.New(problem.Revoked, "the key of vacant %s was revoked", id.Short())
		}
	}
	return nil
}

func (s *Service) checkRateLimit(ctx context.Context, st *Status) error {
	w, _, err := WindowDocs.Get(ctx, s.Store, WindowKey(st.Request.ParentID))
	if err != nil {
		return err
	}
	if err := gate.CheckRateLimit(st.Request.ParentID, w.SlotTimes, s.now(), st.Policy); err != nil {
		return err
	}
	m, err := s.loadManifest(ctx, st.Child)
	if err != nil {
		return err
	}
	return gate.CheckStillClosed(m)
}

func (s *Service) checkCollusion(ctx context.Context, st *Status) (*gate.Findings, error) {
	detector, err := s.detectorFor(st.Policy)
	if err != nil {
		return nil, problem.Wrap(problem.Damaged, err, "graduation %s: %s", st.ID, problem.AsError(err).Text())
	}
	evidence := gate.Evidence{Child: st.Child, Parent: st.Request.ParentID}
	if st.Policy.Detector != gate.DetectorZeros {
		if evidence, err = s.Evidence.Collect(ctx, st.Child, st.Request.ParentID); err != nil {
			return nil, err
		}
		if evidence.Child != st.Child || evidence.Parent != st.Request.ParentID {
			return nil, problem.New(problem.Damaged, "graduation %s: the evidence belongs to %s and %s", st.ID, evidence.Child.Short(), evidence.Parent.Short())
		}
	}
	findings, err := detector.Detect(evidence, st.Policy)
	if err != nil {
		return nil, err
	}
	if err := findings.CheckCollusion(); err != nil {
		if problem.Is(err, problem.CollusionFound) {
			err = &CollusionError{findings, err}
		}
		return &findings, err
	}
	return &findings, nil
}
