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

// Record stores the outcome of a run. r is the refusal or the fault that ended the run, and nil
// after the commit step. A decided attempt does not change: if the commit was applied, the attempt
// is accepted regardless of r. Record writes only the attempt's status.
func (s *Service) Record(ctx context.Context, state State, r *Refusal) (Status, error) {
	st, err := s.end(ctx, state.ID(), func(st *Status) error {
		if state.Request != st.Request.Hash() {
			return problem.New(problem.Untrusted, "graduation %s: the state belongs to another attempt", st.ID)
		}
		why := r
		if why == nil {
			last := gate.Steps()[len(gate.Steps())-1].Name
			why = NewRefusal(last, problem.New(problem.Internal, "the run ended without a commit"))
		}
		st.Phase, st.Step, st.DecidedAt = Failed, why.Step, s.now()
		if kind, ok := gate.ParseErrorName(why.Error); ok && gate.IsRefusal(why.Step, kind) {
			st.Phase = Refused
		}
		kept := *why
		st.Findings, kept.Findings = state.Findings, nil
		if why.Findings != nil {
			st.Findings = why.Findings
		}
		st.Refusal = &kept
		return nil
	})
	return st, err
}

// Status returns an attempt. If the attempt was not completed in time, Status records that it has
// failed.
func (s *Service) Status(ctx context.Context, child identity.ID, position uint64) (Status, error) {
	a, err := s.row(ctx, ID{child, position})
	if err != nil {
		return Status{}, fault(err)
	}
	return s.statusOf(ctx, &a)
}

// StatusFor returns an attempt to its parent or child. For others the error is NotFound, and such a
// request costs only one read.
func (s *Service) StatusFor(ctx context.Context, who identity.ID, id ID) (Status, error) {
	a, err := s.row(ctx, id)
	if err == nil && who != a.Child && who != a.Request.ParentID {
		err = unknownAttemptError(id)
	}
	if err != nil {
		return Status{}, fault(err)
	}
	return s.statusOf(ctx, &a)
}

func (s *Service) statusOf(ctx context.Context, a *Attempt) (Status, error) {
	st, err := s.refresh(ctx, a)
	if err != nil || st.Phase != Open {
		return st, fault(err)
	}
	if s.now().Before(st.DueAt) {
		if s.Running != nil {
			st.Step = s.Running(ctx, &st.Attempt)
		}
		return st, nil
	}
	return s.end(ctx, st.ID, func(st *Status) error {
		if s.now().Before(st.DueAt) {
			return errOpen
		}
		st.overdue(s.now())
		return nil
	})
}

func (s *Service) Latest(ctx context.Context, child identity.ID) (Status, bool, error) {
	tip, err := s.Store.Tip(ctx, Stream(child))
	if err != nil || tip.Position == 0 {
		return Status{}, false, fault(err)
	}
	st, err := s.Status(ctx, child, tip.Position)
	return st, err == nil, err
}

// errOpen is returned by the function passed to decideAttempt, to leave the attempt open.
var errOpen = errors.New("it is open")

// end decides an open attempt. It returns a decided attempt unchanged.
func (s *Service) end(ctx context.Context, id ID, decide func(*Status) error) (Status, error) {
	var st Status
	ended := false
	err := s.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		ended = false // a previous try may have set it
		st, err = s.read(ctx, id)
		if err != nil || st.Phase != Open {
			return err
		}
		switch err := decide(&st); {
		case errors.Is(err, errOpen):
			return nil
		case err != nil:
			return err
		}
		put, err := st.put(tx.ID)
		if err != nil {
			return err
		}
		tx.Add(put)
		ended = true
		return nil
	})
	if err != nil {
		return Status{}, fault(err)
	}
	if ended {
		st.version++
	}
	return st, nil
}

func (s *Status) overdue(now time.Time) {
	s.Phase, s.DecidedAt = Failed, now
	s.Refusal = &Refusal{
		Error: gate.ErrorName(problem.Deadline), Kind: problem.Deadline.String(),
		Detail: "the run did not end in time; send the same request again", Step: s.Step,
	}
}
