package mcpserver_test

import (
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// A stock client lists what a vacant offers, and asks it.
func TestAStockClientAsksAVacant(t *testing.T) {
	w := newWorld(t)
	mind := w.mind("mind")
	for _, path := range []string{"/v/mind/mcp", "/v/" + mind.ID.String() + "/mcp", "/v/mind/mcp/"} {
		s := w.connect(path, "", nil)
		if about := s.InitializeResult(); about.ServerInfo.Name != "mind" || about.Instructions != "Repeats" || about.Capabilities.Prompts != nil {
			t.Errorf("the server is %+v", about)
		}
		tools, err := s.ListTools(t.Context(), nil)
		w.Must(err)
		var names []string
		for _, one := range tools.Tools {
			names = append(names, one.Name)
			if one.Description == "" || one.Title == "" || one.Annotations == nil || one.Annotations.OpenWorldHint == nil {
				t.Errorf("the tool %+v lacks texts or hints", one)
			}
		}
		if got := strings.Join(names, " "); got != "ask get_task stop_task vacant_call vacant_describe" {
			t.Errorf("the tools are %s", got)
		}
		first, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "ask", Arguments: map[string]any{"message": "one"}})
		w.Must(err)
		data := first.StructuredContent.(map[string]any)
		if first.IsError || data["text"] != "one" || data["finish"] != "stop" || data["price"] != nil || first.Content[0].(*sdk.TextContent).Text != "one" {
			t.Errorf("the answer is %+v %v", first, data)
		}
		second, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "ask", Arguments: map[string]any{"message": "two", "context": data["context"]}})
		w.Must(err)
		if got := second.StructuredContent.(map[string]any); got["text"] != "one+two" || got["context"] != data["context"] {
			t.Errorf("the answer that follows is %v", got)
		}
		read, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "get_task", Arguments: map[string]any{"task": data["task"], "wait": 20}})
		w.Must(err)
		if got := read.StructuredContent.(map[string]any); got["text"] != "one" {
			t.Errorf("the task is %v", got)
		}
	}
}

// Answers are the guest's that A2A has: a conversation that began by MCP goes on by text.
func TestAGuestIsTheSameByMCPAndByText(t *testing.T) {
	w := newWorld(t)
	w.mind("mind")
	first := w.call("/v/mind/mcp", "ask", `{"message":"one"}`)
	got := w.do("POST", "/v/mind/text?context="+first.Data["context"].(string), "two", "Content-Type: text/plain")
	if got.status != 200 || got.body != "one+two" {
		t.Errorf("by text: %d %q", got.status, got.body)
	}
}

// A tool that cannot answer says what helps, and what was wrong.
func TestRefusalsAreResultsThatSayWhatHelps(t *testing.T) {
	w := newWorld(t)
	w.mind("mind")
	asleep := w.create(vacants.CreateSpec{Name: "asleep", Substrate: "echo"})
	_, err := w.Vacants.Pause(t.Context(), asleep.ID)
	w.Must(err)
	for _, tt := range []struct{ path, tool, arguments, code, text string }{
		{"asleep", "ask", `{"message":"hi"}`, "not_accepting", "it is asleep or not open"},
		{"mind", "ask", `{"message":"busy"}`, "substrate_busy", "its agent is overloaded; try again in a few seconds"},
		{"mind", "ask", `{"message":"late"}`, "deadline", "ask for less"},
		{"mind", "ask", `{}`, "malformed", "message: expected"},
		{"mind", "ask", `{"message":""}`, "malformed", "message: expected"},
		{"mind", "ask", `{"message":1}`, "malformed", "message: expected a string"},
		{"mind", "ask", `{"message":"hi","mood":"good"}`, "malformed", "mood"},
		{"mind", "ask", `{"message":"hi","max_price":-1}`, "malformed", "max_price: expected"},
		{"mind", "ask", `{"message":"hi","context":"mine"}`, "malformed", "context: expected the context of an answer of this vacant; only a key of an account may choose names"},
		{"mind", "ask", `{"message":"hi","context":"a b"}`, "malformed", "context: expected one name"},
		{"mind", "ask", `{"message":"` + strings.Repeat("x", 300_000) + `"}`, "too_large", "message: expected at most 262080 bytes"},
		{"mind", "get_task", `{"task":"x"}`, "not_found", "task not found: it does not exist, or it belongs to another caller"},
		{"mind", "get_task", `{"task":"x","wait":21}`, "malformed", "wait: expected 0 to 20 seconds, got 21"},
		{"mind", "get_task", `{"task":"x","wait":-1}`, "malformed", "wait: expected 0 to 20 seconds"},
		{"mind", "get_task", `{"task":"` + strings.Repeat("ab", 16) + `","wait":1}`, "not_found", "task not found"},
		{"mind", "stop_task", `{"task":"` + strings.Repeat("ab", 16) + `"}`, "not_found", "task not found"},
	} {
		got := w.call("/v/"+tt.path+"/mcp", tt.tool, tt.arguments)
		if !got.Is || got.Data["code"] != tt.code || !strings.Contains(got.text(), tt.text) || got.Data["detail"] == "" {
			t.Errorf("%s %s %.60s: %t %.300s %v, want %s, %s", tt.path, tt.tool, tt.arguments, got.Is, got.text(), got.Data, tt.code, tt.text)
		}
	}
	ended := w.call("/v/mind/mcp", "ask", `{"message":"hi"}`)
	if got := w.call("/v/mind/mcp", "stop_task", fmt.Sprintf(`{"task":%q}`, ended.Data["task"])); !got.Is || !strings.Contains(got.text(), "ended") {
		t.Errorf("a task that has ended is stopped: %+v", got)
	}
}

// The store is a fault of the host: no model is told of it.
func TestAFaultOfTheStoreIs503(t *testing.T) {
	w := newWorld(t)
	if got := w.call("/v/echo/mcp", "ask", `{"message":"hi"}`); got.Is {
		t.Fatalf("%+v", got)
	}
	w.store.down.Store(true)
	got := w.rpc("/v/echo/mcp", "tools/call", `{"name":"ask","arguments":{"message":"hi"}}`)
	if got.status != 503 || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, `"error":{"code":-32000,"message":"storage`) {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
}
