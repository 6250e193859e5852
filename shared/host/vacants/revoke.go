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

// Revoke has a vacant's key refused from now on, by its own signature: the
// event, the registration and the vacant, which becomes SUNK, change in one
// commit. Revoked already, it does nothing, successfully. There is no way back.
func (v *Directory) Revoke(ctx context.Context, id identity.ID, reason string) (Record, registry.Receipt, error) {
	none := registry.Receipt{}
	if v.Registry == nil {
		return Record{}, none, problem.New(problem.Conflict, "this host keeps no registry")
	}
	if err := event.CheckReason(reason); err != nil {
		return Record{}, none, err
	}
	if err := v.ready(ctx, id); err != nil {
		return Record{}, none, err
	}
	var receipt registry.Receipt
	err := v.updater().Update(ctx, func(ctx context.Context, _ *store.Tx) (err error) {
		receipt, err = v.revokeOnce(ctx, id, reason)
		return err
	})
	if err != nil {
		return Record{}, none, store.Problem(err)
	}
	v.memory.forget()
	// If the registry did not write the vacant's record, it is updated now.
	r, err := v.Get(ctx, id)
	if err == nil && !r.State.Closed() {
		r, err = v.Sink(ctx, id)
	}
	return r, receipt, err
}

func (v *Directory) revokeOnce(ctx context.Context, id identity.ID, reason string) (registry.Receipt, error) {
	gone, err := v.Registry.IsRevoked(ctx, id)
	if err != nil {
		return registry.Receipt{}, err
	}
	if gone {
		g, _, err := v.Registry.Get(ctx, id)
		return registry.Receipt{ID: id, Visibility: g.Visibility, Seq: g.LastSeq, CardHash: g.CardHash, Replayed: true}, err
	}
	r, err := v.Get(ctx, id)
	if err != nil {
		return registry.Receipt{}, err
	}
	signer, err := v.signers.Signer(ctx, id, r.seed)
	if err != nil {
		return registry.Receipt{}, err
	}
	seq, err := v.Registry.NextActorSeq(ctx, id)
	if err != nil {
		return registry.Receipt{}, err
	}
	e := event.Event{
		Type: event.Revoke, Actor: id, Payload: event.RevokePayload(id, reason),
		Key: fmt.Sprintf("revoke:%d", seq), Time: v.now().UnixMilli(), ActorSeq: seq,
	}
	if err := e.Sign(ctx, signer); err != nil {
		return registry.Receipt{}, err
	}
	receipt, err := v.Registry.Revoke(ctx, registry.Revocation{
		ID: id, Reason: reason, Time: e.Time, ActorSeq: e.ActorSeq, Key: e.Key, Signature: e.Signature,
	})
	if err != nil {
		err = v.late(ctx, id, seq, err)
	}
	return receipt, err
}

// RevocationWrites returns the writes by which a revocation of id's key changes
// this host: the vacant becomes SUNK. There are none if id is not hosted here
// or is terminal. The cached record of id is dropped until the caller's commit
// is over.
func (v *Directory) RevocationWrites(ctx context.Context, id identity.ID) ([]store.Write, error) {
	r, ok, err := v.read(ctx, id)
	if err != nil || !ok || r.State.Closed() {
		return nil, err
	}
	from := r.State
	r.State = lifecycle.Sunk
	writes, err := v.writes(ctx, &r, &entry{logbook.KindStateChanged, logbook.StateChanged(from, r.State)})
	if err != nil {
		return nil, err
	}
	now := v.Now()
	v.memory.reloadKey(id, now, now.Add(store.DefaultPatience))
	return writes, nil
}
