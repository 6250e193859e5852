package graduation

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/settle"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

// commit makes the child public, or changes nothing. Whatever has changed since
// the checks is checked again, until nobody else is in the way or the attempt
// is due.
func (s *Service) commit(ctx context.Context, a *Attempt, found *gate.Findings) error {
	ctx, cancel := settle.WithPatience(ctx)
	defer cancel()
	for try := 1; ; try++ {
		err := s.commitOnce(ctx, a, found)
		if err == nil || !settle.Overtaken(err) {
			return err
		}
		if settle.BackOff(ctx, s.Wait, s.Rand, try) != nil {
			return err
		}
	}
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
	return settle.Commit(ctx, s.Store, s.Wait, append([]store.Write{end, slot}, planned...)...)
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
	writeID, err := s.attempt()
	if err != nil {
		return store.Put{}, err
	}
	return taken(parent, w.Take(now), version, writeID)
}
