package filebook_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/booktest"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/filebook"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var self, target = identity.ID{1}, identity.ID{2}

func TestContract(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "chains")
	booktest.Run(t, func() dispatch.Book { return &filebook.Book{Dir: dir} })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string) dispatch.Session {
	t.Helper()
	s, err := (&filebook.Book{Dir: dir}).Open(t.Context(), self, target)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestFilesAreForTheOwnerOnly(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no mode there")
	}
	dir := filepath.Join(t.TempDir(), "chains")
	s := open(t, dir)
	must(t, s.Save(dispatch.State{Self: self, Target: target}))
	modes := map[string]os.FileMode{}
	err := filepath.Walk(dir, func(p string, st os.FileInfo, err error) error {
		modes[strings.TrimPrefix(strings.TrimPrefix(p, dir), "/"+target.String())] = st.Mode().Perm()
		return err
	})
	must(t, err)
	if d := cmp.Diff(map[string]os.FileMode{"": 0o700, ".json": 0o600, ".lock": 0o600}, modes); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
}

// The temporary file of a dead writer is not read and is not in the way.
func TestCrashBetweenWriteAndRename(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	want := dispatch.State{Self: self, Target: target, LostAnswers: 1}
	must(t, s.Save(want))
	left := filepath.Join(dir, target.String()+".json.next")
	must(t, os.WriteFile(left, []byte(`{"format": 1, half`), 0o600))
	if got, err := s.Load(); err != nil || got.LostAnswers != 1 {
		t.Errorf("Load() = %+v, %v, want the state before", got, err)
	}
	want.LostAnswers = 2
	must(t, s.Save(want))
	if got, err := s.Load(); err != nil || got.LostAnswers != 2 {
		t.Errorf("Load() = %+v, %v, want the new state", got, err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("the half file is still there")
	}
}

func TestFileThatDoesNotReadIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, target.String()+".json")
	foreign := dispatch.State{Self: identity.ID{9}, Target: target}
	newer := strings.Replace(string(foreign.AppendJSON(nil)), `"format": 1`, `"format": 2`, 1)
	for name, data := range map[string]string{"damaged": "{", "empty": "", "of another identity": string(foreign.AppendJSON(nil)), "newer": newer} {
		must(t, os.WriteFile(path, []byte(data), 0o600))
		s := open(t, dir)
		if _, err := s.Load(); !problem.Is(err, problem.Damaged) || !strings.Contains(problem.AsError(err).Text(), path) {
			t.Errorf("%s: Load() = %v, want damaged, naming the file", name, err)
		}
		must(t, s.Close())
		if got, _ := os.ReadFile(path); string(got) != data {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func TestFolderThatCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := (&filebook.Book{Dir: filepath.Join(file, "chains")}).Open(context.Background(), self, target); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Open() = %v, want unavailable", err)
	}
}

func TestAnOpenThatWaitsSaysWhatFor(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	must(t, s.Save(dispatch.State{Self: self, Target: target, LostAnswers: 7}))
	told := 0
	b := &filebook.Book{Dir: dir, OnWait: func(st *dispatch.State) {
		if told++; st.LostAnswers != 7 {
			t.Errorf("Waiting got %+v, want the saved state", st)
		}
	}}
	waits := 0
	b.Wait = func(context.Context, time.Duration) error {
		if waits++; waits == 200 {
			return s.Close()
		}
		return nil
	}
	for range 2 { // the second does not wait
		other, err := b.Open(t.Context(), self, target)
		must(t, err)
		if err := other.Close(); err != nil || told != 1 {
			t.Errorf("Close() = %v after Waiting was called %d times, want once", err, told)
		}
	}
}

func TestTargets(t *testing.T) {
	b := &filebook.Book{Dir: filepath.Join(t.TempDir(), "chains")}
	if got, err := b.Targets(); err != nil || len(got) != 0 {
		t.Errorf("Targets() without a folder = %v, %v", got, err)
	}
	var want []identity.ID
	for n := range byte(3) {
		id := identity.ID{n + 1}
		s, err := b.Open(t.Context(), identity.ID{9}, id)
		must(t, err)
		must(t, s.Save(dispatch.State{Self: identity.ID{9}, Target: id}))
		s.Close()
		want = append(want, id)
	}
	must(t, os.WriteFile(filepath.Join(b.Dir, "notes.json"), nil, 0o600))
	got, err := b.Targets()
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("Targets() = %v (-want +got):\n%s", err, d)
	}
}
