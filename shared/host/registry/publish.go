package registry

import (
	"context"
	"math"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// Publish stores a publication. If the same publication is sent again, for example after
// Unavailable, Publish returns the original receipt without a change. A second card with the same
// version is refused with an *EquivocationError in the chain.
func (r *Registry) Publish(ctx context.Context, p Publication) (Receipt, error) {
	var receipt Receipt
	err := r.updater().Update(ctx, func(ctx context.Context, _ *store.Tx) error {
		d, err := r.decidePublication(ctx, &p, publisher{})
		if err == nil {
			receipt, err = r.commit(ctx, d)
		}
		return err
	})
	return receipt, WrapStoreError(err)
}

// PublishHosted adds to tx a publication of a vacant that this host runs. Unlike Publish, it may
// change the vacant's state. The caller must hold the turn (AcquireTurn) until tx is committed.
func (r *Registry) PublishHosted(ctx context.Context, tx *store.Tx, p Publication) (Receipt, error) {
	d, err := r.decidePublication(ctx, &p, publisher{isHost: true})
	if err != nil {
		return Receipt{}, err
	}
	return r.addDecision(ctx, tx, d)
}

// Graduate adds to tx the publication of a closed child that has passed the gate, and replaces the
// closed manifest by next. The caller must hold the turn (AcquireTurn) until tx is committed.
func (r *Registry) Graduate(ctx context.Context, tx *store.Tx, p Publication, next composite.Manifest, isHosted bool) (Receipt, error) {
	oldDoc, d, err := ManifestDocs.Get(ctx, tx, ManifestKey(next.ChildID))
	if err == nil && d.Version == 0 {
		err = UnknownChildError(next.ChildID)
	}
	if err == nil {
		err = r.checkGraduationProof(ctx, &oldDoc)
	}
	if err != nil {
		return Receipt{}, err
	}
	if !oldDoc.IsClosed() {
		return Receipt{}, problem.New(problem.AlreadyGraduated, "child %s is open already", next.ChildID.Short())
	}
	if err := oldDoc.Manifest.CheckGraduation(&next); err != nil {
		return Receipt{}, err
	}
	dec, err := r.decidePublication(ctx, &p, publisher{isHost: isHosted, isGate: true})
	if err != nil {
		return Receipt{}, err
	}
	if dec.replay != nil {
		return Receipt{}, problem.New(problem.OutOfSequence, "event %d of %s already exists", p.ActorSeq, next.ChildID.Short())
	}
	if dec.registration.ID != next.ChildID {
		return Receipt{}, problem.Invalid("capability card", "the card of the child "+next.ChildID.String(), "the card of "+dec.registration.ID.String())
	}
	newDoc := ManifestDocument{Manifest: next, Graduated: true, PreviousManifest: &oldDoc.Manifest, ManifestBeforePrevious: oldDoc.PreviousManifest}
	ManifestDocs.Put(tx, store.Doc{Key: d.Key, Index: newDoc.indexKey(r.now())}, newDoc)
	OpeningDocs.Put(tx, store.Doc{Key: OpeningKey(next.ChildID)}, openingDocument{next.Hash()})
	return r.addDecision(ctx, tx, dec)
}

func UnknownChildError(child identity.ID) error {
	return problem.New(problem.NotFound, "unknown child %s", child.Short())
}

func (r *Registry) NextActorSeq(ctx context.Context, id identity.ID) (int64, error) {
	tip, err := r.Store.Tip(ctx, ActorStream(id))
	if err != nil {
		return 0, WrapStoreError(err)
	}
	if tip.Position >= math.MaxInt64 {
		return 0, problem.New(problem.Damaged, "events of %s: no event can follow event %d", id.Short(), tip.Position)
	}
	return int64(tip.Position) + 1, nil
}

func (r *Registry) SetName(ctx context.Context, tx *store.Tx, id identity.ID, name string) error {
	reg, err := r.loadRegistration(ctx, id)
	if err != nil || reg.FirstSeq == 0 || !reg.Hosted || reg.Name == name {
		return err
	}
	reg.Name = name
	reg.recordChange(r.now())
	writes, err := r.registrationWrites(ctx, &reg, tx.ID)
	tx.AddWrites(writes...)
	return err
}

func (r *Registry) SetState(ctx context.Context, tx *store.Tx, id identity.ID, state lifecycle.State) error {
	reg, err := r.loadRegistration(ctx, id)
	if err != nil || reg.FirstSeq == 0 || reg.State == state {
		return err
	}
	now := r.now()
	reg.State, reg.StateSince = state, now
	reg.recordChange(now)
	writes, err := r.registrationWrites(ctx, &reg, tx.ID)
	tx.AddWrites(writes...)
	return err
}
