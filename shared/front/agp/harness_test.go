package agp_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/agp"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// clock is a clock that tests move. Between two moves it stands still.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// network is a host with the account acme and a key of each tier.
type network struct {
	testing.TB
	clock  *clock
	server *serve.Server
	store  *memory.Store
	vault  custody.Vault
	// recorder is used only by the test of refusals.
	recorder *recorder
	agp      *serve.AGP
	web      http.Handler
	admin    *http.Client
	url      string
	acme     billing.Account
	// Keys by tier, and a test key.
	free, pro, ent, test string
	// said returns the answer of the venue of kind scripted. With nil, the
	// venue fails.
	said  func(text string) (string, error)
	ends  substrate.Done // why the venue's answer ends; "" means Stop
	asked atomic.Int64
	guest atomic.Pointer[identity.ID] // of the last call
	stop  func()
}

// scripted says what n.said says, and that it used 7 tokens in and 3 out.
type scripted struct{ n *network }

func (s scripted) Infer(_ context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		s.n.asked.Add(1)
		s.n.guest.Store(&r.Caller)
		text, err := s.n.said(r.Text())
		if err != nil {
			yield(nil, err)
			return
		}
		_ = (text == "" || yield(substrate.Text(text), nil)) && yield(substrate.Usage{In: 7, Out: 3}, nil) && yield(cmp.Or(s.n.ends, substrate.Stop), nil)
	}
}

func (n *network) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

// open opens a host; works runs its worker, too.
func open(t testing.TB, works bool, changes ...func(*serve.Config)) *network {
	t.Helper()
	n := &network{TB: t, clock: &clock{at: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)}, stop: func() {}}
	vault, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	n.must(err)
	n.store, n.vault = memory.New(), vault
	c := serve.Config{
		Store: n.store, Vault: vault, AllowLoopback: true, OwnMachine: true, URL: "http://127.0.0.1:1", Log: slog.New(slog.DiscardHandler),
		Now: n.clock.now, Rand: rand.Reader, Charges: true, Elsewhere: true, HoldsIdentity: true,
		Substrates: substrate.Kinds{substrate.KindMock: func(string) (substrate.Substrate, error) {
			return scripted{n}, nil
		}},
	}
	n.said = func(string) (string, error) { return `{"decision":"accept"}`, nil }
	for _, change := range changes {
		change(&c)
	}
	c.Store = serve.NewChangeNotifier(c.Store)
	n.server, err = c.Open()
	n.must(err)
	index, err := bleve.Open(t.TempDir())
	n.must(err)
	t.Cleanup(func() { index.Close() })
	found := n.server.OpenSearch(index)
	agents := n.server.OpenA2A()
	n.agp = n.server.OpenAGP(agents, found.Find, true)
	n.web = serve.Handlers{Message: n.server.MessageHandler(), A2A: agents, Account: n.server.AccountHandler(nil), AGP: n.agp, Metrics: true}.Public()
	n.admin, n.url = serve.InProcess(n.server.Admin())
	if works {
		ctx, end := context.WithCancel(context.Background())
		ended := make(chan bool)
		go func() { defer close(ended); agents.Run(ctx) }()
		n.stop = func() { end(); <-ended }
		t.Cleanup(func() { n.stop() })
	}
	_, err = n.agp.Bookings.Sweep(t.Context()) // as a host does when it starts
	n.must(err)
	n.acme, n.pro = n.account("acme", 100*money.Dollar, billing.KeyOptions{Tier: billing.Pro})
	n.free, n.ent = n.key(n.acme, billing.KeyOptions{Tier: billing.Free}), n.key(n.acme, billing.KeyOptions{Tier: billing.Enterprise})
	n.test = n.key(n.acme, billing.KeyOptions{Tier: billing.Pro, Test: true})
	return n
}

func (n *network) account(tenant string, credit money.Amount, o billing.KeyOptions) (billing.Account, string) {
	n.Helper()
	a, err := n.server.Billing.OpenAccount(n.Context(), tenant, 0)
	n.must(err)
	if credit > 0 {
		_, _, err = n.server.Billing.Credit(n.Context(), a.ID, credit, "first", "")
		n.must(err)
	}
	return a, n.key(a, o)
}

// managing are the options of a key that manages its account.
var managing = billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeCall, billing.ScopeRead, billing.ScopeManage}}

func (n *network) key(a billing.Account, o billing.KeyOptions) string {
	n.Helper()
	_, secret, err := n.server.Billing.MakeKey(n.Context(), a.ID, o)
	n.must(err)
	return secret
}

// venue publishes a vacant as a venue.
func (n *network) venue(name, kind string, change func(*listing.Venue)) vacants.Record {
	n.Helper()
	r, err := n.server.Vacants.Create(n.Context(), vacants.Spec{Name: name, Capability: "serves " + name, Substrate: kind, Tenant: "owner"})
	n.must(err)
	_, _, err = n.server.Vacants.Publish(n.Context(), r.ID, vacants.PublishOptions{Venue: func(v *listing.Venue) error {
		v.Slug = name
		if change != nil {
			change(v)
		}
		return nil
	}, Listing: &vacants.ListingOptions{Summary: "sunset dinner"}})
	n.must(err)
	return r
}

// priced publishes a scripted vacant with a price as a venue.
func (n *network) priced(name string, p price.Price) vacants.Record {
	n.Helper()
	r := n.venue(name, substrate.KindMock, nil)
	r, err := n.server.Vacants.SetPrice(n.Context(), r.ID, p)
	n.must(err)
	return r
}

// answer is an HTTP answer.
type answer struct {
	status int
	header http.Header
	body   string
	json   map[string]any
}

func (a answer) code() string {
	e, _ := a.json["error"].(map[string]any)
	s, _ := e["code"].(string)
	return s
}

func (a answer) text(path string) string { return fmt.Sprint(a.json[path]) }

func (n *network) do(method, path, key, body string, headers ...string) answer {
	n.clock.pass(60 * time.Millisecond) // a key may send 20 requests a second
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	n.web.ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header(), body: w.Body.String()}
	_ = json.Unmarshal(w.Body.Bytes(), &a.json)
	return a
}

// send sends an envelope of an intent.
func (n *network) send(key, intent, payload string, headers ...string) answer {
	if payload == "" {
		payload = "{}"
	}
	return n.do("POST", agp.Path, key, fmt.Sprintf(`{"from":"nemoclaw:hello","intent":%q,"payload":%s}`, intent, payload), headers...)
}

func (n *network) want(what string, a answer, status int, code string) {
	n.Helper()
	if a.status != status || a.code() != code {
		n.Errorf("%s = %d %q %s, want %d %q", what, a.status, a.code(), a.body, status, code)
	}
}

// confirmed is the id of a booking that is made.
func (n *network) confirmed(key, payload string, headers ...string) (id string, a answer) {
	n.Helper()
	a = n.send(key, "booking.confirm", payload, headers...)
	n.want("confirm "+payload, a, http.StatusOK, "")
	return a.text("booking_id"), a
}

// as is a request of the operator.
func (n *network) as(method, path, body string) answer {
	n.Helper()
	r, err := http.NewRequestWithContext(n.Context(), method, n.url+path, bytes.NewReader([]byte(body)))
	n.must(err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := n.admin.Do(r)
	n.must(err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	n.must(err)
	a := answer{status: resp.StatusCode, header: resp.Header, body: string(b)}
	_ = json.Unmarshal(b, &a.json)
	return a
}

// state is the state of a booking's envelope, and how many rows it has.
func (n *network) state(id string) (string, uint64) {
	n.Helper()
	b, err := n.agp.Bookings.Get(n.Context(), id)
	n.must(err)
	return string(b.State), b.Rows
}

func (n *network) sweep() {
	n.Helper()
	n.clock.pass(time.Minute)
	if _, err := n.agp.Bookings.Sweep(n.Context()); err != nil {
		n.Errorf("Sweep() = %v", err)
	}
}

// balance returns the account's balance, in micro-dollars.
func (n *network) balance() money.Amount {
	n.Helper()
	m, err := n.server.Billing.Balance(n.Context(), &n.acme)
	n.must(err)
	return m
}

// events are the usage events of acme.
func (n *network) events(key string) (cents []float64) {
	n.Helper()
	all := n.do("GET", "/v1/usage", key, "")
	list, ok := all.json["events"].([]any)
	if !ok {
		n.Fatalf("GET /v1/usage = %d %s", all.status, all.body)
	}
	for _, e := range list {
		cents = append(cents, e.(map[string]any)["amount_cents"].(float64))
	}
	return cents
}

// metric is a counter of /metrics; 0 if it is missing.
func (n *network) metric(line string) string {
	n.Helper()
	n.clock.pass(6 * time.Second) // the text is cached
	for l := range strings.Lines(n.do("GET", "/metrics", "", "").body) {
		if rest, ok := strings.CutPrefix(l, line+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "0"
}

var errDown = problem.New(problem.SubstrateUnavailable, "the venue is down")
