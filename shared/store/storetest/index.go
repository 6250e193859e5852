package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/store"
)

var indexTests = []contractTest{
	{"a document is listed only in the place that its index names", testListing},
	{"documents with the same index sort are each listed once", testEqualSorts},
	{"the index is read by range and page", testIndexPages},
	{"an index of any text is sorted by its bytes", testIndexKeys},
}

// wantListed waits until the index lists exactly the given documents.
func (h Adapter) wantListed(t *testing.T, s store.Store, r store.Range, n int, want ...store.Doc) {
	t.Helper()
	byKey := func(a, b store.Doc) int { return strings.Compare(a.Key.String(), b.Key.String()) }
	want = slices.Clone(want)
	slices.SortFunc(want, byKey)
	r.Index = true
	h.retryWithinLag(t, func() string {
		got := listDocs(t, s, r, n)
		for i := 1; i < len(got); i++ {
			if got[i-1].Index.Sort > got[i].Index.Sort {
				return fmt.Sprintf("index lists %q before %q", got[i-1].Index.Sort, got[i].Index.Sort)
			}
		}
		slices.SortFunc(got, byKey)
		if diff := cmp.Diff(want, got, equateEmpty); diff != "" {
			return "index (-want +got):\n" + diff
		}
		return ""
	})
}

func testListing(t *testing.T, h Adapter) {
	s, here, there := h.Open(t), newPartition(), newPartition()
	p := newPut(newKey(), 0, "first")
	p.Index = store.Key{Partition: here, Sort: "m"}
	commit(t, s, p)
	h.wantListed(t, s, store.Range{Partition: here}, 10, docOf(p))

	move := func(data string, index store.Key) store.Doc {
		p = newPut(p.Key, p.IfVersion+1, data)
		p.Index = index
		commit(t, s, p)
		return docOf(p)
	}
	moved := move("another sort", store.Key{Partition: here, Sort: "a"})
	h.wantListed(t, s, store.Range{Partition: here}, 10, moved)
	moved = move("another partition", store.Key{Partition: there, Sort: "a"})
	h.wantListed(t, s, store.Range{Partition: here}, 10)
	h.wantListed(t, s, store.Range{Partition: there}, 10, moved)

	// An add in a commit with an append also appears in the index.
	commit(t, s, newAppend(newStream(), 1, ""), store.Add{Key: p.Key, Delta: 5, Max: 5})
	moved.Version, moved.Number = moved.Version+1, 5
	p.IfVersion++
	h.wantListed(t, s, store.Range{Partition: there}, 10, moved)

	move("listed no more", store.Key{})
	h.wantListed(t, s, store.Range{Partition: there}, 10)
	moved = move("listed again", store.Key{Partition: here, Sort: "z"})
	h.wantListed(t, s, store.Range{Partition: here}, 10, moved)
	commit(t, s, store.Delete{Key: p.Key, IfVersion: moved.Version})
	h.wantListed(t, s, store.Range{Partition: here}, 10)

	// A document in a partition with the index partition's name is not in the
	// index.
	commit(t, s, newPut(store.Key{Partition: here, Sort: "z"}, 0, "not indexed"))
	h.wantListed(t, s, store.Range{Partition: here}, 10)
}

func testEqualSorts(t *testing.T, h Adapter) {
	s, partition := h.Open(t), newPartition()
	var want []store.Doc
	for i := range 9 {
		p := newPut(newKey(), 0, fmt.Sprint(i))
		p.Index = store.Key{Partition: partition, Sort: "one sort for all"}
		commit(t, s, p)
		want = append(want, docOf(p))
	}
	for _, n := range []int{1, 2, 9, 100} {
		h.wantListed(t, s, store.Range{Partition: partition}, n, want...)
	}
}

func testIndexPages(t *testing.T, h Adapter) {
	s, partition := h.Open(t), newPartition()
	var docs []store.Doc
	for _, sort := range "abcdef" {
		p := newPut(newKey(), 0, string(sort))
		p.Index = store.Key{Partition: partition, Sort: string(sort)}
		commit(t, s, p)
		docs = append(docs, docOf(p))
	}
	for _, n := range []int{1, 2, 100} {
		h.wantListed(t, s, store.Range{Partition: partition, Start: "b", End: "e"}, n, docs[1:4]...)
		h.wantListed(t, s, store.Range{Partition: partition, Start: "bb"}, n, docs[2:]...)
		h.wantListed(t, s, store.Range{Partition: partition, End: "c"}, n, docs[:2]...)
		h.wantListed(t, s, store.Range{Partition: partition, Start: "c", End: "c"}, n)
	}
}

func testIndexKeys(t *testing.T, h Adapter) {
	s, base := h.Open(t), newPartition()
	for _, partition := range []string{base, base + "\x00", base + "#"} {
		var want []store.Doc
		for i := range unusualSorts {
			p := newPut(newKey(), 0, partition)
			p.Index = store.Key{Partition: partition, Sort: unusualSorts[(i*11)%len(unusualSorts)]}
			commit(t, s, p)
			want = append(want, docOf(p))
		}
		h.wantListed(t, s, store.Range{Partition: partition}, 7, want...)
	}
}
