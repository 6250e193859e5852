package promises

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/handlers"
	"github.com/vacancy-host/vacancy/shared/front/operations"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/front/web"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/tenant/quota"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

// countedReads counts read units as DynamoDB does: one for each 4 KB of a document, and of the
// documents or rows of a page.
type countedReads struct {
	store.Store
	units atomic.Int64
}

const (
	unitBytes = 4 << 10
	itemBytes = 150 // of an item besides its data
)

func (c *countedReads) count(items, bytes int) {
	c.units.Add(int64(max(1, (items*itemBytes+bytes+unitBytes-1)/unitBytes)))
}

func (c *countedReads) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	d, err := c.Store.Doc(ctx, k)
	c.count(1, len(d.Data))
	return d, err
}

func (c *countedReads) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	docs, next, err := c.Store.Docs(ctx, r, n, cursor)
	bytes := 0
	for _, d := range docs {
		bytes += len(d.Data)
	}
	c.count(len(docs), bytes)
	return docs, next, err
}

func (c *countedReads) Tip(ctx context.Context, s store.Stream) (store.Row, error) {
	row, err := c.Store.Tip(ctx, s)
	c.count(1, len(row.Data))
	return row, err
}

func (c *countedReads) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	rows, err := c.Store.Rows(ctx, s, from, n, d)
	bytes := 0
	for _, row := range rows {
		bytes += len(row.Data)
	}
	c.count(len(rows), bytes)
	return rows, err
}

// crowd is a host with many vacants, of which each other is published.
type crowd struct {
	reads *countedReads
	clock *calltest.Clock
	pages map[string]http.Handler // by kind of host
	first vacants.Record
	last  vacants.Record
}

const crowdSize = 5000

func openCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{reads: &countedReads{Store: memory.New()}, pages: map[string]http.Handler{}}
	server := memhost.Open(t, func(config *serve.Config) {
		config.Store, config.URL, config.NewTokenChecker, config.TrustHostHeader = c.reads, "https://host.example", tokens.NewForBilling, true
		config.Host = setting.Host{Quotas: quota.Quotas{"vacants": 2 * crowdSize}}
	})
	c.clock = server.Clock
	index, err := bleve.Open(filepath.Join(t.TempDir(), "search"))
	must(t, err)
	t.Cleanup(func() { index.Close() })
	log, err := server.OpenLog(nil)
	must(t, err)
	var parent *identity.ID
	for i := range crowdSize {
		r, err := server.Vacants.Create(t.Context(), vacants.CreateSpec{Name: fmt.Sprintf("clerk-%04d", i), Capability: "clauses", Substrate: "echo", Tenant: "acme"})
		must(t, err)
		if i%2 == 0 {
			_, _, err := server.Vacants.Publish(t.Context(), r.ID, vacants.PublishOptions{})
			must(t, err)
		}
		if c.last = r; i == 0 {
			c.first, parent = r, &r.ID
		}
	}
	for i := range 30 {
		_, _, err := server.Vacants.Spawn(t.Context(), vacants.SpawnSpec{Asker: vacants.OperatorAsker(), Parent: *parent, Path: "D3", Name: fmt.Sprintf("child-%d", i), Capability: "pages", Substrate: "echo"})
		must(t, err)
	}
	_, err = log.Seal(t.Context())
	must(t, err)
	found := server.OpenSearch(index)
	for kind, agents := range map[string]*serve.A2A{"local": server.OpenA2A(), "queued": server.OpenQueuedA2A(serve.Queues{Tasks: &queue{}, Notices: &queue{}})} {
		agents.Find = found.Find
		parts := serve.Handlers{
			Message: server.MessageHandler(), Plain: agents.Plain, Protocols: handlers.NewProtocols(agents), Registry: server.RegistryHandler(log), Search: found.Endpoint(), Gate: server.GateHandler(nil),
			Account: server.AccountHandler(nil), AGP: server.OpenAGP(agents, found.Find, false), Metrics: true, Resource: server.ResourceHandler(), MetadataURL: server.MetadataURL(), PageJudge: server.PageJudge(),
		}
		parts.Web = web.Handler(web.Config{API: parts.Public(), Log: slog.New(slog.DiscardHandler), Now: c.clock.NowFunc(0)})
		c.pages[kind] = parts.Public()
	}
	for c.get("local", "/v1/search") > 250 { // one request updates the index for a few seconds only
	}
	return c
}

// get returns the units that a request reads, after all caches have expired.
func (c *crowd) get(kind, path string) int64 {
	c.clock.Advance(10 * time.Minute)
	before := c.reads.units.Load()
	c.pages[kind].ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "https://host.example"+path, nil))
	return c.reads.units.Load() - before
}

// paths returns the paths of the operations that anybody may read, and of the pages for people.
func (c *crowd) paths(t *testing.T) []string {
	all := map[string]bool{
		"/": true, "/card": true, "/health": true, "/ready": true, "/search?q=clauses": true, "/card?vacant=" + c.first.Name: true, "/vacants/" + c.first.Name: true,
		"/web/": true, "/web/log": true, "/web/log/1": true, "/web/search?q=clauses": true, "/web/keys": true, "/web/chains": true, "/web/vacants/" + c.first.Name: true,
		"/v/" + c.first.Name: true, "/v/" + c.first.Name + "/": true, "/v/" + c.first.Name + "/card": true, "/v/" + c.first.Name + "/health": true,
		"/v1/search?limit=100": true, "/v1/search_capability?q=clauses&limit=100": true, "/v1/search?q=clauses&limit=100": true,
		"/v1/event_log/" + c.first.ID.String() + "?limit=1000": true, "/v1/log/leaves?limit=1000": true, "/v1/revocation_list?limit=1000": true,
		"/v1/lineage/" + c.first.ID.String() + "?direction=descendants&depth=32": true,
	}
	values := map[string]string{
		"vacant": c.first.Name, "model": c.last.Name, "id": c.first.ID.String(), "seq": "7", "n": "1", "caller": c.first.ID.String(), "position": "1", "config": "one",
	}
	variable := regexp.MustCompile(`\{\w+\}`)
	count := 0
	for _, s := range operations.All() {
		if s.Method != http.MethodGet || !s.Access.Anybody {
			continue
		}
		count++
		all[variable.ReplaceAllStringFunc(s.Path, func(v string) string {
			value, ok := values[v[1:len(v)-1]]
			if !ok {
				t.Errorf("%s: this test has no value for %s", s.Path, v)
			}
			return value
		})] = true
	}
	if count < 20 {
		t.Errorf("expected the operations that anybody may read, got %d", count)
	}
	return slices.Sorted(maps.Keys(all))
}

// Reads cost money on AWS, where strangers share a few units per second, and time elsewhere.
func TestWhatAnybodyMayReadDoesNotGrowWithTheHost(t *testing.T) {
	c := openCrowd(t)
	for kind, limits := range map[string]struct{ most, models int64 }{
		"local":  {most: 250, models: 2500}, // 1,000 models, each a registration and a record
		"queued": {most: 250, models: 250},
	} {
		for _, path := range c.paths(t) {
			limit := limits.most
			if path == "/v1/models" {
				limit = limits.models
			}
			if units := c.get(kind, path); units > limit {
				t.Errorf("%s: GET %s reads %d units of a host with %d vacants, want at most %d", kind, path, units, crowdSize, limit)
			}
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
