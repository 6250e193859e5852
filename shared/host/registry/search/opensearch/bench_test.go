package opensearch_test

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/searchtest"
)

var cards = flag.Int("cards", 10_000, "entries of the benchmark's index")

// BenchmarkQuery measures queries of one to three words and parts of words over
// a node on this machine, HTTP included, by one client that waits for each
// answer.
func BenchmarkQuery(b *testing.B) {
	x := open(b)
	corpus := searchtest.NewCorpus(1)
	began := time.Now()
	for left := *cards; left > 0; left -= 1000 {
		if err := x.Apply(b.Context(), search.Batch{Put: corpus.Entries(min(left, 1000))}); err != nil {
			b.Fatal(err)
		}
	}
	b.Logf("%d entries in %v", *cards, time.Since(began).Round(time.Millisecond))
	for _, c := range []struct {
		name string
		next func() search.Query
	}{
		{"words", func() search.Query { return search.Query{Words: corpus.Query(), Limit: 20} }},
		{"substring", func() search.Query { return search.Query{Words: search.Words(corpus.Substring()), Limit: 20} }},
		{"text", func() search.Query { return search.Query{Text: corpus.Substring(), ByScore: true, Limit: 20} }},
		{"all", func() search.Query { return search.Query{Limit: 20} }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for range 50 { // warm
				if _, err := x.Query(b.Context(), c.next()); err != nil {
					b.Fatal(err)
				}
			}
			var took []time.Duration
			hits := 0
			for b.Loop() {
				q := c.next()
				began := time.Now()
				found, err := x.Query(b.Context(), q)
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
				hits += len(found)
			}
			if hits == 0 {
				b.Fatal("no query found anything: nothing was measured")
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
		})
	}
}
