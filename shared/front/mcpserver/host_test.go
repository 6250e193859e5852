package mcpserver_test

import (
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// The host's own server finds what is published here, and asks it.
func TestTheHostsServerFindsAndAsks(t *testing.T) {
	w := newWorld(t)
	w.publish(w.mind("mind"))
	w.publish(w.create(vacants.CreateSpec{Name: "lawyer", Capability: "Translates legal texts", Substrate: "echo"}))
	s := w.connect("/mcp", "", nil)
	if about := s.InitializeResult(); about.ServerInfo.Name != "vacancy" || !strings.Contains(about.Instructions, "search_agents") {
		t.Errorf("the server is %+v", about)
	}
	tools, err := s.ListTools(t.Context(), nil)
	w.Must(err)
	var names []string
	for _, one := range tools.Tools {
		names = append(names, one.Name)
	}
	if got := strings.Join(names, " "); got != "ask_agent describe_agent get_task search_agents stop_task" {
		t.Errorf("the tools are %s", got)
	}
	call := func(tool string, arguments map[string]any) (map[string]any, *sdk.CallToolResult) {
		t.Helper()
		got, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
		w.Must(err)
		return got.StructuredContent.(map[string]any), got
	}
	found, _ := call("search_agents", map[string]any{"query": "translate"})
	agents := found["agents"].([]any)
	if len(agents) != 1 {
		t.Fatalf("found %v", found)
	}
	one := agents[0].(map[string]any)
	if one["agent"] != "lawyer" || one["capability"] != "Translates legal texts" || one["mcp"] != w.http.URL+"/v/lawyer/mcp" {
		t.Errorf("found %v", one)
	}
	if shown, _ := call("describe_agent", map[string]any{"agent": "lawyer"}); shown["vacant_id"] != one["vacant_id"] {
		t.Errorf("described %v", shown)
	}
	if all, _ := call("search_agents", map[string]any{"limit": 1}); len(all["agents"].([]any)) != 1 || all["next"] == nil {
		t.Errorf("a page of one: %v", all)
	}
	if none, _ := call("search_agents", map[string]any{"query": "cook"}); len(none["agents"].([]any)) != 0 {
		t.Errorf("nothing: %v", none)
	}
	asked, res := call("ask_agent", map[string]any{"agent": "mind", "message": "one"})
	if res.IsError || asked["text"] != "one" || asked["agent"] != "mind" {
		t.Errorf("asked: %v", asked)
	}
	again, _ := call("ask_agent", map[string]any{"agent": "mind", "message": "two", "context": asked["context"]})
	if again["text"] != "one+two" {
		t.Errorf("asked again: %v", again)
	}
	if read, _ := call("get_task", map[string]any{"agent": "mind", "task": asked["task"]}); read["text"] != "one" {
		t.Errorf("read: %v", read)
	}
	if stopped, res := call("stop_task", map[string]any{"agent": "mind", "task": asked["task"]}); !res.IsError {
		t.Errorf("stopped: %v", stopped)
	}
}

// The host's server reaches nothing that is not published.
func TestTheHostsServerReachesOnlyWhatIsPublished(t *testing.T) {
	w := newWorld(t)
	w.publish(w.mind("mind"))
	hidden := w.create(vacants.CreateSpec{Name: "hidden", Substrate: "echo"})
	asked := w.call("/v/hidden/mcp", "ask", `{"message":"hi"}`)
	acme := "Authorization: Bearer " + w.key("acme", billing.KeyOptions{})
	for _, agent := range []string{"hidden", hidden.ID.String(), "nobody", "", "{x}", "../mind", strings.Repeat("x", 4000)} {
		for tool, more := range map[string]string{"describe_agent": "", "ask_agent": `,"message":"hi"`, "get_task": fmt.Sprintf(`,"task":%q`, asked.Data["task"]), "stop_task": `,"task":"x"`} {
			got := w.call("/mcp", tool, fmt.Sprintf(`{"agent":%q%s}`, agent, more), acme)
			want := "not_found"
			if agent == "" {
				want = "malformed"
			}
			if !got.Is || got.Data["code"] != want {
				t.Errorf("%s %.20q: %s %v", tool, agent, got.text(), got.Data)
			}
		}
	}
	for _, bad := range []string{`{"limit":0}`, `{"limit":101}`, `{"query":1}`, `{"max_price":-1}`, `{"cursor":"x"}`, `{"query":"` + strings.Repeat("a ", 400) + `"}`} {
		if got := w.call("/mcp", "search_agents", bad); !got.Is || got.Data["code"] != "malformed" {
			t.Errorf("search_agents %.40s: %s %v", bad, got.text(), got.Data)
		}
	}
}
