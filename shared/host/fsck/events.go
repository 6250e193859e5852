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

// sum combines hashes regardless of their order. Its method add combines them by XOR. The sum of
// the chain of all events must equal the sum of the actors' chains, so neither chain is held in
// memory.
type sum identity.Hash

func (s *sum) add(l *registry.EventLeaf) {
	b := append(make([]byte, 0, 3*identity.Size+16), l.Hash[:]...)
	b = append(append(b, l.Prev[:]...), l.Actor[:]...)
	b = binary.BigEndian.AppendUint64(b, l.Seq)
	h := identity.Sum(binary.BigEndian.AppendUint64(b, uint64(l.ActorSeq)))
	for i := range s {
		s[i] ^= h[i]
	}
}

func leafOf(l *registry.LoggedEvent) registry.EventLeaf {
	return registry.EventLeaf{Seq: l.Seq, Hash: l.Hash, Prev: l.Prev, Actor: l.Actor, ActorSeq: l.ActorSeq}
}

func (r *run) chain(ctx context.Context, s store.Stream) error {
	rows, isTipKnown := r.reader(s), true
	var tip identity.Hash
	for {
		row, more, err := rows.next(ctx)
		if !more || err != nil {
			return err
		}
		if row.Position == 0 {
			isTipKnown = false
			continue
		}
		l, err := registry.DecodeEventRow(row)
		if err != nil {
			r.addFinding(inStream(s, row.Position, Row, "an event", problem.AsError(err).Error()))
			isTipKnown = false
			continue
		}
		if isTipKnown && l.Prev != tip {
			r.addFinding(inStream(s, row.Position, Prev, tip.String(), l.Prev.String()))
		}
		tip, isTipKnown = l.Hash, true
		r.result.Events++
		r.chainSum.add(&l)
	}
}

// published is the state of an actor, the vacant that signs events, according to its events.
type published struct {
	position uint64 // position of the last event that was read
	seq      uint64 // position of the last event in the chain of all events
	joined   uint64 // seq of the first event
	hash     identity.Hash
	last     event.Type
	reason   string // reason of a revocation
	card     event.RegisterContent
	listed   bool // whether there is a register event
	whole    bool // whether all events are readable
}

func (r *run) actor(ctx context.Context, s store.Stream, id identity.ID) error {
	history := published{whole: true}
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
			history.whole = false
			continue
		}
		l, err := registry.DecodeActorRow(id, row)
		if err != nil {
			r.addFinding(inStream(s, row.Position, Row, "an event of "+id.String(), problem.AsError(err).Error()))
			history.whole, history.position = false, row.Position
			continue
		}
		leaf := leafOf(&l)
		r.actorSum.add(&leaf)
		r.verify(l.AppendSigning(nil), l.Signature, id,
			inStream(s, row.Position, Signature, "a signature by "+id.String(), "an invalid signature"))
		r.observeEvent(s, &l, &history)
	}
	if history.position == 0 && history.whole {
		return nil // eventsWithoutRegistration checks registrations without events
	}
	return r.registration(ctx, id, &history)
}

func (r *run) observeEvent(s store.Stream, l *registry.LoggedEvent, history *published) {
	position := uint64(l.ActorSeq)
	if history.last == event.Revoke {
		r.addFinding(inStream(s, position, State, "no event after the revocation", string(l.Type)))
	}
	if l.Seq <= history.seq {
		r.addFinding(inStream(s, position, Seq, fmt.Sprintf("a place in the chain after %d", history.seq), fmt.Sprint(l.Seq)))
	}
	history.position, history.seq, history.hash, history.last = position, l.Seq, l.Hash, l.Type
	if history.joined == 0 {
		history.joined = l.Seq
	}
	if l.Type == event.Revoke {
		reason, err := l.ParseRevoke()
		if err != nil {
			r.addFinding(inStream(s, position, Row, "the payload of a revocation", problem.AsError(err).Text()))
			history.whole = false
		}
		history.reason = reason
		return
	}
	registration, err := l.ParseRegister()
	if err != nil {
		r.addFinding(inStream(s, position, Row, "the payload of a registration", problem.AsError(err).Text()))
		history.whole = false
		return
	}
	oldCard := history.card.Card
	if replaced, isReplacement := event.ParseReplacesKey(l.Key); history.whole && history.listed && oldCard != registration.Card && !(isReplacement && replaced == oldCard) {
		r.addFinding(inStream(s, position, Card, "a key that names the replaced card "+oldCard.String(), fmt.Sprintf("%.80q", l.Key)))
	}
	history.card, history.listed = registration, true
}

// compareEventChains compares the chain of all events with the actors' chains event by event if
// their sums differ. Unreadable and missing rows were already reported.
func (r *run) compareEventChains(ctx context.Context) error {
	if r.chainSum == r.actorSum {
		return nil
	}
	events := registry.EventStream()
	if err := r.eachRow(ctx, events, func(row store.Row) error {
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
		if state == pastEnd {
			r.addFinding(inStream(events, l.Seq, Event, want, "none"))
			return nil
		}
		if actorRow, err := registry.DecodeActorRow(l.Actor, own); err == nil && leafOf(&actorRow) != l {
			r.addFinding(inStream(events, l.Seq, Event, fmt.Sprintf("%s, at %d after %s with hash %s", want, actorRow.Seq, actorRow.Prev, actorRow.Hash),
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
		if state == pastEnd {
			r.addFinding(inStream(s, row.Position, Event, want, "none"))
			return nil
		}
		if leaf, err := registry.DecodeEventRow(in); err == nil && (leaf.Actor != l.Actor || leaf.ActorSeq != l.ActorSeq) {
			r.addFinding(inStream(s, row.Position, Event, want, fmt.Sprintf("the place of event %d of %s", leaf.ActorSeq, leaf.Actor)))
		}
		return nil
	})
}

// condition describes whether a row at a position of a stream exists and can be read.
type condition uint8

const (
	present condition = iota
	unreadable
	pastEnd // after the end of the stream
)

func (r *run) at(ctx context.Context, s store.Stream, position uint64) (store.Row, condition, error) {
	rows, err := r.view.Rows(ctx, s, position, 1, store.Ascending)
	switch {
	case isDamaged(err):
		return store.Row{}, unreadable, nil
	case err != nil:
		return store.Row{}, unreadable, err
	case len(rows) > 0 && rows[0].Position == position:
		return rows[0], present, nil
	}
	tip, err := r.view.Rows(ctx, s, last, 1, store.Descending)
	switch {
	case isDamaged(err):
		return store.Row{}, unreadable, nil
	case err != nil:
		return store.Row{}, unreadable, err
	case len(tip) > 0 && tip[0].Position > position:
		return store.Row{}, unreadable, nil
	}
	return store.Row{}, pastEnd, nil
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
