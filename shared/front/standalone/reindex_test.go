package standalone

import (
	"context"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Before it runs a host has no index; and one rebuild at a time is enough.
func TestOneRebuildOfTheIndexAtATime(t *testing.T) {
	h := &Host{}
	if _, err := h.Reindex(t.Context()); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Reindex() of a host that does not run = %v, want Unavailable", err)
	}
	h.searchState.rebuildMu.Lock()
	if _, err := h.Reindex(t.Context()); !problem.Is(err, problem.Conflict) {
		t.Errorf("Reindex() beside another = %v, want Conflict", err)
	}
}

// Queries go on while the index is replaced, and none meets a closed one.
func TestQueriesGoOnWhileTheIndexIsReplaced(t *testing.T) {
	first, err := bleve.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	index := search.NewSwappable(first)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := index.Count(t.Context()); err != nil {
					t.Errorf("Count() = %v", err)
					return
				}
			}
		})
	}
	for range 5 {
		if err := index.Replace(func(old search.Index) (search.Index, error) {
			if err := old.Close(); err != nil {
				return old, err
			}
			return bleve.Open(t.TempDir())
		}); err != nil {
			t.Errorf("Replace() = %v", err)
		}
	}
	stop()
	wg.Wait()
	if err := index.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
}
