package integration

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// remote creates a vacant whose turns are leased by workers.
func (s *deployed) remote(t *testing.T, tenant, work string) (name string, id identity.ID) {
	t.Helper()
	name = "mole" + word(t)
	v, err := admin.CreateVacant.Call(t.Context(), s.admin(t), op.NewBody(admin.Creation{Name: name, Capability: "digs", Tenant: tenant, Substrate: "worker", CallTimeout: work}))
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return name, v.ID
}

// leased makes message, agent, worker and admin do all that they ever do for remote workers. Each request about a lease
// is served by another instance, and the turn is of a task in the function worker.
func (s *deployed) leased(t *testing.T) {
	t.Helper()
	a := s.tenant(t, "remote"+word(t))
	var made struct{ Secret string }
	a.read(&made, "keys", "create", a.name, "--scope", "call,agents,read,work", "--json")
	a.key = made.Secret
	operator := &tenant{deployed: s, t: t, key: string(s.OperatorKey)}
	for _, side := range []struct {
		by                   *tenant
		base, path, function string
	}{{a, s.URL, "/v1", "agent"}, {operator, s.AdminURL, "/v1/admin", "admin"}} {
		do := func(method, path, body string) object {
			t.Helper()
			if s.aws != nil {
				s.kill(t, side.function)
			}
			status, answer := side.by.askAt(side.base, method, side.path+path, body)
			if status/100 != 2 {
				t.Fatalf("%s %s%s = %d %v", method, side.path, path, status, answer)
			}
			return answer
		}
		name, _ := s.remote(t, side.by.name, "")
		id := do("POST", "/tasks", fmt.Sprintf(`{"agent":%q,"task":"dig"}`, name))["taskId"].(string)
		var turn object
		await.Until(t, "the turn comes", func() bool {
			offer := do("POST", "/work/lease", fmt.Sprintf(`{"vacant":%q,"wait":20}`, name))
			if turn, _ = offer["turn"].(object); turn == nil && offer["retry_after"] != 2.0 {
				t.Fatalf("without a turn the host answers %v, want retry_after 2", offer)
			}
			return turn != nil
		})
		lease := "/work/" + turn["lease"].(string)
		do("POST", lease+"/events", `{"batch":1,"events":[{"type":"started"},{"type":"text","text":"a deep"}]}`)
		if beat := do("POST", lease+"/heartbeat", ""); beat["canceled"] != false {
			t.Errorf("heartbeat = %v", beat)
		}
		do("POST", lease+"/events", `{"batch":1,"events":[{"type":"started"},{"type":"text","text":"a deep"}]}`)
		do("POST", lease+"/result", `{"text":" hole"}`)
		var got object
		await.Until(t, "the task ends", func() bool {
			got = do("GET", "/tasks/"+id, "")
			return got["status"] != "pending" && got["status"] != "working"
		})
		if got["status"] != "completed" || !strings.Contains(fmt.Sprint(got["result"]), "a deep hole") {
			t.Errorf("the task is %v", got)
		}
		if status, answer := side.by.askAt(side.base, "POST", side.path+lease+"/result", `{"text":"another hole"}`); status != http.StatusConflict {
			t.Errorf("another result = %d %v, want a conflict", status, answer)
		}
	}

	// An instance of agent runs the call, so others serve the requests of the worker.
	name, _ := s.remote(t, a.name, "")
	ended := make(chan error, 1)
	go func() {
		status, text, err := plainCall(s, t, name, a.key)
		if err == nil && (status != http.StatusOK || text != "by another instance") {
			err = fmt.Errorf("the answer is %d %s", status, text)
		}
		ended <- err
	}()
	lease := ""
	await.Until(t, "the turn comes", func() bool {
		_, offer := a.askAt(s.URL, "POST", "/v1/work/lease", `{}`)
		turn, _ := offer["turn"].(object)
		if turn != nil {
			lease = turn["lease"].(string)
		}
		return turn != nil
	})
	if status, answer := a.askAt(s.URL, "POST", "/v1/work/"+lease+"/result", `{"text":"by another instance"}`); status != http.StatusNoContent {
		t.Errorf("result = %d %v", status, answer)
	}
	if err := await.Receive(t, "the call ends", ended); err != nil {
		t.Error(err)
	}

	// A call that waits in message for a worker ends without one.
	_, idle := s.remote(t, "", "1s")
	p := s.pair(t, idle)
	p.refused("a call without a worker", p.send(p.Call("hello", time.Now())), http.StatusInternalServerError, "no_worker")
}

// plainCall calls a vacant without a signature.
func plainCall(s *deployed, t *testing.T, name, key string) (status int, text string, err error) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v/"+name+"/text", strings.NewReader("dig"))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	reply, err := web(t, s.aws, "").Do(r)
	if err != nil {
		return 0, "", err
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(reply.Body)
	return reply.StatusCode, string(b), err
}

func TestOtherInstancesServeTheWorkerOfATurn(t *testing.T) {
	s := shared(t)
	s.leased(t)
	s.whole(t)
}
