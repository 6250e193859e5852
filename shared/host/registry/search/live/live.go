// Package live updates a search index from the registry's feed of changes.
//
// An index stores a mark, which is a position in the feed. Changes shortly before the mark may be
// missing, because concurrent writes do not become visible in order. Each refresh therefore starts
// ReadOverlap before the start of the previous refresh.
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

// ReadOverlap must exceed the sum of the lag of a store's sparse index and the difference between
// hosts' clocks.
const ReadOverlap = 30 * time.Second

const (
	minRefreshInterval = time.Second
	maxIndexAge        = 5 * time.Second
	pageSize           = 500
)

type ChangeFeed interface {
	Changes(ctx context.Context, since string, limit int, cursor string) ([]registry.Registration, string, error)
}

// Live updates one index. It is safe for concurrent use, but an index must have only one Live.
type Live struct {
	index          search.Index
	feed           ChangeFeed
	now            func() time.Time
	lastRefresh    atomic.Pointer[time.Time] // start of the last successful refresh
	writeToken     chan struct{}             // contains a token, which allows its owner to write and to use recentVersions
	recentVersions map[identity.ID]indexedVersion
}

type indexedVersion struct {
	changeKey string
	version   uint64
}

func New(index search.Index, feed ChangeFeed, now func() time.Time) *Live {
	l := &Live{index: index, feed: feed, now: now, writeToken: make(chan struct{}, 1), recentVersions: make(map[identity.ID]indexedVersion)}
	l.writeToken <- struct{}{}
	return l
}

// Refresh updates the index unless it was updated within the last second. It waits for another
// caller only if the index is at least maxIndexAge old.
func (l *Live) Refresh(ctx context.Context) error {
	age := l.age()
	if age < minRefreshInterval {
		return nil
	}
	if age < maxIndexAge {
		select {
		case <-l.writeToken:
		default:
			return nil
		}
	} else if err := l.acquireToken(ctx); err != nil {
		return err
	}
	defer l.releaseToken()
	if l.age() < minRefreshInterval {
		return nil
	}
	return l.updateIndex(ctx)
}

func (l *Live) CatchUp(ctx context.Context) error {
	if err := l.acquireToken(ctx); err != nil {
		return err
	}
	defer l.releaseToken()
	return l.updateIndex(ctx)
}

// Replace calls swap, which must replace the index by another one that was built from the same
// feed.
func (l *Live) Replace(ctx context.Context, swap func() error) error {
	if err := l.acquireToken(ctx); err != nil {
		return err
	}
	defer l.releaseToken()
	if err := swap(); err != nil {
		return err
	}
	clear(l.recentVersions) // the versions belong to the previous index
	l.lastRefresh.Store(nil)
	return l.updateIndex(ctx)
}

func (l *Live) acquireToken(ctx context.Context) error {
	select {
	case <-l.writeToken:
		return nil
	case <-ctx.Done():
		return problem.Wrap(problem.Unavailable, ctx.Err(), "the search index is being brought up to date")
	}
}

func (l *Live) releaseToken() { l.writeToken <- struct{}{} }

func (l *Live) age() time.Duration {
	if last := l.lastRefresh.Load(); last != nil && !l.now().Before(*last) {
		return l.now().Sub(*last)
	}
	return math.MaxInt64
}

func (l *Live) updateIndex(ctx context.Context) error {
	mark, err := l.index.Mark(ctx)
	if err != nil {
		return err
	}
	position, startTime := mark, l.now()
	if last := l.lastRefresh.Load(); last != nil {
		position = registry.FormatChangeKey(*last)
	}
	since := registry.ChangeKeyBefore(position, ReadOverlap)
	for changes, err := range changesSince(ctx, l.feed, since) {
		if err != nil {
			return err
		}
		if mark, err = l.applyPage(ctx, changes, mark); err != nil {
			return err
		}
	}
	l.lastRefresh.Store(&startTime)
	position = registry.ChangeKeyBefore(registry.FormatChangeKey(startTime), ReadOverlap)
	maps.DeleteFunc(l.recentVersions, func(_ identity.ID, s indexedVersion) bool { return s.changeKey < position })
	return nil
}

func (l *Live) applyPage(ctx context.Context, changes []registry.Registration, mark string) (string, error) {
	b := search.Batch{Mark: mark}
	var newChanges []registry.Registration
	for i := range changes {
		reg := &changes[i]
		// The clock of another host may be ahead. If the mark were in the future, a process that
		// starts at the mark would miss later changes with smaller keys.
		b.Mark = max(b.Mark, min(reg.ChangeKey, registry.FormatChangeKey(l.now())))
		if indexed, ok := l.recentVersions[reg.ID]; ok && indexed.version >= reg.DocVersion {
			continue
		}
		newChanges = append(newChanges, *reg)
		addToBatch(&b, reg)
	}
	if len(newChanges) == 0 && b.Mark == mark {
		return mark, nil
	}
	if err := l.index.Apply(ctx, b); err != nil {
		return mark, err
	}
	for i := range newChanges {
		l.recentVersions[newChanges[i].ID] = indexedVersion{newChanges[i].ChangeKey, newChanges[i].DocVersion}
	}
	return b.Mark, nil
}

func addToBatch(b *search.Batch, reg *registry.Registration) {
	if e, _, ok := search.EntryOf(reg); ok {
		b.Put = append(b.Put, e)
	} else {
		b.Remove = append(b.Remove, reg.ID)
	}
}
