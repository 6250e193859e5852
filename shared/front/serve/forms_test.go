package serve_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/documents"
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
	"github.com/vacancy-host/vacancy/shared/store"
)

// stepMissing tells how to add a step for a changed form.
const stepMissing = `the form of stored documents changed, and their version is still %d, which programs in use read and write.
Append a step to steps in shared/host/upgrade that brings stored documents to the new form, with its test. If they need
no change, because what is absent has a meaning, append a step without a function whose name says so. Then run this test
with -update. If the program is unchanged and only this test stores more, delete the first line of %s before.
Forms (-before +now):
%s`

// keepsForms fails if the form of a document differs from the golden file, which has the version of the
// documents in its first line, unless the version was raised.
func (whole *documented) keepsForms(t *testing.T) {
	t.Helper()
	const golden = "testdata/forms.golden"
	b, err := os.ReadFile(golden)
	if err != nil && !*update {
		t.Fatal(err)
	}
	was, before, _ := strings.Cut(string(b), "\n")
	version := fmt.Sprintf("version %d", upgrade.CurrentVersion)
	now := whole.forms(t)
	switch diff := gocmp.Diff(strings.Split(before, "\n"), strings.Split(now, "\n")); {
	case diff != "" && was == version:
		t.Errorf(stepMissing, upgrade.CurrentVersion, golden, diff)
	case (diff != "" || was != version) && !*update:
		t.Errorf("run this test with -update; forms of documents, before of %s (-before +now):\n%s", was, diff)
	case *update:
		must(t, os.WriteFile(golden, []byte(version+"\n"+now), 0o644))
	}
}

// forms lists each kind of document: its key, its index, and the members that its documents have.
func (whole *documented) forms(t *testing.T) string {
	t.Helper()
	found := map[string]map[string]bool{}
	for _, d := range whole.store.all(t) {
		kind, ok := documents.Find(d.Key)
		if !ok {
			t.Fatalf("%s is of no kind", d.Key)
		}
		name := fmt.Sprintf("%s: %s/%s", kind.Name, kind.Partition, kind.Sort)
		if kind.Index != "" {
			name += ", index " + kind.Index
		}
		if found[name] == nil {
			found[name] = map[string]bool{}
		}
		if slices.Contains(hashKinds, kind.Name) {
			found[name]["hashes"] = true
			continue
		}
		addForm(found[name], &d)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(found)) {
		b.WriteString(name + "\n")
		for _, line := range slices.Sorted(maps.Keys(found[name])) {
			b.WriteString("  " + line + "\n")
		}
	}
	return b.String()
}

// hashKinds lists the kinds whose documents are ids or hashes without a format in their first byte.
var hashKinds = []string{"reminder of a call", "tile"}

func addForm(lines map[string]bool, d *store.Doc) {
	var object map[string]any
	switch {
	case json.Unmarshal(d.Data, &object) == nil:
		if format, ok := object["format"]; ok {
			lines[fmt.Sprintf("format %v", format)] = true
			delete(object, "format")
		}
		for name, value := range object {
			addMember(lines, name, value)
		}
	case len(d.Data) == 0:
		lines["a number"] = true
	case !utf8.Valid(d.Data) || d.Data[0] < ' ':
		lines[fmt.Sprintf("bytes, the first is %d", d.Data[0])] = true
	default:
		lines["a text"] = true
	}
}

// addMember adds the path and the type of a member and of its own members. Digits in a name become N,
// because the name may be a key of a map.
func addMember(lines map[string]bool, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		lines[path+" object"] = true
		for name, value := range v {
			addMember(lines, path+"."+varying.ReplaceAllString(name, "N"), value)
		}
	case []any:
		lines[path+" array"] = true
		for _, value := range v {
			addMember(lines, path+"[]", value)
		}
	default:
		lines[path+" "+strings.Replace(fmt.Sprintf("%T", v), "float64", "number", 1)] = true
	}
}
