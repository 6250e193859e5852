package awscmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/assembly"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/clitest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/cloudtest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
)

// The deployment has no CDK: running a diff would panic.
func TestAStageThatIsNewIsShownOnAScreen(t *testing.T) {
	server := cloudtest.NewWithEnv(t)
	server.SetStacks()
	all := &assembly.Assembly{}
	for _, short := range stage.StackNames() {
		b, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "infra", "testdata", short+".json"))
		must(t, err)
		name := stage.FullName("dev", short)
		all.Stacks = append(all.Stacks, assembly.Stack{ID: name, Name: name, Template: b})
	}
	d, errs := deploying(t, "yes\n", deployFlags{})
	changes, _, err := d.compareTemplates(t.Context(), all)
	must(t, err)
	if err := d.confirmChanges(t.Context(), all, changes, cloud.Stack{}); err != nil {
		t.Fatalf("confirm() = %v", err)
	}
	clitest.CompareGolden(t, "deploy-new", errs.String())
	if n := strings.Count(errs.String(), "\n"); n > 30 {
		t.Errorf("a new stage is shown on %d lines, want 30 at most", n)
	}
}

func TestALongListIsWrapped(t *testing.T) {
	a, b := strings.Repeat("a", 60), strings.Repeat("b", 60)
	if diff := gocmp.Diff([]string{a + ",", b + ", c"}, wrapWords([]string{a, b, "c"})); diff != "" {
		t.Errorf("wrap() (-want +got):\n%s", diff)
	}
}
