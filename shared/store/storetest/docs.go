package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/store"
)

var docTests = []contractTest{
	{"an absent document has version 0", func(t *testing.T, h Adapter) {
		wantAbsent(t, h.Open(t), newKey())
	}},
	{"a put succeeds only at its expected version", testPuts},
	{"a delete succeeds at its expected version or if the document is absent", testDeletes},
	{"an add creates or changes a number within its bounds", testAdds},
	{"an add does not overflow an int64", testAddOverflow},
	{"a document holds at most MaxData bytes", func(t *testing.T, h Adapter) {
		s, p := h.Open(t), newPut(newKey(), 0, "")
		p.Data = bytes.Repeat([]byte{7}, store.MaxData+1)
		if err := s.Commit(t.Context(), p); !errors.Is(err, store.ErrTooLarge) {
			t.Fatalf("Commit(%d bytes) = %v, want ErrTooLarge", len(p.Data), err)
		}
		wantAbsent(t, s, p.Key)
		p.Data = p.Data[:store.MaxData]
		commit(t, s, p)
		wantDoc(t, s, docOf(p))
	}},
	{"keys of any text are distinct and sorted by their bytes", testKeys},
	{"ranges are half open", testRanges},
	{"pages of documents continue even if the last document was deleted", testDocPages},
	{"a page of large documents ends early, and the next page continues", testLargeDocs},
	{"keys outside their limits are refused", testKeyLimits},
	{"a document keeps its expiry until a put changes it", testExpiry},
	{"an add sets the expiry of a document only if it has none", testAddExpiry},
}

func testAddExpiry(t *testing.T, h Adapter) {
	s, created, put := h.Open(t), newKey(), newPut(newKey(), 0, "text")
	first, later := time.Unix(1<<33, 0).UTC(), time.Unix(1<<34, 0).UTC()
	commit(t, s, put)
	for i, step := range []struct {
		add  time.Time
		want time.Time
	}{{time.Time{}, time.Time{}}, {first, first}, {later, first}, {time.Time{}, first}} {
		for _, k := range []store.Key{created, put.Key} {
			commit(t, s, newAppend(newStream(), 1, ""), store.Add{Key: k, Delta: 2, Max: 100, Expires: step.add})
			d, err := s.Doc(t.Context(), k)
			if err != nil || !d.Expires.Equal(step.want) || d.Number != int64(2*(i+1)) {
				t.Fatalf("after add %d: Doc() = %v, %v; want %d that expires %v", i, d, err, 2*(i+1), step.want)
			}
		}
	}
	if d, err := s.Doc(t.Context(), put.Key); err != nil || string(d.Data) != "text" || d.WriteID != put.WriteID {
		t.Fatalf("Doc() = %v, %v; want the put's text and WriteID", d, err)
	}
	if err := s.Commit(t.Context(), newAppend(newStream(), 1, ""), store.Add{Key: created, Expires: time.Unix(1<<33, 1).UTC()}); err == nil || errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("Commit(expires in between seconds) = %v, want a refusal", err)
	}
}

func testExpiry(t *testing.T, h Adapter) {
	s, k := h.Open(t), newKey()
	for v, expiry := range []time.Time{time.Unix(1<<33, 0).UTC(), time.Unix(1<<34, 0).UTC(), {}, time.Unix(1<<33, 0).UTC()} {
		p := newPut(k, uint64(v), "text")
		p.Expires = expiry
		p.Index = store.Key{Partition: k.Partition, Sort: "listed"}
		commit(t, s, p)
		wantDoc(t, s, docOf(p))
		listed, _, err := s.Docs(t.Context(), store.Range{Partition: k.Partition}, 10, "")
		if err != nil || len(listed) != 1 || !listed[0].Expires.Equal(expiry) {
			t.Fatalf("Docs() = %v, %v, want one that expires %v", listed, err, expiry)
		}
	}
	if err := s.Commit(t.Context(), newPut(newKey(), 0, "beside"), store.Add{Key: k, Delta: 1, Min: 0, Max: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	if d, err := s.Doc(t.Context(), k); err != nil || !d.Expires.Equal(time.Unix(1<<33, 0)) {
		t.Fatalf("after an add the document expires %v, %v", d.Expires, err)
	}
	invalid := newPut(newKey(), 0, "text")
	for _, expiry := range []time.Time{time.Unix(1<<33, 1).UTC(), time.Unix(1<<33, 0).In(time.FixedZone("", 60)), time.Unix(0, 0).UTC()} {
		invalid.Expires = expiry
		if err := s.Commit(t.Context(), invalid); err == nil || errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("Commit(expires %v) = %v, want a refusal", expiry, err)
		}
	}
	wantAbsent(t, s, invalid.Key)
}

func testPuts(t *testing.T, h Adapter) {
	s, k := h.Open(t), newKey()
	wantConflict(t, s.Commit(t.Context(), newPut(k, 1, "too early")), 0)
	wantAbsent(t, s, k)
	for v := range uint64(4) {
		p := newPut(k, v, fmt.Sprint(v))
		p.Number = int64(v) - 2
		commit(t, s, p)
		wantDoc(t, s, docOf(p))
		for _, wrong := range []uint64{0, v, v + 2, math.MaxInt64} {
			if wrong != v+1 {
				wantConflict(t, s.Commit(t.Context(), newPut(k, wrong, "wrong")), v+1)
			}
		}
		wantDoc(t, s, docOf(p))
	}
}

func testDeletes(t *testing.T, h Adapter) {
	s, k := h.Open(t), newKey()
	commit(t, s, store.Delete{Key: k, IfVersion: 1})
	wantAbsent(t, s, k)
	p := newPut(k, 0, "here")
	commit(t, s, p)
	wantConflict(t, s.Commit(t.Context(), store.Delete{Key: k, IfVersion: 2}), 1)
	wantDoc(t, s, docOf(p))
	commit(t, s, store.Delete{Key: k, IfVersion: 1})
	wantAbsent(t, s, k)
	commit(t, s, store.Delete{Key: k, IfVersion: 1})
	commit(t, s, store.Delete{Key: k, IfVersion: 7})
	wantAbsent(t, s, k)
	p = newPut(k, 0, "again")
	commit(t, s, p)
	wantDoc(t, s, docOf(p))
}

func testAdds(t *testing.T, h Adapter) {
	s, name, k := h.Open(t), newStream(), newKey()
	position := uint64(0)
	add := func(delta, low, high int64) error {
		a := newAppend(name, position+1, "beside an add")
		err := s.Commit(t.Context(), a, store.Add{Key: k, Delta: delta, Min: low, Max: high})
		if err == nil {
			position++
		}
		return err
	}
	wantBounds(t, add(-1, 0, 100), 0)
	wantBounds(t, add(101, 0, 100), 0)
	wantBounds(t, add(0, 1, 100), 0)
	wantAbsent(t, s, k)
	for i, step := range []struct{ delta, number int64 }{{10, 10}, {90, 100}, {-100, 0}, {0, 0}, {7, 7}} {
		if err := add(step.delta, 0, 100); err != nil {
			t.Fatalf("Add(%d) = %v, want nil", step.delta, err)
		}
		wantDoc(t, s, store.Doc{Key: k, Version: uint64(i + 1), Number: step.number})
	}
	wantBounds(t, add(-8, 0, 100), 7)
	wantBounds(t, add(94, 0, 100), 7)
	wantDoc(t, s, store.Doc{Key: k, Version: 5, Number: 7})

	// An add keeps the data; a put sets the number.
	p := store.Put{Key: k, IfVersion: 5, WriteID: newWriteID(), Data: []byte("data"), Number: -3, Index: newKey()}
	commit(t, s, p)
	if err := add(-4, math.MinInt64, math.MaxInt64); err != nil {
		t.Fatalf("Add(-4) = %v, want nil", err)
	}
	want := docOf(p)
	want.Version, want.Number = 7, -7
	wantDoc(t, s, want)
	wantConflict(t, s.Commit(t.Context(), newPut(k, 6, "an add came between")), 7)
	if got := len(allRows(t, s, name)); got != int(position) {
		t.Errorf("%d rows, want %d: one for each accepted add", got, position)
	}
}

func testAddOverflow(t *testing.T, h Adapter) {
	s := h.Open(t)
	for _, c := range []struct {
		start, delta int64
		ok           bool
	}{
		{math.MaxInt64, 1, false},
		{math.MaxInt64, 0, true},
		{math.MaxInt64, -1, true},
		{math.MaxInt64, math.MaxInt64, false},
		{math.MaxInt64, math.MinInt64, true},
		{math.MinInt64, -1, false},
		{math.MinInt64, math.MinInt64, false},
		{math.MinInt64, math.MaxInt64, true},
		{math.MaxInt64 - 1, 1, true},
		{0, math.MinInt64, true},
	} {
		p := newPut(newKey(), 0, "")
		p.Number = c.start
		commit(t, s, p)
		want := docOf(p)
		err := s.Commit(t.Context(), newAppend(newStream(), 1, ""),
			store.Add{Key: p.Key, Delta: c.delta, Min: math.MinInt64, Max: math.MaxInt64})
		if c.ok {
			want.Version, want.Number = 2, c.start+c.delta
			if err != nil {
				t.Errorf("Add(%d to %d) = %v, want nil", c.delta, c.start, err)
			}
		} else {
			wantBounds(t, err, c.start)
		}
		wantDoc(t, s, want)
	}
}

// unusualSorts holds sorts, in byte order, that break naive encodings.
var unusualSorts = []string{
	"\x00", "\x00\x00", "\x00\x01", "\x01", " ", "#", "#a", "-", "/", "0", "00", "1", "A", "Z", "a", "a\x00", "a\x00b", "a#", "a#b", "aa", "b",
	"~", "\u00e9", "\u00ff", "\u4e16", "\ufffd", "\U0001f600", "\U0010ffff",
}

func testKeys(t *testing.T, h Adapter) {
	s, base := h.Open(t), newPartition()
	if !slices.IsSorted(unusualSorts) {
		t.Fatal("unusualSorts is not sorted")
	}
	partitions := []string{base, base + "\x00", base + "#", base + "\u00ff", strings.Repeat("p", store.MaxKey-len(base)) + base}
	for _, partition := range partitions {
		for i := range unusualSorts {
			// Write order differs from sort order.
			k := store.Key{Partition: partition, Sort: unusualSorts[(i*11)%len(unusualSorts)]}
			commit(t, s, newPut(k, 0, k.String()))
		}
	}
	for _, partition := range partitions {
		var sorts []string
		for _, doc := range listDocs(t, s, store.Range{Partition: partition}, 5) {
			sorts = append(sorts, doc.Key.Sort)
			if doc.Key.Partition != partition || string(doc.Data) != doc.Key.String() {
				t.Errorf("Docs(%q) has %q with %q", partition, doc.Key, doc.Data)
			}
			wantDoc(t, s, doc)
		}
		if diff := cmp.Diff(unusualSorts, sorts); diff != "" {
			t.Errorf("Docs(%q) (-want +got):\n%s", partition, diff)
		}
	}
}

// listDocs reads a range in pages of n documents.
func listDocs(t testing.TB, s store.Store, r store.Range, n int) []store.Doc {
	t.Helper()
	var docs []store.Doc
	for cursor := ""; ; {
		page, next, err := s.Docs(t.Context(), r, n, cursor)
		if err != nil {
			t.Fatalf("Docs(%+v, %q) = %v, want nil", r, cursor, err)
		}
		if len(page) > n {
			t.Fatalf("Docs(n %d) = %d documents", n, len(page))
		}
		docs = append(docs, page...)
		if next == "" {
			return docs
		}
		cursor = next
	}
}

func joinSorts(docs []store.Doc) string {
	var b strings.Builder
	for _, d := range docs {
		b.WriteString(d.Key.Sort)
	}
	return b.String()
}

func testRanges(t *testing.T, h Adapter) {
	s, partition := h.Open(t), newPartition()
	for _, sort := range "abcdefgh" {
		commit(t, s, newPut(store.Key{Partition: partition, Sort: string(sort)}, 0, ""))
	}
	for _, c := range []struct{ first, last, want string }{
		{"", "", "abcdefgh"},
		{"a", "", "abcdefgh"},
		{"c", "", "cdefgh"},
		{"bb", "", "cdefgh"},
		{"h", "", "h"},
		{"i", "", ""},
		{"", "c", "ab"},
		{"", "a", ""},
		{"c", "e", "cd"},
		{"c", "d\x00", "cd"},
		{"c", "c", ""},
		{"e", "c", ""},
		{"", "z", "abcdefgh"},
	} {
		for _, n := range []int{1, 3, 8, 1000} {
			r := store.Range{Partition: partition, Start: c.first, End: c.last}
			if got := joinSorts(listDocs(t, s, r, n)); got != c.want {
				t.Errorf("Docs(%q to %q, n %d) = %q, want %q", c.first, c.last, n, got, c.want)
			}
		}
	}
	if got := listDocs(t, s, store.Range{Partition: newPartition()}, 10); len(got) != 0 {
		t.Errorf("Docs(empty partition) = %d documents, want none", len(got))
	}
}

func testDocPages(t *testing.T, h Adapter) {
	s, partition := h.Open(t), newPartition()
	for _, sort := range "abcdef" {
		commit(t, s, newPut(store.Key{Partition: partition, Sort: string(sort)}, 0, ""))
	}
	r := store.Range{Partition: partition}
	page, cursor, err := s.Docs(t.Context(), r, 3, "")
	if err != nil || joinSorts(page) != "abc" || cursor == "" {
		t.Fatalf("Docs() = %q, cursor %q, %v, want abc and a cursor", joinSorts(page), cursor, err)
	}
	// The cursor's document is deleted, and documents are written before and
	// after it.
	commit(t, s, store.Delete{Key: store.Key{Partition: partition, Sort: "c"}, IfVersion: 1})
	commit(t, s, newPut(store.Key{Partition: partition, Sort: "bb"}, 0, ""))
	commit(t, s, newPut(store.Key{Partition: partition, Sort: "cc"}, 0, ""))
	rest := ""
	for cursor != "" {
		if page, cursor, err = s.Docs(t.Context(), r, 3, cursor); err != nil {
			t.Fatalf("Docs() = %v, want nil", err)
		}
		rest += joinSorts(page)
	}
	if rest != "ccdef" {
		t.Errorf("the pages after = %q, want ccdef", rest)
	}
}

func testLargeDocs(t *testing.T, h Adapter) {
	s, partition := h.Open(t), newPartition()
	for _, sort := range "abcdef" {
		p := newPut(store.Key{Partition: partition, Sort: string(sort)}, 0, "")
		p.Data = bytes.Repeat([]byte(p.Key.Sort), store.MaxData)
		commit(t, s, p)
	}
	docs := listDocs(t, s, store.Range{Partition: partition}, 100)
	if got := joinSorts(docs); got != "abcdef" {
		t.Fatalf("Docs() = %q, want abcdef", got)
	}
	for _, d := range docs {
		if len(d.Data) != store.MaxData || d.Data[0] != d.Key.Sort[0] {
			t.Errorf("document %s has %d bytes, want %d bytes of its own data", d.Key, len(d.Data), store.MaxData)
		}
	}
}

func testKeyLimits(t *testing.T, h Adapter) {
	s, partition := h.Open(t), newPartition()
	long := strings.Repeat("k", store.MaxKey+1)
	for _, k := range []store.Key{{}, {Partition: partition}, {Sort: "s"}, {Partition: long, Sort: "s"}, {Partition: partition, Sort: long}, {Partition: partition, Sort: "\xff"}, {Partition: "\xc3", Sort: "s"}} {
		put := newPut(k, 0, "")
		for _, w := range []store.Write{put, store.Delete{Key: k, IfVersion: 1}} {
			if err := s.Commit(t.Context(), w); err == nil || errors.Is(err, store.ErrUnavailable) {
				t.Errorf("Commit(%T of %q) = %v, want a refusal of the key", w, k.String(), err)
			}
		}
		if err := s.Commit(t.Context(), newAppend(newStream(), 1, ""), store.Add{Key: k, Max: 1}); err == nil {
			t.Errorf("Commit(Add to %q) = nil, want a refusal of the key", k.String())
		}
		if k == (store.Key{}) {
			continue // the document has no index
		}
		indexed := newPut(newKey(), 0, "")
		indexed.Index = k
		if err := s.Commit(t.Context(), indexed); err == nil {
			t.Errorf("Commit(Put with index %q) = nil, want a refusal of the key", k.String())
		}
	}
	longestKey := store.Key{Partition: strings.Repeat("p", store.MaxKey-len(partition)) + partition, Sort: strings.Repeat("k", store.MaxKey)}
	put := newPut(longestKey, 0, "")
	put.Index = longestKey
	commit(t, s, put)
	wantDoc(t, s, docOf(put))
}
