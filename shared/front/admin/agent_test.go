package admin_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestAnAgentThroughTheHandler(t *testing.T) {
	h := newTestServer(t)
	create(t, h, "demo")
	got := decode[admin.Agent](t, h.ask("GET", "/v1/admin/vacants/demo/agent", ""))
	if got.Version != 0 || string(got.Agent) != `{"provider":"echo"}` || len(got.Settings) == 0 || got.Vacant.AgentVersion != 0 {
		t.Errorf("the agent of defaults is %+v", got)
	}
	for i, body := range []string{`{"provider":"echo","system":"one"}`, `{"provider":"echo","system":"two"}`} {
		w := h.ask("PUT", "/v1/admin/vacants/demo/agent?after="+string(rune('0'+i)), body)
		if got = decode[admin.Agent](t, w); w.Code != http.StatusOK || got.Version != i+1 || string(got.Agent) != body || got.Vacant.AgentVersion != i+1 {
			t.Errorf("PUT agent = %d %s, want version %d", w.Code, w.Body, i+1)
		}
	}
	got = decode[admin.Agent](t, h.ask("GET", "/v1/admin/vacants/demo/agent?version=1", ""))
	if got.Version != 1 || !strings.Contains(string(got.Agent), "one") || got.Vacant.AgentVersion != 2 {
		t.Errorf("version 1 is %+v", got)
	}
	wantRefusal(t, h.ask("PUT", "/v1/admin/vacants/demo/agent?after=1", `{"provider":"echo"}`), problem.Conflict, "")
	wantRefusal(t, h.ask("PUT", "/v1/admin/vacants/demo/agent?after=x", `{"provider":"echo"}`), problem.Malformed, "after")
	wantRefusal(t, h.ask("PUT", "/v1/admin/vacants/demo/agent", `{"provider":"echo","sistem":"x"}`), problem.Malformed, "sistem")
	wantRefusal(t, h.ask("PUT", "/v1/admin/vacants/demo/agent", `[]`), problem.NotJSON, "")
	wantRefusal(t, h.ask("PUT", "/v1/admin/vacants/demo/agent", `{"provider":"echo","system":"`+strings.Repeat("x", definition.MaxBlobBytes)+`"}`), problem.TooLarge, "")
	wantRefusal(t, h.ask("PUT", "/v1/admin/vacants/nobody/agent", `{"provider":"echo"}`), problem.NotFound, "")
	wantRefusal(t, h.ask("GET", "/v1/admin/vacants/demo/agent?version=3", ""), problem.NotFound, "")
	wantRefusal(t, h.ask("GET", "/v1/admin/vacants/demo/agent?version=-1", ""), problem.Malformed, "version")
	if w := h.ask("PUT", "/v1/admin/vacants/demo/agent?after=9", `{"provider":"echo","system":"two"}`); w.Code != http.StatusOK {
		t.Errorf("the same again = %d %s, want that it is there", w.Code, w.Body)
	}
}

func TestACreationBringsAnAgent(t *testing.T) {
	h := newTestServer(t)
	w := h.ask("POST", "/v1/admin/vacants", `{"name":"sage","capability":"knows","agent":{"provider":"echo","system":"x"}}`)
	if v := decode[admin.Vacant](t, w); w.Code != http.StatusCreated || v.AgentVersion != 1 || v.Substrate != "echo" {
		t.Errorf("create = %d %s", w.Code, w.Body)
	}
	w = h.ask("POST", "/v1/admin/vacants/sage/children", `{"name":"pupil","path":"D2","capability":"learns","agent":{"provider":"echo","system":"y"}}`)
	if s := decode[admin.Spawned](t, w); w.Code != http.StatusCreated || s.Vacant.AgentVersion != 1 {
		t.Errorf("spawn = %d %s", w.Code, w.Body)
	}
	for body, field := range map[string]string{
		`{"name":"a","capability":"c","agent":7}`:                                        "agent",
		`{"name":"a","capability":"c","agent":{"provider":"echo","model":"m"}}`:          "agent.model",
		`{"name":"a","capability":"c","agent":{"x":1}}`:                                  "agent.x",
		`{"name":"a","capability":"c","agent":{"provider":"echo"},"substrate":"echo"}`:   "substrate",
		`{"name":"a","capability":"c","agent":{"provider":"echo","vacants":["nobody"]}}`: "vacants[0]",
	} {
		w := h.ask("POST", "/v1/admin/vacants", body)
		kind := problem.Malformed
		if field == "vacants[0]" {
			kind = problem.NotFound
		}
		wantRefusal(t, w, kind, field)
	}
}

// What is imported has the agent that was exported, unless it is given another.
func TestAnImportBringsItsAgent(t *testing.T) {
	h := newTestServer(t)
	made := decode[admin.Vacant](t, h.ask("POST", "/v1/admin/vacants", `{"name":"sage","capability":"knows","agent":{"provider":"echo","system":"x"}}`))
	w := h.ask("POST", "/v1/admin/vacants/"+made.ID.String()+"/export", "")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"agent": {"provider":"echo","system":"x"}`) {
		t.Fatalf("export = %d without its agent", w.Code)
	}
	for rest, want := range map[string]int{``: 1, `,"substrate":"echo"`: 0, `,"agent":{"provider":"echo"}`: 1} {
		other := newTestServer(t)
		w := other.ask("POST", "/v1/admin/vacants", `{"name":"sage","capability":"knows","import":`+w.Body.String()+rest+`}`)
		if v := decode[admin.Vacant](t, w); w.Code != http.StatusCreated || v.AgentVersion != want || v.ID != made.ID {
			t.Errorf("import with %q = %d, version %d, want %d", rest, w.Code, v.AgentVersion, want)
		}
	}
}

func TestAnAgentForgetsThroughTheHandler(t *testing.T) {
	h := newTestServer(t)
	v := create(t, h, "demo")
	for _, body := range []string{`{}`, `{"context_id":"t"}`, `{"caller":"` + v.ID.String() + `"}`, `{"caller":"` + v.ID.String() + `","context_id":""}`} {
		if w := h.ask("POST", "/v1/admin/vacants/demo/forget", body); w.Code != http.StatusOK || decode[admin.Vacant](t, w).ID != v.ID {
			t.Errorf("forget %s = %d %s", body, w.Code, w.Body)
		}
	}
	wantRefusal(t, h.ask("POST", "/v1/admin/vacants/demo/forget", `{"caller":"demo"}`), problem.Malformed, "caller")
	wantRefusal(t, h.ask("POST", "/v1/admin/vacants/demo/forget", `{"who":"demo"}`), problem.Malformed, "who")
	wantRefusal(t, h.ask("POST", "/v1/admin/vacants/nobody/forget", `{}`), problem.NotFound, "")
}

// A client reads what the handler says, and prints nothing that is none.
func TestAClientSetsAgents(t *testing.T) {
	h := newTestServer(t)
	create(t, h, "demo")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = admin.SocketHost
		h.handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	c := &admin.Client{HTTP: server.Client(), URL: server.URL}
	next := admin.SetAgentRequest{VacantRequest: admin.NewVacantRequest("demo", op.Raw[definition.Agent](`{"provider":"echo","system":"x"}`)), After: new(admin.Version)}
	if a, err := admin.SetAgent.Call(t.Context(), c, next); err != nil || a.Version != 1 {
		t.Errorf("SetAgent() = %+v, %v", a, err)
	}
	next.Body = op.Raw[definition.Agent](`{"provider":"echo"}`)
	if _, err := admin.SetAgent.Call(t.Context(), c, next); !problem.Is(err, problem.Conflict) {
		t.Errorf("SetAgent() after another = %v, want a conflict", err)
	}
	if a, err := admin.GetAgent.Call(t.Context(), c, admin.AgentRequest{VacantRef: admin.VacantRef{Vacant: "demo"}, Version: admin.Version(1)}); err != nil || a.Version != 1 || len(a.Settings) == 0 {
		t.Errorf("Agent() = %+v, %v", a, err)
	}
	thread := "t"
	if v, err := admin.ForgetConversations.Call(t.Context(), c, admin.NewVacantRequest("demo", admin.Forgetting{ContextID: &thread})); err != nil || v.Name != "demo" {
		t.Errorf("ForgetThread() = %v, %v", v, err)
	}
}
