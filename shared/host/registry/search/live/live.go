// Package live updates a search index from the registry's feed of changes and can rebuild it from
// the feed.
//
// An index stores a mark, which is a position in the feed. The index contains all changes before
// the mark, but changes of the last ReadOverlap before the mark may be missing. Concurrent writes
// do not become visible in order, so each refresh reads the feed from ReadOverlap before the start
// of the previous refresh. The first refresh starts ReadOverlap before the mark.
package live

import (
	"context"
	"maps"
	"math"
	"sync/atomic"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// ReadOverlap is the time before the mark at which reads start. It is longer than the lag of a store's
// sparse index and the difference between hosts' clocks.
const ReadOverlap = 30 * time.Second

const (
	every    = time.Second
	maxStale = 5 * time.Second // age of the index at which a search waits for a refresh
	page     = 500             // registrations per read
)

// ChangeFeed returns registrations in the order of their last change, starting at since ("" for all).
// *registry.Registry implements it.
type ChangeFeed interface {
	Changes(ctx context.Context, since string, n int, cursor string) ([]registry.Registration, string, error)
}

// Live updates one index. It is safe for concurrent use, but an index must have only one Live.
type Live struct {
	index search.Index
	feed  ChangeFeed
	now   func() time.Time
	last  atomic.Pointer[time.Time] // start of the last successful refresh
	turn  chan struct{}             // contains a token, which allows its owner to write and to use seen
	seen  map[identity.ID]seenVersion
}

// seenVersion is the version of a registration that the index contains.
type seenVersion struct {
	key     string // position in the feed
	version uint64 // DocVersion of the registration
}

func New(index search.Index, feed ChangeFeed, now func() time.Time) *Live {
	l := &Live{index: index, feed: feed, now: now, turn: make(chan struct{}, 1), seen: make(map[identity.ID]seenVersion)}
	l.turn <- struct{}{}
	return l
}

// Refresh updates the index unless it was updated within the last second. If another caller is
// updating the index, Refresh waits for it if the index is at least maxStale old, and otherwise
// returns nil immediately.
func (l *Live) Refresh(ctx context.Context) error {
	age := l.age()
	if age < every {
		return nil
	}
	if age < maxStale {
		select {
		case <-l.turn:
		default:
			return nil
		}
	} else if err := l.wait(ctx); err != nil {
		return err
	}
	defer l.done()
	if l.age() < every {
		return nil // another caller has updated the index
	}
	return l.follow(ctx)
}

func (l *Live) CatchUp(ctx context.Context) error {
	if err := l.wait(ctx); err != nil {
		return err
	}
	defer l.done()
	return l.follow(ctx)
}

// Replace calls swap, which must replace the index by another one that was built from the same
// feed, and updates the new index.
func (l *Live) Replace(ctx context.Context, swap func() error) error {
	if err := l.wait(ctx); err != nil {
		return err
	}
	defer l.done()
	if err := swap(); err != nil {
		return err
	}
	clear(l.seen) // the versions belong to the previous index
	l.last.Store(nil)
	return l.follow(ctx)
}

func (l *Live) wait(ctx context.Context) error {
	select {
	case <-l.turn:
		return nil
	case <-ctx.Done():
		return problem.Wrap(problem.Unavailable, ctx.Err(), "the search index is being brought up to date")
	}
}

func (l *Live) done() { l.turn <- struct{}{} }

// age returns the age of the index. It is the maximum if the index was never updated or if the
// clock was set back after the last update.
func (l *Live) age() time.Duration {
	if last := l.last.Load(); last != nil && !l.now().Before(*last) {
		return l.now().Sub(*last)
	}
	return math.MaxInt64
}

func (l *Live) follow(ctx context.Context) error {
	mark, err := l.index.Mark(ctx)
	if err != nil {
		return err
	}
	from, started := mark, l.now()
	if last := l.last.Load(); last != nil {
		from = registry.ChangeKeyAt(*last)
	}
	since := registry.ChangeKeyBefore(from, ReadOverlap)
	for changes, err := range changesSince(ctx, l.feed, since) {
		if err != nil {
			return err
		}
		if mark, err = l.apply(ctx, changes, mark); err != nil {
			return err
		}
	}
	l.last.Store(&started)
	from = registry.ChangeKeyBefore(registry.ChangeKeyAt(started), ReadOverlap) // start of the next refresh
	maps.DeleteFunc(l.seen, func(_ identity.ID, s seenVersion) bool { return s.key < from })
	return nil
}

func (l *Live) apply(ctx context.Context, changes []registry.Registration, mark string) (string, error) {
	b := search.Batch{Mark: mark}
	var fresh []registry.Registration
	for i := range changes {
		g := &changes[i]
		// The clock of the host that made the change may be ahead of this host's clock. The mark is
		// at most the current time, because a process that starts at the mark would otherwise miss
		// later changes with smaller keys.
		b.Mark = max(b.Mark, min(g.ChangeKey, registry.ChangeKeyAt(l.now())))
		if s, ok := l.seen[g.ID]; ok && s.version >= g.DocVersion {
			continue
		}
		fresh = append(fresh, *g)
		add(&b, g)
	}
	if len(fresh) == 0 && b.Mark == mark {
		return mark, nil
	}
	if err := l.index.Apply(ctx, b); err != nil {
		return mark, err
	}
	for i := range fresh {
		l.seen[fresh[i].ID] = seenVersion{fresh[i].ChangeKey, fresh[i].DocVersion}
	}
	return b.Mark, nil
}

func add(b *search.Batch, g *registry.Registration) {
	if e, _, ok := search.EntryOf(g); ok {
		b.Put = append(b.Put, e)
	} else {
		b.Remove = append(b.Remove, g.ID)
	}
}
