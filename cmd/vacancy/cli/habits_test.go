package cli

import (
	"strings"
	"testing"

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
		"keys crate":                            "try: vacancy keys create",
		"account nothinglikeit":                 "try: vacancy account --help",
		"bookings list":                         "is not running",
		"nothinglikeit":                         "try: vacancy --help",
		"list --dta x":                          "try: --data",
		"list --nothinglikeit":                  "try: vacancy list --help",
		"show scirbe":                           "try: vacancy list\n",
		"pause scirbe":                          "try: vacancy list\n",
		"children scirbe":                       "try: vacancy list\n",
		"price scirbe":                          "try: vacancy list\n",
		"root scirbe":                           "try: vacancy list\n",
		"chain alice scirbe":                    "try: vacancy list\n",
		"update scirbe name=x":                  "try: vacancy list\n",
		"update scribe nmae=x":                  "try: name=VALUE",
		"update scribe modle=x":                 "try: model=VALUE",
		"deploy --context edeg=false":           "try: --context edge=false",
		"id alcie":                              "try: vacancy id alice",
		"id use bob":                            `no identity "bob"; there are alice`,
		"call nobody --host http://127.0.0.1:1": "TEXT: expected a message, for example hello, got none",
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
		"no text":          {"", []string{"call", "demo"}, problem.ExitUsage, "TEXT: expected a message, for example hello, got none"},
		"an empty text":    {"", []string{"call", "demo", ""}, problem.ExitUsage, "TEXT: expected a message, for example hello, got none"},
		"blanks":           {"", []string{"call", "demo", " \n"}, problem.ExitUsage, "TEXT: expected a message, for example hello, got none"},
		"an empty pipe":    {"\n", []string{"call", "demo"}, problem.ExitUsage, "TEXT: expected a message, for example hello, got none"},
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
		"__complete call demo --as ":                 "alice\n",
		"__complete id use ":                         "alice\n",
		"__complete create x --substrate ":           "anthropic:\ncomposite\necho\ngemini:\nhttp:\nmcp:\nmistral:\nmock\nollama:\nopenai:\nworker:\n:6\n",
		"__complete keys create acme --scope ":       "call\nread\nmanage\nagp\nvacants\nagents\nwork\n:4\n",
		"__complete keys create acme --scope call,r": "call,read\ncall,manage\ncall,agp\ncall,vacants\ncall,agents\ncall,work\n:4\n",
		"__complete new fox --lang ":                 "go\npython\n",
		"__complete snippet scribe --lang ":          strings.Join(snippetLanguages, "\n") + "\n",
		"__complete mcp demo --as ":                  "alice\n",
		"__complete mcp config demo --client ":       "claude-code\nclaude-desktop\ncursor\nvscode\ngemini\ncodex\nzed\n:4\n",
		"__complete acp demo --as ":                  "alice\n",
		"__complete acp config demo --client ":       "zed\njetbrains\nneovim\n:4\n",
		"__complete chain ":                          "alice\n",
		"__complete tail --stage ":                   ":4\n",
	} {
		code, out, _ := s.run("", strings.Split(args, " ")...)
		if code != 0 || !strings.HasPrefix(out, want) {
			t.Errorf("vacancy %s = exit %d, %q; want %q", args, code, out, want)
		}
	}
}
