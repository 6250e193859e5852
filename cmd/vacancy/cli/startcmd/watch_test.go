package startcmd

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// fox is a watched folder whose agent listens at port 9321.
func fox(t *testing.T, file, start string) *watcher {
	t.Helper()
	dir := t.TempDir()
	text := "---\ndescription: is a fox\nprovider: http\nbase_url: http://127.0.0.1:9321\n---\n"
	must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	w := &watcher{App: &kit.App{Err: &bytes.Buffer{}, Now: time.Now}, watchOptions: watchOptions{name: "fox", start: start}, dir: dir, file: file, isPortTaken: func(int) bool { return false }, environ: os.Environ()}
	w.printLine = func(string) {}
	must(t, w.readAgentFile())
	return w
}

func TestWatchEndsIfAnotherProgramHasThePort(t *testing.T) {
	w := fox(t, agentFile, "exit 1") // like a program that cannot listen
	w.isPortTaken = func(port int) bool { return port == 9321 }
	data := t.TempDir()
	kept, err := standalone.OpenJournal(data, time.Now)
	must(t, err)
	defer kept.Close()
	journal, err := standalone.OpenJournalReader(data, time.Now())
	must(t, err)
	defer journal.Close()
	err = w.run(context.Background(), journal, nil, w.snapshotFiles(), w.startProgram())
	if !problem.Is(err, problem.Unavailable) || !strings.Contains(err.Error(), "port 9321 is taken by another program") {
		t.Errorf("run() = %v, want that the port is taken", err)
	}
}

func TestWatchDoesNotMoveToAPortOfAnotherProgram(t *testing.T) {
	w := fox(t, agentFile, "sleep 600")
	w.isPortTaken = func(int) bool { return true }
	if err := w.readAgentFile(); err != nil || w.port != 9321 {
		t.Errorf("read() = %v with port %d; its own program listens at 9321", err, w.port)
	}
	path := filepath.Join(w.dir, agentFile)
	text, _ := os.ReadFile(path)
	must(t, os.WriteFile(path, bytes.Replace(text, []byte("9321"), []byte("9322"), 1), 0o600))
	if err := w.readAgentFile(); !problem.Is(err, problem.Unavailable) || w.port != 9321 {
		t.Errorf("read() = %v with port %d, want a refusal of 9322", err, w.port)
	}
}

func TestWatchLooksForItsHostWithBackoff(t *testing.T) {
	w := fox(t, agentFile, "")
	var said bytes.Buffer
	now := time.Unix(0, 0)
	w.App = &kit.App{Err: &said, Now: func() time.Time { return now }}
	w.data, w.joined, w.secretHost = t.TempDir(), true, "127.0.0.1:9321"
	for _, want := range []time.Duration{2, 4, 8, 10, 10} {
		w.pollJoinedHost(t.Context())
		if got := w.nextHostCheck.Sub(now); got != want*time.Second {
			t.Errorf("the pause is %s, want %ds", got, want)
		}
		next := w.nextHostCheck
		now = next.Add(-1)
		if w.pollJoinedHost(t.Context()); w.nextHostCheck != next {
			t.Error("looked before the pause was over")
		}
		now = next
	}
	if line := "has ended; fox answers no calls until the host runs again"; strings.Count(said.String(), line) != 1 || w.secretHost != "" {
		t.Errorf("said %q once, want %q; the secret is bound to %q", said.String(), line, w.secretHost)
	}
}

func TestWatchMakesASecretUnlessTheFileNamesOne(t *testing.T) {
	w := fox(t, agentFile, "python3 agent.py")
	first := w.secret
	err := w.readAgentFile()
	if err != nil || w.agent.Agent.Secret != "watch-fox" || first == "" || w.secret != first {
		t.Errorf("read() = secret %q, %v, and AGENT_SECRET %q after %q; want one that stays", w.agent.Agent.Secret, err, w.secret, first)
	}
	w = fox(t, agentFile, "python3 agent.py")
	w.secret, w.Env = "", map[string]string{"AGENT_SECRET": "mine"}
	if err := w.readAgentFile(); err != nil || w.secret != "mine" {
		t.Errorf("read() = %v with AGENT_SECRET %q, want that of the environment", err, w.secret)
	}
	for name, settings := range map[string]string{
		"a secret of its own": "provider: http\nbase_url: http://127.0.0.1:9321\nsecret: own", "a program elsewhere": "provider: http\nbase_url: https://agents.example.org:9321",
		"a model": "provider: ollama\nmodel: llama3.2",
	} {
		text := "---\ndescription: is a fox\n" + settings + "\n---\n"
		must(t, os.WriteFile(filepath.Join(w.dir, agentFile), []byte(text), 0o600))
		if err := w.readAgentFile(); err != nil || w.secret != "" || strings.HasPrefix(w.agent.Agent.Secret, "watch-") {
			t.Errorf("%s: read() = secret %q, %v, and AGENT_SECRET %q; want no new one", name, w.agent.Agent.Secret, err, w.secret)
		}
	}
	if name := secretName(strings.Repeat("x", 64)); len(name) != 64 {
		t.Errorf("the secret of a long name has a name of %d bytes", len(name))
	}
}

func TestProgramsOfWatchedFiles(t *testing.T) {
	for _, tc := range []struct {
		name, file, base, want string
	}{
		{"the agent of a folder", agentFile, "http://127.0.0.1:9321", "python3 agent.py"},
		{"the agent of a folder, elsewhere", agentFile, "https://agents.example.org:9321", "python3 agent.py"},
		{"one of many files", "helper.md", "http://localhost:9321", "python3 agent.py"},
		{"one of many files, elsewhere", "helper.md", "https://agents.example.org:9321", ""},
	} {
		w := fox(t, tc.file, "")
		path := filepath.Join(w.dir, tc.file)
		text, _ := os.ReadFile(path)
		for name, text := range map[string][]byte{tc.file: bytes.Replace(text, []byte("http://127.0.0.1:9321"), []byte(tc.base), 1), "agent.py": nil} {
			must(t, os.WriteFile(filepath.Join(w.dir, name), text, 0o600))
		}
		must(t, w.readAgentFile())
		if got := w.programCommand(); got != tc.want {
			t.Errorf("%s: command() = %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestPortOfAProgram(t *testing.T) {
	const file = "---\ndescription: is a fox\nmodel: llama3.2\nbase_url: http://127.0.0.1:11434/v1\n" +
		"mcp_servers:\n  web: https://tools.example.org/mcp\n  notes: http://127.0.0.1:9401\n  more: http://127.0.0.1:9400\n---\n"
	for program, want := range map[string]int{"tools.py": 9400, "agent.py": 11434} {
		w := fox(t, agentFile, "")
		for name, text := range map[string]string{agentFile: file, program: ""} {
			must(t, os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600))
		}
		if err := w.readAgentFile(); err != nil || w.port != want {
			t.Errorf("%s: read() = %v with port %d, want %d", program, err, w.port, want)
		}
		if got := w.programCommand(); got != "python3 "+program {
			t.Errorf("%s: command() = %q", program, got)
		}
	}
}

func TestAProgramIsAwaitedUntilItListensOrEnds(t *testing.T) {
	w := fox(t, agentFile, "exit 1")
	w.waitForStart(context.Background(), w.startProgram())

	looks := 0
	w = fox(t, agentFile, "sleep 600")
	w.isPortTaken = func(int) bool { looks++; return looks == 3 }
	program := w.startProgram()
	defer program.stop()
	if w.waitForStart(context.Background(), program); looks != 3 {
		t.Errorf("looked %d times, want until the program listens", looks)
	}
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
