//go:build unix

package kills

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/caller"
)

const minutes = 5 * time.Minute

// handed is a host whose message hands the turns of a slow vacant to its worker.
type handed struct{ *queued }

func newHanded(t *testing.T) *handed {
	t.Helper()
	h := &handed{queued: newQueued(t)}
	server := h.Open(t, h.Store(h.Endpoint), time.Now, nil)
	work := minutes
	if _, err := server.Vacants.Update(t.Context(), h.caller.To, vacants.Changes{CallTimeout: &work}); err != nil {
		t.Fatal(err)
	}
	return h
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

// answers has a new message and a new worker bring the call to its answer, whatever was left,
// and requires that its turn ran once.
func (h *handed) answers() {
	h.t.Helper()
	message, worker := h.run(bootstrap, nil), h.run(workerFunction, nil)
	if a, err := h.send(message); err != nil || a.State != string(call.Pending) && a.State != string(call.Answered) {
		h.t.Fatalf("sent again = %v, %v\n%s", a, err, message.f.Log())
	}
	h.Queues.Show("tasks")
	if err := h.deliver(worker, "tasks"); err != nil {
		h.t.Fatal(err)
	}
	if a, err := h.send(message); err != nil || a.State != string(call.Answered) {
		h.t.Errorf("after the turn = %v, %v\n%s", a, err, worker.f.Log())
	}
	_, a, err := h.Open(h.t, h.Store(h.Endpoint), time.Now, nil).Calls.LoadCallAndAnswer(h.t.Context(), call.Pair{Caller: h.sent.From, Vacant: h.caller.To}, 1)
	if err != nil || a == nil || a.Position != 1 {
		h.t.Errorf("the first decision is %v, %v, want the only one", a, err)
	}
	(&stage{t: h.t, ctx: h.t.Context(), target: h.lambdaTarget}).whole()
}

// A message that dies anywhere in the accept of a slow call loses nothing: the message of the queue comes
// before the row. The same bytes get the one answer.
func TestAMessageThatDiesHandingATurnOffLosesNothing(t *testing.T) {
	h := newHanded(t)
	m := h.run(bootstrap, nil)
	if a, err := h.send(m); err != nil || a.State != string(call.Pending) {
		t.Fatalf("the call = %v, %v\n%s", a, err, m.f.Log())
	}
	trace := m.restart(nil)
	t.Logf("message: %s", strings.Join(trace, ", "))
	h.answers()
	queuedAt, accepted := slices.Index(trace, "Send tasks"), slices.Index(trace, "Commit req")
	if queuedAt < 0 || accepted < queuedAt {
		t.Fatalf("message does not queue the turn before it accepts: %v", trace)
	}
	for i, at := range places(trace) {
		if !storetest.InSample(i) {
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

// A call whose message is lost is pending until it is due, and then void and free.
func TestALostMessageVoidsTheCall(t *testing.T) {
	h := newHanded(t)
	message := h.run(bootstrap, nil)
	for range 2 {
		if a, err := h.send(message); err != nil || a.State != string(call.Pending) {
			t.Fatalf("the call = %v, %v\n%s", a, err, message.f.Log())
		}
	}
	for _, m := range h.Queues.Receive("tasks", 10, time.Minute) {
		h.Queues.Delete("tasks", m.ID)
	}
	later := h.Open(t, h.Store(h.Endpoint), func() time.Time { return time.Now().Add(minutes + call.GracePeriod + 25*time.Second) }, nil)
	if out := later.Calls.Ask(t.Context(), identity.ID{}, h.sent); out.State != call.Unanswered {
		t.Errorf("when it was due the call is %q, want it unanswered", out.State)
	}
	if a, err := h.send(message); err != nil || a.State != string(call.Unanswered) {
		t.Errorf("sent again = %v, %v", a, err)
	}
	(&stage{t: t, ctx: t.Context(), target: h.lambdaTarget}).whole()
}
