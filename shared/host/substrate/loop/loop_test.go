package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// model plays one turn after the other, and keeps what it was asked.
type model struct {
	turns [][]any // events, and an error at the end of some

	mu    sync.Mutex
	asked []substrate.Request
}

func (m *model) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	m.mu.Lock()
	n := len(m.asked)
	m.asked = append(m.asked, r)
	m.mu.Unlock()
	return func(yield func(substrate.Event, error) bool) {
		for _, e := range m.turns[min(n, len(m.turns)-1)] {
			if err, ok := e.(error); ok {
				yield(nil, err)
				return
			}
			if ctx.Err() != nil {
				yield(nil, problem.Wrap(problem.DeadlineExceeded, ctx.Err(), "late"))
				return
			}
			if !yield(e.(substrate.Event), nil) {
				return
			}
		}
	}
}

func says(text string) []any { return []any{substrate.Text(text), substrate.FinishStop} }

// uses is a turn that calls tools, named NAME or NAME ARGUMENTS.
func uses(calls ...string) []any {
	var all []any
	for i, c := range calls {
		name, arguments, _ := strings.Cut(c, " ")
		all = append(all, substrate.ToolCall{ID: fmt.Sprint("c", i+1), Name: name, Arguments: arguments})
	}
	return append(all, substrate.FinishToolUse)
}

func question() substrate.Request {
	return substrate.NewTextRequest(identity.ID{1}, identity.ID{2}, "question")
}

func agent(t testing.TB, members string) definition.Agent {
	t.Helper()
	a, err := definition.Parse([]byte(`{"model":"m"` + members + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// tool is a tool that answers by f.
func tool(name string, f func(ctx context.Context, arguments string) (string, error)) loop.Tool {
	return loop.Tool{Tool: substrate.Tool{Name: name, Schema: json.RawMessage(`{"type":"object"}`)},
		Run: func(ctx context.Context, _ *substrate.Request, arguments json.RawMessage) (string, error) {
			return f(ctx, string(arguments))
		}}
}

func echo(_ context.Context, arguments string) (string, error) { return "got " + arguments, nil }

// never fails the test if it is called.
func never(t testing.TB) func(context.Context, string) (string, error) {
	return func(_ context.Context, arguments string) (string, error) {
		t.Errorf("the tool ran with %s", arguments)
		return "", nil
	}
}

func TestToolsRunBetweenTurns(t *testing.T) {
	m := &model{turns: [][]any{
		append([]any{substrate.Text("Let me see."), substrate.Usage{InputTokens: 10, OutputTokens: 2}}, uses(`look {"for":"a"}`, `look {"for":"b"}`, `fail`)...),
		{substrate.Thought("hm"), substrate.Text("It is "), substrate.Text("b."), substrate.Usage{InputTokens: 30, OutputTokens: 3, CachedTokens: 10}, substrate.FinishStop},
	}}
	slow := func(ctx context.Context, arguments string) (string, error) {
		if strings.Contains(arguments, `"a"`) {
			time.Sleep(20 * time.Millisecond) // results keep the order of the calls
		}
		return echo(ctx, arguments)
	}
	s := loop.New(loop.Config{Agent: agent(t, `,"system":"You look","max_tokens":7,"effort":"low","omit":["stream_options"]`), Model: m, Offer: loop.Offer{Tools: []loop.Tool{
		tool("look", slow),
		tool("fail", func(context.Context, string) (string, error) {
			return "", problem.New(problem.NotFound, "no such thing")
		}),
	}}})
	got, err := substrate.ReadAnswer(s.Infer(t.Context(), question()))
	if err != nil {
		t.Fatal(err)
	}
	want := substrate.Answer{Text: "Let me see.\n\nIt is b.", Usage: &substrate.Usage{InputTokens: 40, OutputTokens: 5, CachedTokens: 10, Turns: 2, ToolCalls: 3}, Reason: substrate.FinishStop}
	got.Calls = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	first, second := m.asked[0], m.asked[1]
	if first.System != "You look" || first.MaxTokens != 7 || first.Effort != substrate.Low || len(first.Tools) != 2 || first.MustAnswer || !first.Omits("stream_options") {
		t.Errorf("the model is asked %+v, want what its agent says", first)
	}
	results := second.Turns[len(second.Turns)-1].Results
	wanted := []substrate.ToolResult{{ID: "c1", Text: `got {"for":"a"}`}, {ID: "c2", Text: `got {"for":"b"}`}, {ID: "c3", Text: "no such thing", Failed: true}}
	if diff := cmp.Diff(wanted, results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if turn := second.Turns[len(second.Turns)-2]; turn.Role != substrate.RoleAgent || turn.Text != "Let me see." || len(turn.Calls) != 3 {
		t.Errorf("the model is told that it said %+v", turn)
	}
	if len(first.Turns) != 1 {
		t.Errorf("the first turn was changed: %+v", first.Turns)
	}
}

// Whatever a model calls, it is told and goes on.
func TestOnlyTheModelReceivesTheSecret(t *testing.T) {
	m := &model{turns: [][]any{uses("look"), says("seen")}}
	look := tool("look", nil)
	look.Run = func(_ context.Context, r *substrate.Request, _ json.RawMessage) (string, error) {
		if !r.Secret.IsZero() {
			t.Error("the tool received the secret")
		}
		return "it", nil
	}
	c := loop.Config{Agent: agent(t, ``), Model: m, Offer: loop.Offer{Tools: []loop.Tool{look}}, Secret: substrate.NewSecret("s3cret")}
	if _, err := substrate.ReadAnswer(loop.New(c).Infer(t.Context(), question())); err != nil {
		t.Fatal(err)
	}
	for i, r := range m.asked {
		if r.Secret.Reveal() != "s3cret" {
			t.Errorf("turn %d: the model received no secret", i+1)
		}
	}
}

func TestACallThatMayNotRunIsTold(t *testing.T) {
	for _, tt := range []struct{ agent, call, want string }{
		{``, `nothing`, `there is no tool "nothing"`},
		{``, `free [1]`, `arguments: expected a JSON object, got "[1]"`},
		{``, `free {"a`, `arguments: expected a JSON object`},
		{``, `free null`, `arguments: expected a JSON object`},
		{``, `write {}`, `denied in mode read-only: it may change something`},
		{`,"disallowed_tools":["free"]`, `free {}`, `its agent disallows it`},
		{`,"allowed_tools":["free"],"disallowed_tools":["free"]`, `free {}`, `its agent disallows it`},
		{`,"allowed_tools":["other"]`, `free {}`, `its agent allows other`},
		{`,"mode":"read-write","disallowed_tools":["write"]`, `write {}`, `its agent disallows it`},
		{`,"mode":"read-write","disallowed_tools":["Bash"]`, `Bash {"command":"ls"}`, `its agent disallows it`},
	} {
		m := &model{turns: [][]any{uses(tt.call), says("then no")}}
		write := tool("write", never(t))
		write.Writes = true
		s := loop.New(loop.Config{Agent: agent(t, tt.agent), Model: m, Offer: loop.Offer{Tools: []loop.Tool{tool("free", never(t)), write}}})
		got, err := substrate.ReadAnswer(s.Infer(t.Context(), question()))
		if err != nil || got.Text != "then no" {
			t.Errorf("%s %s: %q, %v; want the run to go on", tt.agent, tt.call, got.Text, err)
			continue
		}
		r := m.asked[1].Turns[2].Results[0]
		if !r.Failed || !strings.Contains(r.Text, tt.want) {
			t.Errorf("%s %s: the model is told %+v, want %q", tt.agent, tt.call, r, tt.want)
		}
	}
}

// The answers of a read-only agent's gate for the tools that agents' files
// know, even tools that the host lacks.
func TestTheGateOfFilesAndShell(t *testing.T) {
	denied := func(agent, call string) string {
		m := &model{turns: [][]any{uses(call), says("done")}}
		if _, err := substrate.ReadAnswer(loop.New(loop.Config{Agent: definition.Agent{Model: "m", Mode: definition.Mode(agent)}, Model: m}).Infer(t.Context(), question())); err != nil {
			t.Fatal(err)
		}
		if text := m.asked[1].Turns[2].Results[0].Text; strings.Contains(text, "denied") {
			return text
		}
		return ""
	}
	for _, tool := range []string{"Write", "Edit", "MultiEdit"} {
		for path, allowed := range map[string]bool{
			".vault": true, ".vault/a.md": true, "/.vault/a/b": true, "./.vault/x": true, ".vault//x": true,
			"": false, "a.md": false, ".vault-evil/x": false, ".vault/../x": false, "..": false, "../.vault/x": false,
			"src/.vault/x": false, ".VAULT/x": false, `.vault\..\x`: false, ".vault/x\x00": false,
		} {
			arguments, _ := json.Marshal(map[string]string{"file_path": path})
			got := denied("read-only", tool+" "+string(arguments))
			if (got == "") != allowed || got != "" && !strings.Contains(got, ".vault/") {
				t.Errorf("%s of %q: %q, want allowed: %v", tool, path, got, allowed)
			}
			if got := denied("read-write", tool+" "+string(arguments)); got != "" {
				t.Errorf("%s of %q in read-write: %q", tool, path, got)
			}
		}
	}
	for call, want := range map[string]string{
		`NotebookEdit {"notebook_path":".vault/n"}`: "", `NotebookEdit {"notebook_path":"n"}`: ".vault/", `NotebookEdit {"file_path":".vault/n"}`: ".vault/",
		`Write {"file_path":7}`: ".vault/", `Write not json`: ".vault/", `Bash {"command":"ls"}`: "Read, Glob or Grep", `Read {"file_path":"/etc/passwd"}`: "", `Glob {}`: "",
	} {
		if got := denied("", call); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", call, got, want)
		}
		if got := denied("read-write", call); got != "" {
			t.Errorf("%s in read-write: %q", call, got)
		}
	}
}

func TestToolsThatAreDeniedAreNotOffered(t *testing.T) {
	m := &model{turns: [][]any{says("done")}}
	write := tool("write", never(t))
	write.Writes = true
	file := tool("Write", never(t)) // which may write to the vault
	file.Writes = true
	tools := []loop.Tool{tool("a", never(t)), tool("b", never(t)), write, file}
	for members, want := range map[string]string{
		``: "a b Write", `,"allowed_tools":["b"]`: "b", `,"disallowed_tools":["b"]`: "a Write", `,"mode":"read-write"`: "a b write Write",
	} {
		m.asked = nil
		if _, err := substrate.ReadAnswer(loop.New(loop.Config{Agent: agent(t, members), Model: m, Offer: loop.Offer{Tools: tools}}).Infer(t.Context(), question())); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, offered := range m.asked[0].Tools {
			names = append(names, offered.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: offered %q, want %q", members, got, want)
		}
	}
}

func TestTheLoopEndsAfterItsTurns(t *testing.T) {
	m := &model{turns: [][]any{uses("look {}")}}
	ran := 0
	s := loop.New(loop.Config{Agent: agent(t, `,"max_turns":3`), Model: m, Offer: loop.Offer{Tools: []loop.Tool{tool("look", func(context.Context, string) (string, error) { ran++; return "", nil })}}})
	_, err := substrate.ReadAnswer(s.Infer(t.Context(), question()))
	if !problem.Is(err, problem.SubstrateMisconfigured) || !strings.Contains(problem.AsError(err).Text(), "max_turns") || len(m.asked) != 3 || ran != 2 || !m.asked[2].MustAnswer {
		t.Errorf("Fold() = %v after %d turns and %d tools; want it ended at the third turn", err, len(m.asked), ran)
	}
	m = &model{turns: [][]any{uses("look {}"), uses("look {}"), says("so be it")}}
	if got, err := substrate.ReadAnswer(loop.New(loop.Config{Agent: agent(t, `,"max_turns":3`), Model: m}).Infer(t.Context(), question())); err != nil || got.Text != "so be it" {
		t.Errorf("Fold() = %q, %v; want the answer of the last turn", got.Text, err)
	}
}

func busy(after time.Duration) error {
	return &call.AgentError{Status: 429, RetryAfter: after, Err: problem.New(problem.SubstrateBusy, "busy")}
}

func TestATurnIsAskedAgainOnceIfNothingOfItWasSeen(t *testing.T) {
	out := &call.AgentError{Status: 503, Err: problem.New(problem.SubstrateUnavailable, "out of order")}
	for _, tt := range []struct {
		what     string
		turns    [][]any
		fallback [][]any
		once     bool
		want     string
		asked    int
		waits    time.Duration
	}{
		{"busy, then there", [][]any{{busy(0)}, says("a")}, nil, false, "a", 2, 0},
		{"busy for 3 s", [][]any{{busy(3 * time.Second)}, says("a")}, nil, false, "a", 2, 3 * time.Second},
		{"busy for long", [][]any{{busy(6 * time.Second)}, says("a")}, nil, false, "!substrate_busy", 1, 0},
		{"busy twice", [][]any{{busy(0)}, {busy(0)}, says("a")}, nil, false, "!substrate_busy", 2, 0},
		{"out of order", [][]any{{out}, says("a")}, nil, false, "a", 2, 0},
		{"out of order after an event", [][]any{{substrate.Thought("hm"), out}, says("a")}, nil, false, "!substrate_unavailable", 1, 0},
		{"not reached", [][]any{{problem.New(problem.SubstrateUnavailable, "no answer")}, says("a")}, [][]any{says("b")}, false, "!substrate_unavailable", 1, 0},
		{"refused", [][]any{{problem.New(problem.SubstrateRefused, "no")}, says("a")}, [][]any{says("b")}, false, "!substrate_refused", 1, 0},
		{"misconfigured", [][]any{{problem.New(problem.SubstrateMisconfigured, "no")}, says("a")}, [][]any{says("b")}, false, "!substrate_misconfigured", 1, 0},
		{"a fallback", [][]any{{busy(time.Minute)}, says("a")}, [][]any{says("b")}, false, "b", 1, 0},
		{"a fallback that is busy too", [][]any{{out}, says("a")}, [][]any{{busy(0)}, says("b")}, false, "!substrate_busy", 1, 0},
		{"a later turn", [][]any{uses("x"), {out}, says("a")}, nil, false, "a", 3, 0},
		{"what may do more than answer", [][]any{{out}, says("a")}, nil, true, "!substrate_unavailable", 1, 0},
	} {
		t.Run(tt.what, func(t *testing.T) {
			var waited time.Duration
			m := &model{turns: tt.turns}
			c := loop.Config{Agent: agent(t, ``), Model: m, NoRetry: tt.once, Wait: func(_ context.Context, d time.Duration) error { waited += d; return nil }}
			if tt.fallback != nil {
				c.Fallback = &model{turns: tt.fallback}
			}
			a, err := substrate.ReadAnswer(loop.New(c).Infer(t.Context(), question()))
			got := a.Text
			if err != nil {
				got = "!" + problem.AsError(err).Kind.String()
			}
			if got != tt.want || len(m.asked) != tt.asked || waited != tt.waits {
				t.Errorf("%q, asked %d times, waited %v; want %q, %d, %v", got, len(m.asked), waited, tt.want, tt.asked, tt.waits)
			}
		})
	}
}

func TestAnAnswerInJSONIsCheckedAndRepairedOnce(t *testing.T) {
	for _, tt := range []struct {
		what  string
		turns [][]any
		want  string
	}{
		{"a document", [][]any{{substrate.Text(`{"a"`), substrate.Text(`:1}`), substrate.FinishStop}}, `{"a":1}`},
		{"repaired", [][]any{says("It is:\n```json\n{}\n```"), says(`{}`)}, `{}`},
		{"a fence", [][]any{says("```json\n{\"a\":\"```\"}\n```\n"), says("asked again")}, "{\"a\":\"```\"}"},
		{"a fence without a language", [][]any{says("```\n[1]\n```"), says("asked again")}, `[1]`},
		{"thoughts and a fence", [][]any{says("<think>\nIs it ```7```?\n</think>\n\n```JSON\r\n7\r\n```"), says("asked again")}, `7`},
		{"a mark", [][]any{says("\uFEFF{}"), says("asked again")}, `{}`},
		{"a mark within a fence", [][]any{says("\uFEFF```\n\uFEFF{}\n```"), says("asked again")}, `{}`},
		{"a text that looks like thoughts", [][]any{says(`"<think>a</think>"`), says("asked again")}, `"<think>a</think>"`},
		{"open thoughts", [][]any{says("<think>{}"), says(`[]`)}, `[]`},
		{"thoughts alone", [][]any{says("<think>{}</think>"), says(`[]`)}, `[]`},
		{"an open fence", [][]any{says("```json\n{}"), says(`[]`)}, `[]`},
		{"two fences", [][]any{says("```json\n{}\n```\n```json\n{}\n```"), says(`[]`)}, `[]`},
		{"words after the fence", [][]any{says("```json\n{}\n```\nThat is it."), says(`[]`)}, `[]`},
		{"two documents", [][]any{says("{} {}"), says(`[]`)}, `[]`},
		{"wrong twice", [][]any{says("no"), says("never")}, "!substrate_misconfigured"},
		{"after a tool", [][]any{append([]any{substrate.Text("hold on")}, uses("x")...), says(`[]`)}, `[]`},
	} {
		m := &model{turns: tt.turns}
		var texts []string
		a, err := substrate.ReadAnswer(func(yield func(substrate.Event, error) bool) {
			for e, err := range loop.New(loop.Config{Agent: agent(t, `,"output_format":"json"`), Model: m}).Infer(t.Context(), question()) {
				if text, ok := e.(substrate.Text); ok {
					texts = append(texts, string(text))
				}
				if !yield(e, err) {
					return
				}
			}
		})
		got := a.Text
		if err != nil {
			got = "!" + problem.AsError(err).Kind.String()
		}
		if got != tt.want || len(texts) > 1 || !m.asked[0].JSON {
			t.Errorf("%s: %q in %d pieces, want %q in one, checked before it is told", tt.what, got, len(texts), tt.want)
		}
	}
}

// What the model wrote in place of a document is for the operator, without the agent's secret.
func TestAnAnswerThatIsNotJSONIsLogged(t *testing.T) {
	const secret = "key-of-a-test"
	m := &model{turns: [][]any{says("no"), says("The key is " + secret + ". " + strings.Repeat("x ", 1<<10))}}
	_, err := substrate.ReadAnswer(loop.New(loop.Config{Agent: agent(t, `,"output_format":"json"`), Model: m, Secret: substrate.NewSecret(secret)}).Infer(t.Context(), question()))
	cause := call.NewCause(err, 0)
	if !strings.Contains(cause.Body, "The key is [secret]. x") || len(cause.Body) > substrate.MaxExcerptBytes || !strings.HasSuffix(cause.Text, "because the agent's output_format is json, got another text") {
		t.Errorf("the log shows %s, want the prefix of the answer without the secret", cause)
	}
}

func TestEightToolsRunAtOnceAndNoneEndsTheHost(t *testing.T) {
	var now, most atomic.Int32
	m := &model{turns: [][]any{uses(strings.Split(strings.TrimSpace(strings.Repeat("slow {},", 20)+"panic {}"), ",")...), says("done")}}
	s := loop.New(loop.Config{Agent: agent(t, ``), Model: m, Offer: loop.Offer{Tools: []loop.Tool{
		tool("slow", func(context.Context, string) (string, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for before := most.Load(); n > before && !most.CompareAndSwap(before, n); before = most.Load() {
			}
			time.Sleep(5 * time.Millisecond)
			return strings.Repeat("ü", 40<<10), nil
		}),
		tool("panic", func(context.Context, string) (string, error) { panic("secret of the host") }),
	}}})
	if got, err := substrate.ReadAnswer(s.Infer(t.Context(), question())); err != nil || got.Text != "done" {
		t.Fatalf("Fold() = %q, %v", got.Text, err)
	}
	if most.Load() != 8 {
		t.Errorf("%d tools at once, want 8", most.Load())
	}
	results := m.asked[1].Turns[2].Results
	if text := results[0].Text; len(text) > 64<<10 || !strings.HasSuffix(text, "[truncated: the result is longer than 64 KiB]") || strings.ContainsRune(text, '\uFFFD') {
		t.Errorf("a long result is %d bytes and ends with %q", len(text), text[len(text)-40:])
	}
	if last := results[20]; !last.Failed || last.Text != "the tool failed" {
		t.Errorf("the model is told of a panic: %+v", last)
	}
}

func TestAConversationHasAnEnd(t *testing.T) {
	m := &model{turns: [][]any{uses(strings.Split(strings.Repeat("much {},", 20)+"much {}", ",")...)}}
	much := tool("much", func(context.Context, string) (string, error) { return strings.Repeat("x", 64<<10), nil })
	s := loop.New(loop.Config{Agent: agent(t, `,"max_turns":64`), Model: m, Offer: loop.Offer{Tools: []loop.Tool{much}}})
	if _, err := substrate.ReadAnswer(s.Infer(t.Context(), question())); !problem.Is(err, problem.SubstrateTooLarge) || len(m.asked) > 5 {
		t.Errorf("Fold() = %v after %d turns, want it too large", err, len(m.asked))
	}
}

func TestTimeEndsToolsAndModel(t *testing.T) {
	m := &model{turns: [][]any{uses("wait {}"), says("late")}}
	wait := tool("wait", func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() })
	s := loop.New(loop.Config{Agent: agent(t, `,"timeout":1`), Model: m, Offer: loop.Offer{Tools: []loop.Tool{wait}}})
	if _, err := substrate.ReadAnswer(s.Infer(t.Context(), question())); !problem.Is(err, problem.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "no answer within 1s, the timeout of its agent") {
		t.Errorf("Fold() = %v, want the timeout of the agent", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	m.asked = nil
	if _, err := substrate.ReadAnswer(loop.New(loop.Config{Agent: agent(t, ``), Model: m, Offer: loop.Offer{Tools: []loop.Tool{wait}}}).Infer(ctx, question())); !problem.Is(err, problem.DeadlineExceeded) {
		t.Errorf("Fold() = %v, want Deadline", err)
	}
}

// A consumer that reads no more ends the model's turn and starts no tool.
func TestAConsumerMayStop(t *testing.T) {
	for n := range 3 {
		m := &model{turns: [][]any{append([]any{substrate.Text("a"), substrate.Usage{InputTokens: 1}}, uses("x")...), says("b")}}
		s := loop.New(loop.Config{Agent: agent(t, ``), Model: m, Offer: loop.Offer{Tools: []loop.Tool{tool("x", never(t))}}})
		seen := 0
		for _, err := range s.Infer(t.Context(), question()) {
			if err != nil {
				t.Fatal(err)
			}
			if seen++; seen > n {
				break
			}
		}
		if len(m.asked) != min(n, 1) { // the first event says that a turn begins
			t.Errorf("after %d events the model was asked %d times", n+1, len(m.asked))
		}
	}
}

func TestToolsHaveNamesThatModelsTake(t *testing.T) {
	for in, want := range map[string]string{"vacant__clerk": "vacant__clerk", "mcp__a__b.c/d ü": "mcp__a__b_c_d__", strings.Repeat("n", 70): strings.Repeat("n", 64)} {
		if got := loop.SanitizeName(in); got != want {
			t.Errorf("Name(%q) = %q, want %q", in, got, want)
		}
	}
	m := &model{turns: [][]any{uses("a {}"), says("done")}}
	first := tool("a", func(context.Context, string) (string, error) { return "first", nil })
	if _, err := substrate.ReadAnswer(loop.New(loop.Config{Agent: agent(t, ``), Model: m, Offer: loop.Offer{Tools: []loop.Tool{first, tool("a", never(t))}}}).Infer(t.Context(), question())); err != nil {
		t.Fatal(err)
	}
	if got := m.asked[1].Turns[2].Results[0].Text; got != "first" || len(m.asked[0].Tools) != 1 {
		t.Errorf("of two tools with one name %d are offered, and %q answers", len(m.asked[0].Tools), got)
	}
}

func TestToolsWithOneNameStayApart(t *testing.T) {
	long := strings.Repeat("n", 64)
	whole := []string{long + "_read", long + "_write", "a.b", "a_b", "a/b", "c.d", long[:60] + "more", "a.b"}
	named := func(whole []string) map[string]string {
		tools := make([]loop.Tool, len(whole))
		for i, name := range whole {
			tools[i].Name = name
		}
		loop.MakeNamesUnique(tools)
		names := map[string]string{}
		for i, name := range whole {
			names[name] = tools[i].Name
		}
		return names
	}
	names := named(whole)
	seen := map[string]string{}
	for name, got := range names {
		if other, twice := seen[got]; twice || len(got) > 64 || got != loop.SanitizeName(got) {
			t.Errorf("%q is named %q, as %q is", name, got, other)
		}
		seen[got] = name
	}
	if names["a_b"] != "a_b" || names["c.d"] != "c_d" || !strings.HasPrefix(names["a.b"], "a_b_") || !strings.HasPrefix(names[long+"_read"], long[:55]+"_") || names[long[:60]+"more"] != long[:60]+"more" {
		t.Errorf("names: %v", names)
	}
	slices.Reverse(whole)
	if diff := cmp.Diff(names, named(whole)); diff != "" {
		t.Errorf("names depend on the order (-want +got):\n%s", diff)
	}
	// An owner who disallows a name means each tool that would have it.
	for no, want := range map[string]string{long: "", "a_b": "", "a_c": "answered"} {
		for _, name := range []string{names[long+"_read"], names["a.b"], names["a/b"]} {
			if want == "" && strings.HasPrefix(no, "a") != strings.HasPrefix(name, "a") {
				continue
			}
			m := &model{turns: [][]any{uses(name + " {}"), says("done")}}
			answers := tool(name, func(context.Context, string) (string, error) { return "answered", nil })
			if _, err := substrate.ReadAnswer(loop.New(loop.Config{Agent: agent(t, fmt.Sprintf(`,"disallowed_tools":[%q]`, no)), Model: m, Offer: loop.Offer{Tools: []loop.Tool{answers}}}).Infer(t.Context(), question())); err != nil {
				t.Fatal(err)
			}
			if got := m.asked[1].Turns[2].Results[0]; (got.Text == "answered") != (want != "") || (len(m.asked[0].Tools) == 1) != (want != "") {
				t.Errorf("%s with %s disallowed: %+v", name, no, got)
			}
		}
	}
}

func TestACancelledCallIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := &model{turns: [][]any{uses("wait {}"), says("late")}}
	wait := tool("wait", func(context.Context, string) (string, error) { cancel(); return "", nil })
	if _, err := substrate.ReadAnswer(loop.New(loop.Config{Agent: agent(t, ``), Model: m, Offer: loop.Offer{Tools: []loop.Tool{wait}}}).Infer(ctx, question())); !problem.Is(err, problem.Canceled) {
		t.Errorf("Fold() = %v, want Canceled", err)
	}
}

// Usage that no model reported is estimated while an answer comes and if it is cut off. A
// complete answer has only what was reported.
func TestUsageThatNobodyReportedIsEstimatedForAnswersThatEndEarly(t *testing.T) {
	const sent = 8 // bytes of the question
	thought, text := substrate.Thought("hmmm"), substrate.Text("12345678")
	first := substrate.Usage{InputTokens: 2, Turns: 1, UnreportedTurns: 1} // yielded before the model is asked
	for name, tt := range map[string]struct {
		members string
		turns   [][]any
		want    []substrate.Usage
	}{
		"complete, reported":          {turns: [][]any{{text, substrate.Usage{InputTokens: 9, OutputTokens: 5}, substrate.FinishStop}}, want: []substrate.Usage{first, {InputTokens: 9, OutputTokens: 5, Turns: 1}}},
		"complete, not reported":      {turns: [][]any{{text, substrate.FinishStop}}, want: []substrate.Usage{first, {Turns: 1, UnreportedTurns: 1}}},
		"cut, reported":               {turns: [][]any{{text, substrate.Usage{InputTokens: 9, OutputTokens: 5}, substrate.FinishLength}}, want: []substrate.Usage{first, {InputTokens: 9, OutputTokens: 5, Turns: 1}}},
		"cut, not reported":           {turns: [][]any{{thought, text, substrate.FinishLength}}, want: []substrate.Usage{first, {InputTokens: 2, OutputTokens: 3, Turns: 1, UnreportedTurns: 1}}},
		"cut after an early report":   {turns: [][]any{{substrate.Usage{InputTokens: 9, OutputTokens: 1}, text, substrate.FinishLength}}, want: []substrate.Usage{first, {InputTokens: 9, OutputTokens: 1, Turns: 1}, {InputTokens: 9, OutputTokens: 3, Turns: 1, UnreportedTurns: 1}}},
		"a JSON text, not reported":   {members: `,"output_format":"json"`, turns: [][]any{{substrate.Text(`{"a":12}`), substrate.FinishStop}}, want: []substrate.Usage{first, {Turns: 1, UnreportedTurns: 1}}},
		"refused, and asked again":    {members: `,"fallback_model":"n"`, turns: [][]any{{&call.AgentError{Status: 529, Err: problem.New(problem.SubstrateBusy, "overloaded")}}, {text, substrate.FinishLength}}, want: []substrate.Usage{first, {InputTokens: 2, Turns: 2, UnreportedTurns: 1}, {InputTokens: 2, OutputTokens: 2, Turns: 2, UnreportedTurns: 1}}},
		"a report of another process": {turns: [][]any{{substrate.Usage{UnreportedTurns: 1}, text, substrate.Usage{InputTokens: 9, OutputTokens: 5}, substrate.FinishLength}}, want: []substrate.Usage{first, {InputTokens: 9, OutputTokens: 5, Turns: 1}}},
	} {
		var got []substrate.Usage
		for e, err := range loop.New(loop.Config{Agent: agent(t, tt.members), Model: &model{turns: tt.turns}}).Infer(t.Context(), question()) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if u, ok := e.(substrate.Usage); ok {
				got = append(got, u)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: usage (-want +got):\n%s", name, diff)
		}
	}
	if text := question(); len(text.Text()) != sent {
		t.Errorf("the question has %d bytes, want %d", len(text.Text()), sent)
	}
}

// A call of a tool after an unknown reason may be incomplete: the tool runs only if it changes
// nothing and costs nothing. The answer is complete if its last turn ends for a known reason.
func TestASideEffectNeedsAKnownReason(t *testing.T) {
	unknown := func(turn []any) []any { return append(turn[:len(turn)-1], substrate.FinishUnknown) }
	writes := tool("write", never(t))
	writes.Writes = true
	asks := tool("ask", never(t))
	asks.Spends = true
	for last, want := range map[substrate.FinishReason]call.CutReason{substrate.FinishStop: "", substrate.FinishUnknown: call.CutUnknown} {
		m := &model{turns: [][]any{unknown(uses("write", "ask", "look")), {substrate.Text("done"), last}}}
		a, err := substrate.ReadAnswer(loop.New(loop.Config{Agent: agent(t, `,"mode":"read-write"`), Model: m, Offer: loop.Offer{Tools: []loop.Tool{writes, asks, tool("look", echo)}}}).Infer(t.Context(), question()))
		if err != nil || a.Text != "done" || a.CutReason() != want {
			t.Errorf("the answer is %q, cut %q, %v, want it cut %q", a.Text, a.CutReason(), err, want)
		}
		results := m.asked[1].Turns[2].Results
		for i, failed := range []bool{true, true, false} {
			if results[i].Failed != failed || failed && !strings.Contains(results[i].Text, "unknown reason") {
				t.Errorf("the model is told %+v", results[i])
			}
		}
	}
}

// A last turn that says nothing fails the call, whatever an earlier turn said.
func TestALastTurnThatReturnsNothingFails(t *testing.T) {
	for _, nothing := range [][]any{{substrate.FinishStop}, {substrate.Thought("hm"), substrate.Usage{InputTokens: 5, OutputTokens: 9}, substrate.FinishStop}} {
		m := &model{turns: [][]any{append([]any{substrate.Text("Let me see.")}, uses("look")...), nothing}}
		_, err := substrate.ReadAnswer(loop.New(loop.Config{Agent: agent(t, ""), Model: m, Offer: loop.Offer{Tools: []loop.Tool{tool("look", echo)}}}).Infer(t.Context(), question()))
		if !problem.Is(err, problem.SubstrateUnavailable) || !strings.Contains(err.Error(), "the model returned neither a text nor a tool call") || len(m.asked) != 2 {
			t.Errorf("%v after %d turns, want that the model returned nothing", err, len(m.asked))
		}
	}
}
