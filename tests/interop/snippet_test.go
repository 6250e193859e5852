package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli"
	"github.com/vacancy-host/vacancy/tests/installed"
)

// vacancyOf runs a command on the host over a directory and returns what it prints.
func vacancyOf(t *testing.T, dir string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	code := cli.Run(context.Background(), cli.Seams{}, append(args, "--data", dir), strings.NewReader(""), &out, &errs, []string{"VACANCY_HOME=" + t.TempDir()})
	if code != 0 {
		t.Fatalf("vacancy %s = exit %d, %s", strings.Join(args, " "), code, errs.Bytes())
	}
	return out.String()
}

// pinned returns the version that the first group of a pattern finds in a file.
func pinned(t *testing.T, file, pattern string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	must(t, err)
	found := regexp.MustCompile(pattern).FindSubmatch(b)
	if found == nil {
		t.Fatalf("%s has no %s", file, pattern)
	}
	return string(found[1])
}

// Each program of "vacancy snippet" is run as it is printed, by the client that its first line
// names, against a free vacant, a paid one with a key and without, and one that fails.
func TestSnippetsRunAsPrinted(t *testing.T) {
	needsLocalHost(t)
	dir := filepath.Join(t.TempDir(), "host")
	hostIn(t, dir, map[string]string{"paid": "echo", "metered": "echo"})
	vacancyOf(t, dir, "account", "open", "acme")
	vacancyOf(t, dir, "credit", "acme", "1", "--key", "invoice-1")
	var key struct{ Secret string }
	if err := json.Unmarshal([]byte(vacancyOf(t, dir, "keys", "create", "acme", "--json")), &key); err != nil || key.Secret == "" {
		t.Fatal("no key", err)
	}
	vacancyOf(t, dir, "price", "paid", "0.002")
	vacancyOf(t, dir, "price", "metered", "0.002", "--free", "10")

	for _, lang := range []struct {
		name, file, install string
		// command prepares a folder and returns how the file is run there.
		command func(t *testing.T, folder string) (dir string, command []string)
	}{
		{"curl", "call.sh", "Needs curl.", func(_ *testing.T, folder string) (string, []string) {
			return folder, []string{"sh", "call.sh"}
		}},
		{"python", "call.py", "pip install a2a-sdk==" + pinned(t, "testdata/python1/requirements.txt", `(?m)^a2a-sdk==(\S+)$`), func(t *testing.T, folder string) (string, []string) {
			return folder, []string{filepath.Join(installed.Python(t, files, "python1"), "env", "bin", "python"), "call.py"}
		}},
		{"js", "call.mjs", "npm install @a2a-js/sdk@" + pinned(t, "testdata/node1/package.json", `"@a2a-js/sdk": "([^"]+)"`), func(t *testing.T, folder string) (string, []string) {
			modules := filepath.Join(installed.Node(t, files, "node1", "@a2a-js", "sdk"), "node_modules")
			must(t, os.Symlink(modules, filepath.Join(folder, "node_modules")))
			return folder, []string{"node", "call.mjs"}
		}},
		{"openai", "call.py", "pip install openai==" + pinned(t, "testdata/pythonopenai/requirements.txt", `(?m)^openai==(\S+)$`), func(t *testing.T, folder string) (string, []string) {
			return folder, []string{filepath.Join(installed.Python(t, files, "pythonopenai"), "env", "bin", "python"), "call.py"}
		}},
		{"go", "main.go", "go get github.com/a2aproject/a2a-go/v2@" + pinned(t, "../../go.mod", `(?m)^\s*github\.com/a2aproject/a2a-go/v2 (\S+)`), func(_ *testing.T, folder string) (string, []string) {
			return ".", []string{"go", "run", filepath.Join(folder, "main.go")} // with this module's client
		}},
	} {
		t.Run(lang.name, func(t *testing.T) {
			run := func(vacant, secret string) (out string, err error) {
				t.Helper()
				folder := t.TempDir()
				program := vacancyOf(t, dir, "snippet", vacant, "--lang", lang.name)
				if first, _, _ := strings.Cut(program, "\n"); !strings.Contains(first, lang.install) {
					t.Errorf("the first line is %q, want it to name %q", first, lang.install)
				}
				must(t, os.WriteFile(filepath.Join(folder, lang.file), []byte(program), 0o600))
				at, command := lang.command(t, folder)
				cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], `it's "me" & $HOME`)...)
				cmd.Dir = at
				cmd.Env = append(os.Environ(), "VACANCY_KEY="+secret)
				var errs bytes.Buffer
				cmd.Stderr = &errs
				b, err := cmd.Output()
				return strings.TrimSpace(string(b) + errs.String()), err
			}
			echoes := regexp.MustCompile(`^echo from [0-9a-f]+: it's "me" & \$HOME$`)
			if out, err := run("echo", ""); err != nil || !echoes.MatchString(out) {
				t.Errorf("the free vacant: %q, %v", out, err)
			}
			if out, err := run("paid", key.Secret); err != nil || !echoes.MatchString(out) {
				t.Errorf("the paid vacant: %q, %v", out, err)
			}
			out, err := run("paid", "")
			if status := new(exec.ExitError); !errors.As(err, &status) || status.ExitCode() != 1 || strings.Contains(strings.TrimSuffix(out, "\nexit status 1"), "\n") || !strings.Contains(out, "key of an account") {
				t.Errorf("without a key: %q, %v; want the refusal in one line", out, err)
			}
			for _, secret := range []string{"", key.Secret} { // a key pays, and without one there are free calls
				if out, err := run("metered", secret); err != nil || !echoes.MatchString(out) {
					t.Errorf("the vacant with free calls, with a key %t: %q, %v", secret != "", out, err)
				}
			}
			if out, err := run("failing", ""); err == nil || !strings.Contains(out, "its agent is overloaded") {
				t.Errorf("the failing vacant: %q, %v; want its reason", out, err)
			}
		})
	}
	if shown := vacancyOf(t, dir, "account", "show", "acme"); !strings.Contains(shown, "$0.98\n") {
		t.Errorf("ten calls of $0.002 were paid: %s", shown)
	}
}
