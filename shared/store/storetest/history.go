package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/vacancy-host/vacancy/shared/store"
)

// A history records concurrent operations of a few clients on two streams and two documents, with
// faults. porcupine searches for an order of the operations, each between its call and its return,
// in which the model below returns the same results. An operation with an unknown outcome may take
// effect at any time or never, so its return is recorded at the end of the history.

const (
	clients      = 5
	opsPerClient = 12
)

// modelState is the state of the model. It is a value, so porcupine can compare it.
type modelState struct {
	rows [2]string // the write ids of the rows, one byte each
	docs [2]modelDoc
}

type modelDoc struct {
	version uint64
	attempt byte
	number  int64
}

// operation is a commit, or a read of the stream or document with index slot.
type operation struct {
	readKind string // "tip", "rows" or "doc"; "" for a commit
	slot     int
	writes   []modelWrite
}

type modelWrite struct {
	kind     byte // 'a' for Append, 'p' for Put, 'd' for Delete, '+' for Add
	slot     int
	position uint64 // position of the row or expected version
	attempt  byte
	delta    int64
}

// opResult is the result that the client saw.
type opResult struct {
	unknown bool
	outcome string // outcome of a commit
	rows    string
	doc     modelDoc
}

func (in operation) String() string {
	if in.readKind != "" {
		return fmt.Sprintf("%s of %d", in.readKind, in.slot)
	}
	text := "commit"
	for _, w := range in.writes {
		text += fmt.Sprintf(" %c%d@%d attempt %d delta %d;", w.kind, w.slot, w.position, w.attempt, w.delta)
	}
	return text
}

func (out opResult) String() string {
	if out.unknown {
		return "unknown"
	}
	return fmt.Sprintf("%s rows %v doc %+v", out.outcome, []byte(out.rows), out.doc)
}

const maxNumber = 9 // upper bound of every add

// commit models Commit.
func (state modelState) commit(writes []modelWrite) (modelState, string) {
	after, refusal, rank := state, "applied", 4
	refuse := func(newRank int, text string) {
		if newRank < rank {
			refusal, rank = text, newRank
		}
	}
	for _, mw := range writes {
		rows, doc := state.rows[mw.slot], state.docs[mw.slot]
		switch mw.kind {
		case 'a':
			switch {
			case mw.position > uint64(len(rows))+1:
				refuse(1, "taken by nobody")
			case mw.position <= uint64(len(rows)) && rows[mw.position-1] == mw.attempt:
				return state, "applied"
			case mw.position <= uint64(len(rows)):
				refuse(1, fmt.Sprintf("taken by %d", rows[mw.position-1]))
			}
			after.rows[mw.slot] = rows + string([]byte{mw.attempt})
		case 'p':
			if doc.version > 0 && doc.attempt == mw.attempt {
				return state, "applied"
			}
			if doc.version != mw.position {
				refuse(3, fmt.Sprintf("conflict at %d", doc.version))
			}
			after.docs[mw.slot] = modelDoc{mw.position + 1, mw.attempt, mw.delta}
		case 'd':
			if doc.version != 0 && doc.version != mw.position {
				refuse(3, fmt.Sprintf("conflict at %d", doc.version))
			}
			after.docs[mw.slot] = modelDoc{}
		case '+':
			if sum := doc.number + mw.delta; sum < 0 || sum > maxNumber {
				refuse(2, fmt.Sprintf("bounds at %d", doc.number))
			}
			after.docs[mw.slot] = modelDoc{doc.version + 1, doc.attempt, doc.number + mw.delta}
		}
	}
	if rank < 4 {
		return state, refusal
	}
	return after, refusal
}

var model = porcupine.Model{
	Init: func() any { return modelState{} },
	Step: func(state, input, output any) (bool, any) {
		w, in, out := state.(modelState), input.(operation), output.(opResult)
		switch in.readKind {
		case "tip":
			rows := w.rows[in.slot]
			return out.unknown || out.rows == rows[max(len(rows)-1, 0):], w
		case "rows":
			return out.unknown || out.rows == w.rows[in.slot], w
		case "doc":
			return out.unknown || out.doc == w.docs[in.slot], w
		}
		next, outcome := w.commit(in.writes)
		return out.unknown || outcome == out.outcome, next
	},
	DescribeOperation: func(in, out any) string { return in.(operation).String() + " -> " + out.(opResult).String() },
}

// historyRecorder records one history.
type historyRecorder struct {
	t       *testing.T
	store   *Lossy
	streams [2]store.Stream
	keys    [2]store.Key
	start   time.Time

	mu          sync.Mutex
	lastAttempt byte
	ops         []porcupine.Operation
}

func testLinearizable(t *testing.T, h Adapter) {
	s := h.Open(t)
	for seed := range h.histories() {
		p := &historyRecorder{t: t, start: time.Now()}
		for i := range 2 {
			p.streams[i], p.keys[i] = newStream(), newKey()
		}
		p.store = p.newLossy(s, uint64(seed))
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() { p.runClient(c, rand.New(rand.NewPCG(uint64(seed), uint64(c)))) })
		}
		wg.Wait()
		p.store.ApplyPending(t.Context())
		p.readFinalState()
		for i := range p.ops {
			if p.ops[i].Output.(opResult).unknown {
				p.ops[i].Return = time.Since(p.start).Nanoseconds()
			}
		}
		if result := porcupine.CheckOperationsTimeout(model, p.ops, time.Minute); result != porcupine.Ok {
			for _, op := range p.ops {
				t.Logf("client %d, %d to %d: %s", op.ClientId, op.Call, op.Return, model.DescribeOperation(op.Input, op.Output))
			}
			t.Fatalf("history %d is %s, want Ok", seed, result)
		}
	}
}

// newLossy returns s with faults in some of the commits.
func (p *historyRecorder) newLossy(s store.Store, seed uint64) *Lossy {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 99))
	unknown := 0
	return &Lossy{Store: s, ChooseFault: func(op string, writes []store.Write) Fault {
		mu.Lock()
		defer mu.Unlock()
		if op != "Commit" || rnd.IntN(5) > 0 {
			return NoFault
		}
		f := Fault(rnd.IntN(5))
		// A commit without a row is not applied twice: if another client changes the document in between,
		// the second attempt is refused. Each unknown outcome doubles porcupine's search, so their number
		// is limited.
		if f == Twice {
			if _, isRow := writes[0].(store.Append); !isRow {
				return NoFault
			}
			return Twice
		}
		if unknown++; unknown > 6 {
			return NoFault
		}
		return f
	}}
}

func (p *historyRecorder) runClient(id int, rnd *rand.Rand) {
	var tips [2]uint64
	var versions [2]uint64
	var retry []modelWrite
	for range opsPerClient {
		slot := rnd.IntN(2)
		if retry != nil && rnd.IntN(3) > 0 {
			if out := p.commit(id, retry); !out.unknown {
				retry = nil
			}
			continue
		}
		switch rnd.IntN(7) {
		case 0:
			tips[slot] = p.readTip(id, slot)
		case 1:
			tips[slot] = uint64(len(p.readRows(id, slot)))
		case 2:
			versions[slot] = p.readDoc(id, slot).version
		case 3:
			if rnd.IntN(3) == 0 {
				p.store.ApplyPending(p.t.Context())
			}
			fallthrough
		default:
			writes := p.chooseWrites(rnd, slot, tips, versions)
			if out := p.commit(id, writes); out.unknown {
				retry = writes
			} else if out.outcome == "applied" && writes[0].kind == 'a' {
				tips[writes[0].slot] = writes[0].position
			}
		}
	}
}

// chooseWrites builds a commit that usually matches what the client has read.
func (p *historyRecorder) chooseWrites(rnd *rand.Rand, slot int, tips, versions [2]uint64) []modelWrite {
	p.mu.Lock()
	p.lastAttempt++
	attempt := p.lastAttempt
	p.mu.Unlock()
	row := modelWrite{kind: 'a', slot: slot, position: tips[slot] + 1, attempt: attempt}
	put := modelWrite{kind: 'p', slot: slot, position: versions[slot], attempt: attempt, delta: int64(rnd.IntN(5))}
	add := modelWrite{kind: '+', slot: 1 - slot, delta: int64(rnd.IntN(13) - 6)}
	switch rnd.IntN(7) {
	case 0:
		return []modelWrite{put}
	case 1:
		return []modelWrite{{kind: 'd', slot: slot, position: max(versions[slot], 1)}}
	case 2:
		return []modelWrite{row, add, put}
	case 3:
		return []modelWrite{row, add}
	case 4:
		other := modelWrite{kind: 'a', slot: 1 - slot, position: tips[1-slot] + 1, attempt: attempt}
		return []modelWrite{row, other}
	}
	return []modelWrite{row}
}

func (p *historyRecorder) storeWrites(writes []modelWrite) []store.Write {
	var out []store.Write
	for _, w := range writes {
		writeID := store.WriteID{w.attempt}
		switch w.kind {
		case 'a':
			out = append(out, store.Append{Stream: p.streams[w.slot], Position: w.position, WriteID: writeID})
		case 'p':
			out = append(out, store.Put{Key: p.keys[w.slot], IfVersion: w.position, WriteID: writeID, Number: w.delta})
		case 'd':
			out = append(out, store.Delete{Key: p.keys[w.slot], IfVersion: w.position})
		case '+':
			out = append(out, store.Add{Key: p.keys[w.slot], Delta: w.delta, Max: maxNumber})
		}
	}
	return out
}

func (p *historyRecorder) record(client int, in operation, run func() (opResult, error)) opResult {
	call := time.Since(p.start).Nanoseconds()
	out, err := run()
	ret := time.Since(p.start).Nanoseconds()
	var taken *store.TakenError
	var bounds *store.BoundsError
	var conflict *store.ConflictError
	switch {
	case err == nil:
		out.outcome = "applied"
	case errors.As(err, &taken) && taken.Occupant.Position == 0:
		out.outcome = "taken by nobody"
	case errors.As(err, &taken):
		out.outcome = fmt.Sprintf("taken by %d", taken.Occupant.WriteID[0])
	case errors.As(err, &bounds):
		out.outcome = fmt.Sprintf("bounds at %d", bounds.Number)
	case errors.As(err, &conflict):
		out.outcome = fmt.Sprintf("conflict at %d", conflict.Version)
	case errors.Is(err, store.ErrUnavailable):
		out.unknown = true
	default:
		p.t.Errorf("%+v = %v, want an outcome of the contract", in, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ops = append(p.ops, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: ret})
	return out
}

func (p *historyRecorder) commit(client int, writes []modelWrite) opResult {
	return p.record(client, operation{writes: writes}, func() (opResult, error) {
		return opResult{}, p.store.Commit(p.t.Context(), p.storeWrites(writes)...)
	})
}

func (p *historyRecorder) readTip(client, slot int) uint64 {
	var tip store.Row
	p.record(client, operation{readKind: "tip", slot: slot}, func() (out opResult, err error) {
		if tip, err = p.store.Tip(p.t.Context(), p.streams[slot]); tip.Position > 0 {
			out.rows = string(tip.WriteID[:1])
		}
		return out, err
	})
	return tip.Position
}

func (p *historyRecorder) readRows(client, slot int) string {
	return p.record(client, operation{readKind: "rows", slot: slot}, func() (out opResult, err error) {
		rows, err := p.store.Rows(p.t.Context(), p.streams[slot], 1, store.MaxPage, store.Ascending)
		for _, r := range rows {
			out.rows += string(r.WriteID[:1])
		}
		return out, err
	}).rows
}

func (p *historyRecorder) readDoc(client, slot int) modelDoc {
	return p.record(client, operation{readKind: "doc", slot: slot}, func() (opResult, error) {
		d, err := p.store.Doc(p.t.Context(), p.keys[slot])
		return opResult{doc: modelDoc{d.Version, d.WriteID[0], d.Number}}, err
	}).doc
}

// readFinalState adds reads of the final state to the history.
func (p *historyRecorder) readFinalState() {
	for slot := range 2 {
		p.readRows(clients, slot)
		p.readDoc(clients, slot)
	}
}
