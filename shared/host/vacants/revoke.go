package vacants

import (
	"context"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// Revoke revokes a vacant's key forever and makes the vacant SUNK. Repeating the call has no
// effect.
func (v *Directory) Revoke(ctx context.Context, id identity.ID, reason string) (Record, registry.Receipt, error) {
	noReceipt := registry.Receipt{}
	if v.Registry == nil {
		return Record{}, noReceipt, problem.New(problem.Conflict, "this host has no registry")
	}
	if err := event.CheckReason(reason); err != nil {
		return Record{}, noReceipt, err
	}
	if err := v.preloadKey(ctx, id); err != nil {
		return Record{}, noReceipt, err
	}
	var receipt registry.Receipt
	err := v.updater().Update(ctx, func(ctx context.Context, _ *store.Tx) (err error) {
		receipt, err = v.revokeOnce(ctx, id, reason)
		return err
	})
	if err != nil {
		return Record{}, noReceipt, store.AsProblem(err)
	}
	// If there is no Vault, the revocation did not change the record.
	r, err := v.getAsOperator(ctx, id)
	if err == nil && !r.State.IsRetired() {
		r, err = v.Sink(ctx, id)
	}
	return r, receipt, err
}

func (v *Directory) revokeOnce(ctx context.Context, id identity.ID, reason string) (registry.Receipt, error) {
	isRevoked, err := v.Registry.IsRevoked(ctx, id)
	if err != nil {
		return registry.Receipt{}, err
	}
	if isRevoked {
		registration, _, err := v.Registry.Get(ctx, id)
		return registry.Receipt{ID: id, Visibility: registration.Visibility, Seq: registration.LastSeq, CardHash: registration.CardHash, Replayed: true}, err
	}
	r, err := v.getAsOperator(ctx, id)
	if err != nil {
		return registry.Receipt{}, err
	}
	signer, err := v.signers.Signer(ctx, id, r.sealedSeed)
	if err != nil {
		return registry.Receipt{}, err
	}
	seq, err := v.Registry.NextActorSeq(ctx, id)
	if err != nil {
		return registry.Receipt{}, err
	}
	e := event.Event{
		Type: event.Revoke, Actor: id, Payload: event.RevokePayload(id, reason),
		IdempotencyKey: fmt.Sprintf("revoke:%d", seq), Time: v.now().UnixMilli(), ActorSeq: seq,
	}
	if err := e.Sign(ctx, signer); err != nil {
		return registry.Receipt{}, err
	}
	receipt, err := v.AcceptRevocation(ctx, registry.Revocation{
		ID: id, Reason: reason, Time: e.Time, ActorSeq: e.ActorSeq, IdempotencyKey: e.IdempotencyKey, Signature: e.Signature,
	})
	if err != nil {
		err = v.convertSequenceError(ctx, id, seq, err)
	}
	return receipt, err
}

// AcceptRevocation stores a revocation that the holder of the revoked key has signed. The key may
// belong to a vacant on another host. A vacant on this host becomes SUNK in the same commit.
func (v *Directory) AcceptRevocation(ctx context.Context, rev registry.Revocation) (registry.Receipt, error) {
	ctx, cancel := store.WithDefaultTimeout(ctx)
	defer cancel()
	unlock, err := v.lockWithTurn(ctx, rev.ID)
	if err != nil {
		return registry.Receipt{}, err
	}
	defer unlock()
	var receipt registry.Receipt
	err = v.commitTx(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		receipt, err = v.Registry.Revoke(ctx, tx, rev)
		if err != nil || receipt.Replayed || v.Vault == nil {
			return err
		}
		r, ok, err := v.readRecord(ctx, rev.ID)
		if err != nil || !ok || r.State.IsRetired() {
			return err
		}
		oldState := r.State
		r.State = lifecycle.Sunk
		return v.addChange(ctx, tx, &r, &entry{logbook.KindStateChanged, logbook.StateChangedPayload(oldState, r.State)})
	})
	if err != nil {
		return registry.Receipt{}, registry.WrapStoreError(err)
	}
	return receipt, nil
}
