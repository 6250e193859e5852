package graduation

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

// commit makes the child public, or changes nothing. Everything that may have
// changed since the checks is checked again. It retries conflicts until the
// attempt is due.
func (s *Service) commit(ctx context.Context, a *Attempt, found *gate.Findings) error {
	done, err := s.Vacants.LockGraduation(ctx, a.Request.ParentID, a.Child)
	if err != nil {
		return err
	}
	defer done()
	return s.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error { return s.decideCommit(ctx, tx, a, found) })
}

// decideCommit adds the graduation to tx, on the condition that nothing it read
// has changed. The attempt's own document is among the writes, so two runs of
// one attempt have one effect, and an attempt that was recorded as failed stays
// failed.
func (s *Service) decideCommit(ctx context.Context, tx *store.Tx, a *Attempt, found *gate.Findings) error {
	st, err := s.refresh(ctx, a)
	switch {
	case err != nil:
		return err
	case st.Phase == Accepted:
		return nil
	case st.Phase != Open:
		return over(&st)
	}
	if err := s.addSlot(ctx, tx, &st); err != nil {
		return err
	}
	// AddGraduation checks consent, keys and the closed manifest once more.
	made, err := s.Vacants.AddGraduation(ctx, tx, vacants.Graduation{Request: a.Request, Artefacts: a.Artefacts, When: s.now()})
	if err != nil {
		return err
	}
	if err := s.due(&st); err != nil { // as late as possible
		return err
	}
	st.Phase, st.Step, st.Decided, st.Findings = Accepted, gate.Commit, s.now(), found
	st.Outcome = &Outcome{Manifest: made.Manifest.Blob(), CardHash: made.Card.Hash(), Endpoint: made.Card.Endpoint, Seq: made.Receipt.Seq}
	end, err := st.put(tx.ID)
	tx.Add(end)
	return err
}

// addSlot adds to tx the write that takes a slot of the parent's day. It refuses
// if the parent has no slot left.
func (s *Service) addSlot(ctx context.Context, tx *store.Tx, st *Status) error {
	parent := st.Request.ParentID
	w, d, err := WindowDocs.Get(ctx, tx, WindowKey(parent))
	if err != nil {
		return err
	}
	now := s.now()
	if err := gate.CheckRate(parent, w.Taken, now, st.Policy); err != nil {
		return err
	}
	WindowDocs.Put(tx, store.Doc{Key: d.Key}, window{w.Taken.Take(now)})
	return nil
}
