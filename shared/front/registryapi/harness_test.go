package registryapi_test

import (
	"bytes"
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

	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/live"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/host/reviews"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
)

// authority is the Host of requests to the handler.
const authority = "registry.example"

// api is a registry with its handlers and a store in memory.
type api struct {
	t        *testing.T
	handler  http.Handler
	registry *registry.Registry
	live     *live.Live
	log      *translog.Log
	public   string // the host's own URL

	mu  sync.Mutex
	now time.Time
}

func (d *api) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(time.Millisecond)
	return d.now
}

func (d *api) later(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

func newTestServer(t *testing.T) *api {
	t.Helper()
	d := &api{t: t, now: time.Unix(1_700_000_010, 0).UTC()}
	s, host := memory.New(), newKey(t)
	d.registry = registry.New(registry.Config{
		Store: s, Now: d.clock, Rand: rand.Reader,
		AllowRemote: true,
	})
	index, err := bleve.OpenMemory()
	must(t, err)
	t.Cleanup(func() { index.Close() })
	d.log, err = translog.NewForRegistry(translog.Config{
		Store: s, Now: d.clock, Rand: rand.Reader,
		Identity: func(context.Context) (identity.Signer, error) { return host, nil },
	}, d.registry)
	must(t, err)
	d.live = live.New(index, d.registry, d.clock)
	quiet := slog.New(slog.DiscardHandler)
	records, err := vacants.NewRecords(s, d.clock, "https://"+authority)
	must(t, err)
	directory := vacants.New(vacants.Config{Records: records, Registry: d.registry, Rand: rand.Reader})
	reg := registryapi.NewRegistryHandler(registryapi.Config{
		Registry: d.registry, Vacants: directory, Log: d.log,
		Reviews: &reviews.Service{Store: s, Calls: call.New(call.Config{Store: s, Now: d.clock, Rand: rand.Reader}), Vacants: directory, Registry: d.registry, Now: d.clock, Rand: rand.Reader},
		Now:     d.clock, Logger: quiet,
		URL: func(context.Context) (string, error) { return d.public, nil }, TrustHostHeader: true,
	})
	find := registryapi.NewSearchHandler(registryapi.SearchConfig{
		Finder: search.New(search.Config{Index: index, Registry: d.registry, Now: d.clock, Log: quiet, Refresh: d.live.CatchUp}),
		Now:    d.clock, Logger: quiet,
	})
	d.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if registryapi.IsSearchPath(r.URL.Path) {
			find.ServeHTTP(w, r)
			return
		}
		reg.ServeHTTP(w, r)
		if r.Method == http.MethodPost { // every endpoint answers, as the reference takes for granted
			registrytest.ProbeEndpoints(t, d.registry)
		}
	})
	return d
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// send sends a request. If as is not nil, as signs the request.
func (d *api) send(method, target string, body any, as identity.Signer) *http.Response {
	d.t.Helper()
	var sent []byte
	switch b := body.(type) {
	case nil:
	case []byte:
		sent = b
	case string:
		sent = []byte(b)
	default:
		var err error
		sent, err = json.Marshal(b)
		must(d.t, err)
	}
	r := httptest.NewRequest(method, "http://"+authority+target, bytes.NewReader(sent))
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if as != nil {
		r.Header.Set(readproof.Header, d.proof(as, authority, r))
	}
	return d.do(r)
}

func (d *api) do(r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	return w.Result()
}

func (d *api) proof(as identity.Signer, authority string, r *http.Request) string {
	d.t.Helper()
	value, err := readproof.Sign(d.t.Context(), as, readproof.Request{Authority: authority, Method: "GET", Target: r.URL.RequestURI()}, d.clock())
	must(d.t, err)
	return value
}

func (d *api) Do(_ context.Context, r outbound.Request) (outbound.Reply, error) {
	in := httptest.NewRequest(r.Method, r.URL, bytes.NewReader(r.Body))
	in.Header = r.Header.Clone()
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, in)
	return outbound.Reply{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}, nil
}

func (d *api) client(as identity.Signer) *registryclient.Client {
	return &registryclient.Client{Transport: d, URL: "http://" + authority, Reader: as, Now: d.clock}
}

// acceptPublication publishes a card of key. It fails the test if the publication is refused.
func (d *api) acceptPublication(key *identity.Key, text string, change ...func(*registryclient.Draft)) registryclient.Receipt {
	d.t.Helper()
	r, err := d.tryPublish(key, text, change...)
	must(d.t, err)
	return r
}

func (d *api) tryPublish(key *identity.Key, text string, change ...func(*registryclient.Draft)) (registryclient.Receipt, error) {
	d.t.Helper()
	return d.client(key).PublishAs(d.t.Context(), key, d.draft(key, text, change...), rand.Reader)
}

func (d *api) draft(key *identity.Key, text string, change ...func(*registryclient.Draft)) registryclient.Draft {
	d.t.Helper()
	c, err := card.New(key.ID(), text, []string{"mock"}, "https://"+key.ID().Short()+".example/a2a/message/send")
	if err == nil {
		err = c.Sign(d.t.Context(), key)
	}
	must(d.t, err)
	draft := registryclient.Draft{Card: c, State: lifecycle.Active, Visibility: lifecycle.Public}
	for _, f := range change {
		f(&draft)
	}
	return draft
}

func newKey(t *testing.T) *identity.Key {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	must(t, err)
	return key
}

// reply is the status of an answer and its JSON.
func reply(t *testing.T, r *http.Response) (int, any) {
	t.Helper()
	var v any
	if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
		t.Fatalf("%d: the answer is no JSON: %v", r.StatusCode, err)
	}
	return r.StatusCode, v
}

// refused checks the status, the code and a part of the detail.
func refused(t *testing.T, r *http.Response, status int, code, detail string) map[string]any {
	t.Helper()
	got, v := reply(t, r)
	m, _ := v.(map[string]any)
	text, _ := m["detail"].(string)
	if got != status || m["code"] != code || !strings.Contains(text, detail) {
		t.Errorf("answer = %d %v, want %d, code %s and %q in the detail", got, v, status, code, detail)
	}
	return m
}
