// Package memhost provides a host in memory for the tests of all packages: accounts with money, all public
// protocols behind one handler, and a clock that only tests move. A package that needs more helpers embeds
// Host in its fixture.
//
//	func TestACallCostsItsPrice(t *testing.T) {
//		h := memhost.Open(t)
//		h.Serve()
//		shop := h.Create(vacants.CreateSpec{Name: "shop", Capability: "sells", Substrate: "echo"})
//		_, err := h.Vacants.SetPrice(t.Context(), shop.ID, price.Price{Flat: 2000})
//		h.Must(err)
//		buyer := h.Account("buyer", money.Dollar)
//		answer := h.Do("POST", "/v/shop/text", h.Key(buyer, billing.KeyOptions{}), "hi")
//		if got := h.Balance(buyer); answer.Status != 200 || got != money.Dollar-2000 {
//			t.Errorf("the call = %d %s, balance %s", answer.Status, answer.Body, got)
//		}
//	}
package memhost

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/handlers"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/files"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Host is a host over a store in memory.
type Host struct {
	testing.TB
	*serve.Server
	Clock *calltest.Clock
	Store *memory.Store // unless a change of Open sets another store
	Vault custody.Vault
	// Blobs opens the storage of files in workspaces, a directory.
	Blobs func() (blob.Blobs, error)

	// Set by Serve.
	Agents *serve.A2A
	AGP    *serve.AGP
	Public http.Handler
}

// Open opens a host, whose configuration the changes complete.
func Open(t testing.TB, changes ...func(*serve.Config)) *Host {
	t.Helper()
	h := &Host{TB: t, Clock: calltest.NewClock(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)), Store: memory.New()}
	var err error
	h.Vault, err = local.FromHex(strings.Repeat("5a", 32), rand.Reader)
	h.Must(err)
	dir := sync.OnceValue(t.TempDir)
	h.Blobs = func() (blob.Blobs, error) { return files.Open(dir(), h.Clock.NowFunc(0)()) }
	c := serve.Config{
		Store: h.Store, Vault: h.Vault, URL: "http://127.0.0.1:1", Log: slog.New(slog.DiscardHandler), Now: h.Clock.NowFunc(0), Rand: rand.Reader, Blobs: h.Blobs,
		HasAccounts: true, HoldsIdentity: true,
	}
	for _, change := range changes {
		change(&c)
	}
	c.Store = serve.NewChangeNotifier(c.Store)
	h.Server, err = c.Open()
	h.Must(err)
	t.Cleanup(h.Vacants.Close)
	return h
}

// Serve sets Public. Nothing runs in the background before Work is called.
func (h *Host) Serve() {
	h.Helper()
	index, err := bleve.OpenMemory()
	h.Must(err)
	h.Cleanup(func() { index.Close() })
	found := h.OpenSearch(index)
	h.Agents = h.OpenA2A()
	h.AGP = h.OpenAGP(h.Agents, found.Find, true)
	h.Agents.Find = found.Find
	h.Public = serve.Handlers{Message: h.MessageHandler(), Plain: h.Agents.Plain, Protocols: handlers.NewProtocols(h.Agents), AGP: h.AGP, Account: h.AccountHandler(nil), Team: h.Agents.TeamHandler(), Work: h.Agents.WorkHandler(), Metrics: true}.Public()
}

// Work runs the background work until the test ends or stop is called.
func (h *Host) Work() (stop func()) {
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan bool)
	go func() { defer close(ended); h.Agents.Run(ctx) }()
	stop = sync.OnceFunc(func() { end(); <-ended })
	h.Cleanup(stop)
	return stop
}

// Must ends the test if err is not nil.
func (h *Host) Must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// Create creates a vacant.
func (h *Host) Create(s vacants.CreateSpec) vacants.Record {
	h.Helper()
	r, err := h.Vacants.Create(h.Context(), s)
	h.Must(err)
	return r
}

// Account opens an account with a credit.
func (h *Host) Account(tenant string, credit money.Amount) billing.Account {
	h.Helper()
	a, err := h.Billing.OpenAccount(h.Context(), tenant, 0)
	h.Must(err)
	if credit > 0 {
		_, _, err = h.Billing.Credit(h.Context(), a.ID, credit, "first", "")
		h.Must(err)
	}
	return a
}

// Key creates a key of an account, and returns its secret.
func (h *Host) Key(a billing.Account, o billing.KeyOptions) string {
	h.Helper()
	_, secret, err := h.Billing.MakeKey(h.Context(), a.ID, o)
	h.Must(err)
	return secret
}

// Link has an account pay for a caller, at most limit a day unless it is 0.
func (h *Host) Link(a billing.Account, caller identity.Signer, limit money.Amount) {
	h.Helper()
	self, err := h.Vacants.HostID(h.Context())
	h.Must(err)
	c := claim.PaymentClaim{Host: self, Account: a.ID, DailyCap: int64(limit)}
	h.Must(c.Sign(h.Context(), caller, h.Clock.NowFunc(0)()))
	_, err = h.Billing.Link(h.Context(), a.ID, c.String())
	h.Must(err)
}

// Balance returns what an account can spend.
func (h *Host) Balance(a billing.Account) money.Amount {
	h.Helper()
	m, err := h.Billing.Balance(h.Context(), &a)
	h.Must(err)
	return m
}

// Answer is an answer of Public.
type Answer struct {
	Status int
	Header http.Header
	Body   string
	JSON   map[string]any // nil if Body is not an object
}

// Do sends a request. Without a key it is a stranger's. A header is "Name: value".
func (h *Host) Do(method, path, key, body string, headers ...string) Answer {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.Public.ServeHTTP(w, r)
	a := Answer{Status: w.Code, Header: w.Header(), Body: w.Body.String()}
	_ = json.Unmarshal(w.Body.Bytes(), &a.JSON)
	return a
}

// Findings returns what verify finds in a host's data.
func (h *Host) Findings(s fsck.Source) (found []string) {
	h.Helper()
	_, err := fsck.Run(h.Context(), fsck.Config{Source: s, Vault: h.Vault, Blobs: h.Blobs, Now: h.Clock.NowFunc(0), ReportFinding: func(f fsck.Finding) error {
		found = append(found, f.String())
		return nil
	}})
	h.Must(err)
	return found
}

// WantWhole fails the test unless verify finds nothing in a host's data.
func (h *Host) WantWhole(s fsck.Source) {
	h.Helper()
	if found := h.Findings(s); len(found) > 0 {
		h.Errorf("verify: %q", found)
	}
}
