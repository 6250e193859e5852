//go:build unix

package kills

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// operatorTasks is the path of the operator's tasks.
const operatorTasks = "/v1/admin/tasks"

// teamwork is an agent with a price, which a key of its account dispatches to, or an agent of the operator, which asks for a
// color before it paints, and never wakes if it is told to sleep.
type teamwork struct {
	task    string       // id of the task of the operator
	asleep  chan bool    // gets a value when the agent falls asleep
	painted atomic.Int64 // number of answers to colors
}

// teaming makes an account with an agent that has a price, and a key that dispatches tasks.
func teaming(s *stage) {
	s.t.Helper()
	rich(s)
	server, _, done := s.target.aside(s.t, s.target.now)
	defer done()
	r, err := server.Vacants.Create(s.ctx, vacants.CreateSpec{Name: "scribe", Capability: "writes", Substrate: "echo", Tenant: "acme"})
	s.must(err)
	_, err = server.Vacants.SetPrice(s.ctx, r.ID, price.Price{Flat: callPrice})
	s.must(err)
	_, s.key, err = server.Billing.MakeKey(s.ctx, s.account, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeAgents, billing.ScopeRead}})
	s.must(err)
}

// painting makes the agent of the operator.
func painting(s *stage) {
	s.t.Helper()
	s.team.asleep = make(chan bool, 1)
	painter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // an incomplete body has no word
		answer := `{"text":"Which color?","state":"input-required"}`
		switch {
		case bytes.Contains(body, []byte("sleep")):
			s.team.asleep <- true
			<-r.Context().Done()
			return
		case bytes.Contains(body, []byte("vermilion")):
			s.team.painted.Add(1)
			answer = `{"text":"painted"}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer) // the host may be dead
	}))
	s.t.Cleanup(painter.Close)
	server, _, done := s.target.aside(s.t, s.target.now)
	defer done()
	s.must(server.Texts.Warm(s.ctx))
	_, err := server.Vacants.Create(s.ctx, vacants.CreateSpec{Name: "painter", Capability: "paints", Substrate: "http:" + painter.URL})
	s.must(err)
}

// asks has the agent ask its question.
func asks(s *stage, p process) {
	s.t.Helper()
	s.told(p, "paint the fence")
	p.(*dev).order(order{Await: "Commit queue 2"})
	if state := s.stateOf(p, s.operated("", "")); state != "input_required" {
		s.t.Fatalf("the task is %s", state)
	}
}

// sleeps has the agent begin a turn that does not end.
func sleeps(s *stage, p process) {
	s.t.Helper()
	s.told(p, "sleep")
	await.Receive(s.t, "the agent sleeps", s.team.asleep)
}

// told dispatches a task to the agent of the operator.
func (s *stage) told(p process, text string) {
	s.t.Helper()
	got, err := p.do(request{control: true, path: operatorTasks, body: []byte(`{"agent":"painter","task":"` + text + `"}`)})
	s.must(err)
	s.team.task = s.taskOf(got)
}

// taskOf returns the id of a task that was dispatched.
func (s *stage) taskOf(got response) string {
	s.t.Helper()
	if got.status != http.StatusCreated {
		s.t.Fatalf("dispatch = %d %s", got.status, got.body)
	}
	return decode[struct{ TaskID string }](s.t, got).TaskID
}

// operated is a request about the task of the operator. Without an operation, it reads the task.
func (s *stage) operated(operation, body string) request {
	r := request{control: true, path: operatorTasks + "/" + s.team.task + operation, header: http.Header{"Idempotency-Key": {"vermilion"}}}
	if operation != "" {
		r.method = http.MethodPost
	}
	if body != "" {
		r.body = []byte(body)
	}
	return r
}

// stateOf returns the state of a task, by a request that reads it.
func (s *stage) stateOf(p process, r request) string {
	s.t.Helper()
	got, err := p.do(r)
	s.must(err)
	return decode[struct{ Status string }](s.t, got).Status
}

// endOf returns the state of a task that has no turn at work any more.
func (s *stage) endOf(p process, r request) (state string) {
	s.t.Helper()
	await.Until(s.t, "the turn ends", func() bool {
		state = s.stateOf(p, r)
		return state != "pending" && state != "working"
	})
	return state
}

// wantEnd requires that a task has ended by a fate: completed, or failed if a turn lost its process.
func (s *stage) wantEnd(state string, then fate) {
	s.t.Helper()
	want := map[fate]string{fresh: "completed", waits: "completed", stored: "completed", pending: "failed"}[then]
	if state != want && (then != either || state != "completed" && state != "failed") {
		s.t.Fatalf("the task is %q, want %q, %s", state, want, then)
	}
}

func dispatch(s *stage, key string) request {
	return request{path: teamapi.TasksPath, body: []byte(`{"agent":"scribe","task":"hi"}`), header: http.Header{"Authorization": {"Bearer " + s.key}, "Idempotency-Key": {key}}}
}

func aDispatch(s *stage) request { return dispatch(s, "one") }

// leaseEnds lets the lease of a turn end that had begun. The turn of a task that waits begins in the new process, and
// keeps its lease.
func leaseEnds(p process, then fate) {
	if then != waits {
		p.(*dev).later(2 * time.Minute)
	}
}

// dispatchAgain dispatches a task again, when the lease of a turn that had begun is over: it is one task, which is
// charged once if it was answered.
func dispatchAgain(s *stage, p process, r request, first *response, then fate) {
	s.t.Helper()
	leaseEnds(p, then)
	charged := 0
	task := func(r request) (id, state string) {
		s.t.Helper()
		got, err := p.do(r)
		s.must(err)
		id = s.taskOf(got)
		if state = s.endOf(p, request{path: r.path + "/" + id, header: r.header}); state == "completed" {
			charged++
		}
		return id, state
	}
	id, state := task(r)
	s.wantEnd(state, then)
	if first != nil && s.taskOf(*first) != id {
		s.t.Errorf("the same request dispatched %s and %s", s.taskOf(*first), id)
	}
	_, state = task(dispatch(s, "two"))
	s.wantEnd(state, fresh)
	all, err := p.do(request{path: r.path, header: r.header})
	s.must(err)
	if tasks := decode[struct{ Tasks []any }](s.t, all).Tasks; len(tasks) != 2 {
		s.t.Errorf("%d tasks, want 2", len(tasks))
	}
	p.stop()
	s.wantBalance(funds - money.Amount(charged)*callPrice)
}

func anAnswer(s *stage) request { return s.operated("/answer", `{"text":"vermilion"}`) }

// answerAgain answers a question again: the agent hears the answer once at most, and the task ends.
func answerAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	p.(*dev).later(2 * time.Minute)
	if got, err := p.do(r); err != nil || got.status != http.StatusOK {
		s.t.Fatalf("the answer again = %d %s, %v", got.status, got.body, err)
	}
	s.wantEnd(s.endOf(p, s.operated("", "")), then)
	if n := s.team.painted.Load(); n > 1 {
		s.t.Errorf("the agent heard the answer %d times", n)
	}
}

func cancelTask(s *stage) request { return s.operated("/cancel", "") }

// cancelTaskAgain cancels a task again. The task was in a state before.
func cancelTaskAgain(before string) func(*stage, process, request, *response, fate) {
	return func(s *stage, p process, r request, _ *response, then fate) {
		s.t.Helper()
		const canceled = "cancelled"
		want := map[fate]string{fresh: before, done: canceled}[then]
		if state := s.stateOf(p, s.operated("", "")); state != want {
			s.t.Fatalf("the task is %q, want %q, %s", state, want, then)
		}
		got, err := p.do(r)
		s.must(err)
		if state := decode[struct{ Status string }](s.t, got).Status; got.status != http.StatusOK || state != canceled {
			s.t.Fatalf("cancel again: %d %s", got.status, got.body)
		}
		if state := s.stateOf(p, s.operated("", "")); state != canceled {
			s.t.Fatalf("the canceled task is %q", state)
		}
	}
}
