package settings_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/infra/settings"
	"github.com/vacancy-host/vacancy/shared/front/setting/settingtest"
)

var update = flag.Bool("update", false, "write the golden file again")

func TestWhatAContextValueMayBe(t *testing.T) {
	got := settingtest.Table(settings.Names(), func(name, text string) error {
		_, err := settings.Read(map[string]any{name: text})
		return err
	})
	path := filepath.Join("testdata", "context.golden")
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
		t.Errorf("context values (-want +got):\n%s", diff)
	}
}
