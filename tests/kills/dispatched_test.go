//go:build unix

package kills

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/team"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/tests/lambda"
)

// dispatched is a host whose agent takes tasks for an account, and whose worker runs them.
type dispatched struct {
	*queued
	account billing.Account
	key     billing.Key
	secret  string
}

func newDispatched(t *testing.T) *dispatched {
	t.Helper()
	d := &dispatched{queued: newQueued(t)}
	server := d.Open(t, d.Store(d.Endpoint), time.Now, nil)
	scribe, err := server.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "scribe", Capability: "writes", Substrate: "echo", Tenant: "acme"})
	if err == nil {
		_, err = server.Vacants.SetPrice(t.Context(), scribe.ID, price.Price{Flat: callPrice})
	}
	if err == nil {
		d.account, err = server.Billing.OpenAccount(t.Context(), "acme", 1)
	}
	if err == nil {
		_, _, err = server.Billing.Credit(t.Context(), d.account.ID, funds, "first", "")
	}
	if err == nil {
		d.key, d.secret, err = server.Billing.MakeKey(t.Context(), d.account.ID, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeAgents, billing.ScopeRead}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// send dispatches the task.
func (d *dispatched) send(m *mortal) (lambda.Response, error) {
	d.active.Store(m)
	e := lambda.NewEvent(teamapi.TasksPath, []byte(`{"agent":"scribe","task":"hi"}`))
	e.Headers["authorization"], e.Headers["idempotency-key"] = "Bearer "+d.secret, "one"
	return m.f.Send(d.t.Context(), e.Encode())
}

// traces are the steps of agent and worker when nothing disturbs them.
func (d *dispatched) traces() (agent, worker []string) {
	d.t.Helper()
	a, w := d.run(agentFunction, nil), d.run(workerFunction, nil)
	if r, err := d.send(a); err != nil || r.Status != http.StatusCreated {
		d.t.Fatalf("dispatch = %d %s, %v\n%s", r.Status, r.Body, err, a.f.Log())
	}
	agent = a.restart(nil)
	if err := d.deliver(w, "tasks"); err != nil {
		d.t.Fatal(err)
	}
	worker = w.restart(nil)
	d.t.Logf("agent: %s\nworker: %s", strings.Join(agent, ", "), strings.Join(worker, ", "))
	d.ends("completed")
	return agent, worker
}

// ends has a new agent and a new worker bring the task to a state, whatever was left, and requires that only an answer
// is charged.
func (d *dispatched) ends(want string) {
	d.t.Helper()
	agent, worker := d.run(agentFunction, nil), d.run(workerFunction, nil)
	r, err := d.send(agent)
	var started struct{ TaskID string }
	if err != nil || r.Status != http.StatusCreated || json.Unmarshal([]byte(r.Body), &started) != nil {
		d.t.Fatalf("dispatched again = %d %s, %v\n%s", r.Status, r.Body, err, agent.f.Log())
	}
	d.Queues.Show("tasks")
	if err := d.deliver(worker, "tasks"); err != nil {
		d.t.Fatal(err)
	}
	// A turn whose worker died is over when its lease is.
	later := func() time.Time { return time.Now().Add(3 * time.Minute) }
	server := d.Open(d.t, d.Store(d.Endpoint), later, nil)
	got, err := server.OpenQueuedA2A(serve.Queues{}).Team.Status(d.t.Context(), team.Caller{Payer: d.key.Payer()}, started.TaskID, 0)
	if err != nil || got.Status != want {
		d.t.Errorf("the task is %q, %v; want %q\n%s", got.Status, err, want, worker.f.Log())
	}
	charge := map[string]money.Amount{"completed": callPrice}[want]
	if balance, err := server.Billing.Balance(d.t.Context(), &d.account); err != nil || balance != funds-charge {
		d.t.Errorf("the balance is %s, %v; want %s", balance, err, funds-charge)
	}
	(&stage{t: d.t, ctx: d.t.Context(), target: d.lambdaTarget}).whole()
}

// A dispatched task is one task and is charged once at most, wherever the agent dies that takes it, or the worker that
// runs it.
func TestADispatchedTaskSurvivesFunctionsThatDie(t *testing.T) {
	agent, worker := newDispatched(t).traces()
	claimed, decided := slices.Index(worker, "Commit req"), slices.Index(worker, "Commit rsp")
	if queuedAt, stored := slices.Index(agent, "Send tasks"), slices.Index(agent, "Commit task"); queuedAt < 0 || stored < queuedAt || claimed < 0 || decided < claimed {
		t.Fatalf("agent does not queue a task before it stores it, or worker does not claim a turn before it decides it: %v, %v", agent, worker)
	}
	isWrite := func(at place) bool { return at.After && strings.HasPrefix(at.Call, write) }
	for i, at := range places(agent) {
		if storetest.InSample(i) {
			t.Run("agent, "+at.String(), func(t *testing.T) {
				t.Parallel()
				d := newDispatched(t)
				if r, err := d.send(d.run(agentFunction, &at)); err == nil && !isWrite(at) {
					t.Fatalf("dispatch = %d %s, want agent dead", r.Status, r.Body)
				}
				d.ends("completed")
			})
		}
	}
	for i, at := range places(worker) {
		if storetest.InSample(i) {
			t.Run("worker, "+at.String(), func(t *testing.T) {
				t.Parallel()
				d := newDispatched(t)
				if r, err := d.send(d.run(agentFunction, nil)); err != nil || r.Status != http.StatusCreated {
					t.Fatalf("dispatch = %d %s, %v", r.Status, r.Body, err)
				}
				if err := d.deliver(d.run(workerFunction, &at), "tasks"); err == nil && !isWrite(at) {
					t.Fatal("worker lives, want it dead")
				}
				n, want := slices.Index(worker, at.Call), "completed"
				if (n > claimed || n == claimed && at.After) && (n < decided || n == decided && !at.After) {
					want = "failed"
				}
				d.ends(want)
			})
		}
	}
}
