package registrytest

import (
	"context"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// Check returns all violations of the registry's invariants in s. All events form one chain without
// gaps, and each is signed and is its actor's next event. Each registration matches the last event
// of its vacant. A revocation is the last event of its actor and has a document.
func Check(ctx context.Context, s store.Store) []error {
	w := walk{store: s, last: map[identity.ID]registry.LoggedEvent{}, joined: map[identity.ID]uint64{}}
	if err := w.chain(ctx); err != nil {
		return append(w.wrong, err)
	}
	for id := range w.last {
		if err := w.actor(ctx, id); err != nil {
			w.wrong = append(w.wrong, err)
		}
	}
	return w.wrong
}

type walk struct {
	store  store.Store
	last   map[identity.ID]registry.LoggedEvent // last event of each actor
	joined map[identity.ID]uint64               // seq of the first event of each actor
	wrong  []error
}

func (w *walk) say(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Errorf(format, args...))
}

func (w *walk) chain(ctx context.Context) error {
	var prev identity.Hash
	for next := uint64(1); ; {
		rows, err := w.store.Rows(ctx, registry.EventStream(), next, store.MaxPage, store.Ascending)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, row := range rows {
			leaf, err := registry.DecodeEventRow(row)
			if err != nil {
				return err
			}
			if err := w.event(ctx, leaf, prev); err != nil {
				return err
			}
			prev, next = leaf.Hash, leaf.Seq+1
		}
	}
}

func (w *walk) event(ctx context.Context, leaf registry.EventLeaf, prev identity.Hash) error {
	own, err := w.store.Rows(ctx, registry.ActorStream(leaf.Actor), uint64(leaf.ActorSeq), 1, store.Ascending)
	if err != nil {
		return err
	}
	if len(own) == 0 {
		return fmt.Errorf("event %d is missing in its actor's stream", leaf.Seq)
	}
	l, err := registry.DecodeActorRow(leaf.Actor, own[0])
	if err != nil {
		return err
	}
	if l.Seq != leaf.Seq || l.Hash != leaf.Hash || l.Prev != prev || leaf.Prev != prev || !l.Verify() {
		w.say("event %d does not continue the chain", leaf.Seq)
	}
	if last := w.last[l.Actor]; l.ActorSeq != last.ActorSeq+1 || last.Type == event.Revoke {
		w.say("event %d of %s follows its event %d of type %s", l.ActorSeq, l.Actor.Short(), last.ActorSeq, last.Type)
	}
	if w.last[l.Actor] = l; w.joined[l.Actor] == 0 {
		w.joined[l.Actor] = l.Seq
	}
	return nil
}

func (w *walk) actor(ctx context.Context, id identity.ID) error {
	l := w.last[id]
	tip, err := w.store.Tip(ctx, registry.ActorStream(id))
	if err != nil {
		return err
	}
	if tip.Position != uint64(l.ActorSeq) {
		w.say("%s has %d events, %d of them in the chain", id.Short(), tip.Position, l.ActorSeq)
	}
	gone, err := w.store.Doc(ctx, registry.RevokedKey(id))
	if err != nil {
		return err
	}
	revoked := l.Type == event.Revoke
	if (gone.Version > 0) != revoked {
		w.say("%s: revocation at version %d, its last event is %s", id.Short(), gone.Version, l.Type)
	}
	d, err := w.store.Doc(ctx, registry.RegistrationKey(id))
	if err != nil || d.Version == 0 && revoked && l.ActorSeq == 1 {
		return err // the key was revoked without a registration
	}
	g, err := registry.RegistrationDocs.Parse(d)
	if err != nil {
		return err
	}
	if g.LastSeq != l.Seq || g.ActorSeq != l.ActorSeq || g.FirstSeq != w.joined[id] || (g.Status == registry.StatusRevoked) != revoked {
		w.say("registration of %s = last %d, count %d, joined %d, %s; its last event is %d", id.Short(), g.LastSeq, g.ActorSeq, g.FirstSeq, g.Status, l.Seq)
	}
	if revoked {
		return nil
	}
	payload, err := l.ParseRegister()
	if err == nil && (payload.Card != g.CardHash || payload.Visibility != g.SignedVisibility || g.Closed && g.Visibility != lifecycle.Hidden) {
		w.say("registration of %s = %s, %s, its event says %+v", id.Short(), g.CardHash, g.Visibility, payload)
	}
	return err
}
