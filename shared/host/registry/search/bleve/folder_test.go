package bleve_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/searchtest"
	"github.com/vacancy-host/vacancy/shared/problem"
)

var everything = search.Query{Limit: search.MaxPage}

func fill(t *testing.T, x search.Index, entries []search.Entry, mark string) {
	t.Helper()
	if err := x.Apply(t.Context(), search.Batch{Put: entries, Mark: mark}); err != nil {
		t.Fatalf("Apply() = %v", err)
	}
}

// same checks the contents of an index.
func same(t *testing.T, x search.Index, entries []search.Entry, mark string) {
	t.Helper()
	hits, err := x.Query(t.Context(), everything)
	if err != nil {
		t.Fatalf("Query() = %v", err)
	}
	if diff := cmp.Diff(searchtest.Scan(entries, everything), hits, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Query() (-want +got):\n%s", diff)
	}
	if got, err := x.Mark(t.Context()); err != nil || got != mark {
		t.Errorf("Mark() = %q, %v, want %q", got, err, mark)
	}
}

func TestAFolderIsThereAgainAfterClose(t *testing.T) {
	dir, entries := t.TempDir(), searchtest.NewCorpus(1).NextEntries(50)
	x := open(t, dir)
	fill(t, x, entries, "1")
	if err := x.Close(); err != nil {
		t.Fatalf("Close() = %v", err)
	}
	x = open(t, dir)
	defer x.Close()
	same(t, x, entries, "1")
}

func TestAnAcknowledgedBatchSurvivesACrash(t *testing.T) {
	dir, entries := t.TempDir(), searchtest.NewCorpus(1).NextEntries(60)
	x := open(t, dir)
	defer x.Close()
	for i := range 6 {
		fill(t, x, entries[10*i:10*i+10], fmt.Sprint(i))
		y := open(t, onDisk(t, dir))
		same(t, y, entries[:10*i+10], fmt.Sprint(i))
		if err := y.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
}

// onDisk copies the files of an open index. A file that a merge removes during the copy would still
// exist after a crash.
func onDisk(t *testing.T, dir string) string {
	t.Helper()
	for range 20 {
		crashed := t.TempDir()
		if err := os.CopyFS(crashed, os.DirFS(dir)); err == nil {
			return crashed
		}
	}
	t.Fatal("the folder does not hold still")
	return ""
}

func TestIndexDirectoryIsLocked(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	defer x.Close()
	if _, err := bleve.Open(dir); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Open() of a folder in use = %v, want unavailable", err)
	}
}

func TestAnIndexOfAnotherFormatIsMadeFresh(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	if err := x.SetFormat("0"); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := bleve.Open(dir); !problem.Is(err, problem.Damaged) || !errors.Is(err, bleve.ErrFormat) {
		t.Errorf("Open() = %v, want damaged: of another format", err)
	}
}

func TestADamagedFolderIsNoEmptyIndexWithAMark(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"segments are gone": os.Remove,
		"segments are cut":  func(path string) error { return os.Truncate(path, 100) },
		"segments are nothing": func(path string) error {
			return os.WriteFile(path, bytes.Repeat([]byte{0xff}, 5000), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			x := open(t, dir)
			fill(t, x, searchtest.NewCorpus(1).NextEntries(20), "1")
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			segments, err := filepath.Glob(filepath.Join(dir, "store", "*.zap"))
			if err != nil || len(segments) == 0 {
				t.Fatalf("segments: %v, %v", segments, err)
			}
			for _, s := range segments {
				if err := harm(s); err != nil {
					t.Fatal(err)
				}
			}
			x, err = bleve.Open(dir)
			if problem.Is(err, problem.Damaged) {
				return
			}
			if err != nil {
				t.Fatalf("Open() = %v, want damaged or an index without a mark", err)
			}
			defer x.Close()
			same(t, x, nil, "")
		})
	}
}

// unpack writes an archive's files below a new directory.
func unpack(t *testing.T, archive io.Reader) string {
	t.Helper()
	dir := t.TempDir()
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if err == io.EOF {
			return dir
		}
		if err != nil || h.Typeflag != tar.TypeReg || !filepath.IsLocal(h.Name) {
			t.Fatalf("the archive has %+v, %v", h, err)
		}
		b, err := io.ReadAll(r)
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Join(dir, filepath.Dir(h.Name)), 0o700),
				os.WriteFile(filepath.Join(dir, h.Name), b, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestASnapshotIsTheIndexAsItWas(t *testing.T) {
	entries := searchtest.NewCorpus(1).NextEntries(80)
	for name, x := range map[string]*bleve.Index{"in a folder": open(t, t.TempDir()), "in memory": memory(t)} {
		t.Run(name, func(t *testing.T) {
			defer x.Close()
			fill(t, x, entries[:40], "1")
			fill(t, x, entries[40:60], "2")
			var first, second bytes.Buffer
			if err := x.Snapshot(t.Context(), &first); err != nil {
				t.Fatalf("Snapshot() = %v", err)
			}
			fill(t, x, entries[60:], "3")
			if err := x.Compact(t.Context()); err != nil {
				t.Fatalf("Compact() = %v", err)
			}
			if err := x.Snapshot(t.Context(), &second); err != nil {
				t.Fatalf("Snapshot() = %v", err)
			}
			then, now := open(t, unpack(t, &first)), open(t, unpack(t, &second))
			defer then.Close()
			defer now.Close()
			same(t, then, entries[:60], "2")
			same(t, now, entries, "3")
			// A loaded index accepts further changes.
			fill(t, then, entries[60:], "4")
			same(t, then, entries, "4")
		})
	}
}

func TestASnapshotIsOneStateWhileOthersWrite(t *testing.T) {
	x := open(t, t.TempDir())
	defer x.Close()
	c := searchtest.NewCorpus(1)
	fill(t, x, c.NextEntries(10), "010")
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range 20 {
			if err := x.Apply(context.Background(), search.Batch{Put: c.NextEntries(10), Mark: fmt.Sprintf("%03d", 20+10*i)}); err != nil {
				t.Errorf("Apply() = %v", err)
			}
		}
	})
	defer writer.Wait()
	for range 4 {
		var b bytes.Buffer
		if err := x.Snapshot(t.Context(), &b); err != nil {
			t.Fatalf("Snapshot() = %v", err)
		}
		y := open(t, unpack(t, &b))
		n, err := y.Count(t.Context())
		mark, markErr := y.Mark(t.Context())
		if err != nil || markErr != nil || fmt.Sprintf("%03d", n) != mark {
			t.Errorf("a snapshot has %d entries and the mark %q (%v, %v), want as many as its mark says", n, mark, err, markErr)
		}
		if err := y.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
}

func TestASnapshotThatCannotBeWrittenSaysSo(t *testing.T) {
	x := open(t, t.TempDir())
	defer x.Close()
	fill(t, x, searchtest.NewCorpus(1).NextEntries(30), "1")
	if err := x.Snapshot(t.Context(), &full{room: 4096}); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Snapshot() to a full disk = %v, want unavailable", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.Snapshot(ctx, io.Discard); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Snapshot() cancelled = %v, want unavailable", err)
	}
	if err := x.Snapshot(t.Context(), io.Discard); err != nil {
		t.Errorf("Snapshot() afterwards = %v, want nil", err)
	}
}

// full is a disk with limited space.
type full struct{ room int }

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errors.New("no space left")
	}
	return len(b), nil
}

func memory(t *testing.T) *bleve.Index {
	t.Helper()
	x, err := bleve.OpenMemory()
	if err != nil {
		t.Fatalf("Memory() = %v", err)
	}
	return x
}
