package registry

import (
	"context"
	"errors"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// place assigns d the next position in the chain of all events and returns its
// writes and receipt.
func (r *Registry) place(ctx context.Context, d *decision) (Plan, error) {
	if d.replay != nil {
		receipt, err := d.replay.receipt(&d.reg)
		return Plan{Receipt: receipt, Registration: d.reg}, err
	}
	tip, err := r.Store.Tip(ctx, EventStream())
	if err != nil {
		return Plan{}, err
	}
	l := Logged{Seq: tip.Position + 1, Event: d.event}
	if tip.Position > 0 {
		last, err := DecodeEventRow(tip)
		if err != nil {
			return Plan{}, err
		}
		l.Prev = last.Hash
	}
	l.Hash = l.Event.Hash(l.Prev)
	writeID, err := r.updater().NewWriteID()
	if err != nil {
		return Plan{}, err
	}
	leaf := Leaf{l.Seq, l.Hash, l.Prev, l.Actor, l.ActorSeq}
	writes := []store.Write{
		store.Append{Stream: EventStream(), Position: l.Seq, WriteID: writeID, Data: leaf.data()},
		store.Append{Stream: ActorStream(l.Actor), Position: uint64(l.ActorSeq), WriteID: writeID, Data: l.data()},
	}
	g := d.reg
	if d.keep {
		g.LastSeq, g.ActorSeq = l.Seq, l.ActorSeq
		if g.Joined == 0 {
			g.Joined = l.Seq
		}
		put, err := g.put(writeID)
		if err != nil {
			return Plan{}, err
		}
		writes = append(writes, put)
		g.DocVersion++
	}
	if d.event.Type == typeRevoke {
		put, err := revocation(&l, writeID)
		if err != nil {
			return Plan{}, err
		}
		list, err := r.listRevoked(ctx, l.Actor, writeID)
		if err != nil {
			return Plan{}, err
		}
		writes = append(writes, put, list)
	}
	return Plan{
		Writes:       append(writes, d.beside...),
		Receipt:      Receipt{ID: l.Actor, Visibility: g.Visibility, Seq: l.Seq, CardHash: g.CardHash},
		Registration: g,
	}, nil
}

// run decides and commits at the next free position, and decides again after a
// conflict, until ctx ends. Writers of one process take turns, because only one
// can have the next position; writers of several processes back off.
func (r *Registry) run(ctx context.Context, decide func(context.Context) (*decision, error)) (Receipt, error) {
	var receipt Receipt
	err := r.updater().Update(ctx, func(ctx context.Context, _ *store.Tx) error {
		d, err := decide(ctx)
		if err != nil {
			return err
		}
		if d.replay != nil {
			plan, err := r.place(ctx, d)
			receipt = plan.Receipt
			return err
		}
		receipt, err = r.commit(ctx, d)
		return err
	})
	if store.IsConflict(err) {
		receipt = Receipt{}
	}
	return receipt, fault(err)
}

// commit places d and writes it, in this process's turn. Only the place in the
// chain of all events is tried again here: everything else that was taken has
// to be decided again.
func (r *Registry) commit(ctx context.Context, d *decision) (Receipt, error) {
	done, err := r.Turn(ctx)
	if err != nil {
		return Receipt{}, err
	}
	defer done()
	for try := 1; ; try++ {
		plan, err := r.place(ctx, d)
		if err == nil {
			err = r.updater().Commit(ctx, plan.Writes...)
		}
		if err == nil {
			return plan.Receipt, nil
		}
		var taken *store.TakenError
		if !errors.As(err, &taken) || taken.Stream != EventStream() {
			return Receipt{}, err
		}
		// The others may have taken the actor's place too: look before asking
		// for the next.
		if tip, tipErr := r.Store.Tip(ctx, ActorStream(d.event.Actor)); tipErr != nil || tip.Position >= uint64(d.event.ActorSeq) {
			return Receipt{}, errors.Join(err, tipErr)
		}
		if r.updater().Backoff(ctx, try) != nil {
			return Receipt{}, busy(err)
		}
	}
}

// Turn waits until it is the caller's turn, in this process, to take the next
// place in the chain of all events, and returns what ends the turn. Who commits
// a Plan does so in its turn, and plans within it: so those of one process do
// not take the place from each other.
func (r *Registry) Turn(ctx context.Context) (done func(), err error) {
	select {
	case <-r.turn:
		return func() { r.turn <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, busy(ctx.Err())
	}
}

func busy(cause error) error {
	return problem.Wrap(problem.Unavailable, cause, "many publish at once; send the same again")
}

// fault gives an error of the store a kind. A conflict that outlasted all
// retries is Unavailable: the same request may be sent again.
func fault(err error) error {
	if store.IsConflict(err) {
		return busy(err)
	}
	return store.Problem(err)
}

// updater changes the store with optimistic concurrency.
func (r *Registry) updater() store.Updater {
	return store.Updater{Store: r.Store, Rand: r.Rand, Wait: r.Wait}
}
