package answer_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// toolServers offer tools that answer, fail, write, and need time.
func toolServers(_ context.Context, _ identity.ID, _ outbound.URLChooser, _ []definition.Server) (offer loop.Offer, done func(), err error) {
	add := func(name string, writes bool, run func() (string, error)) {
		offer.Tools = append(offer.Tools, loop.Tool{Tool: substrate.Tool{Name: name, Schema: json.RawMessage(`{"type":"object"}`)}, Writes: writes,
			Run: func(context.Context, *substrate.Request, json.RawMessage) (string, error) { return run() }})
	}
	add("look", false, func() (string, error) { return "seen, token=s3cretvalue\n" + strings.Repeat("é ", 100<<10), nil })
	add("fail", false, func() (string, error) { return "", errors.New("broken") })
	add("write", true, func() (string, error) { return "written", nil })
	add("late", false, func() (string, error) { return "", problem.New(problem.DeadlineExceeded, "too late") })
	add("look", false, func() (string, error) { return "another", nil })
	offer.OmittedTools.Add(call.OmittedTool{Name: "bad", Reason: "models refuse its schema", Remedy: "the schema"})
	return offer, func() {}, nil
}

// using is a host whose demo vacant uses tools by a script.
func using(t *testing.T, script, toolLog string) *hosttest.Caller {
	h := hosttest.New(t, memory.New())
	h.Vacants.Resources.Servers = toolServers
	a := &definition.Agent{Provider: "mock", ToolLog: definition.ToolLog(toolLog), MCPServers: []definition.Server{{Name: "s", URL: "https://s.example/mcp"}},
		System: "```mock\n" + script + "\n```"}
	_, err := h.Vacants.Update(h.Ctx, h.Demo.ID, vacants.Changes{Asker: vacants.OperatorAsker(), Agent: a})
	h.Must(err)
	return h.Caller()
}

const everyTool = "call: look {\"for\":\"api_key: abcdefgh\"}\ncall: fail {}\ncall: write {}\ncall: late {}\ncall: no\x1bne {}\n---\ntext: done"

func TestTheLogOfACallHasItsToolsAndWhatIsLeftOut(t *testing.T) {
	out := using(t, everyTool, "").Call("hi")
	want := []call.ToolUse{{Name: "look", Outcome: call.ToolOK}, {Name: "fail", Outcome: call.ToolError}, {Name: "write", Outcome: call.ToolRefused},
		{Name: "late", Outcome: call.ToolTimedOut}, {Name: "no_ne", Outcome: call.ToolError}}
	sorted := map[string]call.ToolUse{}
	for _, use := range out.AgentLog.Tools { // they run at once
		sorted[use.Name] = use
	}
	for _, use := range want {
		if sorted[use.Name] != use {
			t.Errorf("%s: logged as %+v, want %+v", use.Name, sorted[use.Name], use)
		}
	}
	var left []string
	for _, one := range out.AgentLog.OmittedTools.Tools {
		left = append(left, one.Name+": "+one.Remedy)
	}
	if diff := cmp.Diff([]string{"bad: the schema", "write: mode=read-write", "look: a different name for one of the two tools"}, left); diff != "" || len(out.AgentLog.Tools) != len(want) {
		t.Errorf("%d tools are logged; left out (-want +got):\n%s", len(out.AgentLog.Tools), diff)
	}
	if s := slogged(out.AgentLog); strings.Contains(s, "seen") || strings.Contains(s, "abcdefgh") {
		t.Errorf("the log has texts: %s", s)
	}
}

func TestUsageNamesTheVersionOfTheAgentThatAnswered(t *testing.T) {
	c := using(t, "text: one", "")
	check := func(version uint64) {
		t.Helper()
		if out := c.Call("hi"); out.Usage == nil || out.Usage.AgentVersion != version {
			t.Errorf("version %d answered, and the usage is %+v", version, out.Usage)
		}
	}
	check(1)
	a := &definition.Agent{Provider: "mock", System: "```mock\ntext: two\n```"}
	_, err := c.Vacants.Update(c.Ctx, c.Demo.ID, vacants.Changes{Asker: vacants.OperatorAsker(), Agent: a})
	c.Must(err)
	check(2)
}

func slogged(l *call.AgentLog) (s string) {
	for _, a := range l.Attrs() {
		b, _ := json.Marshal(a.Value.Any())
		s += a.Key + string(b)
	}
	return s
}

// A script of more tools than are logged: the rest is counted.
func TestTheLogOfACallIsBounded(t *testing.T) {
	out := using(t, strings.Repeat("call: fail {}\n", 100)+"---\ntext: done", "texts").Call("hi")
	if l := out.AgentLog; len(l.Tools) != call.MaxToolUses || l.MoreTools != 100-call.MaxToolUses {
		t.Errorf("%d tools and %d more, want %d and %d", len(l.Tools), l.MoreTools, call.MaxToolUses, 100-call.MaxToolUses)
	}
}

func texts(t *testing.T, c *hosttest.Caller) (all []call.ToolCallRecord, destroyed int) {
	t.Helper()
	all, destroyed, err := c.Host.ReadToolCalls(c.Ctx, c.Pair(), 20)
	c.Must(err)
	return all, destroyed
}

func TestTextsOfToolsAreKeptWithTheTextsOfTheCall(t *testing.T) {
	for mode, kept := range map[string]bool{"": false, "names": false, "texts": true} {
		c := using(t, everyTool, mode)
		c.Call("hi")
		all, _ := texts(t, c)
		if !kept {
			if len(all) != 0 {
				t.Errorf("tool_log %q: kept %+v", mode, all)
			}
			continue
		}
		if len(all) != 1 || !all[0].IsAnswered || all[0].Position != 1 || len(all[0].Tools) != 5 {
			t.Fatalf("kept %+v", all)
		}
		size := 0
		for _, one := range all[0].Tools {
			size += len(one.Arguments) + len(one.Result)
			switch one.Name {
			case "look":
				if one.Arguments != `{"for":"api_key: [redacted]"}` || !strings.HasPrefix(one.Result, "seen, token=[redacted]\né ") || !one.IsTruncated || one.Outcome != call.ToolOK {
					t.Errorf("look: %q, %.60q, cut %v", one.Arguments, one.Result, one.IsTruncated)
				}
			case "write":
				if one.Outcome != call.ToolRefused || !strings.Contains(one.Result, "denied") && !one.IsTruncated {
					t.Errorf("write: %+v", one)
				}
			}
		}
		if size > call.MaxToolTextBytes || size < call.MaxToolTextBytes-10 {
			t.Errorf("%d bytes of texts are kept, want %d", size, call.MaxToolTextBytes)
		}
		// They go with the key of the day.
		c.Time = c.Time.Add(72 * time.Hour)
		c.Must(c.Texts.Warm(c.Ctx))
		if n, err := c.Texts.Sweep(c.Ctx); n != 1 || err != nil {
			t.Fatalf("Sweep() = %d, %v", n, err)
		}
		c.Texts.ClearCache()
		if all, destroyed := texts(t, c); len(all) != 0 || destroyed != 1 {
			t.Errorf("after the key is destroyed: %d calls, %d destroyed", len(all), destroyed)
		}
	}
}

func TestACallThatFailsKeepsTheTextsOfItsTools(t *testing.T) {
	c := using(t, "call: fail {\"a\":1}\n---\nfail: busy", "texts")
	out := c.Host.Send(c.Ctx, identity.ID{}, c.Sign("hi"))
	if out.Cause == nil {
		t.Fatalf("the call = %v, want it void", out.Problem)
	}
	all, _ := texts(t, c)
	if len(all) != 1 || all[0].IsAnswered || len(all[0].Tools) != 1 || all[0].Tools[0].Arguments != `{"a":1}` {
		t.Errorf("kept %+v", all)
	}
}

// The tools that are asked for before a call are the tools of the call.
func TestAnOfferIsKnownBeforeACall(t *testing.T) {
	c := using(t, "text: hi", "")
	offer, err := answering(c.Vacants).Offer(c.Ctx, c.Demo.ID)
	out := c.Call("hi")
	if diff := cmp.Diff(out.AgentLog.OmittedTools, offer.OmittedTools); diff != "" || err != nil || len(offer.Tools) != 3 {
		t.Errorf("Offer() = %d tools, %v; left out (-call +offer):\n%s", len(offer.Tools), err, diff)
	}
}
