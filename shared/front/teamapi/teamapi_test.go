package teamapi_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

// asker answers with the text that it is sent, unless the text is one of the words of Infer.
type asker struct{ stopped chan bool }

func (a asker) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		text := "it is " + r.Text() + ", see src/a.go"
		switch r.Text() {
		case "paint":
			text = "which color?"
			if !yield(substrate.Question{}, nil) {
				return
			}
		case "think":
			if !yield(substrate.Thought("a secret"), nil) {
				return
			}
		case "recall":
			text = ""
			for _, t := range r.Turns {
				text += t.Text + ";"
			}
		case "much":
			text = strings.Repeat("é", much)
		case "fail":
			yield(nil, problem.New(problem.SubstrateUnavailable, "it is down"))
			return
		case "sleep":
			<-ctx.Done()
			a.stopped <- true
			yield(nil, ctx.Err())
			return
		}
		if yield(substrate.Text(text), nil) {
			yield(substrate.FinishStop, nil)
		}
	}
}

// much is the number of characters of two bytes in a long answer.
const much = 40 << 10

// teamHost is a host with the tenant acme, who has the agent writer, and an account with the key of acme.
type teamHost struct {
	*memhost.Host
	acme    billing.Account
	writer  vacants.Record
	key     string
	stopped chan bool // receives a value when an asker that sleeps is stopped
}

// openHost opens a host with the substrate asker, which also plays the model mock.
func openHost(t testing.TB, stopped chan bool, changes ...func(*serve.Config)) *memhost.Host {
	kind := func(string) (substrate.Substrate, error) { return asker{stopped}, nil }
	h := memhost.Open(t, append(changes, func(c *serve.Config) {
		c.Substrates = substrate.Kinds{"asker": kind}
		c.Models = func(*outbound.Client) substrate.Kinds { return substrate.Kinds{substrate.KindMock: kind} }
	})...)
	h.Serve()
	return h
}

func openTeam(t testing.TB) *teamHost {
	h := &teamHost{stopped: make(chan bool, 1)}
	h.Host = openHost(t, h.stopped)
	h.acme = h.Account("acme", money.Dollar)
	h.writer = h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "writer", Capability: "writes", Substrate: "asker", Tenant: "acme"})
	h.key = h.Key(h.acme, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeCall, billing.ScopeAgents, billing.ScopeRead}})
	return h
}

// keyOf returns a key with the scopes agents and read.
func (h *teamHost) keyOf(a billing.Account, o billing.KeyOptions) string {
	o.Scopes = []billing.Scope{billing.ScopeAgents, billing.ScopeRead}
	return h.Key(a, o)
}

// operate sends a request of the operator.
func (h *teamHost) operate(method, path, body string) memhost.Answer {
	h.Helper()
	defer func(public http.Handler) { h.Public = public }(h.Public)
	h.Public = h.Admin()
	return h.Do(method, "http://"+admin.SocketHost+path, "", body)
}

// publish publishes a vacant of the tenant other.
func (h *teamHost) publish(s vacants.CreateSpec) vacants.Record {
	h.Helper()
	s.Asker, s.Capability, s.Tenant = vacants.OperatorAsker(), "works for others", "other"
	r := h.Create(s)
	_, _, err := h.Vacants.Publish(h.Context(), r.ID, vacants.PublishOptions{Listing: &vacants.ListingOptions{}})
	h.Must(err)
	h.Clock.Advance(2 * time.Second) // records are cached for a second
	return r
}

// dispatch gives an agent a task, and returns its id.
func (h *teamHost) dispatch(body string, headers ...string) string {
	h.Helper()
	a := h.Do("POST", "/v1/tasks", h.key, body, headers...)
	if a.Status != 201 {
		h.Fatalf("POST /v1/tasks %s = %d %s", body, a.Status, a.Body)
	}
	return a.JSON["taskId"].(string)
}

// status returns the status of a task.
func (h *teamHost) status(id string) map[string]any {
	h.Helper()
	a := h.Do("GET", "/v1/tasks/"+id, h.key, "")
	if a.Status != 200 {
		h.Fatalf("GET /v1/tasks/%s = %d %s", id, a.Status, a.Body)
	}
	return a.JSON
}

// cancel cancels the task that an answer names.
func (h *teamHost) cancel(a memhost.Answer) {
	h.Helper()
	if c := h.Do("POST", fmt.Sprintf("/v1/tasks/%v/cancel", a.JSON["taskId"]), h.key, ""); c.Status != 200 {
		h.Fatalf("cancel = %d %s", c.Status, c.Body)
	}
}

// until waits until a task has a status.
func (h *teamHost) until(id, want string) map[string]any {
	h.Helper()
	for {
		a := h.Do("GET", "/v1/tasks/"+id+"?wait=20", h.key, "")
		if a.JSON["status"] == want {
			return a.JSON
		}
		if s := a.JSON["status"]; s != "pending" && s != "working" {
			h.Fatalf("task %s is %s, want %s", id, a.Body, want)
		}
	}
}

func TestATaskIsATaskOfA2A(t *testing.T) {
	h := openTeam(t)
	id := h.dispatch(`{"agent":"writer","task":"green"}`)
	if s := h.status(id); s["status"] != "pending" || s["agent"] != "writer" || s["mode"] != "read-write" {
		t.Errorf("before its turn: %v", s)
	}
	h.Work()
	s := h.until(id, "completed")
	result := s["result"].(map[string]any)
	if result["response"] != "it is green, see src/a.go" || fmt.Sprint(result["artifacts"]) != "[src/a.go]" || result["model_used"] != "(default)" {
		t.Errorf("result = %v", result)
	}
	if a := h.Do("GET", "/v/writer/tasks/"+id, h.key, "", "A2A-Version: 1.0"); a.Status != 200 || !strings.Contains(a.Body, "it is green") {
		t.Errorf("by A2A = %d %s", a.Status, a.Body)
	}
	if a := h.Do("GET", "/v1/tasks", h.key, ""); !strings.Contains(a.Body, id) {
		t.Errorf("list = %s", a.Body)
	}
}

func TestAWaitingTaskHoldsNoMoney(t *testing.T) {
	h := openTeam(t)
	_, err := h.Vacants.SetPrice(t.Context(), h.writer.ID, price.Price{Flat: 2000})
	h.Must(err)
	id := h.dispatch(`{"agent":"writer","task":"green"}`, "Idempotency-Key: k")
	if again := h.dispatch(`{"agent":"writer","task":"green"}`, "Idempotency-Key: k"); again != id {
		t.Errorf("the same key is task %s, want %s", again, id)
	}
	if got := h.Balance(h.acme); got != money.Dollar {
		t.Errorf("balance while the task waits = %s", got)
	}
	h.Clock.Advance(20 * time.Minute)
	h.Work()
	h.until(id, "completed")
	if got := h.Balance(h.acme); got != money.Dollar-2000 {
		t.Errorf("balance afterwards = %s", got)
	}
	h.WantWhole(h.Store)
}

func TestAWaitingTaskFails(t *testing.T) {
	for what, tt := range map[string]struct {
		change func(h *teamHost)
		says   string
	}{
		"at its deadline": {func(h *teamHost) { h.Clock.Advance(task.DefaultRunTime + time.Second) }, "did not end within 6h0m0s"},
		"with its key": {func(h *teamHost) {
			keys, err := h.Billing.Keys(h.Context(), h.acme.ID)
			h.Must(err)
			_, err = h.Billing.RevokeKey(h.Context(), nil, h.acme.ID, keys[0].ID)
			h.Must(err)
			h.key = h.Key(h.acme, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeAgents, billing.ScopeRead}})
		}, "was revoked"},
		"without money": {func(h *teamHost) {
			_, err := h.Vacants.SetPrice(h.Context(), h.writer.ID, price.Price{Flat: 2 * money.Dollar})
			h.Must(err)
		}, "2"},
	} {
		t.Run(what, func(t *testing.T) {
			h := openTeam(t)
			id := h.dispatch(`{"agent":"writer","task":"green"}`)
			tt.change(h)
			h.Work()
			if s := h.until(id, "failed"); !strings.Contains(fmt.Sprint(s["error"]), tt.says) {
				t.Errorf("error = %v, want %s", s, tt.says)
			}
			if got := h.Balance(h.acme); got != money.Dollar {
				t.Errorf("balance = %s", got)
			}
		})
	}
}

func TestUnfinishedTasksAreLimited(t *testing.T) {
	h := openTeam(t)
	for _, name := range []string{"second", "third"} {
		h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: name, Capability: "works", Substrate: "asker", Tenant: "acme"})
	}
	var first string
	count := 0
	for _, agent := range []struct {
		name string
		n    int
	}{{"writer", 40}, {"second", 40}, {"third", 20}} {
		for range agent.n {
			id := h.dispatch(fmt.Sprintf(`{"agent":%q,"task":"x%d"}`, agent.name, count))
			if count++; first == "" {
				first = id
			}
		}
		refused := h.Do("POST", "/v1/tasks", h.key, fmt.Sprintf(`{"agent":%q,"task":"more"}`, agent.name))
		if want := map[bool]string{true: "100 unfinished tasks", false: "40 unfinished tasks at this agent"}[count == 100]; refused.Status != 429 || !strings.Contains(refused.Body, want) {
			t.Errorf("task %d = %d %s, want %s", count+1, refused.Status, refused.Body, want)
		}
	}
	if a := h.Do("POST", "/v1/tasks/"+first+"/cancel", h.key, ""); a.Status != 200 || a.JSON["status"] != "cancelled" {
		t.Errorf("cancel = %d %s", a.Status, a.Body)
	}
	h.dispatch(`{"agent":"writer","task":"after"}`)
	// Tasks that have passed their deadlines make room without being read.
	h.Clock.Advance(task.DefaultRunTime + time.Second)
	h.dispatch(`{"agent":"writer","task":"later"}`)
}

// tool calls a tool of the host's MCP server, and returns its text.
func (h *teamHost) tool(name, arguments string) (text string, isError bool) {
	h.Helper()
	reply := result[struct {
		Content []struct{ Text string }
		IsError bool
	}](h, h.rpc("tools/call", `{"name":"`+name+`","arguments":`+arguments+`}`))
	return reply.Content[0].Text, reply.IsError
}
