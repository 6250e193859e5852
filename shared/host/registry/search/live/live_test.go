package live_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/live"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// feed is a registry's feed of changes. A late change becomes visible at its earlier position when
// show is called.
type feed struct {
	mu     sync.Mutex
	rows   map[identity.ID]registry.Registration
	hidden []registry.Registration
	keys   []*identity.Key
	now    time.Time
	reads  int
	size   int // of a page, if smaller than asked for
	err    error
	sinces []string
	hold   chan struct{} // while open, a reader waits
	reader chan struct{} // receives when a reader waits
}

func newFeed(t *testing.T, n int) *feed {
	t.Helper()
	f := &feed{rows: make(map[identity.ID]registry.Registration), now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), reader: make(chan struct{}, 1)}
	random := rand.NewChaCha8([32]byte{1})
	for range n {
		key, err := identity.NewKey(random)
		if err != nil {
			t.Fatal(err)
		}
		f.keys = append(f.keys, key)
	}
	return f
}

func (f *feed) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *feed) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

// make returns a registration of vacant i that was changed now.
func (f *feed) make(t *testing.T, i int, change func(*registry.Registration)) registry.Registration {
	t.Helper()
	key := f.keys[i]
	c, err := card.New(key.ID(), fmt.Sprintf("does things number%d", i), []string{"echo"}, "https://example.org")
	if err == nil {
		err = c.Sign(t.Context(), key)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	g := registry.Registration{
		ID: key.ID(), Card: c.Blob(), CardHash: c.Hash(), Visibility: lifecycle.Public, State: lifecycle.Active,
		Status: registry.StatusActive, FirstSeq: uint64(i + 1), ChangedAt: f.now, ChangeKey: registry.FormatChangeKey(f.now),
		DocVersion: f.rows[key.ID()].DocVersion + 1,
	}
	if change != nil {
		change(&g)
	}
	return g
}

func (f *feed) put(t *testing.T, i int, change func(*registry.Registration)) {
	t.Helper()
	g := f.make(t, i, change)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows[g.ID] = g
}

// late hides a change until show is called.
func (f *feed) late(t *testing.T, i int) {
	t.Helper()
	f.hidden = append(f.hidden, f.make(t, i, nil))
}

func (f *feed) show() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.hidden {
		f.rows[g.ID] = g
	}
	f.hidden = nil
}

func (f *feed) Changes(_ context.Context, since string, n int, cursor string) ([]registry.Registration, string, error) {
	if f.hold != nil {
		f.reader <- struct{}{}
		<-f.hold
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	f.sinces = append(f.sinces, since)
	if f.err != nil {
		return nil, "", f.err
	}
	if f.size > 0 {
		n = f.size
	}
	place := func(g registry.Registration) string { return g.ChangeKey + g.ID.String() }
	var page []registry.Registration
	for _, g := range f.rows {
		if g.ChangeKey >= since && place(g) > cursor {
			page = append(page, g)
		}
	}
	slices.SortFunc(page, func(a, b registry.Registration) int {
		if place(a) < place(b) {
			return -1
		}
		return 1
	})
	if len(page) <= n {
		return page, "", nil
	}
	return page[:n], place(page[n-1]), nil
}

// waitForReader waits until a held feed is read.
func (f *feed) waitForReader() { <-f.reader }

// counting counts the writes to an index.
type counting struct {
	search.Index
	put, removed int
	fail         error
}

func (x *counting) Apply(ctx context.Context, b search.Batch) error {
	if x.fail != nil {
		return x.fail
	}
	x.put += len(b.Put)
	x.removed += len(b.Remove)
	return x.Index.Apply(ctx, b)
}

func newIndex(t *testing.T) *counting {
	t.Helper()
	x, err := bleve.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return &counting{Index: x}
}

func found(t *testing.T, x search.Index) (joined []int) {
	t.Helper()
	hits, err := x.Query(t.Context(), search.Query{Limit: search.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hits {
		joined = append(joined, int(h.FirstSeq))
	}
	return joined
}

func want(t *testing.T, x search.Index, joined ...int) {
	t.Helper()
	if diff := cmp.Diff(joined, found(t, x)); diff != "" {
		t.Errorf("the index (-want +got):\n%s", diff)
	}
}

func catchUp(t *testing.T, l *live.Live) {
	t.Helper()
	if err := l.CatchUp(t.Context()); err != nil {
		t.Fatalf("CatchUp() = %v", err)
	}
}

func TestAnIndexFollowsTheRegistry(t *testing.T) {
	f, x := newFeed(t, 5), newIndex(t)
	f.size = 2
	l := live.New(x, f, f.clock)
	for i := range 5 {
		f.put(t, i, nil)
	}
	catchUp(t, l)
	want(t, x, 1, 2, 3, 4, 5)
	f.pass(time.Minute)
	f.put(t, 1, func(g *registry.Registration) { g.Visibility = lifecycle.Hidden })
	f.put(t, 2, func(g *registry.Registration) { g.State = lifecycle.Hibernating })
	f.put(t, 3, func(g *registry.Registration) { g.Status = registry.StatusRevoked })
	catchUp(t, l)
	want(t, x, 1, 5)
	f.pass(time.Minute)
	f.put(t, 2, nil)
	catchUp(t, l)
	want(t, x, 1, 3, 5)
}

func TestARegistrationThatDoesNotReadStopsNobody(t *testing.T) {
	f, x := newFeed(t, 3), newIndex(t)
	f.put(t, 0, nil)
	f.put(t, 1, func(g *registry.Registration) { g.Card = []byte("no card") })
	f.put(t, 2, nil)
	catchUp(t, live.New(x, f, f.clock))
	want(t, x, 1, 3)
}

func TestTheRegistryIsAskedOnceASecondAtMost(t *testing.T) {
	f, x := newFeed(t, 1), newIndex(t)
	f.put(t, 0, nil)
	l := live.New(x, f, f.clock)
	for _, c := range []struct {
		pass  time.Duration
		reads int
	}{{0, 1}, {0, 1}, {999 * time.Millisecond, 1}, {time.Millisecond, 2}, {500 * time.Millisecond, 2}, {500 * time.Millisecond, 3}} {
		f.pass(c.pass)
		if err := l.Refresh(t.Context()); err != nil {
			t.Fatalf("Refresh() = %v", err)
		}
		if f.reads != c.reads {
			t.Errorf("after %v more the feed was read %d times, want %d", c.pass, f.reads, c.reads)
		}
	}
}

func TestManySearchesRefreshOnce(t *testing.T) {
	f, x := newFeed(t, 1), newIndex(t)
	f.put(t, 0, nil)
	l := live.New(x, f, f.clock)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if err := l.Refresh(t.Context()); err != nil {
				t.Errorf("Refresh() = %v", err)
			}
		})
	}
	all.Wait()
	if f.reads != 1 {
		t.Errorf("50 searches read the feed %d times, want 1", f.reads)
	}
	want(t, x, 1)
}

func TestAChangeThatBecomesVisibleLateIsNotLost(t *testing.T) {
	f, x := newFeed(t, 3), newIndex(t)
	l := live.New(x, f, f.clock)
	f.put(t, 0, nil)
	f.late(t, 1)
	f.pass(live.ReadOverlap - time.Second)
	f.put(t, 2, nil)
	catchUp(t, l)
	want(t, x, 1, 3)
	f.show()
	catchUp(t, l)
	want(t, x, 1, 2, 3)
}

func TestUnchangedDocumentsAreNotIndexedAgain(t *testing.T) {
	f, x := newFeed(t, 4), newIndex(t)
	l := live.New(x, f, f.clock)
	for i := range 4 {
		f.put(t, i, nil)
	}
	for range 5 {
		catchUp(t, l)
		f.pass(time.Second)
	}
	if x.put != 4 || x.removed != 0 {
		t.Errorf("5 refreshes put %d and removed %d, want 4 and 0", x.put, x.removed)
	}
	f.put(t, 2, nil)
	catchUp(t, l)
	if x.put != 5 {
		t.Errorf("one change put %d, want 1", x.put-4)
	}
}

func TestANewProcessGoesOnFromTheMark(t *testing.T) {
	f, x := newFeed(t, 3), newIndex(t)
	f.put(t, 0, nil)
	f.pass(time.Hour)
	f.put(t, 1, nil)
	catchUp(t, live.New(x, f, f.clock))
	f.pass(time.Minute)
	f.put(t, 2, nil)
	catchUp(t, live.New(x, f, f.clock))
	want(t, x, 1, 2, 3)
	if diff := cmp.Diff([]string{"", registry.ChangeKeyBefore(registry.FormatChangeKey(f.now.Add(-time.Minute)), live.ReadOverlap)}, f.sinces); diff != "" {
		t.Errorf("the feed was read from (-want +got):\n%s", diff)
	}
	if x.put != 4 {
		t.Errorf("%d were put, want 3, and 1 again in the overlap", x.put)
	}
}

func TestAFailureLeavesTheMarkBehindWhatIsMissing(t *testing.T) {
	f, x := newFeed(t, 2), newIndex(t)
	f.size = 1
	l := live.New(x, f, f.clock)
	f.put(t, 0, nil)
	f.pass(time.Hour)
	f.put(t, 1, nil)
	broken := errors.New("no disk")
	for _, c := range []struct {
		feed, index error
	}{{broken, nil}, {nil, broken}} {
		f.err, x.fail = c.feed, c.index
		if err := l.CatchUp(t.Context()); !errors.Is(err, broken) {
			t.Errorf("CatchUp() = %v, want %v", err, broken)
		}
		if mark, err := x.Mark(t.Context()); err != nil || mark != "" {
			t.Errorf("Mark() = %q, %v, want none", mark, err)
		}
	}
	f.err, x.fail = nil, nil
	if err := l.Refresh(t.Context()); err != nil { // a failure is not counted as a refresh
		t.Fatalf("Refresh() = %v", err)
	}
	want(t, x, 1, 2)
}

func TestAWaitForTheIndexEndsWithItsContext(t *testing.T) {
	f, x := newFeed(t, 1), newIndex(t)
	l := live.New(x, f, f.clock)
	held := make(chan struct{})
	f.hold = held
	var first sync.WaitGroup
	first.Go(func() { catchUp(t, l) })
	f.waitForReader()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Refresh(ctx); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Refresh() while another is at it = %v, want unavailable", err)
	}
	close(held)
	first.Wait()
}

func TestOldEventsAreNotReadTwice(t *testing.T) {
	f, x := newFeed(t, 3), newIndex(t)
	l := live.New(x, f, f.clock)
	for i := range 3 {
		f.put(t, i, nil)
	}
	catchUp(t, l)
	f.pass(live.ReadOverlap + time.Second)
	catchUp(t, l)
	f.pass(time.Second)
	catchUp(t, l)
	last := f.sinces[len(f.sinces)-1]
	if changed := registry.FormatChangeKey(f.now.Add(-live.ReadOverlap - 2*time.Second)); last <= changed {
		t.Errorf("the feed is read from %s, and nothing has changed since %s", last, changed)
	}
}

func TestAClockThatIsAheadHidesNobody(t *testing.T) {
	f, x := newFeed(t, 4), newIndex(t)
	f.pass(time.Hour)
	f.put(t, 0, nil)
	f.pass(-time.Hour)
	for _, l := range []*live.Live{live.New(x, f, f.clock), live.New(x, f, f.clock)} {
		catchUp(t, l)
	}
	f.put(t, 1, nil)
	l := live.New(x, f, f.clock)
	catchUp(t, l)
	want(t, x, 1, 2)
	f.pass(time.Minute)
	f.put(t, 2, nil)
	catchUp(t, l)
	want(t, x, 1, 2, 3)
	f.put(t, 0, func(g *registry.Registration) {
		g.Visibility, g.ChangeKey = lifecycle.Hidden, registry.FormatChangeKey(f.now.Add(59*time.Minute))
	})
	catchUp(t, l)
	want(t, x, 2, 3)
}

func TestASearchDoesNotWaitForARefreshOfAnIndexThatIsYoung(t *testing.T) {
	f, x := newFeed(t, 1), newIndex(t)
	f.put(t, 0, nil)
	l := live.New(x, f, f.clock)
	catchUp(t, l)
	f.pass(2 * time.Second)
	f.hold = make(chan struct{})
	var other sync.WaitGroup
	other.Go(func() {
		if err := l.Refresh(t.Context()); err != nil {
			t.Errorf("Refresh() = %v", err)
		}
	})
	f.waitForReader()
	if err := l.Refresh(t.Context()); err != nil { // otherwise it would wait for ever
		t.Errorf("Refresh() while another is at it = %v, want nil", err)
	}
	close(f.hold)
	other.Wait()
}

func TestRebuildReadsAllFresh(t *testing.T) {
	f, x := newFeed(t, 7), newIndex(t)
	f.size = 3
	for i := range 7 {
		f.put(t, i, nil)
		f.pass(time.Hour)
	}
	f.put(t, 6, func(g *registry.Registration) { g.Visibility = lifecycle.Hidden })
	var steps []live.Progress
	err := live.Rebuild(t.Context(), x, f, f.clock, func(p live.Progress) { steps = append(steps, p) })
	if err != nil {
		t.Fatalf("Rebuild() = %v", err)
	}
	want(t, x, 1, 2, 3, 4, 5, 6)
	if diff := cmp.Diff([]live.Progress{{Registrations: 3, Listed: 3}, {Registrations: 6, Listed: 6}, {Registrations: 7, Listed: 6}}, steps); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	catchUp(t, live.New(x, f, f.clock)) // continues from there
	if got := f.sinces[len(f.sinces)-1]; got == "" {
		t.Error("after Rebuild() the feed is read from its beginning")
	}
}
