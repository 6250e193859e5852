package childcmd

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
)

func TestARefusedBirthNamesTheCommandThatHelps(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		s    admin.Spawning
		want string
	}{
		"too many":                 {problem.New(problem.TooManyRequests, "ten within an hour"), admin.Spawning{Path: "D2"}, "run the same command later; a parent may request ten children an hour, and have a hundred"},
		"no rule":                  {problem.Invalid("rule", "one", "none"), admin.Spawning{Path: "D1", Name: "x"}, `vacancy spawn firm --path D1 --name x --rule "TEXT"`},
		"a rule of D2":             {problem.Invalid("rule", "none", "be brief"), admin.Spawning{Path: "D2", Name: "x", Rule: "be brief"}, `vacancy spawn firm --path D1 --name x --rule "TEXT"`},
		"no second parent":         {problem.Invalid("with", "one", "none"), admin.Spawning{Path: "D4", Name: "x"}, "vacancy spawn firm --path D4 --name x --with PARENT"},
		"a second of D2":           {problem.Invalid("with", "none", "y"), admin.Spawning{Path: "D2", Name: "x", SecondParent: "y"}, "vacancy spawn firm --path D4 --name x --with y"},
		"an unknown second parent": {&problem.Error{Kind: problem.NotFound, Field: "with"}, admin.Spawning{Path: "D4", Name: "x", SecondParent: "y"}, ""},
		"reaching nothing":         {problem.Invalid("outbound", "more", "no-external"), admin.Spawning{Path: "D2", OutboundPolicy: composite.NoExternal}, "--outbound parent-permitted, or no --outbound: the child's tools then include the endpoint"},
		"something else":           {problem.New(problem.Conflict, "the name is taken"), admin.Spawning{Path: "D2"}, ""},
	} {
		got := ""
		if h := new(kit.HintedError); errors.As(addSpawnHint(tc.err, &tc.s, "firm"), &h) {
			got = h.Hint
		}
		if got != tc.want {
			t.Errorf("%s: hint = %q, want %q", name, got, tc.want)
		}
	}
}

func TestSubstratesAreComparedAsByTheGate(t *testing.T) {
	for _, tc := range [][3]string{
		{"echo", "echo", "echo"},
		{"echo", "http:https://mind.example/a", ""},
		{"http:https://mind.example/a", "http:https://MIND.example:8443/b", "http:mind.example"},
		{"http:https://mind.example/a", "http:https://other.example/a", ""},
		{"composite", "composite", ""},
	} {
		if got := commonFamily(tc[0], tc[1]); got != tc[2] {
			t.Errorf("servedAlike(%s, %s) = %q, want %q", tc[0], tc[1], got, tc[2])
		}
	}
	if diff := cmp.Diff([]string{"a", "b"}, removeDuplicates([]string{"a", "b", "a"})); diff != "" {
		t.Errorf("once() (-want +got):\n%s", diff)
	}
}
