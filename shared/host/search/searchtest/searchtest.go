// Package searchtest is the contract of search.Index, executable. Every
// adapter passes it: Run(t, open) with a function that opens an empty index.
//
// It imports host/search and its tests' libraries. The invariant: what an index
// answers is what a scan of all entries would (Scan), in the same order with the
// same ranks.
package searchtest

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/search"
)

// Open opens an empty index that the test owns; the suite closes it.
type Open func(t *testing.T) search.Index

// Run runs the contract over the indexes that open gives.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		test func(*testing.T, search.Index)
	}{
		{"an empty index finds nothing and has no mark", testEmpty},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := open(t)
			defer func() {
				if err := x.Close(); err != nil {
					t.Errorf("Close() = %v, want nil", err)
				}
			}()
			c.test(t, x)
		})
	}
}

func testEmpty(t *testing.T, x search.Index) {
	ctx := t.Context()
	hits, err := x.Query(ctx, search.Query{Limit: 10})
	if err != nil || len(hits) != 0 {
		t.Errorf("Query() = %v, %v, want none", hits, err)
	}
	if mark, err := x.Mark(ctx); err != nil || mark != "" {
		t.Errorf(`Mark() = %q, %v, want ""`, mark, err)
	}
	if n, err := x.Count(ctx); err != nil || n != 0 {
		t.Errorf("Count() = %d, %v, want 0", n, err)
	}
}
