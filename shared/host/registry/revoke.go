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
	ID     identity.ID
	Reason string
	// Time, ActorSeq, Key and Signature are members of the signed event.
	Time      int64 // Unix milliseconds
	ActorSeq  int64
	Key       string
	Signature []byte
}

// Revoke adds the revocation of a key to tx. The key need not be registered, so the holder of any
// key may declare it untrusted. If the revocation is already stored, Revoke returns a receipt with
// Replayed set and adds no writes. It refuses with the same kinds as Publish. The caller must hold
// the turn (AcquireTurn) until tx is committed.
func (r *Registry) Revoke(ctx context.Context, tx *store.Tx, v Revocation) (Receipt, error) {
	d, err := r.revoke(ctx, &v)
	if err != nil {
		return Receipt{}, err
	}
	return r.add(ctx, tx, d)
}

func (r *Registry) revoke(ctx context.Context, v *Revocation) (*decision, error) {
	if err := event.CheckReason(v.Reason); err != nil {
		cause := *problem.AsError(err)
		cause.Kind = problem.Schema
		return nil, &cause
	}
	if err := checkSigned(v.Time, v.ActorSeq, v.Key); err != nil {
		return nil, err
	}
	e, ok := v.event()
	if !ok {
		return nil, problem.New(problem.BadSignature, "event signature did not verify")
	}
	a, replay, err := r.admit(ctx, &e)
	if err != nil || replay != nil {
		return &decision{event: e, replay: replay, reg: a.reg}, err
	}
	g := a.reg
	if a.isRegistered() {
		now := r.now()
		g.Status = StatusRevoked
		if g.Hosted && !g.State.IsClosed() {
			g.State, g.Since = lifecycle.Sunk, now
		}
		g.touch(now)
	}
	return &decision{event: e, reg: g, keep: a.isRegistered()}, nil
}

func (v *Revocation) event() (event.Event, bool) {
	// The payload is in UTF-8 or in the ASCII form that the reference signs. The event keeps the
	// form that was signed.
	e := event.Event{Type: event.Revoke, Actor: v.ID, Key: v.Key, Time: v.Time, ActorSeq: v.ActorSeq, Signature: v.Signature}
	for _, payload := range [][]byte{event.RevokePayload(v.ID, v.Reason), event.RevokePayloadASCII(v.ID, v.Reason)} {
		if e.Payload = payload; e.Verify() {
			return e, true
		}
	}
	return e, false
}

func revocation(l *LoggedEvent, writeID store.WriteID) (store.Put, error) {
	reason, err := l.ParseRevoke()
	if err != nil {
		return store.Put{}, err
	}
	data, err := RevokedDocs.Encode(Revoked{l.Actor, reason, l.Time, l.Seq, l.ActorSeq, l.Hash})
	return store.Put{Key: RevokedKey(l.Actor), WriteID: writeID, Data: data}, err
}

func (r *Registry) IsRevoked(ctx context.Context, id identity.ID) (bool, error) {
	d, err := r.Store.Doc(ctx, RevokedKey(id))
	return d.Version > 0, WrapStoreError(err)
}

// Revocations returns up to n revocations (1 to store.MaxPage) ordered by id, and the cursor of the
// next page, or "" after the last page. It includes hidden vacants, because anyone must be able to
// learn that a key is revoked. If cursor belongs to another list, the error is Malformed.
func (r *Registry) Revocations(ctx context.Context, cursor string, n int) ([]Revoked, string, error) {
	if c, err := store.ParseCursor(cursor); err != nil || cursor != "" && c.Key.Partition != revokedPartition {
		return nil, "", problem.Invalid("cursor", "the cursor of an earlier page", clip(cursor))
	}
	list := RevokedDocs.Range()
	list.First = "0" // skips the list document
	docs, next, err := r.Store.Docs(ctx, list, n, cursor)
	if err != nil {
		return nil, "", WrapStoreError(err)
	}
	out := make([]Revoked, len(docs))
	for i, d := range docs {
		if out[i], err = RevokedDocs.Parse(d); err != nil {
			return nil, "", err
		}
	}
	return out, next, nil
}
