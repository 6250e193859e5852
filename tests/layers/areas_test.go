package layers

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// step is a line of the staircase in shared/README.md, "3  a2a  billing": a number and areas.
var step = regexp.MustCompile(`(?m)^(\d)((?:  +[a-z0-9]+)+)$`)

// areas returns the step of each area of shared/host, as shared/README.md draws them.
func areas(t *testing.T) map[string]int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "shared", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	steps := map[string]int{}
	for _, m := range step.FindAllStringSubmatch(string(b), -1) {
		for _, area := range strings.Fields(m[2]) {
			if _, twice := steps[area]; twice {
				t.Errorf("shared/README.md draws the area %s twice", area)
			}
			steps[area] = int(m[1][0] - '0')
		}
	}
	return steps
}

func TestTheStaircaseHasAllAreas(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join("..", "..", "shared", "host"))
	if err != nil {
		t.Fatal(err)
	}
	steps := areas(t)
	for _, e := range entries {
		if _, ok := steps[e.Name()]; !ok {
			t.Errorf("shared/host/%s is not on the staircase in shared/README.md", e.Name())
		}
		delete(steps, e.Name())
	}
	for area := range steps {
		t.Errorf("shared/README.md draws the area %s, which is not in shared/host", area)
	}
}

// area returns the area of shared/host that a package belongs to.
func area(pkg string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(pkg, module+"shared/host/")
	name, _, _ = strings.Cut(rest, "/")
	return name, ok
}

func TestAnAreaReachesDownOnly(t *testing.T) {
	steps := areas(t)
	for f, im := range imports(t) {
		from, isArea := area(f.pkg)
		to, ok := area(im)
		if isArea && ok && !f.test && to != from && steps[to] >= steps[from] { // a test may import a user of its package
			t.Errorf("%s, of the area %s on step %d, imports %s of step %d", f.path, from, steps[from], im, steps[to])
		}
	}
}
