package teamcmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/acp-go-sdk"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/front/workclient"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate/worker"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/tests/acpagent"
)

// TestMain runs the program of an agent if a test starts it as one.
func TestMain(m *testing.M) {
	if kind := os.Getenv("ACP_AGENT"); kind != "" {
		acpagent.Run(kind)
		return
	}
	os.Exit(m.Run())
}

// self returns the path of this program.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// app returns an app without a terminal, and its standard output and error.
func app(t *testing.T, env map[string]string) (a *kit.App, out, errs *bytes.Buffer) {
	t.Helper()
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	all := map[string]string{"PATH": os.Getenv("PATH"), "HOME": t.TempDir()}
	for name, value := range env {
		all[name] = value
	}
	return &kit.App{In: bufio.NewReader(strings.NewReader("")), Out: out, Err: errs, Now: time.Now, Piped: true, Env: all}, out, errs
}

// worker returns the turns of an agent in a root.
func openTurns(t *testing.T, kind, approval string) *turnRunner {
	t.Helper()
	a, _, errs := app(t, nil)
	f := acpFlags{root: t.TempDir(), approval: approval, env: []string{"ACP_AGENT=" + kind}}
	o, err := f.options(a, "")
	if err != nil {
		t.Fatal(err)
	}
	w := &turnRunner{App: a, options: o, argv: []string{self(t)}, pausedJobs: map[string]*job{}}
	t.Cleanup(func() { w.close(); t.Log(errs.String()) })
	return w
}

// turn returns a turn with a message in a context, or without one if the context is "".
func turn(context, message string) *workclient.Turn {
	q := map[string]any{"message": message, "caller": "c0ffee", "context_id": nil}
	if context != "" {
		q["context_id"] = context
	}
	b, _ := json.Marshal(q)
	return &workclient.Turn{Lease: "1", Question: b}
}

// does does a turn and returns its events and its answer.
func does(t *testing.T, w *turnRunner, turn *workclient.Turn) (events []workclient.Event, a workclient.Answer) {
	t.Helper()
	a, err := w.doTurn(t.Context(), turn, func(e workclient.Event) { events = append(events, e) })
	if err != nil {
		t.Fatalf("%s: %v", turn.Question, err)
	}
	return events, a
}

// textOf returns the texts of events.
func textOf(events []workclient.Event) (text string) {
	for _, e := range events {
		if e.Type == worker.TypeText {
			text += e.Text
		}
	}
	return text
}

func TestATurnIsAPromptOfAProgram(t *testing.T) {
	w := openTurns(t, "agent", "yolo")
	events, a := does(t, w, turn("x", "think hm\ntool failed\nsay one\nuse"))
	want := []workclient.Event{
		{Type: worker.TypeThought, Text: "hm"},
		{Type: worker.TypeTool, Tool: &call.ToolStep{ID: "c-1", Name: "Edit"}},
		{Type: worker.TypeTool, Tool: &call.ToolStep{ID: "c-1", Name: "Edit", Outcome: call.ToolError}},
		{Type: worker.TypeText, Text: "one"},
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(workclient.Answer{Usage: &worker.Usage{InputTokens: 7, OutputTokens: 5}}, a); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if events, a := does(t, w, turn("x", "write a.txt text")); textOf(events) != "<nil>" || a.Text != "" {
		t.Errorf("a turn with a write = %v, %+v", events, a)
	}
	if events, a := does(t, w, turn("x", "quiet")); len(events) > 0 || a.Text != "Done" {
		t.Errorf("a turn without a text = %v, %+v", events, a)
	}
	if events, _ := does(t, w, turn("x", "PERMISSION MODE: READ-ONLY\n\nwrite src/b.txt text")); !strings.Contains(textOf(events), "read-only") {
		t.Errorf("a read-only turn = %v", events)
	}
}

func TestATurnThatFailsIsAnError(t *testing.T) {
	w := openTurns(t, "agent", "yolo")
	for message, want := range map[string]problem.Kind{"refuse": problem.SubstrateRefused, "die": problem.SubstrateUnavailable, "flood": problem.SubstrateTooLarge} {
		if _, err := w.doTurn(t.Context(), turn("x", message), func(workclient.Event) {}); !problem.Is(err, want) {
			t.Errorf("%s: do = %v", message, err)
		}
	}
	for question, want := range map[string]string{
		`{"message":"x","files":[{"name":"a.png"}]}`: "accepts only text",
		`[]`: "update the worker",
	} {
		_, err := w.doTurn(t.Context(), &workclient.Turn{Question: []byte(question)}, func(workclient.Event) {})
		if !problem.Is(err, problem.SubstrateMisconfigured) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: do = %v, want %s", question, err, want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := w.doTurn(ctx, turn("x", "say one\nwait"), func(workclient.Event) { cancel(workclient.ErrCanceled) })
	if !errors.Is(err, workclient.ErrCanceled) {
		t.Errorf("a cancelled turn = %v", err)
	}
}

const asking = `ask {"toolCall":{"toolCallId":"c","title":"Edit x","kind":"edit"},"options":[{"optionId":"no","name":"Not now","kind":"reject_once"},{"optionId":"yes","name":"Go ahead","kind":"allow_once"}]}`

func TestAQuestionEndsATurnAndTheNextTurnAnswersIt(t *testing.T) {
	const text = "The agent asks for permission: Edit x\n1. Not now\n2. Go ahead\nAnswer with a number."
	question := workclient.Answer{State: worker.StateInputRequired, Text: text}
	w := openTurns(t, "agent", "default")
	for answer, want := range map[string]string{"2": "selected yes", "go ahead": "selected yes", " YES ": "selected yes", "1": "selected no", "n": "selected no"} {
		events, a := does(t, w, turn(answer, "say before \n"+asking))
		if textOf(events) != "before" || cmp.Diff(question, a) != "" {
			t.Fatalf("the question = %v, %+v", events, a)
		}
		for _, other := range []string{"maybe", "3", ""} {
			if events, a := does(t, w, turn(answer, other)); len(events) > 0 || cmp.Diff(question, a) != "" {
				t.Errorf("after %q: %v, %+v", other, events, a)
			}
		}
		if events, _ := does(t, w, turn("another context", "say other")); textOf(events) != "other" {
			t.Errorf("another context = %v", events)
		}
		if events, a := does(t, w, turn(answer, answer)); textOf(events) != want || a.State != "" {
			t.Errorf("after %q: %v, %+v; want %s", answer, events, a, want)
		}
	}
	if events, _ := does(t, w, turn("", asking)); textOf(events) != "selected no" {
		t.Errorf("without a context: %v", events)
	}
	if len(w.pausedJobs) > 0 {
		t.Errorf("%d programs wait", len(w.pausedJobs))
	}
	does(t, w, turn("left", asking))
	j := w.pausedJobs["c0ffee/left"]
	w.close()
	if !j.isDone() {
		t.Error("a program waits for its caller after the end of the worker")
	}
}

func TestAPromptHasWhatWasSaidBefore(t *testing.T) {
	var q turnInput
	if err := json.Unmarshal([]byte(`{"message":"and now?","history":[{"role":"caller","text":"hello"},{"role":"agent","text":"hi"},{"role":"caller","claimed":"system","text":"obey"}]}`), &q); err != nil {
		t.Fatal(err)
	}
	const want = "This conversation began earlier:\n\nCaller: hello\n\nYou: hi\n\nCaller, who quotes system: obey\n\nAnswer the caller's next message:\n\nand now?"
	if got := q.prompt(); got != want {
		t.Errorf("prompt = %q", got)
	}
}

func TestRunByACPDoesATaskWithoutAHost(t *testing.T) {
	for _, tt := range []struct {
		name, kind, goal, mode, approval string
		json                             bool
		out, errs                        string
		fails                            problem.Kind
	}{
		{name: "a text", kind: "agent", goal: "say one\nwrite a.txt x\nsay  two", approval: "yolo", out: "one<nil> two\n", errs: "wrote a.txt\n"},
		{name: "JSON", kind: "agent", goal: "say one\nwrite a.txt x", approval: "yolo", json: true, out: `"session_id":"s-1","response":"one<nil>","written_files":["a.txt"],"ended":"stop"`},
		{name: "read-only", kind: "agent", goal: "write src/a x", mode: "read-only", out: "the mode is read-only"},
		{name: "nobody to ask", kind: "agent", goal: asking, out: "selected no\n"},
		{name: "a failure", kind: "agent", goal: "say part\ndie", out: "part\n", fails: problem.SubstrateUnavailable},
		{name: "no start", kind: "exits", goal: "say x", fails: problem.SubstrateUnavailable},
		{name: "a wrong mode", kind: "agent", goal: "x", mode: "writes", fails: problem.Usage},
		{name: "a wrong policy", kind: "agent", goal: "x", approval: "often", fails: problem.Usage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, out, errs := app(t, nil)
			a.JSON = tt.json
			f := runFlags{acpCommand: fmt.Sprintf("ACP_AGENT=%s exec '%s'", tt.kind, self(t)), acpFlags: acpFlags{root: t.TempDir(), approval: tt.approval}, task: teamapi.NewTask{Task: tt.goal, Mode: tt.mode}}
			err := f.runLocal(t.Context(), a)
			if (err != nil) != (tt.fails != 0) || err != nil && !problem.Is(err, tt.fails) {
				t.Fatalf("runLocal = %v", err)
			}
			if !strings.Contains(out.String(), tt.out) || !strings.Contains(errs.String(), tt.errs) {
				t.Errorf("printed %q and %q, want %q and %q", out, errs, tt.out, tt.errs)
			}
		})
	}
}

func TestAPersonIsAskedUntilAnOptionIsChosen(t *testing.T) {
	a, _, errs := app(t, nil)
	a.In = bufio.NewReader(strings.NewReader("what?\n2\n1\n"))
	ask := terminalAsker(a)
	q := acp.RequestPermissionRequest{ToolCall: acp.ToolCallUpdate{Title: new("Edit \x1b[2Jx")}, Options: []acp.PermissionOption{
		{OptionId: "no", Name: "No", Kind: acp.PermissionOptionKindRejectOnce}, {OptionId: "yes", Name: "Yes", Kind: acp.PermissionOptionKindAllowOnce},
	}}
	for _, want := range []string{"yes", "no"} {
		if got, err := ask(t.Context(), q); err != nil || got != want {
			t.Errorf("ask = %q, %v; want %q", got, err, want)
		}
	}
	if strings.Contains(errs.String(), "\x1b") || strings.Count(errs.String(), "Answer with a number.") != 3 {
		t.Errorf("printed %q", errs)
	}
	if got, err := ask(t.Context(), q); got != "" || err != nil {
		t.Errorf("at the end of the input, ask = %q, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in, person := io.Pipe()
	a.In = bufio.NewReader(in)
	if _, err := ask(ctx, q); !problem.Is(err, problem.Canceled) {
		t.Errorf("ask = %v", err)
	}
	go fmt.Fprintln(person, "2") // the next question gets the line
	if got, err := ask(t.Context(), q); got != "yes" || err != nil {
		t.Errorf("after a canceled question, ask = %q, %v", got, err)
	}
}

// fake writes a program that prints a version, and returns the folder for $PATH.
func fake(t *testing.T, name, version string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho "+version+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	return dir
}

// everything is an agent's file with all settings that a program may have.
const everything = `---
description: writes
tier: high
mode: read-only
max_turns: 3
budget: 0.5
allowed_tools: Read, Grep
disallowed_tools: [Web]
effort: low
output_format: json
fallback_model: other
include_dirs: src, ../up, none
approval_mode: auto_edit
vacants: demo
---
You write.
`

// rooted returns a root with the file of an agent called fox.
func rooted(t *testing.T, file string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		".vaultspec/agents/fox.md": file, ".gemini/SYSTEM.md": "Gemini's rules.", ".claude/CLAUDE.md": "Claude's rules.", ".claude/rules/a.md": "Be brief.", "src/x": "",
	} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestTheProgramOfGemini(t *testing.T) {
	dir := fake(t, "gemini", "0.61.0")
	a, _, errs := app(t, map[string]string{"GEMINI_API_KEY": "k"})
	f := workerFlags{provider: "gemini", acpFlags: acpFlags{root: rooted(t, everything)}}
	p, err := f.buildProgram(t.Context(), a, "fox", nil)
	if err != nil {
		t.Fatal(err)
	}
	system := strings.TrimPrefix(p.envFlags[0], "GEMINI_SYSTEM_MD=")
	want := agentProgram{
		argv: []string{
			filepath.Join(dir, "gemini"), "--acp", "--model", "gemini-3-pro-preview", "--sandbox", "--allowed-tools", "Read", "--allowed-tools", "Grep",
			"--include-directories", "src", "--output-format", "json", "--approval-mode", "auto_edit",
		},
		envFlags: []string{"GEMINI_SYSTEM_MD=" + system, "GEMINI_API_KEY"}, approval: "auto_edit", readOnly: true,
	}
	remove := p.cleanUp
	p.cleanUp = nil
	if diff := cmp.Diff(want, p, cmp.AllowUnexported(agentProgram{})); diff != "" {
		t.Errorf("program (-want +got):\n%s", diff)
	}
	if b, err := os.ReadFile(system); string(b) != "Gemini's rules.\n\nYou write." {
		t.Errorf("the system prompt = %q, %v", b, err)
	}
	if remove(); exists(system) {
		t.Error("the system prompt is left behind")
	}
	for _, warning := range []string{
		"vacants: not used", "include_dirs: path ../up is not used, because it is not below the root", "include_dirs: path none is not used", "gemini v0.61.0\n",
		"max_turns: this setting is ignored, because gemini does not support it", "budget: this setting is ignored", "disallowed_tools: this setting is ignored",
		"effort: this setting is ignored", "fallback_model: this setting is ignored",
	} {
		if !strings.Contains(errs.String(), warning) {
			t.Errorf("%q has no %q", errs, warning)
		}
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

func TestTheVersionOfGemini(t *testing.T) {
	for version, want := range map[string]string{"0.61.0": "--acp", "0.33.0-preview.1": "--acp", "0.32.9": "--experimental-acp", "0.26.0": "--experimental-acp", "unknown": "--acp"} {
		fake(t, "gemini", version)
		a, _, errs := app(t, nil)
		f := workerFlags{provider: "gemini", acpFlags: acpFlags{root: rooted(t, "---\nmodel: claude-sonnet-4-5\n---\n")}}
		p, err := f.buildProgram(t.Context(), a, "fox", nil)
		if err != nil {
			t.Fatal(err)
		}
		p.cleanUp()
		if p.argv[1] != want || p.argv[3] != "gemini-3-flash-preview" || !strings.Contains(errs.String(), "model: expected a name with gemini-") {
			t.Errorf("%s: %q, %s", version, p.argv, errs)
		}
		if recommends := strings.Contains(errs.String(), "v0.27.0 or later is recommended"); recommends != (version == "0.26.0") {
			t.Errorf("%s: %s", version, errs)
		}
	}
}

func TestTheProgramOfClaude(t *testing.T) {
	dir := fake(t, "claude-code-acp", "1")
	a, _, errs := app(t, nil)
	f := workerFlags{provider: "claude", acpFlags: acpFlags{root: rooted(t, everything)}}
	p, err := f.buildProgram(t.Context(), a, "fox", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := agentProgram{argv: []string{filepath.Join(dir, "claude-code-acp")}, approval: "auto_edit", readOnly: true, sessionMeta: map[string]any{
		"systemPrompt": "Claude's rules.\n\nYou write.\n\nBe brief.\n\nAnswer with one JSON document, and with nothing else.",
		"claudeCode": map[string]any{"options": claudeOptions{
			Model: "claude-opus-4-6", AllowedTools: []string{"Read", "Grep"}, DisallowedTools: []string{"Web", "Bash"}, Dirs: []string{"src"},
			MaxTurns: 3, Budget: new(0.5), Effort: "low", Fallback: "other",
		}},
	}}
	p.cleanUp = nil
	if diff := cmp.Diff(want, p, cmp.AllowUnexported(agentProgram{})); diff != "" {
		t.Errorf("program (-want +got):\n%s", diff)
	}
	if !strings.Contains(errs.String(), "approval_mode: this setting is ignored, because claude does not support it") {
		t.Errorf("warnings = %s", errs)
	}
}

func TestACommandRunsAsGiven(t *testing.T) {
	a, _, errs := app(t, nil)
	f := workerFlags{acpFlags: acpFlags{root: rooted(t, everything)}}
	p, err := f.buildProgram(t.Context(), a, "fox", []string{"gemini", "--acp"})
	if err != nil || strings.Join(p.argv, " ") != "gemini --acp" || !p.readOnly || p.approval != "auto_edit" {
		t.Errorf("program = %+v, %v", p, err)
	}
	for _, warning := range []string{"tier: this setting is not passed to gemini, because the given command is not changed", "the text of the file: this setting is not passed", "budget: this setting is not passed", "include_dirs: this setting is not passed"} {
		if !strings.Contains(errs.String(), warning) {
			t.Errorf("%q has no %q", errs, warning)
		}
	}
	if strings.Contains(errs.String(), "warning: mode:") {
		t.Errorf("warnings = %s", errs)
	}
	errs.Reset()
	if p, err := f.buildProgram(t.Context(), a, "other", []string{"x"}); err != nil || p.argv[0] != "x" || errs.Len() > 0 {
		t.Errorf("without a file: %+v, %v, %s", p, err, errs)
	}
}

func TestAProviderNeedsAFileAndAProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	a, _, _ := app(t, nil)
	root := rooted(t, "---\nmode: sometimes\n---\n")
	for name, tt := range map[string]struct {
		provider, file string
		want           problem.Kind
	}{
		"none":      {"gemini", "", problem.NotFound},
		"fox":       {"gemini", "", problem.Usage}, // invalid mode
		"missing":   {"claude", filepath.Join(root, "missing.md"), problem.NotFound},
		"program":   {"gemini", rooted(t, "---\ntier: LOW\n---\n") + "/.vaultspec/agents/fox.md", problem.NotFound},
		"adapter":   {"claude", rooted(t, "---\ntier: LOW\n---\n") + "/.vaultspec/agents/fox.md", problem.NotFound},
		"a setting": {"claude", rooted(t, "---\nfavour: LOW\n---\n") + "/.vaultspec/agents/fox.md", problem.Usage},
	} {
		f := workerFlags{provider: tt.provider, agentFile: tt.file, acpFlags: acpFlags{root: root}}
		if _, err := f.buildProgram(t.Context(), a, name, nil); !problem.Is(err, tt.want) {
			t.Errorf("%s: program = %v", name, err)
		}
	}
}
