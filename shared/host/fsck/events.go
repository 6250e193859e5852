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

// hashSum combines hashes regardless of their order. Two chains of events are compared by their
// hashSums, because the chains may be too large for memory.
type hashSum identity.Hash

func (s *hashSum) add(l *registry.EventLeaf) {
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

func (r *run) checkEventChain(ctx context.Context, s store.Stream) error {
	rows, isTipKnown := r.newReader(s), true
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
			r.addFinding(newStreamFinding(s, row.Position, Row, "an event", problem.AsError(err).Error()))
			isTipKnown = false
			continue
		}
		if isTipKnown && l.Prev != tip {
			r.addFinding(newStreamFinding(s, row.Position, Prev, tip.String(), l.Prev.String()))
		}
		tip, isTipKnown = l.Hash, true
		r.result.Events++
		r.chainSum.add(&l)
	}
}

// actorHistory is the state of an actor according to its events. An actor is a vacant that signs
// events.
type actorHistory struct {
	lastPosition     uint64
	lastSeq          uint64 // position of the last event in the chain of all events
	firstSeq         uint64
	lastHash         identity.Hash
	lastType         event.Type
	revocationReason string
	registration     event.RegisterContent
	hasRegistered    bool
	isComplete       bool // whether all events are readable
}

func (r *run) checkActor(ctx context.Context, s store.Stream, id identity.ID) error {
	history := actorHistory{isComplete: true}
	rows := r.newReader(s)
	for {
		row, more, err := rows.next(ctx)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if row.Position == 0 {
			history.isComplete = false
			continue
		}
		l, err := registry.DecodeActorRow(id, row)
		if err != nil {
			r.addFinding(newStreamFinding(s, row.Position, Row, "an event of "+id.String(), problem.AsError(err).Error()))
			history.isComplete, history.lastPosition = false, row.Position
			continue
		}
		leaf := leafOf(&l)
		r.actorSum.add(&leaf)
		r.queueSignature(l.AppendSignedBytes(nil), l.Signature, id,
			newStreamFinding(s, row.Position, Signature, "a signature by "+id.String(), "an invalid signature"))
		r.applyEvent(s, &l, &history)
	}
	if history.lastPosition == 0 && history.isComplete {
		return nil // checkRegisteredHaveEvents checks registrations without events
	}
	return r.checkRegistration(ctx, id, &history)
}

func (r *run) applyEvent(s store.Stream, l *registry.LoggedEvent, history *actorHistory) {
	position := uint64(l.ActorSeq)
	if history.lastType == event.Revoke {
		r.addFinding(newStreamFinding(s, position, State, "no event after the revocation", string(l.Type)))
	}
	if l.Seq <= history.lastSeq {
		r.addFinding(newStreamFinding(s, position, Seq, fmt.Sprintf("a place in the chain after %d", history.lastSeq), fmt.Sprint(l.Seq)))
	}
	history.lastPosition, history.lastSeq, history.lastHash, history.lastType = position, l.Seq, l.Hash, l.Type
	if history.firstSeq == 0 {
		history.firstSeq = l.Seq
	}
	if l.Type == event.Revoke {
		reason, err := l.ParseRevoke()
		if err != nil {
			r.addFinding(newStreamFinding(s, position, Row, "the payload of a revocation", problem.AsError(err).Text()))
			history.isComplete = false
		}
		history.revocationReason = reason
		return
	}
	registration, err := l.ParseRegister()
	if err != nil {
		r.addFinding(newStreamFinding(s, position, Row, "the payload of a registration", problem.AsError(err).Text()))
		history.isComplete = false
		return
	}
	oldCard := history.registration.CardHash
	if replaced, isReplacement := event.ParseReplacesKey(l.IdempotencyKey); history.isComplete && history.hasRegistered && oldCard != registration.CardHash && !(isReplacement && replaced == oldCard) {
		r.addFinding(newStreamFinding(s, position, Card, "a key that names the replaced card "+oldCard.String(), fmt.Sprintf("%.80q", l.IdempotencyKey)))
	}
	history.registration, history.hasRegistered = registration, true
}

// compareEventChains finds the events that differ if the sums of the chains differ.
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
		ownRow, condition, err := r.rowAt(ctx, s, uint64(l.ActorSeq))
		if err != nil || condition == rowUnreadable {
			return err
		}
		want := fmt.Sprintf("event %d of %s", l.ActorSeq, l.Actor)
		if condition == rowPastEnd {
			r.addFinding(newStreamFinding(events, l.Seq, Event, want, "none"))
			return nil
		}
		if actorRow, err := registry.DecodeActorRow(l.Actor, ownRow); err == nil && leafOf(&actorRow) != l {
			r.addFinding(newStreamFinding(events, l.Seq, Event, fmt.Sprintf("%s, at %d after %s with hash %s", want, actorRow.Seq, actorRow.Prev, actorRow.Hash),
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
		if err := r.checkActorEventsInChain(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) checkActorEventsInChain(ctx context.Context, s store.Stream) error {
	ids := s.IDs()
	if len(ids) != 1 || registry.ActorStream(ids[0]) != s {
		return nil
	}
	return r.eachRow(ctx, s, func(row store.Row) error {
		l, err := registry.DecodeActorRow(ids[0], row)
		if err != nil {
			return nil
		}
		eventRow, condition, err := r.rowAt(ctx, registry.EventStream(), l.Seq)
		if err != nil || condition == rowUnreadable {
			return err
		}
		want := fmt.Sprintf("the place %d in the chain of all events", l.Seq)
		if condition == rowPastEnd {
			r.addFinding(newStreamFinding(s, row.Position, Event, want, "none"))
			return nil
		}
		if leaf, err := registry.DecodeEventRow(eventRow); err == nil && (leaf.Actor != l.Actor || leaf.ActorSeq != l.ActorSeq) {
			r.addFinding(newStreamFinding(s, row.Position, Event, want, fmt.Sprintf("the place of event %d of %s", leaf.ActorSeq, leaf.Actor)))
		}
		return nil
	})
}

type rowCondition uint8

const (
	rowPresent rowCondition = iota
	rowUnreadable
	rowPastEnd // after the end of the stream
)

func (r *run) rowAt(ctx context.Context, s store.Stream, position uint64) (store.Row, rowCondition, error) {
	rows, err := r.view.Rows(ctx, s, position, 1, store.Ascending)
	switch {
	case isDamaged(err):
		return store.Row{}, rowUnreadable, nil
	case err != nil:
		return store.Row{}, rowUnreadable, err
	case len(rows) > 0 && rows[0].Position == position:
		return rows[0], rowPresent, nil
	}
	tip, err := r.view.Rows(ctx, s, afterAllRows, 1, store.Descending)
	switch {
	case isDamaged(err):
		return store.Row{}, rowUnreadable, nil
	case err != nil:
		return store.Row{}, rowUnreadable, err
	case len(tip) > 0 && tip[0].Position > position:
		return store.Row{}, rowUnreadable, nil
	}
	return store.Row{}, rowPastEnd, nil
}

// eachRow calls fn for each readable row and does not report the other rows.
func (r *run) eachRow(ctx context.Context, s store.Stream, fn func(store.Row) error) error {
	quietRun := &run{Config: r.Config, view: r.view, pageRows: r.pageRows, findingCounts: map[identity.Hash]int{}}
	quietRun.ReportFinding, quietRun.Progress = func(Finding) error { return nil }, nil
	rows := quietRun.newReader(s)
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
