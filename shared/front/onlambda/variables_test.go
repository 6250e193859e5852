package onlambda

import (
	"flag"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/front/setting/settingtest"
)

var update = flag.Bool("update", false, "write the golden file again")

// readerOf is a function that reads a variable.
func readerOf(t *testing.T, name string) functions.Function {
	t.Helper()
	env := full()
	env[name] = "\x00"
	for _, f := range functions.All() {
		if _, err := read(f, env); err != nil {
			return f
		}
	}
	t.Fatalf("no function reads %s", name)
	return functions.Function{}
}

func TestWhatAVariableMayBe(t *testing.T) {
	names := append(slices.Collect(maps.Keys(full())), "VACANCY_PAGE_READS", "VACANCY_GATEWAY_URL")
	for _, row := range setting.Table() {
		if row.Variable != "" {
			names = append(names, row.Variable)
		}
	}
	// Of secrets only the lengths are shown: TestEachVariableThatIsWrongIsNamed has those.
	names = slices.DeleteFunc(names, func(name string) bool { return strings.Contains(name, "SECRET") || name == "VACANCY_SEAL_KEY" })
	slices.Sort(names)
	names = slices.Compact(names)
	got := settingtest.FormatTable(names, func(name, text string) error {
		env := full()
		env[name] = text
		_, err := read(readerOf(t, name), env)
		return err
	})
	settingtest.CompareGolden(t, filepath.Join("testdata", "variables.golden"), got, *update)
}
