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

// Revocation is the request to refuse a key from now on: a revoke event, signed
// by that key.
type Revocation struct {
	ID     identity.ID
	Reason string
	// The signed event.
	Time      int64 // Unix milliseconds
	ActorSeq  int64
	Key       string
	Signature []byte
}

// Revoke adds the revocation of a key to tx. The vacant need not be registered:
// the holder of any key may declare it untrusted. A revocation that is stored
// already adds nothing, and its receipt says Replayed. The refusals are the
// refusals of Publish that apply. The caller holds the Turn until tx is
// committed.
func (r *Registry) Revoke(ctx context.Context, tx *store.Tx, v Revocation) (Receipt, error) {
	d, err := r.revoke(ctx, &v)
	if err != nil {
		return Receipt{}, err
	}
	return r.add(ctx, tx, d)
}

func (r *Registry) revoke(ctx context.Context, v *Revocation) (*decision, error) {
	if err := event.CheckReason(v.Reason); err != nil {
		known := *problem.Of(err)
		known.Kind = problem.Schema
		return nil, &known
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
	if a.registered() {
		now := r.now()
		g.Status = StatusRevoked
		if g.Hosted && !g.State.Closed() {
			g.State, g.Since = lifecycle.Sunk, now
		}
		g.change(now)
	}
	return &decision{event: e, reg: g, keep: a.registered()}, nil
}

// event returns the event that v signed: over the payload in UTF-8, or in the
// ASCII form that the reference signs. The event is stored in the form that was
// signed.
func (v *Revocation) event() (event.Event, bool) {
	e := event.Event{Type: event.Revoke, Actor: v.ID, Key: v.Key, Time: v.Time, ActorSeq: v.ActorSeq, Signature: v.Signature}
	for _, payload := range [][]byte{event.RevokePayload(v.ID, v.Reason), event.RevokePayloadA(v.ID, v.Reason)} {
		if e.Payload = payload; e.Verify() {
			return e, true
		}
	}
	return e, false
}

// revocation is the write of the document that calls read.
func revocation(l *Logged, writeID store.WriteID) (store.Put, error) {
	reason, err := l.Revoked()
	if err != nil {
		return store.Put{}, err
	}
	data, err := RevokedDocs.Encode(Revoked{l.Actor, reason, l.Time, l.Seq, l.ActorSeq, l.Hash})
	return store.Put{Key: RevokedKey(l.Actor), WriteID: writeID, Data: data}, err
}

// IsRevoked reports whether id's key is revoked, strongly consistent.
func (r *Registry) IsRevoked(ctx context.Context, id identity.ID) (bool, error) {
	d, err := r.Store.Doc(ctx, RevokedKey(id))
	return d.Version > 0, Problem(err)
}

// Revocations lists up to n revocations (1 to store.MaxPage) by id, from the
// cursor of the previous page ("" for the first), and returns the cursor of the
// next page, "" after the last. It includes hidden vacants, because everybody
// must learn that a key is revoked. A cursor of another list is Malformed.
func (r *Registry) Revocations(ctx context.Context, cursor string, n int) ([]Revoked, string, error) {
	if c, err := store.ParseCursor(cursor); err != nil || cursor != "" && c.Key.Partition != revokedPartition {
		return nil, "", problem.Invalid("cursor", "the next of an earlier page", clip(cursor))
	}
	list := RevokedDocs.All()
	list.First = "0" // after the list document
	docs, next, err := r.Store.Docs(ctx, list, n, cursor)
	if err != nil {
		return nil, "", Problem(err)
	}
	out := make([]Revoked, len(docs))
	for i, d := range docs {
		if out[i], err = RevokedDocs.Parse(d); err != nil {
			return nil, "", err
		}
	}
	return out, next, nil
}
