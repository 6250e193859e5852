package cloudindex

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/snapshot"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/files"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// world is a host's feed and bucket, and a clock that the tests set.
type world struct {
	t     *testing.T
	blobs blob.Blobs
	mu    sync.Mutex
	now   time.Time
	rows  []registry.Registration
	down  int // answers of the feed that fail
}

func newWorld(t *testing.T) *world {
	t.Helper()
	blobs, err := files.Open(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, blobs: blobs, now: time.Now().UTC().Truncate(time.Microsecond)}
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// registered adds a vacant with a capability.
func (w *world) registered(skill string) identity.ID {
	w.t.Helper()
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := card.New(key.ID(), skill, []string{"echo"}, "https://example.org")
	if err == nil {
		err = c.Sign(w.t.Context(), key)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows = append(w.rows, registry.Registration{
		ID: key.ID(), Card: c.Blob(), CardHash: c.Hash(), Visibility: lifecycle.Public, State: lifecycle.Active,
		Status: registry.StatusActive, FirstSeq: uint64(len(w.rows) + 1), ChangedAt: w.now, ChangeKey: registry.FormatChangeKey(w.now), DocVersion: 1,
	})
	return key.ID()
}

// Changes implements live.ChangeFeed.
func (w *world) Changes(_ context.Context, since string, _ int, _ string) ([]registry.Registration, string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down > 0 {
		w.down--
		return nil, "", problem.New(problem.Unavailable, "the feed is away")
	}
	var page []registry.Registration
	for _, g := range w.rows {
		if g.ChangeKey >= since {
			page = append(page, g)
		}
	}
	return page, "", nil
}

// process is an instance of a function: its view of the bucket and its index.
func (w *world) process() (*snapshot.Snapshots, *index) {
	dir := w.t.TempDir()
	s := snapshot.New(snapshot.Config{Blobs: w.blobs, Now: w.clock, Rand: rand.Reader, Dir: dir})
	x := newIndex(s, w, dir, w.clock)
	w.t.Cleanup(func() {
		if err := x.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return s, x
}

// index runs an indexer once and returns its result.
func (w *world) index(fresh bool) (string, error) {
	s, x := w.process()
	attrs, err := (&publisher{snapshots: s, index: x, rebuild: fresh}).publish(w.t.Context())
	return slog.GroupValue(attrs...).String(), err
}

func (w *world) indexed(fresh bool) {
	w.t.Helper()
	if _, err := w.index(fresh); err != nil {
		w.t.Fatal(err)
	}
}

// finds are the ids found by a search in x.
func finds(t *testing.T, x *index, skill string) (ids []identity.ID) {
	t.Helper()
	words, err := search.ParseWords(skill)
	if err != nil {
		t.Fatal(err)
	}
	hits, err := x.Query(t.Context(), search.Query{Words: words, Limit: 100})
	if err != nil {
		t.Fatalf("Query() = %v", err)
	}
	for _, h := range hits {
		ids = append(ids, h.ID)
	}
	return ids
}

func refresh(t *testing.T, x *index) {
	t.Helper()
	if err := x.Refresh(t.Context()); err != nil {
		t.Fatalf("Refresh() = %v", err)
	}
}

func TestAnIndexIsTheSnapshotAndWhatChangedSince(t *testing.T) {
	w := newWorld(t)
	first := w.registered("paints")
	w.indexed(false)
	_, x := w.process()
	refresh(t, x)
	if diff := cmp.Diff([]identity.ID{first}, finds(t, x, "paints")); diff != "" {
		t.Errorf("from the snapshot (-want +got):\n%s", diff)
	}
	w.pass(time.Minute)
	second := w.registered("paints")
	refresh(t, x)
	if diff := cmp.Diff([]identity.ID{first, second}, finds(t, x, "paints")); diff != "" {
		t.Errorf("with what changed since (-want +got):\n%s", diff)
	}
	w.indexed(false)
	w.pass(11 * time.Second) // the manifest is read every ten seconds
	before := x.current
	refresh(t, x)
	if x.current == before || x.current.version.Manifest.Entries != 2 || len(finds(t, x, "paints")) != 2 {
		t.Errorf("after ten seconds the index is of %+v, want the newer snapshot", x.current.version)
	}
}

func TestWithoutASnapshotAllIsReadFromTheFeed(t *testing.T) {
	w := newWorld(t)
	_, x := w.process()
	if _, err := x.Query(t.Context(), search.Query{Limit: 1}); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Query() before anything was loaded = %v, want Unavailable", err)
	}
	id := w.registered("sings")
	refresh(t, x)
	if diff := cmp.Diff([]identity.ID{id}, finds(t, x, "sings")); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

// broken puts an archive into the bucket that does not match the manifest.
func (w *world) broken() {
	w.t.Helper()
	s, _ := w.process()
	v, err := s.Latest(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	text := strings.Repeat("x", int(v.Manifest.Size))
	if _, err := w.blobs.Put(w.t.Context(), v.Manifest.Archive, strings.NewReader(text), v.Manifest.Size, blob.Condition{}); err != nil {
		w.t.Fatal(err)
	}
}

func TestADamagedSnapshotLeavesTheIndexAsItWas(t *testing.T) {
	w := newWorld(t)
	first := w.registered("sews")
	w.indexed(false)
	_, x := w.process()
	refresh(t, x)
	w.pass(time.Minute)
	w.registered("sews")
	w.indexed(false)
	w.broken()
	w.pass(11 * time.Second)
	before := x.current.folder
	if err := x.Refresh(t.Context()); !problem.Is(err, problem.Damaged) {
		t.Errorf("Refresh() = %v, want it to say what is damaged", err)
	}
	if got := finds(t, x, "sews"); x.current.folder != before || len(got) != 2 || !slices.Contains(got, first) {
		t.Errorf("found %v in %s, want both in the index that was there", got, x.current.folder)
	}
	w.pass(11 * time.Second)
	refresh(t, x) // the damaged one is not fetched again

	_, fresh := w.process()
	refresh(t, fresh) // reads all from the feed
	if got := finds(t, fresh, "sews"); len(got) != 2 {
		t.Errorf("an instance that starts over a damaged snapshot finds %v, want both", got)
	}
	said, err := w.index(false)
	if err != nil || !strings.Contains(said, "published=true entries=2") {
		t.Errorf("the indexer over a damaged snapshot = %s, %v; want a whole one in its place", said, err)
	}
	w.pass(11 * time.Second)
	refresh(t, x)
}

func TestTheIndexerPublishesWhatChangedAndNothingElse(t *testing.T) {
	w := newWorld(t)
	for _, step := range []struct {
		change, fresh bool
		want          string
	}{
		{false, false, "[published=true entries=0 "}, {false, false, "[published=false]"},
		{true, false, "[published=true entries=1 "}, {false, false, "[published=false]"},
		{false, true, "[published=true entries=1 "},
	} {
		w.pass(time.Minute)
		if step.change {
			w.registered("cooks")
		}
		if said, err := w.index(step.fresh); err != nil || !strings.HasPrefix(said, step.want) {
			t.Errorf("publish() = %s, %v; want %s", said, err, step.want)
		}
	}
}

// The feed has its own rate limit and may refuse a page or two.
func TestTheIndexerWaitsForAFeedThatRefuses(t *testing.T) {
	w := newWorld(t)
	w.registered("waits")
	w.down = 1
	w.indexed(false)
	w.down = 1 << 30
	s, x := w.process()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := (&publisher{snapshots: s, index: x}).publish(ctx); !problem.Is(err, problem.Unavailable) {
		t.Errorf("publish() without a feed = %v, want Unavailable when the time is over", err)
	}
}

func TestTwoIndexersAtOnceLeaveOneWholeIndex(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	var errs [2]error
	for round := range 4 {
		w.pass(time.Minute)
		w.registered(fmt.Sprint("round", round))
		for i := range errs {
			s, x := w.process()
			all.Go(func() { _, errs[i] = (&publisher{snapshots: s, index: x, rebuild: true}).publish(t.Context()) })
		}
		all.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		_, x := w.process()
		refresh(t, x)
		if n := x.current.version.Manifest.Entries; n != round+1 {
			t.Errorf("round %d left an index of %d entries", round, n)
		}
	}
}

// Searches succeed all the time, while the index is replaced.
func TestSearchesGoOnWhileTheIndexIsExchanged(t *testing.T) {
	w := newWorld(t)
	w.registered("goes")
	w.indexed(false)
	_, x := w.process()
	refresh(t, x)
	over := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if err := x.Refresh(t.Context()); err != nil {
					t.Error(err)
					return
				}
				if len(finds(t, x, "goes")) == 0 {
					t.Error("a search found nothing")
					return
				}
			}
		})
	}
	for range 5 {
		w.pass(11 * time.Second)
		w.registered("goes")
		w.indexed(false)
		time.Sleep(20 * time.Millisecond)
	}
	close(over)
	all.Wait()
}
