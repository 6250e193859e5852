//go:build unix

package kills

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
	"github.com/vacancy-host/vacancy/tests/lambda"
	"github.com/vacancy-host/vacancy/tests/sqslocal"
)

// builtFunction is a function of the queues, built once.
func builtFunction(name string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp(scratch, "")
		if err != nil {
			return "", err
		}
		return lambda.Build(dir, "github.com/vacancy-host/vacancy/functions/"+name)
	})
}

var agentFunction, workerFunction = builtFunction("agent"), builtFunction("worker")

// queued is a host whose agent leaves turns to its worker.
type queued struct {
	*lambdaTarget
	t      *testing.T
	caller *caller.Caller
	sent   *envelope.Envelope
	env    []string               // of the functions, besides their own
	active atomic.Pointer[mortal] // whose requests to the queues those under way are
}

func newQueued(t *testing.T) *queued {
	t.Helper()
	q := &queued{lambdaTarget: &lambdaTarget{Host: awshost.New(t)}, t: t}
	server := q.Open(t, q.Store(q.Endpoint), time.Now, nil)
	if err := server.Texts.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	echo, err := server.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "echo", Capability: "echoes", Substrate: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	q.caller = caller.New(t, echo.ID)
	q.sent = q.caller.Call("hi", time.Now())
	var names sync.Map
	q.Queues.Watch(func(operation, queue string, carriedOut bool) bool {
		step := map[string]string{"SendMessage": "Send ", "ChangeMessageVisibility": "Hide "}[operation] + queue
		m, dies := q.active.Load(), false
		if carriedOut {
			name, _ := names.Load(step)
			dies = m.after(name.(string))
		} else {
			var name string
			name, dies = m.before(step)
			names.Store(step, name)
		}
		if dies {
			m.f.Kill()
		}
		return !dies
	})
	return q
}

// run starts a function that dies at a place, unless kill is nil.
func (q *queued) run(built func() (string, error), kill *place) *mortal {
	q.t.Helper()
	program, err := built()
	if err != nil {
		q.t.Fatal(err)
	}
	m := &mortal{}
	proxy := faultproxy.Start(q.t, q.Endpoint)
	m.f = lambda.Start(q.t, program, lambda.Options{Env: append(q.Env(proxy.URL), q.env...), Answering: m.answering})
	if _, err := m.f.Ready(q.t.Context()); err != nil {
		q.t.Fatal(err)
	}
	m.restart(kill)
	proxy.Watch(m.requested)
	q.active.Store(m)
	return m
}

// send sends the message, which asks for a turn in the background and for notifications.
func (q *queued) send(m *mortal) (lambda.Response, error) {
	body := strings.TrimSuffix(string(inA2A(q.sent).body), "}}") +
		`,"configuration":{"returnImmediately":true,"taskPushNotificationConfig":{"url":"https://nobody.invalid/hook"}}}}`
	q.active.Store(m)
	return m.f.Post(q.t.Context(), "/v/"+q.caller.To.String(), []byte(body))
}

// deliver hands the messages of a queue to a worker. It deletes a message that the worker
// has done.
func (q *queued) deliver(m *mortal, queue string) error {
	q.t.Helper()
	q.active.Store(m)
	for _, got := range q.Queues.Receive(queue, 10, time.Minute) {
		event, err := json.Marshal(map[string]any{"Records": []any{sqslocal.Record(queue, got)}})
		if err != nil {
			q.t.Fatal(err)
		}
		reply, err := m.f.Invoke(q.t.Context(), event)
		if err != nil {
			return err
		}
		if !strings.Contains(string(reply), got.ID) {
			q.Queues.Delete(queue, got.ID)
		}
	}
	return nil
}

// traces are the steps of agent, of the worker in a turn, and in a notice, when nothing
// disturbs them.
func traces(t *testing.T) (agent, turn, notice []string) {
	t.Helper()
	q := newQueued(t)
	a, w := q.run(agentFunction, nil), q.run(workerFunction, nil)
	if r, err := q.send(a); err != nil || r.Status != http.StatusOK {
		t.Fatalf("send = %d %s, %v\n%s", r.Status, r.Body, err, a.f.Log())
	}
	agent = a.restart(nil)
	if err := q.deliver(w, "tasks"); err != nil {
		t.Fatal(err)
	}
	turn = w.restart(nil)
	if err := q.deliver(w, "pushes"); err != nil {
		t.Fatal(err)
	}
	notice = w.restart(nil)
	for name, trace := range map[string][]string{"agent": agent, "turn": turn, "notice": notice} {
		t.Logf("%s: %s", name, strings.Join(trace, ", "))
	}
	q.recovers(task.Completed)
	return agent, turn, notice
}

// ref names the task of the message.
func (q *queued) ref() task.Ref {
	hash, _ := q.sent.Verify()
	return task.Ref{Vacant: q.caller.To, Owner: call.KeyOwner(q.sent.From), ID: task.EnvelopeTaskID(hash)}
}

// recovers requires a new agent and a new worker to bring the task to a state, whatever
// was left, and task and rows to agree.
func (q *queued) recovers(want task.State) {
	q.t.Helper()
	agent, worker := q.run(agentFunction, nil), q.run(workerFunction, nil)
	r, err := q.send(agent)
	if err != nil || r.Status != http.StatusOK || !strings.Contains(r.Body, `"result":{"task"`) {
		q.t.Fatalf("sent again = %d %s, %v\n%s", r.Status, r.Body, err, agent.f.Log())
	}
	q.Queues.Show("tasks")
	if err := q.deliver(worker, "tasks"); err != nil {
		q.t.Fatal(err)
	}
	// A turn whose worker died is over when its lease is.
	later := func() time.Time { return time.Now().Add(3 * time.Minute) }
	server := q.Open(q.t, q.Store(q.Endpoint), later, nil)
	got, err := server.OpenQueuedA2A(serve.Queues{}).Tasks.Get(q.t.Context(), q.ref())
	if err != nil || got.Status.State != want {
		q.t.Errorf("the task is %s, %v; want %s\n%s", got.Status.State, err, want, worker.f.Log())
	}
	state := map[task.State]call.State{task.Completed: call.Answered, task.Failed: call.Unanswered}[want]
	if out := server.Calls.Ask(q.t.Context(), identity.ID{}, q.sent); out.State != state {
		q.t.Errorf("the call is %q, want %q, as the task is %s", out.State, state, want)
	}
	pair := call.Pair{Caller: q.sent.From, Vacant: q.caller.To}
	for _, err := range calltest.CheckStreams(q.t.Context(), q.Store(q.Endpoint), pair, server.Texts) {
		q.t.Error(err)
	}
	(&stage{t: q.t, ctx: q.t.Context(), target: q.lambdaTarget}).whole()
	q.caller.Accepted(q.sent)
	next := q.caller.Call("next", time.Now())
	if r, err := agent.f.Post(q.t.Context(), caller.SendPath, caller.Body(next)); err != nil || r.Status != http.StatusOK {
		q.t.Errorf("the next call = %d %s, %v", r.Status, r.Body, err)
	}
}

// An agent that dies anywhere loses no task that it admitted: its message was queued
// before. Sent again, the message is the same task.
func TestAnAgentThatDiesLosesNoTask(t *testing.T) {
	trace, _, _ := traces(t)
	queuedAt, accepted := slices.Index(trace, "Send tasks"), slices.Index(trace, "Commit req")
	if queuedAt < 0 || accepted < queuedAt || !slices.Contains(trace[:accepted], "Send pushes") {
		t.Fatalf("agent does not queue before it accepts: %v", trace)
	}
	for i, at := range places(trace) {
		if !storetest.InSample(i) {
			continue
		}
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			q := newQueued(t)
			if r, err := q.send(q.run(agentFunction, &at)); err == nil && !(at.After && strings.HasPrefix(at.Call, write)) {
				t.Fatalf("send = %d %s, want it dead", r.Status, r.Body)
			}
			n := slices.Index(trace, at.Call)
			if stored := n > accepted || n == accepted && at.After; stored && len(q.Queues.Waiting("tasks"))*len(q.Queues.Waiting("pushes")) == 0 {
				t.Errorf("the task is stored and the queues have %v and %v", q.Queues.Waiting("tasks"), q.Queues.Waiting("pushes"))
			}
			q.recovers(task.Completed)
		})
	}
}

// A worker that dies in a turn leaves it to the next one until it begins; then the turn
// fails, and nothing runs twice.
func TestAWorkerThatDiesRunsNothingTwice(t *testing.T) {
	_, trace, _ := traces(t)
	claimed, decided := slices.Index(trace, "Commit task"), slices.Index(trace, "Commit rsp")
	if claimed < 0 || decided < claimed {
		t.Fatalf("worker does not claim a turn before it decides it: %v", trace)
	}
	for i, at := range places(trace) {
		if !storetest.InSample(i) {
			continue
		}
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			q := newQueued(t)
			if r, err := q.send(q.run(agentFunction, nil)); err != nil || r.Status != http.StatusOK {
				t.Fatalf("send = %d %s, %v", r.Status, r.Body, err)
			}
			if err := q.deliver(q.run(workerFunction, &at), "tasks"); err == nil && !(at.After && strings.HasPrefix(at.Call, write)) {
				t.Fatal("the worker lives, want it dead")
			}
			n, want := slices.Index(trace, at.Call), task.Completed
			if (n > claimed || n == claimed && at.After) && (n < decided || n == decided && !at.After) {
				want = task.Failed
			}
			q.recovers(want)
		})
	}
}

// A worker that dies on a notice loses none: another worker gets it, or its next one.
func TestAWorkerThatDiesLosesNoNotice(t *testing.T) {
	_, _, trace := traces(t)
	for i, at := range places(trace) {
		if !storetest.InSample(i) {
			continue
		}
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			q := newQueued(t)
			if r, err := q.send(q.run(agentFunction, nil)); err != nil || r.Status != http.StatusOK {
				t.Fatalf("send = %d %s, %v", r.Status, r.Body, err)
			}
			if err := q.deliver(q.run(workerFunction, nil), "tasks"); err != nil {
				t.Fatal(err)
			}
			if err := q.deliver(q.run(workerFunction, &at), "pushes"); err == nil && !(at.After && strings.HasPrefix(at.Call, write)) {
				t.Fatal("the worker lives, want it dead")
			}
			q.Queues.Show("pushes")
			if err := q.deliver(q.run(workerFunction, nil), "pushes"); err != nil {
				t.Fatal(err)
			}
			if left := q.Queues.Waiting("pushes"); len(left) == 0 {
				t.Error("nobody tries to deliver any more")
			}
			q.recovers(task.Completed)
		})
	}
}
