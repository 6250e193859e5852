package server

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// program writes a shell script and returns its path.
func program(t *testing.T, path, script string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
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

func TestInterruptedInstallIsCompletedByTheNext(t *testing.T) {
	cache := t.TempDir()
	// What a killed install leaves: a folder under the name of the unfinished.
	if err := os.MkdirAll(filepath.Join(cache, "thing-building-1", "half"), 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := once(cache, "thing", "abc", func(dir string) error { return os.WriteFile(filepath.Join(dir, "whole"), nil, 0o644) })
	if err != nil || !present(filepath.Join(got, "whole")) {
		t.Fatalf("once() = %q, %v, want a whole install", got, err)
	}
	if diff := cmp.Diff([]string{"thing-abc", "thing.lock"}, names(t, cache)); diff != "" {
		t.Errorf("the cache (-want +got):\n%s", diff)
	}
}

func TestFailedInstallLeavesNothingThatCountsAsOne(t *testing.T) {
	cache := t.TempDir()
	failure := errors.New("the network is down")
	if _, err := once(cache, "thing", "abc", func(string) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("once() = %v, want the cause", err)
	}
	if diff := cmp.Diff([]string{"thing.lock"}, names(t, cache)); diff != "" {
		t.Errorf("the cache (-want +got):\n%s", diff)
	}
}

func TestManyInstallsAtOnceBuildOnce(t *testing.T) {
	cache := t.TempDir()
	var mu sync.Mutex
	var built int
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			_, err := once(cache, "thing", "abc", func(string) error {
				mu.Lock()
				defer mu.Unlock()
				built++
				return nil
			})
			if err != nil {
				t.Errorf("once() = %v", err)
			}
		})
	}
	wait.Wait()
	if built != 1 {
		t.Errorf("built %d times, want once", built)
	}
}

func TestChangeOfThePluginIsNoChangeOfTheVirtualEnvironment(t *testing.T) {
	source, err := sourceDigest()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := sourceDigest(); again != source || err != nil {
		t.Errorf("sourceDigest() = %s, then %s, %v, want the same", source, again, err)
	}
	if digest([]byte("a lock"), recipe) == digest([]byte("another lock"), recipe) {
		t.Error("two locks have one digest")
	}
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
