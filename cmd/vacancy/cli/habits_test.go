package cli

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestTyposGetASuggestion(t *testing.T) {
	s := newShell(t)
	s.must("create", "scribe", "--capability", "writes")
	s.must("init", "alice")
	for args, want := range map[string]string{
		"lst":                                   "try: vacancy list",
		"crate x":                               "try: vacancy create",
		"updaet x":                              "try: vacancy update",
		"nothinglikeit":                         "try: vacancy --help",
		"list --dta x":                          "try: --data",
		"list --nothinglikeit":                  "try: vacancy list --help",
		"show scirbe":                           "try: scribe",
		"show nobodyatall":                      "try: vacancy list",
		"id alcie":                              "try: alice",
		"id use bob":                            `no identity "bob"; there are alice`,
		"call nobody --host http://127.0.0.1:1": "there is no TEXT",
	} {
		code, out, errs := s.run("", strings.Fields(args)...)
		if code == 0 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("vacancy %s = exit %d, %q, %q; want an error that says %q", args, code, out, errs, want)
		}
	}
}

func TestATextIsCheckedBeforeAnythingIsSigned(t *testing.T) {
	s := newShell(t)
	for name, tt := range map[string]struct {
		stdin string
		args  []string
		code  int
		says  string
	}{
		"no text":          {"", []string{"call", "demo"}, problem.ExitUsage, "there is no TEXT"},
		"an empty text":    {"", []string{"call", "demo", ""}, problem.ExitUsage, "there is no TEXT"},
		"blanks":           {"", []string{"call", "demo", " \n"}, problem.ExitUsage, "there is no TEXT"},
		"an empty pipe":    {"\n", []string{"call", "demo"}, problem.ExitUsage, "there is no TEXT"},
		"too much":         {strings.Repeat("x", 260_001), []string{"call", "demo"}, problem.ExitUsage, "expected at most 260000 bytes, as JSON counts them, got 260001"},
		"too much as JSON": {strings.Repeat("\x01", 43_334), []string{"call", "demo", "-"}, problem.ExitUsage, "got 260004"},
		"as much as fits":  {strings.Repeat("x", 260_000), []string{"call", "demo"}, problem.ExitNotFound, "vacancy dev"},
	} {
		code, out, errs := s.run(tt.stdin, tt.args...)
		if code != tt.code || out != "" || !strings.Contains(errs, tt.says) {
			t.Errorf("%s: exit %d, %q, %.200q; want %d and %q", name, code, out, errs, tt.code, tt.says)
		}
	}
	if out := s.must("id", "list"); out != "no identities\n" {
		t.Errorf("a refused call made an identity: %q", out)
	}
}

func TestTabKnowsVacantsIdentitiesAndStages(t *testing.T) {
	s := newShell(t)
	s.must("init", "alice")
	for args, want := range map[string]string{
		"__complete call demo --as ": "alice\n",
		"__complete id use ":         "alice\n",
		"__complete chain ":          "alice\n",
		"__complete tail --stage ":   ":4\n",
	} {
		code, out, _ := s.run("", append(strings.Fields(args), "")...)
		if code != 0 || !strings.HasPrefix(out, want) {
			t.Errorf("vacancy %s = exit %d, %q; want %q", args, code, out, want)
		}
	}
}

func TestTheVersionIsAnObjectToo(t *testing.T) {
	s := newShell(t)
	if out := s.must("version", "--json"); !strings.Contains(out, `"version":"`) || !strings.Contains(out, `"go":"go1`) {
		t.Errorf("version --json = %q", out)
	}
	if out := s.must("version"); out != s.must("--version") {
		t.Errorf("version = %q, another than --version", out)
	}
}

// A line of the log is for people: who called whom, how it ended, and why.
func TestTheLogIsForPeople(t *testing.T) {
	at := time.Date(2026, 5, 6, 12, 4, 5, 0, time.Local)
	var out bytes.Buffer
	h := &humanLog{out: &out}
	log := func(level slog.Level, msg string, attrs ...any) {
		r := slog.NewRecord(at, level, msg, 0)
		r.Add(attrs...)
		if err := h.Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	log(slog.LevelInfo, "send", "pair", "aaaaaaaaaaaa>bbbbbbbbbbbb", "seq", 3, "verdict", "ok", "status", 200, "ms", 1.25, "caller", "alice", "vacant", "demo")
	log(slog.LevelError, "send", "pair", "aaaaaaaaaaaa>bbbbbbbbbbbb", "seq", 4, "verdict", "substrate_unavailable", "status", 500, "ms", 2.5, "cause", "hidden",
		"failure", map[string]any{"text": "status: expected 200, got 500", "body": "a full\x1b[2J disk"})
	log(slog.LevelError, "ask", "pair", "aaaaaaaaaaaa>bbbbbbbbbbbb", "seq", 4, "verdict", "unavailable", "status", 503, "ms", 2.0, "cause", "the disk is full")
	log(slog.LevelWarn, "the search index is rebuilt", "folder", "/srv/x")
	want := `12:04:05  alice -> demo  call 3  ok  1.25 ms
12:04:05  aaaaaaaaaaaa -> bbbbbbbbbbbb  call 4  substrate_unavailable  2.5 ms  status: expected 200, got 500; it answered "a full\x1b[2J disk"
12:04:05  aaaaaaaaaaaa -> bbbbbbbbbbbb  ask 4  unavailable  2 ms  the disk is full
12:04:05  WARN the search index is rebuilt folder=/srv/x
`
	if out.String() != want {
		t.Errorf("the log is\n%s\nwant\n%s", out.String(), want)
	}

	// Of many calls in a second the rest is counted.
	out.Reset()
	at = at.Add(time.Second)
	for i := range maxLines + 7 {
		verdict := "ok"
		if i%2 == 0 {
			verdict = "too_many"
		}
		log(slog.LevelInfo, "send", "pair", "a>b", "seq", i, "verdict", verdict, "ms", 1)
	}
	h.Close()
	if got := out.String(); strings.Count(got, "\n") != maxLines+1 || !strings.HasSuffix(got, "12:04:06  and 7 more calls: 4 ok, 3 too_many\n") && !strings.HasSuffix(got, "12:04:06  and 7 more calls: 3 ok, 4 too_many\n") {
		t.Errorf("of %d calls in a second the log is\n%s", maxLines+7, got)
	}
}
