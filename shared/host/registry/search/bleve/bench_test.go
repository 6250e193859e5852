package bleve_test

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/searchtest"
)

// cards is for the load run: go test -bench Query -cards 1000000.
var cards = flag.Int("cards", 0, "entries to measure with, instead of 10,000 and 100,000")

// BenchmarkQuery measures single queries of a warm index. b.N is ignored,
// because the figure is the p99 of a fixed number of queries.
func BenchmarkQuery(b *testing.B) {
	sizes := []int{10_000, 100_000}
	if *cards > 0 {
		sizes = []int{*cards}
	}
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := searchtest.NewCorpus(7)
			x := open(b, b.TempDir())
			defer x.Close()
			build(b, x, c, n)
			for _, k := range []struct {
				name string
				next func() search.Query
			}{
				{"words", func() search.Query { return search.Query{Words: c.Query(), Limit: 28} }},
				{"parts", func() search.Query { return search.Query{Words: search.Words(c.Substring()), Limit: 28} }},
				{"texts", func() search.Query { return search.Query{Text: c.Substring(), ByScore: true, Limit: 28} }},
				{"all", func() search.Query { return search.Query{Limit: 28} }},
			} {
				b.Run(k.name, func(b *testing.B) { measure(b, x, k.next) })
			}
		})
	}
}

func build(b *testing.B, x *bleve.Index, c *searchtest.Corpus, n int) {
	b.Helper()
	began := time.Now()
	for done := 0; done < n; done += 1000 {
		if err := x.Apply(b.Context(), search.Batch{Put: c.Entries(min(1000, n-done)), Mark: fmt.Sprintf("%08d", done)}); err != nil {
			b.Fatal(err)
		}
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	b.Logf("%d cards in %v, heap %d MB", n, time.Since(began).Round(time.Millisecond), m.HeapAlloc>>20)
}

func measure(b *testing.B, x *bleve.Index, next func() search.Query) {
	const queries = 1000
	took := make([]time.Duration, 0, queries)
	hits := 0
	for range queries + 100 {
		q := next()
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
	took = took[100:]
	slices.Sort(took)
	b.ReportMetric(float64(took[queries/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[queries*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(took[queries-1].Microseconds()), "max-µs")
}
