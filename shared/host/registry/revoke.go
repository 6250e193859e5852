package registry

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

const typeRevoke = event.Revoke

// Revocation is a request to reject a key from now on. It is a revoke event signed with this key.
type Revocation struct {
	ID             identity.ID
	Reason         string
	Time           int64 // Unix milliseconds
	ActorSeq       int64
	IdempotencyKey string
	Signature      []byte
}

// Revoke adds the revocation of a key to tx. The key need not be registered, so the holder of any
// key may declare it untrusted. The caller must hold the turn (AcquireTurn) until tx is
// committed.
func (r *Registry) Revoke(ctx context.Context, tx *store.Tx, v Revocation) (Receipt, error) {
	d, err := r.decideRevocation(ctx, &v)
	if err != nil {
		return Receipt{}, err
	}
	return r.addDecision(ctx, tx, d)
}

func (r *Registry) decideRevocation(ctx context.Context, v *Revocation) (*decision, error) {
	if err := event.CheckReason(v.Reason); err != nil {
		cause := *problem.AsError(err)
		cause.Kind = problem.InvalidMember
		return nil, &cause
	}
	if err := checkEventMembers(v.Time, v.ActorSeq, v.IdempotencyKey); err != nil {
		return nil, err
	}
	e, ok := v.event()
	if !ok {
		return nil, problem.New(problem.BadSignature, "event signature did not verify")
	}
	a, replay, err := r.checkEvent(ctx, &e)
	if err != nil || replay != nil {
		return &decision{event: e, replay: replay, registration: a.registration}, err
	}
	reg := a.registration
	if a.isRegistered() {
		now := r.now()
		reg.Status = StatusRevoked
		if reg.Hosted && !reg.State.IsRetired() {
			reg.State, reg.StateSince = lifecycle.Sunk, now
		}
		reg.recordChange(now)
	}
	return &decision{event: e, registration: reg, writesRegistration: a.isRegistered()}, nil
}

func (v *Revocation) event() (event.Event, bool) {
	// The reference implementation signs the ASCII form.
	e := event.Event{Type: event.Revoke, Actor: v.ID, IdempotencyKey: v.IdempotencyKey, Time: v.Time, ActorSeq: v.ActorSeq, Signature: v.Signature}
	for _, payload := range [][]byte{event.RevokePayload(v.ID, v.Reason), event.RevokePayloadASCII(v.ID, v.Reason)} {
		if e.Payload = payload; e.Verify() {
			return e, true
		}
	}
	return e, false
}

func revocationPut(l *LoggedEvent, writeID store.WriteID) (store.Put, error) {
	reason, err := l.ParseRevoke()
	if err != nil {
		return store.Put{}, err
	}
	data, err := RevokedDocs.Encode(RevocationRecord{l.Actor, reason, l.Time, l.Seq, l.ActorSeq, l.Hash})
	return store.Put{Key: RevokedKey(l.Actor), WriteID: writeID, Data: data}, err
}

func (r *Registry) IsRevoked(ctx context.Context, id identity.ID) (bool, error) {
	d, err := r.Store.Doc(ctx, RevokedKey(id))
	return d.Version > 0, WrapStoreError(err)
}

// ListRevocations returns a page of revocations ordered by id, and the next cursor, or "". It
// includes hidden vacants, because anyone must be able to learn that a key is revoked.
func (r *Registry) ListRevocations(ctx context.Context, cursor string, limit int) ([]RevocationRecord, string, error) {
	if c, err := store.ParseCursor(cursor); err != nil || cursor != "" && c.Key.Partition != revokedPartition {
		return nil, "", problem.Invalid("cursor", "the cursor of an earlier page", quoteTruncated(cursor))
	}
	docRange := RevokedDocs.Range()
	docRange.Start = "0" // skips the list document
	docs, next, err := r.Store.Docs(ctx, docRange, limit, cursor)
	if err != nil {
		return nil, "", WrapStoreError(err)
	}
	records := make([]RevocationRecord, len(docs))
	for i, d := range docs {
		if records[i], err = RevokedDocs.Parse(d); err != nil {
			return nil, "", err
		}
	}
	return records, next, nil
}
