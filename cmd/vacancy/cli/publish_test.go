package cli

import (
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/clitest"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestPublishOutput(t *testing.T) {
	s := newShell(t)
	s.must("create", "scribe", "--capability", "repeats what it hears")
	clitest.Golden(t, "publish", s.must("publish", "scribe", "--tag", "echo", "--summary", "patient"))
	clitest.Golden(t, "publish-again.json", s.must("publish", "scribe", "--json"))
	clitest.Golden(t, "publish-restricted", s.must("publish", "scribe", "--visibility", "restricted"))
	clitest.Golden(t, "unpublish", s.must("unpublish", "scribe"))
	clitest.Golden(t, "revoke.json", s.must("revoke", "scribe", "--reason", "its backup was stolen", "--yes", "--json"))
	clitest.Golden(t, "revoke-again", s.must("revoke", "scribe", "--reason", "twice", "--yes"))
}

func TestAPublishThatIsRefusedExitsByItsKind(t *testing.T) {
	s := newShell(t)
	s.must("create", "scribe", "--capability", "writes")
	s.must("init", "alice")
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"publish nobody", problem.ExitNotFound, "no vacant named nobody"},
		{"publish alice", problem.ExitNotFound, "vacancy publish alice --registry URL"},
		{"unpublish alice", problem.ExitNotFound, "vacancy unpublish alice --registry URL"},
		{"revoke alice --reason x --yes", problem.ExitNotFound, "vacancy revoke alice --registry URL"},
		{"unpublish scribe", problem.ExitConflict, "never published"},
		{"revoke scribe", problem.ExitUsage, "--reason is missing"},
		{"revoke scribe --reason x", problem.ExitUsage, "nothing was done"},
		{"publish scribe --visibility all", problem.ExitUsage, "--visibility"},
		{"publish scribe --price 0.0000001", problem.ExitUsage, "--price"},
		{"publish scribe --price 1", problem.ExitUsage, "vacancy price sets it"},
		{"publish scribe --endpoint https://x.example", problem.ExitUsage, "--endpoint goes with --registry"},
		{"publish alice --registry nowhere", problem.ExitUsage, "registry: expected an http or https URL"},
		{"publish alice --registry https://x.example --host local", problem.ExitUsage, "--registry does not go with"},
		{"publish bob --registry https://x.example", problem.ExitNotFound, `no identity "bob"`},
		{"publish alice --registry http://127.0.0.1:1", problem.ExitUnavailable, "127.0.0.1:1"},
	} {
		code, out, errs := s.run("", strings.Fields(tc.args)...)
		if code != tc.code || out != "" || !strings.Contains(errs, tc.want) {
			t.Errorf("vacancy %s = exit %d, %q, %q; want %d and %q", tc.args, code, out, errs, tc.code, tc.want)
		}
	}
}
