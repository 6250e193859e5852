package graduation

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

// commit makes the child public in one transaction. It repeats all checks whose facts may have
// changed.
func (s *Service) commit(ctx context.Context, a *Attempt, findings *gate.Findings) error {
	unlock, err := s.Vacants.LockGraduation(ctx, a.Request.ParentID, a.Child)
	if err != nil {
		return err
	}
	defer unlock()
	return s.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error { return s.decideCommit(ctx, tx, a, findings) })
}

// decideCommit adds the graduation and the attempt's status to tx. Two runs of one attempt have a
// single effect, because the transaction conflicts if data that decideCommit read has changed.
func (s *Service) decideCommit(ctx context.Context, tx *store.Tx, a *Attempt, findings *gate.Findings) error {
	st, err := s.loadStatusOf(ctx, a)
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
	result, err := s.Vacants.AddGraduation(ctx, tx, vacants.Graduation{Request: a.Request, Artefacts: a.Artefacts, EventTime: s.now()})
	if err != nil {
		return err
	}
	if err := s.checkNotOverdue(&st); err != nil { // checked as late as possible
		return err
	}
	st.Phase, st.Step, st.DecidedAt, st.Findings = Accepted, gate.StepCommit, s.now(), findings
	st.Outcome = &Outcome{Manifest: result.Manifest.Blob(), CardHash: result.Card.Hash(), Endpoint: result.Card.Endpoint, Seq: result.Receipt.Seq}
	statusPut, err := st.newPut(tx.ID)
	tx.AddWrites(statusPut)
	return err
}

func (s *Service) addSlot(ctx context.Context, tx *store.Tx, st *Status) error {
	parent := st.Request.ParentID
	w, d, err := WindowDocs.Get(ctx, tx, WindowKey(parent))
	if err != nil {
		return err
	}
	now := s.now()
	if err := gate.CheckRateLimit(parent, w.SlotTimes, now, st.Policy); err != nil {
		return err
	}
	WindowDocs.Put(tx, store.Doc{Key: d.Key}, storedWindow{w.SlotTimes.Add(now)})
	return nil
}
