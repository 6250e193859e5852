package graduation

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

// commit makes the child public in one transaction. It repeats all checks whose facts may have
// changed, and retries conflicts until the attempt is due.
func (s *Service) commit(ctx context.Context, a *Attempt, found *gate.Findings) error {
	done, err := s.Vacants.LockGraduation(ctx, a.Request.ParentID, a.Child)
	if err != nil {
		return err
	}
	defer done()
	return s.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error { return s.decideCommit(ctx, tx, a, found) })
}

// decideCommit adds the graduation and the attempt's status to tx. The transaction conflicts if
// data that decideCommit read has changed. Two runs of one attempt therefore have a single effect,
// and a failed attempt remains failed.
func (s *Service) decideCommit(ctx context.Context, tx *store.Tx, a *Attempt, found *gate.Findings) error {
	st, err := s.refresh(ctx, a)
	switch {
	case err != nil:
		return err
	case st.Phase == Accepted:
		return nil
	case st.Phase != Open:
		return decidedError(&st)
	}
	if err := s.addSlot(ctx, tx, &st); err != nil {
		return err
	}
	// AddGraduation repeats the checks of consent, keys and the closed manifest.
	made, err := s.Vacants.AddGraduation(ctx, tx, vacants.Graduation{Request: a.Request, Artefacts: a.Artefacts, When: s.now()})
	if err != nil {
		return err
	}
	if err := s.due(&st); err != nil { // checked as late as possible
		return err
	}
	st.Phase, st.Step, st.DecidedAt, st.Findings = Accepted, gate.Commit, s.now(), found
	st.Outcome = &Outcome{Manifest: made.Manifest.Blob(), CardHash: made.Card.Hash(), Endpoint: made.Card.Endpoint, Seq: made.Receipt.Seq}
	end, err := st.put(tx.ID)
	tx.Add(end)
	return err
}

func (s *Service) addSlot(ctx context.Context, tx *store.Tx, st *Status) error {
	parent := st.Request.ParentID
	w, d, err := WindowDocs.Get(ctx, tx, WindowKey(parent))
	if err != nil {
		return err
	}
	now := s.now()
	if err := gate.CheckRateLimit(parent, w.Taken, now, st.Policy); err != nil {
		return err
	}
	WindowDocs.Put(tx, store.Doc{Key: d.Key}, window{w.Taken.Add(now)})
	return nil
}
