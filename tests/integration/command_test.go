package integration

import (
	"path/filepath"
	"strings"
	"testing"
)

// The commands of a person on a deployed host: each is the same as for a local
// host, with --host.
func TestTheCommandsWorkOnADeployedHost(t *testing.T) {
	s := shared(t)
	for _, tt := range []struct {
		args []string
		exit int
		says string
	}{
		{[]string{"init", "alice"}, 0, ""},
		{[]string{"create", "scribe", "--capability", "repeats", "--host", "aws", "--stage", s.Stage}, 0, "scribe"},
		{[]string{"list", "--host", "aws"}, 0, "scribe"},
		{[]string{"show", "scribe", "--host", s.URL}, 0, s.URL},
		{[]string{"call", "scribe", "good", "morning", "--host", "aws", "--as", "alice"}, 0, "good morning"},
		{[]string{"call", "scribe", "and again", "--host", s.URL, "--as", "alice"}, 0, "and again"},
		{[]string{"chain", "alice", "scribe", "--host", "aws"}, 0, "and again"},
		{[]string{"chain", "alice", "scribe", "--host", s.URL}, 0, "and again"},
		{[]string{"pause", "scribe", "--host", "aws"}, 0, "HIBERNATING"},
		{[]string{"resume", "scribe", "--host", "aws"}, 0, "ACTIVE"},
		{[]string{"export", "scribe", "--host", "aws", "--yes", "--out", filepath.Join(t.TempDir(), "scribe.json")}, 0, ""},
		{[]string{"delete", "scribe", "--host", "aws", "--yes"}, 4, "ARCHIVED"},
		{[]string{"list", "--host", "aws", "--stage", "nosuch"}, 3, "nosuch"},
		{[]string{"tail", "--host", "aws", "--once", "--since", "5m", "--function", "agent", "--status", "2xx"}, 0, "ok"},
	} {
		out, errs, exit := s.try(t, root(t), tt.args...)
		if exit != tt.exit || !strings.Contains(string(out)+string(errs), tt.says) {
			t.Errorf("vacancy %s: exit %d, want %d and %q\n%s%s", strings.Join(tt.args, " "), exit, tt.exit, tt.says, out, errs)
		}
	}
}
