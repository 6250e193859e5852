package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/store"
)

var feedTests = []contractTest{
	{"the feed has every row once, in its stream's order, and continues at an offset", testFeed},
	{"the feed refuses invalid page sizes, partitions and offsets", testFeedArguments},
}

func testFeed(t *testing.T, h Adapter) {
	s := h.Open(t)
	f := s.(store.Feed)
	names := []store.Stream{newStream(), newStream(), newStream()}
	want := map[store.Stream][]store.Row{}
	offsets := map[string]string{}
	got := map[store.Stream][]store.Row{}
	readNew := func(pageSize int) {
		t.Helper()
		partitions, err := f.Partitions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range partitions {
			for {
				rows, next, _, err := f.RowsAfter(t.Context(), p.ID, offsets[p.ID], pageSize)
				if err != nil {
					t.Fatal(err)
				}
				if len(rows) == 0 {
					if next != offsets[p.ID] {
						t.Fatalf("RowsAfter() without rows moves from %q to %q", offsets[p.ID], next)
					}
					break
				}
				if len(rows) > pageSize {
					t.Fatalf("RowsAfter() = %d rows, want at most %d", len(rows), pageSize)
				}
				for _, r := range rows {
					if slices.Contains(names, r.Stream) {
						got[r.Stream] = append(got[r.Stream], r.Row)
					}
				}
				offsets[p.ID] = next
			}
		}
	}
	for round := range 3 {
		for i := range 7 {
			name := names[i%len(names)]
			row := newAppend(name, uint64(len(want[name])+1), fmt.Sprintf("row %d of round %d", i, round))
			commit(t, s, row, newPut(newKey(), 0, "beside"))
			want[name] = append(want[name], rowOf(row))
		}
		readNew(1 + round*2)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("after round %d (-want +got):\n%s", round, diff)
		}
	}
}

func testFeedArguments(t *testing.T, h Adapter) {
	s := h.Open(t)
	f := s.(store.Feed)
	partitions, err := f.Partitions(t.Context())
	if err != nil || len(partitions) == 0 {
		t.Fatalf("Partitions() = %v, %v", partitions, err)
	}
	for _, tt := range []struct {
		partition, offset string
		n                 int
	}{{partitions[0].ID, "", 0}, {partitions[0].ID, "", store.MaxPage + 1}, {"none", "", 1}, {partitions[0].ID, "x", 1}, {partitions[0].ID, "-1", 1}} {
		if rows, _, _, err := f.RowsAfter(t.Context(), tt.partition, tt.offset, tt.n); err == nil {
			t.Errorf("RowsAfter(%q, %q, %d) = %d rows, want a refusal", tt.partition, tt.offset, tt.n, len(rows))
		}
	}
}
