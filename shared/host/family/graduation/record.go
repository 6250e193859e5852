package graduation

import (
	"context"
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Record stores the outcome of a run. r is nil if all steps have passed. A decided attempt does not
// change.
func (s *Service) Record(ctx context.Context, state RunState, r *Refusal) (Status, error) {
	st, err := s.decideAttempt(ctx, state.ID(), func(st *Status) error {
		if state.RequestHash != st.Request.Hash() {
			return problem.New(problem.Untrusted, "graduation %s: the state belongs to another attempt", st.ID)
		}
		refusal := r
		if refusal == nil {
			lastStep := gate.Steps()[len(gate.Steps())-1].Name
			refusal = NewRefusal(lastStep, problem.New(problem.Internal, "the run ended without a commit"))
		}
		st.Phase, st.Step, st.DecidedAt = Failed, refusal.Step, s.now()
		if kind, ok := gate.ParseErrorName(refusal.Error); ok && gate.IsRefusal(refusal.Step, kind) {
			st.Phase = Refused
		}
		stored := *refusal
		st.Findings, stored.Findings = state.Findings, nil
		if refusal.Findings != nil {
			st.Findings = refusal.Findings
		}
		st.Refusal = &stored
		return nil
	})
	return st, err
}

// Status returns an attempt. If the attempt was not completed in time, Status records that it has
// failed.
func (s *Service) Status(ctx context.Context, child identity.ID, position uint64) (Status, error) {
	a, err := s.loadAttempt(ctx, ID{child, position})
	if err != nil {
		return Status{}, faultError(err)
	}
	return s.currentStatus(ctx, &a)
}

// StatusFor implements Gate. A request by another vacant costs only one read.
func (s *Service) StatusFor(ctx context.Context, party identity.ID, id ID) (Status, error) {
	a, err := s.loadAttempt(ctx, id)
	if err == nil && party != a.Child && party != a.Request.ParentID {
		err = unknownAttemptError(id)
	}
	if err != nil {
		return Status{}, faultError(err)
	}
	return s.currentStatus(ctx, &a)
}

func (s *Service) currentStatus(ctx context.Context, a *Attempt) (Status, error) {
	st, err := s.loadStatusOf(ctx, a)
	if err != nil || st.Phase != Open {
		return st, faultError(err)
	}
	if s.now().Before(st.DueAt) {
		if s.RunningStep != nil {
			st.Step = s.RunningStep(ctx, &st.Attempt)
		}
		return st, nil
	}
	return s.decideAttempt(ctx, st.ID, func(st *Status) error {
		if s.now().Before(st.DueAt) {
			return errLeaveOpen
		}
		st.markOverdue(s.now())
		return nil
	})
}

func (s *Service) Latest(ctx context.Context, child identity.ID) (Status, bool, error) {
	tip, err := s.Store.Tip(ctx, Stream(child))
	if err != nil || tip.Position == 0 {
		return Status{}, false, faultError(err)
	}
	st, err := s.Status(ctx, child, tip.Position)
	return st, err == nil, err
}

var errLeaveOpen = errors.New("it is open")

func (s *Service) decideAttempt(ctx context.Context, id ID, decide func(*Status) error) (Status, error) {
	var st Status
	decided := false
	err := s.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		decided = false // a previous try may have set it
		st, err = s.loadStatus(ctx, id)
		if err != nil || st.Phase != Open {
			return err
		}
		switch err := decide(&st); {
		case errors.Is(err, errLeaveOpen):
			return nil
		case err != nil:
			return err
		}
		put, err := st.newPut(tx.ID)
		if err != nil {
			return err
		}
		tx.AddWrites(put)
		decided = true
		return nil
	})
	if err != nil {
		return Status{}, faultError(err)
	}
	if decided {
		st.version++
	}
	return st, nil
}

func (s *Status) markOverdue(now time.Time) {
	s.Phase, s.DecidedAt = Failed, now
	s.Refusal = &Refusal{
		Error: gate.ErrorName(problem.DeadlineExceeded), Kind: problem.DeadlineExceeded.String(),
		Detail: "the run did not end in time; send the same request again", Step: s.Step,
	}
}
