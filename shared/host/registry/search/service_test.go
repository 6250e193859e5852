package search_test

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/searchtest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// town is a registry of n translators, and an index with chosen answers.
type town struct {
	t    *testing.T
	keys []*identity.Key
	rows map[identity.ID]registry.Registration
	errs map[identity.ID]error
	hits []search.Hit
	asks int
	wait bool // Query waits for its context
	err  error
}

func newTown(t *testing.T, n int) *town {
	w := &town{t: t, rows: make(map[identity.ID]registry.Registration), errs: make(map[identity.ID]error)}
	random := rand.NewChaCha8([32]byte{1})
	for i := range n {
		key, err := identity.NewKey(random)
		if err != nil {
			t.Fatal(err)
		}
		w.keys = append(w.keys, key)
		w.sign(i, "translates contracts")
		g := w.rows[key.ID()]
		w.hits = append(w.hits, search.Hit{ID: key.ID(), Place: search.Place{Rank: 0.5, FirstSeq: g.FirstSeq}})
	}
	return w
}

// sign gives vacant i a registration with its own card.
func (w *town) sign(i int, capability string) {
	w.t.Helper()
	key := w.keys[i]
	c, err := card.New(key.ID(), capability, []string{"echo"}, "https://example.org/v")
	if err == nil {
		err = c.Sign(w.t.Context(), key)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.rows[key.ID()] = registry.Registration{
		ID: key.ID(), Card: c.Blob(), CardHash: c.Hash(), Visibility: lifecycle.Public, State: lifecycle.Active,
		StateSince: now.Add(-time.Hour), Status: registry.StatusActive, DeclaredCapabilities: []string{capability}, FirstSeq: uint64(i + 1),
		Listing: &listing.Listing{VacantID: key.ID(), Version: 1, Tags: []string{"Legal"}, ModelFamily: "claude", Price: 100},
	}
}

func (w *town) change(i int, fn func(*registry.Registration)) {
	g := w.rows[w.keys[i].ID()]
	fn(&g)
	w.rows[w.keys[i].ID()] = g
}

func (w *town) Reread(_ context.Context, id identity.ID, last *registry.CachedRegistration) (*registry.CachedRegistration, error) {
	g, ok := w.rows[id]
	if err := w.errs[id]; err != nil {
		return nil, err
	}
	if last != nil && last.Registered == ok && reflect.DeepEqual(last.Registration, g) {
		return last, nil
	}
	return &registry.CachedRegistration{Registration: g, Registered: ok}, nil
}

func (w *town) Query(ctx context.Context, q search.Query) ([]search.Hit, error) {
	w.asks++
	if w.wait {
		<-ctx.Done()
		return nil, problem.Wrap(problem.Unavailable, ctx.Err(), "")
	}
	var page []search.Hit
	for _, h := range w.hits {
		if q.After == nil || q.After.Before(h.Place) {
			page = append(page, h)
		}
	}
	return page[:min(len(page), q.Limit)], w.err
}

func (w *town) Apply(context.Context, search.Batch) error { return nil }
func (w *town) Mark(context.Context) (string, error)      { return "", nil }
func (w *town) Count(context.Context) (int, error)        { return len(w.hits), nil }
func (w *town) Close() error                              { return nil }
func (w *town) service(change ...func(*search.Config)) *search.Service {
	c := search.Config{
		Index: w, Registry: w, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	}
	for _, fn := range change {
		fn(&c)
	}
	return search.New(c)
}

func (w *town) find(s *search.Service, r search.Request) search.Page {
	w.t.Helper()
	page, err := s.Find(w.t.Context(), r)
	if err != nil {
		w.t.Fatalf("Find(%+v) = %v", r, err)
	}
	return page
}

func ids(p search.Page) (all []identity.ID) {
	for _, m := range p.Matches {
		all = append(all, m.Registration.ID)
	}
	return all
}

func TestFalseIndexEntriesAreNotReturned(t *testing.T) {
	for _, c := range []struct {
		name    string
		request search.Request
		lie     func(*town)
	}{
		{"nobody registered that vacant", search.Request{}, func(w *town) { delete(w.rows, w.keys[1].ID()) }},
		{"its key was revoked", search.Request{}, func(w *town) {
			w.change(1, func(g *registry.Registration) { g.Status = registry.StatusRevoked })
		}},
		{"it is hidden now", search.Request{}, func(w *town) {
			w.change(1, func(g *registry.Registration) { g.Visibility = lifecycle.Hidden })
		}},
		{"it is restricted now", search.Request{}, func(w *town) {
			w.change(1, func(g *registry.Registration) { g.Visibility = lifecycle.Restricted })
		}},
		{"it sleeps now", search.Request{}, func(w *town) {
			w.change(1, func(g *registry.Registration) { g.State = lifecycle.Hibernating })
		}},
		{"an archived vacant never changes its state", search.Request{}, func(w *town) {
			w.change(1, func(g *registry.Registration) { g.State = lifecycle.Sunk })
		}},
		{"its card is another's", search.Request{}, func(w *town) {
			other := w.rows[w.keys[2].ID()]
			w.change(1, func(g *registry.Registration) { g.Card, g.CardHash = other.Card, other.CardHash })
		}},
		{"the store gives another's registration", search.Request{}, func(w *town) {
			w.rows[w.keys[1].ID()] = w.rows[w.keys[2].ID()]
		}},
		{"its card was altered", search.Request{}, func(w *town) {
			w.change(1, func(g *registry.Registration) {
				g.Card = []byte(strings.Replace(string(g.Card), "contracts", "everything", 1))
			})
		}},
		{"its card was altered, and the hash with it", search.Request{}, func(w *town) {
			w.change(1, func(g *registry.Registration) {
				g.Card = []byte(strings.Replace(string(g.Card), "contracts", "everything", 1))
				c, err := card.Parse(g.Card)
				if err != nil {
					w.t.Fatal(err)
				}
				g.CardHash = c.Hash()
			})
		}},
		{"its card is no card", search.Request{}, func(w *town) {
			w.change(1, func(g *registry.Registration) { g.Card = []byte("{") })
		}},
		{"its registration is damaged", search.Request{}, func(w *town) {
			w.errs[w.keys[1].ID()] = problem.New(problem.Damaged, "it does not read")
		}},
		{"it says something else now", search.Request{Query: "contracts"}, func(w *town) { w.sign(1, "paints walls") }},
		{"it declares something else now", search.Request{Text: "contracts"}, func(w *town) {
			w.change(1, func(g *registry.Registration) { g.DeclaredCapabilities = []string{"paints"} })
		}},
		{"its tag is gone", search.Request{Tag: "legal"}, func(w *town) {
			w.change(1, func(g *registry.Registration) { g.Listing = nil })
		}},
		{"its family is only claimed", search.Request{Family: "claude"}, func(w *town) {
			w.change(1, func(g *registry.Registration) { g.Listing, g.Family = nil, "claude" })
		}},
		{"its price went up", search.Request{MaxPrice: new(int64(100))}, func(w *town) {
			w.change(1, func(g *registry.Registration) { g.Listing = &listing.Listing{Price: 101} })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newTown(t, 3)
			s := w.service()
			if got := len(w.find(s, c.request).Matches); got != 3 {
				t.Fatalf("Find() before = %d matches, want 3", got)
			}
			c.lie(w)
			want := []identity.ID{w.keys[0].ID(), w.keys[2].ID()}
			if diff := cmp.Diff(want, ids(w.find(s, c.request))); diff != "" {
				t.Errorf("Find() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInvalidCardIsOmittedFromItsPage(t *testing.T) {
	w := newTown(t, 21)
	w.errs[w.keys[4].ID()] = problem.New(problem.Damaged, "it does not read")
	page := w.find(w.service(), search.Request{Query: "contract"})
	if len(page.Matches) != 20 || page.Next != "" {
		t.Errorf("Find() = %d matches, next %q, want the 20 good ones and no more", len(page.Matches), page.Next)
	}
}

func TestAMatchIsWhatTheStoreSays(t *testing.T) {
	w := newTown(t, 1)
	w.hits[0].Rank = 0.99
	m := w.find(w.service(), search.Request{Query: "contract"}).Matches[0]
	if m.Rank != 0.375 || m.Score != 0 || m.Card.CapabilityText != "translates contracts" {
		t.Errorf("Find() = rank %v, score %v, %q; want 0.375, 0 and the card's text", m.Rank, m.Score, m.Card.CapabilityText)
	}
}

func TestAPageIsFilledWhenHitsFallAway(t *testing.T) {
	w := newTown(t, 80)
	for i := range 80 {
		if i%4 != 0 {
			w.change(i, func(g *registry.Registration) { g.Visibility = lifecycle.Hidden })
		}
	}
	s, r := w.service(), search.Request{Limit: 7}
	var got []identity.ID
	for range 20 {
		page := w.find(s, r)
		got = append(got, ids(page)...)
		if r.Cursor = page.Next; r.Cursor == "" {
			break
		}
		if len(page.Matches) != 7 {
			t.Errorf("Find() = %d matches and a cursor, want 7", len(page.Matches))
		}
	}
	var want []identity.ID
	for i := 0; i < 80; i += 4 {
		want = append(want, w.keys[i].ID())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("all pages (-want +got):\n%s", diff)
	}
}

func TestAnIndexFullOfLiesEndsInAShortPageWithACursor(t *testing.T) {
	w := newTown(t, 1)
	truth := w.hits[0]
	truth.FirstSeq = 5000
	w.hits = nil
	for i := range 4000 {
		w.hits = append(w.hits, search.Hit{ID: identity.ID{byte(i), byte(i >> 8), 1}, Place: search.Place{Rank: 0.5, FirstSeq: uint64(i + 1)}})
	}
	w.hits = append(w.hits, truth)
	s, r := w.service(), search.Request{}
	for pages := 0; ; pages++ {
		page := w.find(s, r)
		if len(page.Matches) == 1 {
			return
		}
		if r.Cursor = page.Next; r.Cursor == "" || pages > 10 {
			t.Fatalf("Find() ended after %d pages without the one good hit", pages)
		}
	}
}

// A search by a stranger reads at most as much as a hundred ordinary cards, because reads cost
// money and compete with calls.
func TestLargeCardsMakeAShortPageWithACursor(t *testing.T) {
	const each, most = 30 << 10, 30 // bytes of a card, and cards on a page
	w := newTown(t, 100)
	for i := range w.keys {
		w.sign(i, "translates "+strings.Repeat("x", each))
	}
	s := w.service()
	var all []identity.ID
	for cursor := ""; ; {
		page := w.find(s, search.Request{Query: "translates", Limit: 100, Cursor: cursor})
		if len(page.Matches) == 0 || len(page.Matches) > most {
			t.Fatalf("Find() = %d matches of 30 KB on a page, want 1 to %d", len(page.Matches), most)
		}
		all = append(all, ids(page)...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(all) != 100 {
		t.Errorf("all pages = %d matches, want 100", len(all))
	}
	for i := range w.keys { // dropped ones are read, too
		w.change(i, func(g *registry.Registration) { g.Visibility = lifecycle.Hidden })
	}
	if page := w.find(s, search.Request{Query: "translates", Limit: 100}); len(page.Matches) > 0 || page.Next == "" {
		t.Errorf("Find() of 100 hidden cards = %d matches, cursor %q, want none and a cursor", len(page.Matches), page.Next)
	}
}

func TestACursorIsGoodForItsOwnQueryAlone(t *testing.T) {
	w := newTown(t, 30)
	s := w.service()
	r := search.Request{Query: "contracts", Limit: 10, MaxPrice: new(int64(500))}
	good := w.find(s, r).Next
	bytes, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	change := func(fn func(*search.Request)) search.Request {
		r := r
		r.Cursor = good
		fn(&r)
		return r
	}
	flip := func(at int) string {
		b := slices.Clone(bytes)
		b[at] ^= 1
		return base64.RawURLEncoding.EncodeToString(b)
	}
	for name, bad := range map[string]search.Request{
		"of another query":       change(func(r *search.Request) { r.Query = "contract" }),
		"of another text":        change(func(r *search.Request) { r.Text = "contract" }),
		"of another tag":         change(func(r *search.Request) { r.Tag = "legal" }),
		"of another family":      change(func(r *search.Request) { r.Family = "claude" }),
		"of a claimed family":    change(func(r *search.Request) { r.ClaimedFamily = "claude" }),
		"of another price":       change(func(r *search.Request) { r.MaxPrice = new(int64(501)) }),
		"of any price":           change(func(r *search.Request) { r.MaxPrice = nil }),
		"of another reputation":  change(func(r *search.Request) { r.MinReputation = 0.5 }),
		"of another order":       change(func(r *search.Request) { r.ByScore = true }),
		"cut by one":             change(func(r *search.Request) { r.Cursor = good[:len(good)-1] }),
		"cut to nothing much":    change(func(r *search.Request) { r.Cursor = good[:3] }),
		"with another weight":    change(func(r *search.Request) { r.Cursor = flip(0) }),
		"with another check":     change(func(r *search.Request) { r.Cursor = flip(len(bytes) - 1) }),
		"with more behind it":    change(func(r *search.Request) { r.Cursor = good + "AA" }),
		"no base64":              change(func(r *search.Request) { r.Cursor = "!!!" }),
		"of a megabyte":          change(func(r *search.Request) { r.Cursor = strings.Repeat("A", 1<<20) }),
		"base64 of another kind": change(func(r *search.Request) { r.Cursor = base64.StdEncoding.EncodeToString(bytes) + "=" }),
		"made of nothing but 0xff": change(func(r *search.Request) {
			r.Cursor = base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("\xff", 24)))
		}),
	} {
		if _, err := s.Find(t.Context(), bad); !problem.Is(err, problem.Malformed) || !strings.HasPrefix(err.Error(), "cursor: ") {
			t.Errorf("Find() with a cursor %s = %v, want malformed cursor", name, err)
		}
	}
	r.Cursor, r.Limit = good, 5 // a page of another size is fine
	if page := w.find(s, r); len(page.Matches) != 5 || page.Matches[0].Registration.FirstSeq != 11 {
		t.Errorf("Find() with the cursor = %d matches, want 5 from the 11th on", len(page.Matches))
	}
}

func TestARequestBeyondItsLimitsIsRefused(t *testing.T) {
	long := strings.Repeat("x", 257)
	for want, r := range map[string]search.Request{
		"limit: expected 1 to 100, got 101":                   {Limit: 101},
		"limit: expected 1 to 100, got -1":                    {Limit: -1},
		"min_reputation: expected 0 to 1, got NaN":            {MinReputation: math.NaN()},
		"min_reputation: expected 0 to 1, got 1.5":            {MinReputation: 1.5},
		"min_reputation: expected 0 to 1, got -1":             {MinReputation: -1},
		"max_price: expected 0 or more micro-dollars, got -1": {MaxPrice: new(int64(-1))},
		"tag: expected at most 256 bytes, got 257":            {Tag: long},
		"family: expected at most 256 bytes, got 257":         {Family: long},
		"q: expected at most 256 bytes, got 257":              {Text: long},
		"q: expected UTF-8, got other bytes":                  {Text: "\xff"},
		"tag: expected UTF-8, got other bytes":                {Tag: "\xff"},
		"q: expected at most 8 words, got 9":                  {Query: "the b c d e f g h j k"},
	} {
		w := newTown(t, 0)
		if _, err := w.service().Find(t.Context(), r); err == nil || err.Error() != want || !problem.Is(err, problem.Malformed) {
			t.Errorf("Find(%+v) = %v, want %q", r, err, want)
		}
		if w.asks != 0 {
			t.Errorf("Find(%+v) asked the index", r)
		}
	}
}

// Stop words need no match. If no entry has all other words, a search with Most finds the
// entries with most of them, page by page, and reports the words that each lacks.
func TestWhatHasMostOfTheWordsFollows(t *testing.T) {
	w := newTown(t, 6)
	w.sign(5, "a painter")
	for query, want := range map[string]struct {
		most    int // found with Most
		all     int // without
		missing string
	}{
		"translate a contract for me": {5, 5, ""},
		"translate contract English":  {5, 0, "english"},
		"translate English":           {5, 0, "english"},
		"translate French English":    {0, 0, ""},
		"English":                     {0, 0, ""},
		"to the":                      {0, 0, ""},
		"a painter":                   {1, 1, ""},
	} {
		for _, most := range []bool{true, false} {
			r, n := search.Request{Query: query, AllowMissingWords: most, Limit: 2}, 0
			for {
				page := w.find(w.service(), r)
				for _, m := range page.Matches {
					n++
					if missing := strings.Join(m.MissingWords, " "); missing != want.missing {
						t.Errorf("%q: a match lacks %q, want %q", query, missing, want.missing)
					}
				}
				if page.Next == "" {
					break
				}
				r.Cursor = page.Next
				if other := (search.Request{Query: query, AllowMissingWords: !most, Cursor: page.Next}); want.missing != "" {
					if _, err := w.service().Find(t.Context(), other); !problem.Is(err, problem.Malformed) {
						t.Errorf("%q: a search for all words takes the cursor of one for most: %v", query, err)
					}
				}
			}
			if found := map[bool]int{true: want.most, false: want.all}[most]; n != found {
				t.Errorf("%q, most %t: %d matches, want %d", query, most, n, found)
			}
		}
	}
}

func TestAQueryOfPunctuationFindsNothing(t *testing.T) {
	w := newTown(t, 3)
	for _, q := range []string{"%", `"`, "[", "*", "_", "%%%", "~^?"} {
		if page := w.find(w.service(), search.Request{Query: q}); len(page.Matches) != 0 {
			t.Errorf("Find(%q) = %d matches, want none", q, len(page.Matches))
		}
	}
	for _, q := range []string{"", "   ", "\u200f"} {
		if page := w.find(w.service(), search.Request{Query: q}); len(page.Matches) != 3 {
			t.Errorf("Find(%q) = %d matches, want all 3: it has no words", q, len(page.Matches))
		}
	}
}

func TestAStoreThatCannotBeReadIsNoEmptyAnswer(t *testing.T) {
	w := newTown(t, 3)
	w.errs[w.keys[1].ID()] = problem.New(problem.Unavailable, "the store is away")
	if page, err := w.service().Find(t.Context(), search.Request{}); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Find() = %v, %v, want unavailable", page, err)
	}
	w = newTown(t, 3)
	w.err = problem.New(problem.Unavailable, "the index is away")
	if page, err := w.service().Find(t.Context(), search.Request{}); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Find() = %v, %v, want unavailable", page, err)
	}
}

func TestASearchHasItsTime(t *testing.T) {
	w := newTown(t, 1)
	w.wait = true
	s := w.service(func(c *search.Config) { c.Timeout = time.Millisecond })
	if _, err := s.Find(t.Context(), search.Request{}); !problem.Is(err, problem.DeadlineExceeded) {
		t.Errorf("Find() = %v, want deadline", err)
	}
}

func TestASearchWorksWhileTheIndexIsNotUpToDate(t *testing.T) {
	w := newTown(t, 2)
	s := w.service(func(c *search.Config) {
		c.Refresh = func(context.Context) error { return errors.New("the feed is away") }
	})
	if page := w.find(s, search.Request{}); len(page.Matches) != 2 {
		t.Errorf("Find() = %d matches, want 2", len(page.Matches))
	}
	s = w.service(func(c *search.Config) {
		c.Timeout = time.Second
		c.Refresh = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	})
	if page := w.find(s, search.Request{}); len(page.Matches) != 2 {
		t.Errorf("Find() while the index takes all its time = %d matches, want 2", len(page.Matches))
	}
}

func TestACardIsVerifiedOnce(t *testing.T) {
	w := newTown(t, 40)
	s := w.service()
	for range 3 {
		w.find(s, search.Request{Limit: 40})
	}
	if got := s.Verifications(); got != 40 {
		t.Errorf("3 searches verified %d signatures, want 40", got)
	}
	w.sign(3, "translates more contracts")
	w.find(s, search.Request{Limit: 40})
	if got := s.Verifications(); got != 41 {
		t.Errorf("with a new card it verified %d signatures, want 41", got)
	}
}

func TestMatchSaysWhatAScanSays(t *testing.T) {
	c := searchtest.NewCorpus(11)
	entries := c.NextEntries(40)
	for range 60 {
		q := search.Query{Limit: len(entries), Words: c.RandomWords()}
		want := searchtest.Scan(entries, q)
		var got []search.Hit
		for i := range entries {
			if rank, ok := q.Match(&entries[i]); ok {
				got = append(got, search.Hit{ID: entries[i].ID, Place: search.Place{Rank: rank, FirstSeq: entries[i].FirstSeq}})
			}
		}
		slices.SortFunc(got, func(a, b search.Hit) int {
			if a.Before(b.Place) {
				return -1
			}
			return 1
		})
		if len(want) != len(got) {
			t.Fatalf("Match(%q) has %d, a scan %d", q.Words, len(got), len(want))
		}
		for i := range want {
			if math.Abs(want[i].Rank-got[i].Rank) > 1e-12 || want[i].ID != got[i].ID {
				t.Errorf("Match(%q)[%d] = %+v, want %+v", q.Words, i, got[i], want[i])
			}
		}
	}
}

func FuzzACursorIsTakenOrRefused(f *testing.F) {
	f.Add("AAAA")
	f.Add("")
	f.Add(strings.Repeat("_", 64))
	f.Fuzz(func(t *testing.T, cursor string) {
		w := newTown(t, 0)
		if _, err := w.service().Find(t.Context(), search.Request{Cursor: cursor}); err != nil && !problem.Is(err, problem.Malformed) {
			t.Errorf("Find() = %v, want malformed", err)
		}
	})
}
