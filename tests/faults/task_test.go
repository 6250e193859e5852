package faults

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/front/handlers"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	waits "github.com/vacancy-host/vacancy/shared/host/queue"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/estimates"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// a2a is the handler of plain callers of another host over a store.
func (h *fixture) a2a(s store.Store) http.Handler {
	h.t.Helper()
	return web(h.Open(h.t, s, time.Now, h.kinds()).OpenA2A())
}

// web returns the public handler of a process that serves only protocols.
func web(a *serve.A2A) http.Handler {
	return serve.Handlers{Plain: a.Plain, Protocols: handlers.NewProtocols(a)}.Public()
}

// plain sends a message without a key and returns the answer's body.
func (h *fixture) plain(handler http.Handler, method, text string) (status int, body string) {
	h.t.Helper()
	in := httptest.NewRequest(http.MethodPost, "/v/"+h.vacant.String(), strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"`+text+`"}]}}}`)).WithContext(h.t.Context())
	in.Header.Set("Content-Type", "application/json")
	out := httptest.NewRecorder()
	handler.ServeHTTP(out, in)
	return out.Code, out.Body.String()
}

// A task that blocks is written once, with its answer: the request row, then the row of
// the answer, the head with its entry in the index, and one event. One that is followed
// is written when it begins, too.
func TestATaskConsumesFewWriteUnits(t *testing.T) {
	h := newFixture(t)
	h.answered("the first of the day")
	counter := &roundtrips.Counter{}
	handler := h.a2a(h.Store(h.Endpoint, counter.Option))
	h.plain(handler, "SendMessage", "makes the secret of guests")
	for _, tt := range []struct {
		method string
		most   float64
	}{
		{"SendMessage", estimates.Task.WriteUnits},
		// Accept with head, index and event; the piece of the answer; the end.
		{"SendStreamingMessage", 9 + 1 + 9},
	} {
		counter.Reset()
		status, body := h.plain(handler, tt.method, "hi")
		if status != http.StatusOK || !strings.Contains(body, "TASK_STATE_COMPLETED") {
			t.Fatalf("%s: %d %s", tt.method, status, body)
		}
		units := counter.WriteUnits()
		t.Logf("%s: %v write units, %v read units, %v", tt.method, units, counter.ReadUnits(), counter.Operations())
		if units > tt.most {
			t.Errorf("%s consumed %v write units, want at most %v", tt.method, units, tt.most)
		}
	}
}

// messages is a queue in memory.
type messages []string

func (m *messages) Send(_ context.Context, message string, _ task.Sender) (func(context.Context, bool), error) {
	*m = append(*m, message)
	return func(context.Context, bool) {}, nil
}

func (m *messages) SendAfter(_ context.Context, notice string, _ task.Sender, _ time.Duration) error {
	*m = append(*m, notice)
	return nil
}

// The estimate of a task in the background equals the units that agent and
// worker consume.
func TestATaskInTheBackgroundConsumesWhatTheEstimateSays(t *testing.T) {
	h := newFixture(t)
	h.answered("the first of the day")
	counter, queue := &roundtrips.Counter{}, &messages{}
	agents := h.Open(h.t, h.Store(h.Endpoint, counter.Option), time.Now, h.kinds()).OpenQueuedA2A(serve.Queues{Tasks: queue, Notices: &messages{}, MaxTurns: 64})
	h.plain(web(agents), "SendMessage", "makes the secret of guests")
	counter.Reset()
	in := httptest.NewRequest(http.MethodPost, "/v/"+h.vacant.String(), strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"returnImmediately":true}}}`))
	in.Header.Set("Content-Type", "application/json")
	out := httptest.NewRecorder()
	web(agents).ServeHTTP(out, in)
	if out.Code != http.StatusOK || len(*queue) != 1 {
		t.Fatalf("%d %s, queued %v", out.Code, out.Body, *queue)
	}
	if err := agents.Tasks.RunQueued(t.Context(), (*queue)[0]); err != nil {
		t.Fatal(err)
	}
	model := estimates.BackgroundTask
	if w, r := counter.WriteUnits(), counter.ReadUnits(); w != model.WriteUnits || r > model.ReadUnits || r < model.ReadUnits/2 {
		t.Errorf("a task in the background consumes %v write and %v read units, the estimate is %v and %v", w, r, model.WriteUnits, model.ReadUnits)
	}
}

// The estimate of a signed call of a slow vacant equals the units that message and worker
// consume, without the heartbeats of a turn that takes its time.
func TestASlowCallConsumesWhatTheEstimateSays(t *testing.T) {
	h := newFixture(t)
	h.answered("the first of the day")
	counter, queue := &roundtrips.Counter{}, &messages{}
	here := h.Open(h.t, h.Store(h.Endpoint, counter.Option), time.Now, h.kinds())
	work := 5 * time.Minute
	if _, err := here.Vacants.Update(t.Context(), h.vacant, vacants.Changes{CallTimeout: &work}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // the record is cached for a second
	here.QueueSlowTurns(queue)
	from := caller.New(t, h.vacant)
	body := caller.Body(from.Call("hi", time.Now()))
	send := func(want string) {
		t.Helper()
		in := httptest.NewRequest(http.MethodPost, caller.SendPath, bytes.NewReader(body)).WithContext(t.Context())
		in.Header.Set("Content-Type", "application/json")
		out := httptest.NewRecorder()
		serve.Public(here.MessageHandler()).ServeHTTP(out, in)
		if !strings.Contains(out.Body.String(), `"state":"`+want+`"`) {
			t.Fatalf("%d %s, want it %s", out.Code, out.Body, want)
		}
	}
	counter.Reset()
	send("pending")
	worker := h.Open(h.t, h.Store(h.Endpoint, counter.Option), time.Now, h.kinds()).OpenQueuedA2A(serve.Queues{Tasks: queue, Notices: &messages{}, MaxTurns: 64})
	if err := worker.Tasks.RunQueued(t.Context(), (*queue)[0]); err != nil {
		t.Fatal(err)
	}
	if w, r := counter.WriteUnits(), counter.ReadUnits(); w != estimates.SlowWrites || r > estimates.SlowReads || r < estimates.SlowReads/2. {
		t.Errorf("a slow call consumes %v write and %v read units, the estimate is %v and %v", w, r, estimates.SlowWrites, estimates.SlowReads)
	}
	counter.Reset()
	send("answered")
	if r := counter.ReadUnits(); r > estimates.ResendReads || r < estimates.ResendReads/2. || counter.WriteUnits() != 0 {
		t.Errorf("a resend consumes %v read and %v write units, the estimate is %v and none", r, counter.WriteUnits(), estimates.ResendReads)
	}
}

// A turn that finds no room until it fails writes as much as the worst day counts, and comes again at
// most as often as the queue of dead letters allows.
func TestATurnWithoutRoomConsumesWhatTheWorstDaySays(t *testing.T) {
	h := newFixture(t)
	h.answered("the first of the day")
	counter, queue := &roundtrips.Counter{}, &messages{}
	// 15 minutes that do not cross midnight, whose first turn writes a usage of the new day.
	now := time.Now().Truncate(24 * time.Hour).Add(12*time.Hour + time.Nanosecond)
	agents := h.Open(h.t, h.Store(h.Endpoint, counter.Option), func() time.Time { return now }, h.kinds()).OpenQueuedA2A(serve.Queues{Tasks: queue, Notices: &messages{}, MaxTurns: 1})
	in := func() *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/v/"+h.vacant.String(), strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"returnImmediately":true}}}`))
		r.Header.Set("Content-Type", "application/json")
		return r
	}
	h.plain(web(agents), "SendMessage", "makes the secret of guests")
	room := store.Put{Key: task.RunningCountDocs.Key("vacant "+h.vacant.String(), now.UTC().Format(time.DateOnly)), WriteID: store.WriteID{1}, Number: 1}
	if err := h.Store(h.Endpoint).Commit(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	counter.Reset()
	web(agents).ServeHTTP(httptest.NewRecorder(), in())
	received := 0
	for ; received < 2*waits.MaxFullRetries; received++ {
		err := agents.Tasks.RunQueued(t.Context(), (*queue)[0])
		if err == nil {
			break
		}
		if !errors.Is(err, task.ErrFull) {
			t.Fatal(err)
		}
		now = now.Add(waits.FullRetryDelay)
	}
	const rows = 4 // both rows, each in a transaction
	if w := counter.WriteUnits() - rows; w != cost.DocsUnitsPerTurn || received != waits.MaxFullRetries {
		t.Errorf("a turn without room writes %v units and comes again %d times, want %d and %d", w, received, cost.DocsUnitsPerTurn, waits.MaxFullRetries)
	}
}
