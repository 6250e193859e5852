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

// world is the state of the model. It is a value, so porcupine can compare it.
type world struct {
	rows [2]string // the write ids of the rows, one byte each
	docs [2]worldDoc
}

type worldDoc struct {
	version uint64
	attempt byte
	number  int64
}

// opIn is a commit, or a read of the stream or document with index of.
type opIn struct {
	read   string // "tip", "rows" or "doc"; "" for a commit
	of     int
	writes []worldWrite
}

type worldWrite struct {
	kind     byte // 'a' for Append, 'p' for Put, 'd' for Delete, '+' for Add
	of       int
	position uint64 // position of the row or expected version
	attempt  byte
	delta    int64
}

// opOut is the result that the client saw.
type opOut struct {
	unknown bool
	outcome string // outcome of a commit
	rows    string
	doc     worldDoc
}

func (in opIn) String() string {
	if in.read != "" {
		return fmt.Sprintf("%s of %d", in.read, in.of)
	}
	text := "commit"
	for _, w := range in.writes {
		text += fmt.Sprintf(" %c%d@%d attempt %d delta %d;", w.kind, w.of, w.position, w.attempt, w.delta)
	}
	return text
}

func (out opOut) String() string {
	if out.unknown {
		return "unknown"
	}
	return fmt.Sprintf("%s rows %v doc %+v", out.outcome, []byte(out.rows), out.doc)
}

const worldMax = 9 // upper bound of every add

// apply models Commit.
func (w world) apply(writes []worldWrite) (world, string) {
	next, refusal, rank := w, "applied", 4
	refuse := func(r int, text string) {
		if r < rank {
			refusal, rank = text, r
		}
	}
	for _, c := range writes {
		rows, doc := w.rows[c.of], w.docs[c.of]
		switch c.kind {
		case 'a':
			switch {
			case c.position > uint64(len(rows))+1:
				refuse(1, "taken by nobody")
			case c.position <= uint64(len(rows)) && rows[c.position-1] == c.attempt:
				return w, "applied"
			case c.position <= uint64(len(rows)):
				refuse(1, fmt.Sprintf("taken by %d", rows[c.position-1]))
			}
			next.rows[c.of] = rows + string([]byte{c.attempt})
		case 'p':
			if doc.version > 0 && doc.attempt == c.attempt {
				return w, "applied"
			}
			if doc.version != c.position {
				refuse(3, fmt.Sprintf("conflict at %d", doc.version))
			}
			next.docs[c.of] = worldDoc{c.position + 1, c.attempt, c.delta}
		case 'd':
			if doc.version != 0 && doc.version != c.position {
				refuse(3, fmt.Sprintf("conflict at %d", doc.version))
			}
			next.docs[c.of] = worldDoc{}
		case '+':
			if sum := doc.number + c.delta; sum < 0 || sum > worldMax {
				refuse(2, fmt.Sprintf("bounds at %d", doc.number))
			}
			next.docs[c.of] = worldDoc{doc.version + 1, doc.attempt, doc.number + c.delta}
		}
	}
	if rank < 4 {
		return w, refusal
	}
	return next, refusal
}

var model = porcupine.Model{
	Init: func() any { return world{} },
	Step: func(state, input, output any) (bool, any) {
		w, in, out := state.(world), input.(opIn), output.(opOut)
		switch in.read {
		case "tip":
			rows := w.rows[in.of]
			return out.unknown || out.rows == rows[max(len(rows)-1, 0):], w
		case "rows":
			return out.unknown || out.rows == w.rows[in.of], w
		case "doc":
			return out.unknown || out.doc == w.docs[in.of], w
		}
		next, outcome := w.apply(in.writes)
		return out.unknown || outcome == out.outcome, next
	},
	DescribeOperation: func(in, out any) string { return in.(opIn).String() + " -> " + out.(opOut).String() },
}

// play records one history.
type play struct {
	t       *testing.T
	s       *Lossy
	streams [2]store.Stream
	keys    [2]store.Key
	start   time.Time

	mu       sync.Mutex
	attempts byte
	ops      []porcupine.Operation
}

func proveLinearizable(t *testing.T, h Adapter) {
	s := h.Open(t)
	for seed := range h.histories() {
		p := &play{t: t, start: time.Now()}
		for i := range 2 {
			p.streams[i], p.keys[i] = newStream(), newKey()
		}
		p.s = p.lossy(s, uint64(seed))
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() { p.client(c, rand.New(rand.NewPCG(uint64(seed), uint64(c)))) })
		}
		wg.Wait()
		p.s.AwaitPending(t.Context())
		p.readAtTheEnd()
		for i := range p.ops {
			if p.ops[i].Output.(opOut).unknown {
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

// lossy returns s with faults in some of the commits.
func (p *play) lossy(s store.Store, seed uint64) *Lossy {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 99))
	unknown := 0
	return &Lossy{Store: s, Decide: func(op string, writes []store.Write) Fault {
		mu.Lock()
		defer mu.Unlock()
		if op != "Commit" || rnd.IntN(5) > 0 {
			return NoFault
		}
		f := Fault(rnd.IntN(5))
		// Only rows are permanent, so a commit without a row is not applied twice: the second time,
		// it may be refused because of the effect of the first. The number of unknown outcomes is
		// limited, because each of them doubles porcupine's search.
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

func (p *play) client(id int, rnd *rand.Rand) {
	var tips [2]uint64
	var versions [2]uint64
	var retry []worldWrite
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
			tips[slot] = p.tip(id, slot)
		case 1:
			tips[slot] = uint64(len(p.rows(id, slot)))
		case 2:
			versions[slot] = p.doc(id, slot).version
		case 3:
			if rnd.IntN(3) == 0 {
				p.s.AwaitPending(p.t.Context())
			}
			fallthrough
		default:
			writes := p.choose(rnd, slot, tips, versions)
			if out := p.commit(id, writes); out.unknown {
				retry = writes
			} else if out.outcome == "applied" && writes[0].kind == 'a' {
				tips[writes[0].of] = writes[0].position
			}
		}
	}
}

// choose builds a commit that usually matches what the client has read.
func (p *play) choose(rnd *rand.Rand, slot int, tips, versions [2]uint64) []worldWrite {
	p.mu.Lock()
	p.attempts++
	attempt := p.attempts
	p.mu.Unlock()
	row := worldWrite{kind: 'a', of: slot, position: tips[slot] + 1, attempt: attempt}
	put := worldWrite{kind: 'p', of: slot, position: versions[slot], attempt: attempt, delta: int64(rnd.IntN(5))}
	add := worldWrite{kind: '+', of: 1 - slot, delta: int64(rnd.IntN(13) - 6)}
	switch rnd.IntN(7) {
	case 0:
		return []worldWrite{put}
	case 1:
		return []worldWrite{{kind: 'd', of: slot, position: max(versions[slot], 1)}}
	case 2:
		return []worldWrite{row, add, put}
	case 3:
		return []worldWrite{row, add}
	case 4:
		other := worldWrite{kind: 'a', of: 1 - slot, position: tips[1-slot] + 1, attempt: attempt}
		return []worldWrite{row, other}
	}
	return []worldWrite{row}
}

func (p *play) writes(writes []worldWrite) []store.Write {
	var out []store.Write
	for _, w := range writes {
		writeID := store.WriteID{w.attempt}
		switch w.kind {
		case 'a':
			out = append(out, store.Append{Stream: p.streams[w.of], Position: w.position, WriteID: writeID})
		case 'p':
			out = append(out, store.Put{Key: p.keys[w.of], IfVersion: w.position, WriteID: writeID, Number: w.delta})
		case 'd':
			out = append(out, store.Delete{Key: p.keys[w.of], If: w.position})
		case '+':
			out = append(out, store.Add{Key: p.keys[w.of], Delta: w.delta, Max: worldMax})
		}
	}
	return out
}

func (p *play) record(client int, in opIn, run func() (opOut, error)) opOut {
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

func (p *play) commit(client int, writes []worldWrite) opOut {
	return p.record(client, opIn{writes: writes}, func() (opOut, error) {
		return opOut{}, p.s.Commit(p.t.Context(), p.writes(writes)...)
	})
}

func (p *play) tip(client, slot int) uint64 {
	var tip store.Row
	p.record(client, opIn{read: "tip", of: slot}, func() (out opOut, err error) {
		if tip, err = p.s.Tip(p.t.Context(), p.streams[slot]); tip.Position > 0 {
			out.rows = string(tip.WriteID[:1])
		}
		return out, err
	})
	return tip.Position
}

func (p *play) rows(client, slot int) string {
	return p.record(client, opIn{read: "rows", of: slot}, func() (out opOut, err error) {
		rows, err := p.s.Rows(p.t.Context(), p.streams[slot], 1, store.MaxPage, store.Ascending)
		for _, r := range rows {
			out.rows += string(r.WriteID[:1])
		}
		return out, err
	}).rows
}

func (p *play) doc(client, slot int) worldDoc {
	return p.record(client, opIn{read: "doc", of: slot}, func() (opOut, error) {
		d, err := p.s.Doc(p.t.Context(), p.keys[slot])
		return opOut{doc: worldDoc{d.Version, d.WriteID[0], d.Number}}, err
	}).doc
}

// readAtTheEnd adds reads of the final state to the history.
func (p *play) readAtTheEnd() {
	for slot := range 2 {
		p.rows(clients, slot)
		p.doc(clients, slot)
	}
}
