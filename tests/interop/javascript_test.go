package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// javascript is the folder of the JavaScript package.
const javascript = "../../shared/front/web/assets"

// The program in the package's README calls a vacant as it is printed, from Node, with the
// package installed under its name.
func TestTenLinesOfJavaScriptCallAVacant(t *testing.T) {
	needsLocalHost(t)
	readme, err := os.ReadFile(filepath.Join(javascript, "README.md"))
	must(t, err)
	program := regexp.MustCompile("(?s)```js\n(.*?)```").FindSubmatch(readme)
	if program == nil || strings.Count(string(program[1]), "\n") > 10 {
		t.Fatal("the README has no program of at most ten lines")
	}
	folder, err := filepath.Abs(javascript)
	must(t, err)
	dir := t.TempDir()
	scope := filepath.Join(dir, "node_modules", "@vacancy-host")
	must(t, os.MkdirAll(scope, 0o700))
	must(t, os.Symlink(folder, filepath.Join(scope, "vacant")))
	must(t, os.WriteFile(filepath.Join(dir, "call.mjs"), program[1], 0o600))
	url := host(t)
	run := func(vacant string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "node", "call.mjs", url+"/v/"+vacant, `it's "me" & $HOME, 🦊`)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := run("echo"); err != nil || !regexp.MustCompile(`^echo from [0-9a-f]+: it's "me" & \$HOME, 🦊$`).MatchString(out) {
		t.Errorf("echo: %q, %v", out, err)
	}
	if out, err := run("failing"); err == nil || !strings.Contains(out, "the host refused: ") {
		t.Errorf("failing: %q, %v; want the host's reason", out, err)
	}
	if out, err := run("nobody"); err == nil || !strings.Contains(out, "VacantError: expected a text of hexadecimal digits, got undefined") {
		t.Errorf("a vacant that is not there: %q", out)
	}
}
