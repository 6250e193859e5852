//go:build unix

package startcmd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// lines collects printed lines.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) print(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.print(string(p))
	return len(p), nil
}

func (l *lines) contains(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.all, func(line string) bool { return strings.Contains(line, part) })
}

func (l *lines) has(line string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.all, line)
}

// run returns an agent whose program a shell command starts.
func run(t *testing.T, start string) (*agentProgram, *lines) {
	t.Helper()
	b, l := &agentProgram{watcher: fox(t, agentFile, start), restartPolicy: restartPolicy{time.Millisecond, 3 * time.Millisecond, time.Hour, 4}}, &lines{}
	b.printLine = l.print
	return b, l
}

func TestAProgramThatEndsAtOnceIsStartedAFewTimes(t *testing.T) {
	b, l := run(t, "echo hello; exit 3")
	b.supervise(t.Context())
	want := []string{
		"hello", "ended: exit status 3", "starts again in 1ms", "hello", "ended: exit status 3", "starts again in 2ms",
		"hello", "ended: exit status 3", "starts again in 3ms", "hello", "ended: exit status 3",
		"ended 4 times soon after its start and is not restarted; to start it again, restart the host",
	}
	if !slices.Equal(l.all, want) {
		t.Errorf("lines = %q, want %q", l.all, want)
	}

	b, l = run(t, "exit 3")
	looks := 0
	b.isPortTaken = func(int) bool { looks++; return looks <= 20 }
	b.supervise(t.Context())
	if !strings.HasPrefix(l.all[19], "not started, because another program listens at port 9321") || l.all[20] != "ended: exit status 3" || len(l.all) != 28 {
		t.Errorf("lines = %q, want 20 times that the port is taken, and then four starts", l.all)
	}

	b, l = run(t, "exit 3")
	b.dir = filepath.Join(t.TempDir(), "missing")
	b.supervise(t.Context())
	if len(l.all) != 8 {
		t.Errorf("lines = %q, want four starts that fail", l.all)
	}
}

func TestAProgramThatRanSteadilyIsStartedAlways(t *testing.T) {
	b, l := run(t, "exit 3")
	var passed time.Duration // each look at the clock is an hour later
	b.Now = func() time.Time { passed += time.Hour; return time.Unix(0, 0).Add(passed) }
	ctx, cancel := context.WithCancel(t.Context())
	starts := 0
	b.printLine = func(line string) {
		if l.print(line); line == "starts again in 1ms" {
			if starts++; starts == 20 {
				cancel()
			}
		}
	}
	if b.supervise(ctx); starts != 20 {
		t.Errorf("started again %d times, want 20 with the first pause: %q", starts, l.all)
	}
}

// A program ends with all that it started: though it forks, ignores signals, or holds its output open from another group.
func TestAProgramIsEndedWithTheHost(t *testing.T) {
	const loop = `trap "" TERM INT HUP; echo $$ >> pids; echo ready; while :; do sleep 0.1; done`
	for name, start := range map[string]string{
		"ignores":            loop,
		"forks":              `(` + strings.ReplaceAll(loop, "$$", "$(exec sh -c 'echo $PPID')") + `) & exit 0`,
		"forks without pipe": `(` + strings.ReplaceAll(loop, "$$", "$(exec sh -c 'echo $PPID')") + `) >&- 2>&- & echo ready; exit 0`,
		"another group":      `setsid sh -c 'echo ready; sleep 30' & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, l := run(t, start)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); b.supervise(ctx) }()
			await.Until(t, "ready", func() bool { return l.has("ready") })
			pids := filepath.Join(b.dir, "pids")
			if name != "another group" {
				await.Until(t, "pids", func() bool { text, _ := os.ReadFile(pids); return strings.HasSuffix(string(text), "\n") })
			}
			cancel()
			select {
			case <-ended:
			case <-time.After(await.Limit):
				t.Fatal("supervise() did not end")
			}
			text, _ := os.ReadFile(pids)
			for _, field := range strings.Fields(string(text)) {
				pid, _ := strconv.Atoi(field)
				await.Until(t, "the end of "+field, func() bool { return !runs(pid) })
			}
		})
	}
}

// runs reports whether a process runs. A dead process may stay a zombie here.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

// A program that has ended is started again, though what it started lives on: in its group, or in another one and with
// its output open.
func TestAProgramIsStartedAgainThoughItsChildrenLive(t *testing.T) {
	for name, child := range map[string]string{"its group": `sleep 600 &`, "another group": `setsid sleep 600 & echo $! >> pids;`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, l := run(t, child+` echo began; exit 3`)
			b.maxShortRuns = 2
			b.supervise(t.Context())
			want := []string{"began", "ended: exit status 3", "starts again in 1ms", "began", "ended: exit status 3", "ended 2 times soon after its start and is not restarted; to start it again, restart the host"}
			if !slices.Equal(l.all, want) {
				t.Errorf("lines = %q, want %q", l.all, want)
			}
			text, _ := os.ReadFile(filepath.Join(b.dir, "pids"))
			for _, field := range strings.Fields(string(text)) {
				pid, _ := strconv.Atoi(field)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
}

// A program gets none of the host's variables, and its lines in the log have no secrets.
func TestSecretsStayWithTheHost(t *testing.T) {
	t.Setenv("VACANCY_OPENSEARCH_PASSWORD", "of the host")
	t.Setenv("MODEL_KEY", "of the agent")
	w := fox(t, agentFile, "")
	if err := os.WriteFile(filepath.Join(w.dir, "agent.py"), []byte(`import os
print([v for v in os.environ if v.startswith("VACANCY")], os.environ["MODEL_KEY"], "PORT" in os.environ)
print("signed with " + os.environ["AGENT_SECRET"])
print("api_key=abcdef123")
`), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &kit.App{Env: map[string]string{"AGENT_SECRET": "hush-hush"}, Now: time.Now}
	dir := filepath.Join(filepath.Dir(w.dir), "fox") // a vacant's name
	must(t, os.Rename(w.dir, dir))
	all, err := readPrograms(a, t.Context(), []string{dir}, "")
	must(t, err)
	l := &lines{}
	stop := startPrograms(all, slog.New(slog.NewTextHandler(l, nil)))
	defer stop()
	for _, want := range []string{`fox | [] of the agent True"`, `fox | signed with [secret]"`, `fox | api_key=[redacted]"`} {
		await.Until(t, want, func() bool { return l.contains(want) })
	}
}

func TestARunHasAPortOfItsOwn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:9321")
	if err != nil {
		t.Skipf("port 9321: %v", err)
	}
	defer l.Close()
	w := fox(t, agentFile, "")
	must(t, os.WriteFile(filepath.Join(w.dir, "agent.py"), nil, 0o600))
	ended, cancel := context.WithCancel(t.Context()) // the time for the programs of a killed host is over
	cancel()
	if _, err := readPrograms(w.App, ended, []string{w.dir}, ""); !problem.Is(err, problem.Unavailable) || !strings.Contains(err.Error(), "port 9321 is taken by another program") {
		t.Errorf("readAgents() = %v, want that the port is taken", err)
	}
}

func TestAFloodOfOutputIsCut(t *testing.T) {
	b, l := run(t, "")
	at := time.Unix(0, 0)
	b.start = `head -c 100000 /dev/zero | tr '\0' x; echo; yes y | head -n 50000; echo last >&2`
	b.printLine = lineLimiter(func() time.Time { return at }, l.print)
	b.maxShortRuns = 1
	b.supervise(t.Context())
	if len(l.all) != maxLinesPerSecond || len(l.all[0]) > maxLineBytes || !strings.HasPrefix(l.all[0], "xxx") || l.all[1] != "y" {
		t.Errorf("%d lines, the first of %d bytes, then %q; want %d, and a long line cut", len(l.all), len(l.all[0]), l.all[1], maxLinesPerSecond)
	}
	at = at.Add(time.Second)
	b.printLine("next")
	if want := []string{"49903 more lines in the same second were omitted", "next"}; !slices.Equal(l.all[maxLinesPerSecond:], want) {
		t.Errorf("then %q, want %q", l.all[maxLinesPerSecond:], want)
	}
}
