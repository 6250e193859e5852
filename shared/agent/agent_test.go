package agent_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/agent"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// start serves an agent until the end function is called.
func start(t *testing.T, a agent.Agent, o agent.Options) (url string, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	o.Listen, o.Log, o.Ready = cmp.Or(o.Listen, "127.0.0.1:0"), slog.New(slog.DiscardHandler), func(url string) { ready <- url }
	go func() { ended <- agent.Serve(ctx, a, o) }()
	select {
	case url = <-ready:
	case err := <-ended:
		cancel()
		t.Fatalf("Serve() = %v", err)
	}
	return url, func() error { cancel(); return <-ended }
}

func shout(_ context.Context, c agent.Call) (string, error) {
	if c.Text == "fail" {
		return "", errors.New("a secret reason")
	}
	return strings.ToUpper(c.Text), nil
}

func TestAnAgentIsHostedCalledAndThereAgainAfterARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "host")
	me := filepath.Join(t.TempDir(), "identities", "me")
	a := agent.Agent{Name: "crier", Capability: "shouts", Answer: shout}
	url, end := start(t, a, agent.Options{Data: dir})
	c, err := agent.Dial(t.Context(), me, url)
	if err != nil {
		t.Fatal(err)
	}
	id := c.ID()
	if got, err := c.Call(t.Context(), "hello"); got != "HELLO" || err != nil {
		t.Errorf("Call() = %q, %v", got, err)
	}
	if _, err := c.Call(t.Context(), "fail"); !problem.Is(err, problem.BehaviourFailed) || strings.Contains(err.Error(), "secret") {
		t.Errorf("Call() that fails = %v, want a failure without its reason", err)
	}
	if err := end(); err != nil {
		t.Errorf("Serve() = %v", err)
	}
	a.Capability = "shouts louder"
	url, end = start(t, a, agent.Options{Data: dir})
	defer func() {
		if err := end(); err != nil {
			t.Errorf("Serve() = %v", err)
		}
	}()
	c, err = agent.Dial(t.Context(), me, url)
	if err != nil || c.ID() != id {
		t.Fatalf("Dial() after a restart = %v, want the vacant %s", err, id)
	}
	if got, err := c.Call(t.Context(), "again"); got != "AGAIN" || err != nil {
		t.Errorf("Call() after a restart = %q, %v", got, err)
	}
}

func TestADialToAURLThatLeadsToAnotherVacantReportsTheFormer(t *testing.T) {
	me := filepath.Join(t.TempDir(), "identities", "me")
	a := agent.Agent{Name: "crier", Capability: "shouts", Answer: shout}
	var listen, former string
	for range 3 {
		at, end := start(t, a, agent.Options{Data: filepath.Join(t.TempDir(), "host"), Listen: listen})
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		listen = u.Host
		c, err := agent.Dial(t.Context(), me, at)
		if err != nil || c.FormerID() != former {
			t.Fatalf("Dial() = former id %q, %v, want %q", c.FormerID(), err, former)
		}
		if again, err := agent.Dial(t.Context(), me, at); err != nil || again.FormerID() != "" {
			t.Errorf("Dial() again = former id %q, %v, want none", again.FormerID(), err)
		}
		former = c.ID()
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	ctx := t.Context()
	good := agent.Agent{Name: "crier", Capability: "shouts", Answer: shout}
	dir := filepath.Join(t.TempDir(), "host")
	for name, tt := range map[string]struct {
		agent   agent.Agent
		options agent.Options
		says    string
	}{
		"no function":          {agent.Agent{Name: "crier", Capability: "x"}, agent.Options{Data: dir}, "Answer"},
		"no directory":         {good, agent.Options{}, "Data"},
		"a bad address":        {good, agent.Options{Data: dir, Listen: "here"}, "cannot listen"},
		"no URL for everybody": {good, agent.Options{Data: dir, Listen: "0.0.0.0:0"}, "PublicURL"},
		"plain http":           {good, agent.Options{Data: dir, Listen: "127.0.0.1:0", PublicURL: "http://agents.example.org"}, "PublicURL"},
		"a bad name":           {agent.Agent{Name: "a/b", Capability: "x", Answer: shout}, agent.Options{Data: dir, Listen: "127.0.0.1:0"}, "name"},
		"no capability":        {agent.Agent{Name: "crier", Answer: shout}, agent.Options{Data: dir, Listen: "127.0.0.1:0"}, "capability"},
	} {
		tt.options.Log = slog.New(slog.DiscardHandler)
		if err := agent.Serve(ctx, tt.agent, tt.options); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("Serve() of %s = %v, want an error that says %q", name, err, tt.says)
		}
	}
}

// A module outside of this one builds and runs what the package's example shows.
func TestAModuleOutsideUsesThePackage(t *testing.T) {
	top, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	_, requires, _ := strings.Cut(read("go.mod"), "\ngo ")
	version, requires, _ := strings.Cut(requires, "\n")
	for name, text := range map[string]string{
		"go.mod": "module outside.example/crier\n\ngo " + version + "\n" + requires +
			"\nrequire github.com/vacancy-host/vacancy v0.0.0\n\nreplace github.com/vacancy-host/vacancy => " + top + "\n",
		"go.sum": read("go.sum"),
		"main.go": `package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/vacancy-host/vacancy/shared/agent"
)

func main() {
	ctx, end := context.WithCancel(context.Background())
	a := agent.Agent{Name: "crier", Capability: "shouts", Answer: func(_ context.Context, c agent.Call) (string, error) {
		return strings.ToUpper(c.Text), nil
	}}
	err := agent.Serve(ctx, a, agent.Options{Data: os.Args[1], Listen: "127.0.0.1:0", Ready: func(url string) {
		defer end()
		c, err := agent.Dial(ctx, os.Args[1]+"/me", url)
		if err != nil {
			log.Fatal(err)
		}
		answer, err := c.Call(ctx, "hello from outside")
		fmt.Println(answer, err)
	}})
	if err != nil {
		log.Fatal(err)
	}
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "-mod=mod", ".", filepath.Join(t.TempDir(), "data"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || string(out) != "HELLO FROM OUTSIDE <nil>\n" {
		t.Errorf("the module outside = %q, %v\n%s", out, err, errs.String())
	}
}
