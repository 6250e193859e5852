package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/clitest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// dev runs a host in process until the test ends and returns its URL.
func (s *shell) dev() string {
	s.t.Helper()
	ctx, interrupt := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan int, 1)
	out := &watched{seen: "The log:", then: func() { close(ready) }}
	errs := &watched{}
	a := &kit.App{Out: out, Err: errs, Env: s.env, Now: s.clock, Rand: s.rand}
	go func() { ended <- a.Run(ctx, rootCommand(a), []string{"dev", "--listen", "127.0.0.1:0"}) }()
	s.t.Cleanup(func() {
		interrupt()
		if code := <-ended; code != 0 {
			s.t.Errorf("dev = exit %d: %s", code, errs)
		}
	})
	select {
	case <-ready:
	case code := <-ended:
		ended <- code
		s.t.Fatalf("dev = exit %d before it was ready: %s", code, errs)
	}
	return regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`).FindString(out.String())
}

func TestCallsAreShownAsWritten(t *testing.T) {
	s := newShell(t)
	url := s.dev()
	clitest.Golden(t, "call", s.must("call", "demo", "hello", "world"))
	clitest.Golden(t, "call.json", s.must("call", "demo", "hello", "--context", "t-1", "--json"))
	clitest.Golden(t, "call-ask", s.must("call", "demo", "--ask"))
	clitest.Golden(t, "call-reset", s.must("call", "demo", "--reset"))
	clitest.Golden(t, "call-reset.json", s.must("call", "demo", "--reset", "--json"))
	clitest.Golden(t, "call-print", s.must("call", "demo", "printed", "--print"))

	s.must("pause", "demo")
	code, out, errs := s.run("", "call", url, "hello", "--json")
	if code != problem.ExitRefused || out != "" {
		t.Errorf("call of one that sleeps = exit %d, %q; want it refused", code, out)
	}
	clitest.Golden(t, "call-refused.json", errs)
}

func TestTheFirstCallMakesAnIdentityAndSaysSo(t *testing.T) {
	s := newShell(t)
	host := newShell(t)
	url := host.dev()
	code, out, errs := s.run("", "call", url, "hi")
	if code != 0 || !strings.HasPrefix(out, "echo from") || !strings.Contains(errs, `made the identity "default"`) {
		t.Errorf("call = exit %d, %q, %q; want an answer and the new identity named", code, out, errs)
	}
	other := newShell(t)
	var r struct {
		Made bool   `json:"made_identity"`
		As   string `json:"as"`
	}
	code, out, errs = other.run("", "call", url, "hi", "--json")
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil || !r.Made || r.As != "default" || errs != "" {
		t.Errorf("call --json = exit %d, %q, %q; want made_identity in the object and nothing beside it", code, out, errs)
	}
	if code, _, errs := s.run("", "call", url, "hi"); code != 0 || strings.Contains(errs, "made the identity") {
		t.Errorf("a second call = exit %d, %q; want no further identity", code, errs)
	}
}

func TestACallThatGoesNowhereMakesNoIdentity(t *testing.T) {
	s := newShell(t)
	if code, _, errs := s.run("", "call", "nobody", "hi"); code != problem.ExitNotFound || !strings.Contains(errs, `start one with "vacancy dev"`) {
		t.Errorf("call = exit %d, %q; want not found and a way on", code, errs)
	}
	if standalone.IsThere(filepath.Join(s.dataHome, "identities")) {
		t.Error("there is an identity now")
	}
}

func TestWrongUsesOfCallAreRefused(t *testing.T) {
	s := newShell(t)
	for _, tc := range []struct{ args, want string }{
		{"call", "an argument is missing"},
		{"call demo", "there is no TEXT"},
		{"call demo --print", "there is no TEXT"},
		{"call demo text --ask", "--ask takes no TEXT"},
		{"call demo text --reset", "--reset takes no TEXT"},
		{"call demo text --accept f", "--accept takes no TEXT"},
		{"call demo --ask --reset", "do not go together"},
		{"call demo text --print --ask", "do not go together"},
		{"call demo text --timeout 0s", "--timeout"},
		{"call demo text --timeout soon", "invalid argument"},
		{"call ftp://example.com text", "not a card file, a URL"},
		{"call http://user:secret@127.0.0.1 text", "user and password"},
	} {
		code, out, errs := s.run("", strings.Fields(tc.args)...)
		if (code != problem.ExitUsage && code != problem.ExitNotFound) || out != "" || !strings.Contains(errs, tc.want) {
			t.Errorf("vacancy %s = exit %d, %q, %q; want a refusal with %q", tc.args, code, out, errs, tc.want)
		}
		if strings.Contains(errs, "secret@") {
			t.Errorf("vacancy %s shows the password: %q", tc.args, errs)
		}
	}
}

func TestACardFileMustVerify(t *testing.T) {
	s := newShell(t)
	s.must("init", "bob", "--capability", "translate")
	b, err := os.ReadFile(filepath.Join(s.dataHome, "identities", "bob", "card.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		text string
		code int
		want string
	}{
		"no endpoint":  {string(b), problem.ExitNotFound, "no endpoint"},
		"changed text": {strings.Replace(strings.Replace(string(b), "translate", "Translate", 1), "null", `"http://127.0.0.1:9/"`, 1), problem.ExitUntrusted, "does not verify"},
		"no card":      {`{"a":1}`, problem.ExitUsage, "is not a card"},
		"too large":    {strings.Repeat("x", 200<<10), problem.ExitUsage, "too large"},
	} {
		path := filepath.Join(t.TempDir(), "card.json")
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, errs := s.run("", "call", path, "hi", "--as", "bob")
		if code != tc.code || !strings.Contains(errs, tc.want) {
			t.Errorf("call of a card with %s = exit %d, %q; want %d and %q", name, code, errs, tc.code, tc.want)
		}
	}
}
