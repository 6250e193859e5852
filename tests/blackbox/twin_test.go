package blackbox

import (
	"bytes"
	"context"
	"crypto/rand"
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

	"github.com/vacancy-host/vacancy/shared/front/mcpserver"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/web"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/stripe"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// authority is the address of both hosts.
const authority = "host.example"

// keys are the common keys of both twins.
type keys struct{ host, firm, other *identity.Key }

// host is one of the two: with closed children, or without.
type host struct {
	key string // of an account, for AGP
	*serve.Server
	public http.Handler
	log    *translog.Log

	mu     sync.Mutex
	now    time.Time
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

func (h *host) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *host) later(by time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(by)
}

// open makes a host with one public vacant that echoes, the firm, and the extra
// ones.
func open(t *testing.T, k keys, extra ...vacants.Spec) *host {
	t.Helper()
	h := &host{now: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)}
	vault, err := local.FromHex(strings.Repeat("5a", 32), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	home := serve.Config{
		Store: memory.New(), Vault: vault, AllowLoopback: true, URL: "https://" + authority,
		Identity: k.self, Log: slog.New(slog.DiscardHandler), Now: h.clock, Rand: rand.Reader, TrustedHost: true, Charges: true,
	}
	if h.Server, err = home.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Vacants.Close)
	index, err := bleve.Open(filepath.Join(t.TempDir(), "search"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { index.Close() })
	if h.log, err = h.OpenLog(nil); err != nil {
		t.Fatal(err)
	}
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
	servers := mcpserver.Handler(mcpserver.Config{Agents: agents.Agents, Search: h.SearchHandler(found.Find), Published: h.IsPublished})
	handlers := serve.Handlers{Message: h.MessageHandler(), A2A: agents, MCP: servers, Registry: h.RegistryHandler(h.log), Search: found.Endpoint(),
		Gate: h.GateHandler(nil), Children: h.ChildrenHandler(), Account: h.AccountHandler(stripe.New), Tenants: h.TenantsHandler(),
		AGP: h.OpenAGP(agents, found.Find, true), Metrics: true}
	handlers.Web = web.Handler(web.Config{API: handlers.Public(), Log: slog.New(slog.DiscardHandler), Now: h.clock})
	h.public = handlers.Public()
	account, err := h.Billing.OpenAccount(t.Context(), "guests", 1)
	if err == nil {
		_, _, err = h.Billing.Credit(t.Context(), account.ID, 1_000_000, "first", "")
	}
	if err == nil {
		_, h.key, err = h.Billing.MakeKey(t.Context(), account.ID, billing.KeyOptions{Tier: billing.Enterprise, Scopes: []billing.Scope{billing.ScopeAGP, billing.ScopeRead, billing.ScopeVacants}})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range append([]vacants.Spec{{Name: "firm", Capability: "advises on contracts", Substrate: "echo", Key: k.firm}}, extra...) {
		r, err := h.Vacants.Create(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.Vacants.Publish(t.Context(), r.ID, vacants.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// charge gives the firm a price, and a stranger's calls to an account that pays for them.
func (h *host) charge(t *testing.T, firm identity.ID, stranger *identity.Key) {
	t.Helper()
	ctx := t.Context()
	if _, err := h.Vacants.SetPrice(ctx, firm, price.Price{Flat: 5}); err != nil {
		t.Fatal(err)
	}
	a, err := h.Billing.OpenAccount(ctx, "acme", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.Billing.Credit(ctx, a.ID, 1_000_000, "first", ""); err != nil {
		t.Fatal(err)
	}
	self, err := h.Vacants.SelfID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := claim.Claim{Host: self, Account: a.ID}
	if err := c.Sign(ctx, stranger, h.clock()); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Billing.Link(ctx, a.ID, c.String()); err != nil {
		t.Fatal(err)
	}
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
		h.later(time.Second)
		in.Header.Set("Authorization", "Bearer "+h.key)
	}
	if r.body != nil && in.Header.Get("Content-Type") == "" {
		in.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	h.public.ServeHTTP(w, in)
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
	if p.Kept != functions.Public {
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
