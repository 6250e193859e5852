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
		{"words match exactly, as prefixes and inside", testMatchKinds},
		{"words match in their English forms", testWordForms},
		{"a query with MinWords matches entries without some of its words", testMinWords},
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
		{"an index may be used concurrently", testConcurrentUse},
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

// approxRanks tolerates rounding errors in ranks, which an index may compute in another order.
var approxRanks = cmpopts.EquateApprox(0, 1e-12)

func mustApply(t testing.TB, x search.Index, b search.Batch) {
	t.Helper()
	if err := x.Apply(context.Background(), b); err != nil {
		t.Fatalf("Apply() = %v, want nil", err)
	}
}

func mustQuery(t testing.TB, x search.Index, q search.Query) []search.Hit {
	t.Helper()
	hits, err := x.Query(context.Background(), q)
	if err != nil {
		t.Fatalf("Query(%+v) = %v", q, err)
	}
	return hits
}

func wantCount(t *testing.T, x search.Index, want int) {
	t.Helper()
	if n, err := x.Count(t.Context()); err != nil || n != want {
		t.Errorf("Count() = %d, %v, want %d", n, err, want)
	}
}

func wantSameAsScan(t *testing.T, x search.Index, entries []search.Entry, q search.Query) {
	t.Helper()
	if diff := cmp.Diff(Scan(entries, q), mustQuery(t, x, q), approxRanks, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Query(%s) differs from a scan (-scan +index):\n%s", formatQuery(q), diff)
	}
}

func formatQuery(q search.Query) string {
	price := "any"
	if q.MaxPrice != nil {
		price = fmt.Sprint(*q.MaxPrice)
	}
	return fmt.Sprintf("%+v, price %s, after %+v", q, price, q.After)
}

func testEmpty(t *testing.T, x search.Index) {
	if hits := mustQuery(t, x, search.Query{Limit: 10}); len(hits) != 0 {
		t.Errorf("Query() = %v, want none", hits)
	}
	if hits := mustQuery(t, x, search.Query{Words: []string{"a"}, Text: "b", Tag: "c", Limit: 10}); len(hits) != 0 {
		t.Errorf("Query() = %v, want none", hits)
	}
	if mark, err := x.Mark(t.Context()); err != nil || mark != "" {
		t.Errorf(`Mark() = %q, %v, want ""`, mark, err)
	}
	wantCount(t, x, 0)
}

func testScan(t *testing.T, x search.Index) {
	c := NewCorpus(1)
	entries := c.NextEntries(200)
	for chunk := range slices.Chunk(entries, 80) {
		mustApply(t, x, search.Batch{Put: chunk})
	}
	wantCount(t, x, len(entries))
	for _, q := range c.randomQueries(100) {
		wantSameAsScan(t, x, entries, q)
	}
	// All pages together contain all hits.
	q := search.Query{Words: []string{"t"}, Limit: 7}
	want := Scan(entries, search.Query{Words: q.Words, Limit: len(entries)})
	var paged []search.Hit
	for {
		hits := mustQuery(t, x, q)
		paged = append(paged, hits...)
		if len(hits) < q.Limit {
			break
		}
		q.After = &hits[len(hits)-1].Place
	}
	if diff := cmp.Diff(want, paged, approxRanks); diff != "" {
		t.Errorf("pages of 7 differ from a scan (-scan +pages):\n%s", diff)
	}
}

func (c *Corpus) randomQueries(n int) []search.Query {
	queries := make([]search.Query, n)
	for i := range queries {
		q := search.Query{Limit: 1 + c.rnd.IntN(40)}
		switch i % 5 {
		case 0, 1:
			q.Words = c.RandomWords()
			q.MinWords = c.rnd.IntN(len(q.Words) + 1)
		case 2:
			q.Words = search.Words(c.RandomSubstring())
		case 3:
			q.Text, q.ByScore = c.RandomSubstring(), c.rnd.IntN(2) == 0
		}
		if c.rnd.IntN(6) == 0 {
			q.Area, q.Bookable = c.words[c.rnd.IntN(11)], c.rnd.IntN(2) == 0
		}
		switch c.rnd.IntN(8) {
		case 0:
			price := int64(c.rnd.IntN(20)) * 500
			q.MaxPrice = &price
		case 1:
			q.MinScore = float64(c.rnd.IntN(64)) / 64
		case 2:
			q.ClaimedFamily = fmt.Sprintf("family-%d", c.rnd.IntN(12))
		case 3:
			q.Family = fmt.Sprintf("family-%d", c.rnd.IntN(12))
		case 4:
			q.Tag = c.words[c.rnd.IntN(200)]
		case 5:
			q.After = &search.Place{Rank: q.Rank(q.Weight(8*len(q.Words), 1024)), FirstSeq: 150}
		}
		queries[i] = q
	}
	return queries
}

func newEntry(n byte, change func(*search.Entry)) search.Entry {
	e := search.Entry{ID: identity.ID{n}, FirstSeq: uint64(n)}
	change(&e)
	return e
}

func testMatchKinds(t *testing.T, x search.Index) {
	entries := []search.Entry{
		newEntry(1, func(e *search.Entry) { e.Capability = "metadatabase" }),
		newEntry(2, func(e *search.Entry) { e.Tags = []string{"Databases"} }),
		newEntry(3, func(e *search.Entry) { e.Skills = []string{"a data expert"} }),
		newEntry(4, func(e *search.Entry) { e.Summary = "data" }),
		newEntry(5, func(e *search.Entry) { e.DeclaredCapabilities = []string{"data"} }),
		newEntry(6, func(e *search.Entry) { e.DeclaredCapabilities = []string{"update"} }),
		newEntry(7, func(e *search.Entry) { e.Capability, e.DeclaredCapabilities, e.Score = "update", []string{"data"}, 1 }),
		newEntry(8, func(e *search.Entry) { e.Capability = "dat ata" }),
	}
	mustApply(t, x, search.Batch{Put: entries})
	want := []search.Hit{
		{ID: identity.ID{3}, Place: search.Place{Rank: 0.5, FirstSeq: 3}},    // 16
		{ID: identity.ID{7}, Place: search.Place{Rank: 0.5, FirstSeq: 7}},    // 8, and the best score
		{ID: identity.ID{2}, Place: search.Place{Rank: 0.375, FirstSeq: 2}},  // 12, a prefix
		{ID: identity.ID{4}, Place: search.Place{Rank: 0.375, FirstSeq: 4}},  // 12, in a summary
		{ID: identity.ID{1}, Place: search.Place{Rank: 0.25, FirstSeq: 1}},   // 8, inside
		{ID: identity.ID{5}, Place: search.Place{Rank: 0.25, FirstSeq: 5}},   // 8, claimed
		{ID: identity.ID{6}, Place: search.Place{Rank: 0.1875, FirstSeq: 6}}, // no match for "data"
	}
	if diff := cmp.Diff(want[:6], mustQuery(t, x, search.Query{Words: []string{"data"}, Limit: 10}), approxRanks); diff != "" {
		t.Errorf("Query(data) (-want +got):\n%s", diff)
	}
	for _, words := range [][]string{{"d"}, {"da"}, {"dat"}, {"at"}, {"ata"}, {"pdat"}, {"update"}, {"data", "expert"}, {"data", "nothing"}} {
		wantSameAsScan(t, x, entries, search.Query{Words: words, Limit: 10})
	}
}

func testWordForms(t *testing.T, x search.Index) {
	entries := []search.Entry{
		newEntry(1, func(e *search.Entry) { e.Capability = "Translates letters" }),
		newEntry(2, func(e *search.Entry) { e.Tags = []string{"translation", "letter"} }),
		newEntry(3, func(e *search.Entry) {
			e.Summary, e.DeclaredCapabilities = "flies in cities", []string{"translated", "happiness"}
		}),
		newEntry(4, func(e *search.Entry) { e.Capability = "letting übersetzt 翻訳する c++ lettering" }),
		newEntry(5, func(e *search.Entry) { e.Capability, e.Score = "translator of the dying", 1 }),
	}
	mustApply(t, x, search.Batch{Put: entries})
	want := []search.Hit{
		{ID: identity.ID{5}, Place: search.Place{Rank: 0.75, FirstSeq: 5}},  // 12, and the best score
		{ID: identity.ID{1}, Place: search.Place{Rank: 0.375, FirstSeq: 1}}, // 12: also a prefix
		{ID: identity.ID{2}, Place: search.Place{Rank: 0.375, FirstSeq: 2}}, // 12: a form
		{ID: identity.ID{3}, Place: search.Place{Rank: 0.1875, FirstSeq: 3}},
	}
	if diff := cmp.Diff(want, mustQuery(t, x, search.Query{Words: []string{"translate"}, Limit: 10}), approxRanks); diff != "" {
		t.Errorf("Query(translate) (-want +got):\n%s", diff)
	}
	for _, words := range [][]string{{"translations"}, {"letters"}, {"lettered"}, {"translate", "letter"}, {"fly"}, {"city"}, {"happy"}, {"happier"}, {"die"}, {"let"}, {"翻訳"}, {"c++"}, {"übersetzen"}, {"translating", "cit"}} {
		wantSameAsScan(t, x, entries, search.Query{Words: words, Limit: 10})
		wantSameAsScan(t, x, entries, search.Query{Words: append(words, "ranslat"), Limit: 10, MinWords: 1})
	}
}

func testMinWords(t *testing.T, x search.Index) {
	entries := []search.Entry{
		newEntry(1, func(e *search.Entry) { e.Capability = "alpha beta gamma" }),
		newEntry(2, func(e *search.Entry) { e.Capability = "alpha beta" }),
		newEntry(3, func(e *search.Entry) { e.DeclaredCapabilities = []string{"alpha gamma"} }),
		newEntry(4, func(e *search.Entry) { e.Tags, e.Price = []string{"gamma"}, 5 }),
		newEntry(5, func(e *search.Entry) { e.Capability, e.Score = "xalphabx", 1 }),
	}
	mustApply(t, x, search.Batch{Put: entries})
	price := int64(0)
	words := []string{"alpha", "beta", "gamma", "delta"}
	for minWords, want := range map[int][]byte{0: nil, 1: {1, 2, 3, 4, 5}, 2: {1, 2, 3}, 3: {1}, 4: nil} {
		var got []byte
		for _, h := range mustQuery(t, x, search.Query{Words: words, MinWords: minWords, Limit: 10}) {
			got = append(got, h.ID[0])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("at least %d of %v (-want +got):\n%s", minWords, words, diff)
		}
		for _, q := range []search.Query{{Limit: 2}, {Limit: 10, MaxPrice: &price}, {Limit: 10, ByScore: true}, {Limit: 10, After: &search.Place{Rank: 0.25, FirstSeq: 2}}} {
			q.Words, q.MinWords = words, minWords
			wantSameAsScan(t, x, entries, q)
		}
	}
}

func testGrams(t *testing.T, x search.Index) {
	entries := []search.Entry{
		newEntry(1, func(e *search.Entry) {
			e.Capability, e.DeclaredCapabilities = "abcd bcde cdefx", []string{"abcd bcde cdefx"}
		}),
		newEntry(2, func(e *search.Entry) { e.Capability, e.DeclaredCapabilities = "zabcdef", []string{"zabcdef"} }),
		newEntry(3, func(e *search.Entry) {
			e.Capability, e.DeclaredCapabilities = "abx xabcde", []string{"ab", "cde", "abc", "bcd"}
		}),
		newEntry(4, func(e *search.Entry) { e.Capability, e.Summary = "abcde", "abcdefg" }),
	}
	mustApply(t, x, search.Batch{Put: entries})
	for _, w := range []string{"abcdef", "abcde", "abcd", "cdef", "bcde"} {
		wantSameAsScan(t, x, entries, search.Query{Words: []string{w}, Limit: 10})
		wantSameAsScan(t, x, entries, search.Query{Words: []string{w, "abc"}, Limit: 1})
		wantSameAsScan(t, x, entries, search.Query{Text: w, Limit: 10})
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
		entries = append(entries, newEntry(byte(i+1), func(e *search.Entry) { e.Capability, e.DeclaredCapabilities = s, []string{s} }))
	}
	mustApply(t, x, search.Batch{Put: entries})
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
		for _, h := range mustQuery(t, x, search.Query{Words: words, Limit: 20}) {
			got = append(got, h.ID[0])
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Query(%q) (-want +got):\n%s", query, diff)
		}
	}
	// In q.Text, punctuation stands for itself.
	for _, s := range []string{"%", "_", `"`, "[", "]", "*", "?", "~", "^", "_[code]", "顾问", " ", "a", "s t", "\\"} {
		wantSameAsScan(t, x, entries, search.Query{Text: s, Limit: 20})
	}
}

func testReplace(t *testing.T, x search.Index) {
	first := newEntry(1, func(e *search.Entry) { e.Capability = "translates contracts" })
	mustApply(t, x, search.Batch{Put: []search.Entry{first, newEntry(2, func(e *search.Entry) { e.Capability = "paints" })}})
	first.Capability, first.Score = "writes music", 0.25
	mustApply(t, x, search.Batch{Put: []search.Entry{first}})
	if hits := mustQuery(t, x, search.Query{Words: []string{"contracts"}, Limit: 5}); len(hits) != 0 {
		t.Errorf("Query(contracts) = %v, want none: it was replaced", hits)
	}
	want := []search.Hit{{ID: first.ID, Place: search.Place{Rank: 0.625, FirstSeq: 1}}}
	if diff := cmp.Diff(want, mustQuery(t, x, search.Query{Words: []string{"music"}, Limit: 5}), approxRanks); diff != "" {
		t.Errorf("Query(music) (-want +got):\n%s", diff)
	}
	wantCount(t, x, 2)
}

func testRemove(t *testing.T, x search.Index) {
	entries := NewCorpus(2).NextEntries(20)
	mustApply(t, x, search.Batch{Put: entries})
	mustApply(t, x, search.Batch{Remove: []identity.ID{entries[3].ID, {0xff}}, Put: []search.Entry{entries[5]}})
	entries = slices.Delete(entries, 3, 4)
	wantSameAsScan(t, x, entries, search.Query{Limit: 50})
	wantCount(t, x, len(entries))
	var ids []identity.ID
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	mustApply(t, x, search.Batch{Remove: ids})
	wantSameAsScan(t, x, nil, search.Query{Limit: 50})
	wantCount(t, x, 0)
}

func testMark(t *testing.T, x search.Index) {
	for _, c := range []struct {
		batch search.Batch
		want  string
	}{
		{search.Batch{Mark: "0001"}, "0001"},
		{search.Batch{Put: []search.Entry{newEntry(1, func(*search.Entry) {})}, Mark: "0002"}, "0002"},
		{search.Batch{Remove: []identity.ID{{1}}}, "0002"},
		{search.Batch{Remove: []identity.ID{{1}}, Mark: "0003"}, "0003"},
	} {
		mustApply(t, x, c.batch)
		if got, err := x.Mark(t.Context()); err != nil || got != c.want {
			t.Errorf("Mark() = %q, %v, want %q", got, err, c.want)
		}
	}
}

func testPages(t *testing.T, x search.Index) {
	entries := NewCorpus(3).NextEntries(90)
	mustApply(t, x, search.Batch{Put: entries[:60]})
	q := search.Query{Limit: 10}
	want := Scan(entries[:60], search.Query{Limit: 60})
	var got []search.Hit
	for i := range 6 {
		hits := mustQuery(t, x, q)
		for _, h := range hits {
			if h.FirstSeq <= 60 {
				got = append(got, h)
			}
		}
		q.After = &hits[len(hits)-1].Place
		q.Limit = 10 + 3*(i+1) // room for new entries
		mustApply(t, x, search.Batch{Put: entries[60+3*i : 63+3*i]})
	}
	if len(got) < len(want) {
		t.Fatalf("6 pages have %d of 60 entries", len(got))
	}
	if diff := cmp.Diff(want, got, approxRanks); diff != "" {
		t.Errorf("pages lost or repeated an entry (-want +got):\n%s", diff)
	}
}

func testFilters(t *testing.T, x search.Index) {
	entries := []search.Entry{
		newEntry(1, func(e *search.Entry) { e.Tags, e.Family, e.Price = []string{"Legal", "tax law"}, "Claude", 100 }),
		newEntry(2, func(e *search.Entry) { e.Tags, e.ClaimedFamily, e.Score = []string{"legal"}, "claude", 0.5 }),
		newEntry(3, func(e *search.Entry) { e.Capability, e.Price, e.Score = "legal", math.MaxInt64, 1 }),
		newEntry(4, func(e *search.Entry) { e.Family, e.Score = "claude", math.NaN() }),
		newEntry(5, func(e *search.Entry) {
			e.VenueTexts, e.Price = []string{"warung-sunset", "Warung Sunset", "Restaurant"}, math.MaxInt64
			e.Category, e.Areas, e.Bookable = "Restaurant", []string{"Echo Beach", "Canggu"}, true
		}),
		newEntry(6, func(e *search.Entry) { e.Category, e.Areas, e.Price = "restaurant", []string{"canggu"}, math.MaxInt64 }),
	}
	mustApply(t, x, search.Batch{Put: entries})
	free, hundred, unlimited := int64(0), int64(100), int64(math.MaxInt64)
	for _, c := range []struct {
		q    search.Query
		want []byte
	}{
		{search.Query{Tag: "legal"}, []byte{2, 1}},
		{search.Query{Tag: "tax law"}, []byte{1}},
		{search.Query{Tag: "tax"}, nil},
		{search.Query{Family: "claude"}, []byte{4}},
		{search.Query{ClaimedFamily: "claude"}, []byte{2}},
		{search.Query{MaxPrice: &free}, []byte{2, 4}},
		{search.Query{MaxPrice: &hundred}, []byte{2, 1, 4}},
		{search.Query{MaxPrice: &unlimited}, []byte{3, 2, 1, 4, 5, 6}},
		{search.Query{Category: "restaurant"}, []byte{5, 6}},
		{search.Query{Category: "rest"}, nil},
		{search.Query{Area: "canggu", Bookable: true}, []byte{5}},
		{search.Query{Area: "echo beach", Category: "restaurant"}, []byte{5}},
		{search.Query{Area: "canggu", Tag: "legal"}, nil},
		{search.Query{Words: []string{"sunset"}, Area: "canggu"}, []byte{5}},
		{search.Query{Bookable: true}, []byte{5}},
		{search.Query{MinScore: 0.5}, []byte{3, 2}},
		{search.Query{MinScore: 1, ByScore: true}, []byte{3}},
		{search.Query{Words: []string{"legal"}, MinScore: 0.25, MaxPrice: &hundred}, []byte{2}},
	} {
		c.q.Limit = 10
		var got []byte
		for _, h := range mustQuery(t, x, c.q) {
			got = append(got, h.ID[0])
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("Query(%s) (-want +got):\n%s", formatQuery(c.q), diff)
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
			t.Errorf("Query(%s) = %v, want malformed", formatQuery(q), err)
		}
	}
}

func testCancelled(t *testing.T, x search.Index) {
	mustApply(t, x, search.Batch{Put: NewCorpus(4).NextEntries(5)})
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

func testConcurrentUse(t *testing.T, x search.Index) {
	c := NewCorpus(5)
	entries := c.NextEntries(60)
	queries := c.randomQueries(60)
	var wg sync.WaitGroup
	for chunk := range slices.Chunk(entries, 15) {
		wg.Go(func() {
			if err := x.Apply(t.Context(), search.Batch{Put: chunk}); err != nil {
				t.Errorf("Apply() = %v, want nil", err)
			}
		})
	}
	for chunk := range slices.Chunk(queries, 15) {
		wg.Go(func() {
			for _, q := range chunk {
				if _, err := x.Query(t.Context(), q); err != nil {
					t.Errorf("Query() = %v, want nil", err)
				}
			}
		})
	}
	wg.Wait()
	wantSameAsScan(t, x, entries, search.Query{Limit: 100})
}
