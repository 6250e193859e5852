package registry

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// remembered is how many of an actor's last events an idempotency key is
// compared with.
const remembered = 100

// decision is what an event comes to, before it has a place in the chain.
type decision struct {
	event  event.Event
	replay *Logged      // it was there already
	reg    Registration // as it will be, or as it is for a replay
	keep   bool         // there is a registration to write
}

// actor is what is known of an actor when its next event comes.
type actor struct {
	id     identity.ID
	reg    Registration
	events []Logged // the last of its events, the newest first
}

// tip is the actor's last event; the zero Logged if there is none.
func (a *actor) tip() Logged {
	if len(a.events) == 0 {
		return Logged{}
	}
	return a.events[0]
}

func (a *actor) registered() bool { return a.reg.Joined > 0 }

// revoked reports whether the key is revoked: nothing ever follows a
// revocation, so this is told even of a key that was never registered.
func (a *actor) revoked() bool {
	return a.reg.Status == StatusRevoked || a.tip().Type == event.Revoke
}

// actor reads what is stored of id. Events and registration change in one
// transaction but are read in two steps; if they do not fit, another
// publication came between, and both are read again.
func (r *Registry) actor(ctx context.Context, id identity.ID) (actor, error) {
	var before [2]int64 // what did not fit in the reading before
	for try := 1; ; try++ {
		a := actor{id: id}
		rows, err := r.Store.Rows(ctx, ActorStream(id), math.MaxInt64, remembered, store.Descending)
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
		if a.reg, err = r.registration(ctx, id); err != nil {
			return a, err
		}
		seen := [2]int64{a.reg.ActorSeq, a.tip().ActorSeq}
		switch {
		case !a.registered() || seen[0] == seen[1]:
			return a, nil
		case seen == before:
			return a, problem.New(problem.Damaged, "registration of %s is that of its event %d, and its last event is %d", id.Short(), seen[0], seen[1])
		case try == store.MaxTries:
			return a, problem.New(problem.Unavailable, "vacant %s publishes all the time; send the same again", id.Short())
		}
		before = seen
	}
}

// registration reads id's registration, which may only wait for its first
// event (Joined 0) or not be there at all (DocVersion 0).
func (r *Registry) registration(ctx context.Context, id identity.ID) (Registration, error) {
	d, err := r.Store.Doc(ctx, RegistrationKey(id))
	if err != nil {
		return Registration{}, err
	}
	if d.Version == 0 {
		return Registration{ID: id, Status: StatusActive}, nil
	}
	return DecodeRegistration(id, d)
}

// replayed returns the event that e is again, or nil. A key belongs to what it
// was first used for: an event of that key and another payload is refused, and
// so is another event at a place that is taken.
func (r *Registry) replayed(ctx context.Context, a *actor, e *event.Event) (*Logged, error) {
	same := func(l *Logged) (*Logged, error) {
		if l.Type == e.Type && bytes.Equal(l.Payload, e.Payload) {
			return l, nil
		}
		return nil, problem.New(problem.Idempotency, "idempotency_key %s reused with different payload", e.Key)
	}
	l, err := r.eventAt(ctx, a, e.ActorSeq)
	if err != nil {
		return nil, err
	}
	if l != nil && l.Key == e.Key {
		return same(l)
	}
	for i := range a.events {
		if a.events[i].Key == e.Key {
			return same(&a.events[i])
		}
	}
	return nil, nil
}

// eventAt is a's event of a count; nil if there is none yet.
func (r *Registry) eventAt(ctx context.Context, a *actor, count int64) (*Logged, error) {
	back := a.tip().ActorSeq - count
	switch {
	case back < 0:
		return nil, nil
	case back < int64(len(a.events)):
		return &a.events[back], nil
	}
	rows, err := r.Store.Rows(ctx, ActorStream(a.id), uint64(count), 1, store.Ascending)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, problem.New(problem.Damaged, "event %d of %s is missing", count, a.id.Short())
	}
	l, err := DecodeActorRow(a.id, rows[0])
	return &l, err
}

// admit is the part of a decision that all events share: is it there already,
// may this actor still say anything, is it the actor's next event, is it of
// these days.
func (r *Registry) admit(ctx context.Context, e *event.Event) (a actor, replay *Logged, err error) {
	if a, err = r.actor(ctx, e.Actor); err != nil {
		return a, nil, err
	}
	if replay, err = r.replayed(ctx, &a, e); err != nil || replay != nil {
		return a, replay, err
	}
	if a.revoked() {
		return a, nil, revoked(e.Actor)
	}
	if last := a.tip().ActorSeq; e.ActorSeq != last+1 {
		return a, nil, problem.New(problem.Sequence, "actor_seq must equal last_seq + 1 = %d, got %d", last+1, e.ActorSeq)
	}
	return a, nil, checkTime(e, r.now())
}

func revoked(id identity.ID) error {
	return problem.New(problem.Revoked, "vacant %s: its key was revoked", id.Short())
}

// publisher is on whose behalf a publication is decided: host for the host
// itself, publishing a vacant that it runs; gate for a child whose graduation
// is part of the commit.
type publisher struct{ host, gate bool }

// publish decides on p, in the order: schema, card, signature of the event,
// replay, status, sequence, time, parent, equivocation, and what a handler asks.
// reached remembers between two tries which endpoint has answered.
func (r *Registry) publish(ctx context.Context, p *Publication, reached *string, by publisher) (*decision, error) {
	if err := p.checkSchema(); err != nil {
		return nil, err
	}
	c, err := p.readCard()
	if err != nil {
		return nil, err
	}
	e := p.register(&c)
	if !e.Verify() {
		return nil, problem.New(problem.BadSignature, "event signature did not verify")
	}
	a, replay, err := r.admit(ctx, &e)
	if err != nil || replay != nil {
		return &decision{event: e, replay: replay, reg: a.reg}, err
	}
	if err := checkParent(&a, p.Parent); err != nil {
		return nil, err
	}
	known, sent := a.reg.CardHash, c.Hash()
	if follows, says := event.Replaces(p.Key); a.registered() && known != sent && !(says && follows == known) {
		return nil, equivocation(known, sent)
	}
	g := a.reg
	g.Signed = p.State.Effective(p.Visibility)
	g.Visibility = g.Signed
	if by.gate {
		g.Closed = false
	} else if err := r.graduated(ctx, &g); err != nil {
		return nil, err
	}
	if err := r.endpoint(ctx, &g, &c, reached); err != nil {
		return nil, err
	}
	if g.Hosted && a.reg.Hosted && p.State != g.State && !by.host {
		return nil, problem.New(problem.Conflict, "runtime_state: vacant %s runs at this host, where it is %s, not %s", g.ID.Short(), g.State, p.State)
	}
	if p.Listing != nil {
		if err := g.take(*p.Listing); err != nil {
			return nil, err
		}
	}
	g.claim(p, &c, r)
	return &decision{event: e, reg: g, keep: true}, nil
}

// checkParent holds a claimed parent to what was said before: it never changes,
// and nobody is its own.
func checkParent(a *actor, parent *identity.ID) error {
	existing := a.reg.Parent
	switch {
	case parent == nil, existing != nil && *parent == *existing:
		return nil
	case *parent == a.id && !a.registered():
		return problem.New(problem.Malformed, "parent_id: expected another vacant than the child, got the child")
	case existing != nil && !a.registered():
		return problem.New(problem.Malformed, "parent_id: expected the parent that both have signed, '%s', got '%s'", existing, parent)
	case !a.registered():
		return nil
	}
	was := "None"
	if existing != nil {
		was = "'" + existing.String() + "'"
	}
	return problem.New(problem.Malformed, "publish_halo republish: parent_id is immutable; existing=%s new='%s'", was, parent)
}

// graduated keeps the handler of closed children shut: without it a child, which
// has its own key, would publish itself and pass the gate by.
func (r *Registry) graduated(ctx context.Context, g *Registration) error {
	if !g.Closed {
		return nil
	}
	d, err := r.Store.Doc(ctx, ManifestKey(g.ID))
	if err != nil {
		return err
	}
	m, err := DecodeManifest(g.ID, d)
	if err != nil {
		return err
	}
	if m.Graduated {
		g.Closed = false
		return nil
	}
	if g.Signed != lifecycle.Hidden {
		return problem.New(problem.Forbidden, "vacant %s is a closed child of %s: until it has graduated its visibility is NONE", g.ID.Short(), g.Parent.Short())
	}
	return nil
}

// claim copies the signed card and the unsigned claims of p into g.
func (g *Registration) claim(p *Publication, c *card.Card, r *Registry) {
	now := r.now()
	if g.Joined == 0 || g.State != p.State {
		g.State, g.Since = p.State, now
	}
	g.Card, g.CardHash = c.Blob(), c.Hash()
	g.Declared = slices.Clone(p.Declared)
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
	g.defaults(false)
	g.change(now)
}

// receipt is that of an event that was there before.
func (l *Logged) receipt(g *Registration) (Receipt, error) {
	out := Receipt{ID: l.Actor, Seq: l.Seq, Visibility: g.Visibility, CardHash: g.CardHash, Replayed: true}
	if l.Type != event.Register {
		return out, nil
	}
	said, err := l.Registered()
	if err != nil {
		return out, problem.Wrap(problem.Damaged, err, "event %d of %s says nothing that was registered", l.ActorSeq, l.Actor.Short())
	}
	out.Visibility, out.CardHash = said.Visibility, said.Card
	return out, nil
}

// clip bounds what of a foreign text goes into an error.
func clip(s string) string { return fmt.Sprintf("%.80q", s) }
