package store_test

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestAStreamsNameIsItsKindAndItsIDs(t *testing.T) {
	from, to := identity.ID{1, '#', 3}, identity.ID{31: 255}
	for _, c := range []struct {
		stream store.Stream
		kind   string
		ids    []identity.ID
		text   string
	}{
		{store.StreamOf(store.KindRequest, from, to), "req", []identity.ID{from, to}, "req#" + from.String() + "#" + to.String()},
		{store.StreamOf(store.KindLogbook, to), "log", []identity.ID{to}, "log#" + to.String()},
	} {
		if got := c.stream.Kind(); got != c.kind {
			t.Errorf("Kind() = %q, want %q", got, c.kind)
		}
		if diff := cmp.Diff(c.ids, c.stream.IDs()); diff != "" {
			t.Errorf("IDs() (-want +got):\n%s", diff)
		}
		if got := c.stream.String(); got != c.text {
			t.Errorf("String() = %q, want %q", got, c.text)
		}
		if got := len(c.stream); got != 4+32*len(c.ids) {
			t.Errorf("a name of %d bytes, want %d", got, 4+32*len(c.ids))
		}
	}
}

func TestCheckRefusesWhatNoHomeTakes(t *testing.T) {
	writeID := store.WriteID{1}
	row := store.Append{Stream: "s", Position: 1, WriteID: writeID}
	k, other := store.Key{Partition: "p", Sort: "s"}, store.Key{Partition: "p", Sort: "t"}
	put := store.Put{Key: k, WriteID: writeID}
	add := store.Add{Key: other, Max: 1}
	large := make([]byte, store.MaxData+1)
	long := strings.Repeat("x", store.MaxKey+1)
	many := []store.Write{}
	for i := range store.MaxWrites {
		many = append(many, store.Append{Stream: store.Stream(rune('a' + i)), Position: 1, WriteID: writeID})
	}
	for _, c := range []struct {
		name   string
		writes []store.Write
		want   string // in the error; "" is none
	}{
		{"a row", []store.Write{row}, ""},
		{"all kinds", []store.Write{row, put, add, store.Delete{Key: store.Key{Partition: "q", Sort: "s"}, IfVersion: 1}}, ""},
		{"deletes", []store.Write{store.Delete{Key: k, IfVersion: 1}, store.Delete{Key: other, IfVersion: 1}}, ""},
		{"as many as fit", many, ""},
		{"none", nil, "1 to 25"},
		{"too many", append(slices.Clone(many), put), "1 to 25"},
		{"position 0", []store.Write{store.Append{Stream: "s", WriteID: writeID}}, "position from 1"},
		{"position beyond int64", []store.Write{store.Append{Stream: "s", Position: math.MaxInt64 + 1, WriteID: writeID}}, "position from 1"},
		{"no stream", []store.Write{store.Append{Position: 1, WriteID: writeID}}, "stream's name"},
		{"long stream", []store.Write{store.Append{Stream: store.Stream(long), Position: 1, WriteID: writeID}}, "stream's name"},
		{"row without write id", []store.Write{store.Append{Stream: "s", Position: 1}}, "WriteID"},
		{"put without write id", []store.Write{store.Put{Key: k}}, "expected a WriteID"},
		{"large row", []store.Write{store.Append{Stream: "s", Position: 1, WriteID: writeID, Data: large}}, "too large"},
		{"large document", []store.Write{store.Put{Key: k, WriteID: writeID, Data: large}}, "too large"},
		{"half a key", []store.Write{store.Put{Key: store.Key{Partition: "p"}, WriteID: writeID}}, "partition and sort"},
		{"long key", []store.Write{store.Put{Key: store.Key{Partition: "p", Sort: long}, WriteID: writeID}}, "partition and sort"},
		{"key that is not text", []store.Write{store.Put{Key: store.Key{Partition: "p", Sort: "\xff"}, WriteID: writeID}}, "UTF-8"},
		{"half an index", []store.Write{store.Put{Key: k, WriteID: writeID, Index: store.Key{Sort: "s"}}}, "index"},
		{"delete of version 0", []store.Write{store.Delete{Key: k}}, "version"},
		{"bounds upside down", []store.Write{row, store.Add{Key: k, Min: 2, Max: 1}}, "a minimum that does not exceed the maximum, got 2 and 1"},
		{"add alone", []store.Write{add}, "needs an Append or a Put"},
		{"add with a delete alone", []store.Write{add, store.Delete{Key: k, IfVersion: 1}}, "needs an Append or a Put"},
		{"one stream twice", []store.Write{row, put, store.Append{Stream: "s", Position: 2, WriteID: writeID}}, "two writes"},
		{"one document twice", []store.Write{put, store.Delete{Key: k, IfVersion: 1}}, "two writes"},
		{"one document added to twice", []store.Write{row, add, add}, "two writes"},
		{"a pointer", []store.Write{&row}, "got *store.Append"},
		{"nil", []store.Write{nil}, "got <nil>"},
	} {
		err := store.CheckWrites(c.writes)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("Check(%s) = %v, want %q", c.name, err, c.want)
		}
		if tooLarge := strings.HasPrefix(c.name, "large"); tooLarge != errors.Is(err, store.ErrTooLarge) {
			t.Errorf("Check(%s) is ErrTooLarge = %v, want %v", c.name, !tooLarge, tooLarge)
		}
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	writes := []store.Write{
		store.Append{Stream: "s", Position: 1, WriteID: store.WriteID{1}},
		store.Put{Key: store.Key{Partition: "p", Sort: "s"}, WriteID: store.WriteID{1}},
		store.Add{Key: store.Key{Partition: "p", Sort: "t"}},
	}
	if got := testing.AllocsPerRun(100, func() { _ = store.CheckWrites(writes) }); got != 0 {
		t.Errorf("Check() allocates %v times, want 0", got)
	}
}

func TestAnAddFitsIfTheTrueSumDoes(t *testing.T) {
	edges := []int64{math.MinInt64, math.MinInt64 + 1, -2, -1, 0, 1, 2, math.MaxInt64 - 1, math.MaxInt64}
	for _, number := range edges {
		for _, delta := range edges {
			for _, low := range edges {
				a := store.Add{Delta: delta, Min: low, Max: math.MaxInt64 - 1}
				sum := new(big.Int).Add(big.NewInt(number), big.NewInt(delta))
				want := sum.Cmp(big.NewInt(a.Min)) >= 0 && sum.Cmp(big.NewInt(a.Max)) <= 0
				if got := a.Fits(number); got != want {
					t.Errorf("Add{%d, %d to %d}.Fits(%d) = %v, want %v", delta, low, a.Max, number, got, want)
				}
			}
		}
	}
}

func TestCursorsComeBackAndNothingElsePasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := store.Cursor{IndexSort: rapid.StringN(0, 20, store.MaxKey).Draw(t, "sort")}
		c.Key.Partition = rapid.StringN(1, 20, store.MaxKey).Draw(t, "partition")
		c.Key.Sort = rapid.StringN(1, 20, store.MaxKey).Draw(t, "key")
		if got, err := store.ParseCursor(c.String()); err != nil || got != c {
			t.Fatalf("ParseCursor(%q) = %+v, %v, want %+v", c.String(), got, err, c)
		}
		if _, err := store.ParseCursor(c.String() + "AA"); err == nil {
			t.Fatal("ParseCursor(with more behind) = nil, want an error")
		}
	})
	for _, s := range []string{"!", "A", "AAAA", "_____w", strings.Repeat("_", 40)} {
		if c, err := store.ParseCursor(s); err == nil {
			t.Errorf("ParseCursor(%q) = %+v, want an error", s, c)
		}
	}
}

func FuzzParseCursor(f *testing.F) {
	f.Add("")
	f.Add(store.Cursor{IndexSort: "a", Key: store.Key{Partition: "p", Sort: "s"}}.String())
	f.Fuzz(func(t *testing.T, s string) {
		c, err := store.ParseCursor(s)
		if err != nil || s == "" {
			return
		}
		if again, err := store.ParseCursor(c.String()); err != nil || again != c {
			t.Errorf("ParseCursor(%q) = %+v, %v, want %+v", c.String(), again, err, c)
		}
	})
}

func FuzzParseStreamCursor(f *testing.F) {
	f.Add("")
	f.Add(store.StreamCursor("req#"))
	f.Fuzz(func(t *testing.T, s string) {
		name, err := store.ParseStreamCursor(s)
		if err != nil {
			return
		}
		if again, err := store.ParseStreamCursor(store.StreamCursor(name)); err != nil || again != name || len(name) > store.MaxKey {
			t.Errorf("ParseStreamCursor(%q) = %q, %v, want %q", s, again, err, name)
		}
	})
}
