package mock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func play(ctx context.Context, t testing.TB, system string, turns ...substrate.Turn) (all []substrate.Event, err error) {
	t.Helper()
	s, err := mock.Kinds().Open(substrate.Spec{Kind: substrate.KindMock, Argument: "any"})
	if err != nil {
		t.Fatal(err)
	}
	r := substrate.NewTextRequest(identity.ID{1}, identity.ID{2}, `say "hi"`)
	r.System, r.Turns = system, append(r.Turns, turns...)
	for e, err := range s.Infer(ctx, r) {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

const script = "You are a trial.\n\n```mock\nthought: hm\ntext: \"one\\n\"\ncall: look {\"for\": \"{input}\"}\nusage: 10 5 2\n---\ntext: got {result} for {input}\n```\nMore."

func TestAScriptIsPlayedTurnByTurn(t *testing.T) {
	called := substrate.Turn{Role: substrate.RoleAgent, Calls: []substrate.ToolCall{{ID: "call_1"}}}
	given := substrate.Turn{Role: substrate.RoleTools, Results: []substrate.ToolResult{{Text: "a"}, {Text: "b"}}}
	for _, tt := range []struct {
		what, system string
		turns        []substrate.Turn
		want         []substrate.Event
	}{
		{"no script", "You are kind.", nil, []substrate.Event{substrate.Text(`say "hi"`), substrate.FinishStop}},
		{"the first turn", script, nil, []substrate.Event{substrate.Thought("hm"), substrate.Text("one\n"),
			substrate.ToolCall{ID: "call_1", Name: "look", Arguments: `{"for": "say \"hi\""}`}, substrate.Usage{InputTokens: 10, OutputTokens: 5, CachedTokens: 2}, substrate.FinishToolUse}},
		{"the second turn", script, []substrate.Turn{called, given}, []substrate.Event{substrate.Text(`got ab for say "hi"`), substrate.FinishStop}},
		{"one more", script, []substrate.Turn{called, given, called, given}, []substrate.Event{substrate.Text(`got ab for say "hi"`), substrate.FinishStop}},
		{"another question", script, []substrate.Turn{called, given, {Role: substrate.RoleAgent, Text: "x"}, {Role: substrate.RoleCaller, Text: "y"}}, []substrate.Event{substrate.Thought("hm"), substrate.Text("one\n"),
			substrate.ToolCall{ID: "call_1", Name: "look", Arguments: `{"for": "y"}`}, substrate.Usage{InputTokens: 10, OutputTokens: 5, CachedTokens: 2}, substrate.FinishToolUse}},
		{"nothing said", "```mock\ntext:\n```", nil, []substrate.Event{substrate.FinishStop}},
	} {
		got, err := play(t.Context(), t, tt.system, tt.turns...)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.what, err, diff)
		}
	}
}

func TestFaultsOfAScript(t *testing.T) {
	for line, want := range map[string]problem.Kind{
		"fail: busy": problem.SubstrateBusy, "fail: unavailable": problem.SubstrateUnavailable, "fail: refused": problem.SubstrateRefused,
		"fail: misconfigured": problem.SubstrateMisconfigured,
		"fail: else":          problem.SubstrateMisconfigured, "sing: la": problem.SubstrateMisconfigured, "usage: many": problem.SubstrateMisconfigured,
		"usage: 1 2 3 4": problem.SubstrateMisconfigured, "wait: long": problem.SubstrateMisconfigured, "nothing": problem.SubstrateMisconfigured,
	} {
		_, err := play(t.Context(), t, "```mock\ntext: before\n"+line+"\n```")
		if !problem.Is(err, want) || want == problem.SubstrateMisconfigured && line != "fail: misconfigured" && !strings.Contains(problem.AsError(err).Text(), line) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := play(ctx, t, "```mock\nwait: 1h\n```"); !problem.Is(err, problem.DeadlineExceeded) {
		t.Errorf("a script that waits: %v, want Deadline", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, stop)
	if _, err := play(ctx, t, "```mock\nwait: 1h\n```"); !problem.Is(err, problem.Canceled) {
		t.Errorf("a script whose caller is gone: %v, want Canceled", err)
	}
}

// Whatever the script, it ends with one event or one error.
func FuzzScript(f *testing.F) {
	f.Add(script)
	f.Add("```mock\n---\n```")
	f.Fuzz(func(t *testing.T, system string) {
		if strings.Contains(system, "wait:") {
			return
		}
		all, err := play(t.Context(), t, system)
		if err == nil {
			if _, ok := all[len(all)-1].(substrate.FinishReason); !ok {
				t.Errorf("the last event is %v", all[len(all)-1])
			}
		} else if !problem.Is(err, problem.AsError(err).Kind) || !problem.AsError(err).Kind.IsFailure() {
			t.Errorf("%v is no failure of an agent", err)
		}
	})
}
