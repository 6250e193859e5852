package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/clitest"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/front/setting/settingtest"
)

// Each command ends at an address that is none, after it has read its other flags.
func TestWhatAFlagOfAHostMayBe(t *testing.T) {
	for _, c := range []struct {
		command, ends string
		args          []string
	}{
		{"serve", "--listen: expected ADDRESS:PORT", []string{"serve", "--public-url", "https://host.example", "--listen", "none"}},
		{"dev", "--listen: expected ADDRESS:PORT", []string{"dev", "--listen", "none"}},
		{"a2a serve", "--port: expected 0 to 65535", []string{"a2a", "serve", "--port", "-1"}},
	} {
		s := newShell(t)
		var flags []string
		for _, row := range setting.Table() {
			if row.HasFlag(c.command) {
				flags = append(flags, row.Flag)
			}
		}
		slices.Sort(flags)
		clitest.CompareGolden(t, "flags/"+strings.ReplaceAll(c.command, " ", "-"), settingtest.FormatTable(flags, func(name, text string) error {
			_, out, errs := s.run("", append(c.args, "--"+name+"="+text)...)
			switch {
			case out != "" || errs == "":
				t.Fatalf("vacancy %s --%s=%q = %q, %q; want no host", c.command, name, text, out, errs)
			case strings.Contains(errs, c.ends):
				return nil
			}
			return errors.New(errs)
		}))
	}
}
