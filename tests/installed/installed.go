// Package installed installs packages of other ecosystems into the cache, once, for tests.
package installed

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
)

// In is the folder of an install of files' testdata/NAME by commands, which are run in
// it. Where the network or a program is missing the test is skipped: it proves nothing
// of this project then.
func In(t *testing.T, files fs.FS, name, proof string, commands ...[]string) string {
	t.Helper()
	all, err := fs.Sub(files, "testdata/"+name)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	err = fs.WalkDir(all, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(all, path)
		fmt.Fprintf(sum, "%s %d %s", path, len(b), b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := cache.Dir(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	var missing string
	install := cache.Install{Name: "peers-" + name, Version: fmt.Sprintf("%x", sum.Sum(nil)[:6]), MarkerFile: proof, Build: func(folder string) error {
		if err := os.CopyFS(folder, all); err != nil {
			return err
		}
		for _, c := range commands {
			cmd := exec.CommandContext(t.Context(), c[0], c[1:]...)
			cmd.Dir = folder
			if out, err := cmd.CombinedOutput(); err != nil {
				missing = fmt.Sprintf("%s: %v\n%s", strings.Join(c, " "), err, out)
				return err
			}
		}
		return nil
	}}
	folder, err := install.EnsureIn(t.Context(), dir)
	if missing != "" {
		t.Skipf("packages of %s cannot be installed here: %s", name, missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// Python is an install of PyPI packages by requirements.txt, whose interpreter is
// env/bin/python.
func Python(t *testing.T, files fs.FS, name string) string {
	t.Helper()
	return In(t, files, name, filepath.Join("env", "bin", "python"), []string{"python3", "-m", "venv", "env"},
		[]string{filepath.Join("env", "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r", "requirements.txt"})
}

// Node is an install of npm packages by package-lock.json; one of them is proof.
func Node(t *testing.T, files fs.FS, name string, proof ...string) string {
	t.Helper()
	return In(t, files, name, filepath.Join(append([]string{"node_modules"}, proof...)...), []string{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"})
}
