package hosttest

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Caller signs calls to the demo vacant, one per second of the host's clock.
type Caller struct {
	*Fixture
	Key       *identity.Key
	ContextID *string

	seq  int64
	prev identity.Hash
	last *envelope.Envelope
}

func (h *Fixture) Caller() *Caller {
	k, err := identity.NewKey(rand.Reader)
	h.Must(err)
	return &Caller{Fixture: h, Key: k}
}

func (c *Caller) Pair() call.Pair { return call.Pair{Caller: c.Key.ID(), Vacant: c.Demo.ID} }

func (c *Caller) sign(seq int64, prev identity.Hash, text string) *envelope.Envelope {
	c.Helper()
	c.Time = c.Time.Add(time.Second)
	id := "m1"
	e := &envelope.Envelope{
		From: c.Key.ID(), To: c.Demo.ID, Seq: seq, Prev: prev, Time: c.Time, IdempotencyKey: "k",
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}, MessageID: &id, ContextID: c.ContextID},
	}
	_, err := e.Sign(c.Ctx, c.Key)
	c.Must(err)
	return e
}

// Call sends the next call, which must be answered. If the text is "fail" or responses are dropped,
// the call must fail instead.
func (c *Caller) Call(text string) call.Outcome {
	c.Helper()
	c.last = c.sign(c.seq+1, c.prev, text)
	out := c.Host.Send(c.Ctx, identity.ID{}, c.last)
	if isAnswered := out.Problem == nil; isAnswered == (text == "fail" || c.dropsResponses) {
		c.Fatalf("Send(%q) = %v", text, out.Problem)
	}
	c.seq, c.prev = c.seq+1, c.last.Hash()
	return out
}

func (c *Caller) Sign(text string) *envelope.Envelope { return c.sign(c.seq+1, c.prev, text) }

func (c *Caller) Last() *envelope.Envelope { return c.last }

func (c *Caller) Reset() {
	c.Helper()
	out := c.Host.Reset(c.Ctx, identity.ID{}, c.sign(7, identity.Hash{1}, envelope.ResetText))
	if out.Problem != nil {
		c.Fatal(out.Problem)
	}
	c.seq, c.prev = 0, identity.Hash{}
}

// Crash sends a call that is accepted but not decided.
func (c *Caller) Crash(text string) *envelope.Envelope {
	c.Helper()
	c.dropsResponses = true
	c.Call(text)
	c.dropsResponses = false
	return c.last
}

// Ask asks for the outcome of a call, which voids an overdue call.
func (c *Caller) Ask(e *envelope.Envelope, want call.State) {
	c.Helper()
	if out := c.Host.Ask(c.Ctx, identity.ID{}, e); out.State != want {
		c.Fatalf("Ask() = %q, %v, want %q", out.State, out.Problem, want)
	}
}

func Story(t testing.TB, st Store) *Caller {
	t.Helper()
	return New(t, st).Story()
}

// Story fills a host with rows of all kinds. It returns the caller with the longest history, whose
// requests and responses are:
//
//	1-3 hello, 4 fail, 5 hello again (the key of their texts is destroyed),
//	6 hello tomorrow, 7 late, 8 after it, 9 reset, 10 epoch one, 11 closed,
//	12 reset, 13 epoch two, 14 fail, 15 bye, 16 pending
//
//	1-3 answers, 4 void of 4, 5-6 answers, 7 answer to 8, 8 void of 7,
//	9 answer to 10, 10 to 13, 11 void of 14, 12 answer to 15
func (h *Fixture) Story() *Caller {
	h.Helper()
	a, b := h.Caller(), h.Caller()
	for range 3 {
		a.Call("hello")
	}
	a.Call("fail")
	a.Call("hello again")
	b.Reset()
	b.Call("first of a fresh pair")

	h.Time = h.Time.Add(72 * time.Hour)
	h.Must(h.Texts.Warm(h.Ctx))
	if n, err := h.Texts.Sweep(h.Ctx); n != 1 || err != nil {
		h.Fatalf("Sweep() = %d, %v, want 1", n, err)
	}
	a.Call("hello tomorrow")
	late := a.Crash("late")
	a.Call("after it")
	h.Time = h.Time.Add(time.Hour)
	a.Ask(late, call.Unanswered)
	a.Reset()
	a.Call("epoch one")
	closed := a.Crash("closed by the next epoch")
	a.Reset()
	a.Call("epoch two")
	a.Ask(closed, call.Unanswered)
	a.Call("fail")
	a.Call("bye")
	a.Crash("pending")
	h.changeVacants()
	return a
}

func (h *Fixture) changeVacants() {
	_, err := h.Vacants.Pause(h.Ctx, h.Demo.ID)
	h.Must(err)
	_, err = h.Vacants.Resume(h.Ctx, h.Demo.ID)
	h.Must(err)
	h.OpenHost("http://127.0.0.1:9999")
	_, err = h.Vacants.UpdateCardURLs(h.Ctx)
	h.Must(err)
	other, err := h.Vacants.Create(h.Ctx, vacants.CreateSpec{Name: "other", Capability: "is closed", Substrate: "echo"})
	h.Must(err)
	_, err = h.Vacants.Sink(h.Ctx, other.ID)
	h.Must(err)
}
