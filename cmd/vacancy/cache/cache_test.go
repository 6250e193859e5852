package cache_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gofrs/flock"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestTheFolderIsTheOneThatIsSetOrTheUsersOwn(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	user, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ set, want string }{
		{"/elsewhere", "/elsewhere"}, {"below", filepath.Join(here, "below")}, {"", filepath.Join(user, "vacancy")},
	} {
		got, err := cache.Dir(func(name string) string { return map[string]string{"VACANCY_CACHE": test.set}[name] })
		if got != test.want || err != nil {
			t.Errorf("Dir() with VACANCY_CACHE=%s = %q, %v, want %q", test.set, got, err, test.want)
		}
	}
}

func TestWithoutAnyFolderTheErrorNamesTheVariable(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "LocalAppData"} {
		t.Setenv(name, "")
	}
	if _, err := cache.Dir(func(string) string { return "" }); !problem.Is(err, problem.Usage) || !strings.Contains(err.Error(), "VACANCY_CACHE") {
		t.Errorf("Dir() = %v, want Usage that names VACANCY_CACHE", err)
	}
}

// thing is an install that counts how often it is built.
func thing(built *atomic.Int32) cache.Install {
	return cache.Install{Name: "thing", Version: "abc", MarkerFile: filepath.Join("bin", "thing"), Build: func(dir string) error {
		built.Add(1)
		return errors.Join(os.Mkdir(filepath.Join(dir, "bin"), 0o755), os.WriteFile(filepath.Join(dir, "bin", "thing"), nil, 0o644))
	}}
}

func TestManyInstallsAtOnceBuildOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "yet", "there")
	var built atomic.Int32
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if got, err := thing(&built).EnsureIn(t.Context(), dir); got != filepath.Join(dir, "thing-abc") || err != nil {
				t.Errorf("EnsureIn() = %q, %v", got, err)
			}
		})
	}
	wait.Wait()
	if built.Load() != 1 {
		t.Errorf("built %d times, want once", built.Load())
	}
	if diff := cmp.Diff([]string{"thing-abc", "thing.lock"}, names(t, dir)); diff != "" {
		t.Errorf("the cache (-want +got):\n%s", diff)
	}
}

func TestInterruptedOrAlteredInstallIsReplaced(t *testing.T) {
	dir := t.TempDir()
	for _, left := range []string{"thing-building-1/half", "thing-abc/bin"} {
		if err := os.MkdirAll(filepath.Join(dir, left), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var built atomic.Int32
	if _, err := thing(&built).EnsureIn(t.Context(), dir); err != nil || built.Load() != 1 {
		t.Errorf("EnsureIn() = %v after %d builds, want one", err, built.Load())
	}
	if diff := cmp.Diff([]string{"thing-abc", "thing.lock"}, names(t, dir)); diff != "" {
		t.Errorf("the cache (-want +got):\n%s", diff)
	}
}

func TestAFailedInstallLeavesNothingThatCountsAsOne(t *testing.T) {
	failure := errors.New("the network is down")
	for _, test := range []struct {
		name  string
		build error
		want  string
	}{{"it fails", failure, failure.Error()}, {"it makes no program", nil, "thing was installed without its "}} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			i := cache.Install{Name: "thing", Version: "abc", MarkerFile: "program", Build: func(string) error { return test.build }}
			if _, err := i.EnsureIn(t.Context(), dir); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("EnsureIn() = %v, want %q", err, test.want)
			}
			if diff := cmp.Diff([]string{"thing.lock"}, names(t, dir)); diff != "" {
				t.Errorf("the cache (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWaitForAnInstallCanBeCancelled(t *testing.T) {
	dir := t.TempDir()
	lock := flock.New(filepath.Join(dir, "thing.lock"))
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Unlock() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var built atomic.Int32
	if _, err := thing(&built).EnsureIn(ctx, dir); !errors.Is(err, context.Canceled) || built.Load() != 0 {
		t.Errorf("EnsureIn() = %v after %d builds, want the context's end and none", err, built.Load())
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
