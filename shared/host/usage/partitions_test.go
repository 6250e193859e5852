package usage_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/shared/store"
)

// shards presents the feed of a journal as a stream does: in partitions of a few rows, all but the
// last of which have ended. It can drop rows.
type shards struct {
	store.Feed
	rows int // of a partition

	mu      sync.Mutex
	trimmed map[string]bool // the older half of their rows is gone
	gone    map[string]bool // partitions that are not listed any more
	looked  map[string]int
}

func (s *shards) journal(ctx context.Context) ([]store.FeedRow, error) {
	partitions, err := s.Feed.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	var all []store.FeedRow
	for offset := ""; ; {
		rows, next, _, err := s.Feed.RowsAfter(ctx, partitions[0].ID, offset, store.MaxPage)
		if err != nil || len(rows) == 0 {
			return all, err
		}
		all, offset = append(all, rows...), next
	}
}

func (s *shards) Partitions(ctx context.Context) (all []store.Partition, err error) {
	rows, err := s.journal(ctx)
	parent := ""
	for i := 0; i <= len(rows)/s.rows; i++ {
		id := fmt.Sprint("shard", i)
		if !s.gone[id] {
			all = append(all, store.Partition{ID: id, Parent: parent})
		}
		parent = id
	}
	return all, err
}

func (s *shards) RowsAfter(ctx context.Context, partition, offset string, n int) ([]store.FeedRow, string, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked[partition]++
	all, err := s.journal(ctx)
	if err != nil {
		return nil, "", false, err
	}
	var i, at int
	fmt.Sscanf(partition, "shard%d", &i)
	fmt.Sscanf(offset, "%d", &at)
	first, last := i*s.rows, min((i+1)*s.rows, len(all))
	if s.trimmed[partition] {
		first += s.rows / 2 // the older half is gone
		if offset != "" && at < first {
			return nil, "", false, fmt.Errorf("%w: as the test says", store.ErrTrimmed)
		}
	}
	first = max(first, at)
	rows := all[min(first, last):last]
	rows = rows[:min(len(rows), n)]
	if len(rows) == 0 {
		return nil, offset, last == (i+1)*s.rows, nil
	}
	return rows, fmt.Sprint(first + len(rows)), false, nil
}

func (w *world) split(rows int) *shards {
	return &shards{Feed: w.file, rows: rows, trimmed: map[string]bool{}, gone: map[string]bool{}, looked: map[string]int{}}
}

// The shards of a stream end and have children. Each row is counted once, and a shard that has
// ended is not read again.
func TestPartitionsThatEndAreFoldedOnce(t *testing.T) {
	w := newWorld(t)
	s := w.split(17)
	var all sync.WaitGroup
	for range 3 { // rivals
		m := w.meter(w.file)
		m.Feed = s
		all.Go(func() {
			for range 6 {
				w.calls(5)
				w.fold(m)
			}
		})
	}
	all.Wait()
	m := w.meter(w.file)
	m.Feed = s
	w.fold(m)
	w.check()
	clear(s.looked)
	w.fold(m)
	if s.looked["shard0"] != 0 {
		t.Errorf("a partition that has ended was read %d times more", s.looked["shard0"])
	}
	if f, err := m.Fold(t.Context()); err != nil || f.Rows != 0 {
		t.Errorf("Fold() again = %+v, %v", f, err)
	}
	// If it is not listed anymore, its rows are not missing.
	s.gone["shard0"] = true
	if _, err := m.Fold(t.Context()); err != nil {
		t.Errorf("Fold() = %v after a partition that was folded is gone", err)
	}
}

// Rows that were dropped before they were folded are reported once, and the rest is folded.
func TestTrimmedRowsAreTold(t *testing.T) {
	w := newWorld(t)
	s := w.split(40)
	m := w.meter(w.file)
	m.Feed = s
	w.calls(6)
	w.fold(m)
	w.calls(12)
	s.trimmed["shard0"] = true
	f, err := m.Fold(t.Context())
	if !errors.Is(err, store.ErrTrimmed) || f.Rows == 0 {
		t.Fatalf("Fold() = %+v, %v, want that rows are gone, and the others folded", f, err)
	}
	s.trimmed["shard0"] = false
	if f, err := m.Fold(t.Context()); err != nil || f.Rows != 0 {
		t.Errorf("Fold() again = %+v, %v", f, err)
	}
	w.calls(20)
	w.fold(m)
	open := "shard1"
	s.gone[open] = true
	w.calls(1)
	if _, err := m.Fold(t.Context()); !errors.Is(err, store.ErrTrimmed) {
		t.Errorf("Fold() = %v after a partition went away before its end", err)
	}
	if _, err := m.Fold(t.Context()); err != nil {
		t.Errorf("Fold() = %v, told twice", err)
	}
}
