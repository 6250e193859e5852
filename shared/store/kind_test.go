package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

type note struct {
	Of   string `json:"of"`
	Text string `json:"text,omitempty"`
}

var notes = store.DocKind[note]{
	Shape:    store.Shape{Name: "note", Partition: "note#*", Sort: "n#*", Index: "notes#*"},
	Codec:    store.JSONCodec[note](3),
	KeyParts: func(n note) []string { return []string{n.Of, "1"} },
	CheckValue: func(d store.Doc, n note) error {
		if n.Text == "never" {
			return errors.New("it never is")
		}
		return nil
	},
}

func TestKeysOfAKindAndTheirParts(t *testing.T) {
	k := notes.Key("a", "1")
	if k != (store.Key{Partition: "note#a", Sort: "n#1"}) || notes.IndexKey("s", "x") != (store.Key{Partition: "notes#x", Sort: "s"}) {
		t.Errorf("Key() = %v, Listed() = %v", k, notes.IndexKey("s", "x"))
	}
	if r := notes.Range("a"); r != (store.Range{Partition: "note#a", Start: "n#", End: "n$"}) || !notes.HasRange(r) || !notes.HasRange(notes.IndexRange("x")) {
		t.Errorf("All() = %+v", r)
	}
	for _, r := range []store.Range{{}, {Partition: "note#a"}, {Partition: "note#a", Start: "n#"}, {Partition: "notes#x"}, {Partition: "note#a", Index: true}, {Partition: "other"}} {
		if notes.HasRange(r) {
			t.Errorf("Ranges(%+v) = true", r)
		}
	}
	two := store.Shape{Partition: "p#*#*", Sort: "*#end"}
	for key, want := range map[store.Key]string{
		{Partition: "p#a#b", Sort: "c#end"}:     `["a" "b" "c"]`,
		{Partition: "p##", Sort: "#end"}:        `["" "" ""]`,
		{Partition: "p#a#b#c", Sort: "d#end"}:   `["a" "b#c" "d"]`,
		{Partition: "p#a", Sort: "c#end"}:       "no",
		{Partition: "q#a#b", Sort: "c#end"}:     "no",
		{Partition: "p#a#b", Sort: "c#ende"}:    "no",
		{Partition: "p#a#b", Sort: "c"}:         "no",
		{Partition: "p#a#b", Sort: "c#end#end"}: "no",
	} {
		parts, ok := two.Parts(key)
		if got := fmt.Sprintf("%q", parts); ok && got != want || ok == (want == "no") || ok != two.Matches(key) {
			t.Errorf("Parts(%v) = %s, %t, want %s", key, got, ok, want)
		}
	}
	for name, f := range map[string]func(){
		"too few": func() { notes.Key("a") }, "too many": func() { notes.Key("a", "b", "c") }, "of an index": func() { notes.IndexKey("s") }, "of a list": func() { notes.Range() },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s parts are taken", name)
				}
			}()
			f()
		}()
	}
}

func TestADocumentIsWrittenWithItsFormatAndReadBack(t *testing.T) {
	s := memory.New()
	u := store.Updater{Store: s, Rand: &counting{}}
	put := func(v note) error {
		return u.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			_, d, err := notes.Get(ctx, tx, notes.Key(v.Of, "1"))
			notes.Put(tx, store.Doc{Key: d.Key, Index: notes.IndexKey("1", v.Of), Number: 7}, v)
			return err
		})
	}
	for _, v := range []note{{Of: "a", Text: "<b>"}, {Of: "a"}} {
		if err := put(v); err != nil {
			t.Fatal(err)
		}
		got, d, err := notes.Require(t.Context(), s, notes.Key("a", "1"))
		if err != nil || got != v || d.Number != 7 || d.Index.Sort != "1" {
			t.Errorf("Need() = %+v, %+v, %v, want %+v", got, d, err, v)
		}
		if want := strings.Replace(`{"format":3,"of":"a","text":"<b>"}`, `,"text":"<b>"`, map[bool]string{true: `,"text":"<b>"`}[v.Text != ""], 1); string(d.Data) != want {
			t.Errorf("stored as %s, want %s", d.Data, want)
		}
	}
	if v, d, err := notes.Get(t.Context(), s, notes.Key("b", "1")); err != nil || d.Version != 0 || v != (note{}) {
		t.Errorf("Get() of an absent one = %+v, %+v, %v", v, d, err)
	}
	if _, _, err := notes.Require(t.Context(), s, notes.Key("b", "1")); !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), "the note at note#b/n#1 is missing") {
		t.Errorf("Need() of an absent one = %v", err)
	}
	var all []string
	for v, err := range notes.Each(t.Context(), s, notes.Range("a")) {
		all = append(all, fmt.Sprint(v, err))
	}
	if want := []string{"{a } <nil>"}; !slices.Equal(all, want) {
		t.Errorf("Each() = %q, want %q", all, want)
	}
}

// A value that cannot be encoded fails the Update, and no write is committed.
func TestAnUpdateWithWhatCannotBeWrittenWritesNothing(t *testing.T) {
	s := memory.New()
	for name, codec := range map[string]store.Codec[any]{"no JSON": store.JSONCodec[any](1), "no object": store.JSONCodec[any](1)} {
		kind := store.DocKind[any]{Shape: store.Shape{Name: name, Partition: "p", Sort: "*"}, Codec: codec}
		value := map[string]any{"no JSON": func() {}, "no object": []int{1}}[name]
		err := store.Updater{Store: s, Rand: &counting{}}.Update(t.Context(), func(_ context.Context, tx *store.Tx) error {
			tx.Put(store.Doc{Key: kind.Key("beside"), Data: []byte("x")})
			kind.Put(tx, store.Doc{Key: kind.Key("x")}, value)
			return nil
		})
		if !problem.Is(err, problem.Internal) {
			t.Errorf("%s: Update() = %v, want Internal", name, err)
		}
		if d, err := s.Doc(t.Context(), kind.Key("beside")); err != nil || d.Version != 0 {
			t.Errorf("%s: something was written beside it: %+v, %v", name, d, err)
		}
	}
}

func TestADamagedDocumentNamesItselfAndTheReason(t *testing.T) {
	key := notes.Key("a", "1")
	for data, why := range map[string]string{
		``:                                     "unexpected end",
		`{`:                                    "unexpected end",
		`{"of":"a"}`:                           "expected format 3, got 0",
		`{"format":2,"of":"a"}`:                "it has format 2, and this vacancy reads format 3: an older vacancy wrote it; use that vacancy",
		`{"format":31}`:                        "it has format 31, and this vacancy reads format 3: a newer vacancy wrote it",
		`{"format":3,"of":7}`:                  "cannot unmarshal number",
		`{"format":3,"of":"b"}`:                "it belongs under another key",
		`{"format":3,"of":"a","text":"never"}`: "it never is",
	} {
		v, err := notes.Parse(store.Doc{Key: key, Version: 1, Data: []byte(data)})
		if !problem.Is(err, problem.Damaged) || !strings.HasPrefix(err.Error(), "the note at note#a/n#1 is not readable: ") || !strings.Contains(err.Error(), why) || v != (note{}) {
			t.Errorf("Parse(%s) = %+v, %v, want %q", data, v, err, why)
		}
		if check := notes.Check(store.Doc{Key: key, Version: 1, Data: []byte(data)}); check == nil || check.Error() != err.Error() {
			t.Errorf("Check(%s) = %v", data, check)
		}
	}
	for _, data := range []string{`{"format":3,"of":"a","later":1}`, `{"of":"a","format":3}`, "{ \"format\": 3, \"of\": \"a\" }"} {
		if v, err := notes.Parse(store.Doc{Key: key, Version: 1, Data: []byte(data)}); err != nil || v.Of != "a" {
			t.Errorf("Parse(%s) = %+v, %v", data, v, err)
		}
	}
}

// pages lists documents some at a time, and fails after a number of pages.
type pages struct {
	*memory.Store
	left int
}

func (p *pages) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	if p.left == 0 {
		return nil, "", store.ErrUnavailable
	}
	p.left--
	return p.Store.Docs(ctx, r, min(n, 2), cursor)
}

func TestAllDocumentsOfARangeAreListedUpToTheFirstError(t *testing.T) {
	s := memory.New()
	kind := store.DocKind[string]{Shape: store.Shape{Name: "word", Partition: "p", Sort: "*"}, Codec: store.TextCodec()}
	for i := range 5 {
		if err := s.Commit(t.Context(), store.Put{Key: kind.Key(fmt.Sprint(i)), WriteID: store.WriteID{byte(i) + 1}, Data: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	for most, want := range map[int]string{9: "01234", 2: "0123!", 0: "!"} {
		got := ""
		for word, err := range kind.Each(t.Context(), &pages{s, most}, kind.Range()) {
			if err != nil {
				word = "!"
			}
			got += word
		}
		if got != want {
			t.Errorf("with %d pages Each() = %s, want %s", most, got, want)
		}
	}
	got := ""
	for d := range store.Documents(t.Context(), &pages{s, 9}, kind.Range()) {
		if got += d.Key.Sort; got == "01" {
			break
		}
	}
	if got != "01" {
		t.Errorf("All() goes on after a break: %s", got)
	}
}

type counting struct{ n byte }

func (c *counting) Read(b []byte) (int, error) {
	for i := range b {
		c.n++
		b[i] = c.n
	}
	return len(b), nil
}

func FuzzADocumentIsReadOrDamaged(f *testing.F) {
	for _, data := range []string{`{"format":3,"of":"a"}`, `{"format":3}`, `{"format":3x`, `{"of":"a","format":3}`, `{"format":3,"format":2,"of":"a"}`} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data string) {
		v, err := notes.Parse(store.Doc{Key: notes.Key("a", "1"), Data: []byte(data)})
		if err != nil && !problem.Is(err, problem.Damaged) {
			t.Fatalf("Parse(%q) = %v", data, err)
		}
		if err != nil {
			return
		}
		again, err := notes.Encode(v)
		if back, err2 := notes.Parse(store.Doc{Key: notes.Key("a", "1"), Data: again}); err != nil || err2 != nil || back != v {
			t.Fatalf("%+v of %q is written as %q, %v, and read as %+v, %v", v, data, again, err, back, err2)
		}
	})
}

func FuzzPartsAreTheInverseOfKey(f *testing.F) {
	f.Add("p#*#*", "*#end", "p#a#b#c", "d#end")
	f.Fuzz(func(t *testing.T, partition, sort, p, s string) {
		shape, k := store.Shape{Partition: partition, Sort: sort}, store.Key{Partition: p, Sort: s}
		if parts, ok := shape.Parts(k); ok && shape.Key(parts...) != k {
			t.Fatalf("Parts(%v) of %+v = %q", k, shape, parts)
		}
	})
}
