// Package deployments checks the files that run a host on a server.
package deployments

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli"
)

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSystemdTakesTheUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not on this machine")
	}
	// The unit names an installed program; any that can be executed does.
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "vacancy.service")
	text := strings.ReplaceAll(read(t, "vacancy.service"), "/usr/local/bin/vacancy", program)
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), analyze, "verify", unit).CombinedOutput()
	if err != nil || strings.Contains(string(out), "vacancy.service:") {
		t.Errorf("systemd-analyze verify = %v\n%s", err, out)
	}
}

// The commands in the files have flags that serve has.
func TestTheFilesStartServeWithItsFlags(t *testing.T) {
	var help strings.Builder
	if code := cli.Run(t.Context(), cli.Seams{}, []string{"serve", "--help"}, strings.NewReader(""), &help, &help, []string{"HOME=" + t.TempDir()}); code != 0 {
		t.Fatalf("serve --help = exit %d", code)
	}
	for _, name := range []string{"vacancy.service"} {
		found := 0
		for line := range strings.Lines(read(t, name)) {
			_, args, ok := strings.Cut(line, "vacancy serve ")
			if !ok {
				continue
			}
			for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(args, -1) {
				found++
				if !strings.Contains(help.String(), flag+" ") {
					t.Errorf("%s: serve has no flag %s", name, flag)
				}
			}
		}
		if found == 0 {
			t.Errorf("%s starts no serve", name)
		}
	}
}
