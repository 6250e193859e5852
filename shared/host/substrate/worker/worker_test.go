package worker_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/worker"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var (
	fox    = identity.ID{1}
	caller = identity.ID{2}
	acme   = worker.Worker{Tenant: "acme", Holder: "acme/key"}
)

// fixture is the desks of two processes over one store. The substrate is in the first process.
type fixture struct {
	*testing.T
	*worker.Broker
	other *worker.Broker

	mu  sync.Mutex
	now time.Time
}

func open(t *testing.T) *fixture {
	f := &fixture{T: t, now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)}
	s := memory.New()
	vault, err := local.FromHex(strings.Repeat("5a", 32), rand.Reader)
	f.must(err)
	c := worker.Config{
		Store: s, Texts: textkeys.New(s, vault, f.clock, rand.Reader, 0), Now: f.clock, Rand: rand.Reader,
		TenantOf: func(context.Context, identity.ID) (string, error) { return "acme", nil },
	}
	f.Broker, f.other = worker.New(c), worker.New(c)
	return f
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// outcome is the end of a call.
type outcome struct {
	substrate.Answer
	err    error
	events []string
}

// ask asks fox by the substrate with an argument.
func (f *fixture) ask(ctx context.Context, argument string) <-chan outcome {
	return f.askVacant(ctx, fox, argument)
}

func (f *fixture) askVacant(ctx context.Context, vacant identity.ID, argument string) <-chan outcome {
	s, err := f.Kinds()[substrate.KindWorker](argument)
	f.must(err)
	ended := make(chan outcome, 1)
	go func() {
		var o outcome
		o.Answer, o.err = substrate.ReadAnswer(func(yield func(substrate.Event, error) bool) {
			for e, err := range s.Infer(ctx, substrate.NewTextRequest(caller, vacant, "what is green?")) {
				if err == nil {
					o.events = append(o.events, fmt.Sprintf("%T:%v", e, e))
				}
				if !yield(e, err) {
					return
				}
			}
		})
		ended <- o
	}()
	return ended
}

// lease leases the next turn in the other process, which may take some polls.
func (f *fixture) lease(w worker.Worker) *worker.Leased {
	f.Helper()
	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(5 * time.Millisecond) {
		l, err := f.other.Lease(f.Context(), w, nil, 0)
		f.must(err)
		if l != nil {
			return l
		}
	}
	f.Fatal("no turn came")
	return nil
}

func text(s string) worker.Event { return worker.Event{Type: worker.TypeText, Text: s} }

func TestAWorkerAnswersACall(t *testing.T) {
	f := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := f.ask(ctx, "")
	l := f.lease(acme)
	var question map[string]any
	f.must(json.Unmarshal(l.Question, &question))
	if question["message"] != "what is green?" || question["caller"] != caller.String() || question["deadline_ms"].(float64) > 60_000 || question["deadline_ms"].(float64) < 30_000 || l.Vacant != fox || l.Seconds != 60 {
		t.Errorf("the turn is %s of %s", l.Question, l.Vacant)
	}
	f.must(f.other.AppendEvents(ctx, acme, l.Lease, 1, []worker.Event{{Type: worker.TypeStarted}, {Type: worker.TypeThought, Text: "hm"}}))
	for range 2 { // the second is a repetition
		f.must(f.other.AppendEvents(ctx, acme, l.Lease, 2, []worker.Event{text("grass"), text(" and")}))
	}
	for range 2 {
		f.must(f.other.FinishTurn(ctx, acme, l.Lease, worker.Result{Text: " frogs", Usage: &worker.Usage{InputTokens: 7, OutputTokens: 3}}))
	}
	o := <-ended
	if o.err != nil || o.Text != "grass and frogs" || o.Usage == nil || o.Usage.InputTokens != 7 || o.Usage.OutputTokens != 3 || strings.Join(o.events[:3], " ") != "substrate.Thought:hm substrate.Text:grass substrate.Text: and" {
		t.Errorf("the answer is %q, %v, %v with %q", o.Text, o.Usage, o.err, o.events)
	}
	if err := f.other.FinishTurn(ctx, acme, l.Lease, worker.Result{Text: "toads"}); !problem.Is(err, problem.Conflict) {
		t.Errorf("another result = %v", err)
	}
	if err := f.other.AppendEvents(ctx, acme, l.Lease, 3, []worker.Event{text("toads")}); !problem.Is(err, problem.Conflict) {
		t.Errorf("events after the result = %v", err)
	}
}

// A lease is lost if its worker is silent for a minute by the clock of the call's process.
func TestVacantsTakeTurns(t *testing.T) {
	f := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	hen := identity.ID{9}
	var calls []<-chan outcome
	for _, vacant := range []identity.ID{fox, fox, fox, hen, hen} {
		calls = append(calls, f.askVacant(ctx, vacant, ""))
	}
	for waiting := 0; waiting < len(calls); time.Sleep(time.Millisecond) {
		waiting = 0
		for _, err := range store.Flatten(store.Pages(ctx, f.Store, worker.WaitingDocs.Range("acme", "live"), 10)) {
			f.must(err)
			waiting++
		}
	}
	var order []identity.ID
	for range calls {
		l := f.lease(acme)
		order = append(order, l.Vacant)
		f.must(f.other.FinishTurn(ctx, acme, l.Lease, worker.Result{Text: "grass"}))
	}
	if want := []identity.ID{fox, hen, fox, hen, fox}; !slices.Equal(order, want) {
		t.Errorf("the turns are leased in the order %v, want %v", order, want)
	}
	for _, c := range calls {
		if o := <-c; o.err != nil {
			t.Error(o.err)
		}
	}
}

func TestALostLease(t *testing.T) {
	for name, tt := range map[string]struct {
		argument string
		started  bool
		again    bool // another worker gets the turn
	}{
		"before the start": {"", false, true},
		"after the start":  {"", true, false},
		"with redo":        {"redo=1", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			ended := f.ask(t.Context(), tt.argument)
			first := f.lease(acme)
			if tt.started {
				f.must(f.other.AppendEvents(t.Context(), acme, first.Lease, 1, []worker.Event{text("half of ")}))
			}
			time.Sleep(700 * time.Millisecond) // the call's process has read that
			f.advance(59 * time.Second)
			if canceled, err := f.other.RenewLease(t.Context(), acme, first.Lease); canceled || err != nil {
				t.Fatalf("a heartbeat in time = %v, %v", canceled, err)
			}
			time.Sleep(700 * time.Millisecond)
			f.advance(worker.LeaseDuration)
			second := worker.Worker{Tenant: "acme", Holder: "acme/other"}
			if tt.again {
				l := f.lease(second)
				f.must(f.other.AppendEvents(t.Context(), second, l.Lease, 1, []worker.Event{text("all")}))
				f.must(f.other.FinishTurn(t.Context(), second, l.Lease, worker.Result{Text: " of it"}))
			}
			o := <-ended
			if tt.again != (o.err == nil) || tt.again && o.Text != "all of it" || !tt.again && !problem.Is(o.err, problem.SubstrateUnavailable) {
				t.Errorf("the answer is %q, %v", o.Text, o.err)
			}
			if err := f.other.FinishTurn(t.Context(), acme, first.Lease, worker.Result{Text: "late"}); !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), "is lost") {
				t.Errorf("the result of the lost worker = %v", err)
			}
			if _, err := f.other.RenewLease(t.Context(), acme, first.Lease); !problem.Is(err, problem.Conflict) {
				t.Errorf("a heartbeat of the lost worker = %v", err)
			}
		})
	}
}

// Leases go by the clock of the call's process. The clocks of the other process and of the worker may be wrong.
func TestAClockMayBeOffByAnHour(t *testing.T) {
	f := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := f.ask(ctx, "")
	off := func(d time.Duration) *worker.Broker {
		c := f.Config
		c.Now = func() time.Time { return f.clock().Add(d) }
		return worker.New(c)
	}
	f.other = off(-time.Hour)
	l := f.lease(acme)
	for _, d := range []time.Duration{-time.Hour, time.Hour} {
		if canceled, err := off(d).RenewLease(ctx, acme, l.Lease); canceled || err != nil {
			t.Errorf("a heartbeat by a clock that is off by %s = %v, %v", d, canceled, err)
		}
		time.Sleep(400 * time.Millisecond) // the call's process has read that
	}
	f.must(off(time.Hour).AppendEvents(ctx, acme, l.Lease, 1, []worker.Event{text("it ")}))
	f.must(off(-time.Hour).FinishTurn(ctx, acme, l.Lease, worker.Result{Text: "is"}))
	if o := <-ended; o.Text != "it is" {
		t.Errorf("the answer is %q, %v", o.Text, o.err)
	}
}

func TestATurnHasOneWorkerAtATime(t *testing.T) {
	f := open(t)
	ended := f.ask(t.Context(), "")
	time.Sleep(50 * time.Millisecond)
	var all sync.WaitGroup
	leases := make(chan *worker.Leased, 20)
	for i := range cap(leases) {
		all.Go(func() {
			l, err := []*worker.Broker{f.Broker, f.other}[i%2].Lease(t.Context(), acme, nil, 0)
			if err != nil {
				t.Error(err)
			}
			leases <- l
		})
	}
	all.Wait()
	close(leases)
	var got []*worker.Leased
	for l := range leases {
		if l != nil {
			got = append(got, l)
		}
	}
	if len(got) != 1 {
		t.Fatalf("%d workers have the turn", len(got))
	}
	f.must(f.FinishTurn(t.Context(), acme, got[0].Lease, worker.Result{Text: "it is"}))
	if o := <-ended; o.Text != "it is" {
		t.Errorf("the answer is %q, %v", o.Text, o.err)
	}
}

func TestTurnsGoToTheirTenantInTheirMode(t *testing.T) {
	f := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := f.ask(ctx, "")
	other := identity.ID{9}
	for name, try := range map[string]func() (*worker.Leased, error){
		"another tenant": func() (*worker.Leased, error) {
			return f.Lease(ctx, worker.Worker{Tenant: "other", Holder: "x"}, nil, 0)
		},
		"the operator": func() (*worker.Leased, error) { return f.Lease(ctx, worker.Worker{Holder: "operator"}, nil, 0) },
		"a test key": func() (*worker.Leased, error) {
			return f.Lease(ctx, worker.Worker{Tenant: "acme", Holder: "x", Test: true}, nil, 0)
		},
		"another vacant": func() (*worker.Leased, error) { return f.Lease(ctx, acme, &other, 0) },
	} {
		time.Sleep(20 * time.Millisecond)
		if l, err := try(); l != nil || err != nil {
			t.Errorf("%s gets %v, %v", name, l, err)
		}
	}
	l := f.lease(acme)
	for name, w := range map[string]worker.Worker{
		"another key": {Tenant: "acme", Holder: "acme/other"}, "another tenant": {Tenant: "other", Holder: acme.Holder}, "a test key": {Tenant: "acme", Holder: acme.Holder, Test: true},
	} {
		if _, err := f.RenewLease(ctx, w, l.Lease); !problem.Is(err, problem.NotFound) {
			t.Errorf("the heartbeat of %s = %v", name, err)
		}
	}
	for _, lease := range []string{"", "x", "x.1", l.Lease + "1", strings.TrimSuffix(l.Lease, "1") + "0", strings.Repeat("0", 32) + ".1", "../" + l.Lease} {
		if err := f.FinishTurn(ctx, acme, lease, worker.Result{Text: "x"}); !problem.Is(err, problem.NotFound) {
			t.Errorf("the result of lease %q = %v", lease, err)
		}
	}
	cancel()
	if o := <-ended; !problem.Is(o.err, problem.Canceled) {
		t.Errorf("a canceled call = %v", o.err)
	}
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		canceled, err := f.other.RenewLease(t.Context(), acme, l.Lease)
		f.must(err)
		if canceled {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal("the worker is not told that the call was canceled")
		}
	}
	if err := f.other.FinishTurn(t.Context(), acme, l.Lease, worker.Result{Text: "late"}); !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("the result of a canceled call = %v", err)
	}
}

func TestACallWithoutAWorkerFailsInTime(t *testing.T) {
	f := open(t)
	if err := f.CheckConnected(t.Context(), fox); !problem.Is(err, problem.NoWorker) {
		t.Errorf("before a worker has come: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if o := <-f.ask(ctx, ""); !problem.Is(o.err, problem.NoWorker) || ctx.Err() != nil {
		t.Errorf("the call = %v, at its deadline %v", o.err, ctx.Err())
	}
	if l, err := f.other.Lease(t.Context(), acme, nil, 0); l != nil || err != nil {
		t.Errorf("the turn of the failed call = %v, %v", l, err)
	}
	if err := f.CheckConnected(t.Context(), fox); err != nil {
		t.Errorf("after a worker has come: %v", err)
	}
	f.advance(time.Hour)
	if err := f.CheckConnected(t.Context(), fox); !problem.Is(err, problem.NoWorker) {
		t.Errorf("an hour later: %v", err)
	}
}

func TestBadReportsAreRefused(t *testing.T) {
	f := open(t)
	ended := f.ask(t.Context(), "")
	l := f.lease(acme)
	tool := func(change func(*call.ToolStep)) worker.Event {
		s := call.ToolStep{ID: "1", Name: "read"}
		change(&s)
		return worker.Event{Type: worker.TypeTool, Tool: &s}
	}
	for _, tt := range []struct {
		batch int
		event worker.Event
		want  string
	}{
		{0, text("x"), "batch: expected the next batch of the lease, 1, got 0"},
		{2, text("x"), "batch: expected the next batch of the lease, 1, got 2"},
		{1, worker.Event{Type: "cry"}, `events[0].type: expected started, text, thought, asks or tool, got "cry"`},
		{1, text(""), "events[0].text: expected a text for the types text and thought, and no text for other types, got 0 bytes for the type text"},
		{1, worker.Event{Type: worker.TypeStarted, Text: "x"}, "events[0].text: expected a text for the types text and thought, and no text for other types, got 1 bytes for the type started"},
		{1, worker.Event{Type: worker.TypeTool}, "events[0].tool: expected an object for the type tool, and no object for other types, got none for the type tool"},
		{1, tool(func(s *call.ToolStep) { s.Name = "" }), `events[0].tool: expected an id and a name of 1 to 128 bytes, got "1" and ""`},
		{1, tool(func(s *call.ToolStep) { s.Outcome = "odd" }), `events[0].tool.outcome: expected ok, error, refused, timed out or nothing, got "odd"`},
		{1, text(strings.Repeat("x", worker.MaxEventBytes)), "events: expected at most 20000 batches and 2097152 bytes for a turn"},
	} {
		if err := f.AppendEvents(t.Context(), acme, l.Lease, tt.batch, []worker.Event{tt.event}); err == nil || problem.AsError(err).Text() != tt.want {
			t.Errorf("batch %d of %.80v = %v, want %s", tt.batch, tt.event, err, tt.want)
		}
	}
	for want, r := range map[string]worker.Result{
		"error: expected no error together with a text or a state, got one":                                 {Text: "x", Error: "y"},
		`failure: expected unavailable, busy, refused or misconfigured, together with an error, got "odd"`:  {Error: "y", Failure: "odd"},
		`failure: expected unavailable, busy, refused or misconfigured, together with an error, got "busy"`: {Failure: "busy"},
		`state: expected input-required or nothing, got "completed"`:                                        {State: "completed"},
		fmt.Sprintf("text: expected at most %d bytes, got %d", substrate.MaxText, substrate.MaxText+1):      {Text: strings.Repeat("x", substrate.MaxText+1)},
		"usage: expected counts of 0 or more tokens, got -1, 0 and 0":                                       {Text: "x", Usage: &worker.Usage{InputTokens: -1}},
		"error: expected at most 1000 bytes, got 1001":                                                      {Error: strings.Repeat("x", 1001)},
	} {
		if err := f.FinishTurn(t.Context(), acme, l.Lease, r); err == nil || problem.AsError(err).Text() != want {
			t.Errorf("result = %v, want %s", err, want)
		}
	}
	f.must(f.FinishTurn(t.Context(), acme, l.Lease, worker.Result{Error: "no paint", Failure: "busy"}))
	if o := <-ended; !problem.Is(o.err, problem.SubstrateBusy) || problem.AsError(o.err).Text() != "no paint" {
		t.Errorf("the call = %v", o.err)
	}
	if _, err := f.Kinds()[substrate.KindWorker]("redo=2"); !problem.Is(err, problem.Malformed) {
		t.Errorf("worker:redo=2 = %v", err)
	}
}

func TestWaitingWorkers(t *testing.T) {
	f := open(t)
	var all sync.WaitGroup
	for range worker.MaxWaitingRequests {
		all.Go(func() {
			for {
				if _, err := f.Lease(t.Context(), acme, nil, 20*time.Second); !problem.Is(err, problem.TooManyRequests) { // the request below took its place
					return
				}
			}
		})
	}
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		_, err := f.Lease(t.Context(), acme, nil, time.Millisecond)
		if problem.Is(err, problem.TooManyRequests) {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("one request too many = %v", err)
		}
	}
	if l, err := f.Lease(t.Context(), worker.Worker{Tenant: "acme", Holder: "acme/other"}, nil, time.Millisecond); l != nil || err != nil {
		t.Errorf("a request of another key = %v, %v", l, err)
	}
	began := time.Now()
	f.Drain()
	all.Wait()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("waiting requests end after %s", took)
	}
	if _, err := f.Lease(t.Context(), acme, nil, time.Second); !problem.Is(err, problem.Unavailable) {
		t.Errorf("a request at a closing host = %v", err)
	}
}

func TestATurnWakesItsWorker(t *testing.T) {
	f := open(t)
	leased := make(chan time.Time, 1)
	go func() {
		if l, err := f.Lease(t.Context(), acme, &fox, 20*time.Second); l == nil || err != nil {
			t.Errorf("the turn = %v, %v", l, err)
		}
		leased <- time.Now()
	}()
	time.Sleep(100 * time.Millisecond)
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	ended := f.ask(ctx, "")
	if took := (<-leased).Sub(began); took > 2*time.Second { // 50 ms on an idle machine
		t.Errorf("the worker has the turn after %s", took)
	}
	cancel()
	<-ended
}
