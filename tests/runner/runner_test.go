package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func names(stages []stage) (names []string) {
	for _, s := range stages {
		names = append(names, s.name)
	}
	return names
}

func TestStagesRunInTheirOrderAndAreChosenByName(t *testing.T) {
	want := []string{"format", "vet", "lint", "zips", "unit", "e2e", "web", "fuzz", "release", "infra", "aws", "interop", "store", "search", "faults"}
	all, err := choose(deep, nil)
	if got := names(all); err != nil || !slices.Equal(got, want) {
		t.Errorf("choose(deep) = %v, %v, want %v", got, err, want)
	}
	all, err = choose(sample, nil)
	want = slices.DeleteFunc(want, func(name string) bool { return name == "fuzz" || name == "release" })
	if got := names(all); err != nil || !slices.Equal(got, want) {
		t.Errorf("choose(sample) = %v, %v, want %v: a default run neither fuzzes nor builds a release", got, err, want)
	}
	some, err := choose(sample, []string{"unit", "format"})
	if got := names(some); err != nil || !slices.Equal(got, []string{"format", "unit"}) {
		t.Errorf("choose(unit, format) = %v, %v, want both in their order", got, err)
	}
	if _, err := choose(sample, []string{"unit", "nosuch"}); err == nil || !strings.Contains(err.Error(), "nosuch") || !strings.Contains(err.Error(), "fuzz") {
		t.Errorf("choose(nosuch) = %v, want an error with it and the stages there are", err)
	}
}

func TestEveryTestCountsOnceAndABrokenPackageFails(t *testing.T) {
	var c counts
	for _, e := range []event{
		{Action: "pass", Test: "A"}, {Action: "pass", Test: "A/one"}, {Action: "pass"},
		{Action: "fail", Test: "B"}, {Action: "fail"}, {Action: "skip", Test: "C"}, {Action: "skip"},
	} {
		c.count(e)
	}
	_ = c.one(nil)
	_ = c.one(errors.New("no"))
	if got, want := c.String(), "3 passed, 3 failed, 1 skipped"; got != want {
		t.Errorf("counts = %q, want %q", got, want)
	}
}

// program puts a shell script on an otherwise empty PATH.
func program(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
}

func TestAToolIsFoundMissingOrTooOld(t *testing.T) {
	program(t, "tool", `echo 'tool 7.81.2 (some build)'`)
	for _, tt := range []struct {
		name  string
		least version
		ok    bool
	}{{"tool", version{}, true}, {"tool", version{7, 81}, true}, {"tool", version{7, 82}, false}, {"tool", version{8, 0}, false}, {"absent", version{}, false}} {
		if found, ok := (tool{name: tt.name, least: tt.least, ask: []string{"--version"}}).found(t.Context()); ok != tt.ok {
			t.Errorf("%s, wanted %s: %q, %t, want %t", tt.name, tt.least, found, ok, tt.ok)
		}
	}
	program(t, "tool", "exit 3")
	if found, ok := (tool{name: "tool", ask: []string{"--version"}}).found(t.Context()); ok {
		t.Errorf("a tool that does not start is found: %q", found)
	}
}

func TestTestsThatHangEndWithTheirGoroutines(t *testing.T) {
	hangs := func() (string, error) {
		var c counts
		var err error
		out := printed(t, func() { err = goTest(t.Context(), &c, "-count=1", "./testdata/hangs") })
		return out, err
	}
	// The first run only compiles: its test hangs if it finds the variable.
	if out, err := hangs(); err != nil {
		t.Fatalf("goTest() = %v\n%s", err, out)
	}
	t.Setenv("VACANCY_TEST_HANGS", "1")
	before := silence
	defer func() { silence = before }()
	silence = 3 * time.Second
	out, err := hangs()
	if err == nil || !strings.Contains(err.Error(), "hang") || !strings.Contains(out, "waitForever") {
		t.Errorf("goTest() = %v\n%s\nwant an error, and the goroutine in waitForever", err, out)
	}
}

func TestPackagesAreTestedAgainIfTheRaceDetectorCrashed(t *testing.T) {
	for name, tt := range map[string]struct{ crashes, fails, err, counts string }{
		"never":            {counts: "3 passed, 0 failed, 0 skipped"},
		"once":             {crashes: "once", counts: "4 passed, 0 failed, 0 skipped"},
		"once, then fails": {crashes: "once", fails: "1", err: "2 failures", counts: "3 passed, 2 failed, 0 skipped"},
		"always":           {crashes: "always", err: "crashed twice", counts: "2 passed, 1 failed, 0 skipped"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.crashes == "once" {
				tt.crashes = filepath.Join(t.TempDir(), "crashed")
			}
			t.Setenv("VACANCY_TEST_CRASHES", tt.crashes)
			t.Setenv("VACANCY_TEST_FAILS", tt.fails)
			var c counts
			var err error
			out := printed(t, func() { err = goTest(t.Context(), &c, "-count=1", "./testdata/crashes") })
			if (err != nil) != (tt.err != "") || !strings.Contains(fmt.Sprint(err), tt.err) || c.String() != tt.counts {
				t.Errorf("goTest() = %v, %s, want %q, %s\n%s", err, c, tt.err, tt.counts, out)
			}
		})
	}
}

// printed returns what f prints.
func printed(t *testing.T, f func()) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = file
	f()
	os.Stdout = stdout
	b, err := os.ReadFile(file.Name())
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// shown returns the output of a run and its exit code.
func shown(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	out = printed(t, func() { code = run(t.Context(), args) })
	return out, code
}

func TestAMissingToolFailsBeforeAnyWork(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no tools, and no package manager
	out, code := shown(t, "format")
	if code == 0 || !strings.HasSuffix(out, "\n0 passed, 1 failed, 0 skipped\n") {
		t.Errorf("run() = %d\n%s\nwant a failure with the count as the last line", code, out)
	}
	if strings.Contains(out, "== format") || !strings.Contains(out, "curl") || !strings.Contains(out, "missing") {
		t.Errorf("run() printed\n%s\nwant the table with what is missing, and no stage begun", out)
	}
}

// What does not compile on another system is found on this one.
func TestTypesAreCheckedForOtherSystems(t *testing.T) {
	for system, want := range map[string]string{"linux": "", "windows": "cannot use system"} {
		env := []string{"GOOS=" + system, "GOARCH=amd64", "CGO_ENABLED=0"}
		err := checkTypes(t.Context(), env, "amd64", []string{"./testdata/otherwise"})
		if got := fmt.Sprint(err); (err != nil) != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: %v, want %q", system, err, want)
		}
	}
}
