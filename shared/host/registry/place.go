package registry

import (
	"cmp"
	"context"
	"errors"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
)

func (r *Registry) addDecision(ctx context.Context, tx *store.Tx, d *decision) (Receipt, error) {
	if d.replay != nil {
		return d.replay.replayedReceipt(&d.registration)
	}
	writes, receipt, err := r.decisionWrites(ctx, tx.ID, d)
	tx.AddWrites(writes...)
	return receipt, err
}

func (r *Registry) decisionWrites(ctx context.Context, writeID store.WriteID, d *decision) ([]store.Write, Receipt, error) {
	tip, err := r.Store.Tip(ctx, EventStream())
	if err != nil {
		return nil, Receipt{}, err
	}
	l := LoggedEvent{Seq: tip.Position + 1, Event: d.event}
	if tip.Position > 0 {
		last, err := DecodeEventRow(tip)
		if err != nil {
			return nil, Receipt{}, err
		}
		l.Prev = last.Hash
	}
	l.Hash = l.Event.Hash(l.Prev)
	leaf := EventLeaf{l.Seq, l.Hash, l.Prev, l.Actor, l.ActorSeq}
	writes := []store.Write{
		store.Append{Stream: EventStream(), Position: l.Seq, WriteID: writeID, Data: leaf.encode()},
		store.Append{Stream: ActorStream(l.Actor), Position: uint64(l.ActorSeq), WriteID: writeID, Data: l.encode()},
	}
	reg := d.registration
	if d.writesRegistration {
		reg.LastSeq, reg.ActorSeq = l.Seq, l.ActorSeq
		reg.FirstSeq = cmp.Or(reg.FirstSeq, l.Seq)
		regWrites, err := r.registrationWrites(ctx, &reg, writeID)
		if err != nil {
			return nil, Receipt{}, err
		}
		writes = append(writes, regWrites...)
	}
	if d.event.Type == event.Register && reg.needsProbe() {
		probe := pendingProbe{id: reg.ID, seq: l.Seq}
		data, err := PendingProbeDocs.Encode(probe)
		if err != nil {
			return nil, Receipt{}, err
		}
		writes = append(writes, store.Put{Key: probe.key(r.now()), WriteID: writeID, Data: data})
	}
	if d.event.Type == typeRevoke {
		put, err := revocationPut(&l, writeID)
		if err != nil {
			return nil, Receipt{}, err
		}
		revokedList, doc, err := RevokedListDocs.Get(ctx, r.Store, RevokedListKey())
		if err != nil {
			return nil, Receipt{}, err
		}
		data, err := RevokedListDocs.Encode(revokedList.withID(l.Actor))
		if err != nil {
			return nil, Receipt{}, err
		}
		writes = append(writes, put, store.Put{Key: doc.Key, IfVersion: doc.Version, WriteID: writeID, Data: data})
	}
	return writes, Receipt{ID: l.Actor, Visibility: reg.Visibility, Seq: l.Seq, CardHash: reg.CardHash, AwaitsProbe: reg.needsProbe()}, nil
}

// commit acquires the turn and writes d. It retries only if another writer took the position in the
// chain of all events. After other conflicts the caller must call decidePublication again.
func (r *Registry) commit(ctx context.Context, d *decision) (Receipt, error) {
	if d.replay != nil {
		return d.replay.replayedReceipt(&d.registration)
	}
	release, err := r.AcquireTurn(ctx)
	if err != nil {
		return Receipt{}, err
	}
	defer release()
	for try := 1; ; try++ {
		id, err := r.updater().NewWriteID()
		if err != nil {
			return Receipt{}, err
		}
		writes, receipt, err := r.decisionWrites(ctx, id, d)
		if err == nil {
			err = r.updater().Commit(ctx, writes...)
		}
		if err == nil {
			if receipt.AwaitsProbe {
				r.signalProbe()
			}
			return receipt, nil
		}
		var taken *store.TakenError
		if !errors.As(err, &taken) || taken.Stream != EventStream() {
			return Receipt{}, err
		}
		// Another writer may also have taken the actor's position.
		if tip, tipErr := r.Store.Tip(ctx, ActorStream(d.event.Actor)); tipErr != nil || tip.Position >= uint64(d.event.ActorSeq) {
			return Receipt{}, errors.Join(err, tipErr)
		}
		if r.updater().Backoff(ctx, try) != nil {
			return Receipt{}, busyError(err)
		}
	}
}

// AcquireTurn waits until the caller may append to the chain of all events, and returns a function
// that ends the turn. Turns prevent conflicts between the writers of one process.
func (r *Registry) AcquireTurn(ctx context.Context) (release func(), err error) {
	select {
	case <-r.publishTurn:
		return func() { r.publishTurn <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, busyError(ctx.Err())
	}
}

func busyError(cause error) error {
	return problem.Wrap(problem.Unavailable, cause, "too many concurrent publications; send the same request again")
}

// WrapStoreError converts an error of the store into a problem. A conflict becomes Unavailable,
// because the request can be sent again.
func WrapStoreError(err error) error {
	if store.IsConflict(err) {
		return busyError(err)
	}
	return store.AsProblem(err)
}

func (r *Registry) updater() store.Updater {
	return store.Updater{Store: r.Store, Rand: r.Rand, Wait: r.Wait}
}
