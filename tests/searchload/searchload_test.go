//go:build unix

// Package searchload measures the duration of searches for a caller, over HTTP on loopback. Each of
// the 20 results is read again and verified.
//
//	go test ./tests/searchload -run xxx -bench . -benchtime 1x -cards 100000 -timeout 2h
//
// The benchmarks assert no limits, because other programs use the same machine. The budgets are the
// 99th percentiles on 2 cores with a warm index, at 10,000 / 100,000 / 1,000,000 cards: 3 / 10 /
// 100 ms for words, and 5 / 25 / 250 ms for parts of words and of texts.
package searchload

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/live"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/searchtest"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/snapshot"
	"github.com/vacancy-host/vacancy/shared/store/blob/files"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

var cards = flag.Int("cards", 10_000, "vacants that are registered")

// town is a host with many vacants.
type town struct {
	registry *registry.Registry
	corpus   *searchtest.Corpus
	index    *bleve.Index
	live     *live.Live
	scores   map[identity.ID]float64 // of the vacants that review gives a reputation
	url      string
}

// BenchmarkReviews reports the p99 of searches by words after a third of the vacants have a reputation,
// divided by the p99 before. The budget is 1.1.
func BenchmarkReviews(b *testing.B) {
	w := newTown(b, *cards)
	w.warm(b)
	next := func() string {
		return "/v1/search?limit=20&q=" + url.QueryEscape(strings.Join(w.corpus.RandomWords(), " "))
	}
	before := w.measure(b, next)
	w.review(b)
	w.warm(b)
	b.ReportMetric(float64(w.measure(b, next))/float64(before), "p99-ratio")
}

func BenchmarkSearch(b *testing.B) {
	w := newTown(b, *cards)
	w.review(b)
	w.warm(b)
	for _, k := range []struct {
		name string
		next func() string
	}{
		{"words", func() string {
			return "/v1/search?limit=20&q=" + url.QueryEscape(strings.Join(w.corpus.RandomWords(), " "))
		}},
		{"parts", func() string { return "/v1/search?limit=20&q=" + url.QueryEscape(w.corpus.RandomSubstring()) }},
		{"texts", func() string {
			return "/v1/search_capability?limit=20&q=" + url.QueryEscape(w.corpus.RandomSubstring())
		}},
		{"all", func() string { return "/v1/search?limit=20" }},
	} {
		b.Run(k.name, func(b *testing.B) { _ = w.measure(b, k.next) })
	}
	b.Run("load", w.load)
}

func newTown(b *testing.B, n int) *town {
	b.Helper()
	r := registry.New(registry.Config{
		// All were published long ago, or the index would still follow the
		// changes.
		Store: memory.New(), Now: func() time.Time { return time.Now().Add(-live.ReadOverlap - time.Hour) }, Rand: rand.Reader,
		AllowRemote: true,
	})
	w := &town{registry: r, corpus: searchtest.NewCorpus(7), scores: map[identity.ID]float64{}}
	began := time.Now()
	for i := range n {
		w.register(b, i)
	}
	// Vacants elsewhere are found once their endpoints answer.
	for more := true; more; {
		done, err := r.ProbeEndpoints(b.Context(), func(context.Context, string) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
		more = done.HasMore
	}
	b.Logf("%d vacants registered in %v", n, time.Since(began).Round(time.Second))
	var err error
	if w.index, err = bleve.Open(b.TempDir()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = w.index.Close() })
	w.live = live.New(w.index, r, time.Now)
	w.catchUp(b)
	quiet := slog.New(slog.DiscardHandler)
	s := search.New(search.Config{Index: w.index, Registry: r, Now: time.Now, Log: quiet, Refresh: w.live.Refresh})
	server := httptest.NewServer(registryapi.NewSearchHandler(registryapi.SearchConfig{Finder: s, Now: time.Now, Logger: quiet}))
	b.Cleanup(server.Close)
	w.url = server.URL
	return w
}

func (w *town) catchUp(b *testing.B) {
	b.Helper()
	began := time.Now()
	if err := w.live.CatchUp(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Logf("indexed in %v", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	if err := w.index.Compact(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Logf("compacted in %v", time.Since(began).Round(time.Millisecond))
}

// review gives vacants the reputation of the corpus.
func (w *town) review(b *testing.B) {
	b.Helper()
	for id, score := range w.scores {
		s := reputation.NewState(time.Now())
		for _, d := range reputation.SearchDimensions() {
			var err error
			if s, err = s.Update(d, score, 20, time.Now()); err != nil {
				b.Fatal(err)
			}
		}
		if err := registrytest.SetReputation(b.Context(), w.registry, id, s); err != nil {
			b.Fatal(err)
		}
	}
	w.catchUp(b)
}

// register registers a vacant with a card of the corpus.
func (w *town) register(b *testing.B, i int) {
	b.Helper()
	e, k := w.corpus.NextEntry(), registrytest.Key(i+1)
	p := registrytest.NewPublication(b, k, registrytest.Draft{Text: e.Capability, SignedAt: time.Now().Add(-time.Hour), BeforeSign: func(p *registry.Publication) {
		p.Family = &e.ClaimedFamily
		for _, text := range e.DeclaredCapabilities {
			if len(text) <= registry.MaxDeclaredItemBytes {
				p.DeclaredCapabilities = append(p.DeclaredCapabilities, text)
			}
		}
		if len(e.Tags) > 0 {
			l := registrytest.NewListing(b, k, 1, func(l *listing.Listing) {
				l.Tags, l.Skills, l.Summary, l.ModelFamily = distinct(e.Tags), distinct(e.Skills), e.Summary, e.Family
			})
			p.Listing = &l
		}
	}})
	if _, err := w.registry.Publish(b.Context(), p); err != nil {
		b.Fatalf("Publish() = %v", err)
	}
	if e.Score > 0 {
		w.scores[k.ID()] = e.Score
	}
}

func distinct(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// warm lists all cards once: a card's signature is verified once, and the
// measured host is warm.
func (w *town) warm(b *testing.B) {
	b.Helper()
	began, pages, listed := time.Now(), 0, 0
	for cursor, more := "", true; more; pages++ {
		answer, err := http.Get(w.url + "/v1/search?limit=100&cursor=" + url.QueryEscape(cursor))
		if err != nil {
			b.Fatal(err)
		}
		var page struct {
			Matches []json.RawMessage `json:"matches"`
			Next    string            `json:"next"`
		}
		err = json.NewDecoder(answer.Body).Decode(&page)
		if err := answer.Body.Close(); err != nil {
			b.Fatal(err)
		}
		if err != nil || answer.StatusCode != http.StatusOK {
			b.Fatalf("a page of all = %s, %v", answer.Status, err)
		}
		listed += len(page.Matches)
		cursor, more = page.Next, page.Next != ""
	}
	if listed != *cards {
		b.Fatalf("%d vacants are listed, want %d", listed, *cards)
	}
	b.Logf("listed in %d pages in %v", pages, time.Since(began).Round(time.Millisecond))
}

const queries = 2000

// measure returns the p99 of searches.
func (w *town) measure(b *testing.B, next func() string) time.Duration {
	b.Helper()
	took, found, busy := make([]time.Duration, 0, queries), 0, cpu(b)
	for i := range queries + queries/10 {
		target := w.url + next()
		began := time.Now()
		answer, err := http.Get(target)
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err := answer.Body.Close(); err != nil {
			b.Fatal(err)
		}
		if err != nil || answer.StatusCode != http.StatusOK || !json.Valid(body) {
			b.Fatalf("GET %s = %s, %v", target, answer.Status, err)
		}
		if i >= queries/10 { // the others were to warm up
			took = append(took, time.Since(began))
		}
		found += bytes.Count(body, []byte(`"vacant_id"`))
	}
	if found == 0 {
		b.Fatal("nothing was found")
	}
	slices.Sort(took)
	for name, at := range map[string]int{"p50-µs": queries / 2, "p99-µs": queries * 99 / 100, "max-µs": queries - 1} {
		b.ReportMetric(float64(took[at].Microseconds()), name)
	}
	// The processor time of both sides, which a busy machine does not change.
	b.ReportMetric(float64((cpu(b)-busy).Microseconds())/(queries*11/10), "cpu-µs/op")
	b.ReportMetric(float64(found)/(queries*11/10), "ids/op")
	return took[queries*99/100]
}

// load measures the start of a new process with a published snapshot.
func (w *town) load(b *testing.B) {
	home, dir := b.TempDir(), b.TempDir()
	blobs, err := files.Open(home, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	s := snapshot.New(snapshot.Config{Blobs: blobs, Now: time.Now, Rand: rand.Reader, Dir: dir})
	began := time.Now()
	v, err := s.Publish(b.Context(), w.index, snapshot.Version{})
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%d MB published in %v", v.Manifest.Size>>20, time.Since(began).Round(time.Millisecond))
	before := heap()
	began = time.Now()
	_, folder, err := s.Load(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	unpacked := time.Since(began)
	x, err := bleve.Open(folder)
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	if _, err := x.Query(b.Context(), search.Query{Words: []string{"a"}, Limit: 20}); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "loaded-ms")
	b.ReportMetric(float64(unpacked.Milliseconds()), "unpacked-ms")
	b.ReportMetric(float64(heap()-before)/(1<<20), "heap-MB")
	b.ReportMetric(size(b, folder), "disk-MB")
}

// cpu is the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func size(b *testing.B, dir string) float64 {
	b.Helper()
	var sum int64
	if err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		sum += info.Size()
		return err
	}); err != nil {
		b.Fatal(err)
	}
	return float64(sum) / (1 << 20)
}
