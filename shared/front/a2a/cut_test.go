package a2a_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	frontmessage "github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// stepped is a store of one process: at one of its calls something happens, before it or after
// it, and the process may be dead from then on.
type stepped struct {
	store.Store
	mu    sync.Mutex
	calls int
	at    int // number of the call that the fault hits; zero means no call
	after bool
	then  func()
	dies  bool
	dead  bool
}

var errDead = store.NotAppliedError(errors.New("the process is dead"))

// step returns whether the call is made, and what happens after it.
func (s *stepped) step() (alive bool, after func() bool) {
	s.mu.Lock()
	s.calls++
	now := s.calls == s.at
	if now && s.dies && !s.after {
		s.dead = true
	}
	alive = !s.dead
	s.mu.Unlock()
	happens := func() bool {
		if s.then != nil {
			s.then()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.dead = s.dead || s.dies
		return !s.dead
	}
	if now && !s.after {
		return happens(), func() bool { return true }
	}
	if now {
		return alive, happens
	}
	return alive, func() bool { return true }
}

// during makes a call of the store as a step.
func during[T any](s *stepped, f func() (T, error)) (v T, err error) {
	alive, after := s.step()
	if !alive {
		return v, errDead
	}
	v, err = f()
	if !after() && err == nil {
		err = fmt.Errorf("%w: the process is dead", store.ErrUnavailable)
	}
	return v, err
}

func (s *stepped) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	return during(s, func() (store.Doc, error) { return s.Store.Doc(ctx, k) })
}

func (s *stepped) Docs(ctx context.Context, r store.Range, n int, cursor string) (docs []store.Doc, next string, err error) {
	docs, err = during(s, func() (docs []store.Doc, err error) {
		docs, next, err = s.Store.Docs(ctx, r, n, cursor)
		return docs, err
	})
	return docs, next, err
}

func (s *stepped) Tip(ctx context.Context, name store.Stream) (store.Row, error) {
	return during(s, func() (store.Row, error) { return s.Store.Tip(ctx, name) })
}

func (s *stepped) Rows(ctx context.Context, name store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	return during(s, func() ([]store.Row, error) { return s.Store.Rows(ctx, name, from, n, d) })
}

func (s *stepped) Commit(ctx context.Context, writes ...store.Write) error {
	_, err := during(s, func() (none struct{}, err error) { return none, s.Store.Commit(ctx, writes...) })
	return err
}

// pieces are the agent's words in cutting. The agent says them a second of the host's clock
// apart.
var pieces = []string{"one, ", "two, ", "and three."}

// cutting is a host with a priced vacant that streams, which others of its processes cancel.
type cutting struct {
	*paying
	config  serve.Config
	account billing.Account
	vacant  identity.ID
	price   price.Price

	mu     sync.Mutex
	before func(piece int) // called before the agent says a piece, unless nil
	ids    int
	asker  asksEcho
}

func newCutting(t *testing.T, p price.Price) *cutting {
	t.Helper()
	c := &cutting{price: p}
	w := openWorld(t, true, func(config *serve.Config) {
		config.HasAccounts = true
		config.Substrates["pieces"] = func(string) (substrate.Substrate, error) { return c, nil }
		config.Substrates[substrate.KindMock] = func(string) (substrate.Substrate, error) { return &c.asker, nil }
		c.config = *config
	})
	c.paying = &paying{world: w}
	c.acme = "Authorization: Bearer " + w.key("acme", false)
	c.credit("acme", money.Dollar)
	var err error
	c.account, err = w.server.Billing.FindAccount(t.Context(), "acme")
	must(c.t, err)
	c.vacant = c.create("pieces", "pieces").ID
	_, err = w.server.Vacants.SetPrice(t.Context(), c.vacant, p)
	must(c.t, err)
	return c
}

func (c *cutting) set(before func(int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = before
}

// Infer implements substrate.Substrate: it reports its usage at its end, as models do.
func (c *cutting) Infer(context.Context, substrate.Request) iter.Seq2[substrate.Event, error] {
	c.mu.Lock()
	before := c.before
	c.mu.Unlock()
	return func(yield func(substrate.Event, error) bool) {
		for i, p := range pieces {
			if before != nil {
				before(i)
			}
			c.skip.Add(int64(time.Second))
			if !yield(substrate.Text(p), nil) {
				return
			}
		}
		if before != nil {
			before(len(pieces))
		}
		if yield(substrate.Usage{InputTokens: 1000, OutputTokens: 40, Turns: 0}, nil) {
			yield(substrate.FinishStop, nil)
		}
	}
}

// process is another process of the host.
func (c *cutting) process(s store.Store) *serve.A2A {
	c.t.Helper()
	config := c.config
	config.Store = s
	server, err := config.Open()
	must(c.t, err)
	agents := server.OpenA2A()
	c.t.Cleanup(agents.Tasks.Wait)
	return agents
}

// next is a new message of the account, and the task that it will begin.
func (c *cutting) next() (id string, r task.Ref) {
	c.ids++
	id = fmt.Sprintf("m%d", c.ids)
	owner := call.AccountOwner(c.account.ID, "")
	return id, task.Ref{Vacant: c.vacant, Owner: owner, ID: task.MessageTaskID(c.vacant, owner, id)}
}

// post calls a method at a process.
func (c *cutting) post(a *serve.A2A, method, params string) string {
	c.t.Helper()
	in := httptest.NewRequest(http.MethodPost, "/v/"+c.vacant.String(), strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)))
	in.Header.Set("Content-Type", "application/json")
	name, value, _ := strings.Cut(c.acme, ": ")
	in.Header.Set(name, value)
	out := httptest.NewRecorder()
	web(a).ServeHTTP(out, in)
	return out.Body.String()
}

func (c *cutting) stream(a *serve.A2A, id string) string {
	return c.post(a, "SendStreamingMessage", withID(id, "count to three", "}"))
}

func (c *cutting) balance() money.Amount {
	c.t.Helper()
	b, err := c.server.Billing.Balance(c.t.Context(), &c.account)
	must(c.t, err)
	return b
}

// whole verifies everything that is stored.
func (c *cutting) whole() {
	c.t.Helper()
	_, err := fsck.Run(c.t.Context(), fsck.Config{Source: c.store.Store.(fsck.Source), Vault: c.config.Vault, Now: c.now, ReportFinding: func(f fsck.Finding) error {
		c.t.Errorf("verify finds %+v", f)
		return nil
	}})
	must(c.t, err)
}

// estimated returns the price of a partial answer for which no usage was
// reported.
func (c *cutting) estimated(said string) money.Amount {
	return c.price.Charge(call.EstimateTokens(len("count to three")), call.EstimateTokens(len(said)))
}

// settles lets time pass until the task has ended by itself and its call is swept, and checks
// that charge, row and text agree: charged and kept, or given back and gone. It returns the
// state of the task, or "" without a task.
func (c *cutting) settles(what string, r task.Ref, balance money.Amount) task.State {
	c.t.Helper()
	ctx := c.t.Context()
	c.skip.Add(int64(time.Hour))
	_, err := c.server.Billing.Sweep(ctx, c.server.Calls)
	must(c.t, err)
	sound := c.process(c.store.Store).Tasks
	got, err := sound.Get(ctx, r)
	paid := balance - c.balance()
	if errors.Is(err, task.ErrNotFound) {
		if paid != 0 {
			c.t.Errorf("%s: no task, and %s are paid", what, paid)
		}
		return ""
	}
	must(c.t, err)
	text, read, last := "", "", false
	for _, a := range got.Artifacts {
		text += a.Parts[0].Text
	}
	must(c.t, sound.Follow(ctx, r, 0, func(n task.NumberedEvent) bool {
		if n.Artifact != nil && !n.Artifact.Append {
			read = ""
		}
		if n.Artifact != nil {
			read += n.Artifact.Artifact.Parts[0].Text
			last = n.Artifact.Last
		}
		return true
	}))
	var want money.Amount
	var cut call.CutReason
	switch all := strings.Join(pieces, ""); {
	case got.Status.State == task.Completed && text == all:
		want = c.price.Charge(1000, 40)
	case got.Status.State == task.Canceled && text != "" && strings.HasPrefix(all, text):
		if want, cut = c.estimated(text), call.CutCanceled; last { // the agent has reported
			want = c.price.Charge(1000, 40)
		}
	case (got.Status.State == task.Canceled || got.Status.State == task.Failed) && text == "":
	default:
		c.t.Errorf("%s: the task is %s with %q", what, got.Status.State, text)
	}
	if paid != want || read != text {
		c.t.Errorf("%s: the task is %s with %q, of which followers read %q; %s are paid, want %s", what, got.Status.State, text, read, paid, want)
	}
	if said := got.Status.Message; said == nil || said.CutReason != cut || text != "" && said.Parts[0].Text != text {
		c.t.Errorf("%s: the task's status says %+v, want %q, cut %q", what, said, text, cut)
	}
	return got.Status.State
}

// prices of a call, and what a cut answer costs by each.
var cutPrices = map[string]price.Price{
	"flat":      {Flat: 2000},
	"by tokens": {Flat: 3, InputPrice: money.Dollar, OutputPrice: 2 * money.Dollar, MaxCharge: 5000},
}

// A cancel at each store call of a turn that streams, before it or after it, takes all or
// nothing: the caller pays for what it can read, and reads what it pays for.
func TestACancelAtEachStepOfAStreamIsChargedForWhatWasRead(t *testing.T) {
	for name, p := range cutPrices {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCutting(t, p)
			canceller := c.process(c.store.Store)
			states := map[task.State]int{}
			for _, after := range []bool{false, true} {
				for at, done := 1, false; !done; at++ {
					if at > 200 {
						t.Fatal("the turn never ends")
					}
					id, r := c.next()
					s := &stepped{Store: c.store.Store, at: at, after: after}
					s.then = func() { _, _ = canceller.Tasks.Cancel(context.Background(), r) }
					runner, before := c.process(s), c.balance()
					c.stream(runner, id)
					runner.Tasks.Wait()
					done = s.calls < at
					states[c.settles(fmt.Sprintf("canceled at call %d, after it: %t", at, after), r, before)]++
				}
			}
			if states[task.Canceled] < 4 || states[task.Completed] < 4 {
				t.Errorf("the tasks are %v: too few of them were canceled or completed", states)
			}
			c.whole()
		})
	}
}

// A process that dies at any of its store calls, the one that runs the turn or the one that
// cancels it, leaves charge, row and text that agree.
func TestACrashAroundACancelLeavesChargeAndTextThatAgree(t *testing.T) {
	for name, p := range cutPrices {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCutting(t, p)
			for _, after := range []bool{false, true} {
				for at, done := 1, false; !done; at++ {
					id, r := c.next()
					s := &stepped{Store: c.store.Store, at: at, after: after, dies: true}
					runner, before := c.process(s), c.balance()
					c.stream(runner, id)
					runner.Tasks.Wait()
					_, _ = c.process(c.store.Store).Tasks.Cancel(t.Context(), r) // its lease holds on
					done = s.calls < at
					c.settles(fmt.Sprintf("the runner dies at call %d, after it: %t", at, after), r, before)
				}
				for at, done := 1, false; !done; at++ {
					id, r := c.next()
					s := &stepped{Store: c.store.Store, at: at, after: after, dies: true}
					canceller := c.process(s)
					c.set(func(piece int) {
						if piece == 2 {
							_, _ = canceller.Tasks.Cancel(context.Background(), r)
						}
					})
					runner, before := c.process(c.store.Store), c.balance()
					c.stream(runner, id)
					runner.Tasks.Wait()
					c.set(nil)
					done = s.calls < at
					state := c.settles(fmt.Sprintf("the canceller dies at call %d, after it: %t", at, after), r, before)
					if done && state != task.Canceled {
						t.Errorf("a canceller that lives leaves a task that is %s", state)
					}
				}
			}
			c.whole()
		})
	}
}

// A piece that comes at any step of a cancel is part of what is signed and charged, or comes
// too late.
func TestAPieceThatMeetsACancelIsChargedOrComesTooLate(t *testing.T) {
	for first, name := range map[int]string{0: "the first piece", 2: "a later piece"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCutting(t, cutPrices["by tokens"])
			for at, done := 1, false; !done; at++ {
				id, r := c.next()
				s := &stepped{Store: c.store.Store, at: at, after: true}
				canceller := c.process(s)
				says, said, canceled := make(chan bool), make(chan bool), make(chan bool)
				var once sync.Once
				say := func() { once.Do(func() { close(says) }) }
				s.then = func() { say(); <-said }
				c.set(func(piece int) {
					switch piece {
					case first:
						go func() {
							defer close(canceled)
							_, err := canceller.Tasks.Cancel(context.Background(), r)
							if err != nil {
								t.Errorf("Cancel() = %v", err)
							}
							say()
						}()
						<-says
					case first + 1:
						close(said)
						<-canceled
					}
				})
				runner, before := c.process(c.store.Store), c.balance()
				c.stream(runner, id)
				runner.Tasks.Wait()
				await.Receive(t, "the task was canceled", canceled)
				done = s.calls < at
				what := fmt.Sprintf("a piece at call %d", at)
				if state := c.settles(what, r, before); state != task.Canceled {
					t.Errorf("%s: the task is %s", what, state)
				}
			}
			c.set(nil)
			c.whole()
		})
	}
}

// A blocking message has little time: what it says is stored with its end, so that nobody
// reads on another connection what costs nothing once its time is up.
func TestABlockingMessageShowsNoPieces(t *testing.T) {
	c := newCutting(t, price.Price{Flat: 2000})
	id, r := c.next()
	other := c.process(c.store.Store)
	c.set(func(piece int) {
		got, err := other.Tasks.Get(context.Background(), r)
		if err != nil || len(got.Artifacts) > 0 {
			t.Errorf("before piece %d the task has %v, %v", piece, got.Artifacts, err)
		}
	})
	before := c.balance()
	got := c.post(c.process(c.store.Store), "SendMessage", withID(id, "count to three", "}"))
	if at(t, got, "result", "task", "artifacts", 0, "parts", 0, "text") != strings.Join(pieces, "") {
		t.Errorf("SendMessage: %s", got)
	}
	c.set(nil)
	c.settles("blocking", r, before)
}

// A canceled answer is marked for clients of both versions, and for those that know envelopes.
func TestACutAnswerIsMarked(t *testing.T) {
	for method, members := range map[string]struct {
		state    string
		artifact []any
		status   []any
	}{
		"CancelTask":   {"TASK_STATE_CANCELED", []any{"result", "artifacts", 0, "parts", 0, "text"}, []any{"result", "status"}},
		"tasks/cancel": {"canceled", []any{"result", "artifacts", 0, "parts", 0, "text"}, []any{"result", "status"}},
	} {
		c := newCutting(t, price.Price{Flat: 2000})
		id, r := c.next()
		runner := c.process(c.store.Store)
		answer := make(chan string, 1)
		c.set(func(piece int) {
			if piece == 2 {
				answer <- c.post(runner, method, fmt.Sprintf(`{"id":%q}`, r.ID))
			}
		})
		stream := frames(c.stream(runner, id))
		c.set(nil)
		canceled := await.Receive(t, "CancelTask returns", answer)
		if at(t, canceled, append(members.status, "state")...) != members.state || at(t, canceled, members.artifact...) != "one, two, " {
			t.Errorf("%s: %s", method, canceled)
		}
		if got := at(t, canceled, append(members.status, "message", "metadata")...); !strings.HasPrefix(got, `{"urn:vacant:cut:v1":"canceled","urn:vacant:receipt:v1":"/v1/account/receipts/`) {
			t.Errorf("%s: the metadata is %s", method, got)
		}
		if last := stream[len(stream)-1]; !strings.Contains(last, `"urn:vacant:cut:v1":"canceled"`) || !strings.Contains(last, "TASK_STATE_CANCELED") {
			t.Errorf("%s: the stream ends with %s", method, last)
		}
		signed, err := runner.Tasks.Get(t.Context(), r)
		must(c.t, err)
		if got := string(signed.View(nil, true).Status.Message.Metadata); !strings.HasPrefix(got, `{"urn:vacant:v1":{`) || !strings.Contains(got, `},"urn:vacant:cut:v1":"canceled","urn:vacant:receipt:v1":"/v1/account/receipts/`) {
			t.Errorf("%s: with the envelope, the metadata is %s", method, got)
		}
		c.wantBalance("acme", money.Dollar-2000)
		c.whole()
	}
}

// A storage fault during a cancel does not end the turn: stopped, it would fail, and cost
// nothing.
func TestACancelThatFailsLeavesTheTurn(t *testing.T) {
	c := newCutting(t, price.Price{Flat: 2000})
	id, r := c.next()
	runner, before := c.process(c.store), c.balance()
	c.set(func(piece int) {
		if piece == 2 {
			c.store.down.Store(true)
			_, err := runner.Tasks.Cancel(context.Background(), r)
			c.store.down.Store(false)
			if !problem.Is(err, problem.Unavailable) {
				t.Errorf("Cancel() = %v, want unavailable", err)
			}
		}
	})
	c.stream(runner, id)
	c.set(nil)
	if state := c.settles("a cancel without storage", r, before); state != task.Completed {
		t.Errorf("the task is %s", state)
	}
}

// A caller that resets its chain while it reads an answer would have the answer voided by the
// next one: the reset waits for the answer.
func TestAResetDuringAStreamDoesNotMakeItFree(t *testing.T) {
	c := newCutting(t, price.Price{Flat: 2000})
	s, runner := c.linked(), c.process(c.store.Store)
	reset := func() call.Outcome { return c.reset(s) }
	during := make(chan call.Outcome, 1)
	c.set(func(piece int) {
		if piece == 2 {
			during <- reset()
		}
	})
	e := s.envelope(c.vacant, 1, identity.Hash{}, "count to three", "m", "")
	stream := c.post(runner, "SendStreamingMessage", params1(e, ""))
	if !strings.Contains(stream, "TASK_STATE_COMPLETED") {
		t.Errorf("the stream is %s", stream)
	}
	if out := <-during; !problem.Is(out.Problem, problem.Pending) {
		t.Errorf("a reset during the stream: %v, want pending", out.Problem)
	}
	c.set(nil)
	if out := reset(); out.Problem != nil {
		t.Errorf("a reset after the stream: %v", out.Problem)
	}
	c.wantBalance("acme", money.Dollar-2000)
	c.whole()
}

// The turn of a slow vacant, called on the signed path, is a task whose pieces its signer reads
// while they come: a reset waits for it, too.
func TestAResetDuringASlowTurnDoesNotMakeItFree(t *testing.T) {
	c := newCutting(t, price.Price{Flat: 2000})
	minutes := 5 * time.Minute
	_, err := c.server.Vacants.Update(t.Context(), c.vacant, vacants.Changes{CallTimeout: &minutes})
	must(c.t, err)
	c.skip.Add(int64(2 * time.Second)) // records are cached for a second
	s, runner := c.linked(), c.process(c.store.Store)
	e := s.envelope(c.vacant, 1, identity.Hash{}, "count to three", "m", "")
	if out := runner.Tasks.Send(t.Context(), c.vacant, e, call.Credential{}, "203.0.113.1"); out.State != call.Pending {
		t.Fatalf("the call is %q, %v, want pending", out.State, out.Problem)
	}
	r := task.Ref{Vacant: c.vacant, Owner: call.KeyOwner(e.From), ID: task.EnvelopeTaskID(e.Hash())}
	var during call.Outcome
	read := ""
	c.set(func(piece int) {
		if piece == len(pieces) {
			got, err := c.process(c.store.Store).Tasks.Get(t.Context(), r)
			must(c.t, err)
			for _, a := range got.Artifacts {
				read += a.Parts[0].Text
			}
			during = c.reset(s)
		}
	})
	must(c.t, runner.Tasks.RunQueued(t.Context(), r.Vacant.String()+"#"+r.Owner.String()+"#"+r.ID))
	if read == "" || during.Problem == nil || during.Problem.Kind != problem.Pending {
		t.Errorf("a reset after %q was read: %v, want pending", read, during.Problem)
	}
	c.set(nil)
	if out := c.reset(s); out.Problem != nil {
		t.Errorf("a reset after the turn: %v", out.Problem)
	}
	c.wantBalance("acme", money.Dollar-2000)
	c.whole()
}

// A signed call that an account pays for has the account's share of the turns. If its turn finds no room,
// the account is refunded.
func TestAPaidTurnWithoutRoomIsRefunded(t *testing.T) {
	c := newCutting(t, price.Price{Flat: 2000})
	minutes := 14 * time.Minute
	_, err := c.server.Vacants.Update(t.Context(), c.vacant, vacants.Changes{CallTimeout: &minutes})
	must(c.t, err)
	c.skip.Add(int64(2 * time.Second)) // records are cached for a second
	s := c.linked()
	workers := c.server.OpenQueuedA2A(serve.Queues{Tasks: taskQueue{&queued{}}, MaxTurns: 1})
	e := s.envelope(c.vacant, 1, identity.Hash{}, "count to three", "m", "")
	if out := workers.Tasks.Send(t.Context(), c.vacant, e, call.Credential{}, "203.0.113.1"); out.State != call.Pending {
		t.Fatalf("the call is %q, %v, want pending", out.State, out.Problem)
	}
	c.wantBalance("acme", money.Dollar-2000)
	share := "sender " + string(task.SenderOf(call.AccountOwner(c.account.ID, ""), ""))
	full := store.Put{Key: task.RunningCountDocs.Key(share, c.now().UTC().Format(time.DateOnly)), WriteID: store.WriteID{1}, Number: 1}
	must(c.t, c.store.Commit(t.Context(), full))
	r := task.Ref{Vacant: c.vacant, Owner: call.KeyOwner(e.From), ID: task.EnvelopeTaskID(e.Hash())}
	message := r.Vacant.String() + "#" + r.Owner.String() + "#" + r.ID
	if err := workers.Tasks.RunQueued(t.Context(), message); !errors.Is(err, task.ErrFullForAccount) {
		t.Fatalf("RunQueued() = %v, want no room for the account", err)
	}
	c.skip.Add(int64(call.MaxQueueDuration + time.Second))
	must(c.t, workers.Tasks.RunQueued(t.Context(), message))
	c.wantBalance("acme", money.Dollar)
	if got, err := workers.Tasks.Get(t.Context(), r); err != nil || got.Status.State != task.Failed {
		t.Errorf("the task is %+v, %v", got.Status, err)
	}
	c.whole()
}

// linked is a caller for whose signed calls acme pays.
func (c *cutting) linked() signed {
	c.t.Helper()
	s := c.signer()
	self, err := c.server.Vacants.HostID(c.t.Context())
	must(c.t, err)
	link := claim.PaymentClaim{Host: self, Account: c.account.ID}
	must(c.t, link.Sign(c.t.Context(), s.key, c.now()))
	_, err = c.server.Billing.Link(c.t.Context(), c.account.ID, link.String())
	must(c.t, err)
	return s
}

// reset resets the chain of a caller with the vacant.
func (c *cutting) reset(s signed) call.Outcome {
	c.t.Helper()
	e := &envelope.Envelope{From: s.key.ID(), To: c.vacant, Seq: 1, Time: c.now().UTC().Truncate(time.Microsecond),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{envelope.ResetText}}}
	_, err := e.Sign(c.t.Context(), s.key)
	must(c.t, err)
	return c.server.Calls.Reset(c.t.Context(), identity.ID{}, e)
}

// Whoever holds the signed bytes is told that their answer was cut.
func TestAResendSaysThatItsAnswerWasCut(t *testing.T) {
	c := newCutting(t, price.Price{})
	s, runner := c.signer(), c.process(c.store.Store)
	e := s.envelope(c.vacant, 1, identity.Hash{}, "count to three", "m", "")
	r := task.Ref{Vacant: c.vacant, Owner: call.KeyOwner(s.key.ID()), ID: task.EnvelopeTaskID(e.Hash())}
	c.set(func(piece int) {
		if piece == 2 {
			_, err := runner.Tasks.Cancel(context.Background(), r)
			if err != nil {
				t.Errorf("Cancel() = %v", err)
			}
		}
	})
	in := httptest.NewRequest(http.MethodPost, "/v/pieces", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":`+params1(e, "")+`}`))
	in.Header.Set("Content-Type", "application/json")
	web(runner).ServeHTTP(httptest.NewRecorder(), in)
	runner.Tasks.Wait()
	for path, status := range map[string]int{frontmessage.AskPath: 200, frontmessage.SendPath: 409} {
		in := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(envelope.AppendRequest(nil, []byte("1"), e)))
		in.Header.Set("Content-Type", "application/json")
		out := httptest.NewRecorder()
		c.server.MessageHandler().ServeHTTP(out, in)
		got := out.Body.String()
		if out.Code != status || at(t, got, "state") != "answered" || at(t, got, "cut") != "canceled" || at(t, got, "reply", "parts", 0, "text") != "one, two, " {
			t.Errorf("%s: %d %s", path, out.Code, got)
		}
	}
	c.whole()
}
