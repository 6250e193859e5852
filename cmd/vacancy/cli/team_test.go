package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/cloudtest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// requests records the paths of requests to a host.
type requests struct {
	mu  sync.Mutex
	all []string
}

func (r *requests) sorted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(slices.Values(r.all))
}

// fakeHost is a host with an MCP server that has one tool, and, for a key, the agents that agents writes.
func fakeHost(t *testing.T, agents func(w http.ResponseWriter)) (url string, asked *requests) {
	t.Helper()
	asked = &requests{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.mu.Lock()
		asked.all = append(asked.all, strings.TrimSpace(r.URL.Path+" "+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))
		asked.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/mcp":
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"search_agents"}]}}`)
		case r.URL.Path == "/v1/agents" && agents != nil:
			agents(w)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"code":"not_found","detail":"there is no such path"}`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

const listTools = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"

func TestMCPWithoutATeamServesTheHost(t *testing.T) {
	lacksScope := func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"code":"scope_required","detail":"the key lacks the scope agents"}`)
	}
	for name, tt := range map[string]struct {
		key    string
		agents func(http.ResponseWriter)
		args   func(url string) []string
		asked  []string
		says   string
	}{
		"a guest":                   {"", nil, func(url string) []string { return []string{"mcp", "--host", url} }, []string{"/mcp"}, "there is no operator key"},
		"a guest of a URL":          {"", nil, func(url string) []string { return []string{"mcp", url} }, []string{"/mcp"}, ""},
		"a key without the scope":   {"vac_live_x", lacksScope, func(url string) []string { return []string{"mcp", "--host", url} }, []string{"/mcp vac_live_x", "/v1/agents vac_live_x"}, "lacks the scope agents"},
		"a key at an older host":    {"vac_live_x", nil, func(url string) []string { return []string{"mcp", "--host", url} }, []string{"/mcp vac_live_x", "/v1/agents vac_live_x"}, "not served"},
		"the server of one vacant":  {"vac_live_x", nil, func(url string) []string { return []string{"mcp", "fox", "--host", url} }, []string{"/v/fox/mcp vac_live_x"}, ""},
		"a URL in spite of the key": {"vac_live_x", nil, func(url string) []string { return []string{"mcp", url} }, []string{"/mcp vac_live_x"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			url, asked := fakeHost(t, tt.agents)
			s := newShell(t)
			s.env["VACANCY_KEY"] = tt.key
			code, out, errs := s.run(listTools, tt.args(url)...)
			if code != 0 || name != "the server of one vacant" && out != `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"search_agents"}]}}`+"\n" {
				t.Errorf("exit %d, %s, %s", code, out, errs)
			}
			if got := asked.sorted(); !strings.Contains(errs, tt.says) || !slices.Equal(got, tt.asked) {
				t.Errorf("%s, requests %q; want %q and %q", errs, got, tt.says, tt.asked)
			}
		})
	}
}

func TestMCPServesTheTeamOfAKey(t *testing.T) {
	url, _ := fakeHost(t, func(w http.ResponseWriter) {
		fmt.Fprint(w, `{"agents":[{"name":"writer","tier":"LOW","description":"writes"}]}`)
	})
	s := newShell(t)
	s.env["VACANCY_KEY"] = "vac_live_x"
	code, out, errs := s.run(listTools+`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_agents"}}`+"\n", "mcp", "--host", url)
	for _, name := range []string{"list_agents", "dispatch_agent", "get_task_status", "cancel_task", "answer_task", "get_locks", "search_agents", "writer"} {
		if code != 0 || strings.Count(out, `"`+name+`"`) == 0 {
			t.Errorf("exit %d, %s lacks %s; %s", code, out, name, errs)
		}
	}
}

// A stage without an edge has a URL for each function, and only functions/agent serves tasks.
func TestATeamOfAStageIsAtItsAgents(t *testing.T) {
	url, asked := fakeHost(t, nil)
	other, others := fakeHost(t, nil)
	s := newShell(t)
	record := cloudtest.DevRecord()
	record.URL, record.GatewayURL = url, other
	must(t, (stage.Records{Dir: filepath.Join(s.dataHome, "stages")}).Write(record))
	s.env["VACANCY_KEY"] = "vac_live_x"
	for _, command := range []string{"task list", "task show t1", "task cancel t1", "task answer t1 x", "run writer x"} {
		if code, _, errs := s.run("", append(strings.Fields(command), "--host", "aws")...); code != problem.ExitNotFound {
			t.Errorf("%s = exit %d, %s", command, code, errs)
		}
	}
	want := []string{"/v1/tasks vac_live_x", "/v1/tasks vac_live_x", "/v1/tasks/t1 vac_live_x", "/v1/tasks/t1/answer vac_live_x", "/v1/tasks/t1/cancel vac_live_x"}
	if got := asked.sorted(); !slices.Equal(got, want) || len(others.sorted()) > 0 {
		t.Errorf("requests to the agents %q, to the gateway %q; want %q and none", got, others.sorted(), want)
	}
}

func TestRunNeedsAGoal(t *testing.T) {
	s := newShell(t)
	for line, want := range map[string]string{"run writer": "expected a goal", "run writer x --goal y": "--goal: not supported together with GOAL", "run": "an argument is missing"} {
		s.fails(problem.ExitUsage, want, strings.Fields(line)...)
	}
	s.fails(problem.ExitNotFound, "vacancy dev", "run", "writer", "x")
}
