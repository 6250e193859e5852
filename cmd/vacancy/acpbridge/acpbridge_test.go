package acpbridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/acp-go-sdk"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestTheHandshake(t *testing.T) {
	f := openFixture(t)
	e := connect(t, f.config(f.key, true))
	got := e.ask("initialize", map[string]any{"protocolVersion": 1})
	capabilities, _ := got["agentCapabilities"].(map[string]any)
	sessions, _ := capabilities["sessionCapabilities"].(map[string]any)
	for _, name := range []string{"list", "resume", "fork"} {
		if _, ok := sessions[name]; !ok {
			t.Errorf("the capability %s is missing: %v", name, sessions)
		}
	}
	info, _ := got["agentInfo"].(map[string]any)
	if got["protocolVersion"] != 1.0 || capabilities["loadSession"] != true || info["name"] != "vacant-acp" || info["title"] != "fox" || info["version"] != "test" {
		t.Errorf("initialize = %v", got)
	}
	if got := e.ask("authenticate", map[string]any{"methodId": "x"}); len(got) != 0 {
		t.Errorf("authenticate = %v", got)
	}
	e.in.Close()
	if err := <-e.served; err != nil {
		t.Errorf("Serve() = %v", err)
	}
	e.served <- nil
}

// Each way to call answers a prompt, with each text once.
func TestAPromptIsAnswered(t *testing.T) {
	f := openFixture(t)
	plainKey := f.Key(f.acme, billing.KeyOptions{})
	for name, c := range map[string]Config{"a guest": f.config("", false), "an account": f.config(plainKey, false), "the owner": f.config(f.key, true)} {
		t.Run(name, func(t *testing.T) {
			e := connect(t, c)
			id := e.open()
			reason, said := e.prompt(id, "hello")
			if reason != "end_turn" || said["agent_message_chunk"] != "you said hello (5 bytes)" {
				t.Errorf("prompt = %s, %q", reason, said)
			}
			if kinds := e.kinds(id); !slices.Equal(kinds, []string{"agent_message_chunk", "session_info_update"}) {
				t.Errorf("updates = %v", kinds)
			}
			if reason, said = e.prompt(id, "fail"); reason != "refusal" || said["agent_message_chunk"] == "" {
				t.Errorf("a prompt that fails = %s, %q", reason, said)
			}
			if reason, said = e.prompt(id, "ask"); reason != "end_turn" || said["agent_message_chunk"] != "which color?" {
				t.Errorf("a question = %s, %q", reason, said)
			}
			if reason, said = e.prompt(id, "blue"); reason != "end_turn" || !strings.HasPrefix(said["agent_message_chunk"], "you said blue") {
				t.Errorf("its answer = %s, %q", reason, said)
			}
			log, err := os.ReadFile(filepath.Join(e.dir, ".vaultspec", "logs", id+".log"))
			if err != nil || !strings.Contains(string(log), `"type":"session_update"`) || strings.Contains(string(log), "hello") {
				t.Errorf("the log = %s, %v", log, err)
			}
		})
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	f := openFixture(t)
	e := connect(t, f.config("", false))
	id := e.open()
	foreign := connect(t, f.config(f.key, true))
	theirs := foreign.open()
	foreign.prompt(theirs, "hello")
	const invalid = -32602
	for _, tt := range []struct {
		method string
		params any
		code   int
		text   string
	}{
		{"session/prompt", promptOf("nobody", "x"), resourceNotFound, "not found"},
		{"session/prompt", promptOf(id, " \n"), invalid, "prompt: expected a block with a text, got none"},
		{"session/prompt", map[string]any{"sessionId": id}, invalid, "Invalid params"},
		{"session/new", map[string]any{"cwd": "here", "mcpServers": []any{}}, invalid, "cwd: expected an absolute path"},
		{"session/new", map[string]any{"mcpServers": []any{}}, invalid, "Invalid params"},
		{"session/load", map[string]any{"sessionId": theirs, "cwd": e.dir, "mcpServers": []any{}}, resourceNotFound, "does not exist, or it belongs to another caller"},
		{"session/resume", map[string]any{"sessionId": theirs, "cwd": e.dir}, resourceNotFound, "does not exist, or it belongs to another caller"},
		{"session/fork", map[string]any{"sessionId": theirs, "cwd": e.dir}, resourceNotFound, "does not exist, or it belongs to another caller"},
		{"session/list", map[string]any{"cursor": "x"}, invalid, "cursor: expected nextCursor of an earlier answer"},
		{"session/set_mode", map[string]any{"sessionId": id, "modeId": "read-only"}, invalid, "set VACANCY_KEY"},
		{"session/set_model", map[string]any{"sessionId": id, "modelId": "large"}, invalid, "set VACANCY_KEY"},
		{"session/set_config_option", map[string]any{"sessionId": id, "configId": "colour", "value": "x"}, invalid, "configId: expected model"},
		{"_x/y", map[string]any{}, -32601, "Method not found"},
		{"fs/nothing", map[string]any{}, -32601, "Method not found"},
	} {
		if code, text := e.refused(tt.method, tt.params); code != tt.code || !strings.Contains(text, tt.text) {
			t.Errorf("%s %v = %d %s, want %d %s", tt.method, tt.params, code, text, tt.code, tt.text)
		}
	}
	e.write(map[string]any{"jsonrpc": "2.0", "method": "session/cancel", "params": map[string]any{"sessionId": "nobody"}})
	if _, err := e.in.Write([]byte("{\n\n")); err != nil { // a broken line has no answer
		t.Error(err)
	}
	if reason, _ := e.prompt(id, "hello"); reason != "end_turn" {
		t.Errorf("afterwards a prompt ends with %s", reason)
	}
}

func TestACanceledPrompt(t *testing.T) {
	f := openFixture(t)
	for name, c := range map[string]Config{"a guest": f.config("", false), "the owner": f.config(f.key, true)} {
		t.Run(name, func(t *testing.T) {
			e := connect(t, c)
			id := e.open()
			n := e.send("session/prompt", promptOf(id, "sleep"))
			e.await("a chunk", func() bool { return len(e.updates) > 0 })
			if code, text := e.refused("session/prompt", promptOf(id, "second")); code != -32600 || !strings.Contains(text, "is running; wait until it ends") {
				t.Errorf("a prompt during a prompt = %d %s", code, text)
			}
			e.forget()
			e.write(map[string]any{"jsonrpc": "2.0", "method": "session/cancel", "params": map[string]any{"sessionId": id}})
			if m := e.answer(n); !strings.Contains(string(m.Result), `"cancelled"`) {
				t.Errorf("the prompt = %s %+v", m.Result, m.Error)
			}
			select {
			case <-f.stopped:
			case <-time.After(20 * time.Second):
				t.Error("the agent still runs")
			}
			if kinds := e.kinds(id); len(kinds) > 0 {
				t.Errorf("updates after the cancellation: %v", kinds)
			}
			if reason, said := e.prompt(id, "hello"); reason != "end_turn" || !strings.HasPrefix(said["agent_message_chunk"], "you said hello") {
				t.Errorf("the next prompt = %s, %q", reason, said)
			}
		})
	}
}

// Another program of the account lists, loads, resumes and forks the sessions of one that has ended.
func TestSessionsOutliveTheProgram(t *testing.T) {
	f := openFixture(t)
	plainKey := f.Key(f.acme, billing.KeyOptions{})
	for name, c := range map[string]Config{"an account": f.config(plainKey, false), "the owner": f.config(f.key, true)} {
		t.Run(name, func(t *testing.T) {
			e := connect(t, c)
			id := e.open()
			e.prompt(id, "first")
			e.prompt(id, "second")
			again := connect(t, c)
			again.dir = e.dir
			params := map[string]any{"sessionId": id, "cwd": e.dir, "mcpServers": []any{}}
			listed, _ := json.Marshal(again.ask("session/list", map[string]any{"cwd": e.dir})["sessions"])
			if !strings.Contains(string(listed), `"sessionId":"`+id+`"`) || !strings.Contains(string(listed), `"title":"first"`) || !strings.Contains(string(listed), `"cwd":"`+e.dir+`"`) {
				t.Errorf("list = %s", listed)
			}
			if others, _ := json.Marshal(again.ask("session/list", map[string]any{"cwd": "/elsewhere"})["sessions"]); string(others) != "[]" {
				t.Errorf("list of another folder = %s", others)
			}
			again.ask("session/load", params)
			said := again.said(id)
			if said["user_message_chunk"] != "firstsecond" || strings.Count(said["agent_message_chunk"], "you said") != 2 || !strings.HasPrefix(said["agent_message_chunk"], "you said first") {
				t.Errorf("load replays %q", said)
			}
			again.forget()
			again.ask("session/resume", params)
			if kinds := again.kinds(id); len(kinds) > 0 {
				t.Errorf("resume sends %v", kinds)
			}
			fork := again.ask("session/fork", params)["sessionId"].(string)
			if fork == id {
				t.Fatal("a fork has the id of its source")
			}
			_, said = again.prompt(fork, "third")
			if !strings.HasPrefix(said["agent_message_chunk"], "you said third (") || strings.Contains(said["agent_message_chunk"], "(5 bytes)") {
				t.Errorf("a fork does not carry the history: %q", said)
			}
			again.forget()
			again.ask("session/load", params)
			if said := again.said(id); said["user_message_chunk"] != "firstsecond" {
				t.Errorf("after a fork, the source is %q", said)
			}
			again.forget()
			third := connect(t, c)
			third.ask("session/load", map[string]any{"sessionId": fork, "cwd": e.dir, "mcpServers": []any{}})
			if user := third.said(fork)["user_message_chunk"]; strings.Count(user, "first") != 2 || !strings.HasSuffix(user, "third") { // asked, and repeated by the answer
				t.Errorf("the fork replays %q", user)
			}
		})
	}
}

// Texts that the host has destroyed are replayed as one line that says so.
func TestExpiredTextsAreOneLine(t *testing.T) {
	f := openFixture(t)
	plainKey := f.Key(f.acme, billing.KeyOptions{})
	e := connect(t, f.config(plainKey, false))
	id := e.open()
	e.prompt(id, "first")
	load := func(e *editor) map[string]string {
		e.forget()
		e.ask("session/load", map[string]any{"sessionId": id, "cwd": e.dir, "mcpServers": []any{}})
		return e.said(id)
	}
	f.ahead.Store(int64(100 * time.Hour))
	e.prompt(e.open(), "in another session") // a key is destroyed after a call of a later day
	_, err := f.Texts.Sweep(t.Context())
	f.Must(err)
	f.Texts.ClearCache()
	const expired = "(The earlier texts of this session have expired.)\n"
	if said := load(e); said["user_message_chunk"] != "" || said["agent_message_chunk"] != expired {
		t.Errorf("without texts, load replays %q", said)
	}
	e.prompt(id, "second")
	if said := load(connect(t, f.config(plainKey, false))); said["user_message_chunk"] != "second" || !strings.HasPrefix(said["agent_message_chunk"], expired+"you said second") {
		t.Errorf("load replays %q", said)
	}
}

func TestSettingsOfASession(t *testing.T) {
	f := openFixture(t)
	e := connect(t, f.config(f.key, true))
	made := e.ask("session/new", map[string]any{"cwd": e.dir, "mcpServers": []any{map[string]any{"name": "files", "command": "/bin/files", "args": []string{}, "env": []any{}}}})
	id := made["sessionId"].(string)
	if modes, _ := made["modes"].(map[string]any); modes["currentModeId"] != "read-write" {
		t.Errorf("modes = %v", modes)
	}
	if code, text := e.refused("session/set_mode", map[string]any{"sessionId": id, "modeId": "yolo"}); code != -32602 || !strings.Contains(text, "modeId: expected read-only or read-write") {
		t.Errorf("an unknown mode = %d %s", code, text)
	}
	e.ask("session/set_mode", map[string]any{"sessionId": id, "modeId": "read-only"})
	e.ask("session/set_model", map[string]any{"sessionId": id, "modelId": "large"})
	if got, _ := json.Marshal(e.ask("session/set_config_option", map[string]any{"sessionId": id, "configId": "model", "value": "default"})); !strings.Contains(string(got), `"currentValue":"default"`) {
		t.Errorf("options = %s", got)
	}
	if kinds := e.kinds(id); !slices.Equal(kinds, []string{"current_mode_update", "config_option_update"}) {
		t.Errorf("updates = %v", kinds)
	}
	_, said := e.prompt(id, "hello")
	if !strings.Contains(said["agent_thought_chunk"], "These MCP servers of the editor are not used: files. ") {
		t.Errorf("the first prompt says %q", said)
	}
	if _, said = e.prompt(id, "hello"); said["agent_thought_chunk"] != "" {
		t.Errorf("the second prompt says %q", said)
	}
	all := f.Do("GET", "/v1/tasks", f.key, "").Body
	if strings.Count(all, `"mode":"read-only"`) != 2 {
		t.Errorf("the tasks are %s", all)
	}
}

// The agent of the owner is offered the servers of the editor that its host can reach, as the tenant's.
func TestServersOfTheEditorAreOfferedToTheOwnersAgent(t *testing.T) {
	f := openFixture(t)
	f.agent = "pup"
	var got []string
	f.Vacants.Resources.Servers = func(_ context.Context, _ identity.ID, by outbound.URLChooser, servers []definition.Server) (offer loop.Offer, done func(), err error) {
		for _, s := range servers {
			got = append(got, fmt.Sprint(s.Name, " ", s.URL, " ", by == outbound.Tenant))
		}
		offer.Tools = append(offer.Tools, loop.Tool{Tool: substrate.Tool{Name: "look", Schema: json.RawMessage(`{"type":"object"}`)}, Run: func(context.Context, *substrate.Request, json.RawMessage) (string, error) {
			return "seen", nil
		}})
		return offer, func() {}, nil
	}
	f.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "pup", Capability: "looks", Tenant: "acme", Agent: &definition.Agent{Provider: "mock", System: "```mock\ncall: look {}\n---\ntext: {result}\n```"}})
	e := connect(t, f.config(f.key, true))
	capabilities, _ := e.ask("initialize", map[string]any{"protocolVersion": 1})["agentCapabilities"].(map[string]any)
	if servers, _ := capabilities["mcpCapabilities"].(map[string]any); servers["http"] != true {
		t.Errorf("the capabilities are %v", capabilities)
	}
	id := e.ask("session/new", map[string]any{"cwd": e.dir, "mcpServers": []any{
		map[string]any{"type": "http", "name": "my notes", "url": "https://notes.example/mcp", "headers": []any{}},
		map[string]any{"type": "http", "name": "secret", "url": "https://secret.example/mcp", "headers": []any{map[string]any{"name": "Authorization", "value": "x"}}},
	}})["sessionId"].(string)
	reason, said := e.prompt(id, "look")
	if reason != "end_turn" || said["agent_message_chunk"] != "seen" || !strings.Contains(said["agent_thought_chunk"], "not used: secret. ") {
		t.Errorf("prompt = %s, %q", reason, said)
	}
	if want := []string{"my-notes https://notes.example/mcp true"}; !slices.Equal(got, want) {
		t.Errorf("the servers are %q, want %q", got, want)
	}
}

// A stream that breaks off, and a host that is away, cost no text and repeat none.
func TestALostConnectionLosesNoText(t *testing.T) {
	f := openFixture(t)
	c := f.config(f.key, true)
	web := dispatch.NewHTTP(dispatch.HTTPOptions{})
	away := &refusing{HTTP: web}
	open := func(h agents.HTTP) *agents.Agent {
		a, err := agents.NewAgent(h, c.Agent.Card)
		f.Must(err)
		a.BearerToken = f.key
		return a
	}
	for _, after := range []int{1, 2, 3} {
		c.Agent, c.OwnedAgent = open(web), nil
		c.Sender = UnsignedSender{open(&cutting{web, after})}
		e := connect(t, c)
		id := e.open()
		if reason, said := e.prompt(id, "hello"); reason != "end_turn" || said["agent_message_chunk"] != "you said hello (5 bytes)" {
			t.Errorf("cut after %d events: %s, %q", after, reason, said)
		}
	}
	c.Agent = open(away)
	c.Sender = UnsignedSender{open(&cutting{web, 1})}
	e := connect(t, c)
	id := e.open()
	away.away = 3
	if reason, said := e.prompt(id, "hello"); reason != "end_turn" || said["agent_message_chunk"] != "you said hello (5 bytes)" {
		t.Errorf("a host that is away: %s, %q", reason, said)
	}
}

// A host that refuses a prompt is a refusal with the reason, for example without money.
func TestARefusalHasItsReason(t *testing.T) {
	f := openFixture(t)
	poor := f.Account("poor", 0)
	_, err := f.Vacants.SetPrice(t.Context(), f.fox.ID, price.Price{Flat: money.Dollar})
	f.Must(err)
	e := connect(t, f.config(f.Key(poor, billing.KeyOptions{}), false))
	if reason, said := e.prompt(e.open(), "hello"); reason != "refusal" || said["agent_message_chunk"] == "" {
		t.Errorf("prompt = %s, %q", reason, said)
	}
}

// tools describes the updates of tool calls.
func (e *editor) tools() (all []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.updates {
		if u := m.Params.Update; u["toolCallId"] != nil {
			all = append(all, fmt.Sprint(u["sessionUpdate"], " ", u["toolCallId"], " ", u["title"], " ", u["status"]))
		}
	}
	return all
}

func TestThoughtsAndToolCalls(t *testing.T) {
	f := openFixture(t)
	e := connect(t, f.config(f.key, true))
	if reason, said := e.prompt(e.open(), "think"); reason != "end_turn" || said["agent_thought_chunk"] != "hm" || said["agent_message_chunk"] != "so be it" {
		t.Errorf("prompt = %s, %q", reason, said)
	}
	want := []string{"tool_call a.1 Grep pending", "tool_call_update a.1 Grep completed"}
	if diff := cmp.Diff(want, e.tools()); diff != "" {
		t.Errorf("tool calls (-want +got):\n%s", diff)
	}
}

// A model may use the id of a call again, and end a call that it did not begin.
func TestEachToolCallHasItsID(t *testing.T) {
	tu := &turn{toolCallIDs: map[string]acp.ToolCallId{}}
	var got []string
	for _, c := range []call.ToolStep{
		{ID: "a", Name: "Grep"}, {ID: "a", Name: "Grep", Outcome: call.ToolOK}, {ID: "a", Name: "Read"}, {ID: "a", Name: "Read", Outcome: call.ToolRefused}, {ID: "c", Name: "LS", Outcome: call.ToolTimedOut},
	} {
		u := tu.stepUpdate(&task.TraceEntry{Tool: &c})
		tu.sentStepCount++
		if s := u.ToolCall; s != nil {
			got = append(got, fmt.Sprint(s.ToolCallId, " ", s.Title, " ", s.Status))
		} else {
			got = append(got, fmt.Sprint(u.ToolCallUpdate.ToolCallId, " ", *u.ToolCallUpdate.Title, " ", *u.ToolCallUpdate.Status))
		}
	}
	want := []string{"a.0 Grep pending", "a.0 Grep completed", "a.2 Read pending", "a.2 Read failed", "c LS failed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tool calls (-want +got):\n%s", diff)
	}
}

func TestHistoryIsLimited(t *testing.T) {
	all := ""
	for range 100 {
		all = appendHistory(all, transcriptEntry{task.User, strings.Repeat("é", 1000)})
		all = appendHistory(all, transcriptEntry{task.Agent, "short"})
	}
	if len(all) > maxHistoryBytes || !strings.HasSuffix(all, "\n\nAgent: short\n\n") || !strings.HasPrefix(all, "User: ") && !strings.HasPrefix(all, "Agent: ") {
		t.Errorf("the history has %d bytes and begins with %.20q", len(all), all)
	}
	if one := appendHistory(all, transcriptEntry{task.Agent, strings.Repeat("é", maxHistoryBytes)}); len(one) > maxHistoryBytes || !strings.Contains(one, "éé") {
		t.Errorf("the history of a long answer has %d bytes", len(one))
	}
	for _, text := range []string{"x", "", historyBegin + "without an end", historyEnd} {
		if before, got := splitHistory(prependHistory(all, text)); before != all || got != text {
			t.Errorf("uncarry(carry(_, %q)) = %d bytes, %q", text, len(before), got)
		}
		if before, got := splitHistory(text); before != "" || got != text {
			t.Errorf("uncarry(%q) = %q, %q", text, before, got)
		}
	}
}

func TestAMessageOfMoreThan10MiBEndsTheProgram(t *testing.T) {
	f := openFixture(t)
	e := connect(t, f.config("", false))
	line := append([]byte(strings.Repeat("x", 10<<20)), '\n')
	go func() { _, _ = e.in.Write(line) }()
	select {
	case err := <-e.served:
		if !problem.Is(err, problem.TooLarge) {
			t.Errorf("Serve() = %v", err)
		}
		e.served <- errors.New("read")
	case <-time.After(20 * time.Second):
		t.Fatal("the bridge still runs")
	}
}
