package discovery_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/memorybook"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// market is a caller, registries, and vacants each on a host of its own.
type market struct {
	*discovery.Client
	clock *dispatchtest.Clock
	book  *memorybook.Book
	hosts map[string]*dispatchtest.Wire // by the URL's host
	reg   *registry
}

// registry is a scripted registry that records all requests.
type registry struct {
	mu     sync.Mutex
	routes []string // the paths it has
	rows   []registryclient.Match
	answer func(r outbound.Request) (outbound.Reply, error, bool)
	saw    []string // all requests: method, URL, headers, body
}

func (r *registry) Do(ctx context.Context, req outbound.Request) (outbound.Reply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saw = append(r.saw, fmt.Sprintf("%s %s %v %s", req.Method, req.URL, req.Header, req.Body))
	if r.answer != nil {
		if reply, err, ok := r.answer(req); ok {
			return reply, err
		}
	}
	u, err := url.Parse(req.URL)
	if err != nil {
		return outbound.Reply{}, err
	}
	if !slices.Contains(r.routes, u.Path) {
		return outbound.Reply{Status: 404, Body: []byte(`{"detail":"Not Found"}`)}, nil
	}
	var body any = map[string]any{"matches": r.rows}
	if u.Path == "/v1/search_capability" {
		body = r.rows
	}
	return outbound.Reply{Status: http.StatusOK, Body: dispatchtest.Marshal(body)}, nil
}

// paths are the requested paths.
func (r *registry) paths() (out []string) {
	for _, s := range r.saw {
		u, _ := url.Parse(strings.Fields(s)[1])
		out = append(out, u.Path)
	}
	return out
}

const (
	ours      = "/v1/search"
	sdk       = "/v1/search_capability"
	reference = "/v1/query_capability"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newMarket(t testing.TB) *market {
	c := dispatchtest.NewClock()
	m := &market{clock: c, book: &memorybook.Book{}, hosts: map[string]*dispatchtest.Wire{}, reg: &registry{routes: []string{ours, sdk, reference}}}
	m.Client = &discovery.Client{
		Caller:     &dispatch.Caller{Signer: dispatchtest.NewKey(t, 1), Book: m.book, Now: c.Now, Rand: &dispatchtest.Random{Seed: 7}, Wait: c.Wait},
		Registries: []*registryclient.Client{{Transport: m.reg, URL: "https://registry.test"}},
		Route: func(_ string, callee *card.Card) (dispatch.Transport, error) {
			u, err := url.Parse(callee.Endpoint)
			if err != nil {
				return nil, err
			}
			return dispatchtest.PostFunc(func(at string, body []byte) (int, []byte, error) {
				w := m.hosts[u.Host]
				if i := strings.LastIndex(at, "/a2a/"); i < 0 || strings.Contains(at, "verbatim") {
					return 404, []byte(`{"detail":"Not Found"}`), nil
				}
				return w.Post(context.Background(), at, body)
			}), nil
		},
	}
	return m
}

// add lists a vacant that answers at https://NAME.test/a2a/message/send.
func (m *market) add(t testing.TB, n byte, name, capability string) *registryclient.Match {
	t.Helper()
	h := dispatchtest.NewHost(t, m.clock.Now)
	h.Key = dispatchtest.NewKey(t, n)
	m.hosts[name+".test"] = &dispatchtest.Wire{Host: h}
	m.reg.rows = append(m.reg.rows, row(t, n, capability, "https://"+name+".test/a2a/message/send"))
	return &m.reg.rows[len(m.reg.rows)-1]
}

// row is a signed card as a registry shows it.
func row(t testing.TB, n byte, capability, endpoint string) registryclient.Match {
	t.Helper()
	k := dispatchtest.NewKey(t, n)
	c, err := card.New(k.ID(), capability, []string{"mock"}, endpoint)
	must(t, err)
	must(t, c.Sign(t.Context(), k))
	declared, err := json.Marshal([]string{capability})
	must(t, err)
	return registryclient.Match{
		ID: k.ID(), CardHash: c.Hash().String(), CardBlob: hex.EncodeToString(c.Blob()), DeclaredCapabilities: string(declared),
		Visibility: lifecycle.Public, State: lifecycle.Active, Status: "active",
	}
}

// judged gives a row n reviews of a mean signal.
func judged(t testing.TB, r *registryclient.Match, n, signal float64) {
	t.Helper()
	s := reputation.NewState(dispatchtest.Start)
	for _, d := range reputation.SearchDimensions() {
		var err error
		s, err = s.Update(d, signal, n, dispatchtest.Start)
		must(t, err)
	}
	r.Reputation, r.Score = &s, s.Score(reputation.SearchDimensions()...)
}

// wire leads to the vacant with a name.
func (m *market) wire(name string) *dispatchtest.Wire { return m.hosts[name+".test"] }

// called lists the vacants that received calls, each once.
func (m *market) called() (names []string) {
	for name, w := range m.hosts {
		if len(w.SentBodies(1)) > 0 {
			names = append(names, strings.TrimSuffix(name, ".test"))
		}
	}
	slices.Sort(names)
	return names
}

// slow is a registry that answers after the deadline.
type slow struct{}

func (slow) Do(ctx context.Context, _ outbound.Request) (outbound.Reply, error) {
	<-ctx.Done()
	return outbound.Reply{}, problem.Wrap(problem.DeadlineExceeded, ctx.Err(), "no answer")
}
