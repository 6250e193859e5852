package graduation

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

// commit makes the child public, or changes nothing. Whatever has changed since
// the checks is checked again, until nobody else is in the way or the attempt
// is due.
func (s *Service) commit(ctx context.Context, a *Attempt, found *gate.Findings) error {
	return s.updater().Update(ctx, func(ctx context.Context, _ *store.Tx) error { return s.commitOnce(ctx, a, found) })
}

// commitOnce plans under what it reads and commits on the condition that it
// still is so. The attempt's own document is among what is written: so two runs
// of one attempt have one effect, and what was recorded as failed stays so.
func (s *Service) commitOnce(ctx context.Context, a *Attempt, found *gate.Findings) error {
	done, err := s.Vacants.LockGraduation(ctx, a.Request.ParentID, a.Child)
	if err != nil {
		return err
	}
	defer done()
	st, err := s.refresh(ctx, a)
	switch {
	case err != nil:
		return err
	case st.Phase == Accepted:
		return nil
	case st.Phase != Open:
		return over(&st)
	}
	slot, err := s.slot(ctx, &st)
	if err != nil {
		return err
	}
	// Which asks for consent, for the keys and for a closed child once more.
	planned, made, err := s.Vacants.PlanGraduation(ctx, vacants.Graduation{Request: a.Request, Artefacts: a.Artefacts, When: s.now()})
	if err != nil {
		return err
	}
	if err := s.due(&st); err != nil { // as late as it can be asked
		return err
	}
	st.Phase, st.Step, st.Decided, st.Findings = Accepted, gate.Commit, s.now(), found
	st.Outcome = &Outcome{Manifest: made.Manifest.Blob(), CardHash: made.Card.Hash(), Endpoint: made.Card.Endpoint, Seq: made.Receipt.Seq}
	end, err := st.put(slot.WriteID)
	if err != nil {
		return err
	}
	return s.updater().Commit(ctx, append([]store.Write{end, slot}, planned...)...)
}

// slot is the write that takes a slot of the parent's day, if there is one.
func (s *Service) slot(ctx context.Context, st *Status) (store.Put, error) {
	parent := st.Request.ParentID
	w, version, err := s.window(ctx, parent)
	if err != nil {
		return store.Put{}, err
	}
	now := s.now()
	if err := gate.CheckRate(parent, w, now, st.Policy); err != nil {
		return store.Put{}, err
	}
	writeID, err := s.updater().NewWriteID()
	if err != nil {
		return store.Put{}, err
	}
	return taken(parent, w.Take(now), version, writeID)
}
