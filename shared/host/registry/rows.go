package registry

import (
	"bytes"
	"encoding/binary"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	KindEvents = "evt" // all events; the id is zero
	KindActor  = "act"
)

func EventStream() store.Stream { return store.StreamOf(KindEvents, identity.ID{}) }

func ActorStream(actor identity.ID) store.Stream { return store.StreamOf(KindActor, actor) }

type EventLeaf struct {
	Seq        uint64
	Hash, Prev identity.Hash
	Actor      identity.ID
	ActorSeq   int64
}

// LoggedEvent is an event with its position in the chain of all events.
type LoggedEvent struct {
	Seq        uint64
	Prev, Hash identity.Hash
	event.Event
}

const rowFormat = 1

const leafSize = 1 + 3*identity.Size + 8

func (l *EventLeaf) encode() []byte {
	b := append(make([]byte, 0, leafSize), rowFormat)
	b = append(append(append(b, l.Hash[:]...), l.Prev[:]...), l.Actor[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(l.ActorSeq))
}

func DecodeEventRow(row store.Row) (EventLeaf, error) {
	if len(row.Data) != leafSize || row.Data[0] != rowFormat {
		return EventLeaf{}, problem.New(problem.Damaged, "event %d: expected %d bytes of format %d, got %d", row.Position, leafSize, rowFormat, len(row.Data))
	}
	l := EventLeaf{Seq: row.Position}
	rest := row.Data[1:]
	for _, part := range [][]byte{l.Hash[:], l.Prev[:], l.Actor[:]} {
		rest = rest[copy(part, rest):]
	}
	l.ActorSeq = int64(binary.BigEndian.Uint64(rest))
	if l.ActorSeq < 1 {
		return EventLeaf{}, problem.New(problem.Damaged, "event %d: expected a positive sequence number of the actor, got %d", row.Position, l.ActorSeq)
	}
	return l, nil
}

func (l *LoggedEvent) encode() []byte {
	// The other fields follow from the row's stream and position.
	b := make([]byte, 0, 128+len(l.Signature)+len(l.IdempotencyKey)+len(l.Payload))
	code := byte(codeRegister)
	if l.Type == event.Revoke {
		code = codeRevoke
	}
	b = append(b, rowFormat, code)
	b = binary.AppendUvarint(b, l.Seq)
	b = append(b, l.Prev[:]...)
	b = binary.AppendUvarint(b, uint64(l.Time))
	b = append(binary.AppendUvarint(b, uint64(len(l.Signature))), l.Signature...)
	b = append(binary.AppendUvarint(b, uint64(len(l.IdempotencyKey))), l.IdempotencyKey...)
	return append(b, l.Payload...)
}

const (
	codeRegister = 1
	codeRevoke   = 2
)

// DecodeActorRow decodes a row of an actor's stream without verifying the signature. If the row is
// invalid, the error is of kind Damaged.
func DecodeActorRow(actor identity.ID, row store.Row) (LoggedEvent, error) {
	r := rowReader{rest: row.Data}
	l := LoggedEvent{Event: event.Event{Actor: actor, ActorSeq: int64(row.Position)}}
	format, code := r.readByte(), r.readByte()
	switch code {
	case codeRegister:
		l.Type = event.Register
	case codeRevoke:
		l.Type = event.Revoke
	default:
		r.isInvalid = true
	}
	l.Seq = r.readUvarint()
	copy(l.Prev[:], r.readBytes(identity.Size))
	l.Time = int64(r.readUvarint())
	l.Signature = bytes.Clone(r.readBytes(r.readUvarint()))
	l.IdempotencyKey = string(r.readBytes(r.readUvarint()))
	l.Payload = bytes.Clone(r.rest)
	if r.isInvalid || format != rowFormat || !bytes.Equal(l.encode(), row.Data) {
		return LoggedEvent{}, problem.New(problem.Damaged, "event %d of %s is not readable", row.Position, actor.Short())
	}
	if err := l.Event.Check(); err != nil {
		return LoggedEvent{}, problem.Wrap(problem.Damaged, err, "event %d of %s: %s", row.Position, actor.Short(), problem.AsError(err).Text())
	}
	l.Hash = l.Event.Hash(l.Prev)
	return l, nil
}

type rowReader struct {
	rest      []byte
	isInvalid bool
}

func (r *rowReader) readBytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.isInvalid, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *rowReader) readByte() byte {
	if b := r.readBytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *rowReader) readUvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.isInvalid, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}
