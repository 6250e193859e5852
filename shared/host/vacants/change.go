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

// Pause makes a LOCAL or ACTIVE vacant HIBERNATING. Like all changes of state, it has no effect if
// the vacant is already in this state, so a command with an unknown outcome can be repeated.
func (v *Directory) Pause(ctx context.Context, id identity.ID) (Record, error) {
	return v.move(ctx, id, lifecycle.Hibernating, "paused", func(s lifecycle.State) (lifecycle.State, error) {
		if s.CanBeCalled() {
			return lifecycle.Hibernating, nil
		}
		return s, problem.New(problem.Conflict, "only a vacant that answers calls")
	})
}

// Resume makes a HIBERNATING or STALE vacant ACTIVE, or LOCAL if its manifest is closed.
func (v *Directory) Resume(ctx context.Context, id identity.ID) (Record, error) {
	return v.moveRecord(ctx, id, "resumed", func(r *Record) (lifecycle.State, error) {
		goal := lifecycle.Active
		if r.Closed {
			goal = lifecycle.Local
		}
		if r.State == goal {
			return goal, nil
		}
		if _, err := r.State.Next(lifecycle.ReviveRequested); err != nil {
			return r.State, err
		}
		return goal, nil
	})
}

// Sink makes a vacant SUNK from every state except ARCHIVED. A SUNK vacant never answers calls
// again.
func (v *Directory) Sink(ctx context.Context, id identity.ID) (Record, error) {
	return v.move(ctx, id, lifecycle.Sunk, "sunk", func(s lifecycle.State) (lifecycle.State, error) {
		if s == lifecycle.Archived {
			return s, problem.New(problem.Conflict, "it is closed for good")
		}
		return lifecycle.Sunk, nil
	})
}

func (v *Directory) Archive(ctx context.Context, id identity.ID) (Record, error) {
	return v.move(ctx, id, lifecycle.Archived, "archived", func(s lifecycle.State) (lifecycle.State, error) {
		return s.Next(lifecycle.ArchiveRequested)
	})
}

func (v *Directory) move(ctx context.Context, id identity.ID, goal lifecycle.State, verb string, next func(lifecycle.State) (lifecycle.State, error)) (Record, error) {
	return v.moveRecord(ctx, id, verb, func(r *Record) (lifecycle.State, error) {
		if r.State == goal {
			return goal, nil
		}
		return next(r.State)
	})
}

func (v *Directory) moveRecord(ctx context.Context, id identity.ID, verb string, next func(*Record) (lifecycle.State, error)) (Record, error) {
	return v.change(ctx, id, func(r *Record) (*entry, error) {
		from := r.State
		to, err := next(r)
		if err != nil {
			return nil, problem.Wrap(problem.Conflict, err, "vacant %s is %s; it cannot be %s", r.Name, from, verb)
		}
		if to == from {
			return nil, nil
		}
		r.State = to
		return &entry{logbook.KindStateChanged, logbook.StateChangedPayload(from, to)}, nil
	})
}

// RaiseFloors raises the Floor of all vacants that are not terminal (SUNK or ARCHIVED), because a store
// that was restored from a backup does not know which envelopes were accepted after the backup. Calls
// that are signed at or before the Floor are refused, so callers must wait until it has passed, or sign
// with a later time. If RaiseFloors is repeated after an error, it sets a later Floor.
func (v *Directory) RaiseFloors(ctx context.Context) (total RaiseResult, err error) {
	_, err = v.each(ctx, Operator(), func(n named) (bool, error) { return v.raiseFloor(ctx, n, &total) })
	return total, err
}

// RaiseResult contains the number of vacants whose Floor was raised, and the latest Floor.
type RaiseResult struct {
	Vacants int
	Until   time.Time
}

func (v *Directory) RaiseFloorsPage(ctx context.Context, cursor string, n int) (total RaiseResult, next string, failed []error, err error) {
	page, next, err := v.ids(ctx, Operator().names(), cursor, n)
	if err != nil {
		return total, "", nil, err
	}
	// An error of one vacant does not stop the others.
	for _, item := range page {
		if _, err := v.raiseFloor(ctx, item, &total); err != nil {
			failed = append(failed, err)
		}
	}
	return total, next, failed, nil
}

func (v *Directory) raiseFloor(ctx context.Context, n named, total *RaiseResult) (open bool, err error) {
	r, err := v.change(ctx, n.id, func(r *Record) (*entry, error) {
		if r.State.IsClosed() {
			return nil, nil
		}
		r.Restored = v.now()
		r.Floor = v.floor()
		return &entry{logbook.KindRestored, logbook.RestoredPayload(r.Floor)}, nil
	})
	if err != nil || r.State.IsClosed() {
		return false, err
	}
	total.Vacants++
	if r.Floor.After(total.Until) {
		total.Until = r.Floor
	}
	return true, nil
}

// floor returns a time after all envelopes that a host can have accepted so far, because envelopes
// may be signed up to call.MaxSkew in the future.
func (v *Directory) floor() time.Time { return v.now().Add(call.MaxSkew) }

// change applies decide to the record of id. It commits the record together with the logbook entry
// that decide returns. If the entry is nil, the record does not change. After a conflict, decide is
// called again until ctx ends.
func (v *Directory) change(ctx context.Context, id identity.ID, decide func(*Record) (*entry, error)) (Record, error) {
	ctx, cancel := store.WithPatience(ctx)
	defer cancel()
	done, err := v.logs.Lock(ctx, id)
	if err != nil {
		return Record{}, err
	}
	defer done()
	var r Record
	err = v.update(ctx, func(ctx context.Context, tx *store.Tx) error {
		current, ok, err := v.read(ctx, id)
		if err != nil {
			return err
		}
		if !ok {
			return notHosted(id)
		}
		r = current
		from := r.State
		e, err := decide(&r)
		if e == nil || err != nil {
			return err
		}
		if r.State != from && v.Registry != nil {
			if err := v.Registry.SetState(ctx, tx, r.ID, r.State); err != nil {
				return err
			}
		}
		return v.addChange(ctx, tx, &r, e)
	})
	return r, err
}

func (v *Directory) update(ctx context.Context, decide func(ctx context.Context, tx *store.Tx) error) error {
	defer v.memory.forget() // even if the outcome of the commit is unknown
	return store.AsProblem(v.Quotas.Explain(v.updater().Update(ctx, decide)))
}

func (v *Directory) addChange(ctx context.Context, tx *store.Tx, r *Record, e *entry) error {
	signer, err := v.signers.Signer(ctx, r.ID, r.seed)
	if err != nil {
		return err
	}
	if err := v.addEntry(ctx, tx, signer, e); err != nil {
		return err
	}
	r.Changed = v.now()
	if err := v.useQuotas(ctx, tx, r); err != nil {
		return err
	}
	return r.put(tx)
}

func (r *Record) put(tx *store.Tx) error {
	if r.next != nil {
		r.Agent, r.Input, r.Memory = r.Agent+1, r.next.Input, r.next.Memory
		AgentDocs.Put(tx, store.Doc{Key: AgentKey(r.ID, r.Agent)}, *r.next)
		r.next = nil
	}
	data, err := RecordDocs.Encode(*r)
	if err != nil {
		return err
	}
	tx.Add(store.Put{Key: RecordKey(r.ID), IfVersion: r.version, WriteID: tx.ID, Data: data, Index: r.place()})
	r.version++
	return nil
}

// entry is the content of a logbook entry, without its position and its signature.
type entry struct {
	kind    string
	payload []byte
}

func (v *Directory) addEntry(ctx context.Context, tx *store.Tx, signer identity.Signer, e *entry) error {
	row, err := v.row(ctx, signer, e)
	if err == nil {
		tx.Append(row.Stream, row.Position, row.Data)
	}
	return err
}

func (v *Directory) row(ctx context.Context, signer identity.Signer, e *entry) (store.Append, error) {
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

// Rebase signs every card again that contains a different URL than this host's, adds a logbook
// entry for each, and returns their number. A host calls it when it starts. Terminal vacants keep
// their cards. After an error it continues with the next vacant, and returns all errors. If the
// vacant did not sign the card or the capability differs from the record, the error is Damaged,
// because a new signature would make a forged text valid.
func (v *Directory) Rebase(ctx context.Context) (signed int, err error) {
	base, err := v.base(ctx)
	if err != nil {
		return 0, err
	}
	return v.each(ctx, Operator(), func(n named) (bool, error) { return v.rebase(ctx, n.id, base) })
}

func (v *Directory) rebase(ctx context.Context, id identity.ID, base string) (changed bool, err error) {
	published := false
	_, err = v.change(ctx, id, func(r *Record) (*entry, error) {
		changed, published = false, false
		if r.State.IsClosed() {
			return nil, nil
		}
		// The state of the publication is read after the record, so that a concurrent publication
		// conflicts with this commit.
		if published, err = v.isPublished(ctx, id); err != nil || published {
			return nil, err
		}
		c, fresh, err := v.current(ctx, r, base, r.Capability, nil)
		if err != nil || !fresh {
			return nil, err
		}
		changed = true
		return &entry{logbook.KindCardSigned, logbook.CardSignedPayload(c.Hash(), c.Endpoint)}, nil
	})
	if err == nil && published {
		changed, err = v.republish(ctx, id)
	}
	return changed && err == nil, err
}

// current returns r's card for the base URL, the capability and the substrates, and signs it again
// if one of them has changed. If the substrates are nil, the new card has the substrates of the old
// card, because a plan changes the substrate but not the card.
func (v *Directory) current(ctx context.Context, r *Record, base, capability string, allowed []string) (c card.Card, fresh bool, err error) {
	old, err := card.Parse(r.Card)
	if err != nil || old.VacantID != r.ID || !old.Verify() || old.CapabilityText != r.Capability || len(old.AllowedSubstrates) == 0 {
		return c, false, problem.Wrap(problem.Damaged, err, "the card of vacant %s is damaged or does not match its record", r.Name)
	}
	if allowed == nil {
		allowed = old.AllowedSubstrates
	}
	if capability == r.Capability && old.Endpoint == endpoint(base, r.ID) && slices.Equal(old.AllowedSubstrates, allowed) {
		return old, false, nil
	}
	r.Capability = capability
	signer, err := v.signers.Signer(ctx, r.ID, r.seed)
	if err != nil {
		return c, false, err
	}
	c, err = sign(ctx, r, base, allowed, signer)
	return c, err == nil, err
}
