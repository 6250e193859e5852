// Package deployments tests the systemd units in this directory.
package deployments

import (
	"errors"
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

// One unit is the host, one the host with its agents, and one an agent that watch runs.
func TestSystemdTakesTheUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not on this machine")
	}
	// The units name an installed program; any that can be executed does.
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for unit, files := range map[string][]string{
		"vacancy.service": {"vacancy.service"}, "vacancy.service with agents": {"vacancy.service", "run.conf"}, "vacancy-watch@fox.service": {"vacancy-watch@.service"},
	} {
		dir := t.TempDir()
		unit, _, _ := strings.Cut(unit, " ")
		for _, name := range files {
			to := filepath.Join(dir, name)
			if name == "run.conf" {
				to = filepath.Join(dir, "vacancy.service.d", name)
			}
			text := strings.ReplaceAll(read(t, name), "/usr/local/bin/vacancy", program)
			if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.CommandContext(t.Context(), analyze, "verify", filepath.Join(dir, unit)).CombinedOutput()
		if err != nil || strings.Contains(string(out), unit+":") {
			t.Errorf("systemd-analyze verify %s = %v\n%s", unit, err, out)
		}
	}
}

// The commands in the files have flags that exist.
func TestTheFilesStartCommandsWithTheirFlags(t *testing.T) {
	for name, command := range map[string]string{"vacancy.service": "serve", "run.conf": "serve", "vacancy-watch@.service": "watch"} {
		var help strings.Builder
		if code := cli.Run(t.Context(), cli.Seams{}, []string{command, "--help"}, strings.NewReader(""), &help, &help, []string{"HOME=" + t.TempDir()}); code != 0 {
			t.Fatalf("%s --help = exit %d", command, code)
		}
		found := 0
		for line := range strings.Lines(read(t, name)) {
			_, args, ok := strings.Cut(line, "vacancy "+command+" ")
			if !ok || !strings.HasPrefix(line, "ExecStart=") {
				continue
			}
			for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(args, -1) {
				found++
				if !strings.Contains(help.String(), flag+" ") {
					t.Errorf("%s: %s has no flag %s", name, command, flag)
				}
			}
		}
		if found == 0 {
			t.Errorf("%s starts no %s", name, command)
		}
	}
}
