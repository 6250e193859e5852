package registry

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

const maxRecentEvents = 100

// decision is the effect of an accepted event.
type decision struct {
	event              event.Event
	replay             *LoggedEvent // stored event that this event repeats, or nil
	registration       Registration
	writesRegistration bool
}

type actor struct {
	id           identity.ID
	registration Registration
	events       []LoggedEvent // newest first
}

func (a *actor) tip() LoggedEvent {
	if len(a.events) == 0 {
		return LoggedEvent{}
	}
	return a.events[0]
}

func (a *actor) isRegistered() bool { return a.registration.FirstSeq > 0 }

// isRevoked also checks the last event, because a key without a registration can be revoked.
func (a *actor) isRevoked() bool {
	return a.registration.Status == StatusRevoked || a.tip().Type == event.Revoke
}

func (r *Registry) loadActor(ctx context.Context, id identity.ID) (actor, error) {
	// A publication between these two reads can make them differ. If the same difference occurs
	// twice, the data is damaged.
	var oldSeqs [2]int64
	for try := 1; ; try++ {
		a := actor{id: id}
		rows, err := r.Store.Rows(ctx, ActorStream(id), math.MaxInt64, maxRecentEvents, store.Descending)
		if err != nil {
			return a, err
		}
		for _, row := range rows {
			l, err := DecodeActorRow(id, row)
			if err != nil {
				return a, err
			}
			a.events = append(a.events, l)
		}
		if a.registration, err = r.loadRegistration(ctx, id); err != nil {
			return a, err
		}
		seqs := [2]int64{a.registration.ActorSeq, a.tip().ActorSeq}
		switch {
		case !a.isRegistered() || seqs[0] == seqs[1]:
			return a, nil
		case seqs == oldSeqs:
			return a, problem.New(problem.Damaged, "registration of %s belongs to its event %d, but its last event is %d", id.Short(), seqs[0], seqs[1])
		case try == store.MaxTries:
			return a, problem.New(problem.Unavailable, "vacant %s keeps publishing; send the same request again", id.Short())
		}
		oldSeqs = seqs
	}
}

func (r *Registry) loadRegistration(ctx context.Context, id identity.ID) (Registration, error) {
	reg, d, err := RegistrationDocs.Get(ctx, r.Store, RegistrationKey(id))
	if err == nil && d.Version == 0 {
		reg = Registration{ID: id, Status: StatusActive}
	}
	return reg, err
}

// findReplay returns the stored event that e repeats, or nil. The error is IdempotencyConflict if
// the idempotency key was used with another payload.
func (r *Registry) findReplay(ctx context.Context, a *actor, e *event.Event) (*LoggedEvent, error) {
	checkSame := func(l *LoggedEvent) (*LoggedEvent, error) {
		if l.Type == e.Type && bytes.Equal(l.Payload, e.Payload) {
			return l, nil
		}
		return nil, problem.New(problem.IdempotencyConflict, "idempotency_key %s reused with different payload", e.IdempotencyKey)
	}
	l, err := r.loadEvent(ctx, a, e.ActorSeq)
	if err != nil {
		return nil, err
	}
	if l != nil && l.IdempotencyKey == e.IdempotencyKey {
		return checkSame(l)
	}
	for i := range a.events {
		if a.events[i].IdempotencyKey == e.IdempotencyKey {
			return checkSame(&a.events[i])
		}
	}
	return nil, nil
}

func (r *Registry) loadEvent(ctx context.Context, a *actor, seq int64) (*LoggedEvent, error) {
	offset := a.tip().ActorSeq - seq
	switch {
	case offset < 0:
		return nil, nil
	case offset < int64(len(a.events)):
		return &a.events[offset], nil
	}
	rows, err := r.Store.Rows(ctx, ActorStream(a.id), uint64(seq), 1, store.Ascending)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, problem.New(problem.Damaged, "event %d of %s is missing", seq, a.id.Short())
	}
	l, err := DecodeActorRow(a.id, rows[0])
	return &l, err
}

func (r *Registry) checkEvent(ctx context.Context, e *event.Event) (a actor, replay *LoggedEvent, err error) {
	if a, err = r.loadActor(ctx, e.Actor); err != nil {
		return a, nil, err
	}
	if replay, err = r.findReplay(ctx, &a, e); err != nil || replay != nil {
		return a, replay, err
	}
	if a.isRevoked() {
		return a, nil, revokedError(e.Actor)
	}
	if last := a.tip().ActorSeq; e.ActorSeq != last+1 {
		return a, nil, problem.New(problem.OutOfSequence, "actor_seq must equal last_seq + 1 = %d, got %d", last+1, e.ActorSeq)
	}
	now, eventTime := r.now(), time.UnixMilli(e.Time)
	if eventTime.After(now.Add(MaxEventSkew)) || eventTime.Before(now.Add(-MaxEventAge)) {
		return a, nil, problem.New(problem.ClockSkew, "event_ts_ms: expected a time from 24 hours before to 5 minutes after %d, got %d", now.UnixMilli(), e.Time)
	}
	return a, nil, nil
}

func revokedError(id identity.ID) error {
	return problem.New(problem.Revoked, "the key of vacant %s was revoked", id.Short())
}

type publisher struct{ isHost, isGate bool }

func (r *Registry) decidePublication(ctx context.Context, p *Publication, sender publisher) (*decision, error) {
	if err := p.checkSchema(); err != nil {
		return nil, err
	}
	c, err := p.parseCard()
	if err != nil {
		return nil, err
	}
	e := event.Event{
		Type: event.Register, Actor: c.VacantID,
		Payload:        event.RegisterPayload(c.Hash(), c.HaloVersion, c.VacantID, p.State.EffectiveVisibility(p.Visibility)),
		IdempotencyKey: p.IdempotencyKey, Time: p.Time, ActorSeq: p.ActorSeq, Signature: p.Signature,
	}
	if !e.Verify() {
		return nil, problem.New(problem.BadSignature, "event signature did not verify")
	}
	a, replay, err := r.checkEvent(ctx, &e)
	if err != nil || replay != nil {
		return &decision{event: e, replay: replay, registration: a.registration}, err
	}
	if err := checkParent(&a, p.Parent); err != nil {
		return nil, err
	}
	currentHash, newHash := a.registration.CardHash, c.Hash()
	if oldHash, ok := event.ParseReplacesKey(p.IdempotencyKey); a.isRegistered() && currentHash != newHash && !(ok && oldHash == currentHash) {
		return nil, &EquivocationError{currentHash, newHash, problem.New(problem.Equivocation,
			"this halo_version already has the card %s, but the card %s was sent; to replace the card, use an idempotency_key that begins with %q",
			currentHash, newHash, event.ReplacesKey(currentHash))}
	}
	reg := a.registration
	reg.SignedVisibility = p.State.EffectiveVisibility(p.Visibility)
	reg.Visibility = reg.SignedVisibility
	if sender.isGate {
		reg.Closed = false
	} else if err := r.enforceGate(ctx, &reg); err != nil {
		return nil, err
	}
	if err := r.setEndpoint(ctx, &reg, &c); err != nil {
		return nil, err
	}
	if reg.Hosted && a.registration.Hosted && p.State != reg.State && !sender.isHost {
		return nil, problem.New(problem.Conflict, "runtime_state: vacant %s runs at this host, where it is %s, not %s", reg.ID.Short(), reg.State, p.State)
	}
	if p.Listing != nil {
		if err := reg.applyListing(*p.Listing); err != nil {
			return nil, err
		}
	}
	reg.applyClaims(p, &c, r)
	reg.mayReuseSlug = p.MayReuseSlug
	switch {
	case !reg.Hosted:
		reg.Name = ""
	case sender.isHost:
		reg.Name = p.Name
	}
	return &decision{event: e, registration: reg, writesRegistration: true}, nil
}

func checkParent(a *actor, parent *identity.ID) error {
	existing := a.registration.Parent
	switch {
	case parent == nil, existing != nil && *parent == *existing:
		return nil
	case *parent == a.id && !a.isRegistered():
		return problem.New(problem.Malformed, "parent_id: expected a vacant other than the child, got the child")
	case existing != nil && !a.isRegistered():
		return problem.New(problem.Malformed, "parent_id: expected '%s', the parent in the signed manifest, got '%s'", existing, parent)
	case !a.isRegistered():
		return nil
	}
	oldParent := "None"
	if existing != nil {
		oldParent = "'" + existing.String() + "'"
	}
	return problem.New(problem.Malformed, "publish_halo republish: parent_id is immutable; existing=%s new='%s'", oldParent, parent)
}

// enforceGate clears Closed if the child has graduated. If a closed child has not graduated, it
// may publish only visibility NONE. Otherwise it could publish itself without passing the gate.
func (r *Registry) enforceGate(ctx context.Context, reg *Registration) error {
	if !reg.Closed {
		return nil
	}
	m, _, err := ManifestDocs.Require(ctx, r.Store, ManifestKey(reg.ID))
	if err == nil {
		err = r.checkGraduationProof(ctx, &m)
	}
	if err != nil {
		return err
	}
	if m.Graduated {
		reg.Closed = false
		return nil
	}
	if reg.SignedVisibility != lifecycle.Hidden {
		return problem.New(problem.Forbidden, "vacant %s is a closed child of %s: until it has graduated its visibility is NONE", reg.ID.Short(), reg.Parent.Short())
	}
	return nil
}

func (g *Registration) applyClaims(p *Publication, c *card.Card, r *Registry) {
	now := r.now()
	if g.FirstSeq == 0 || g.State != p.State {
		g.State, g.StateSince = p.State, now
	}
	g.Card, g.CardHash = c.Blob(), c.Hash()
	g.DeclaredCapabilities = slices.Clone(p.DeclaredCapabilities)
	if g.Parent == nil && p.Parent != nil {
		parent := *p.Parent
		g.Parent = &parent
	}
	for _, claim := range []struct {
		to   *string
		from *string
	}{{&g.BaseModel, p.BaseModel}, {&g.Family, p.Family}, {&g.Owner, p.Owner}, {&g.Version, p.Version}} {
		if claim.from != nil {
			*claim.to = *claim.from
		}
	}
	g.fillDefaults(false)
	g.recordChange(now)
}

func (l *LoggedEvent) replayedReceipt(reg *Registration) (Receipt, error) {
	receipt := Receipt{ID: l.Actor, Seq: l.Seq, Visibility: reg.Visibility, CardHash: reg.CardHash, Replayed: true, AwaitsProbe: reg.needsProbe()}
	if l.Type != event.Register {
		return receipt, nil
	}
	payload, err := l.ParseRegister()
	if err != nil {
		return receipt, problem.Wrap(problem.Damaged, err, "event %d of %s is not a readable registration", l.ActorSeq, l.Actor.Short())
	}
	receipt.Visibility, receipt.CardHash = payload.Visibility, payload.CardHash
	return receipt, nil
}

func quoteTruncated(s string) string { return fmt.Sprintf("%.80q", s) }
