package snapshot_test

import (
	"crypto/rand"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/searchtest"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/snapshot"
	"github.com/vacancy-host/vacancy/shared/store/blob/files"
)

func openIndex(t testing.TB, dir string) *bleve.Index {
	t.Helper()
	x, err := bleve.Open(dir)
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	return x
}

// The life of the index of a host on AWS: one process makes it, another
// continues from there.
func TestAnIndexIsPublishedLoadedChangedAndPublishedAgain(t *testing.T) {
	h := newFixture(t)
	entries := searchtest.NewCorpus(7).Entries(300)
	asked := search.Query{Words: []string{"t"}, Limit: 50}
	same := func(x search.Index, want []search.Entry) {
		t.Helper()
		got, err := x.Query(t.Context(), asked)
		if err != nil {
			t.Fatalf("Query() = %v", err)
		}
		if diff := cmp.Diff(searchtest.Scan(want, asked), got, cmpopts.EquateApprox(0, 1e-12), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("Query() is not as a scan says (-scan +index):\n%s", diff)
		}
	}
	var held snapshot.Version
	for round := range 3 {
		s, dir := h.process()
		v, folder, err := s.Load(t.Context())
		if err != nil || !cmp.Equal(v, held) {
			t.Fatalf("Load() = %+v, %v, want %+v", v, err, held)
		}
		if folder == "" {
			folder = dir + "/first"
		}
		x := openIndex(t, folder)
		same(x, entries[:100*round])
		if mark, err := x.Mark(t.Context()); err != nil || mark != held.Manifest.Mark {
			t.Errorf("Mark() = %q, %v, want the manifest's %q", mark, err, held.Manifest.Mark)
		}
		mark := string(rune('a' + round))
		if err := x.Apply(t.Context(), search.Batch{Put: entries[100*round : 100*(round+1)], Mark: mark}); err != nil {
			t.Fatal(err)
		}
		held = h.publish(s, x, v)
		if m := held.Manifest; m.Entries != 100*(round+1) || m.Mark != mark {
			t.Errorf("Publish() = %d entries at %q, want %d at %q", m.Entries, m.Mark, 100*(round+1), mark)
		}
		if err := x.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
}

var cards = flag.Int("cards", 10_000, "entries of the benchmark's index")

// BenchmarkLoad is a process's start before its first search: read the
// manifest, fetch, verify and unpack the archive, open the index and answer.
func BenchmarkLoad(b *testing.B) {
	fixture, err := files.Open(b.TempDir(), time.Now())
	if err != nil {
		b.Fatal(err)
	}
	s := snapshot.New(snapshot.Config{Blobs: fixture, Now: time.Now, Rand: rand.Reader, Dir: b.TempDir()})
	corpus := searchtest.NewCorpus(1)
	x := openIndex(b, b.TempDir())
	for left := *cards; left > 0; left -= 1000 {
		if err := x.Apply(b.Context(), search.Batch{Put: corpus.Entries(min(left, 1000)), Mark: "m"}); err != nil {
			b.Fatal(err)
		}
	}
	began := time.Now()
	v, err := s.Publish(b.Context(), x, snapshot.Version{})
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%d entries, %d MB, published in %v", v.Manifest.Entries, v.Manifest.Size>>20, time.Since(began).Round(time.Millisecond))
	if err := x.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_, dir, err := s.Load(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		x := openIndex(b, dir)
		if found, err := x.Query(b.Context(), search.Query{Limit: 20}); err != nil || len(found) == 0 {
			b.Fatalf("%d found, %v", len(found), err)
		}
		b.StopTimer()
		if err := x.Close(); err != nil {
			b.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
