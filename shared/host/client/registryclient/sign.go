package registryclient

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// Draft is a publication whose event is not signed yet.
type Draft struct {
	Card                 card.Card
	State                lifecycle.State
	Visibility           lifecycle.Visibility
	BaseModel            *string
	Family               *string
	Owner                *string
	Version              *string
	DeclaredCapabilities []string
	Parent               *identity.ID
	Listing              *listing.Listing // only for registries of Vacancy
}

// Sign signs the register event and returns the request.
func (d *Draft) Sign(ctx context.Context, s identity.Signer, seq int64, key string, now time.Time) (Publication, error) {
	e := event.Event{
		Type: event.Register, Actor: d.Card.VacantID, IdempotencyKey: key, Time: now.UnixMilli(), ActorSeq: seq,
		Payload: event.RegisterPayload(d.Card.Hash(), d.Card.HaloVersion, d.Card.VacantID, d.State.EffectiveVisibility(d.Visibility)),
	}
	if err := e.Sign(ctx, s); err != nil {
		return Publication{}, err
	}
	p := Publication{
		Card: hex.EncodeToString(d.Card.Blob()), State: d.State, Visibility: d.Visibility,
		BaseModel: d.BaseModel, Family: d.Family, Owner: d.Owner, Version: d.Version, DeclaredCapabilities: d.DeclaredCapabilities, Parent: d.Parent,
		Time: e.Time, ActorSeq: seq, IdempotencyKey: key, Signature: hex.EncodeToString(e.Signature),
	}
	if d.Listing != nil {
		p.Listing = d.Listing.Blob()
	}
	return p, nil
}

// KeyState is a vacant's state according to the events that it signed.
type KeyState struct {
	NextSeq  int64
	CardHash identity.Hash
	Revoked  bool
}

// KeyState reads the event log of id. It trusts the registry's numbers, because a wrong number is
// rejected at the next event.
func (c *Client) KeyState(ctx context.Context, id identity.ID) (KeyState, error) {
	s := KeyState{NextSeq: 1}
	var eventErr error
	err := c.Events(ctx, id, func(e Event) bool {
		if e.ActorSeq < 1 || e.ActorSeq >= event.MaxActorSeq {
			eventErr = problem.New(problem.Untrusted, "%s: event %d of %s has the invalid sequence number %d", c.URL, e.Seq, id.Short(), e.ActorSeq)
			return false
		}
		s.NextSeq = max(s.NextSeq, e.ActorSeq+1)
		signedEvent := event.Event{Type: event.Type(e.Type), Actor: e.Actor, Payload: []byte(e.Payload)}
		switch signedEvent.Type {
		case event.Register:
			if r, err := signedEvent.ParseRegister(); err == nil {
				s.CardHash = r.CardHash
			}
		case event.Revoke:
			s.Revoked = true
		}
		return true
	})
	if err == nil {
		err = eventErr
	}
	return s, err
}

const maxTries = 3

// PublishAs publishes d with the vacant's own key. While the outcome is unknown, it resends the
// same bytes.
func (c *Client) PublishAs(ctx context.Context, s identity.Signer, d Draft, random io.Reader) (Receipt, error) {
	for try := 1; ; try++ {
		keyState, err := c.KeyState(ctx, s.ID())
		if err != nil {
			return Receipt{}, err
		}
		key, err := newIdempotencyKey(event.Register, random)
		if err != nil {
			return Receipt{}, err
		}
		if !keyState.CardHash.IsZero() && keyState.CardHash != d.Card.Hash() {
			key = event.ReplacesKeyAt(keyState.CardHash, keyState.NextSeq)
		}
		p, err := d.Sign(ctx, s, keyState.NextSeq, key, c.Now())
		if err != nil {
			return Receipt{}, err
		}
		r, err := retryUnknown(ctx, func() (Receipt, error) { return c.Publish(ctx, p) })
		if problem.Is(err, problem.OutOfSequence) && try < maxTries {
			continue
		}
		return r, err
	}
}

func (c *Client) RevokeAs(ctx context.Context, s identity.Signer, reason string, random io.Reader) (Receipt, error) {
	for try := 1; ; try++ {
		keyState, err := c.KeyState(ctx, s.ID())
		if err != nil {
			return Receipt{}, err
		}
		key, err := newIdempotencyKey(event.Revoke, random)
		if err != nil {
			return Receipt{}, err
		}
		e := event.Event{
			Type: event.Revoke, Actor: s.ID(), Payload: event.RevokePayload(s.ID(), reason),
			IdempotencyKey: key, Time: c.Now().UnixMilli(), ActorSeq: keyState.NextSeq,
		}
		if err := e.Sign(ctx, s); err != nil {
			return Receipt{}, err
		}
		v := Revocation{ID: s.ID(), Reason: reason, Time: e.Time, ActorSeq: e.ActorSeq, IdempotencyKey: key, Signature: hex.EncodeToString(e.Signature)}
		r, err := retryUnknown(ctx, func() (Receipt, error) { return c.Revoke(ctx, v) })
		if problem.Is(err, problem.OutOfSequence) && try < maxTries {
			continue
		}
		return r, err
	}
}

// newIdempotencyKey returns an unguessable key, because in the reference another actor could block
// a key by using it first.
func newIdempotencyKey(t event.Type, random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", problem.Wrap(problem.Unavailable, err, "no randomness")
	}
	return fmt.Sprintf("%s:%x", t, b), nil
}

func retryUnknown(ctx context.Context, send func() (Receipt, error)) (r Receipt, err error) {
	for range maxTries {
		r, err = send()
		isUnknown := problem.Is(err, problem.Unavailable) || problem.Is(err, problem.DeadlineExceeded)
		if !isUnknown || ctx.Err() != nil {
			break
		}
	}
	return r, err
}
