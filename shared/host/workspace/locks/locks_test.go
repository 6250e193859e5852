package locks_test

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/workspace/locks"
)

func TestPathsThatOverlap(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{".vault/", ".vault/", true}, {".vault/", ".vault", true}, {".vault/", ".vault/a/b", true}, {".vault", ".VAULT/a", true},
		{".", "a", true}, {"", "a", true}, {"src/é.md", "src/e\u0301.md", true}, {"a/b", "a", true},
		{".vault/", ".vault-evil/x", false}, {"src", "src2", false}, {"a/b", "a/c", false}, {"a", "b/a", false},
	} {
		if got := locks.Overlap(tt.a, tt.b); got != tt.want || locks.Overlap(tt.b, tt.a) != tt.want {
			t.Errorf("Overlap(%q, %q) = %t", tt.a, tt.b, got)
		}
	}
	for _, tt := range []struct {
		path, dir string
		want      bool
	}{
		{".vault/a", ".vault/", true}, {".VAULT/a", ".vault", true}, {".vault", ".vault/", true}, {"a", ".", true},
		{"a", "a/b", false}, {".vault-evil/a", ".vault", false},
	} {
		if got := locks.Below(tt.path, tt.dir); got != tt.want {
			t.Errorf("Below(%q, %q) = %t", tt.path, tt.dir, got)
		}
	}
}
