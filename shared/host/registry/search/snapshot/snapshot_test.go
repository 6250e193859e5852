package snapshot_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry/search/snapshot"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

const manifestKey = snapshot.Prefix + "manifest.json"

func TestPublishedSnapshotIsLoadedByOtherProcesses(t *testing.T) {
	h := newFixture(t)
	s, dir := h.process()
	if v, got := h.loaded(); got != "" || v != (snapshot.Version{}) {
		t.Errorf("Load() of nothing = %+v, %q, want the zero Version", v, got)
	}
	first := h.publish(s, text("first"), snapshot.Version{})
	want := snapshot.Manifest{
		Format: 1, Archive: first.Manifest.Archive, SHA256: first.Manifest.SHA256, Size: first.Manifest.Size,
		Mark: "mark of first", Entries: 5, PublishedAt: h.now.UTC(),
	}
	if diff := cmp.Diff(want, first.Manifest); diff != "" {
		t.Errorf("Publish() (-want +got):\n%s", diff)
	}
	if v, got := h.loaded(); got != "first" || !cmp.Equal(v, first) {
		t.Errorf("Load() = %+v, %q, want %+v, %q", v, got, first, "first")
	}
	second := h.publish(s, text("second"), first)
	if v, got := h.loaded(); got != "second" || !cmp.Equal(v, second) {
		t.Errorf("Load() = %+v, %q, want %+v, %q", v, got, second, "second")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("Publish() left %v, %v in its folder", left, err)
	}
}

func TestOfTwoIndexersOneWinsAndTheOtherBeginsFresh(t *testing.T) {
	h := newFixture(t)
	one, _ := h.process()
	two, _ := h.process()
	base := h.publish(one, text("base"), snapshot.Version{})
	won := h.publish(one, text("one"), base)
	if _, err := two.Publish(t.Context(), text("two"), base); !errors.Is(err, snapshot.ErrOvertaken) {
		t.Fatalf("Publish() over an older version = %v, want ErrOvertaken", err)
	}
	if _, err := two.Publish(t.Context(), text("two"), snapshot.Version{}); !errors.Is(err, snapshot.ErrOvertaken) {
		t.Fatalf("Publish() as the first = %v, want ErrOvertaken", err)
	}
	if v, got := h.loaded(); got != "one" || !cmp.Equal(v, won) {
		t.Errorf("Load() = %+v, %q, want the winner's", v, got)
	}
	if got := h.archives(); len(got) != 2 { // the base's and the winner's
		t.Errorf("archives = %v, want none of the loser's", got)
	}
	v, _, err := two.Load(t.Context())
	must(t, err)
	h.publish(two, text("two"), v)
	if _, got := h.loaded(); got != "two" {
		t.Errorf("Load() = %q, want %q", got, "two")
	}
}

func TestManyIndexersLoseNoUpdate(t *testing.T) {
	h := newFixture(t)
	one, _ := h.process()
	h.publish(one, text("."), snapshot.Version{})
	// The fault counters are not safe for concurrent use.
	direct := h.blobs.Blobs
	var wg sync.WaitGroup
	const indexers, each = 4, 4
	for range indexers {
		dir := t.TempDir()
		wg.Go(func() {
			s := snapshot.New(snapshot.Config{Blobs: direct, Now: time.Now, Rand: random{}, Dir: dir})
			for done := 0; done < each; {
				v, folder, err := s.Load(t.Context())
				if err != nil {
					t.Errorf("Load() = %v", err)
					return
				}
				_, err = s.Publish(t.Context(), text(read(t, folder)+"."), v)
				switch {
				case err == nil:
					done++
				case !errors.Is(err, snapshot.ErrOvertaken):
					t.Errorf("Publish() = %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if _, got := h.loaded(); got != strings.Repeat(".", 1+indexers*each) {
		t.Errorf("%d dots are published, want %d: one for each publication", len(got), 1+indexers*each)
	}
}

// Each request of a publication fails in turn: it is not applied, it is applied but its answer is
// lost, or the process ends after it.
func TestEveryFaultLeavesTheOldIndexOrTheNewOne(t *testing.T) {
	for _, fault := range []struct {
		name          string
		applied, ever bool
	}{{"not applied", false, false}, {"answer lost", true, false}, {"crash before", false, true}, {"crash after", true, true}} {
		t.Run(fault.name, func(t *testing.T) {
			for at := 0; ; at++ {
				h := newFixture(t)
				s, _ := h.process()
				old := h.publish(s, text("old"), snapshot.Version{})
				h.blobs.calls, h.blobs.at, h.blobs.applied, h.blobs.ever = nil, at, fault.applied, fault.ever
				v, err := s.Publish(t.Context(), text("new"), old)
				failed, happened := len(h.blobs.calls) > at, h.blobs.calls
				h.blobs.at = -1
				there, got := h.loaded()
				switch {
				case err == nil && (got != "new" || !cmp.Equal(there, v)):
					t.Errorf("after %v: Publish() = nil and Load() = %q, want %q", happened, got, "new")
				case err != nil && !problem.Is(err, problem.Unavailable):
					t.Errorf("after %v: Publish() = %v, want Unavailable", happened, err)
				case got != "old" && got != "new":
					t.Errorf("after %v: Load() = %q, want the old index or the new one", happened, got)
				}
				// The next process continues, and later all orphans are removed.
				next, _ := h.process()
				h.publish(next, text("next"), there)
				h.now = h.now.Add(2 * time.Hour)
				last, got := h.loaded()
				if got != "next" {
					t.Errorf("after %v: Load() = %q, want %q", happened, got, "next")
				}
				last = h.publish(next, text("last"), last)
				if diff := cmp.Diff([]string{last.Manifest.Archive}, h.archives()); diff != "" {
					t.Errorf("after %v: archives (-want +got):\n%s", happened, diff)
				}
				if !failed {
					break // there is no such request
				}
			}
		})
	}
}

func TestAnArchiveThatNobodyNamesIsRemovedAfterAnHour(t *testing.T) {
	h := newFixture(t)
	s, _ := h.process()
	const orphan = snapshot.Prefix + "0123456789abcdef0123456789abcdef.tar"
	h.write(orphan, []byte("what a crash left"))
	h.write(snapshot.Prefix+"notes.txt", []byte("not ours"))
	v := h.publish(s, text("first"), snapshot.Version{})
	h.now = h.now.Add(59 * time.Minute)
	v = h.publish(s, text("second"), v)
	if !slices.Contains(h.archives(), orphan) || len(h.archives()) != 3 {
		t.Errorf("archives = %v, want none removed within the hour", h.archives())
	}
	h.now = h.now.Add(2 * time.Minute)
	v = h.publish(s, text("third"), v)
	if diff := cmp.Diff([]string{v.Manifest.Archive}, h.archives()); diff != "" {
		t.Errorf("archives (-want +got):\n%s", diff)
	}
	h.body(snapshot.Prefix + "notes.txt")
}

func TestALoaderWhoseArchiveIsReplacedAndSweptLoadsTheNewOne(t *testing.T) {
	h := newFixture(t)
	s, _ := h.process()
	v := h.publish(s, text("old"), snapshot.Version{})
	h.blobs.before = func(call string) {
		if call == "Get "+v.Manifest.Archive {
			h.blobs.before = nil
			h.now = h.now.Add(2 * time.Hour)
			h.publish(s, text("new"), v)
		}
	}
	if _, got := h.loaded(); got != "new" {
		t.Errorf("Load() = %q, want %q", got, "new")
	}
}

func TestAHomeIsAskedOnceInTenSeconds(t *testing.T) {
	h := newFixture(t)
	s, _ := h.process()
	first := h.publish(s, text("first"), snapshot.Version{})
	reader, _ := h.process()
	held, _, err := reader.Load(t.Context())
	must(t, err)
	newer := func(want bool, asked int) {
		t.Helper()
		h.blobs.calls = nil
		got, err := reader.HasNewer(t.Context(), held)
		if err != nil || got != want || len(h.blobs.calls) != asked {
			t.Errorf("HasNewer() = %t, %v with %v, want %t with %d requests", got, err, h.blobs.calls, want, asked)
		}
	}
	newer(false, 0)
	h.publish(s, text("second"), first)
	h.now = h.now.Add(9 * time.Second)
	newer(false, 0)
	h.now = h.now.Add(time.Second)
	newer(true, 1)
	newer(true, 0)
	held, _, err = reader.Load(t.Context())
	must(t, err)
	newer(false, 0)
	h.now = h.now.Add(10 * time.Second)
	newer(false, 1)

	h.now = h.now.Add(10 * time.Second)
	h.blobs.calls, h.blobs.at, h.blobs.ever = nil, 0, true
	if _, err := reader.HasNewer(t.Context(), held); !problem.Is(err, problem.Unavailable) {
		t.Errorf("HasNewer() of a host in trouble = %v, want Unavailable", err)
	}
	newer(false, 0)
	h.blobs.at = -1
	h.now = h.now.Add(-time.Hour) // a clock set back does not delay it by an hour
	newer(false, 1)
}

func TestAnIndexThatCannotBeCopiedPublishesNothing(t *testing.T) {
	h := newFixture(t)
	s, dir := h.process()
	broken := brokenIndex{text("x"), errors.New("the index broke")}
	if _, err := s.Publish(t.Context(), broken, snapshot.Version{}); !errors.Is(err, broken.err) {
		t.Errorf("Publish() = %v, want the index's error", err)
	}
	if _, err := h.blobs.Blobs.Head(t.Context(), manifestKey); !errors.Is(err, blob.ErrAbsent) || len(h.archives()) > 0 {
		t.Errorf("Head(manifest) = %v with archives %v, want none", err, h.archives())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("Publish() left %v, %v in its folder", left, err)
	}
}
