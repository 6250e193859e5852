package vacants

import (
	"context"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// Pause makes a LOCAL or ACTIVE vacant HIBERNATING.
func (v *Directory) Pause(ctx context.Context, id identity.ID) (Record, error) {
	return v.changeState(ctx, id, lifecycle.Hibernating, "paused", func(s lifecycle.State) (lifecycle.State, error) {
		if s.CanBeCalled() {
			return lifecycle.Hibernating, nil
		}
		return s, problem.New(problem.Conflict, "only a vacant that answers calls can be paused")
	})
}

// Resume makes a HIBERNATING or STALE vacant ACTIVE, or LOCAL if its manifest is closed.
func (v *Directory) Resume(ctx context.Context, id identity.ID) (Record, error) {
	return v.changeRecordState(ctx, id, "resumed", func(r *Record) (lifecycle.State, error) {
		target := lifecycle.Active
		if r.Closed {
			target = lifecycle.Local
		}
		if r.State == target {
			return target, nil
		}
		if _, err := r.State.Next(lifecycle.ReviveRequested); err != nil {
			return r.State, err
		}
		return target, nil
	})
}

// Sink makes a vacant SUNK, unless it is ARCHIVED. A SUNK vacant never answers calls again.
func (v *Directory) Sink(ctx context.Context, id identity.ID) (Record, error) {
	return v.changeState(ctx, id, lifecycle.Sunk, "sunk", func(s lifecycle.State) (lifecycle.State, error) {
		if s == lifecycle.Archived {
			return s, problem.New(problem.Conflict, "an archived vacant never changes its state")
		}
		return lifecycle.Sunk, nil
	})
}

func (v *Directory) Archive(ctx context.Context, id identity.ID) (Record, error) {
	return v.changeState(ctx, id, lifecycle.Archived, "archived", func(s lifecycle.State) (lifecycle.State, error) {
		return s.Next(lifecycle.ArchiveRequested)
	})
}

func (v *Directory) changeState(ctx context.Context, id identity.ID, target lifecycle.State, participle string, nextState func(lifecycle.State) (lifecycle.State, error)) (Record, error) {
	return v.changeRecordState(ctx, id, participle, func(r *Record) (lifecycle.State, error) {
		if r.State == target {
			return target, nil
		}
		return nextState(r.State)
	})
}

func (v *Directory) changeRecordState(ctx context.Context, id identity.ID, participle string, nextState func(*Record) (lifecycle.State, error)) (Record, error) {
	return v.changeRecord(ctx, id, func(r *Record) (*entry, error) {
		oldState := r.State
		newState, err := nextState(r)
		if err != nil {
			return nil, problem.Wrap(problem.Conflict, err, "vacant %s is %s; it cannot be %s", r.Name, oldState, participle)
		}
		if newState == oldState {
			return nil, nil
		}
		r.State = newState
		return &entry{logbook.KindStateChanged, logbook.StateChangedPayload(oldState, newState)}, nil
	})
}

// RaiseFloors must be called after a restore from a backup. It raises the Floor of all vacants that
// are not SUNK or ARCHIVED. The restored store does not know which envelopes were accepted after
// the backup, so calls that are signed at or before the Floor are refused.
func (v *Directory) RaiseFloors(ctx context.Context) (total RaiseResult, err error) {
	_, err = v.forEachVacant(ctx, OperatorAsker(), func(n namedVacant) (bool, error) { return v.raiseFloor(ctx, n, &total) })
	return total, err
}

type RaiseResult struct {
	Vacants     int
	LatestFloor time.Time
}

func (v *Directory) RaiseFloorsPage(ctx context.Context, cursor string, n int) (total RaiseResult, next string, errs []error, err error) {
	page, next, err := v.listNames(ctx, OperatorAsker().nameRange(), cursor, n)
	if err != nil {
		return total, "", nil, err
	}
	for _, item := range page {
		if _, err := v.raiseFloor(ctx, item, &total); err != nil {
			errs = append(errs, err)
		}
	}
	return total, next, errs, nil
}

func (v *Directory) raiseFloor(ctx context.Context, n namedVacant, total *RaiseResult) (raised bool, err error) {
	r, err := v.changeRecord(ctx, n.id, func(r *Record) (*entry, error) {
		if r.State.IsRetired() {
			return nil, nil
		}
		r.RestoredAt = v.now()
		r.Floor = v.newFloor()
		return &entry{logbook.KindRestored, logbook.RestoredPayload(r.Floor)}, nil
	})
	if err != nil || r.State.IsRetired() {
		return false, err
	}
	total.Vacants++
	if r.Floor.After(total.LatestFloor) {
		total.LatestFloor = r.Floor
	}
	return true, nil
}

// newFloor returns the latest signing time of envelopes that a host can have accepted. Envelopes
// may be signed up to call.MaxSkew in the future.
func (v *Directory) newFloor() time.Time { return v.now().Add(call.MaxSkew) }

// changeRecord commits the changes that decide makes to id's record together with the logbook entry
// that decide returns. If the entry is nil, the record does not change. After a conflict, decide is
// called again.
func (v *Directory) changeRecord(ctx context.Context, id identity.ID, decide func(*Record) (*entry, error)) (Record, error) {
	ctx, cancel := store.WithDefaultTimeout(ctx)
	defer cancel()
	unlock, err := v.logbookLocks.Lock(ctx, id)
	if err != nil {
		return Record{}, err
	}
	defer unlock()
	var r Record
	err = v.commitTx(ctx, func(ctx context.Context, tx *store.Tx) error {
		current, ok, err := v.readRecord(ctx, id)
		if err != nil {
			return err
		}
		if !ok {
			return notHosted(id)
		}
		r = current
		oldState := r.State
		e, err := decide(&r)
		if e == nil || err != nil {
			return err
		}
		if r.State != oldState && v.Registry != nil {
			if err := v.Registry.SetState(ctx, tx, r.ID, r.State); err != nil {
				return err
			}
		}
		return v.addChange(ctx, tx, &r, e)
	})
	return r, err
}

func (v *Directory) commitTx(ctx context.Context, decide func(ctx context.Context, tx *store.Tx) error) error {
	defer v.cache.invalidate() // even if the outcome of the commit is unknown
	return store.AsProblem(v.Quotas.ConvertError(v.updater().Update(ctx, decide)))
}

func (v *Directory) addChange(ctx context.Context, tx *store.Tx, r *Record, e *entry) error {
	signer, err := v.signers.Signer(ctx, r.ID, r.sealedSeed)
	if err != nil {
		return err
	}
	if err := v.addEntry(ctx, tx, signer, e); err != nil {
		return err
	}
	r.ChangedAt = v.now()
	if err := v.addQuotaUse(ctx, tx, r); err != nil {
		return err
	}
	return r.addTo(tx)
}

func (r *Record) addTo(tx *store.Tx) error {
	if r.nextAgent != nil {
		r.AgentVersion, r.Input, r.Memory = r.AgentVersion+1, r.nextAgent.Input, r.nextAgent.Memory
		AgentDocs.Put(tx, store.Doc{Key: AgentKey(r.ID, r.AgentVersion)}, *r.nextAgent)
		r.nextAgent = nil
	}
	data, err := RecordDocs.Encode(*r)
	if err != nil {
		return err
	}
	tx.AddWrites(store.Put{Key: RecordKey(r.ID), IfVersion: r.docVersion, WriteID: tx.ID, Data: data, Index: r.openIndexKey()})
	r.docVersion++
	return nil
}

type entry struct {
	kind    string
	payload []byte
}

func (v *Directory) addEntry(ctx context.Context, tx *store.Tx, signer identity.Signer, e *entry) error {
	row, err := v.newLogbookRow(ctx, signer, e)
	if err == nil {
		tx.Append(row.Stream, row.Position, row.Data)
	}
	return err
}

func (v *Directory) newLogbookRow(ctx context.Context, signer identity.Signer, e *entry) (store.Append, error) {
	s := store.StreamOf(store.KindLogbook, signer.ID())
	tip, err := v.Store.Tip(ctx, s)
	if err != nil {
		return store.Append{}, store.AsProblem(err)
	}
	var prev *logbook.Entry
	if tip.Position > 0 {
		if prev, err = decodeEntry(signer.ID(), tip); err != nil {
			return store.Append{}, err
		}
		if prev.Kind == logbook.KindDeleted {
			return store.Append{}, problem.New(problem.Gone, "vacant %s was deleted; its logbook accepts no more entries", signer.ID().Short())
		}
	}
	next := logbook.Next(prev, e.kind, v.Now(), e.payload)
	if _, err := next.Sign(ctx, signer); err != nil {
		return store.Append{}, err
	}
	data, err := next.MarshalBinary()
	if err != nil {
		return store.Append{}, err
	}
	return store.Append{Stream: s, Position: tip.Position + 1, Data: data}, nil
}

func decodeEntry(id identity.ID, row store.Row) (*logbook.Entry, error) {
	e := &logbook.Entry{}
	if err := e.UnmarshalBinary(row.Data); err != nil {
		return nil, problem.Wrap(problem.Damaged, err, "logbook of vacant %s: row %d is damaged", id.Short(), row.Position)
	}
	return e, nil
}

// UpdateCardURLs replaces every card that does not contain this host's URL and returns the number
// of new cards. After an error, it continues with the next vacant. A damaged card is not signed
// again, because its text may be forged.
func (v *Directory) UpdateCardURLs(ctx context.Context) (signedCount int, err error) {
	base, err := v.requireBaseURL(ctx)
	if err != nil {
		return 0, err
	}
	return v.forEachVacant(ctx, OperatorAsker(), func(n namedVacant) (bool, error) { return v.updateCardURL(ctx, n.id, base) })
}

func (v *Directory) updateCardURL(ctx context.Context, id identity.ID, base string) (changed bool, err error) {
	isPublished := false
	_, err = v.changeRecord(ctx, id, func(r *Record) (*entry, error) {
		changed, isPublished = false, false
		if r.State.IsRetired() {
			return nil, nil
		}
		// If the vacant is published concurrently, this commit conflicts.
		if isPublished, err = v.isPublished(ctx, id); err != nil || isPublished {
			return nil, err
		}
		c, isNew, err := v.getOrSignCard(ctx, r, base, r.Capability, nil)
		if err != nil || !isNew {
			return nil, err
		}
		changed = true
		return &entry{logbook.KindCardSigned, logbook.CardSignedPayload(c.Hash(), c.Endpoint)}, nil
	})
	if err == nil && isPublished {
		changed, err = v.republish(ctx, id)
	}
	return changed && err == nil, err
}

// getOrSignCard returns r's card if it has the given base URL, capability and substrates. Otherwise,
// it signs a new card and stores it in r. If cardSubstrates is nil, the substrates of the card do
// not change.
func (v *Directory) getOrSignCard(ctx context.Context, r *Record, base, capability string, cardSubstrates []string) (c card.Card, isNew bool, err error) {
	old, err := card.Parse(r.Card)
	if err != nil || old.VacantID != r.ID || !old.Verify() || old.CapabilityText != r.Capability || len(old.AllowedSubstrates) == 0 {
		return c, false, problem.Wrap(problem.Damaged, err, "the card of vacant %s is damaged or does not match its record", r.Name)
	}
	if cardSubstrates == nil {
		cardSubstrates = old.AllowedSubstrates
	}
	if capability == r.Capability && old.Endpoint == cardEndpoint(base, r.ID) && slices.Equal(old.AllowedSubstrates, cardSubstrates) {
		return old, false, nil
	}
	r.Capability = capability
	signer, err := v.signers.Signer(ctx, r.ID, r.sealedSeed)
	if err != nil {
		return c, false, err
	}
	c, err = signCard(ctx, r, base, cardSubstrates, signer)
	return c, err == nil, err
}
