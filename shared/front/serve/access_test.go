package serve_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/operations"
)

// The golden file lists who may use which operation, so that reviewers see each operation that
// is opened. To rewrite it: go test ./shared/front/serve -run Operation -update. The reference
// lists operations, too: go test ./cmd/vacancy/cli -update.
func TestWhoMayUseEachOperation(t *testing.T) {
	var lines []string
	for _, s := range operations.All() {
		if s.Doc == "" {
			t.Errorf("%s %s does not say what it does", s.Method, s.Path)
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s", s.Path, s.Method, s.Access.Describe()))
	}
	slices.Sort(lines)
	if twice := slices.Compact(slices.Clone(lines)); len(twice) < len(lines) {
		t.Error("an operation is listed twice")
	}
	got := strings.Join(lines, "\n") + "\n"
	golden(t, filepath.Join("testdata", "access.golden"), got)
}

// golden compares a text with a golden file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
