package agp_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/agp"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/vacant/booking"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

func TestAKeyIsNeededAndARevokedOneFails(t *testing.T) {
	n := open(t, false)
	for what, c := range map[string]struct{ header, code string }{
		"no key":          {"", "missing_key"},
		"another scheme":  {"Basic YTpi", "invalid_key"},
		"a key of nobody": {"Bearer agnt_live_" + strings.Repeat("a", 32), "invalid_key"},
		"a malformed key": {"Bearer agnt_live_short", "invalid_key"},
	} {
		var headers []string
		if c.header != "" {
			headers = append(headers, "Authorization: "+c.header)
		}
		got := n.do("POST", agp.Path, "", "{", headers...) // a broken body tells nothing
		n.want(what, got, http.StatusUnauthorized, c.code)
		if got.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: WWW-Authenticate = %q", what, got.header.Get("WWW-Authenticate"))
		}
	}
	n.want("a key", n.send(n.free, "network.ping", ""), http.StatusOK, "")
	keys, err := n.Server.Billing.Keys(t.Context(), n.acme.ID)
	n.Must(err)
	for _, k := range keys {
		_, err := n.Server.Billing.RevokeKey(t.Context(), nil, n.acme.ID, k.ID)
		n.Must(err)
	}
	n.want("a revoked key", n.send(n.free, "network.ping", ""), http.StatusUnauthorized, "revoked_key")
	day := n.Key(n.acme, billing.KeyOptions{Tier: billing.Free, Expires: n.Clock.NowFunc(0)().Add(24 * time.Hour)})
	n.want("a key of a day", n.send(day, "network.ping", ""), http.StatusOK, "")
	n.Clock.Advance(24 * time.Hour)
	n.want("an expired key", n.send(day, "network.ping", ""), http.StatusUnauthorized, "expired_key")
	plain := n.Key(n.acme, billing.KeyOptions{})
	n.want("a key without the scope", n.send(plain, "network.ping", ""), http.StatusForbidden, "scope_required")
}

func TestOneEnvelopeWithDefaultsAndAnAlias(t *testing.T) {
	n := open(t, false)
	post := func(body string) answer { return n.do("POST", agp.Path, n.ent, body) }
	for _, body := range []string{
		`{"from":"a","intent":"network.ping"}`,
		`{"from_agent":"a","intent":"network.ping"}`,
		`{"from":"a","from_agent":1,"intent":"network.ping"}`,
		`{"from":"a","intent":"network.ping","color":{"x":[1]},"timestamp":"","ttl_ms":"2000"}`,
		`{"from":"a","intent":"network.ping","ttl_ms":3.0,"timestamp":"2026-11-24T12:00:00Z","to":"network:vacancy","payload":{},"agent_context":{}}`,
		`{"from":"a","intent":"network.ping","protocol":"agp/1","timestamp":"2026-11-24T12:00:00.5+08:00"}`,
		`{"from":"a","intent":"network.ping","protocol":"openclaw/a2a/v1"}`,
	} {
		n.want(body, post(body), http.StatusOK, "")
		n.want(body+" at /a2a/v1/", n.do("POST", agp.Path+"/", n.ent, body), http.StatusOK, "")
	}
	for body, at := range map[string]string{
		`{"intent":"network.ping"}`: "from", `{"from":"a"}`: "intent", `{"from":"","intent":"x"}`: "from", `{"from":1,"intent":"network.ping"}`: "from",
		`{"from":"a","intent":"network.ping","payload":[]}`: "payload", `{"from":"a","intent":"network.ping","payload":null}`: "payload",
		`{"from":"a","intent":"network.ping","ttl_ms":"x"}`: "ttl_ms", `{"from":"a","intent":"network.ping","ttl_ms":0}`: "ttl_ms",
		`{"from":"a","intent":"network.ping","ttl_ms":1.5}`: "ttl_ms", `{"from":"a","intent":"network.ping","ttl_ms":600001}`: "ttl_ms",
		`{"from":"a","intent":"network.ping","ttl_ms":true}`: "ttl_ms", `{"from":"a","intent":"network.ping","timestamp":"yesterday"}`: "timestamp",
		`{"from":"a","intent":"network.ping","timestamp":"2026-11-24T12:00:00"}`: "timestamp", `{"from":"a","intent":"network.ping","agent_context":"x"}`: "agent_context",
		`{"from":"a\u0000b","intent":"network.ping"}`: "from", `{"jsonrpc":"2.0","method":"message/send"}`: "jsonrpc",
		`[]`: "body", `{`: "body", `null`: "body", `"x"`: "body", `{"from":"a","intent":"network.ping"} x`: "body",
		`{"from":"` + strings.Repeat("a", 257) + `","intent":"network.ping"}`: "from",
	} {
		got := post(body)
		n.want(body, got, http.StatusUnprocessableEntity, "invalid_request")
		if !strings.Contains(got.body, `"`+at+`"`) {
			t.Errorf("%s is refused with %s, want %s named", body, got.body, at)
		}
	}
	n.want("a large body", post(`{"from":"a","intent":"network.ping","x":"`+strings.Repeat("x", agp.MaxBody)+`"}`), http.StatusRequestEntityTooLarge, "too_large")
	n.want("a form", n.do("POST", agp.Path, n.ent, "a=b", "Content-Type: application/x-www-form-urlencoded"), http.StatusUnsupportedMediaType, "unsupported_media_type")
	if got := n.do("GET", agp.Path, n.ent, ""); got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != "POST" {
		t.Errorf("GET = %d, Allow %q", got.status, got.header.Get("Allow"))
	}
}

func TestUnknownProtocolsIntentsDestinationsAndSenders(t *testing.T) {
	n := open(t, false)
	post := func(body string) answer { return n.do("POST", agp.Path, n.ent, body) }
	n.want("another protocol", post(`{"from":"a","intent":"network.ping","protocol":"openclaw/a2a/v9"}`), http.StatusBadRequest, "unsupported_protocol")
	got := post(`{"from":"a","intent":"booking.cancel"}`)
	n.want("another intent", got, http.StatusBadRequest, "unknown_intent")
	for _, intent := range []string{"network.ping", "booking.search", "venue.list", "booking.confirm"} {
		if !strings.Contains(got.body, intent) {
			t.Errorf("the refusal does not name %s: %s", intent, got.body)
		}
	}
	n.want("another network", post(`{"from":"a","intent":"network.ping","to":"network:nowhere"}`), http.StatusNotFound, "unknown_destination")
	n.want("a venue of nobody", post(`{"from":"a","intent":"network.ping","to":"venue:nobody"}`), http.StatusNotFound, "unknown_destination")
	bound := n.Key(n.acme, billing.KeyOptions{Tier: billing.Free, AgentIDs: []string{"nemoclaw"}})
	for from, ok := range map[string]bool{"nemoclaw": true, "nemoclaw:hello": true, "nemoclaws": false, "other": false} {
		got := n.do("POST", agp.Path, bound, fmt.Sprintf(`{"from":%q,"intent":"network.ping"}`, from))
		if ok != (got.status == http.StatusOK) || !ok && got.code() != "sender_mismatch" {
			t.Errorf("from %s = %d %s, want that it may: %t", from, got.status, got.code(), ok)
		}
	}
}

func TestPingTellsTheNumberOfVenues(t *testing.T) {
	n := open(t, false)
	ping := func() answer { return n.send(n.free, "network.ping", "") }
	status := func() answer {
		n.Clock.Advance(6 * time.Second)
		return n.do("GET", agp.StatusPath, "", "")
	}
	got := ping()
	if want := map[string]any{"status": "connected", "venues": 0.0, "tier": "free", "agent_id": "nemoclaw", "network_version": "1.0"}; !reflect.DeepEqual(got.json, want) {
		t.Errorf("ping = %v, want %v", got.json, want)
	}
	r := n.venue("one", "echo", nil)
	for what, s := range map[string]answer{"ping": ping(), "status": status()} {
		if s.text("venues") != "1" {
			t.Errorf("%s with a venue = %s", what, s.body)
		}
	}
	_, _, err := n.Server.Vacants.Unpublish(t.Context(), r.ID)
	n.Must(err)
	for what, s := range map[string]answer{"ping": ping(), "status": status()} {
		if s.text("venues") != "0" {
			t.Errorf("%s after it is unpublished = %s", what, s.body)
		}
	}
}

func TestSearchFindsByTextAndPlaceAndIsRemembered(t *testing.T) {
	n := open(t, false)
	warung := n.venue("warung", "echo", func(v *listing.Venue) {
		v.Name, v.Category, v.Location, v.Areas, v.Capacity = "Warung Sunset", "restaurant", "echo-beach", []string{"canggu"}, 4
	})
	search := func(payload string) answer { return n.send(n.free, "booking.search", payload) }
	count := func(a answer) int { return len(a.json["venues"].([]any)) }
	const seed = `{"query":"sunset dinner","location":"canggu","limit":5}`
	first := search(seed)
	if count(first) != 1 || first.header.Get("X-Cache") != "MISS" || first.json["fee_pct"] != 7.0 || first.text("query") != "sunset dinner" {
		t.Fatalf("search = %v %s", first.header, first.body)
	}
	v := first.json["venues"].([]any)[0].(map[string]any)
	for name, want := range map[string]any{
		"id": warung.ID.String(), "name": "Warung Sunset", "slug": "warung", "category": "restaurant", "location": "echo-beach",
		"agent_id": "venue:warung", "is_live": true, "referral_fee_pct": 0.07, "vacant_id": warung.ID.String(),
	} {
		if v[name] != want {
			t.Errorf("%s = %v, want %v", name, v[name], want)
		}
	}
	if want := n.Clock.NowFunc(0)().Add(300 * time.Second).Format(time.RFC3339); first.text("expires_at") != want {
		t.Errorf("expires_at = %s, want %s", first.text("expires_at"), want)
	}
	for payload, want := range map[string]int{
		`{"query":"sunset dinner"}`: 1, `{"query":"sunset dinner","location":"ubud"}`: 0, `{}`: 1, `{"query":"sunset","category":"Restaurant"}`: 1,
		`{"category":"agent"}`: 0, `{"party_size":4}`: 1, `{"party_size":5}`: 0, `{"query":"warung"}`: 1, `{"max_price_usd":0}`: 1, `{"capability":"serves"}`: 1,
	} {
		if got := search(payload); got.status != http.StatusOK || count(got) != want {
			t.Errorf("search %s = %d %s, want %d venues", payload, got.status, got.body, want)
		}
	}
	for _, payload := range []string{
		`{"limit":0}`, `{"limit":-1}`, `{"limit":"many"}`, `{"query":1}`, `{"max_price_usd":-1}`, `{"max_price_usd":"NaN"}`, `{"max_price_usd":1e3}`, `{"party_size":0}`,
		`{"date":"tomorrow"}`, `{"date":"2026-11-24","timezone":"Mars/Base"}`, `{"query":"` + strings.Repeat("a", 300) + `"}`,
	} {
		n.want("search "+payload, search(payload), http.StatusUnprocessableEntity, "invalid_request")
	}
	// What comes later is not found for five minutes; what goes is gone at once.
	n.venue("second", "echo", func(v *listing.Venue) { v.Location = "canggu" })
	again := search(seed)
	if count(again) != 1 || again.header.Get("X-Cache") != "HIT" || again.text("expires_at") != first.text("expires_at") {
		t.Errorf("the same search = %v %s", again.header, again.body)
	}
	_, _, err := n.Server.Vacants.Unpublish(t.Context(), warung.ID)
	n.Must(err)
	if got := search(seed); count(got) != 0 || got.header.Get("X-Cache") != "HIT" {
		t.Errorf("after it is unpublished = %s", got.body)
	}
	n.Clock.Advance(5 * time.Minute)
	if got := search(seed); count(got) != 1 || got.header.Get("X-Cache") != "MISS" {
		t.Errorf("after five minutes = %v %s", got.header, got.body)
	}
}

func TestSearchAndListAreLimitedAndFree(t *testing.T) {
	n := open(t, false)
	for i := range 120 {
		n.venue(fmt.Sprintf("v%d", i), "echo", func(v *listing.Venue) {
			if i < 6 {
				v.Category, v.Location = "Restaurant", "canggu"
			}
		})
	}
	venues := func(a answer) []any { all, _ := a.json["venues"].([]any); return all }
	if got := venues(n.send(n.ent, "booking.search", `{"location":"canggu","limit":5}`)); len(got) != 5 {
		t.Errorf("search with limit 5 = %d venues", len(got))
	}
	if got := venues(n.send(n.ent, "booking.search", `{"limit":500}`)); len(got) != 50 {
		t.Errorf("search with limit 500 = %d venues, want 50", len(got))
	}
	first := n.send(n.ent, "venue.list", `{"limit":500}`)
	if len(venues(first)) != 100 || first.json["count"] != 100.0 || first.json["total"] != 120.0 || first.json["next_cursor"] == nil {
		t.Fatalf("list = %d venues, %v of %v, next %v", len(venues(first)), first.json["count"], first.json["total"], first.json["next_cursor"])
	}
	seen := map[any]bool{}
	second := n.send(n.ent, "venue.list", fmt.Sprintf(`{"cursor":%q}`, first.text("next_cursor")))
	for _, v := range append(venues(first), venues(second)...) {
		seen[v.(map[string]any)["slug"]] = true
	}
	if len(seen) != 120 || second.json["next_cursor"] != nil {
		t.Errorf("both pages have %d venues, next %v, want 120 and none", len(seen), second.json["next_cursor"])
	}
	for payload, want := range map[string]int{
		`{"category":"restaurant"}`: 6, `{"category":"restaurant","location":"canggu"}`: 6, `{"category":"agent","location":"canggu"}`: 0, `{"category":"zoo"}`: 0,
	} {
		if got := n.send(n.ent, "venue.list", payload); got.status != http.StatusOK || len(venues(got)) != want || got.json["total"] != float64(want) {
			t.Errorf("list %s = %d %v, want %d", payload, got.status, got.json["total"], want)
		}
	}
	n.want("a cursor of nobody", n.send(n.ent, "venue.list", `{"cursor":"xyz"}`), http.StatusUnprocessableEntity, "invalid_request")
	n.want("a ping", n.send(n.ent, "network.ping", ""), http.StatusOK, "")
	if n.balance() != 100*money.Dollar || len(n.events(n.ent)) != 0 {
		t.Errorf("searches, lists and pings leave %s, events %v", n.balance(), n.events(n.ent))
	}
}

func TestOnlyProAndEnterpriseBook(t *testing.T) {
	n := open(t, true)
	n.venue("warung", substrate.KindMock, nil)
	before := n.balance()
	// Not even what is wrong with the payload is told.
	for _, payload := range []string{`{"venue_slug":"warung"}`, `{}`, `{"party_size":"x"}`} {
		n.want("free "+payload, n.send(n.free, "booking.confirm", payload), http.StatusForbidden, "tier_required")
	}
	if n.balance() != before || len(n.events(n.pro)) != 0 {
		t.Errorf("the refusals cost %s, events %v", before-n.balance(), n.events(n.pro))
	}
	n.confirmed(n.pro, `{"venue_slug":"warung"}`)
	n.confirmed(n.ent, `{"venue_slug":"warung"}`)
}

func TestABookingAndItsEventAreThere(t *testing.T) {
	n := open(t, true)
	n.venue("warung", substrate.KindMock, nil)
	before := n.balance()
	id, a := n.confirmed(n.pro, `{"venue_agent_id":"agnt_venue_warung","party_size":2,"starts_at":"2026-12-24T19:00:00+08:00","guest":{"name":"A. Guest"},"notes":"by the window"}`)
	metered := a.json["metered"].(map[string]any)
	if a.text("status") != "confirmed" || a.text("envelope_status") != "accepted" || a.text("price_usd") != "0.25" || a.json["fee_pct"] != 7.0 ||
		metered["amount_usd"] != "0.25" || metered["intent"] != "booking.confirm" || metered["quantity"] != 1.0 || a.text("status_url") != "http://127.0.0.1:1/v1/bookings/"+id {
		t.Errorf("confirm = %s", a.body)
	}
	b := n.do("GET", "/v1/bookings/"+id, n.pro, "")
	if b.status != http.StatusOK || b.text("starts_at") != "2026-12-24T11:00:00Z" || b.text("notes") != "by the window" || len(b.json["history"].([]any)) != 3 {
		t.Errorf("the booking = %d %s", b.status, b.body)
	}
	_, other := n.account("other", money.Dollar, billing.KeyOptions{Tier: billing.Pro})
	sibling := n.Key(n.acme, billing.KeyOptions{Tier: billing.Pro})
	manager := n.Key(n.acme, managing)
	for key, want := range map[string]int{other: 404, sibling: 404, manager: 200, n.test: 404} {
		if got := n.do("GET", "/v1/bookings/"+id, key, ""); got.status != want {
			t.Errorf("GET by another key = %d, want %d", got.status, want)
		}
	}
	for range 3 {
		n.confirmed(n.pro, `{"venue_slug":"warung"}`)
	}
	if got := n.events(n.pro); fmt.Sprint(got) != "[25 25 25 25]" || before-n.balance() != money.Dollar {
		t.Errorf("four bookings are events %v and %s", got, before-n.balance())
	}
	if got := n.do("GET", "/v1/bookings", n.pro, ""); len(got.json["bookings"].([]any)) != 4 {
		t.Errorf("bookings of the key = %s", got.body)
	}
}

// TestBothOrNeitherWithFaults confirms 50 times at once while the store fails in all its
// ways: each booking has its event and its money, whatever its answer was.
func TestBothOrNeitherWithFaults(t *testing.T) {
	var mu sync.Mutex
	faulty, dice := false, rand.New(rand.NewPCG(1, 2))
	fates := append([]storetest.Fault{storetest.NoFault, storetest.NoFault, storetest.NoFault}, storetest.FaultsOf("Commit")...)
	lossy := &storetest.Lossy{Store: memory.New(), ChooseFault: func(op string, _ []store.Write) storetest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if !faulty || op != "Commit" {
			return storetest.NoFault
		}
		return fates[dice.IntN(len(fates))]
	}}
	n := open(t, false, func(c *serve.Config) { c.Store = lossy })
	n.venue("warung", substrate.KindMock, nil)
	before := n.balance()
	faulty = true
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			n.Clock.Advance(time.Second)
			n.send(n.ent, "booking.confirm", fmt.Sprintf(`{"venue_slug":"warung","idempotency_key":"k%d"}`, i), "Prefer: respond-async")
		})
	}
	all.Wait()
	mu.Lock()
	faulty = false
	mu.Unlock()
	lossy.ApplyPending(t.Context())
	page, _, err := n.AGP.Bookings.ListAccountBookings(t.Context(), n.acme.ID, "", 1000)
	n.Must(err)
	events := n.events(n.ent)
	if spent := before - n.balance(); len(page) != len(events) || spent != money.Amount(len(page))*money.Dollar/4 || len(page) == 0 {
		t.Errorf("%d bookings, %d events, %s spent", len(page), len(events), spent)
	}
	metered, ok := n.metric(`a2a_metered_events_total{intent="booking.confirm",tier="enterprise"}`), n.metric(`a2a_requests_total{intent="booking.confirm",tier="enterprise",status="ok"}`)
	if metered != ok || metered != strconv.Itoa(len(page)) {
		t.Errorf("%s metered, %s confirmed, %d bookings", metered, ok, len(page))
	}
}

func TestTheContextIsEchoedAndTheAnswerWrapped(t *testing.T) {
	n := open(t, false)
	body := `{"from":"a","intent":"network.ping","agent_context":{"b":[1,2],"a":"x y"}}`
	if got := n.do("POST", agp.Path, n.free, body); !strings.Contains(got.body, `"agent_context":{"b":[1,2],"a":"x y"}}`) || got.text("status") != "connected" {
		t.Errorf("with a context = %s", got.body)
	}
	if got := n.send(n.free, "network.ping", ""); strings.Contains(got.body, "agent_context") {
		t.Errorf("without = %s", got.body)
	}
	got := n.do("POST", agp.Path, n.free, body, "Accept: application/vnd.agp.envelope+json")
	if got.text("from") != "network:agnt" || got.text("to") != "a" || got.json["payload"].(map[string]any)["status"] != "connected" {
		t.Errorf("wrapped = %s", got.body)
	}
}

func TestTheTTLIsAHint(t *testing.T) {
	n := open(t, false) // nobody dispatches
	n.venue("warung", substrate.KindMock, nil)
	got := n.do("POST", agp.Path, n.pro, `{"from":"a","intent":"booking.confirm","ttl_ms":1,"payload":{"venue_slug":"warung"}}`)
	if got.status != http.StatusOK || got.text("status") != "pending" {
		t.Errorf("ttl_ms 1 = %d %s", got.status, got.body)
	}
}

func TestADestinationIsTheVenue(t *testing.T) {
	n := open(t, true)
	r := n.venue("warung", substrate.KindMock, nil)
	for _, to := range []string{"venue:warung", r.ID.String(), "agnt_venue_warung"} {
		got := n.do("POST", agp.Path, n.pro, fmt.Sprintf(`{"from":"a","to":%q,"intent":"booking.confirm"}`, to))
		if got.status != http.StatusOK || got.json["venue"].(map[string]any)["slug"] != "warung" {
			t.Errorf("to %s = %d %s", to, got.status, got.body)
		}
	}
	short := listing.DefaultSlug(n.unnamed().ID.Short())
	got := n.do("POST", agp.Path, n.pro, fmt.Sprintf(`{"from":"a","to":"venue:%s","intent":"booking.confirm"}`, short))
	n.want("a venue without a slug of its own", got, http.StatusOK, "")
	n.want("a venue of nobody", n.send(n.pro, "booking.confirm", `{"venue_slug":"nobody"}`), http.StatusNotFound, "venue_not_found")
	n.want("another network", n.do("POST", agp.Path, n.pro, `{"from":"a","to":"network:nowhere","intent":"booking.confirm"}`), http.StatusNotFound, "unknown_destination")
}

// unnamed is a published vacant whose listing has no venue.
func (n *network) unnamed() vacants.Record {
	n.Helper()
	r, err := n.Server.Vacants.Create(n.Context(), vacants.CreateSpec{Name: "plain", Capability: "plain", Substrate: "echo"})
	n.Must(err)
	_, _, err = n.Server.Vacants.Publish(n.Context(), r.ID, vacants.PublishOptions{})
	n.Must(err)
	return r
}

func TestRefusedBookingsLeaveNothing(t *testing.T) {
	kept := &recorder{}
	n := open(t, true, func(c *serve.Config) {
		kept.Store = c.Store
		c.Store = kept
	})
	n.recorder = kept
	n.venue("warung", substrate.KindMock, func(v *listing.Venue) { v.Capacity = 3 })
	n.venue("shut", substrate.KindMock, func(v *listing.Venue) { v.Bookable = false })
	hidden := n.venue("hidden", substrate.KindMock, nil)
	_, err := n.Server.Vacants.Pause(n.Context(), hidden.ID)
	n.Must(err)
	poor, poorKey := n.account("poor", 0, billing.KeyOptions{Tier: billing.Pro})
	capped := n.Key(n.acme, billing.KeyOptions{Tier: billing.Pro, DailyCap: money.Dollar / 5})
	const at = `"starts_at":"2026-12-24T19:00:00Z"`
	n.confirmed(n.pro, `{"venue_slug":"warung","party_size":2,`+at+`}`)
	before := n.balance()
	for _, c := range []struct {
		key, payload string
		status       int
		code         string
	}{
		{n.pro, `{}`, 422, "invalid_request"},
		{n.pro, `{"venue_slug":"warung","party_size":0}`, 422, "invalid_request"},
		{n.pro, `{"venue_slug":"warung","starts_at":"soon"}`, 422, "invalid_request"},
		{n.pro, `{"venue_slug":"warung","starts_at":"2026-11-24T11:00:00Z"}`, 422, "schema"},
		{n.pro, `{"venue_slug":"warung","starts_at":"2027-11-27T11:00:00Z"}`, 422, "schema"},
		{n.pro, `{"venue_slug":"warung","guest":"G"}`, 422, "invalid_request"},
		{n.pro, `{"venue_slug":"warung","notes":"` + strings.Repeat("n", 2001) + `"}`, 422, "invalid_request"},
		{n.pro, `{"venue_slug":"warung","max_price_usd":"0.24"}`, 402, "price_above_max"},
		{n.pro, `{"venue_slug":"nobody"}`, 404, "venue_not_found"},
		{n.pro, `{"venue_slug":"shut"}`, 409, "venue_not_bookable"},
		{n.pro, `{"venue_slug":"hidden"}`, 409, "venue_not_bookable"},
		{n.pro, `{"venue_slug":"warung","party_size":4}`, 409, "slot_taken"},
		{n.pro, `{"venue_slug":"warung","party_size":2,` + at + `}`, 409, "slot_taken"},
		{capped, `{"venue_slug":"warung"}`, 402, "spend_cap_reached"},
		{poorKey, `{"venue_slug":"warung"}`, 402, "payment_required"},
	} {
		n.want(c.payload, n.send(c.key, "booking.confirm", c.payload), c.status, c.code)
	}
	n.wantDetails(1)
	_, err = n.Server.Billing.SetSuspended(t.Context(), poor.ID, true, "")
	n.Must(err)
	n.want("a suspended account", n.send(poorKey, "booking.confirm", `{"venue_slug":"warung"}`), 403, "account_suspended")
	if n.balance() != before || len(n.events(n.pro)) != 1 {
		t.Errorf("they cost %s, events %v", before-n.balance(), n.events(n.pro))
	}
	n.confirmed(n.pro, `{"venue_slug":"warung","party_size":1,"max_price_usd":"0.25",`+at+`}`)
}

// wantDetails checks that no refused booking has left who its guest is.
func (n *network) wantDetails(want int) {
	n.Helper()
	docs := 0
	n.Must(n.Store.Walk(n.Context(), func(v store.View) error {
		names, _, err := v.Streams(n.Context(), "bkg#", store.MaxPage, "")
		docs = len(names)
		return err
	}))
	if docs != want {
		n.Errorf("%d bookings are there, want %d", docs, want)
	}
	left := 0
	for _, k := range n.recorder.details() {
		d, err := n.Store.Doc(n.Context(), k)
		n.Must(err)
		if d.Version > 0 {
			left++
		}
	}
	if made := len(n.recorder.details()); left != want || made <= want {
		n.Errorf("of %d details %d are kept, want %d", made, left, want)
	}
}

// recorder remembers the keys of details.
type recorder struct {
	store.Store
	mu   sync.Mutex
	keys []store.Key
}

func (r *recorder) Commit(ctx context.Context, writes ...store.Write) error {
	for _, w := range writes {
		if p, ok := w.(store.Put); ok && p.Key.Sort == "details" && p.IfVersion == 0 {
			r.mu.Lock()
			r.keys = append(r.keys, p.Key)
			r.mu.Unlock()
		}
	}
	return r.Store.Commit(ctx, writes...)
}

func (r *recorder) details() []store.Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.keys)
}

func (n *network) move(id string, to booking.State) answer {
	return n.as("POST", "/v1/admin/bookings/"+id+"/transition", fmt.Sprintf(`{"to":%q}`, to))
}

// A refusal names both states. Package host/booking tests every pair of them.
func TestAnIllegalStepIsRefused(t *testing.T) {
	n := open(t, false)
	n.venue("warung", substrate.KindMock, nil)
	id, _ := n.confirmed(n.ent, `{"venue_slug":"warung"}`, "Prefer: respond-async")
	for _, to := range []booking.State{booking.Dispatched, booking.Accepted, booking.Completed} {
		before, rows := n.state(id)
		got := n.move(id, booking.Pending)
		n.want("an illegal step from "+before, got, http.StatusConflict, "illegal_transition")
		if e := got.json["error"].(map[string]any); e["from"] != before || e["to"] != "pending" {
			t.Errorf("the refusal from %s: %s", before, got.body)
		}
		if after, now := n.state(id); after != before || now != rows {
			t.Errorf("the refusal changed %s, %d rows to %s, %d", before, rows, after, now)
		}
		n.want(fmt.Sprint(before, " to ", to), n.move(id, to), http.StatusOK, "")
	}
	if got := n.do("POST", "/v1/bookings/"+id+"/cancel", n.ent, "{}"); got.status != http.StatusConflict {
		t.Errorf("cancel of a completed one = %d %s", got.status, got.body)
	}
	n.want("a state of nobody", n.move(id, "cancelled"), http.StatusUnprocessableEntity, "schema")
	n.want("another member", n.as("POST", "/v1/admin/bookings/"+id+"/transition", `{"state":"completed"}`), http.StatusBadRequest, "malformed")
	n.want("a booking of nobody", n.move(strings.Repeat("0", 64), "completed"), http.StatusNotFound, "not_found")
}

// Operators see the bookings of all accounts without naming a venue, page by page.
func TestOperatorsListTheBookingsOfTheWholeHost(t *testing.T) {
	n := open(t, false)
	n.venue("warung", substrate.KindMock, nil)
	n.venue("second", substrate.KindMock, nil)
	var want []string
	book := func(key, venue string, times int) {
		for range times {
			id, _ := n.confirmed(key, `{"venue_slug":"`+venue+`"}`, "Prefer: respond-async")
			want = append(want, id)
		}
	}
	_, _ = n.account("empty", money.Dollar, billing.KeyOptions{Tier: billing.Pro})
	_, other := n.account("other", 100*money.Dollar, billing.KeyOptions{Tier: billing.Enterprise})
	book(n.ent, "warung", 102) // more than a page
	book(other, "second", 2)
	var got []string
	for cursor, more := "", true; more; more = cursor != "" {
		page := n.as("GET", "/v1/admin/bookings?cursor="+cursor, "")
		n.want("list", page, http.StatusOK, "")
		all := page.json["bookings"].([]any)
		if len(all) > 100 {
			t.Errorf("a page of %d bookings, want at most 100", len(all))
		}
		for _, one := range all {
			got = append(got, one.(map[string]any)["booking_id"].(string))
		}
		cursor, _ = page.json["next"].(string)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bookings of the host (-want +got):\n%s", diff)
	}
}
