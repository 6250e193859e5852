package serve_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/a2a"
	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/agp"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/registryapi"
)

// operations are those of a host that has everything.
func operations() []op.Spec {
	return slices.Concat(admin.Operations(), account.Operations(), agp.Operations(), registryapi.Operations(), a2a.Operations())
}

// Who may use which operation is one list, so that whoever opens an operation shows it to
// reviewers: go test ./shared/front/serve -run WhoMayUse -update.
func TestWhoMayUseEachOperation(t *testing.T) {
	var lines []string
	for _, s := range operations() {
		if s.Doc == "" {
			t.Errorf("%s %s does not say what it does", s.Method, s.Path)
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s", s.Path, s.Method, who(s.Access)))
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
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// who says who may use an operation beside the operator of its host.
func who(a op.Access) string {
	var all []string
	if a.Anybody {
		all = append(all, "anybody")
	}
	if a.Vacant {
		all = append(all, "a vacant by its signature")
	}
	if k := a.Key; k.Scope != "" {
		key := "a key with the scope " + string(k.Scope)
		if k.Live {
			key = "a live key with the scope " + string(k.Scope)
		}
		if k.Active {
			key += " of an active account"
		}
		all = append(all, key)
	}
	if len(all) == 0 {
		return "the operator alone"
	}
	return strings.Join(all, ", ")
}
