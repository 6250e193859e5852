package a2a_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
)

// asksEcho is a model that asks a vacant by a tool and then answers. It keeps an account of the
// tokens that it has used until now: as it reported them, and a token for every four bytes that
// no report covers.
type asksEcho struct {
	reports bool // false for a server that reports no usage
	pass    func(time.Duration)

	mu       sync.Mutex
	reported [2]int // tokens of the turns that were reported
	bytes    [2]int // that no report covers
	recorded [2]uint64
	canceled [2]uint64 // recorded when the cancel was stored
	// The second event after the call of the tool is stored right before the model is asked again,
	// with a request whose size the first call shows, which nobody cancels.
	events, again int
}

// used returns the tokens in and out until now.
func (m *asksEcho) used() [2]uint64 {
	return [2]uint64{uint64(m.reported[0]) + call.EstimateTokens(m.bytes[0]), uint64(m.reported[1]) + call.EstimateTokens(m.bytes[1])}
}

// record records what is used when an event is stored.
func (m *asksEcho) record() {
	if m.events--; m.events == 0 {
		m.bytes[0] += m.again
	}
	m.recorded = m.used()
}

func (m *asksEcho) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// Infer implements substrate.Substrate.
func (m *asksEcho) Infer(_ context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		isAgain := r.Turns[len(r.Turns)-1].Role == substrate.RoleTools
		m.change(func() {
			switch size := requestSize(&r); {
			case !isAgain:
				m.bytes[0] += size
			case m.again == 0:
				m.again, m.bytes[0] = size, m.bytes[0]+size
			case size != m.again:
				panic(fmt.Sprintf("the second request has %d bytes, and had %d", size, m.again))
			}
		})
		say := func(e substrate.Event, bytes int) bool {
			m.pass(time.Second) // each piece is stored when it comes
			m.change(func() { m.bytes[1] += bytes })
			return yield(e, nil)
		}
		text := func(s string) bool { return say(substrate.Text(s), len(s)) }
		report := func(in, out int) bool {
			if !m.reports {
				return true
			}
			m.change(func() {
				m.reported[0] += in
				m.reported[1] += out
				m.bytes = [2]int{}
			})
			return yield(substrate.Usage{InputTokens: in, OutputTokens: out}, nil)
		}
		if !isAgain {
			const arguments = `{"message":"7"}`
			name := r.Tools[0].Name
			_ = text("Let me see. ") && report(1000, 40) && say(substrate.ToolCall{ID: "1", Name: name, Arguments: arguments}, m.unlessReported(len(name)+len(arguments))) && yield(substrate.FinishToolUse, nil)
			m.change(func() { m.events = 2 })
			return
		}
		// The host separates the texts of two turns by an empty line.
		ok := say(substrate.Thought("hm, "), 4) && say(substrate.Text("It is "), 8) && text("seven.") && report(3000, 70)
		if !m.reports {
			m.change(func() { m.bytes = [2]int{} }) // tokens of a complete answer that nobody reported cost nothing
		}
		_ = ok && yield(substrate.FinishStop, nil)
	}
}

// unlessReported returns the size of a call of a tool that no report covers.
func (m *asksEcho) unlessReported(size int) int {
	if m.reports {
		return 0
	}
	return size
}

// requestSize returns the size of the texts that a model is sent.
func requestSize(r *substrate.Request) int {
	n := len(r.System)
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for _, t := range r.Turns {
		n += len(t.Text)
		for _, c := range t.Calls {
			n += len(c.ID) + len(c.Name) + len(c.Arguments)
		}
		for _, result := range t.Results {
			n += len(result.ID) + len(result.Text)
		}
	}
	return n
}

// recorder is the store of the process that runs the turn, or of the process that cancels it. It
// records what the model has used when an event of a task is stored.
type recorder struct {
	store.Store
	model   *asksEcho
	cancels bool
}

func (s recorder) Commit(ctx context.Context, writes ...store.Write) (err error) {
	// The turn may go on during the cancel, if another goroutine of its process made the call.
	s.model.change(func() {
		err = s.Store.Commit(ctx, writes...)
		for _, w := range writes {
			put, ok := w.(store.Put)
			if !ok || err != nil {
				continue
			}
			switch _, event := task.EventDocs.Parts(put.Key); {
			case event && s.cancels:
				s.model.canceled = s.model.recorded
			case event:
				s.model.record()
			}
		}
	})
	return err
}

// A cancel at each store call of a streaming turn of a model with tools is charged for what the
// model had used when the last event was stored, to the micro-dollar, or the call is void. An
// event is stored with each piece of the text, when a tool begins, when the model is asked again
// and when the text ends, so what is not stored yet is at most what the present call stores.
func TestACancelAtEachStepOfAModelWithToolsIsChargedForWhatWasUsed(t *testing.T) {
	for name, reports := range map[string]bool{"a model that reports its usage": true, "a model that reports nothing": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := price.Price{Flat: 3, InputPrice: 10 * money.Dollar, OutputPrice: 20 * money.Dollar, MaxCharge: 100_000}
			c := newCutting(t, p)
			c.asker.reports, c.asker.pass = reports, func(d time.Duration) { c.skip.Add(int64(d)) }
			asker, err := c.server.Vacants.Create(t.Context(), vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "asker", Capability: "asks", Agent: &definition.Agent{Provider: substrate.KindMock, Vacants: []string{c.echo.ID.String()}}})
			must(c.t, err)
			c.vacant = asker.ID
			_, err = c.server.Vacants.SetPrice(t.Context(), c.vacant, p)
			must(c.t, err)
			canceller := c.process(recorder{c.store.Store, &c.asker, true})
			charges := map[money.Amount]bool{}
			for _, after := range []bool{false, true} {
				for at, done := 0, false; !done; at++ {
					if at > 500 {
						t.Fatal("the turn never ends")
					}
					c.asker.change(func() {
						c.asker.reported, c.asker.bytes, c.asker.recorded, c.asker.events = [2]int{}, [2]int{}, [2]uint64{}, 0
					})
					id, r := c.next()
					s := &stepped{Store: recorder{c.store.Store, &c.asker, false}, at: at, after: after}
					s.then = func() { _, _ = canceller.Tasks.Cancel(context.Background(), r) }
					runner, before := c.process(s), c.balance()
					c.stream(runner, id)
					runner.Tasks.Wait()
					done = s.calls < at
					what := fmt.Sprintf("canceled at call %d, after it: %t", at, after)
					got, err := canceller.Tasks.Get(t.Context(), r)
					paid := before - c.balance()
					var want money.Amount
					const answer = "Let me see. \n\nIt is seven."
					text := ""
					for _, a := range got.Artifacts {
						text += a.Parts[0].Text
					}
					switch {
					case err != nil: // no task
					case got.Status.State == task.Completed:
						want = p.Charge(4000, 110)
						if !reports {
							want = p.Charge(0, 0)
						}
					case text != "" && got.Status.State == task.Canceled:
						want = p.Charge(c.asker.canceled[0], c.asker.canceled[1])
						charges[want] = true
					case text != "":
						t.Errorf("%s: the task is %s with %q", what, got.Status.State, text)
					}
					if paid != want || !strings.HasPrefix(answer, text) {
						t.Errorf("%s: the task is %s with %q; %s are paid, want %s", what, got.Status.State, text, paid, want)
					}
				}
			}
			// After the first piece, in the tool, when the model is asked again, after each piece, and
			// after the last report: six amounts. A call of a goroutine beside the turn may take the
			// place of one.
			if len(charges) < 4 {
				t.Errorf("a canceled call costs one of %v, want at least 4 amounts", charges)
			}
			c.whole()
		})
	}
}
