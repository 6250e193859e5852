package graduation

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Begin returns the child's open or accepted attempt for the same request, or creates an attempt.
// Unless the Status is decided, the caller must call RunSteps or start the state machine. Doing so
// twice has no additional effect.
//
// The errors reveal which vacants are children. A handler that must not reveal this fact has to
// check the signatures first.
func (s *Service) Begin(ctx context.Context, sub Submission) (Status, error) {
	if err := sub.Request.Check(); err != nil {
		return Status{}, err
	}
	m, err := s.loadManifest(ctx, sub.Request.ChildID)
	if err != nil {
		return Status{}, faultError(err)
	}
	h, err := s.findHosting(ctx, m)
	if err != nil {
		return Status{}, err
	}
	if sub.Request.Verify() != nil {
		return Status{}, gate.CheckConsent(&sub.Request, m)
	}
	if err := h.checkSubmission(&sub.Artefacts, m); err != nil {
		return Status{}, err
	}
	if h.childHosted { // this host signs for hosted parties, so their artefacts are not stored
		sub.Artefacts = Artefacts{ManifestParent: sub.Artefacts.ManifestParent}
	}
	if h.parentHosted {
		sub.Artefacts.ManifestParent = nil
	}
	var st Status
	err = s.updater().Update(ctx, func(ctx context.Context, _ *store.Tx) (err error) {
		st, err = s.startAttempt(ctx, &sub, m.ParentID, h.tenant)
		return err
	})
	if store.IsConflict(err) {
		st = Status{}
	}
	return st, faultError(err)
}

// hosting describes which parties of a graduation are on this host. tenant is the parent's tenant
// if the parent is hosted, otherwise the child's.
type hosting struct {
	parentHosted, childHosted bool
	tenant                    string
	refusal                   error
}

func (s *Service) findHosting(ctx context.Context, m *composite.Manifest) (h hosting, err error) {
	// If neither party is on this host, the child is reported as unknown, so that the request costs
	// no further work.
	for _, party := range []struct {
		id   identity.ID
		here *bool
	}{{m.ChildID, &h.childHosted}, {m.ParentID, &h.parentHosted}} {
		r, err := s.Vacants.Get(ctx, vacants.OperatorAsker(), party.id)
		switch {
		case problem.Is(err, problem.NotFound):
			continue
		case err != nil:
			return h, err
		case r.IsDeleted():
			continue
		}
		*party.here, h.tenant = true, r.Tenant
		if h.refusal == nil && !r.State.CanBeCalled() {
			if h.refusal, err = s.checkCallable(ctx, &r); err != nil {
				return h, err
			}
		}
		if h.refusal == nil && r.ID == m.ChildID {
			if h.refusal, err = s.checkHasPlan(ctx, &r); err != nil {
				return h, err
			}
		}
		if h.refusal == nil && r.Closed && r.ID == m.ParentID {
			h.refusal = problem.New(problem.Conflict, "the parent %s is a closed child itself; it must graduate first", r.ID.Short())
		}
	}
	if !h.parentHosted && !h.childHosted {
		return h, unknownChildError(m.ChildID)
	}
	return h, nil
}

func (s *Service) checkCallable(ctx context.Context, r *vacants.Record) (refusal, err error) {
	// The gate itself refuses a revoked key.
	isRevoked, err := s.Registry.IsRevoked(ctx, r.ID)
	if err != nil || isRevoked {
		return nil, err
	}
	return problem.New(problem.Conflict, "vacant %s is %s; only vacants that answer calls can take part in a graduation", r.ID.Short(), r.State), nil
}

func (s *Service) checkHasPlan(ctx context.Context, r *vacants.Record) (refusal, err error) {
	// A composite without a plan answers no calls and must not become public.
	if r.Substrate != plan.Kind {
		return nil, nil
	}
	if _, ok, err := s.Vacants.Plan(ctx, r.ID); err != nil || ok {
		return nil, err
	}
	return problem.New(problem.Conflict, "child %s is a composite without a plan and answers no call; set one first: vacancy plan set", r.ID.Short()), nil
}

func (h *hosting) checkSubmission(a *Artefacts, m *composite.Manifest) error {
	if h.refusal != nil {
		return h.refusal
	}
	next := m.AfterGraduation()
	for _, party := range []struct {
		role      string
		here      bool
		id        identity.ID
		signature []byte
	}{{"parent", h.parentHosted, m.ParentID, a.ManifestParent}, {"child", h.childHosted, m.ChildID, a.ManifestChild}} {
		if !party.here && !identity.Verify(party.id, next.SignedBytes(), party.signature) {
			return problem.Invalid("artefacts.manifest_signature_"+party.role, "the signature of the "+party.role+", who is not hosted here, of the manifest that opens the child", "none that verifies")
		}
	}
	if !h.childHosted && (len(a.Card) == 0 || len(a.Signature) == 0) {
		return problem.Invalid("artefacts", "the card and the register event of the child, who is not hosted here", "none")
	}
	return nil
}

func (s *Service) loadManifest(ctx context.Context, child identity.ID) (*composite.Manifest, error) {
	m, d, err := registry.ManifestDocs.Get(ctx, s.Store, registry.ManifestKey(child))
	if err == nil && d.Version == 0 {
		err = unknownChildError(child)
	}
	return &m.Manifest, err
}

func (s *Service) startAttempt(ctx context.Context, sub *Submission, parent identity.ID, tenant string) (Status, error) {
	child := sub.Request.ChildID
	var last Status
	tip, err := s.Store.Tip(ctx, Stream(child))
	if err != nil {
		return Status{}, err
	}
	if tip.Position > 0 {
		a, err := DecodeAttempt(child, tip)
		if err != nil {
			return Status{}, err
		}
		if last, err = s.loadStatusOf(ctx, &a); err != nil {
			return Status{}, err
		}
		if st, err := s.findRepeated(ctx, &last, sub); err != nil || st.Position > 0 {
			return st, err
		}
		if err := s.checkFrequency(ctx, child, tip.Position); err != nil {
			return Status{}, err
		}
	}
	policy, _, err := s.Policy(ctx, tenant)
	if err != nil {
		return Status{}, err
	}
	now := s.now()
	countWrite, err := s.newAttemptCountPut(ctx, parent, now)
	if err != nil {
		return Status{}, err
	}
	a := Attempt{ID: ID{child, tip.Position + 1}, Submission: *sub, Policy: policy, StartedAt: now, DueAt: now.Add(AttemptTimeout)}
	next := Status{Attempt: a, Phase: Open, acceptedPosition: last.acceptedPosition}
	if last.Phase == Accepted {
		next.acceptedPosition = last.Position
	}
	return next, s.commitAttempt(ctx, &next, &last, countWrite)
}

// commitAttempt commits a new attempt and records a previous open attempt as failed.
func (s *Service) commitAttempt(ctx context.Context, next, last *Status, countWrite store.Put) error {
	writeID, err := s.updater().NewWriteID()
	if err != nil {
		return err
	}
	data, err := next.encode()
	if err != nil {
		return err
	}
	statusPut, err := next.newPut(writeID)
	if err != nil {
		return err
	}
	writes := []store.Write{store.Append{Stream: Stream(next.Child), Position: next.Position, WriteID: writeID, Data: data}, statusPut, countWrite}
	if last.Phase == Open {
		last.markOverdue(s.now())
		lastStatusPut, err := last.newPut(writeID)
		if err != nil {
			return err
		}
		writes = append(writes, lastStatusPut)
	}
	if err := s.updater().Commit(ctx, writes...); err != nil {
		return err
	}
	next.version++
	return nil
}

// findRepeated returns the attempt that sub repeats, or the zero Status.
func (s *Service) findRepeated(ctx context.Context, last *Status, sub *Submission) (Status, error) {
	isSameRequest := last.Request.Hash() == sub.Request.Hash()
	switch {
	case last.Phase == Open && s.now().Before(last.DueAt):
		if isSameRequest {
			return *last, nil
		}
		return Status{}, problem.New(problem.Conflict, "child %s: graduation %s, of another request, is open until %s", last.Child.Short(), last.ID, last.DueAt.Format("15:04:05Z07:00"))
	case last.Phase == Accepted && isSameRequest:
		return *last, nil
	case last.acceptedPosition == 0:
		return Status{}, nil
	}
	accepted, err := s.loadStatus(ctx, ID{last.Child, last.acceptedPosition})
	if err != nil || accepted.Request.Hash() != sub.Request.Hash() {
		return Status{}, err
	}
	return accepted, nil
}

func (s *Service) checkFrequency(ctx context.Context, child identity.ID, tip uint64) error {
	// Each attempt costs the host at least two writes.
	if tip < MaxAttempts {
		return nil
	}
	rows, err := s.Store.Rows(ctx, Stream(child), tip-MaxAttempts+1, 1, store.Ascending)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return problem.New(problem.Damaged, "graduation %s is missing", ID{child, tip - MaxAttempts + 1})
	}
	a, err := DecodeAttempt(child, rows[0])
	if err == nil && s.now().Before(a.StartedAt.Add(AttemptPeriod)) {
		err = problem.New(problem.TooManyRequests, "child %s has reached the limit of %d attempts to graduate in 24 hours", child.Short(), MaxAttempts)
	}
	return err
}

func (s *Service) loadStatus(ctx context.Context, id ID) (Status, error) {
	a, err := s.loadAttempt(ctx, id)
	if err != nil {
		return Status{}, err
	}
	return s.loadStatusOf(ctx, &a)
}

func (s *Service) loadAttempt(ctx context.Context, id ID) (Attempt, error) {
	rows, err := s.Store.Rows(ctx, Stream(id.Child), id.Position, 1, store.Ascending)
	if err != nil {
		return Attempt{}, err
	}
	if len(rows) == 0 || rows[0].Position != id.Position {
		return Attempt{}, unknownAttemptError(id)
	}
	return DecodeAttempt(id.Child, rows[0])
}

func unknownAttemptError(id ID) error {
	return problem.New(problem.NotFound, "graduation %s is not known", id)
}

func (s *Service) loadStatusOf(ctx context.Context, a *Attempt) (Status, error) {
	w, d, err := StatusDocs.Require(ctx, s.Store, StatusKey(a.Child, a.Position))
	if err != nil {
		return Status{}, err
	}
	return a.newStatus(&w, d.Version), nil
}
