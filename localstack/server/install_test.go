package server

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// program writes a shell script and returns its path.
func program(t *testing.T, path, script string) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	return path
}

const (
	works = "echo 3.13"
	shim  = "echo 'pyenv: python3.13: command not found' >&2; exit 127"
)

func TestPythonIsFoundOnThePathThenOfPyenvThenOfUv(t *testing.T) {
	for _, test := range []struct {
		name    string
		scripts map[string]string
		want    string
	}{
		{"on the path", map[string]string{"bin/python3.13": works, "pyenv/versions/3.13.0/bin/python3.13": works}, "bin/python3.13"},
		{"a shim for a version not chosen", map[string]string{"bin/python3.13": shim, "pyenv/versions/3.13.0/bin/python3.13": works}, "pyenv/versions/3.13.0/bin/python3.13"},
		{"the newest of pyenv", map[string]string{"pyenv/versions/3.13.0/bin/python3.13": works, "pyenv/versions/3.13.5/bin/python3.13": works}, "pyenv/versions/3.13.5/bin/python3.13"},
		{"of uv", map[string]string{"uv/cpython-3.13.1-linux/bin/python3.13": works}, "uv/cpython-3.13.1-linux/bin/python3.13"},
		{"none that runs", map[string]string{"bin/python3.13": shim, "uv/cpython-3.13.1-linux/bin/python3.13": "echo 3.12"}, ""},
		{"none", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("PATH", filepath.Join(dir, "bin"))
			t.Setenv("PYENV_ROOT", filepath.Join(dir, "pyenv"))
			t.Setenv("UV_PYTHON_INSTALL_DIR", filepath.Join(dir, "uv"))
			for path, script := range test.scripts {
				program(t, filepath.Join(dir, path), script)
			}
			got, err := findPython(t.Context())
			if test.want == "" {
				if !problem.Is(err, problem.NotFound) || !strings.Contains(err.Error(), "pyenv install 3.13") {
					t.Errorf("findPython() = %q, %v, want NotFound that says how to get it", got, err)
				}
				return
			}
			if want := filepath.Join(dir, test.want); got != want || err != nil {
				t.Errorf("findPython() = %q, %v, want %q", got, err, want)
			}
		})
	}
}

func TestInstallNamesAMissingJavaFirst(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("JAVA_HOME", "")
	_, err := Install(t.Context(), t.TempDir(), io.Discard)
	if !problem.Is(err, problem.NotFound) || !strings.Contains(err.Error(), "java") {
		t.Errorf("Install() = %v, want NotFound that names java", err)
	}
}

func TestChangeOfThePluginIsNoChangeOfTheVirtualEnvironment(t *testing.T) {
	source, err := sourceDigest()
	must(t, err)
	if again, err := sourceDigest(); again != source || err != nil {
		t.Errorf("sourceDigest() = %s, then %s, %v, want the same", source, again, err)
	}
	if digest([]byte("a lock"), pipArgs) == digest([]byte("another lock"), pipArgs) {
		t.Error("two locks have one digest")
	}
}
