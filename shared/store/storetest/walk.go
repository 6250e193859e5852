package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/store"
)

var walkTests = []contractTest{
	{"a walk lists every stream once for any page size", testWalkStreams},
	{"a walk lists exactly the streams with a prefix", testStreamPrefix},
	{"a walk reads rows and documents as the store does", testViewReads},
	{"a walk returns its function's error or its context's error", testWalkErrors},
}

// snapshotTests apply to adapters whose view is a snapshot.
var snapshotTests = []contractTest{
	{"a view does not change while commits go on", testSnapshot},
	{"a view shows only complete commits during concurrent commits", testViewHasWholeCommits},
}

// openWalker opens a store that implements store.Walker.
func openWalker(t *testing.T, h Adapter) (store.Store, store.Walker) {
	t.Helper()
	s := h.Open(t)
	w, ok := s.(store.Walker)
	if !ok {
		t.Fatal("this adapter is not a store.Walker: verify could not read it")
	}
	return s, w
}

func mustWalk(t *testing.T, w store.Walker, fn func(store.View)) {
	t.Helper()
	if err := w.Walk(t.Context(), func(v store.View) error { fn(v); return nil }); err != nil {
		t.Fatalf("Walk() = %v, want nil", err)
	}
}

func listStreams(t *testing.T, v store.View, prefix store.Stream, n int) []store.Stream {
	t.Helper()
	var names []store.Stream
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := v.Streams(t.Context(), prefix, n, cursor)
		if err != nil || len(page) > n {
			t.Fatalf("Streams(%q, n %d) = %d names, %v", string(prefix), n, len(page), err)
		}
		names, cursor = append(names, page...), next
	}
	return names
}

func testWalkStreams(t *testing.T, h Adapter) {
	s, w := openWalker(t, h)
	var want []store.Stream
	for i := range 23 {
		name := newStream()
		if i%3 == 0 {
			name += "\x00more"
		}
		appendRows(t, s, name, i%4+1)
		want = append(want, name)
	}
	// This stream has more rows than a page of any adapter.
	long := newStream()
	appendRows(t, s, long, 120)
	want = append(want, long)
	mustWalk(t, w, func(v store.View) {
		first := listStreams(t, v, "", 1)
		for _, n := range []int{1, 7, 23, 24, store.MaxPage} {
			got := listStreams(t, v, "", n)
			if diff := cmp.Diff(first, got); diff != "" {
				t.Errorf("Streams(n %d) comes in another order (-one by one +got):\n%s", n, diff)
			}
			for _, name := range want {
				if occurrences := countName(got, name); occurrences != 1 {
					t.Errorf("Streams(n %d) has %s %d times", n, name, occurrences)
				}
			}
		}
		for _, n := range []int{0, -1, store.MaxPage + 1} {
			if _, _, err := v.Streams(t.Context(), "", n, ""); err == nil {
				t.Errorf("Streams(n %d) = nil, want an error", n)
			}
		}
		for _, cursor := range []string{"%", "a", strings.Repeat("A", 1000)} {
			if _, _, err := v.Streams(t.Context(), "", 1, cursor); err == nil || errors.Is(err, store.ErrUnavailable) {
				t.Errorf("Streams(cursor %.8s) = %v, want it refused", cursor, err)
			}
		}
	})
}

func countName(names []store.Stream, name store.Stream) (n int) {
	for _, other := range names {
		if other == name {
			n++
		}
	}
	return n
}

func testStreamPrefix(t *testing.T, h Adapter) {
	s, w := openWalker(t, h)
	base := newStream()
	var want []store.Stream
	for _, suffix := range []store.Stream{"", "\x00", "a", "ab", "\xff", "\xff\xff"} {
		want = append(want, base+suffix)
		appendRows(t, s, base+suffix, 2)
	}
	appendRows(t, s, newStream(), 1)
	appendRows(t, s, base[:len(base)-1]+store.Stream([]byte{base[len(base)-1] ^ 1}), 1)
	mustWalk(t, w, func(v store.View) {
		for _, n := range []int{1, 2, 5, 6, 7} {
			for prefix, want := range map[store.Stream][]store.Stream{
				base: want, base + "a": want[2:4], base + "\xff": want[4:], base + "nothing": nil,
			} {
				got := listStreams(t, v, prefix, n)
				slices.Sort(got)
				if diff := cmp.Diff(want, got, equateEmpty); diff != "" {
					t.Errorf("Streams(%q, n %d) (-want +got):\n%s", string(prefix), n, diff)
				}
			}
		}
	})
}

func testViewReads(t *testing.T, h Adapter) {
	s, w := openWalker(t, h)
	name, p := newStream(), newPut(newKey(), 0, "document")
	rows := appendRows(t, s, name, 12)
	commit(t, s, p)
	mustWalk(t, w, func(v store.View) {
		got, err := readAll(t.Context(), v, name, 5)
		if diff := cmp.Diff(rows, got); diff != "" || err != nil {
			t.Errorf("Rows() = %v, (-want +got):\n%s", err, diff)
		}
		descending, err := v.Rows(t.Context(), name, 1<<50, 2, store.Descending)
		if diff := cmp.Diff([]store.Row{rows[11], rows[10]}, descending); diff != "" || err != nil {
			t.Errorf("Rows(down) = %v, (-want +got):\n%s", err, diff)
		}
		doc, err := v.Doc(t.Context(), p.Key)
		if diff := cmp.Diff(docOf(p), doc, equateEmpty); diff != "" || err != nil {
			t.Errorf("Doc() = %v, (-want +got):\n%s", err, diff)
		}
		if doc, err := v.Doc(t.Context(), newKey()); err != nil || doc.Version != 0 {
			t.Errorf("Doc(absent) = version %d, %v, want 0", doc.Version, err)
		}
		if none, err := v.Rows(t.Context(), newStream(), 1, 5, store.Ascending); err != nil || len(none) != 0 {
			t.Errorf("Rows(absent) = %d rows, %v, want none", len(none), err)
		}
	})
}

func testSnapshot(t *testing.T, h Adapter) {
	s, w := openWalker(t, h)
	name, p, deleted := newStream(), newPut(newKey(), 0, "before"), newPut(newKey(), 0, "to be deleted")
	rows, created := appendRows(t, s, name, 3), newKey()
	commit(t, s, p, deleted)
	mustWalk(t, w, func(v store.View) {
		before := listStreams(t, v, "", 100)
		// Commits do not wait for the walk, even while the adapter's file grows.
		commit(t, s, store.Delete{Key: deleted.Key, IfVersion: 1})
		commit(t, s, newPut(created, 0, "during"))
		for i := range 40 {
			a := newAppend(name, uint64(i+4), "")
			a.Data = make([]byte, store.MaxData)
			commit(t, s, a, newPut(p.Key, uint64(i+1), "during"), store.Add{Key: created, Delta: 1, Max: 100})
			commit(t, s, newAppend(newStream(), 1, "new"))
		}
		got, err := readAll(t.Context(), v, name, 100)
		if diff := cmp.Diff(rows, got); diff != "" || err != nil {
			t.Errorf("Rows() = %v, (-before +after):\n%s", err, diff)
		}
		descending, err := v.Rows(t.Context(), name, 1<<50, 2, store.Descending)
		if diff := cmp.Diff([]store.Row{rows[2], rows[1]}, descending); diff != "" || err != nil {
			t.Errorf("Rows(down) = %v, (-before +after):\n%s", err, diff)
		}
		for _, want := range []store.Doc{docOf(p), docOf(deleted), {Key: created}} {
			doc, err := v.Doc(t.Context(), want.Key)
			if diff := cmp.Diff(want, doc, equateEmpty); diff != "" || err != nil {
				t.Errorf("Doc() = %v, (-before +after):\n%s", err, diff)
			}
		}
		if diff := cmp.Diff(before, listStreams(t, v, "", 100)); diff != "" {
			t.Errorf("Streams() (-before +after):\n%s", diff)
		}
	})
}

func testViewHasWholeCommits(t *testing.T, h Adapter) {
	s, w := openWalker(t, h)
	names, keys := []store.Stream{newStream(), newStream(), newStream()}, []store.Key{newKey(), newKey(), newKey()}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for i := range names {
		writers.Go(func() { appendAndCount(t, s, names[i], keys[i], stop) })
	}
	defer writers.Wait()
	defer close(stop)
	for range h.rounds() / 5 {
		mustWalk(t, w, func(v store.View) {
			for i := range names {
				doc, err := v.Doc(t.Context(), keys[i])
				if err != nil {
					t.Fatalf("Doc() = %v, want nil", err)
				}
				tip, err := v.Rows(t.Context(), names[i], 1<<50, 1, store.Descending)
				if err != nil {
					t.Fatalf("Rows() = %v, want nil", err)
				}
				if n := int64(len(tip)); n > 0 && int64(tip[0].Position) != doc.Number || n == 0 && doc.Number != 0 {
					t.Fatalf("the document counts %d rows, the last row is %+v", doc.Number, tip)
				}
			}
		})
	}
}

func testWalkErrors(t *testing.T, h Adapter) {
	_, w := openWalker(t, h)
	stop := fmt.Errorf("stop")
	if err := w.Walk(t.Context(), func(store.View) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Walk() = %v, want the function's error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := w.Walk(ctx, func(v store.View) error {
		cancel()
		_, err := v.Rows(ctx, newStream(), 1, 1, store.Ascending)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Rows() = %v, want the context's error", err)
		}
		_, _, err = v.Streams(ctx, "", 1, "")
		return err
	})
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("Walk() = %v, want ErrUnavailable with the context's error", err)
	}
}
