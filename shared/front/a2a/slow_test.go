package a2a_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	signedpath "github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// thinker is an agent that answers "thought" once the test lets it.
type thinker struct {
	limits  chan time.Duration // the time that a turn has, when the turn begins
	release chan bool
	turns   atomic.Int64

	mu      sync.Mutex
	running map[identity.ID]int
	began   map[identity.ID]chan bool // closed with the first turn of a vacant that is watched
}

// watch returns a channel that is closed when a turn of a vacant begins.
func (s *thinker) watch(id identity.ID) <-chan bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began[id] = make(chan bool)
	return s.began[id]
}

// at returns how many turns of a vacant run.
func (s *thinker) at(id identity.ID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[id]
}

func (s *thinker) count(id identity.ID, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[id] += n
	if c := s.began[id]; c != nil && n > 0 {
		close(c)
		delete(s.began, id)
	}
}

func newThinker() *thinker {
	return &thinker{limits: make(chan time.Duration, 100), release: make(chan bool), running: map[identity.ID]int{}, began: map[identity.ID]chan bool{}}
}

func (s *thinker) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		s.turns.Add(1)
		s.count(r.Vacant, 1)
		defer s.count(r.Vacant, -1)
		end, _ := ctx.Deadline()
		s.limits <- time.Until(end)
		select {
		case <-s.release:
			_ = yield(substrate.Text("thought"), nil) && yield(substrate.FinishStop, nil)
		case <-ctx.Done():
			yield(nil, ctx.Err())
		}
	}
}

// with gives a host the agent, as the substrate thinker.
func (s *thinker) with(c *serve.Config) {
	c.Substrates["thinker"] = func(string) (substrate.Substrate, error) { return s, nil }
}

// slowWorld is a host with the vacant slow, whose answers take up to five minutes.
func slowWorld(t *testing.T) (*world, *thinker, vacants.Record) {
	t.Helper()
	s := newThinker()
	w := openWorld(t, true, s.with).runs()
	return w, s, w.slow("slow", 5*time.Minute)
}

func (w *world) slow(name string, work time.Duration) vacants.Record {
	w.t.Helper()
	r, err := w.server.Vacants.Create(w.t.Context(), vacants.CreateSpec{Name: name, Capability: "Thinks", Substrate: "thinker", CallTimeout: work})
	must(w.t, err)
	return r
}

// send sends a signed call on the signed path.
func (w *world) send(e *envelope.Envelope) answer {
	w.t.Helper()
	return w.do("POST", "/v/"+e.To.String()+signedpath.SendPath, string(envelope.AppendRequest(nil, nil, e)))
}

// The answer of a slow vacant comes on each path that holds its client, and the turn has the
// vacant's time on all of them.
func TestSlowAnswersReachTheirClients(t *testing.T) {
	blocking := func(headers ...string) func(*world) string {
		return func(w *world) string {
			return w.rpc("/v/slow", "SendMessage", message("hi", ""), append(headers, "A2A-Version: 1.0")...).body
		}
	}
	for name, tc := range map[string]struct {
		ask  func(*world) string
		want string
	}{
		"blocking": {blocking(), `"state":"TASK_STATE_COMPLETED"`},
		"REST": {func(w *world) string {
			return w.do("POST", "/v/slow/message:send", message("hi", ""), "A2A-Version: 1.0").body
		}, `"state":"TASK_STATE_COMPLETED"`},
		"stream": {func(w *world) string {
			return w.rpc("/v/slow", "SendStreamingMessage", message("hi", ""), "A2A-Version: 1.0").body
		}, `"text":"thought"`},
		"text":           {func(w *world) string { return w.do("POST", "/v/slow/text", "hi", "Content-Type: text/plain").body }, "thought"},
		"text as stream": {func(w *world) string { return w.do("POST", "/v/slow/text", "hi", "Accept: text/event-stream").body }, "data: thought\n"},
		"completion": {func(w *world) string {
			return w.do("POST", "/v/slow/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`).body
		}, `"content":"thought"`},
	} {
		t.Run(name, func(t *testing.T) {
			w, s, _ := slowWorld(t)
			got := make(chan string, 1)
			go func() { got <- tc.ask(w) }()
			if limit := await.Receive(t, "the agent is asked", s.limits); limit <= call.DefaultCallTimeout || limit > 5*time.Minute {
				t.Errorf("the turn has %s", limit)
			}
			select {
			case early := <-got:
				t.Errorf("answered before the turn has ended: %s", early)
			default:
			}
			s.release <- true
			if body := await.Receive(t, "the call returns", got); !strings.Contains(body, tc.want) {
				t.Errorf("got %s, want %s", body, tc.want)
			}
			if n := s.turns.Load(); n != 1 {
				t.Errorf("%d turns ran", n)
			}
		})
	}
}

// An answer that comes after the limits of the server's connections reaches its client.
func TestASlowAnswerOutlastsTheServersLimits(t *testing.T) {
	w, s, _ := slowWorld(t)
	w.serveAs(func(s *http.Server) { s.ReadTimeout, s.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond })
	for _, ask := range []func() answer{
		func() answer { return w.do("POST", "/v/slow/text", "hi", "Content-Type: text/plain") },
		func() answer { return w.do("POST", "/v/slow/text", "hi", "Accept: text/event-stream") },
		func() answer { return w.rpc("/v/slow", "SendMessage", message("hi", ""), "A2A-Version: 1.0") },
		func() answer { return w.rpc("/v/slow", "SendStreamingMessage", message("hi", ""), "A2A-Version: 1.0") },
	} {
		got := make(chan answer, 1)
		go func() { got <- ask() }()
		await.Receive(t, "the agent is asked", s.limits)
		time.Sleep(100 * time.Millisecond)
		s.release <- true
		if a := await.Receive(t, "the call returns", got); a.status != http.StatusOK || !strings.Contains(a.body, "thought") {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

// A client is not told of more time that a stream would not have.
func TestABriefVacantHasTheSameTimeOnEachPath(t *testing.T) {
	w, s, _ := slowWorld(t)
	w.slow("brief", time.Second)
	got := w.rpc("/v/brief", "SendMessage", message("hi", ""), "A2A-Version: 1.0")
	await.Receive(t, "the agent is asked", s.limits)
	if text := at(t, got.body, "result", "task", "status", "message", "parts", 0, "text"); text != "the vacant did not answer within 1s, the time that the vacant allows (work)" {
		t.Errorf("%q of %s", text, got.body)
	}
}

// A signed call of a slow vacant is accepted and pending; the same bytes get the answer.
func TestASlowSignedCallIsPendingUntilItsAnswer(t *testing.T) {
	w, s, slow := slowWorld(t)
	e := w.signer().envelope(slow.ID, 1, identity.Hash{}, "hi", "", "")
	before := w.now()
	for range 3 {
		got := w.send(e)
		if got.status != http.StatusConflict || at(t, got.body, "state") != "pending" || got.header.Get("Retry-After") == "" {
			t.Fatalf("%d %s", got.status, got.body)
		}
		due, err := canon.ParseTime(at(t, got.body, "due"))
		if least := before.Add(5*time.Minute + call.GracePeriod); err != nil || due.Before(least.Add(-time.Millisecond)) || due.After(least.Add(w.now().Sub(before))) {
			t.Errorf("due %s, want accept, 5 minutes and %s", due, call.GracePeriod)
		}
	}
	if limit := await.Receive(t, "the agent is asked", s.limits); limit <= call.DefaultCallTimeout || limit > 5*time.Minute {
		t.Errorf("the turn has %s", limit)
	}
	s.release <- true
	var got answer
	await.Until(t, "the answer is there", func() bool {
		got = w.send(e)
		return at(t, got.body, "state") == "answered"
	})
	reply, err := envelope.DecodeMessage([]byte(at(t, got.body, "reply")))
	if err != nil || reply.Payload.Text() != "thought" || reply.IdempotencyKey != envelope.ReplyKey(e.Hash()) {
		t.Errorf("%v %v", reply, err)
	}
	if _, signed := reply.Verify(); !signed || reply.From != slow.ID {
		t.Error("the vacant did not sign the answer")
	}
	if n := s.turns.Load(); n != 1 {
		t.Errorf("%d turns ran", n)
	}
}

// A signed message of a slow vacant that is sent again has the task of the first, while its turn runs and after it,
// whatever task it names, because the signature does not cover the name.
func TestASlowSignedMessageSentAgainHasItsTask(t *testing.T) {
	w, s, slow := slowWorld(t)
	ways := map[string]func(params string) answer{
		"unary":            func(params string) answer { return w.rpc("/v/slow", "SendMessage", params) },
		"by REST":          func(params string) answer { return w.do("POST", "/v/slow/message:send", params) },
		"a stream":         func(params string) answer { return w.rpc("/v/slow", "SendStreamingMessage", params) },
		"a stream by REST": func(params string) answer { return w.do("POST", "/v/slow/message:stream", params) },
	}
	for name, send := range ways {
		e := w.signer().envelope(slow.ID, 1, identity.Hash{}, "hi", "m1", "c1")
		begun := w.rpc("/v/slow", "SendMessage", `{"message":`+message1(e, "")+`,"configuration":{"returnImmediately":true}}`)
		id := at(t, begun.body, "result", "task", "id")
		<-s.limits
		waits := make(chan answer)
		go func() { waits <- send(params1(e, "")) }()
		s.release <- true
		for when, got := range map[string]answer{
			"while it runs": <-waits, "afterwards": send(params1(e, "")),
			"with another task": send(params1(e, `,"taskId":"`+strings.Repeat("0", 32)+`"`)),
		} {
			if id == "" || !strings.Contains(got.body, id) || !strings.Contains(got.body, "thought") {
				t.Errorf("%s, %s: %d %s, want the answer of task %s", name, when, got.status, got.body, id)
			}
		}
	}
	if n := s.turns.Load(); n != int64(len(ways)) {
		t.Errorf("%d turns ran for %d messages", n, len(ways))
	}
}

// A turn that runs keeps the time with which it began.
func TestASlowTurnOutlivesAShorterSetting(t *testing.T) {
	w, s, slow := slowWorld(t)
	e := w.signer().envelope(slow.ID, 1, identity.Hash{}, "hi", "", "")
	w.send(e)
	await.Receive(t, "the agent is asked", s.limits)
	brief := 10 * time.Second
	_, err := w.server.Vacants.Update(t.Context(), slow.ID, vacants.Changes{CallTimeout: &brief})
	must(t, err)
	w.skip.Store(int64(time.Minute)) // longer than the new setting
	if got := w.send(e); at(t, got.body, "state") != "pending" {
		t.Errorf("after a minute: %d %s", got.status, got.body)
	}
	s.release <- true
	await.Until(t, "the answer is there", func() bool { return at(t, w.send(e).body, "state") == "answered" })
}

// After the last minute a call is void for good, and a late answer changes nothing.
func TestASlowCallEndsWithItsTime(t *testing.T) {
	s := newThinker()
	w := openWorld(t, true, s.with).runs()
	slow := w.slow("slow", call.MaxCallTimeout)
	e := w.signer().envelope(slow.ID, 1, identity.Hash{}, "hi", "", "")
	w.send(e)
	await.Receive(t, "the agent is asked", s.limits)
	w.skip.Store(int64(call.MaxCallTimeout))
	if got := w.send(e); at(t, got.body, "state") != "pending" {
		t.Errorf("in the 14th minute: %d %s", got.status, got.body)
	}
	w.skip.Store(int64(call.MaxCallTimeout + call.GracePeriod + time.Second))
	if got := w.send(e); at(t, got.body, "state") != "unanswered" {
		t.Errorf("after it: %d %s", got.status, got.body)
	}
	s.release <- true
	for range 3 {
		if got := w.send(e); at(t, got.body, "state") != "unanswered" {
			t.Errorf("after a late answer: %d %s", got.status, got.body)
		}
	}
}

// A call that is void before its turn begins, because others keep it waiting, does not count among
// its vacant's turns for ever.
func TestASlowTurnThatIsVoidLeavesItsPlace(t *testing.T) {
	for name, begun := range map[string]bool{"before it begins": false, "while it runs": true} {
		t.Run(name, func(t *testing.T) {
			s := newThinker()
			q := newQueuedWith(t, serve.Queues{}, s.with)
			slow := q.slow("slow", 5*time.Minute)
			places := func() int64 {
				n, _, err := task.BackgroundCountDocs.Get(t.Context(), q.store, task.BackgroundCountDocs.Key(slow.ID.String()))
				must(t, err)
				return n
			}
			e := q.signer().envelope(slow.ID, 1, identity.Hash{}, "hi", "", "")
			if got := q.send(e); at(t, got.body, "state") != "pending" || places() != 1 {
				t.Fatalf("%d %s; %d turns", got.status, got.body, places())
			}
			worked := make(chan bool)
			work := func() { go func() { defer close(worked); q.work(1) }() }
			if begun {
				work()
				await.Receive(t, "the agent is asked", s.limits)
			}
			q.skip.Store(int64(5*time.Minute + call.GracePeriod + time.Second))
			if got := q.send(e); at(t, got.body, "state") != "unanswered" {
				t.Fatalf("%d %s", got.status, got.body)
			}
			if begun {
				s.release <- true
			} else {
				work()
			}
			await.Receive(t, "the worker is done", worked)
			if n := places(); n != 0 {
				t.Errorf("%d turns count", n)
			}
			if got := q.send(e); at(t, got.body, "state") != "unanswered" {
				t.Errorf("after the turn: %d %s", got.status, got.body)
			}
		})
	}
}

// hanging is a queue of tasks that does not answer.
type hanging struct{}

func (hanging) Send(ctx context.Context, _ string, _ task.Sender) (func(context.Context, bool), error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A queue that does not answer holds a slow call until its deadline, and no longer; nothing is
// accepted.
func TestAQueueThatHangsEndsWithTheRequest(t *testing.T) {
	s := newThinker()
	q := newQueuedWith(t, serve.Queues{}, s.with)
	slow := q.slow("slow", 5*time.Minute)
	agents := q.server.OpenQueuedA2A(serve.Queues{Tasks: hanging{}, Notices: noticeQueue{q}})
	e := q.signer().envelope(slow.ID, 1, identity.Hash{}, "hi", "", "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	out := agents.Tasks.Send(ctx, slow.ID, e, call.Credential{}, "203.0.113.1")
	if out.Problem == nil || out.Problem.Kind != problem.Unavailable || out.State != "" {
		t.Errorf("%q %v, want unavailable", out.State, out.Problem)
	}
	if got := q.server.Calls.Ask(t.Context(), identity.ID{}, e); got.State != call.Unknown {
		t.Errorf("the call is %q", got.State)
	}
}

// In processes that run only while they answer, the client of a slow vacant gets its task as it
// is after a while, another process runs the turn, and a third one finds the answer.
func TestASlowTurnRunsInAnotherProcess(t *testing.T) {
	s := newThinker()
	q := newQueuedWith(t, serve.Queues{MaxWait: 20 * time.Millisecond}, s.with)
	q.slow("slow", 5*time.Minute)
	got := q.rpc("/v/slow", "SendMessage", message("hi", ""), "A2A-Version: 1.0")
	if state := at(t, got.body, "result", "task", "status", "state"); state != "TASK_STATE_SUBMITTED" {
		t.Fatalf("%s %s", state, got.body)
	}
	if refused := q.do("POST", "/v/slow/text", "hi", "Content-Type: text/plain"); refused.status != http.StatusBadRequest || !strings.Contains(refused.body, "text/event-stream") {
		t.Errorf("%d %s", refused.status, refused.body)
	}
	close(s.release)
	q.work(2)
	got = q.rpc("/v/slow", "GetTask", fmt.Sprintf(`{"id":%q}`, at(t, got.body, "result", "task", "id")), "A2A-Version: 1.0")
	if state := at(t, got.body, "result", "status", "state"); state != "TASK_STATE_COMPLETED" || s.turns.Load() != 1 {
		t.Errorf("%s after %d turns: %s", state, s.turns.Load(), got.body)
	}
}

// Two processes of a host share the turns of a slow vacant: each runs once, and each process has
// the answers of both.
func TestTwoProcessesRunASlowTurnOnce(t *testing.T) {
	w, s, slow := slowWorld(t)
	both := []*world{w, w.another()}
	const n = 8
	var calls []*envelope.Envelope
	for i := range n {
		e := w.signer().envelope(slow.ID, 1, identity.Hash{}, "hi", "", "")
		calls = append(calls, e)
		if got := both[i%2].send(e); at(t, got.body, "state") != "pending" {
			t.Fatalf("call %d: %d %s", i, got.status, got.body)
		}
		if got := both[(i+1)%2].send(e); at(t, got.body, "state") != "pending" {
			t.Fatalf("call %d at the other process: %d %s", i, got.status, got.body)
		}
	}
	close(s.release)
	for i, e := range calls {
		for _, one := range both {
			await.Until(t, "the answer is there", func() bool { return at(t, one.send(e).body, "state") == "answered" })
		}
		_, a, err := w.server.Calls.LoadCallAndAnswer(t.Context(), call.Pair{Caller: e.From, Vacant: slow.ID}, 1)
		if err != nil || a == nil || a.Position != 1 {
			t.Errorf("call %d has the decision %v, %v", i, a, err)
		}
	}
	if got := s.turns.Load(); got != n {
		t.Errorf("%d turns ran, want %d", got, n)
	}
}

// A composite does not ask a slow child that may take longer than is left, and asks it with
// enough time.
func TestADelegationCountsTheTimeOfASlowChild(t *testing.T) {
	w, s, _ := slowWorld(t)
	firm := w.create("firm", "echo")
	clerk, _, err := w.server.Vacants.Spawn(t.Context(), vacants.SpawnSpec{Parent: firm.ID, Path: "D2", Name: "clerk"})
	must(t, err)
	thinking, minutes, more := "thinker", 5*time.Minute, 10*time.Minute
	_, err = w.server.Vacants.Update(t.Context(), clerk.ID, vacants.Changes{CallTimeout: &minutes, Substrate: &thinking})
	must(t, err)
	p, err := plan.Parse([]byte(`{"version":1,"aggregate":{"how":"first"},"delegate":[{"child":"clerk"}]}`))
	must(t, err)
	_, _, err = w.server.Vacants.SetPlan(t.Context(), vacants.OperatorAsker(), firm.ID, p)
	must(t, err)
	w.skip.Store(int64(2 * time.Second)) // records are cached for a second
	got := w.send(w.signer().envelope(firm.ID, 1, identity.Hash{}, "hi", "", ""))
	asked, err := w.store.Tip(t.Context(), call.Pair{Caller: firm.ID, Vacant: clerk.ID}.Requests())
	if err != nil || got.status != problem.DeadlineExceeded.Forms().HTTPStatus || asked.Position != 0 || s.turns.Load() != 0 {
		t.Errorf("%d %s; %d calls of the child, %d turns, %v", got.status, got.body, asked.Position, s.turns.Load(), err)
	}
	_, err = w.server.Vacants.Update(t.Context(), firm.ID, vacants.Changes{CallTimeout: &more})
	must(t, err)
	w.skip.Store(int64(4 * time.Second))
	close(s.release)
	if got := w.do("POST", "/v/firm/text", "hi", "Content-Type: text/plain"); got.body != "thought" {
		t.Errorf("with ten minutes: %d %s", got.status, got.body)
	}
}

// from sends a message to a vacant from an address, which does not wait for the turn.
func (w *world) from(address, vacant string, headers ...string) string {
	w.t.Helper()
	body := strings.TrimSuffix(message("hi", ""), "}") + `,"configuration":{"returnImmediately":true}}`
	return w.post(address, "/v/"+vacant+"/message:send", body, append(headers, "A2A-Version: 1.0")...).body
}

// everywhere runs a test of shares on a host that is one process, and on one whose workers count the
// turns that run.
func everywhere(t *testing.T, test func(*testing.T, *world, *thinker), changes ...func(*serve.Config)) {
	t.Run("one process", func(t *testing.T) {
		s := newThinker()
		test(t, openWorld(t, false, append(changes, s.with)...).runs(), s)
	})
	t.Run("workers", func(t *testing.T) {
		s := newThinker()
		q := newQueuedWith(t, serve.Queues{MaxTurns: 64}, append(changes, s.with)...)
		q.workers(64)
		test(t, q.world, s)
	})
}

// Strangers at one slow vacant leave room for a payer of another, for a vacant that is not slow,
// and for each other; who waits is submitted, and is served at last.
func TestStrangersAtASlowVacantKeepNobodyElseWaiting(t *testing.T) {
	everywhere(t, strangersKeepNobodyElseWaiting)
}

func strangersKeepNobodyElseWaiting(t *testing.T, w *world, s *thinker) {
	slow := w.slow("slow", 5*time.Minute)
	other := w.slow("other", 5*time.Minute)
	served := s.watch(other.ID)
	submitted, refused := 0, 0
	for n := range 64 {
		switch got := w.from(fmt.Sprintf("203.0.113.%d", n), "slow"); {
		case strings.Contains(got, "TASK_STATE_SUBMITTED"):
			submitted++
		case strings.Contains(got, "limit of background calls"):
			refused++
		default:
			t.Fatal(got)
		}
	}
	if submitted != task.MaxBackground || refused != 64-task.MaxBackground {
		t.Errorf("%d are submitted and %d refused", submitted, refused)
	}
	payer := w.signer()
	e := payer.envelope(other.ID, 1, identity.Hash{}, "hi", "", "")
	if got := w.send(e); at(t, got.body, "state") != "pending" {
		t.Fatalf("%d %s", got.status, got.body)
	}
	await.Receive(t, "the other vacant is asked", served) // queued after the messages of the strangers
	await.Until(t, "the strangers' turns have begun", func() bool { return s.at(slow.ID) >= 16 })
	if n := s.at(slow.ID); n != 16 {
		t.Errorf("%d of the strangers' turns run, want a quarter of 64", n)
	}
	id := at(t, w.from("198.51.100.1", "echo"), "task", "id")
	await.Until(t, "a vacant that is not slow answers", func() bool {
		return strings.Contains(w.do("GET", "/v/echo/tasks/"+id, "", "A2A-Version: 1.0").body, "TASK_STATE_COMPLETED")
	})
	close(s.release)
	await.Until(t, "all are served", func() bool { return s.turns.Load() == task.MaxBackground+1 && s.at(slow.ID) == 0 })
}

// Strangers at several slow vacants leave room for an account at another.
func TestStrangersAtSlowVacantsLeaveRoomForAccounts(t *testing.T) {
	everywhere(t, strangersLeaveRoomForAccounts, func(c *serve.Config) { c.HasAccounts = true })
}

func strangersLeaveRoomForAccounts(t *testing.T, w *world, s *thinker) {
	key := "Authorization: Bearer " + w.key("acme", false)
	var crowded []vacants.Record
	for n := range 3 {
		crowded = append(crowded, w.slow(fmt.Sprint("crowded", n), 5*time.Minute))
	}
	for n := range 48 {
		if got := w.from(fmt.Sprintf("203.0.113.%d", n), crowded[n%3].Name); !strings.Contains(got, "TASK_STATE_SUBMITTED") {
			t.Fatal(got)
		}
	}
	running := func() (n int) {
		for _, v := range crowded {
			n += s.at(v.ID)
		}
		return n
	}
	await.Until(t, "the strangers' turns have begun", func() bool { return running() >= 32 })
	other := w.slow("other", 5*time.Minute)
	served := s.watch(other.ID)
	if got := w.from("198.51.100.1", "other", key); !strings.Contains(got, "TASK_STATE_SUBMITTED") {
		t.Fatal(got)
	}
	select {
	case <-served: // queued after the messages of the strangers
	case <-time.After(20 * time.Second):
		t.Error("the account waits for the strangers")
	}
	if n := running(); n != 32 {
		t.Errorf("%d of the strangers' turns run, want half of 64", n)
	}
	close(s.release)
	await.Until(t, "all are served", func() bool { return s.turns.Load() == 49 && running() == 0 })
}

// Strangers who have all places of a slow vacant leave some for accounts.
func TestStrangersLeaveAnAccountAPlaceAtASlowVacant(t *testing.T) {
	s := newThinker()
	w := openWorld(t, true, s.with, func(c *serve.Config) { c.HasAccounts = true }).runs()
	w.slow("slow", 5*time.Minute)
	key := "Authorization: Bearer " + w.key("acme", false)
	for range task.MaxBackground {
		if got := w.from("203.0.113.7", "slow"); !strings.Contains(got, "TASK_STATE_SUBMITTED") {
			t.Fatal(got)
		}
	}
	if got := w.from("203.0.113.8", "slow"); !strings.Contains(got, "limit of background calls") {
		t.Errorf("one more stranger: %s", got)
	}
	for n := range 9 {
		got := w.do("POST", "/v/slow/message:send", withID(fmt.Sprint("m", n), "hi", `},"configuration":{"returnImmediately":true}`), key, "A2A-Version: 1.0").body
		if strings.Contains(got, "TASK_STATE_SUBMITTED") != (n < 8) {
			t.Errorf("message %d of the account: %s", n+1, got)
		}
	}
	close(s.release)
	await.Until(t, "all are served", func() bool { return s.turns.Load() == task.MaxBackground+8 })
}

// An address without an account has two turns at a time, also at vacants that are not slow, because any
// turn in the background may last for minutes.
func TestAnAddressHasTwoTurns(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world, s *thinker) {
		crowded := w.slow("crowded", 0)
		for range 17 {
			w.from("203.0.113.7", "crowded")
		}
		other := w.slow("other", 5*time.Minute)
		served := s.watch(other.ID)
		w.from("203.0.113.8", "other")
		await.Receive(t, "the other vacant is asked", served) // queued after the other messages
		await.Until(t, "the turns of the address have begun", func() bool { return s.at(crowded.ID) >= 2 })
		if n := s.at(crowded.ID); n != 2 {
			t.Errorf("%d turns of the address run, want 2", n)
		}
		close(s.release)
		await.Until(t, "all are served", func() bool { return s.turns.Load() == 18 })
	})
}
