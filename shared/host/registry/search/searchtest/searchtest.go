// Package searchtest tests implementations of search.Index. An index must return the same hits as a
// scan of all entries (Scan), in the same order and with the same ranks. Corpus generates entries
// for tests and measurements.
package searchtest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Open returns an empty index. The test suite closes it.
type Open func(t *testing.T) search.Index

func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		test func(*testing.T, search.Index)
	}{
		{"an empty index finds nothing and has no mark", testEmpty},
		{"an index returns the same hits as a scan of all entries", testScan},
		{"words match exactly, as prefixes and inside", testKinds},
		{"words match in their English forms", testForms},
		{"a query with MinWords matches entries without some of its words", testLeast},
		{"grams in another order do not match", testGrams},
		{"texts of any script are found", testScripts},
		{"an entry that is put again replaces the old one", testReplace},
		{"a removed entry is not found", testRemove},
		{"a batch and its mark are applied together", testMark},
		{"pages continue correctly during writes", testPages},
		{"filters exclude entries that do not match", testFilters},
		{"a query beyond its limits is refused", testLimits},
		{"a cancelled call returns unavailable", testCancelled},
		{"a closed index returns unavailable", testClosed},
		{"an index may be used concurrently", testTogether},
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

// ranks tolerates rounding errors in ranks, which an index may compute in another order.
var ranks = cmpopts.EquateApprox(0, 1e-12)

func apply(t testing.TB, x search.Index, b search.Batch) {
	t.Helper()
	if err := x.Apply(context.Background(), b); err != nil {
		t.Fatalf("Apply() = %v, want nil", err)
	}
}

func ask(t testing.TB, x search.Index, q search.Query) []search.Hit {
	t.Helper()
	hits, err := x.Query(context.Background(), q)
	if err != nil {
		t.Fatalf("Query(%+v) = %v", q, err)
	}
	return hits
}

func count(t *testing.T, x search.Index, want int) {
	t.Helper()
	if n, err := x.Count(t.Context()); err != nil || n != want {
		t.Errorf("Count() = %d, %v, want %d", n, err, want)
	}
}

// like requires that an index returns the same hits as Scan.
func like(t *testing.T, x search.Index, entries []search.Entry, q search.Query) {
	t.Helper()
	if diff := cmp.Diff(Scan(entries, q), ask(t, x, q), ranks, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Query(%s) differs from a scan (-scan +index):\n%s", show(q), diff)
	}
}

func show(q search.Query) string {
	price := "any"
	if q.MaxPrice != nil {
		price = fmt.Sprint(*q.MaxPrice)
	}
	return fmt.Sprintf("%+v, price %s, after %+v", q, price, q.After)
}

func testEmpty(t *testing.T, x search.Index) {
	if hits := ask(t, x, search.Query{Limit: 10}); len(hits) != 0 {
		t.Errorf("Query() = %v, want none", hits)
	}
	if hits := ask(t, x, search.Query{Words: []string{"a"}, Text: "b", Tag: "c", Limit: 10}); len(hits) != 0 {
		t.Errorf("Query() = %v, want none", hits)
	}
	if mark, err := x.Mark(t.Context()); err != nil || mark != "" {
		t.Errorf(`Mark() = %q, %v, want ""`, mark, err)
	}
	count(t, x, 0)
}

func testScan(t *testing.T, x search.Index) {
	c := NewCorpus(1)
	entries := c.Entries(200)
	for some := range slices.Chunk(entries, 80) {
		apply(t, x, search.Batch{Put: some})
	}
	count(t, x, len(entries))
	for _, q := range c.queries(100) {
		like(t, x, entries, q)
	}
	// All pages together contain all hits.
	q := search.Query{Words: []string{"t"}, Limit: 7}
	want := Scan(entries, search.Query{Words: q.Words, Limit: len(entries)})
	var paged []search.Hit
	for {
		hits := ask(t, x, q)
		paged = append(paged, hits...)
		if len(hits) < q.Limit {
			break
		}
		q.After = &hits[len(hits)-1].Place
	}
	if diff := cmp.Diff(want, paged, ranks); diff != "" {
		t.Errorf("pages of 7 differ from a scan (-scan +pages):\n%s", diff)
	}
}

// queries returns queries of every kind, some with filters.
func (c *Corpus) queries(n int) []search.Query {
	searches := make([]search.Query, n)
	for i := range searches {
		q := search.Query{Limit: 1 + c.rand.IntN(40)}
		switch i % 5 {
		case 0, 1:
			q.Words = c.Query()
			q.MinWords = c.rand.IntN(len(q.Words) + 1)
		case 2:
			q.Words = search.Words(c.Substring())
		case 3:
			q.Text, q.ByScore = c.Substring(), c.rand.IntN(2) == 0
		}
		if c.rand.IntN(6) == 0 {
			q.Area, q.Bookable = c.words[c.rand.IntN(11)], c.rand.IntN(2) == 0
		}
		switch c.rand.IntN(8) {
		case 0:
			price := int64(c.rand.IntN(20)) * 500
			q.MaxPrice = &price
		case 1:
			q.MinScore = float64(c.rand.IntN(64)) / 64
		case 2:
			q.ClaimedFamily = fmt.Sprintf("family-%d", c.rand.IntN(12))
		case 3:
			q.Family = fmt.Sprintf("family-%d", c.rand.IntN(12))
		case 4:
			q.Tag = c.words[c.rand.IntN(200)]
		case 5:
			q.After = &search.Place{Rank: q.Rank(q.Weight(8*len(q.Words), 1024)), Joined: 150}
		}
		searches[i] = q
	}
	return searches
}

// entry returns a small entry with a known content.
func entry(n byte, change func(*search.Entry)) search.Entry {
	e := search.Entry{ID: identity.ID{n}, Joined: uint64(n)}
	change(&e)
	return e
}

func testKinds(t *testing.T, x search.Index) {
	entries := []search.Entry{
		entry(1, func(e *search.Entry) { e.Capability = "metadatabase" }),
		entry(2, func(e *search.Entry) { e.Tags = []string{"Databases"} }),
		entry(3, func(e *search.Entry) { e.Skills = []string{"a data expert"} }),
		entry(4, func(e *search.Entry) { e.Summary = "data" }),
		entry(5, func(e *search.Entry) { e.Declared = []string{"data"} }),
		entry(6, func(e *search.Entry) { e.Declared = []string{"update"} }),
		entry(7, func(e *search.Entry) { e.Capability, e.Declared, e.Score = "update", []string{"data"}, 1 }),
		entry(8, func(e *search.Entry) { e.Capability = "dat ata" }),
	}
	apply(t, x, search.Batch{Put: entries})
	want := []search.Hit{
		{ID: identity.ID{3}, Place: search.Place{Rank: 0.5, Joined: 3}},    // 16
		{ID: identity.ID{7}, Place: search.Place{Rank: 0.5, Joined: 7}},    // 8, and the best score
		{ID: identity.ID{2}, Place: search.Place{Rank: 0.375, Joined: 2}},  // 12, a prefix
		{ID: identity.ID{4}, Place: search.Place{Rank: 0.375, Joined: 4}},  // 12, in a summary
		{ID: identity.ID{1}, Place: search.Place{Rank: 0.25, Joined: 1}},   // 8, inside
		{ID: identity.ID{5}, Place: search.Place{Rank: 0.25, Joined: 5}},   // 8, claimed
		{ID: identity.ID{6}, Place: search.Place{Rank: 0.1875, Joined: 6}}, // not for "data"
	}
	if diff := cmp.Diff(want[:6], ask(t, x, search.Query{Words: []string{"data"}, Limit: 10}), ranks); diff != "" {
		t.Errorf("Query(data) (-want +got):\n%s", diff)
	}
	for _, words := range [][]string{{"d"}, {"da"}, {"dat"}, {"at"}, {"ata"}, {"pdat"}, {"update"}, {"data", "expert"}, {"data", "nothing"}} {
		like(t, x, entries, search.Query{Words: words, Limit: 10})
	}
}

func testForms(t *testing.T, x search.Index) {
	entries := []search.Entry{
		entry(1, func(e *search.Entry) { e.Capability = "Translates letters" }),
		entry(2, func(e *search.Entry) { e.Tags = []string{"translation", "letter"} }),
		entry(3, func(e *search.Entry) { e.Summary, e.Declared = "flies in cities", []string{"translated", "happiness"} }),
		entry(4, func(e *search.Entry) { e.Capability = "letting übersetzt 翻訳する c++ lettering" }),
		entry(5, func(e *search.Entry) { e.Capability, e.Score = "translator of the dying", 1 }),
	}
	apply(t, x, search.Batch{Put: entries})
	want := []search.Hit{
		{ID: identity.ID{5}, Place: search.Place{Rank: 0.75, Joined: 5}},  // 12, and the best score
		{ID: identity.ID{1}, Place: search.Place{Rank: 0.375, Joined: 1}}, // 12: also a prefix
		{ID: identity.ID{2}, Place: search.Place{Rank: 0.375, Joined: 2}}, // 12: a form
		{ID: identity.ID{3}, Place: search.Place{Rank: 0.1875, Joined: 3}},
	}
	if diff := cmp.Diff(want, ask(t, x, search.Query{Words: []string{"translate"}, Limit: 10}), ranks); diff != "" {
		t.Errorf("Query(translate) (-want +got):\n%s", diff)
	}
	for _, words := range [][]string{{"translations"}, {"letters"}, {"lettered"}, {"translate", "letter"}, {"fly"}, {"city"}, {"happy"}, {"happier"}, {"die"}, {"let"}, {"翻訳"}, {"c++"}, {"übersetzen"}, {"translating", "cit"}} {
		like(t, x, entries, search.Query{Words: words, Limit: 10})
		like(t, x, entries, search.Query{Words: append(words, "ranslat"), Limit: 10, MinWords: 1})
	}
}

func testLeast(t *testing.T, x search.Index) {
	entries := []search.Entry{
		entry(1, func(e *search.Entry) { e.Capability = "alpha beta gamma" }),
		entry(2, func(e *search.Entry) { e.Capability = "alpha beta" }),
		entry(3, func(e *search.Entry) { e.Declared = []string{"alpha gamma"} }),
		entry(4, func(e *search.Entry) { e.Tags, e.Price = []string{"gamma"}, 5 }),
		entry(5, func(e *search.Entry) { e.Capability, e.Score = "xalphabx", 1 }),
	}
	apply(t, x, search.Batch{Put: entries})
	price := int64(0)
	words := []string{"alpha", "beta", "gamma", "delta"}
	for least, want := range map[int][]byte{0: nil, 1: {1, 2, 3, 4, 5}, 2: {1, 2, 3}, 3: {1}, 4: nil} {
		var got []byte
		for _, h := range ask(t, x, search.Query{Words: words, MinWords: least, Limit: 10}) {
			got = append(got, h.ID[0])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("at least %d of %v (-want +got):\n%s", least, words, diff)
		}
		for _, q := range []search.Query{{Limit: 2}, {Limit: 10, MaxPrice: &price}, {Limit: 10, ByScore: true}, {Limit: 10, After: &search.Place{Rank: 0.25, Joined: 2}}} {
			q.Words, q.MinWords = words, least
			like(t, x, entries, q)
		}
	}
}

func testGrams(t *testing.T, x search.Index) {
	entries := []search.Entry{
		entry(1, func(e *search.Entry) {
			e.Capability, e.Declared = "abcd bcde cdefx", []string{"abcd bcde cdefx"}
		}),
		entry(2, func(e *search.Entry) { e.Capability, e.Declared = "zabcdef", []string{"zabcdef"} }),
		entry(3, func(e *search.Entry) { e.Capability, e.Declared = "abx xabcde", []string{"ab", "cde", "abc", "bcd"} }),
		entry(4, func(e *search.Entry) { e.Capability, e.Summary = "abcde", "abcdefg" }),
	}
	apply(t, x, search.Batch{Put: entries})
	for _, w := range []string{"abcdef", "abcde", "abcd", "cdef", "bcde"} {
		like(t, x, entries, search.Query{Words: []string{w}, Limit: 10})
		like(t, x, entries, search.Query{Words: []string{w, "abc"}, Limit: 1})
		like(t, x, entries, search.Query{Text: w, Limit: 10})
	}
}

func testScripts(t *testing.T, x search.Index) {
	texts := []string{
		"Überprüfung von Verträgen", "STRASSE und Straße", "cafe\u0301 au lait",
		"法律顾问，合同审查", "東京でレストランを予約する", "번역 서비스 제공", "ให้คำปรึกษาด้านกฎหมาย",
		"תרגום משפטי", "ترجمة قانونية", "C++ and C# experts", "paints 🎨 and 🖌️ things",
		`100% safe_[code] "quoted" a*b ~x^y?`, "ﬁne ＦＵＬＬ width ①", "नमस्ते दुनिया",
	}
	var entries []search.Entry
	for i, s := range texts {
		entries = append(entries, entry(byte(i+1), func(e *search.Entry) { e.Capability, e.Declared = s, []string{s} }))
	}
	apply(t, x, search.Batch{Put: entries})
	for query, want := range map[string][]byte{
		"überprüfung": {1}, "VERTRÄGE": {1}, "u\u0308berpru\u0308f": {1}, "strasse": {2}, "straße": {2}, "CAFÉ": {3},
		"法律": {4}, "顾": {4}, "合同审": {4}, "レスト": {5}, "予約": {5}, "서비스": {6}, "กฎหมาย": {7},
		"משפטי": {8}, "\u200fמשפטי\u200e": {8}, "قانونية": {9}, "c++": {10}, "c#": {10}, "🎨": {11}, "🖌": {11}, "🖌️": {11},
		"safe": {12}, `"quoted"`: {12}, "full": {13}, "fine": {13}, "1": {12, 13}, "नमस्ते": {14}, "दुनि": {14},
		"zebra": nil, "法学": nil,
	} {
		words, err := search.ParseWords(query)
		if err != nil {
			t.Fatalf("ParseWords(%q) = %v", query, err)
		}
		var got []byte
		for _, h := range ask(t, x, search.Query{Words: words, Limit: 20}) {
			got = append(got, h.ID[0])
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Query(%q) (-want +got):\n%s", query, diff)
		}
	}
	// In q.Text, punctuation stands for itself.
	for _, s := range []string{"%", "_", `"`, "[", "]", "*", "?", "~", "^", "_[code]", "顾问", " ", "a", "s t", "\\"} {
		like(t, x, entries, search.Query{Text: s, Limit: 20})
	}
}

func testReplace(t *testing.T, x search.Index) {
	first := entry(1, func(e *search.Entry) { e.Capability = "translates contracts" })
	apply(t, x, search.Batch{Put: []search.Entry{first, entry(2, func(e *search.Entry) { e.Capability = "paints" })}})
	first.Capability, first.Score = "writes music", 0.25
	apply(t, x, search.Batch{Put: []search.Entry{first}})
	if hits := ask(t, x, search.Query{Words: []string{"contracts"}, Limit: 5}); len(hits) != 0 {
		t.Errorf("Query(contracts) = %v, want none: it was replaced", hits)
	}
	want := []search.Hit{{ID: first.ID, Place: search.Place{Rank: 0.625, Joined: 1}}}
	if diff := cmp.Diff(want, ask(t, x, search.Query{Words: []string{"music"}, Limit: 5}), ranks); diff != "" {
		t.Errorf("Query(music) (-want +got):\n%s", diff)
	}
	count(t, x, 2)
}

func testRemove(t *testing.T, x search.Index) {
	entries := NewCorpus(2).Entries(20)
	apply(t, x, search.Batch{Put: entries})
	apply(t, x, search.Batch{Remove: []identity.ID{entries[3].ID, {0xff}}, Put: []search.Entry{entries[5]}})
	entries = slices.Delete(entries, 3, 4)
	like(t, x, entries, search.Query{Limit: 50})
	count(t, x, len(entries))
	var rest []identity.ID
	for _, e := range entries {
		rest = append(rest, e.ID)
	}
	apply(t, x, search.Batch{Remove: rest})
	like(t, x, nil, search.Query{Limit: 50})
	count(t, x, 0)
}

func testMark(t *testing.T, x search.Index) {
	for _, c := range []struct {
		batch search.Batch
		want  string
	}{
		{search.Batch{Mark: "0001"}, "0001"},
		{search.Batch{Put: []search.Entry{entry(1, func(*search.Entry) {})}, Mark: "0002"}, "0002"},
		{search.Batch{Remove: []identity.ID{{1}}}, "0002"},
		{search.Batch{Remove: []identity.ID{{1}}, Mark: "0003"}, "0003"},
	} {
		apply(t, x, c.batch)
		if got, err := x.Mark(t.Context()); err != nil || got != c.want {
			t.Errorf("Mark() = %q, %v, want %q", got, err, c.want)
		}
	}
}

func testPages(t *testing.T, x search.Index) {
	entries := NewCorpus(3).Entries(90)
	apply(t, x, search.Batch{Put: entries[:60]})
	q := search.Query{Limit: 10}
	want := Scan(entries[:60], search.Query{Limit: 60})
	var got []search.Hit
	for i := range 6 {
		hits := ask(t, x, q)
		for _, h := range hits {
			if h.Joined <= 60 {
				got = append(got, h)
			}
		}
		q.After = &hits[len(hits)-1].Place
		q.Limit = 10 + 3*(i+1) // room for new entries
		apply(t, x, search.Batch{Put: entries[60+3*i : 63+3*i]})
	}
	if len(got) < len(want) {
		t.Fatalf("6 pages have %d of 60 entries", len(got))
	}
	if diff := cmp.Diff(want, got, ranks); diff != "" {
		t.Errorf("pages lost or repeated an entry (-want +got):\n%s", diff)
	}
}

func testFilters(t *testing.T, x search.Index) {
	entries := []search.Entry{
		entry(1, func(e *search.Entry) { e.Tags, e.Family, e.Price = []string{"Legal", "tax law"}, "Claude", 100 }),
		entry(2, func(e *search.Entry) { e.Tags, e.ClaimedFamily, e.Score = []string{"legal"}, "claude", 0.5 }),
		entry(3, func(e *search.Entry) { e.Capability, e.Price, e.Score = "legal", math.MaxInt64, 1 }),
		entry(4, func(e *search.Entry) { e.Family, e.Score = "claude", math.NaN() }),
		entry(5, func(e *search.Entry) {
			e.VenueTexts, e.Price = []string{"warung-sunset", "Warung Sunset", "Restaurant"}, math.MaxInt64
			e.Category, e.Areas, e.Bookable = "Restaurant", []string{"Echo Beach", "Canggu"}, true
		}),
		entry(6, func(e *search.Entry) { e.Category, e.Areas, e.Price = "restaurant", []string{"canggu"}, math.MaxInt64 }),
	}
	apply(t, x, search.Batch{Put: entries})
	none, some, much := int64(0), int64(100), int64(math.MaxInt64)
	for _, c := range []struct {
		q    search.Query
		want []byte
	}{
		{search.Query{Tag: "legal"}, []byte{2, 1}},
		{search.Query{Tag: "tax law"}, []byte{1}},
		{search.Query{Tag: "tax"}, nil},
		{search.Query{Family: "claude"}, []byte{4}},
		{search.Query{ClaimedFamily: "claude"}, []byte{2}},
		{search.Query{MaxPrice: &none}, []byte{2, 4}},
		{search.Query{MaxPrice: &some}, []byte{2, 1, 4}},
		{search.Query{MaxPrice: &much}, []byte{3, 2, 1, 4, 5, 6}},
		{search.Query{Category: "restaurant"}, []byte{5, 6}},
		{search.Query{Category: "rest"}, nil},
		{search.Query{Area: "canggu", Bookable: true}, []byte{5}},
		{search.Query{Area: "echo beach", Category: "restaurant"}, []byte{5}},
		{search.Query{Area: "canggu", Tag: "legal"}, nil},
		{search.Query{Words: []string{"sunset"}, Area: "canggu"}, []byte{5}},
		{search.Query{Bookable: true}, []byte{5}},
		{search.Query{MinScore: 0.5}, []byte{3, 2}},
		{search.Query{MinScore: 1, ByScore: true}, []byte{3}},
		{search.Query{Words: []string{"legal"}, MinScore: 0.25, MaxPrice: &some}, []byte{2}},
	} {
		c.q.Limit = 10
		var got []byte
		for _, h := range ask(t, x, c.q) {
			got = append(got, h.ID[0])
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("Query(%s) (-want +got):\n%s", show(c.q), diff)
		}
	}
}

func testLimits(t *testing.T, x search.Index) {
	for _, q := range []search.Query{
		{},
		{Limit: -1},
		{Limit: search.MaxPage + 1},
		{Limit: 1, Words: make([]string, search.MaxWords+1)},
	} {
		if _, err := x.Query(t.Context(), q); !problem.Is(err, problem.Malformed) {
			t.Errorf("Query(%s) = %v, want malformed", show(q), err)
		}
	}
}

func testCancelled(t *testing.T, x search.Index) {
	apply(t, x, search.Batch{Put: NewCorpus(4).Entries(5)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Query(ctx, search.Query{Words: []string{"a"}, Limit: 1}); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Query() = %v, want unavailable", err)
	}
	if err := x.Apply(ctx, search.Batch{Mark: "x"}); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Apply() = %v, want unavailable", err)
	}
}

func testClosed(t *testing.T, x search.Index) {
	if err := x.Close(); err != nil {
		t.Fatalf("Close() = %v, want nil", err)
	}
	if _, err := x.Query(t.Context(), search.Query{Limit: 1}); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Query() = %v, want unavailable", err)
	}
	if err := x.Apply(t.Context(), search.Batch{Mark: "x"}); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Apply() = %v, want unavailable", err)
	}
	if _, err := x.Mark(t.Context()); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Mark() = %v, want unavailable", err)
	}
}

func testTogether(t *testing.T, x search.Index) {
	c := NewCorpus(5)
	entries := c.Entries(60)
	queries := c.queries(60)
	var wg sync.WaitGroup
	for some := range slices.Chunk(entries, 15) {
		wg.Go(func() {
			if err := x.Apply(t.Context(), search.Batch{Put: some}); err != nil {
				t.Errorf("Apply() = %v, want nil", err)
			}
		})
	}
	for some := range slices.Chunk(queries, 15) {
		wg.Go(func() {
			for _, q := range some {
				if _, err := x.Query(t.Context(), q); err != nil {
					t.Errorf("Query() = %v, want nil", err)
				}
			}
		})
	}
	wg.Wait()
	like(t, x, entries, search.Query{Limit: 100})
}
