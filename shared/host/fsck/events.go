package fsck

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// sum combines hashes regardless of their order. Its method add uses XOR, to compare the chain of
// all events with the actors' chains without storing them in memory.
type sum identity.Hash

func (s *sum) add(l *registry.Leaf) {
	b := append(make([]byte, 0, 3*identity.Size+16), l.Hash[:]...)
	b = append(append(b, l.Prev[:]...), l.Actor[:]...)
	b = binary.BigEndian.AppendUint64(b, l.Seq)
	h := identity.Sum(binary.BigEndian.AppendUint64(b, uint64(l.ActorSeq)))
	for i := range s {
		s[i] ^= h[i]
	}
}

func leafOf(l *registry.Logged) registry.Leaf {
	return registry.Leaf{Seq: l.Seq, Hash: l.Hash, Prev: l.Prev, Actor: l.Actor, ActorSeq: l.ActorSeq}
}

func (r *run) chain(ctx context.Context, s store.Stream) error {
	rows, known := r.reader(s), true
	var tip identity.Hash
	for {
		row, more, err := rows.next(ctx)
		if !more || err != nil {
			return err
		}
		if row.Position == 0 {
			known = false
			continue
		}
		l, err := registry.DecodeEventRow(row)
		if err != nil {
			r.found(inStream(s, row.Position, Row, "an event", problem.Of(err).Error()))
			known = false
			continue
		}
		if known && l.Prev != tip {
			r.found(inStream(s, row.Position, Prev, tip.String(), l.Prev.String()))
		}
		tip, known = l.Hash, true
		r.result.Events++
		r.chainSum.add(&l)
	}
}

// published is the state of an actor according to its events.
type published struct {
	position uint64 // position of the last event that was read
	seq      uint64 // position of the last event in the chain of all events
	joined   uint64 // seq of the first event
	hash     identity.Hash
	last     event.Type
	reason   string // reason of a revocation
	card     event.Registered
	listed   bool // whether there is a register event
	whole    bool // whether all events are readable
}

func (r *run) actor(ctx context.Context, s store.Stream, id identity.ID) error {
	says := published{whole: true}
	rows := r.reader(s)
	for {
		row, more, err := rows.next(ctx)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if row.Position == 0 {
			says.whole = false
			continue
		}
		l, err := registry.DecodeActorRow(id, row)
		if err != nil {
			r.found(inStream(s, row.Position, Row, "an event of "+id.String(), problem.Of(err).Error()))
			says.whole, says.position = false, row.Position
			continue
		}
		leaf := leafOf(&l)
		r.actorSum.add(&leaf)
		r.verify(l.AppendCanonical(nil), l.Signature, id,
			inStream(s, row.Position, Signature, "a signature by "+id.String(), "one that is not"))
		r.observeEvent(s, &l, &says)
	}
	if says.position == 0 && says.whole {
		return nil // eventsWithoutRegistration checks registrations without events
	}
	return r.registration(ctx, id, &says)
}

func (r *run) observeEvent(s store.Stream, l *registry.Logged, says *published) {
	at := uint64(l.ActorSeq)
	if says.last == event.Revoke {
		r.found(inStream(s, at, State, "no event after the revocation", string(l.Type)))
	}
	if l.Seq <= says.seq {
		r.found(inStream(s, at, Seq, fmt.Sprintf("a place in the chain after %d", says.seq), fmt.Sprint(l.Seq)))
	}
	says.position, says.seq, says.hash, says.last = at, l.Seq, l.Hash, l.Type
	if says.joined == 0 {
		says.joined = l.Seq
	}
	if l.Type == event.Revoke {
		reason, err := l.Revoked()
		if err != nil {
			r.found(inStream(s, at, Row, "the payload of a revocation", problem.Of(err).Text()))
			says.whole = false
		}
		says.reason = reason
		return
	}
	said, err := l.Registered()
	if err != nil {
		r.found(inStream(s, at, Row, "the payload of a registration", problem.Of(err).Text()))
		says.whole = false
		return
	}
	known := says.card.Card
	if replaced, isReplacement := event.Replaces(l.Key); says.whole && says.listed && known != said.Card && !(isReplacement && replaced == known) {
		r.found(inStream(s, at, Card, "a key that says it replaces the card "+known.String(), fmt.Sprintf("%.80q", l.Key)))
	}
	says.card, says.listed = said, true
}

// compareEventChains compares the chain of all events with the actors' chains event by event if
// their sums differ. Unreadable and missing rows were already reported.
func (r *run) compareEventChains(ctx context.Context) error {
	if r.chainSum == r.actorSum {
		return nil
	}
	all := registry.EventStream()
	if err := r.eachRow(ctx, all, func(row store.Row) error {
		l, err := registry.DecodeEventRow(row)
		if err != nil {
			return nil
		}
		s := registry.ActorStream(l.Actor)
		own, state, err := r.at(ctx, s, uint64(l.ActorSeq))
		if err != nil || state == unreadable {
			return err
		}
		want := fmt.Sprintf("event %d of %s", l.ActorSeq, l.Actor)
		if state == beyond {
			r.found(inStream(all, l.Seq, Event, want, "none"))
			return nil
		}
		if known, err := registry.DecodeActorRow(l.Actor, own); err == nil && leafOf(&known) != l {
			r.found(inStream(all, l.Seq, Event, fmt.Sprintf("%s, at %d after %s with hash %s", want, known.Seq, known.Prev, known.Hash),
				fmt.Sprintf("one at %d after %s with hash %s", l.Seq, l.Prev, l.Hash)))
		}
		return nil
	}); err != nil {
		return err
	}
	for s, err := range store.Streams(ctx, r.view, registry.KindActor+"#") {
		if err != nil {
			return err
		}
		if err := r.reportUnchained(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) reportUnchained(ctx context.Context, s store.Stream) error {
	ids := s.IDs()
	if len(ids) != 1 || registry.ActorStream(ids[0]) != s {
		return nil
	}
	return r.eachRow(ctx, s, func(row store.Row) error {
		l, err := registry.DecodeActorRow(ids[0], row)
		if err != nil {
			return nil
		}
		in, state, err := r.at(ctx, registry.EventStream(), l.Seq)
		if err != nil || state == unreadable {
			return err
		}
		want := fmt.Sprintf("the place %d in the chain of all events", l.Seq)
		if state == beyond {
			r.found(inStream(s, row.Position, Event, want, "none"))
			return nil
		}
		if leaf, err := registry.DecodeEventRow(in); err == nil && (leaf.Actor != l.Actor || leaf.ActorSeq != l.ActorSeq) {
			r.found(inStream(s, row.Position, Event, want, fmt.Sprintf("the place of event %d of %s", leaf.ActorSeq, leaf.Actor)))
		}
		return nil
	})
}

// condition is the condition of a position in a stream.
type condition uint8

const (
	there condition = iota
	unreadable
	beyond // after the end of the stream
)

func (r *run) at(ctx context.Context, s store.Stream, position uint64) (store.Row, condition, error) {
	rows, err := r.view.Rows(ctx, s, position, 1, store.Ascending)
	switch {
	case damaged(err):
		return store.Row{}, unreadable, nil
	case err != nil:
		return store.Row{}, unreadable, err
	case len(rows) > 0 && rows[0].Position == position:
		return rows[0], there, nil
	}
	tip, err := r.view.Rows(ctx, s, last, 1, store.Descending)
	switch {
	case damaged(err):
		return store.Row{}, unreadable, nil
	case err != nil:
		return store.Row{}, unreadable, err
	case len(tip) > 0 && tip[0].Position > position:
		return store.Row{}, unreadable, nil
	}
	return store.Row{}, beyond, nil
}

// eachRow calls fn for each readable row. It skips other rows, which were already reported.
func (r *run) eachRow(ctx context.Context, s store.Stream, fn func(store.Row) error) error {
	quiet := &run{Config: r.Config, view: r.view, pageRows: r.pageRows, seen: map[identity.Hash]int{}}
	quiet.Found, quiet.Progress = func(Finding) error { return nil }, nil
	rows := quiet.reader(s)
	for {
		row, more, err := rows.next(ctx)
		if !more || err != nil {
			return err
		}
		if row.Position == 0 {
			continue
		}
		if err := fn(row); err != nil {
			return err
		}
		if err := r.flushIfFull(); err != nil {
			return err
		}
	}
}
