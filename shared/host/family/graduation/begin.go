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

// Begin accepts a submission and returns its attempt: the open or accepted one
// if that has the same request, else a new one. Refusals write nothing and come
// in this order: form, a child that cannot graduate here (NotFound), signatures
// (Consent), what could not be committed (Malformed, Conflict), another open
// attempt of the child (Conflict), too many attempts in a day, of the child or
// of its parent's children (TooMany). A handler that must not reveal who is a
// child checks signatures first.
//
// An attempt does not proceed by itself: walk it or start its Execution, unless
// its Status is decided. Doing so twice is harmless.
func (s *Service) Begin(ctx context.Context, sub Submission) (Status, error) {
	if err := sub.Request.Check(); err != nil {
		return Status{}, err
	}
	m, err := s.manifest(ctx, sub.Request.ChildID)
	if err != nil {
		return Status{}, fault(err)
	}
	h, err := s.graduable(ctx, m)
	if err != nil {
		return Status{}, err
	}
	if sub.Request.Verify() != nil {
		return Status{}, gate.CheckConsent(&sub.Request, m)
	}
	if err := h.possible(&sub.Artefacts, m); err != nil {
		return Status{}, err
	}
	if h.child { // hosted parties sign for themselves, so nothing unused is stored
		sub.Artefacts = Artefacts{ManifestParent: sub.Artefacts.ManifestParent}
	}
	if h.parent {
		sub.Artefacts.ManifestParent = nil
	}
	var st Status
	err = s.updater().Update(ctx, func(ctx context.Context, _ *store.Tx) (err error) {
		st, err = s.begin(ctx, &sub, m.ParentID, h.tenant)
		return err
	})
	if store.IsConflict(err) {
		st = Status{}
	}
	return st, fault(err)
}

// hosts tells which parties are hosted here, and the tenant whose policy
// applies: the parent's, or else the child's.
type hosts struct {
	parent, child bool
	tenant        string
	asleep        error // why a party cannot take part now: it answers no calls, or its parent is closed
}

// graduable refuses a child as unknown if neither it nor its parent is hosted
// here, so strangers' families cost nothing.
func (s *Service) graduable(ctx context.Context, m *composite.Manifest) (h hosts, err error) {
	for _, party := range []struct {
		id   identity.ID
		here *bool
	}{{m.ChildID, &h.child}, {m.ParentID, &h.parent}} {
		r, err := s.Vacants.Get(ctx, vacants.Operator(), party.id)
		switch {
		case problem.Is(err, problem.NotFound):
			continue
		case err != nil:
			return h, err
		case r.IsDeleted():
			continue
		}
		*party.here, h.tenant = true, r.Tenant
		if h.asleep == nil && !r.State.CanBeCalled() {
			if h.asleep, err = s.asleep(ctx, &r); err != nil {
				return h, err
			}
		}
		if h.asleep == nil && r.ID == m.ChildID {
			if h.asleep, err = s.speechless(ctx, &r); err != nil {
				return h, err
			}
		}
		if h.asleep == nil && r.Closed && r.ID == m.ParentID {
			h.asleep = problem.New(problem.Conflict, "the parent %s is a closed child itself; it graduates first", r.ID.Short())
		}
	}
	if !h.parent && !h.child {
		return h, unknown(m.ChildID)
	}
	return h, nil
}

// asleep refuses a party that answers no calls. A revoked key is left to the
// gate to refuse.
func (s *Service) asleep(ctx context.Context, r *vacants.Record) (refusal, err error) {
	gone, err := s.Registry.IsRevoked(ctx, r.ID)
	if err != nil || gone {
		return nil, err
	}
	return problem.New(problem.Conflict, "vacant %s is %s; only one that answers calls takes part in a graduation", r.ID.Short(), r.State), nil
}

// speechless refuses a composite without a plan: it answers no calls, and would
// become public so.
func (s *Service) speechless(ctx context.Context, r *vacants.Record) (refusal, err error) {
	if r.Substrate != plan.Kind {
		return nil, nil
	}
	if _, ok, err := s.Vacants.Plan(ctx, r.ID); err != nil || ok {
		return nil, err
	}
	return problem.New(problem.Conflict, "child %s is a composite without a plan and answers no call; set one first: vacancy plan set", r.ID.Short()), nil
}

// possible refuses what would fail at commit: a party that is asleep, a closed
// parent, or a missing signature of a party that is not hosted here.
func (h *hosts) possible(a *Artefacts, m *composite.Manifest) error {
	if h.asleep != nil {
		return h.asleep
	}
	next := m.Graduated()
	for _, party := range []struct {
		role      string
		here      bool
		id        identity.ID
		signature []byte
	}{{"parent", h.parent, m.ParentID, a.ManifestParent}, {"child", h.child, m.ChildID, a.ManifestChild}} {
		if !party.here && !identity.Verify(party.id, next.SigningBytes(), party.signature) {
			return problem.Invalid("artefacts.manifest_signature_"+party.role, "the signature of the "+party.role+", who is not hosted here, of the manifest that opens the child", "none that verifies")
		}
	}
	if !h.child && (len(a.Card) == 0 || len(a.Signature) == 0) {
		return problem.Invalid("artefacts", "the card and the register event of the child, who is not hosted here", "none")
	}
	return nil
}

// manifest reads the manifest of child.
func (s *Service) manifest(ctx context.Context, child identity.ID) (*composite.Manifest, error) {
	m, d, err := registry.ManifestDocs.Get(ctx, s.Store, registry.ManifestKey(child))
	if err == nil && d.Version == 0 {
		err = unknown(child)
	}
	return &m.Manifest, err
}

func (s *Service) begin(ctx context.Context, sub *Submission, parent identity.ID, tenant string) (Status, error) {
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
		if last, err = s.refresh(ctx, &a); err != nil {
			return Status{}, err
		}
		if st, err := s.again(ctx, &last, sub); err != nil || st.Position > 0 {
			return st, err
		}
		if err := s.often(ctx, child, tip.Position); err != nil {
			return Status{}, err
		}
	}
	policy, _, err := s.Policy(ctx, tenant)
	if err != nil {
		return Status{}, err
	}
	now := s.now()
	tried, err := s.tried(ctx, parent, now)
	if err != nil {
		return Status{}, err
	}
	a := Attempt{ID: ID{child, tip.Position + 1}, Submission: *sub, Policy: policy, Began: now, Due: now.Add(DueAfter)}
	next := Status{Attempt: a, Phase: Open, accepted: last.accepted}
	if last.Phase == Accepted {
		next.accepted = last.Position
	}
	return next, s.write(ctx, &next, &last, tried)
}

// write commits the row and document of a new attempt, its count against the
// parent, and the end of the previous attempt if nobody ended it.
func (s *Service) write(ctx context.Context, next, last *Status, tried store.Put) error {
	writeID, err := s.updater().NewWriteID()
	if err != nil {
		return err
	}
	data, err := next.encode()
	if err != nil {
		return err
	}
	doc, err := next.put(writeID)
	if err != nil {
		return err
	}
	writes := []store.Write{store.Append{Stream: Stream(next.Child), Position: next.Position, WriteID: writeID, Data: data}, doc, tried}
	if last.Phase == Open {
		last.overdue(s.now())
		end, err := last.put(writeID)
		if err != nil {
			return err
		}
		writes = append(writes, end)
	}
	if err := s.updater().Commit(ctx, writes...); err != nil {
		return err
	}
	next.version++
	return nil
}

// again returns the attempt that sub repeats: the last one if it is open, or
// the accepted one. It refuses while another is open.
func (s *Service) again(ctx context.Context, last *Status, sub *Submission) (Status, error) {
	same := last.Request.Hash() == sub.Request.Hash()
	switch {
	case last.Phase == Open && s.now().Before(last.Due):
		if same {
			return *last, nil
		}
		return Status{}, problem.New(problem.Conflict, "child %s: graduation %s, of another request, is open until %s", last.Child.Short(), last.ID, last.Due.Format("15:04:05Z07:00"))
	case last.Phase == Accepted && same:
		return *last, nil
	case last.accepted == 0:
		return Status{}, nil
	}
	before, err := s.read(ctx, ID{last.Child, last.accepted})
	if err != nil || before.Request.Hash() != sub.Request.Hash() {
		return Status{}, err
	}
	return before, nil
}

// often refuses a child that begins too many attempts: each costs the host two
// writes.
func (s *Service) often(ctx context.Context, child identity.ID, tip uint64) error {
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
	if err == nil && s.now().Before(a.Began.Add(Day)) {
		err = problem.New(problem.TooMany, "child %s: expected at most %d attempts to graduate in 24 hours, got more", child.Short(), MaxAttempts)
	}
	return err
}

// read returns the status of an attempt; NotFound if there is none.
func (s *Service) read(ctx context.Context, id ID) (Status, error) {
	a, err := s.row(ctx, id)
	if err != nil {
		return Status{}, err
	}
	return s.refresh(ctx, &a)
}

// row reads an attempt without its status; NotFound if there is none.
func (s *Service) row(ctx context.Context, id ID) (Attempt, error) {
	rows, err := s.Store.Rows(ctx, Stream(id.Child), id.Position, 1, store.Ascending)
	if err != nil {
		return Attempt{}, err
	}
	if len(rows) == 0 || rows[0].Position != id.Position {
		return Attempt{}, notObserved(id)
	}
	return DecodeAttempt(id.Child, rows[0])
}

func notObserved(id ID) error {
	return problem.New(problem.NotFound, "graduation %s is not known", id)
}

// refresh reads the status of an attempt.
func (s *Service) refresh(ctx context.Context, a *Attempt) (Status, error) {
	w, d, err := StatusDocs.Need(ctx, s.Store, AttemptKey(a.Child, a.Position))
	if err != nil {
		return Status{}, err
	}
	return a.status(&w, d.Version), nil
}
