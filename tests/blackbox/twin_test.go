package blackbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/handlers"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/web"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/stripe"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

// authority is the address of both hosts.
const authority = "host.example"

// keys are the common keys of both twins.
type keys struct{ host, firm, other *identity.Key }

// host is one of the two: with closed children, or without.
type host struct {
	key string // of an account, for AGP
	*memhost.Host
	log    *translog.Log
	queue  queue
	closed []string // ids of closed children, also former ones
}

// queue notes the messages of both queues.
type queue struct {
	mu   sync.Mutex
	sent []string
}

func (q *queue) Send(_ context.Context, m string, _ task.Sender) (func(context.Context, bool), error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent = append(q.sent, m)
	return func(context.Context, bool) {}, nil
}

func (q *queue) SendAfter(ctx context.Context, m string, _ task.Sender, _ time.Duration) error {
	_, err := q.Send(ctx, m, "")
	return err
}

// open makes a host with one public vacant that echoes, the firm, and the extra
// ones.
func open(t *testing.T, k keys, extra ...vacants.CreateSpec) *host {
	t.Helper()
	h := &host{Host: memhost.Open(t, func(c *serve.Config) {
		c.AllowLoopback, c.TrustHostHeader, c.HoldsIdentity, c.URL, c.Identity = true, true, false, "https://"+authority, k.self
	})}
	index, err := bleve.Open(filepath.Join(t.TempDir(), "search"))
	h.Must(err)
	t.Cleanup(func() { index.Close() })
	h.log, err = h.OpenLog(nil)
	h.Must(err)
	// As on AWS: whether anything is queued must tell nobody of closed children, either.
	agents := h.OpenQueuedA2A(serve.Queues{Tasks: &h.queue, Notices: &h.queue})
	t.Cleanup(func() {
		for _, m := range h.queue.sent {
			if id, _, _ := strings.Cut(m, "#"); slices.Contains(h.closed, id) {
				t.Errorf("a message to a closed child was queued: %s", m)
			}
		}
	})
	found := h.OpenSearch(index)
	agents.Find = found.Find
	parts := serve.Handlers{Message: h.MessageHandler(), Plain: agents.Plain, Protocols: handlers.NewProtocols(agents), Registry: h.RegistryHandler(h.log), Search: found.Endpoint(),
		Gate: h.GateHandler(nil), Children: h.ChildrenHandler(), Account: h.AccountHandler(stripe.New), Tenants: h.TenantsHandler(),
		AGP: h.OpenAGP(agents, found.Find, true), Metrics: true}
	parts.Web = web.Handler(web.Config{API: parts.Public(), Log: slog.New(slog.DiscardHandler), Now: h.Clock.NowFunc(0)})
	h.Public = parts.Public()
	h.key = h.Key(h.Account("guests", 1_000_000), billing.KeyOptions{Tier: billing.Enterprise, Scopes: []billing.Scope{billing.ScopeAGP, billing.ScopeRead, billing.ScopeVacants}})
	for _, spec := range append([]vacants.CreateSpec{{Name: "firm", Capability: "advises on contracts", Substrate: "echo", Key: k.firm}}, extra...) {
		_, _, err := h.Vacants.Publish(t.Context(), h.Create(spec).ID, vacants.PublishOptions{})
		h.Must(err)
	}
	return h
}

// charge gives the firm a price, and a stranger's calls to an account that pays for them.
func (h *host) charge(t *testing.T, firm identity.ID, stranger *identity.Key) {
	t.Helper()
	_, err := h.Vacants.SetPrice(t.Context(), firm, price.Price{Flat: 5})
	h.Must(err)
	h.Link(h.Account("acme", 1_000_000), stranger, 0)
}

// seal seals the log, so that it shows something.
func (h *host) seal(t *testing.T) {
	t.Helper()
	if _, err := h.log.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// spawn gives the firm a closed child.
func (h *host) spawn(t *testing.T, parent identity.ID, name string) vacants.Record {
	t.Helper()
	r, _, err := h.Vacants.Spawn(t.Context(), vacants.SpawnSpec{
		Parent: parent, Path: "D2", Name: name, Capability: "reviews clauses of contracts for " + name, Substrate: "echo",
	})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Closed {
		t.Fatalf("Spawn() of path D2 = %+v, want a closed child", r)
	}
	h.closed = append(h.closed, r.ID.String())
	return r
}

// request is one request to both.
type request struct {
	method, target string
	header         http.Header
	body           []byte
}

func (r request) String() string {
	who := "anybody"
	if len(r.header) > 0 {
		who = fmt.Sprint(r.header)
	}
	return fmt.Sprintf("%s %s by %s: %.200s", r.method, r.target, who, r.body)
}

// shown is the whole answer.
type shown struct {
	Status int
	Header http.Header
	Body   string
}

func (h *host) ask(r request) shown {
	in := httptest.NewRequest(r.method, "https://"+authority+r.target, bytes.NewReader(r.body))
	for name, values := range r.header {
		in.Header[name] = values
	}
	if in.Header.Get("Authorization") == anyKey { // each host has another
		h.Clock.Advance(time.Second)
		in.Header.Set("Authorization", "Bearer "+h.key)
	}
	if r.body != nil && in.Header.Get("Content-Type") == "" {
		in.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	h.Public.ServeHTTP(w, in)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		panic(err) // a recorder reads from memory
	}
	w.Header().Del("X-Request-Id")
	return shown{w.Code, w.Header(), requestID.ReplaceAllString(string(body), "")}
}

// keptSeconds is the longest time for which the edge may keep public answers, by the pattern of their paths.
var keptSeconds = map[string]int{
	"/web/*": 365 * 86400, "/v1/search*": 2, "/v1/checkpoint": 86400, "/v1/proof/*": 86400, "/v1/log/*": 86400, "*/card": 60,
}

// kept matches the seconds that an answer allows to shared caches, and to all caches.
var kept = regexp.MustCompile(`(s-maxage|max-age)=(\d+)`)

// checkKept fails the test if the edge would keep an answer too long. The cache policies of other paths have bounds of
// their own.
func checkKept(t *testing.T, r request, s shown) {
	t.Helper()
	path, _, _ := strings.Cut(r.target, "?")
	p := functions.Route(path)
	if p.CachePolicy != functions.CachePublic {
		return
	}
	most, ok := keptSeconds[p.Pattern]
	if !ok {
		t.Errorf("%s: keptSeconds does not bound the answers", p.Pattern)
	}
	seconds := map[string]int{}
	for _, m := range kept.FindAllStringSubmatch(s.Header.Get("Cache-Control"), -1) {
		seconds[m[1]], _ = strconv.Atoi(m[2])
	}
	n, shared := seconds["s-maxage"]
	if !shared {
		n = seconds["max-age"]
	}
	if n > most {
		t.Errorf("%s is kept for %d seconds, want %d at most: %s", r, n, most, s.Header.Get("Cache-Control"))
	}
}

// anyKey stands for the host's key of an account.
const anyKey = "Bearer KEY"

// requestID matches the member that differs between any two answers of AGP.
var requestID = regexp.MustCompile(`,"request_id":"[0-9a-f]{16}"`)

// compare makes the same request to both and compares the answers.
func compare(t *testing.T, alone, firm *host, requests []request) {
	t.Helper()
	answered := 0
	for _, r := range requests {
		want, got := alone.ask(r), firm.ask(r)
		checkKept(t, r, got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-without children +with):\n%s", r, diff)
		}
		if want.Status < 300 {
			answered++
		}
		if want.Status >= 500 {
			t.Errorf("%v = %d %s, want no fault", r, want.Status, want.Body)
		}
	}
	// A battery that is refused everywhere would compare nothing.
	if answered < len(requests)/20 {
		t.Errorf("%d of %d requests were answered, want more", answered, len(requests))
	}
}
