//go:build unix

package load

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/search/searchtest"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// cards is how many signed cards the search is measured with:
//
//	go test ./tests/load -run xxx -bench Search -cards 100000 -timeout 30m
var cards = flag.Int("cards", 10_000, "signed cards that BenchmarkSearch publishes")

// BenchmarkSearch measures the search of a home on one machine as a client
// finds it: over loopback HTTP, a page of 20, every hit read again from the
// data file and its card verified. b.N is ignored: p99 of a fixed number of
// queries is what the figures are about.
func BenchmarkSearch(b *testing.B) {
	c := searchtest.NewCorpus(7)
	s := published(b, c, *cards)
	vault, err := local.Open(filepath.Join(b.TempDir(), "seal.key"), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	house, err := serve.Home{
		Store: s, Vault: vault, Substrates: serve.Substrates(true), URL: "http://127.0.0.1:8080",
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader,
	}.Open()
	if err != nil {
		b.Fatal(err)
	}
	index, err := bleve.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer index.Close()
	search := house.OpenSearch(index)
	began := time.Now()
	if err := search.Live.CatchUp(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d cards indexed in %v", *cards, time.Since(began).Round(time.Millisecond))
	server := httptest.NewServer(search.Door())
	defer server.Close()
	for _, k := range []struct {
		name string
		next func() string
	}{
		{"words", func() string { return "/v1/search?" + url.Values{"q": {join(c.Query())}}.Encode() }},
		{"parts", func() string { return "/v1/search?" + url.Values{"q": {c.Substring()}}.Encode() }},
		{"texts", func() string { return "/v1/search_capability?" + url.Values{"q": {c.Substring()}}.Encode() }},
	} {
		b.Run(k.name, func(b *testing.B) { ask(b, server, k.next) })
	}
}

func join(words []string) string {
	s := ""
	for _, w := range words {
		s += w + " "
	}
	return s
}

func ask(b *testing.B, server *httptest.Server, next func() string) {
	const queries, warm = 2000, 300
	took := make([]time.Duration, 0, queries+warm)
	bytes := 0
	for range queries + warm {
		path := next()
		began := time.Now()
		resp, err := server.Client().Get(server.URL + path)
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatalf("GET %s = %d, %v: %.200s", path, resp.StatusCode, err, body)
		}
		took = append(took, time.Since(began))
		bytes += len(body)
	}
	took = took[warm:]
	slices.Sort(took)
	b.ReportMetric(float64(took[queries/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[queries*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(took[queries-1].Microseconds()), "max-µs")
	b.ReportMetric(float64(bytes/(queries+warm)), "bytes/answer")
}

// published makes a data file with n registrations. They are published in
// memory, where no disk is waited for, and copied as they are.
func published(b *testing.B, c *searchtest.Corpus, n int) store.Store {
	began := time.Now()
	from := memory.New()
	reg := registry.New(registry.Config{
		Store: from, Now: time.Now, Rand: rand.Reader, Probe: func(context.Context, string) error { return nil },
	})
	for range n {
		publish(b, reg, c)
	}
	file, err := bolt.Open(filepath.Join(b.TempDir(), "vacancy.db"), bolt.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	copied(b, from, file)
	b.Logf("%d cards signed and published in %v", n, time.Since(began).Round(time.Millisecond))
	return file
}

func publish(b *testing.B, reg *registry.Registry, c *searchtest.Corpus) {
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	e := c.Entry()
	signed, err := card.New(key.ID(), e.Capability, []string{"mock"}, "https://"+key.ID().Short()+".example/a2a/message/send")
	if err == nil {
		err = signed.Sign(b.Context(), key)
	}
	if err != nil {
		b.Fatal(err)
	}
	l := listing.New(key.ID(), 1)
	l.Tags, l.Skills, l.Summary, l.Family = once(e.Tags), once(e.Skills), e.Summary, e.Family
	if err := l.Sign(b.Context(), key); err != nil {
		b.Fatal(err)
	}
	declared := slices.DeleteFunc(slices.Clone(e.Declared), func(s string) bool { return len(s) > registry.MaxDeclaredOf })
	d := registryclient.Draft{Card: signed, State: lifecycle.Active, Visibility: lifecycle.Public}
	h, err := d.Sign(b.Context(), key, 1, "first", time.Now())
	if err != nil {
		b.Fatal(err)
	}
	sig, err := identity.ParseHex(h.Signature)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := reg.Publish(b.Context(), registry.Publication{
		Card: signed.Blob(), State: d.State, Visibility: d.Visibility, Declared: declared, Listing: &l,
		Time: h.Time, ActorSeq: 1, Key: h.Key, Signature: sig,
	}); err != nil {
		b.Fatal(err)
	}
}

// once leaves each text once, as a listing has to.
func once(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// copied copies all registrations, many at a time: the file takes what comes
// together in one write.
func copied(b *testing.B, from, to store.Store) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, 256)
	cursor := ""
	for i := 0; ; {
		docs, next, err := from.Docs(b.Context(), store.Range{Partition: registry.FeedPartition, Index: true}, store.MaxPage, cursor)
		if err != nil {
			b.Fatal(err)
		}
		for _, d := range docs {
			i++
			put := store.Put{Key: d.Key, Data: d.Data, Index: d.Index, Attempt: store.Attempt([]byte(fmt.Sprintf("%016d", i)))}
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				if err := to.Commit(context.Background(), put); err != nil {
					b.Error(err)
				}
			})
		}
		if cursor = next; cursor == "" {
			return
		}
	}
}
