package callstats_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/callstats"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var (
	start = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

	parent, child, sibling, grandchild, stranger = identity.ID{1}, identity.ID{2}, identity.ID{3}, identity.ID{4}, identity.ID{5}
)

// fixture is a store whose commits a test can make fail, with a clock.
type fixture struct {
	store.Store
	mu      sync.Mutex
	time    time.Time
	commits int
	fault   func(commit func() error) error
	reads   int
	away    bool
}

// newFixture observes the child from start and sets the clock to an hour later.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	h := &fixture{Store: memory.New(), time: start}
	h.observer().Observe(t.Context(), h.seen(parent, 1))
	h.pass(time.Hour)
	h.commits = 0
	return h
}

func (h *fixture) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.time
}

func (h *fixture) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.time = h.time.Add(d)
}

func (h *fixture) Commit(ctx context.Context, w ...store.Write) error {
	h.mu.Lock()
	h.commits++
	fault := h.fault
	h.mu.Unlock()
	if fault == nil {
		return h.Store.Commit(ctx, w...)
	}
	return fault(func() error { return h.Store.Commit(ctx, w...) })
}

// Manifest returns the manifests of a family: a parent of two children, one of which has a child.
func (h *fixture) Manifest(_ context.Context, id identity.ID) (registry.ManifestDocument, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reads++
	of, ok := map[identity.ID]identity.ID{child: parent, sibling: parent, grandchild: child}[id]
	if h.away {
		return registry.ManifestDocument{}, false, problem.New(problem.Unavailable, "away")
	}
	return registry.ManifestDocument{Manifest: composite.Manifest{ParentID: of, ChildID: id}}, ok, nil
}

func (h *fixture) observer() *callstats.Observer {
	return callstats.New(callstats.Config{Store: h, Manifests: h, Now: h.now, Rand: rand.Reader})
}

// seen returns an observation of the child's answer to a caller.
func (h *fixture) seen(caller identity.ID, position uint64) call.Observation {
	return call.Observation{Pair: call.Pair{Caller: caller, Vacant: child}, Parent: &parent, Position: position, Time: h.now()}
}

// total returns the recorded number of calls from outside the tree a week later.
func (h *fixture) total(t *testing.T) (sum float64, refs int) {
	t.Helper()
	c, err := callstats.Read(t.Context(), h.Store, child)
	if err != nil {
		t.Fatal(err)
	}
	series, _ := c.Activity(start.Add(callstats.MaxHours * time.Hour)) // from the hour after start on
	for _, n := range series {
		sum += n
	}
	return sum, len(c.References())
}

func TestOnlyCallsFromOutsideTheTreeCount(t *testing.T) {
	for _, tt := range []struct {
		name         string
		caller       identity.ID
		counts, refs int
	}{
		{"the parent", parent, 0, 0}, {"a sibling", sibling, 0, 1}, {"its own child", grandchild, 0, 1}, {"a stranger", stranger, 1, 1},
	} {
		h := newFixture(t)
		h.observer().Observe(t.Context(), h.seen(tt.caller, 7))
		if sum, refs := h.total(t); sum != float64(tt.counts) || refs != tt.refs {
			t.Errorf("%s: %v calls and %d references, want %d and %d", tt.name, sum, refs, tt.counts, tt.refs)
		}
	}
	h := newFixture(t)
	h.away = true
	h.observer().Observe(t.Context(), h.seen(stranger, 1))
	if sum, refs := h.total(t); sum != 0 || refs != 1 {
		t.Errorf("a stranger that cannot be looked up: %v calls, %d references, want 0 and 1", sum, refs)
	}
}

func TestABurstIsWrittenOnceInTenSeconds(t *testing.T) {
	h := newFixture(t)
	o := h.observer()
	for i := range 1000 {
		o.Observe(t.Context(), h.seen(stranger, uint64(i+1)))
		if i%100 == 99 {
			h.pass(time.Second)
		}
	}
	if h.commits != 1 {
		t.Errorf("%d writes in ten seconds, want 1", h.commits)
	}
	if h.reads > 1 {
		t.Errorf("the caller was looked up %d times in ten seconds, want once", h.reads)
	}
	o.Observe(t.Context(), h.seen(stranger, 1001))
	if h.commits != 2 {
		t.Errorf("%d writes after ten seconds, want 2", h.commits)
	}
	if sum, refs := h.total(t); sum != 1001 || refs != callstats.MaxReferences {
		t.Errorf("%v calls and %d references are kept, want 1001 and %d", sum, refs, callstats.MaxReferences)
	}
}

// For a closed child that only its parent calls, only the start of the observation is recorded.
func TestUncountedCallsAreWrittenOnce(t *testing.T) {
	h := &fixture{Store: memory.New(), time: start}
	o := h.observer()
	for i := range uint64(100) {
		o.Observe(t.Context(), h.seen(parent, i+1))
		h.pass(time.Hour)
	}
	h.observer().Observe(t.Context(), h.seen(parent, 101)) // another process
	if h.commits != 1 {
		t.Errorf("%d writes of 101 calls of the parent, want 1", h.commits)
	}
	o.Observe(t.Context(), h.seen(stranger, 1))
	if sum, refs := h.total(t); h.commits != 2 || sum != 1 || refs != 1 {
		t.Errorf("after a stranger's call: %d writes, %v calls and %d references, want 2, 1 and 1", h.commits, sum, refs)
	}
	c, err := callstats.Read(t.Context(), h.Store, child)
	if series, missing := c.Activity(start.Add(callstats.MaxHours * time.Hour)); err != nil || series == nil {
		t.Errorf("Activity() is missing since %q, %v, want it known since the first call", missing, err)
	}
}

func TestProcessesThatObserveOneVacantLoseNothingToEachOther(t *testing.T) {
	h := newFixture(t)
	var all sync.WaitGroup
	for range 3 {
		o := h.observer()
		all.Go(func() {
			for i := range 20 {
				o.Observe(context.Background(), h.seen(stranger, uint64(i+1)))
			}
		})
	}
	all.Wait()
	// Each process wrote at least its first count. The rest is in memory until its next write.
	before, _ := h.total(t)
	if before < 3 || before > 60 {
		t.Errorf("%v calls are kept, want 3 to 60", before)
	}
	a, b := h.observer(), h.observer()
	for range 5 {
		h.pass(callstats.WriteInterval)
		a.Observe(t.Context(), h.seen(stranger, 1))
		b.Observe(t.Context(), h.seen(stranger, 1))
	}
	if after, _ := h.total(t); after != before+10 {
		t.Errorf("%v calls are kept after ten more, want %v", after, before+10)
	}
}

func TestAFaultOfTheStoreLosesAtMostWhatWasNotedAndCountsNothingTwice(t *testing.T) {
	unknown := fmt.Errorf("%w: gone", store.ErrUnavailable)
	for name, tt := range map[string]struct {
		fault func(commit func() error) error
		want  float64 // one call before, one during and one after
	}{
		"no write was applied":    {func(func() error) error { return store.NotAppliedError(errors.New("away")) }, 3},
		"nobody knows: it was":    {func(c func() error) error { return errors.Join(unknown, c()) }, 3},
		"nobody knows: it wasn't": {func(func() error) error { return unknown }, 2},
		"too large":               {func(func() error) error { return store.ErrTooLarge }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			o := h.observer()
			for i := range 3 {
				h.fault = nil
				if i == 1 {
					h.fault = tt.fault
				}
				o.Observe(t.Context(), h.seen(stranger, uint64(i+1)))
				h.pass(callstats.WriteInterval)
			}
			if sum, _ := h.total(t); sum != tt.want {
				t.Errorf("%v calls are kept, want %v", sum, tt.want)
			}
		})
	}
}

func TestDamagedCallsStartOver(t *testing.T) {
	h := newFixture(t)
	if err := h.Store.Commit(t.Context(), store.Put{Key: callstats.CallsKey(child), IfVersion: 1, WriteID: store.WriteID{1}, Data: []byte("torn")}); err != nil {
		t.Fatal(err)
	}
	if _, err := callstats.Read(t.Context(), h.Store, child); !problem.Is(err, problem.Damaged) {
		t.Errorf("Read() = %v, want it damaged", err)
	}
	h.observer().Observe(t.Context(), h.seen(stranger, 1))
	c, err := callstats.Read(t.Context(), h.Store, child)
	if refs := c.References(); err != nil || len(refs) != 1 || refs[0] != (callstats.Reference{Caller: stranger, Position: 1}) {
		t.Errorf("References() = %v, %v, want the one of after", refs, err)
	}
}

func TestAnObserverIsBounded(t *testing.T) {
	h := newFixture(t)
	o := h.observer()
	for i := range 6000 {
		seen := h.seen(identity.ID{9, byte(i), byte(i >> 8)}, 1)
		seen.Pair.Vacant = identity.ID{8, byte(i), byte(i >> 8)}
		o.Observe(t.Context(), seen)
	}
	if vacants, callers := o.Remembers(); vacants > 1024 || callers > 4096 {
		t.Errorf("it remembers %d vacants and %d callers, want at most 1024 and 4096", vacants, callers)
	}
}

func TestCallsSucceedWithoutRandomnessOrStorage(t *testing.T) {
	h := newFixture(t)
	o := callstats.New(callstats.Config{Store: h, Manifests: h, Now: h.now, Rand: strings.NewReader("")})
	o.Observe(t.Context(), h.seen(stranger, 1))
	h.Store.Close()
	h.observer().Observe(t.Context(), h.seen(stranger, 1))
	if _, err := callstats.Read(t.Context(), h.Store, child); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Read() = %v, want unavailable", err)
	}
}
