//go:build unix

package kills

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/caller"
)

const (
	workerARN = "arn:aws:lambda:us-east-1:123456789012:function:vacancy-test-worker"
	minutes   = 5 * time.Minute
)

// handed is a host whose message hands the turns of a slow vacant to its worker.
type handed struct {
	*queued
	events []string // that Lambda accepted and has not delivered
	loses  atomic.Bool
}

func newHanded(t *testing.T) *handed {
	t.Helper()
	h := &handed{queued: newQueued(t)}
	server := h.Open(t, h.Store(h.Endpoint), time.Now, nil)
	work := minutes
	if _, err := server.Vacants.Update(t.Context(), h.caller.To, vacants.Changes{Work: &work}); err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(http.HandlerFunc(h.api))
	t.Cleanup(api.Close)
	h.env = []string{"VACANCY_WORKER=" + workerARN, "AWS_ENDPOINT_URL_LAMBDA=" + api.URL}
	return h
}

// api is Lambda's API, at which message invokes worker.
func (h *handed) api(w http.ResponseWriter, r *http.Request) {
	event, _ := io.ReadAll(r.Body)
	if r.Header.Get("X-Amz-Invocation-Type") != "Event" || !strings.Contains(r.URL.Path, workerARN) {
		h.t.Errorf("%s %s, want an asynchronous invocation of worker", r.URL.Path, r.Header.Get("X-Amz-Invocation-Type"))
	}
	m := h.active.Load()
	name, dies := m.before(invoke)
	if dies {
		m.f.Kill()
		return // the request never arrived
	}
	if !h.loses.Load() {
		h.events = append(h.events, string(event))
	}
	if m.after(name) {
		m.f.Kill()
	}
	w.WriteHeader(http.StatusAccepted)
}

// send sends the call to message.
func (h *handed) send(m *mortal) (caller.Answer, error) {
	h.t.Helper()
	h.active.Store(m)
	r, err := m.f.Post(h.t.Context(), caller.SendPath, caller.Body(h.sent))
	if err != nil {
		return caller.Answer{}, err
	}
	return caller.Read(h.sent, r.Status, []byte(r.Body))
}

// relay delivers the events to a worker. An event that fails is kept, as Lambda does.
func (h *handed) relay(m *mortal) error {
	h.active.Store(m)
	for len(h.events) > 0 {
		if reply, err := m.f.Invoke(context.WithoutCancel(h.t.Context()), []byte(h.events[0])); err != nil || !strings.Contains(string(reply), "batchItemFailures") {
			return err
		}
		h.events = h.events[1:]
	}
	return nil
}

// answers has a new message and a new worker bring the call to its answer, whatever was left,
// and requires that its turn ran once.
func (h *handed) answers() {
	h.t.Helper()
	message, worker := h.run(bootstrap, nil), h.run(workerFunction, nil)
	if a, err := h.send(message); err != nil || a.State != string(call.Pending) && a.State != string(call.Answered) {
		h.t.Fatalf("sent again = %v, %v\n%s", a, err, message.f.Log())
	}
	if err := h.relay(worker); err != nil {
		h.t.Fatal(err)
	}
	h.Queues.Show("tasks")
	if err := h.deliver(worker, "tasks"); err != nil {
		h.t.Fatal(err)
	}
	if a, err := h.send(message); err != nil || a.State != string(call.Answered) {
		h.t.Errorf("after the turn = %v, %v\n%s", a, err, worker.f.Log())
	}
	_, a, err := h.Open(h.t, h.Store(h.Endpoint), time.Now, nil).Calls.Answered(h.t.Context(), call.Pair{Caller: h.sent.From, Vacant: h.caller.To}, 1)
	if err != nil || a == nil || a.Position != 1 {
		h.t.Errorf("the first decision is %v, %v, want the only one", a, err)
	}
	(&stage{t: h.t, ctx: h.t.Context(), target: h.lambdaTarget}).whole()
}

// handedTraces are the steps of message, and of worker with the event, when nothing disturbs
// them.
func handedTraces(t *testing.T) (message, relay []string) {
	t.Helper()
	h := newHanded(t)
	m, w := h.run(bootstrap, nil), h.run(workerFunction, nil)
	if a, err := h.send(m); err != nil || a.State != string(call.Pending) {
		t.Fatalf("the call = %v, %v\n%s", a, err, m.f.Log())
	}
	message = m.restart(nil)
	if err := h.relay(w); err != nil {
		t.Fatal(err)
	}
	relay = w.restart(nil)
	t.Logf("message: %s", strings.Join(message, ", "))
	t.Logf("relay: %s", strings.Join(relay, ", "))
	h.answers()
	return message, relay
}

// A message that dies anywhere in the accept of a slow call loses nothing: the invocation came
// before the row. The same bytes get the one answer.
func TestAMessageThatDiesHandingATurnOffLosesNothing(t *testing.T) {
	trace, _ := handedTraces(t)
	invoked, accepted := slices.Index(trace, invoke), slices.Index(trace, "Commit req")
	if invoked < 0 || accepted < invoked {
		t.Fatalf("message does not invoke worker before it accepts: %v", trace)
	}
	for i, at := range places(trace) {
		if !storetest.Sampled(i) {
			continue
		}
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			h := newHanded(t)
			if a, err := h.send(h.run(bootstrap, &at)); err == nil && at != (place{write, true}) {
				t.Fatalf("the call = %v, want message dead", a)
			}
			h.answers()
		})
	}
}

// A worker that dies with the event of a turn gets it again, and runs the turn once.
func TestAWorkerThatDiesWithATurnGetsItAgain(t *testing.T) {
	_, trace := handedTraces(t)
	if !slices.Contains(trace, "Send tasks") {
		t.Fatalf("worker queues no turn: %v", trace)
	}
	for i, at := range places(trace) {
		if !storetest.Sampled(i) {
			continue
		}
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			h := newHanded(t)
			if a, err := h.send(h.run(bootstrap, nil)); err != nil || a.State != string(call.Pending) {
				t.Fatalf("the call = %v, %v", a, err)
			}
			_ = h.relay(h.run(workerFunction, &at))
			h.answers()
		})
	}
}

// A call whose invocation is lost is pending until it is due, and then void and free.
func TestALostInvocationVoidsTheCall(t *testing.T) {
	h := newHanded(t)
	h.loses.Store(true)
	message := h.run(bootstrap, nil)
	for range 2 {
		if a, err := h.send(message); err != nil || a.State != string(call.Pending) {
			t.Fatalf("the call = %v, %v\n%s", a, err, message.f.Log())
		}
	}
	later := h.Open(t, h.Store(h.Endpoint), func() time.Time { return time.Now().Add(minutes + call.Grace + 25*time.Second) }, nil)
	if out := later.Calls.Ask(t.Context(), identity.ID{}, h.sent); out.State != call.Unanswered {
		t.Errorf("when it was due the call is %q, want it unanswered", out.State)
	}
	if a, err := h.send(message); err != nil || a.State != string(call.Unanswered) {
		t.Errorf("sent again = %v, %v", a, err)
	}
	(&stage{t: t, ctx: t.Context(), target: h.lambdaTarget}).whole()
}
