package layers

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	citation = regexp.MustCompile(`(PROTOCOL|shared/README)(?:\s|//)+§(\d+(?:\.\d+)?)(?:(?:\s|//)+([A-G]\d+)\b)?`)
	dialects = regexp.MustCompile(`\b(wire|design|surroundings)(?:\s|//)+§|\bhole \d`)
	heading  = regexp.MustCompile(`(?m)^##+ (\d+(?:\.\d+)?)[. ]`)
	cell     = regexp.MustCompile(`(?m)^\| ([A-G]\d+[^|]*?) \|`)
	label    = regexp.MustCompile(`([A-G])(\d+)(?: to [A-G](\d+))?`)
)

// sections are the numbers that a page can be cited by, and the labels of its
// rows.
func sections(t *testing.T, path string) map[string]bool {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(string(b), -1) {
		known[m[1]] = true
	}
	for _, c := range cell.FindAllStringSubmatch(string(b), -1) {
		for _, m := range label.FindAllStringSubmatch(c[1], -1) {
			first, _ := strconv.Atoi(m[2]) // digits, by the expression
			last := first
			if m[3] != "" {
				last, _ = strconv.Atoi(m[3])
			}
			for n := first; n <= last; n++ {
				known[m[1]+strconv.Itoa(n)] = true
			}
		}
	}
	return known
}

func TestCitationsResolve(t *testing.T) {
	pages := map[string]map[string]bool{
		"PROTOCOL":      sections(t, "shared/vacant/PROTOCOL.md"),
		"shared/README": sections(t, "shared/README.md"),
	}
	count := 0
	for _, f := range source(t) {
		if strings.HasSuffix(f.path, "layers/citations_test.go") {
			continue
		}
		for _, m := range citation.FindAllStringSubmatch(string(f.src), -1) {
			count++
			if !pages[m[1]][m[2]] || m[3] != "" && !pages[m[1]][m[3]] {
				t.Errorf("%s cites %q, which is not there", f.path, m[0])
			}
		}
		for _, m := range dialects.FindAllString(string(f.src), -1) {
			t.Errorf("%s cites %q, a document that is not in the repository", f.path, m)
		}
	}
	if count < 100 {
		t.Errorf("found %d citations, want those of the whole project", count)
	}
}
