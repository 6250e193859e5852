package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/store"
)

var rowTests = []contractTest{
	{"an empty stream has no tip and no rows", func(t *testing.T, h Adapter) {
		s, name := h.Open(t), newStream()
		wantTip(t, s, name, store.Row{})
		if rows := allRows(t, s, name); len(rows) != 0 {
			t.Errorf("Rows() = %d rows, want none", len(rows))
		}
	}},
	{"a row comes back as it was written", func(t *testing.T, h Adapter) {
		s, name := h.Open(t), newStream()
		for p, data := range []string{"one", "", "three\x00\xff", strings.Repeat("4", 5000)} {
			a := newAppend(name, uint64(p+1), data)
			commit(t, s, a)
			wantTip(t, s, name, rowOf(a))
		}
		var got []string
		for _, r := range allRows(t, s, name) {
			got = append(got, string(r.Data))
		}
		if diff := cmp.Diff([]string{"one", "", "three\x00\xff", strings.Repeat("4", 5000)}, got); diff != "" {
			t.Errorf("Rows() (-want +got):\n%s", diff)
		}
	}},
	{"a position beyond the next one is refused without an occupant", testContiguousPositions},
	{"a written row never changes, and a write at its position returns it as occupant", testImmutableRows},
	{"pages start anywhere and go in both directions", testPages},
	{"a page of large rows ends early but is never empty", testLargePages},
	{"a row holds at most MaxData bytes", func(t *testing.T, h Adapter) {
		s, name := h.Open(t), newStream()
		big := newAppend(name, 1, "")
		big.Data = bytes.Repeat([]byte{7}, store.MaxData+1)
		if err := s.Commit(t.Context(), big); !errors.Is(err, store.ErrTooLarge) {
			t.Fatalf("Commit(%d bytes) = %v, want ErrTooLarge", len(big.Data), err)
		}
		wantTip(t, s, name, store.Row{})
		big.Data = big.Data[:store.MaxData]
		commit(t, s, big)
		wantTip(t, s, name, rowOf(big))
	}},
	{"streams whose names share a prefix are separate", testSimilarNames},
	{"arguments outside their limits are refused", testArgumentLimits},
}

func testContiguousPositions(t *testing.T, h Adapter) {
	s, name := h.Open(t), newStream()
	for _, p := range []uint64{2, 3, 1000, math.MaxInt64} {
		wantTaken(t, s.Commit(t.Context(), newAppend(name, p, "too far")), store.Row{})
	}
	wantTip(t, s, name, store.Row{})
	rows := appendRows(t, s, name, 3)
	for _, p := range []uint64{5, 6, math.MaxInt64} {
		wantTaken(t, s.Commit(t.Context(), newAppend(name, p, "too far")), store.Row{})
	}
	if diff := cmp.Diff(rows, allRows(t, s, name)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	commit(t, s, newAppend(name, 4, "fits"))
}

func testImmutableRows(t *testing.T, h Adapter) {
	s, name := h.Open(t), newStream()
	rows := appendRows(t, s, name, 3)
	for _, r := range rows {
		wantTaken(t, s.Commit(t.Context(), newAppend(name, r.Position, "another")), r)
		// Equal bytes with another write id are a different write.
		same := store.Append{Stream: name, Position: r.Position, WriteID: newWriteID(), Data: r.Data}
		wantTaken(t, s.Commit(t.Context(), same), r)
	}
	if diff := cmp.Diff(rows, allRows(t, s, name)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func testPages(t *testing.T, h Adapter) {
	s, name := h.Open(t), newStream()
	rows := appendRows(t, s, name, 25)
	descending := slices.Clone(rows)
	slices.Reverse(descending)
	for _, c := range []struct {
		from uint64
		n    int
		d    store.Direction
		want []store.Row
	}{
		{0, 2, store.Ascending, rows[:2]},
		{1, 1, store.Ascending, rows[:1]},
		{1, 7, store.Ascending, rows[:7]},
		{8, 7, store.Ascending, rows[7:14]},
		{20, 7, store.Ascending, rows[19:]},
		{25, 7, store.Ascending, rows[24:]},
		{26, 7, store.Ascending, nil},
		{1, 25, store.Ascending, rows},
		{1, store.MaxPage, store.Ascending, rows},
		{math.MaxUint64, 3, store.Ascending, nil},
		{0, 3, store.Descending, nil},
		{1, 3, store.Descending, rows[:1]},
		{7, 3, store.Descending, descending[18:21]},
		{25, 1, store.Descending, descending[:1]},
		{26, 2, store.Descending, descending[:2]},
		{math.MaxInt64, 25, store.Descending, descending},
		{math.MaxUint64, store.MaxPage, store.Descending, descending},
	} {
		got, err := s.Rows(t.Context(), name, c.from, c.n, c.d)
		if err != nil {
			t.Fatalf("Rows(%d, %d, %v) = %v, want nil", c.from, c.n, c.d, err)
		}
		if diff := cmp.Diff(c.want, got, equateEmpty); diff != "" {
			t.Errorf("Rows(%d, %d, %v) (-want +got):\n%s", c.from, c.n, c.d, diff)
		}
	}
}

func testLargePages(t *testing.T, h Adapter) {
	s, name := h.Open(t), newStream()
	const count = 6
	for p := range count {
		a := newAppend(name, uint64(p+1), "")
		a.Data = bytes.Repeat([]byte{byte(p)}, store.MaxData)
		commit(t, s, a)
	}
	for _, d := range []store.Direction{store.Ascending, store.Descending} {
		from := uint64(1)
		if d == store.Descending {
			from = count
		}
		for seen := 0; seen < count; {
			page, err := s.Rows(t.Context(), name, from, count, d)
			if err != nil || len(page) == 0 {
				t.Fatalf("Rows(%d) = %d rows, %v after %d rows, want some", from, len(page), err, seen)
			}
			for _, r := range page {
				if r.Position != from || len(r.Data) != store.MaxData || r.Data[0] != byte(from-1) {
					t.Fatalf("Rows() has %d bytes at position %d, want the complete row %d", len(r.Data), r.Position, from)
				}
				seen++
				if d == store.Descending {
					from--
				} else {
					from++
				}
			}
		}
	}
}

func testSimilarNames(t *testing.T, h Adapter) {
	s := h.Open(t)
	base := string(newStream())
	names := []store.Stream{}
	for _, suffix := range []string{"", "\x00", "\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x01", "#", "\xff", "\xff\xff", strings.Repeat("\xff", 8), "a", "a\x00"} {
		names = append(names, store.Stream(base+suffix))
	}
	for i, name := range names {
		for p := range i + 1 {
			commit(t, s, newAppend(name, uint64(p+1), fmt.Sprint(i)))
		}
	}
	for i, name := range names {
		rows := allRows(t, s, name)
		if len(rows) != i+1 {
			t.Errorf("stream %d has %d rows, want %d", i, len(rows), i+1)
		}
		for _, r := range rows {
			if string(r.Data) != fmt.Sprint(i) {
				t.Errorf("stream %d holds %q, a row of another stream", i, r.Data)
			}
		}
		descending, err := s.Rows(t.Context(), name, math.MaxUint64, store.MaxPage, store.Descending)
		if err != nil || len(descending) != i+1 {
			t.Errorf("stream %d downwards = %d rows, %v, want %d", i, len(descending), err, i+1)
		}
	}
}

func testArgumentLimits(t *testing.T, h Adapter) {
	s, name := h.Open(t), newStream()
	for _, n := range []int{-1, 0, store.MaxPage + 1} {
		if _, err := s.Rows(t.Context(), name, 1, n, store.Ascending); err == nil {
			t.Errorf("Rows(n %d) = nil, want an error", n)
		}
		if _, _, err := s.Docs(t.Context(), store.Range{Partition: "p"}, n, ""); err == nil {
			t.Errorf("Docs(n %d) = nil, want an error", n)
		}
	}
	if _, _, err := s.Docs(t.Context(), store.Range{}, 1, ""); err == nil {
		t.Error("Docs(no partition) = nil, want an error")
	}
	for _, cursor := range []string{"!", "AAAA", "no cursor", strings.Repeat("A", 10_000)} {
		if _, _, err := s.Docs(t.Context(), store.Range{Partition: "p"}, 1, cursor); err == nil {
			t.Errorf("Docs(cursor %.20q) = nil, want an error", cursor)
		}
	}
	noWriteID := newAppend(name, 1, "")
	noWriteID.WriteID = store.WriteID{}
	for caseName, writes := range map[string][]store.Write{
		"nothing":     nil,
		"too many":    slices.Repeat([]store.Write{newAppend(name, 1, "")}, store.MaxWrites+1),
		"position 0":  {newAppend(name, 0, "")},
		"no write id": {noWriteID},
		"a pointer":   {&store.Append{Stream: name, Position: 1, WriteID: newWriteID()}},
		"nil":         {nil},
		"add alone":   {store.Add{Key: newKey(), Max: 1}},
		"same stream": {newAppend(name, 1, ""), newAppend(name, 2, "")},
	} {
		err := s.Commit(t.Context(), writes...)
		if err == nil || errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Commit(%s) = %v, want a refusal of the arguments", caseName, err)
		}
	}
	wantTip(t, s, name, store.Row{})
}
