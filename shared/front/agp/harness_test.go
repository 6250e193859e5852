package agp_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/agp"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

// network is a host with the account acme and a key of each tier.
type network struct {
	*memhost.Host
	// recorder is used only by the test of refusals.
	recorder *recorder
	admin    *http.Client
	url      string
	acme     billing.Account
	// Keys by tier, and a test key.
	free, pro, ent, test string
	// said returns the answer of the venue of kind scripted. With nil, the
	// venue fails.
	said  func(text string) (string, error)
	ends  substrate.FinishReason // why the venue's answer ends; "" means Stop
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
		_ = (text == "" || yield(substrate.Text(text), nil)) && yield(substrate.Usage{InputTokens: 7, OutputTokens: 3}, nil) && yield(cmp.Or(s.n.ends, substrate.FinishStop), nil)
	}
}

// open opens a host; works runs its worker, too.
func open(t testing.TB, works bool, changes ...func(*serve.Config)) *network {
	t.Helper()
	n := &network{stop: func() {}}
	n.said = func(string) (string, error) { return `{"decision":"accept"}`, nil }
	n.Host = memhost.Open(t, append([]func(*serve.Config){func(c *serve.Config) {
		c.AllowLoopback, c.OwnMachine, c.AllowRemote = true, true, true
		c.Substrates = substrate.Kinds{substrate.KindMock: func(string) (substrate.Substrate, error) { return scripted{n}, nil }}
	}}, changes...)...)
	n.Serve()
	n.admin, n.url = serve.InProcessClient(n.Admin())
	if works {
		n.stop = n.Work()
	}
	_, err := n.AGP.Bookings.Sweep(t.Context()) // as a host does when it starts
	n.Must(err)
	n.acme, n.pro = n.account("acme", 100*money.Dollar, billing.KeyOptions{Tier: billing.Pro})
	n.free, n.ent = n.Key(n.acme, billing.KeyOptions{Tier: billing.Free}), n.Key(n.acme, billing.KeyOptions{Tier: billing.Enterprise})
	n.test = n.Key(n.acme, billing.KeyOptions{Tier: billing.Pro, Test: true})
	return n
}

func (n *network) account(tenant string, credit money.Amount, o billing.KeyOptions) (billing.Account, string) {
	n.Helper()
	a := n.Account(tenant, credit)
	return a, n.Key(a, o)
}

// managing are the options of a key that manages its account.
var managing = billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeCall, billing.ScopeRead, billing.ScopeManage}}

// venue publishes a vacant as a venue.
func (n *network) venue(name, kind string, change func(*listing.Venue)) vacants.Record {
	n.Helper()
	r, err := n.Server.Vacants.Create(n.Context(), vacants.CreateSpec{Name: name, Capability: "serves " + name, Substrate: kind, Tenant: "owner"})
	n.Must(err)
	_, _, err = n.Server.Vacants.Publish(n.Context(), r.ID, vacants.PublishOptions{EditVenue: func(v *listing.Venue) error {
		v.Slug = name
		if change != nil {
			change(v)
		}
		return nil
	}, Listing: &vacants.ListingOptions{Summary: "sunset dinner"}})
	n.Must(err)
	return r
}

// priced publishes a scripted vacant with a price as a venue.
func (n *network) priced(name string, p price.Price) vacants.Record {
	n.Helper()
	r := n.venue(name, substrate.KindMock, nil)
	r, err := n.Server.Vacants.SetPrice(n.Context(), r.ID, p)
	n.Must(err)
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
	n.Clock.Advance(60 * time.Millisecond) // a key may send 20 requests a second
	a := n.Do(method, path, key, body, headers...)
	return answer{a.Status, a.Header, a.Body, a.JSON}
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
	n.Must(err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := n.admin.Do(r)
	n.Must(err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	n.Must(err)
	a := answer{status: resp.StatusCode, header: resp.Header, body: string(b)}
	_ = json.Unmarshal(b, &a.json)
	return a
}

// state is the state of a booking's envelope, and how many rows it has.
func (n *network) state(id string) (string, uint64) {
	n.Helper()
	b, err := n.AGP.Bookings.Get(n.Context(), id)
	n.Must(err)
	return string(b.State), b.RowCount
}

func (n *network) sweep() {
	n.Helper()
	n.Clock.Advance(time.Minute)
	if _, err := n.AGP.Bookings.Sweep(n.Context()); err != nil {
		n.Errorf("Sweep() = %v", err)
	}
}

// balance returns the balance of acme.
func (n *network) balance() money.Amount { return n.Balance(n.acme) }

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
	n.Clock.Advance(6 * time.Second) // the text is cached
	for l := range strings.Lines(n.do("GET", "/metrics", "", "").body) {
		if rest, ok := strings.CutPrefix(l, line+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "0"
}

var errDown = problem.New(problem.SubstrateUnavailable, "the venue is down")
