// Package live keeps a search index up to date with the registry's feed of
// changes, and rebuilds it from there.
//
// The invariant: the index's mark never passes a change that the index lacks,
// except within the last Overlap. Writes do not become visible in order, so a
// reader starts Overlap before its previous reading, or before the mark.
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

// Overlap is the time before the mark from which a reader starts: more than any
// store's sparse index lags, and more than hosts' clocks differ.
const Overlap = 30 * time.Second

const (
	every = time.Second     // between refreshes
	stale = 5 * time.Second // a search waits if the index is older
	page  = 500             // registrations at a time
)

// Feed returns registrations in the order of their last change, from since on
// ("" for all); *registry.Registry implements it.
type Feed interface {
	Changes(ctx context.Context, since string, n int, cursor string) ([]registry.Registration, string, error)
}

// Live keeps one index up to date. It is safe for concurrent use, but an index
// must have only one Live.
type Live struct {
	index search.Index
	feed  Feed
	now   func() time.Time
	last  atomic.Pointer[time.Time] // when the last successful refresh began
	turn  chan struct{}             // holds one token: the right to write, and to use seen
	seen  map[identity.ID]seen
}

// seen is the version of a registration in the index.
type seen struct {
	key     string // position in the feed
	version uint64
}

// New makes a Live over an index.
func New(index search.Index, feed Feed, now func() time.Time) *Live {
	l := &Live{index: index, feed: feed, now: now, turn: make(chan struct{}, 1), seen: make(map[identity.ID]seen)}
	l.turn <- struct{}{}
	return l
}

// Refresh brings the index up to date, if that was not done within the last
// second: then it does nothing. While another is at it, it waits only for an
// index that is some seconds old.
func (l *Live) Refresh(ctx context.Context) error {
	age := l.age()
	if age < every {
		return nil
	}
	if age < stale {
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
		return nil // another has done it meanwhile
	}
	return l.follow(ctx)
}

// CatchUp brings the index up to date now.
func (l *Live) CatchUp(ctx context.Context) error {
	if err := l.wait(ctx); err != nil {
		return err
	}
	defer l.done()
	return l.follow(ctx)
}

// Replace lets swap replace the index by another that is built from the same feed, and
// brings the new index up to date.
func (l *Live) Replace(ctx context.Context, swap func() error) error {
	if err := l.wait(ctx); err != nil {
		return err
	}
	defer l.done()
	if err := swap(); err != nil {
		return err
	}
	clear(l.seen) // of the index before
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

// age returns the age of the index: the longest, if the index was never brought up to date,
// or if the clock was set back since.
func (l *Live) age() time.Duration {
	if last := l.last.Load(); last != nil && !l.now().Before(*last) {
		return l.now().Sub(*last)
	}
	return math.MaxInt64
}

// follow applies what changed since the last time, page by page.
func (l *Live) follow(ctx context.Context) error {
	mark, err := l.index.Mark(ctx)
	if err != nil {
		return err
	}
	from, started := mark, l.now()
	if last := l.last.Load(); last != nil {
		from = registry.ChangeKeyAt(*last)
	}
	since := registry.ChangeKeyBefore(from, Overlap)
	for changes, err := range changesSince(ctx, l.feed, since) {
		if err != nil {
			return err
		}
		if mark, err = l.apply(ctx, changes, mark); err != nil {
			return err
		}
	}
	l.last.Store(&started)
	from = registry.ChangeKeyBefore(registry.ChangeKeyAt(started), Overlap) // where the next refresh begins
	maps.DeleteFunc(l.seen, func(_ identity.ID, s seen) bool { return s.key < from })
	return nil
}

func (l *Live) apply(ctx context.Context, changes []registry.Registration, mark string) (string, error) {
	b := search.Batch{Mark: mark}
	var fresh []registry.Registration
	for i := range changes {
		g := &changes[i]
		// If the clock of the host that made the change is ahead, all changes until then would be behind the mark.
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
		l.seen[fresh[i].ID] = seen{fresh[i].ChangeKey, fresh[i].DocVersion}
	}
	return b.Mark, nil
}

// add puts what search shows and removes the rest.
func add(b *search.Batch, g *registry.Registration) {
	if e, _, ok := search.EntryOf(g); ok {
		b.Put = append(b.Put, e)
	} else {
		b.Remove = append(b.Remove, g.ID)
	}
}
