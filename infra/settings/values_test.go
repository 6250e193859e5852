package settings_test

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/vacancy-host/vacancy/infra/settings"
	"github.com/vacancy-host/vacancy/shared/front/setting/settingtest"
)

var update = flag.Bool("update", false, "write the golden file again")

func TestWhatAContextValueMayBe(t *testing.T) {
	got := settingtest.FormatTable(settings.ContextNames(), func(name, text string) error {
		_, err := settings.Read(map[string]any{name: text}, "us-east-1")
		return err
	})
	golden(t, "context.golden", got)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	settingtest.CompareGolden(t, filepath.Join("testdata", name), got, *update)
}
