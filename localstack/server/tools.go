package server

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// findPython returns a working Python 3.13, because LocalStack's last free release fails on 3.12
// and older.
func findPython(ctx context.Context) (string, error) {
	for _, path := range pythonCandidates() {
		out, err := exec.CommandContext(ctx, path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").Output()
		// pyenv's shims fail for versions that are not selected.
		if err == nil && strings.TrimSpace(string(out)) == "3.13" {
			return path, nil
		}
	}
	return "", problem.New(problem.NotFound, "LocalStack needs Python 3.13, which was not found on the path, in pyenv or in uv: "+
		"get it with pyenv install 3.13, or uv python install 3.13, or your system's package python3.13 with python3.13-venv")
}

func pythonCandidates() []string {
	var paths []string
	if path, err := exec.LookPath("python3.13"); err == nil {
		paths = append(paths, path)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = string(filepath.Separator)
	}
	pyenv := orElse(os.Getenv("PYENV_ROOT"), filepath.Join(home, ".pyenv"))
	uv := orElse(os.Getenv("UV_PYTHON_INSTALL_DIR"), filepath.Join(orElse(os.Getenv("XDG_DATA_HOME"), filepath.Join(home, ".local", "share")), "uv", "python"))
	for _, pattern := range []string{
		filepath.Join(pyenv, "versions", "3.13*", "bin", "python3.13"),
		filepath.Join(uv, "cpython-3.13*", "bin", "python3.13"),
	} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			continue // a path with a bracket is an invalid pattern
		}
		slices.Reverse(matches)
		paths = append(paths, matches...)
	}
	return paths
}

func findJava() (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		if path, err := exec.LookPath(filepath.Join(home, "bin", "java")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("java")
	if err != nil {
		return "", problem.New(problem.NotFound, "DynamoDB Local needs java, a JDK of version 17 or newer (Debian: apt-get install openjdk-17-jdk-headless)")
	}
	return path, nil
}

func orElse(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
