package acpclient

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/acp-go-sdk"

	"github.com/vacancy-host/vacancy/cmd/vacancy/sessionlog"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
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

// environment returns the variables of this process.
func environment() map[string]string {
	env := map[string]string{}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	return env
}

// options returns the settings of a test's agent.
func options(t *testing.T, kind, root string) Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	environ, err := Environ(environment(), []string{"ACP_AGENT=" + kind})
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Command: exec.Command(self), Root: root, Environ: environ, TerminalEnviron: environ, Approval: ApprovalYolo, Now: time.Now,
		Logf: func(format string, args ...any) { t.Logf(format, args...) },
	}
}

// open starts the agent of a test in a root.
func open(t *testing.T, o Options) *Agent {
	t.Helper()
	a, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func ignore(Event) error { return nil }

// say gives an agent a prompt and returns its text.
func say(t *testing.T, a *Agent, prompt string) string {
	t.Helper()
	r, err := a.Prompt(t.Context(), prompt, ignore)
	if err != nil {
		t.Fatalf("%.100q: %v", prompt, err)
	}
	return r.Text
}

func TestAPromptHasItsTextOnceWithThoughtsAndTools(t *testing.T) {
	a := open(t, options(t, "agent", t.TempDir()))
	var events []Event
	r, err := a.Prompt(t.Context(), "think hm\nsay one\ntool completed\nsay  two\nuse", func(e Event) error { events = append(events, e); return nil })
	want := []Event{{Thought: "hm"}, {Text: "one"}, {ToolCallID: "c-1", Title: "Edit", Status: "pending"}, {ToolCallID: "c-1", Title: "Edit", Status: "completed"}, {Text: " two"}}
	if err != nil || r.Text != "one two" || !slices.Equal(events, want) {
		t.Errorf("Prompt = %+v, %v with %+v", r, err, events)
	}
	if r.Session != "s-1" || r.FinishReason != substrate.FinishStop || r.Usage == nil || r.Usage.InputTokens != 7 || r.Usage.OutputTokens != 5 {
		t.Errorf("result = %+v", r)
	}
	if r, err := a.Prompt(t.Context(), "say x\nlong", ignore); err != nil || r.FinishReason != substrate.FinishLength || r.Usage != nil {
		t.Errorf("a prompt at its limit = %+v, %v", r, err)
	}
	if _, err := a.Prompt(t.Context(), "refuse", ignore); !problem.Is(err, problem.SubstrateRefused) {
		t.Errorf("a refusal = %v", err)
	}
	if text := say(t, a, "say again"); text != "again" {
		t.Errorf("the next prompt = %q", text)
	}
}

func TestABurstOfUpdatesArrivesInOrder(t *testing.T) {
	a := open(t, options(t, "agent", t.TempDir()))
	var want strings.Builder
	for n := range 5000 {
		fmt.Fprintf(&want, "%d,", n)
	}
	if text := say(t, a, "burst"); text != want.String() {
		t.Errorf("the text has %d bytes, want %d", len(text), want.Len())
	}
}

func TestAnAgentThatDoesNotStartIsAnError(t *testing.T) {
	for kind, want := range map[string]string{
		"exits": "the agent's program ended (exit status 3). Its last output was:\nno key in the keyring",
		"old":   "the agent speaks version 0 of ACP, expected 1",
		"login": "the agent needs a login: start its program yourself and log in, or pass the environment variable with its key by --env NAME",
		"noise": "the agent wrote more than 100 lines that are not ACP messages",
	} {
		_, err := Start(t.Context(), options(t, kind, t.TempDir()))
		if err == nil || problem.AsError(err).Text() != want {
			t.Errorf("%s: Start = %v, want %s", kind, err, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, options(t, "hangs", t.TempDir())); !problem.Is(err, problem.DeadlineExceeded) {
		t.Errorf("an agent that hangs: Start = %v", err)
	}
	o := options(t, "agent", t.TempDir())
	o.Command = exec.Command("/no/such/program")
	if _, err := Start(t.Context(), o); !problem.Is(err, problem.Usage) {
		t.Errorf("a missing program: Start = %v", err)
	}
	if _, err := Start(t.Context(), options(t, "agent", filepath.Join(t.TempDir(), "none"))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing root: Start = %v", err)
	}
}

func TestAnAgentThatMisbehavesEndsItsPromptOnly(t *testing.T) {
	for prompt, want := range map[string]struct {
		kind problem.Kind
		text string
	}{
		"flood":         {problem.SubstrateTooLarge, "text of the agent's answer: expected at most 307200 bytes"},
		"die":           {problem.SubstrateUnavailable, "the agent's program ended (exit status 1). Its last output was:\nout of memory"},
		"line 10485760": {problem.SubstrateTooLarge, "the agent wrote a line of 10 MiB or more"},
	} {
		a := open(t, options(t, "agent", t.TempDir()))
		if _, err := a.Prompt(t.Context(), prompt, ignore); !problem.Is(err, want.kind) || !strings.HasPrefix(problem.AsError(err).Text(), want.text) {
			t.Errorf("%s: Prompt = %v", prompt, err)
		}
	}
	a := open(t, options(t, "remark", t.TempDir()))
	if text := say(t, a, "line 10485759\nbreaks\nsay fine"); text != "fine" {
		t.Errorf("after broken lines the text is %q", text)
	}
}

func TestACancelledPromptEndsWithoutFurtherUpdates(t *testing.T) {
	for _, kind := range []string{"agent", "deaf"} {
		a := open(t, options(t, kind, t.TempDir()))
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := false
		began := time.Now()
		r, err := a.Prompt(ctx, "say one\nwait", func(e Event) error {
			if cancelled {
				t.Errorf("%s: after the end came %+v", kind, e)
			}
			cancelled = true
			cancel()
			return nil
		})
		if !errors.Is(err, context.Canceled) || r.Text != "one" {
			t.Errorf("%s: Prompt = %+v, %v", kind, r, err)
		}
		if took := time.Since(began); (took >= cancelTimeout) != (kind == "deaf") {
			t.Errorf("%s: the prompt ended after %s", kind, took)
		}
		if kind == "agent" {
			if text := say(t, a, "say two"); text != "two" {
				t.Errorf("the next prompt = %q", text)
			}
		}
	}
	a := open(t, options(t, "agent", t.TempDir()))
	lost := problem.New(problem.Conflict, "the lease is lost")
	if _, err := a.Prompt(t.Context(), "say one\nwait", func(Event) error { return lost }); !errors.Is(err, lost) {
		t.Errorf("Prompt = %v, want the error of emit", err)
	}
}

func TestCloseEndsAProgramThatLingers(t *testing.T) {
	a, err := Start(t.Context(), options(t, "lingers", t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-a.exited:
	default:
		t.Error("the program lives")
	}
}

func TestFilesAreReadBelowTheRootOnly(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(root, "a.txt"): "1\n2\n3\n4", filepath.Join(root, "big"): strings.Repeat("0123456789\n", maxTextBytes/11+1), filepath.Join(root, "raw"): "\xff",
		filepath.Join(outside, "secret"): "secret",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"out": outside, "up": "..", "secret": filepath.Join(outside, "secret"), "inside": "a.txt"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	a := open(t, options(t, "agent", root))
	for request, want := range map[string]string{
		`{"path":"a.txt"}`:                      `"1\n2\n3\n4" <nil>`,
		`{"path":"ROOT/a.txt"}`:                 `"1\n2\n3\n4" <nil>`,
		`{"path":"inside"}`:                     `"1\n2\n3\n4" <nil>`,
		`{"path":"a.txt","line":2,"limit":2}`:   `"2\n3\n" <nil>`,
		`{"path":"a.txt","line":0,"limit":1}`:   `"1\n" <nil>`,
		`{"path":"a.txt","line":-3,"limit":0}`:  `"" <nil>`,
		`{"path":"a.txt","line":9}`:             `"" <nil>`,
		`{"path":"big","line":3,"limit":1}`:     `"0123456789\n" <nil>`,
		`{"path":"big"}`:                        "use line and limit to read a part of the file",
		`{"path":"raw"}`:                        "expected a text in UTF-8",
		`{"path":"none"}`:                       "Resource not found: none",
		`{"path":"."}`:                          "expected a file",
		`{"path":"../` + filepath.Base(outside): "outside of the root",
		`{"path":"/etc/passwd"}`:                "outside of the root",
		`{"path":"secret"}`:                     "path escapes",
		`{"path":"out/secret"}`:                 "path escapes",
		`{"path":"up/x"}`:                       "path escapes",
	} {
		request = strings.ReplaceAll(request, "ROOT", a.opts.Root)
		if !strings.HasSuffix(request, "}") {
			request += `/secret"}`
		}
		if text := say(t, a, "read "+request); !strings.Contains(text, want) || strings.Contains(text, outside) {
			t.Errorf("read %s = %.300s, want %s", request, text, want)
		}
	}
	gemini := open(t, options(t, "gemini", root))
	for request, want := range map[string]string{`{"path":"none"}`: `"" <nil>`, `{"path":"secret"}`: "path escapes"} {
		if text := say(t, gemini, "read "+request); !strings.Contains(text, want) {
			t.Errorf("Gemini CLI: read %s = %.300s, want %s", request, text, want)
		}
	}
}

func TestFilesAreWrittenBelowTheRootOnly(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(root, "out")); err != nil {
		t.Fatal(err)
	}
	_ = os.Symlink("src/link-target", filepath.Join(root, "link"))
	_ = os.Mkdir(filepath.Join(root, "src"), 0o755)
	_ = os.WriteFile(filepath.Join(root, "src", "run.sh"), []byte("old"), 0o750)
	a := open(t, options(t, "agent", root))
	r, err := a.Prompt(t.Context(), "write deep/er/a.txt one\nwrite src/run.sh new\nwrite link linked\nwrite out/x no\nwrite ../x no\nwrite src no\nwrite "+a.opts.Root+"/b.txt two", ignore)
	if err != nil || !slices.Equal(r.WrittenPaths, []string{"b.txt", "deep/er/a.txt", "link", "src/run.sh"}) {
		t.Errorf("written = %q, %v; %s", r.WrittenPaths, err, r.Text)
	}
	for name, want := range map[string]string{"deep/er/a.txt": "one", "src/run.sh": "new", "src/link-target": "linked", "b.txt": "two"} {
		if b, err := os.ReadFile(filepath.Join(root, name)); string(b) != want {
			t.Errorf("%s = %q, %v", name, b, err)
		}
	}
	if info, err := os.Stat(filepath.Join(root, "src/run.sh")); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("the mode of src/run.sh is %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(root, "*", ".vacancy-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("written outside: %v", left)
	}
}

func TestReadOnlyWritesOnlyBelowVault(t *testing.T) {
	root := t.TempDir()
	_ = os.MkdirAll(filepath.Join(root, "src"), 0o755)
	_ = os.MkdirAll(filepath.Join(root, ".vault"), 0o755)
	if err := os.Symlink("../src", filepath.Join(root, ".vault", "link")); err != nil {
		t.Fatal(err)
	}
	o := options(t, "agent", root)
	o.ReadOnly = true
	a := open(t, o)
	if text := say(t, a, "prompt"); !strings.HasPrefix(text, "PERMISSION MODE: READ-ONLY\n") || !strings.HasSuffix(text, "\n\nprompt") {
		t.Errorf("the prompt = %q", text)
	}
	for path, want := range map[string]string{
		".vault/a/b.md": "<nil>", "./.vault/c.md": "<nil>", "src/x": "read-only", "x": "read-only", ".vaultspec/x": "read-only", ".vault-evil/x": "read-only",
		".vault/../src/x": "read-only", ".vault": "read-only", ".vault/link/x": "path escapes",
	} {
		if text := say(t, a, "write "+path+" text"); !strings.Contains(text, want) {
			t.Errorf("write %s = %s, want %s", path, text, want)
		}
	}
	if text := say(t, a, "terminal - echo hi"); !strings.Contains(text, "read-only") {
		t.Errorf("a terminal = %s", text)
	}
	if left, _ := os.ReadDir(filepath.Join(root, "src")); len(left) > 0 {
		t.Errorf("written in src: %v", left)
	}
	_ = os.RemoveAll(filepath.Join(root, ".vault"))
	_ = os.Symlink("src", filepath.Join(root, ".vault"))
	if text := say(t, a, "write .vault/x text"); !strings.Contains(text, "not a link") {
		t.Errorf("write through a link = %s", text)
	}
}

func TestATerminalRunsACommand(t *testing.T) {
	root := t.TempDir()
	a := open(t, options(t, "agent", root))
	for command, want := range map[string]string{
		"- echo out; echo err >&2":            `{"exitCode":0} <nil> "out\nerr\n" false then "" <nil>`,
		"- exit 3":                            `{"exitCode":3} <nil> "" false`,
		"- kill -9 $$":                        `{"signal":"killed"} <nil> "" false`,
		"4 printf éééé":                       `{"exitCode":0} <nil> "éé" true`,
		"5 printf éééé":                       `{"exitCode":0} <nil> "éé" true`,
		"0 echo x":                            `{"exitCode":0} <nil> "" true`,
		"- pwd":                               fmt.Sprintf("%q", a.opts.Root+"\n"),
		"- sleep 60 & echo forked":            `"forked\n" false`,
		"- setsid sleep 3 & echo left":        `"left\n" false`,
		`- test -z "$VACANCY_KEY" && echo ok`: `"ok\n" false`,
	} {
		began := time.Now()
		if text := say(t, a, "terminal "+command); !strings.Contains(text, want) || time.Since(began) > 20*time.Second {
			t.Errorf("%s = %s after %s, want %s", command, text, time.Since(began), want)
		}
	}
	if text := say(t, a, `terminal - head -c 2000000 /dev/zero | tr '\0' x; echo end`); text != `{"exitCode":0} <nil> "1000000 bytes to xend\n" true then "" <nil>` {
		t.Errorf("2 MB of output = %s", text)
	}
	if text := say(t, a, "open sleep 60\nkill terminal-12\nkill unknown"); text != `terminal-12{"signal":"killed"} <nil>{} <nil>` {
		t.Errorf("a killed terminal = %s", text)
	}
}

// A terminal that forks ends, with its children, at the end of the prompt's context or of the agent.
func TestATerminalThatForksEndsWithItsAgent(t *testing.T) {
	root := t.TempDir()
	a, err := Start(t.Context(), options(t, "agent", root))
	if err != nil {
		t.Fatal(err)
	}
	alive := filepath.Join(root, "alive")
	say(t, a, "open (while :; do date > alive; sleep 0.05; done) & (while :; do date > alive; sleep 0.05; done)")
	for range 100 {
		if _, err := os.Stat(alive); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	_ = os.Remove(alive)
	time.Sleep(300 * time.Millisecond)
	if _, err := os.Stat(alive); err == nil {
		t.Error("a child of the terminal lives")
	}
}

func TestPermissionsByPolicy(t *testing.T) {
	allow := acp.PermissionOption{Kind: acp.PermissionOptionKindAllowOnce, Name: "Allow", OptionId: "a"}
	always := acp.PermissionOption{Kind: acp.PermissionOptionKindAllowAlways, Name: "Always", OptionId: "A"}
	reject := acp.PermissionOption{Kind: acp.PermissionOptionKindRejectOnce, Name: "Reject", OptionId: "r"}
	never := acp.PermissionOption{Kind: acp.PermissionOptionKindRejectAlways, Name: "Never", OptionId: "R"}
	all := []acp.PermissionOption{never, always, allow, reject}
	for _, tt := range []struct {
		policy  Approval
		denied  bool
		kind    string
		options []acp.PermissionOption
		want    string
		asks    bool
	}{
		{ApprovalYolo, false, "execute", all, "A", false},
		{ApprovalYolo, false, "", []acp.PermissionOption{reject, never}, "r", false},
		{ApprovalYolo, false, "", nil, "allow", false},
		{ApprovalYolo, true, "execute", all, "R", false},
		{ApprovalYolo, true, "execute", []acp.PermissionOption{allow}, "", false},
		{ApprovalAutoEdit, false, "edit", all, "A", false},
		{ApprovalAutoEdit, false, "execute", all, "", true},
		{ApprovalAutoEdit, true, "edit", all, "R", false},
		{ApprovalDefault, false, "read", all, "", true},
		{ApprovalDefault, true, "edit", all, "R", false},
		{ApprovalPlan, false, "edit", all, "R", false},
		{ApprovalPlan, false, "edit", []acp.PermissionOption{allow}, "", false},
	} {
		if got, asks := chooseOption(tt.policy, tt.denied, tt.kind, tt.options); got != tt.want || asks != tt.asks {
			t.Errorf("choose(%s, %t, %s, %v) = %q, %t", tt.policy, tt.denied, tt.kind, tt.options, got, asks)
		}
	}
	if err := Approval("maybe").Check(); !problem.Is(err, problem.Usage) {
		t.Errorf("Check = %v", err)
	}
}

const asksEdit = `ask {"toolCall":{"toolCallId":"c","title":"Edit x","kind":"edit","locations":[{"path":"%s"}]},"options":[{"optionId":"no","name":"No","kind":"reject_once"},{"optionId":"yes","name":"Yes","kind":"allow_once"}]}`

func TestAPersonAnswersAQuestion(t *testing.T) {
	o := options(t, "agent", t.TempDir())
	o.Approval = ApprovalDefault
	var asked acp.RequestPermissionRequest
	answer := "yes"
	o.Ask = func(_ context.Context, q acp.RequestPermissionRequest) (string, error) { asked = q; return answer, nil }
	a := open(t, o)
	if text := say(t, a, fmt.Sprintf(asksEdit, "x")); text != "selected yes" || *asked.ToolCall.Title != "Edit x" || len(asked.Options) != 2 || !Allows(asked.Options[1]) {
		t.Errorf("%s after %+v", text, asked)
	}
	if answer = ""; say(t, a, fmt.Sprintf(asksEdit, "x")) != "cancelled <nil>" {
		t.Error("no answer did not cancel the question")
	}
	a.opts.Ask = nil
	if text := say(t, a, fmt.Sprintf(asksEdit, "x")); text != "selected no" {
		t.Errorf("without a person: %s", text)
	}
}

func TestReadOnlyNeverAllowsWhatItDenies(t *testing.T) {
	o := options(t, "agent", t.TempDir())
	o.ReadOnly = true
	a := open(t, o)
	for request, want := range map[string]string{
		fmt.Sprintf(asksEdit, "src/x"):                                        "selected no",
		fmt.Sprintf(asksEdit, ".vault/x.md"):                                  "selected yes",
		fmt.Sprintf(asksEdit, ".vault/../x"):                                  "selected no",
		strings.Replace(fmt.Sprintf(asksEdit, "x"), `"edit"`, `"execute"`, 1): "selected no",
		strings.Replace(fmt.Sprintf(asksEdit, "x"), `"edit"`, `"other"`, 1):   "selected no",
		strings.Replace(fmt.Sprintf(asksEdit, "x"), `"edit"`, `"read"`, 1):    "selected yes",
	} {
		if text := say(t, a, request); text != want {
			t.Errorf("%s = %s, want %s", request, text, want)
		}
	}
}

func TestACancelDuringAQuestionCancelsTheQuestion(t *testing.T) {
	o := options(t, "agent", t.TempDir())
	o.Approval = ApprovalDefault
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	o.Ask = func(asking context.Context, _ acp.RequestPermissionRequest) (string, error) {
		cancel()
		<-asking.Done()
		close(ended)
		return "yes", nil
	}
	a := open(t, o)
	if r, err := a.Prompt(ctx, fmt.Sprintf(asksEdit, "x")+"\nwrite x y", ignore); !errors.Is(err, context.Canceled) || r.Text != "" || len(r.WrittenPaths) > 0 {
		t.Errorf("Prompt = %+v, %v", r, err)
	}
	<-ended
	if text := say(t, a, "say next"); text != "next" {
		t.Errorf("the next prompt = %q", text)
	}
}

func TestTheEnvironmentIsAnAllowList(t *testing.T) {
	t.Setenv("VACANCY_KEY", "secret")
	t.Setenv("VACANCY_OPERATOR_KEY", "secret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("GEMINI_API_KEY", "given")
	o := options(t, "agent", t.TempDir())
	environ, err := Environ(environment(), []string{"ACP_AGENT=agent", "GEMINI_API_KEY", "COLOR=blue"})
	if err != nil {
		t.Fatal(err)
	}
	o.Environ = environ
	text := say(t, open(t, o), "env")
	for _, want := range []string{`"PATH=`, `"GEMINI_API_KEY=given"`, `"COLOR=blue"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(text, "secret") {
		t.Errorf("a secret is in %s", text)
	}
	for _, name := range []string{"VACANCY_KEY", "vacancy_key=x", "", "=x"} {
		if _, err := Environ(nil, []string{name}); !problem.Is(err, problem.Usage) {
			t.Errorf("Environ(%q) = %v", name, err)
		}
	}
}

func TestTheSessionIsLoggedWithoutContents(t *testing.T) {
	root := t.TempDir()
	_ = os.WriteFile(filepath.Join(root, "a.txt"), []byte("confidential"), 0o600)
	o := options(t, "agent", root)
	a, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	say(t, a, "say confidential\nthink confidential\nread {\"path\":\"a.txt\"}\nwrite b.txt confidential\nwrite ../c.txt confidential\nterminal - echo confidential\n"+fmt.Sprintf(asksEdit, "x"))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(root, sessionlog.Dir, "s-1.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	kinds := map[string]int{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e struct{ Type string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Error(err)
		}
		kinds[e.Type]++
		if strings.Contains(lines.Text(), "confidential") {
			t.Errorf("the log has contents: %s", lines.Text())
		}
	}
	for _, kind := range []string{sessionlog.SessionUpdate, sessionlog.ReadTextFile, sessionlog.WriteTextFile, sessionlog.WriteBlocked, sessionlog.CreateTerminal, sessionlog.PermissionRequest} {
		if kinds[kind] == 0 {
			t.Errorf("the log has no %s: %v", kind, kinds)
		}
	}
}
