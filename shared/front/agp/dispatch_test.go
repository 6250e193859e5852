package agp_test

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/agp"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/booking"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/certificate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
)

// eventually waits until a booking is in a state.
func (n *network) eventually(id, want string) {
	n.Helper()
	await.Until(n, "the booking is "+want, func() bool {
		got, _ := n.state(id)
		return got == want
	})
}

func TestAFailedDispatchIsTriedAgain(t *testing.T) {
	n := open(t, true)
	n.venue("warung", substrate.KindMock, nil)
	n.said = func(string) (string, error) { return "", errDown }
	id, a := n.confirmed(n.pro, `{"venue_slug":"warung"}`)
	if a.text("envelope_status") != "dispatch_failed" || a.text("status") != "pending" {
		t.Fatalf("confirm of a venue that is down = %s", a.body)
	}
	n.sweep() // too early
	n.eventually(id, "dispatch_failed")
	n.said = func(string) (string, error) { return "come", nil }
	n.sweep()
	n.sweep()
	n.eventually(id, "completed")
	b := n.do("GET", "/v1/bookings/"+id, n.pro, "")
	var to []string
	for _, row := range b.json["history"].([]any) {
		to = append(to, fmt.Sprint(row.(map[string]any)["to"]))
	}
	if got := strings.Join(to, " "); got != "pending dispatched dispatch_failed dispatched accepted completed" || b.text("result") != "come" {
		t.Errorf("history = %s, result %s", got, b.text("result"))
	}
}

// A booking waits for a worker of the venue's tenant, and is paid once.
func TestABookingIsAnsweredByAWorker(t *testing.T) {
	n := open(t, true)
	n.venue("warung", substrate.KindWorker, nil)
	owner, work := n.account("owner", 0, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeWork}})
	strange := n.Key(n.acme, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeWork}})
	before := n.balance()
	booked := make(chan string, 1)
	go func() {
		id, _ := n.confirmed(n.pro, `{"venue_slug":"warung"}`)
		booked <- id
	}()
	await.Until(t, "the turn comes", func() bool {
		if a := n.Do("POST", "/v1/work/lease", strange, `{}`); a.JSON["turn"] != nil {
			t.Errorf("the guest's tenant leases %s", a.Body)
		}
		turn, _ := n.Do("POST", "/v1/work/lease", work, `{}`).JSON["turn"].(map[string]any)
		if turn == nil {
			return false
		}
		if message := fmt.Sprint(turn["question"].(map[string]any)["message"]); !strings.Contains(message, `"booking.confirm"`) {
			t.Errorf("the turn of %s has the message %s", owner.Tenant, message)
		}
		n.Do("POST", "/v1/work/"+turn["lease"].(string)+"/result", work, `{"text":"{\"decision\":\"accept\"}"}`)
		return true
	})
	n.eventually(await.Receive(t, "the booking", booked), "accepted")
	if got := n.events(n.pro); fmt.Sprint(got) != "[25]" || before-n.balance() != money.Dollar/4 {
		t.Errorf("events %v, %s spent", got, before-n.balance())
	}
}

func TestAnUnreachableVenueIsGivenUpAndGivenBack(t *testing.T) {
	n := open(t, true)
	n.venue("warung", substrate.KindMock, nil)
	n.said = func(string) (string, error) { return "", errDown }
	before := n.balance()
	id, _ := n.confirmed(n.pro, `{"venue_slug":"warung"}`)
	for range 45 {
		n.sweep()
	}
	b := n.do("GET", "/v1/bookings/"+id, n.pro, "")
	if b.text("envelope_status") != "rejected" || b.text("cancel_reason") != "unreachable" || b.text("status") != "cancelled" || b.text("credited_usd") != "0.25" {
		t.Errorf("after the last retry = %s", b.body)
	}
	if got := n.events(n.pro); fmt.Sprint(got) != "[25 -25]" || n.balance() != before {
		t.Errorf("events %v, %s spent", got, before-n.balance())
	}
	if n.asked.Load() != 4 {
		t.Errorf("the venue was asked %d times, want 4", n.asked.Load())
	}
	for range 3 {
		n.sweep()
	}
	if n.balance() != before {
		t.Errorf("a second sweep gives back again: %s", n.balance()-before)
	}
}

func TestNoVenueIsAskedAfterTheStart(t *testing.T) {
	n := open(t, true)
	n.venue("warung", substrate.KindMock, nil)
	n.said = func(string) (string, error) { return "", errDown }
	before := n.balance()
	id, _ := n.confirmed(n.pro, `{"venue_slug":"warung","starts_at":"2026-11-24T12:03:00Z"}`)
	for range 10 {
		n.sweep()
	}
	n.eventually(id, "rejected")
	if n.asked.Load() != 2 || n.balance() != before {
		t.Errorf("the venue was asked %d times, %s spent", n.asked.Load(), before-n.balance())
	}
}

func TestAnAcceptedBookingIsCompletedADayAfterItsStart(t *testing.T) {
	n := open(t, true)
	n.venue("warung", substrate.KindMock, nil)
	id, _ := n.confirmed(n.pro, `{"venue_slug":"warung","starts_at":"2026-11-25T12:00:00Z"}`)
	n.Clock.Advance(47 * time.Hour)
	n.sweep()
	n.eventually(id, "accepted")
	n.Clock.Advance(2 * time.Hour)
	n.sweep()
	n.eventually(id, "completed")
}

func TestAVenueDecidesLater(t *testing.T) {
	n := open(t, true)
	venue := n.venue("warung", substrate.KindMock, nil)
	n.said = func(string) (string, error) { return `{"decision":"later"}`, nil }
	id, a := n.confirmed(n.pro, `{"venue_slug":"warung"}`, "Prefer: respond-async")
	if a.text("status") != "pending" {
		t.Fatalf("confirm = %s", a.body)
	}
	n.eventually(id, "dispatched")
	// The clock moves on once the venue has answered, because its call would run out of time.
	await.Until(n, "the venue has answered", func() bool {
		_, decisions := n.calls()
		return len(decisions) == 1
	})
	for range 5 {
		n.sweep()
	}
	n.eventually(id, "dispatched")
	path := "/v1/bookings/" + id + "/transition"
	_, owner := n.account("owner", 0, managing)
	reader := n.Key(n.acme, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeRead}})
	ofOwner := func(o billing.KeyOptions) string {
		a, err := n.Server.Billing.FindAccount(t.Context(), "owner")
		n.Must(err)
		return n.Key(a, o)
	}
	all := []billing.Scope{billing.ScopeAGP, billing.ScopeRead, billing.ScopeCall, billing.ScopeManage}
	for what, c := range map[string]struct {
		key, to string
		status  int
	}{
		"the guest": {n.pro, "accepted", 404}, "a reader": {reader, "accepted", 404}, "a state of the host's": {owner, "dispatch_failed", 403},
		"a key of the owner's that does not manage": {ofOwner(billing.KeyOptions{Tier: billing.Pro, Scopes: all[:3]}), "accepted", 404},
		"a test key of the owner's":                 {ofOwner(billing.KeyOptions{Tier: billing.Pro, Scopes: all, Test: true}), "accepted", 404},
	} {
		if got := n.do("POST", path, c.key, fmt.Sprintf(`{"to":%q}`, c.to)); got.status != c.status {
			t.Errorf("%s: %s = %d %s, want %d", what, c.to, got.status, got.body, c.status)
		}
	}
	// The venue itself, by its signature.
	body := `{"to":"accepted","event_id":"e1"}`
	signed := func(body string) string {
		var header string
		n.Must(n.Server.Vacants.WithSigner(t.Context(), venue.ID, func(s identity.Signer) error {
			p, err := readproof.Sign(t.Context(), s, readproof.Request{Authority: "127.0.0.1:1", Method: "POST", Target: path, Body: []byte(body)}, n.Clock.NowFunc(0)())
			header = p
			return err
		}))
		return readproof.Header + ": " + header
	}
	for range 2 { // the same event once
		if got := n.do("POST", path, "", body, signed(body)); got.status != http.StatusOK || got.text("status") != "confirmed" || len(got.json["history"].([]any)) != 3 {
			t.Errorf("the venue accepts = %d %s", got.status, got.body)
		}
	}
	if got := n.do("POST", path, owner, `{"to":"no_show"}`); got.status != http.StatusOK || got.text("status") != "no_show" {
		t.Errorf("the owner says no_show = %d %s", got.status, got.body)
	}
	if got := n.do("GET", "/v1/bookings?venue=warung", owner, ""); len(got.json["bookings"].([]any)) != 1 {
		t.Errorf("the owner sees %s", got.body)
	}
	n.want("a guest asks for the venue's", n.do("GET", "/v1/bookings?venue=warung", n.pro, ""), http.StatusNotFound, "not_found")
}

// If a venue that decides later has not decided at the start, the booking fails and its money is released.
func TestAVenueDecidesLaterUntilTheStart(t *testing.T) {
	n := open(t, true)
	n.venue("warung", substrate.KindMock, nil)
	n.said = func(string) (string, error) { return `{"decision":"later"}`, nil }
	before := n.balance()
	id, _ := n.confirmed(n.pro, `{"venue_slug":"warung","starts_at":"2026-11-24T13:00:00Z"}`)
	n.eventually(id, "dispatched")
	n.Clock.Advance(50 * time.Minute)
	n.sweep()
	n.eventually(id, "dispatched")
	n.Clock.Advance(10 * time.Minute)
	for range 3 {
		n.sweep()
	}
	if got := n.do("GET", "/v1/bookings/"+id, n.pro, ""); got.text("envelope_status") != "rejected" || got.text("cancel_reason") != "unreachable" || n.balance() != before {
		t.Errorf("after the start: %s, %s spent", got.body, before-n.balance())
	}
}

// Once another attempt is sent, the answer to an earlier one decides nothing.
func TestTheAnswerToAnEarlierAttemptIsDropped(t *testing.T) {
	n := open(t, false)
	n.venue("warung", substrate.KindMock, nil)
	asked, release := make(chan bool), make(chan bool)
	n.said = func(string) (string, error) {
		if n.asked.Load() == 1 {
			asked <- true
			<-release
			return `{"decision":"accept"}`, nil
		}
		return `{"decision":"reject","reason":"full"}`, nil
	}
	id, _ := n.confirmed(n.pro, `{"venue_slug":"warung"}`, "Prefer: respond-async")
	n.Clock.Advance(2 * time.Minute)
	swept := make(chan error)
	go func() { _, err := n.AGP.Bookings.Sweep(n.Context()); swept <- err }()
	<-asked
	n.move(id, "dispatch_failed")
	n.move(id, "dispatched")
	release <- true
	n.Must(<-swept)
	if got, _ := n.state(id); got != "dispatched" {
		t.Errorf("after the answer to the first attempt the booking is %s, want dispatched", got)
	}
	for range 5 {
		n.sweep()
	}
	if b := n.do("GET", "/v1/bookings/"+id, n.pro, ""); b.text("envelope_status") != "rejected" || b.text("cancel_reason") != "full" || n.asked.Load() != 2 {
		t.Errorf("after the answer to the second attempt: %s, asked %d times", b.body, n.asked.Load())
	}
}

// Package host/booking tests the money and the slot of a booking that is cancelled in each state.
func TestCancel(t *testing.T) {
	n := open(t, false)
	n.venue("warung", substrate.KindMock, nil)
	cancel := func(key, id string) answer { return n.do("POST", "/v1/bookings/"+id+"/cancel", key, "{}") }
	id, _ := n.confirmed(n.pro, `{"venue_slug":"warung"}`, "Prefer: respond-async")
	n.want("cancel by another key", cancel(n.Key(n.acme, billing.KeyOptions{Tier: billing.Pro}), id), http.StatusNotFound, "not_found")
	for range 2 {
		if got := cancel(n.pro, id); got.status != http.StatusOK || got.text("status") != "cancelled" || got.text("envelope_status") != "expired" {
			t.Errorf("cancel = %d %s", got.status, got.body)
		}
	}
	if fmt.Sprint(n.events(n.pro)) != "[25 -25]" {
		t.Errorf("events %v", n.events(n.pro))
	}
	// Once the venue has accepted the booking, its envelope keeps its status.
	id, _ = n.confirmed(n.pro, `{"venue_slug":"warung"}`, "Prefer: respond-async")
	n.move(id, "dispatched")
	n.move(id, "accepted")
	if got := cancel(n.pro, id); got.text("status") != "cancelled" || got.text("envelope_status") != "accepted" {
		t.Errorf("cancel of an accepted one = %s", got.body)
	}
}

// A venue that may take longer than a dispatch waits is not asked, and the guest is told why.
func TestADispatchCountsTheTimeOfASlowVenue(t *testing.T) {
	n := open(t, true)
	n.said = func(string) (string, error) { return "come", nil }
	for work, want := range map[time.Duration]string{5 * time.Minute: "dispatch_failed too_slow", time.Minute: "completed "} {
		name := "takes-" + work.String()
		r := n.venue(name, substrate.KindMock, nil)
		_, err := n.Server.Vacants.Update(t.Context(), r.ID, vacants.Changes{CallTimeout: &work})
		n.Must(err)
		n.Clock.Advance(2 * time.Second) // records are cached for a second
		id, _ := n.confirmed(n.pro, `{"venue_slug":"`+name+`"}`)
		b := n.do("GET", "/v1/bookings/"+id, n.pro, "")
		last := b.json["history"].([]any)
		row := last[len(last)-1].(map[string]any)
		reason, _ := row["reason"].(string)
		if got := fmt.Sprint(row["to"], " ", reason); got != want {
			t.Errorf("work %s: %s, want %s", work, got, want)
		}
	}
	if asked := n.asked.Load(); asked != 1 {
		t.Errorf("%d venues were asked, want 1", asked)
	}
}

func TestTheBreakerStopsDispatchesToOneVenue(t *testing.T) {
	n := open(t, true)
	n.venue("down", substrate.KindMock, nil)
	n.venue("up", "echo", nil)
	n.said = func(string) (string, error) { return "", errDown }
	for range 5 {
		if _, a := n.confirmed(n.pro, `{"venue_slug":"down"}`); a.text("envelope_status") != "dispatch_failed" {
			t.Fatalf("confirm = %s", a.body)
		}
	}
	id, a := n.confirmed(n.pro, `{"venue_slug":"down"}`, "Prefer: respond-async")
	time.Sleep(100 * time.Millisecond) // the worker has looked
	if got, _ := n.state(id); got != "pending" || n.asked.Load() != 5 {
		t.Errorf("the sixth is %s, the venue was asked %d times; %s", got, n.asked.Load(), a.body)
	}
	if _, a := n.confirmed(n.pro, `{"venue_slug":"up"}`); a.text("status") != "completed" {
		t.Errorf("another venue = %s", a.body)
	}
	if got := n.send(n.pro, "booking.search", `{"query":"down"}`); got.json["venues"].([]any)[0].(map[string]any)["is_live"] != false {
		t.Errorf("the venue is live: %s", got.body)
	}
	n.said = func(string) (string, error) { return `{"decision":"accept"}`, nil }
	for range 14 {
		n.sweep()
	}
	n.eventually(id, "accepted")
}

func TestLastUseIsShown(t *testing.T) {
	n := open(t, false)
	n.send(n.pro, "network.ping", "")
	keys, err := n.Server.Billing.Keys(t.Context(), n.acme.ID)
	n.Must(err)
	used := 0
	for _, k := range keys {
		if !k.LastUsed.IsZero() {
			used++
			if d := n.Clock.NowFunc(0)().Sub(k.LastUsed); d < 0 || d > time.Minute || k.Tier != billing.Pro {
				t.Errorf("key of tier %s last used %s ago", k.Tier, d)
			}
		}
	}
	if used != 1 {
		t.Errorf("%d keys were used, want 1", used)
	}
}

func TestRequestsAreCountedByIntentTierAndStatus(t *testing.T) {
	n := open(t, true)
	n.venue("warung", substrate.KindMock, nil)
	line := func(intent, tier, status string) string {
		return fmt.Sprintf(`a2a_requests_total{intent=%q,tier=%q,status=%q}`, intent, tier, status)
	}
	ping := line("network.ping", "free", "ok")
	if n.metric(ping) != "0" {
		t.Fatalf("%s before the first ping", n.metric(ping))
	}
	n.send(n.free, "network.ping", "")
	if n.metric(ping) != "1" {
		t.Errorf("%s after a ping, want 1", n.metric(ping))
	}
	n.send(n.free, "booking.confirm", `{"venue_slug":"warung"}`)
	n.send(n.pro, "booking.cancel", "")
	n.do("POST", agp.Path, n.pro, `{"from":"a"}`)
	n.send("", "network.ping", "")
	for range 2 {
		n.confirmed(n.pro, `{"venue_slug":"warung","idempotency_key":"one"}`)
	}
	for l, want := range map[string]string{
		line("booking.confirm", "free", "error"): "1", line("unknown", "pro", "error"): "1", line("booking.confirm", "pro", "ok"): "1",
		line("booking.confirm", "pro", "replay"): "1", `a2a_metered_events_total{intent="booking.confirm",tier="pro"}`: "1",
		`a2a_rejected_total{reason="envelope"}`: "1", `a2a_envelope_transitions_total{from="dispatched",to="accepted"}`: "1",
	} {
		if got := n.metric(l); got != want {
			t.Errorf("%s = %s, want %s", l, got, want)
		}
	}
	got := n.do("GET", "/metrics", "", "")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(got.body))
	if err != nil || len(families) < 3 || !strings.HasPrefix(got.header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Errorf("GET /metrics = %v, %d families, %v", got.header, len(families), err)
	}
	if op := n.as("GET", "/v1/admin/metrics", ""); op.status != http.StatusOK || !strings.Contains(op.body, ping) {
		t.Errorf("the operator's metrics = %d %s", op.status, op.body)
	}
}

func TestStatusIsPublic(t *testing.T) {
	n := open(t, false)
	active := func() string {
		n.Clock.Advance(6 * time.Second)
		got := n.do("GET", agp.StatusPath, "", "")
		if got.status != http.StatusOK || got.text("network_version") != "1.0" || got.text("status") != "ok" || got.json["window_seconds"] != 300.0 || got.header.Get("Cache-Control") != "public, max-age=5" {
			t.Errorf("status = %d %v %s", got.status, got.header, got.body)
		}
		return got.text("active_agents")
	}
	if active() != "0" {
		t.Errorf("active agents before the first ping")
	}
	for _, from := range []string{"a", "b:1", "b:2", "a"} {
		n.do("POST", agp.Path, n.free, fmt.Sprintf(`{"from":%q,"intent":"network.ping"}`, from))
	}
	if got := active(); got != "2" {
		t.Errorf("active agents = %s, want 2", got)
	}
	n.Clock.Advance(5 * time.Minute)
	if got := active(); got != "0" {
		t.Errorf("active agents after 5 minutes = %s, want 0", got)
	}
	if got := n.do("HEAD", agp.StatusPath, "", ""); got.status != http.StatusOK {
		t.Errorf("HEAD = %d", got.status)
	}
}

func TestKeysOfTiers(t *testing.T) {
	n := open(t, false)
	for _, o := range []billing.KeyOptions{{Tier: "gold"}, {Quota: 5}, {AgentIDs: []string{"a"}}, {Tier: billing.Pro, Quota: -1}, {Tier: billing.Pro, AgentIDs: []string{""}}, {Scopes: []billing.Scope{billing.ScopeAGP}}, {Expires: n.Clock.NowFunc(0)()}} {
		if _, _, err := n.Server.Billing.MakeKey(t.Context(), n.acme.ID, o); err == nil {
			t.Errorf("MakeKey(%+v) = no error", o)
		}
	}
	if len(n.pro) != len("agnt_live_")+32 || !strings.HasPrefix(n.pro, "agnt_live_") || !strings.HasPrefix(n.test, "agnt_test_") {
		t.Errorf("keys have another form: %d characters", len(n.pro))
	}
	manager := n.Key(n.acme, managing)
	for body, want := range map[string]int{`{"tier":"free"}`: 201, `{"tier":"pro"}`: 403, `{"tier":"enterprise"}`: 403, `{"tier":"free","quota":1000}`: 403} {
		if got := n.do("POST", "/v1/keys", manager, body); got.status != want {
			t.Errorf("a tenant makes %s = %d %s, want %d", body, got.status, got.body, want)
		}
	}
	list := n.do("GET", "/v1/keys", manager, "")
	if strings.Contains(list.body, n.pro) || !strings.Contains(list.body, n.pro[:14]) {
		t.Errorf("the list has the secret, or no prefix: %s", list.body)
	}
}

func TestAQuotaOfTheDayAndOfTheSecond(t *testing.T) {
	n := open(t, false)
	for i := range 100 {
		got := n.send(n.free, "network.ping", "")
		if got.status != http.StatusOK || got.header.Get("X-RateLimit-Remaining") != strconv.Itoa(99-i) {
			t.Fatalf("call %d = %d %v %s", i+1, got.status, got.header, got.body)
		}
	}
	got := n.send(n.free, "network.ping", "")
	n.want("the 101st call", got, http.StatusTooManyRequests, "quota_exceeded")
	if after, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || after <= 0 || after > 86_400 || got.header.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("headers = %v", got.header)
	}
	n.Clock.Advance(12 * time.Hour)
	n.want("the next day", n.send(n.free, "network.ping", ""), http.StatusOK, "")
	// No clock: all at once.
	refused, ok := 0, 0
	var mu sync.Mutex
	at := n.Clock.NowFunc(0)()
	for range 30 {
		n.Clock.Advance(at.Sub(n.Clock.NowFunc(0)()))
		got := n.send(n.ent, "network.ping", "")
		mu.Lock()
		switch got.status {
		case http.StatusOK:
			ok++
		case http.StatusTooManyRequests:
			refused++
		}
		mu.Unlock()
	}
	if ok < 20 || ok > 22 || refused != 30-ok {
		t.Errorf("of 30 at once %d passed, %d were refused, want 20", ok, refused)
	}
}

// More keys are not more requests.
func TestTheKeysOfATierShareItsQuota(t *testing.T) {
	n := open(t, false)
	keys := []string{n.free}
	for range 4 {
		keys = append(keys, n.Key(n.acme, billing.KeyOptions{Tier: billing.Free}))
	}
	for i := range 100 {
		got := n.send(keys[i%len(keys)], "network.ping", "")
		if n.Clock.Advance(time.Second); got.status != http.StatusOK || got.header.Get("X-RateLimit-Remaining") != strconv.Itoa(99-i) {
			t.Fatalf("call %d = %d %v %s", i+1, got.status, got.header, got.body)
		}
	}
	for _, key := range keys {
		got := n.send(key, "network.ping", "")
		n.want("the 101st call", got, http.StatusTooManyRequests, "quota_exceeded")
		if !strings.Contains(got.body, "with tier free, all keys of an account share one limit") {
			t.Errorf("the refusal says %s", got.body)
		}
	}
	n.want("another tier", n.send(n.pro, "network.ping", ""), http.StatusOK, "")
	_, other := n.account("other", 0, billing.KeyOptions{Tier: billing.Free})
	n.want("another account", n.send(other, "network.ping", ""), http.StatusOK, "")
}

// The bookings of an account, by each kind of its keys: a key that manages bookings sees and
// cancels the bookings of other keys, and a test key sees only test bookings.
func TestWhichKeysManageBookings(t *testing.T) {
	n := open(t, true)
	n.venue("warung", substrate.KindMock, nil)
	tomorrow := n.Clock.NowFunc(0)().Add(24 * time.Hour)
	when := fmt.Sprintf(`,"starts_at":%q}`, tomorrow.Format(time.RFC3339))
	scopes := func(all ...billing.Scope) []billing.Scope { return all }
	for kind, tt := range map[string]struct {
		o            billing.KeyOptions
		sees, cancel bool
	}{
		"pro":              {billing.KeyOptions{Tier: billing.Pro}, false, false},
		"pro manager":      {billing.KeyOptions{Tier: billing.Pro, Scopes: scopes("agp", "read", "manage")}, true, true},
		"capped manager":   {billing.KeyOptions{Tier: billing.Pro, DailyCap: 1, Scopes: scopes("agp", "read", "manage")}, true, true},
		"expiring manager": {billing.KeyOptions{Tier: billing.Pro, Expires: tomorrow, Scopes: scopes("agp", "read", "manage")}, true, true},
		"test manager":     {billing.KeyOptions{Tier: billing.Pro, Test: true, Scopes: scopes("agp", "read", "manage")}, false, false},
		"live":             {managing, true, false},
		"default":          {billing.KeyOptions{}, false, false},
		"manager":          {billing.KeyOptions{Scopes: scopes("manage")}, false, false},
		"reader":           {billing.KeyOptions{Scopes: scopes("read")}, false, false},
		"vacants":          {billing.KeyOptions{Scopes: scopes("vacants")}, false, false},
		"test":             {billing.KeyOptions{Test: true}, false, false},
	} {
		_, pro := n.account("tenant-of-"+strings.ReplaceAll(kind, " ", "-"), money.Dollar, billing.KeyOptions{Tier: billing.Pro})
		a, err := n.Server.Billing.FindAccount(t.Context(), "tenant-of-"+strings.ReplaceAll(kind, " ", "-"))
		n.Must(err)
		id, _ := n.confirmed(pro, `{"venue_slug":"warung"`+when)
		key := n.Key(a, tt.o)
		list, one := n.do("GET", "/v1/bookings", key, ""), n.do("GET", "/v1/bookings/"+id, key, "")
		if sees := strings.Contains(list.body, id); sees != tt.sees || (one.status == http.StatusOK) != tt.sees {
			t.Errorf("a key of kind %s sees a booking in its list: %t, by its id: %d; want %t", kind, sees, one.status, tt.sees)
		}
		if got := n.do("POST", "/v1/bookings/"+id+"/cancel", key, ""); (got.status == http.StatusOK) != tt.cancel {
			t.Errorf("a key of kind %s cancels = %d %s, want that it may: %t", kind, got.status, got.body, tt.cancel)
		}
	}
}

func TestARepeatedConfirmIsOneBooking(t *testing.T) {
	n := open(t, true)
	n.venue("warung", substrate.KindMock, nil)
	n.venue("other", substrate.KindMock, nil)
	before := n.balance()
	once := func(payload string, headers ...string) answer {
		return n.send(n.pro, "booking.confirm", payload, headers...)
	}
	first := once(`{"venue_slug":"warung","idempotency_key":"k"}`)
	for what, got := range map[string]answer{
		"by payload": once(`{"venue_slug":"warung","idempotency_key":"k"}`),
		"by header":  once(`{"venue_slug":"warung"}`, "Idempotency-Key: k"),
	} {
		if got.status != http.StatusOK || got.text("booking_id") != first.text("booking_id") || got.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("the same %s = %d %v %s", what, got.status, got.header, got.body)
		}
	}
	n.want("the key for another payload", once(`{"venue_slug":"other","idempotency_key":"k"}`), http.StatusConflict, "idempotency_conflict")
	stamped := func(payload string) answer {
		return n.do("POST", agp.Path, n.pro, `{"from":"a","intent":"booking.confirm","timestamp":"2026-11-24T12:00:00Z","payload":`+payload+`}`)
	}
	one, two, three := stamped(`{"venue_slug":"warung"}`), stamped(`{"venue_slug":"warung"}`), stamped(`{"venue_slug":"other"}`)
	if one.text("booking_id") != two.text("booking_id") || two.header.Get("Idempotent-Replayed") != "true" || three.text("booking_id") == one.text("booking_id") {
		t.Errorf("the same time = %s, %s, %s", one.body, two.body, three.body)
	}
	if spent := before - n.balance(); spent != 3*money.Dollar/4 || len(n.events(n.pro)) != 3 {
		t.Errorf("%s spent, events %v, want three bookings", spent, n.events(n.pro))
	}
	// Many at once with one key are one booking.
	var all sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		all.Go(func() { ids[i] = once(`{"venue_slug":"warung","idempotency_key":"many"}`).text("booking_id") })
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] || id == "" {
			t.Errorf("ids = %v", ids)
			break
		}
	}
	n.Clock.Advance(24 * time.Hour)
	if got := once(`{"venue_slug":"warung","idempotency_key":"k"}`); got.text("booking_id") == first.text("booking_id") {
		t.Error("a day later the key is still remembered")
	}
}

// Keys that send the same confirm have a booking each, by an idempotency key and by the time of the envelope.
func TestKeysDoNotShareTheRepeatsOfAConfirm(t *testing.T) {
	n := open(t, true)
	n.venue("warung", substrate.KindMock, nil)
	_, other := n.account("other", 10*money.Dollar, billing.KeyOptions{Tier: billing.Pro})
	keys := map[string]string{"a key": n.pro, "another key of the account": n.Key(n.acme, billing.KeyOptions{Tier: billing.Pro}), "a key of another account": other}
	for name, envelope := range map[string]string{
		"an idempotency key": `{"from":"a","intent":"booking.confirm","payload":{"venue_slug":"warung","idempotency_key":"k"}}`,
		"a time":             `{"from":"a","intent":"booking.confirm","timestamp":"2026-11-24T12:00:00Z","payload":{"venue_slug":"warung"}}`,
	} {
		made := map[string]string{}
		for who, key := range keys {
			first, again := n.do("POST", agp.Path, key, envelope), n.do("POST", agp.Path, key, envelope)
			n.want(who+" with "+name, first, http.StatusOK, "")
			if id := first.text("booking_id"); made[id] != "" || again.text("booking_id") != id {
				t.Errorf("with %s, %s has the booking %s, which is of %q, and %s again", name, who, id, made[id], again.text("booking_id"))
			}
			made[first.text("booking_id")] = who
		}
	}
}

// Guests of one venue at one time take no places of another venue or time.
func TestASlotIsOfOneVenueAndOneTime(t *testing.T) {
	n := open(t, true)
	for _, venue := range []string{"warung", "other"} {
		n.venue(venue, substrate.KindMock, func(v *listing.Venue) { v.Capacity = 2 })
		for _, hour := range []int{19, 20} {
			const confirm = `{"venue_slug":%q,"party_size":%d,"starts_at":"2026-12-24T%d:00:00Z"}`
			n.confirmed(n.pro, fmt.Sprintf(confirm, venue, 2, hour))
			n.want("a third guest", n.send(n.pro, "booking.confirm", fmt.Sprintf(confirm, venue, 1, hour)), http.StatusConflict, "slot_taken")
		}
	}
}

// TestAJobForAVacant sends a job by a booking: the venue's answer is the result, and the
// call is in the rows of the host.
func TestAJobForAVacant(t *testing.T) {
	n := open(t, true)
	venue := n.venue("worker", substrate.KindMock, nil)
	var told string
	n.said = func(text string) (string, error) {
		told = text
		return `{"decision":"accept","result":{"sum":3}}`, nil
	}
	id, a := n.confirmed(n.pro, `{"venue_slug":"worker","input":{"add":[1,2]}}`)
	if a.text("status") != "completed" || !strings.Contains(a.body, `"result":{"sum":3}`) {
		t.Errorf("confirm = %s", a.body)
	}
	for _, part := range []string{`"type":"booking.confirm"`, `"booking_id":"` + id + `"`, `"input":{"add":[1,2]}`, `"price_cents":25`, `"callback":"http://127.0.0.1:1/v1/bookings/` + id + `/transition"`, `"claim":"`} {
		if !strings.Contains(told, part) {
			t.Errorf("the venue is told %s, without %s", told, part)
		}
	}
	self, err := n.Server.Vacants.HostID(t.Context())
	n.Must(err)
	if n.asked.Load() != 1 {
		t.Errorf("the venue is asked %d times", n.asked.Load())
	}
	// The venue knows nothing of the host but its id.
	var part struct {
		Host        identity.ID             `json:"host_id"`
		Booking     string                  `json:"booking_id"`
		Time, Claim string                  // of the claim, and its signature in hex
		Certificate certificate.Certificate `json:"certificate"`
	}
	n.Must(json.Unmarshal([]byte(told), &part))
	claim := booking.Statement{Host: part.Host, Venue: venue.ID, Booking: part.Booking, Certificate: part.Certificate}
	claim.Time, err = canon.ParseTime(part.Time)
	n.Must(err)
	claim.Signature, err = hex.DecodeString(part.Claim)
	n.Must(err)
	claim.Guest = *n.guest.Load()
	if err := claim.Verify(); err != nil || claim.Host != self {
		t.Errorf("the claim of host %s: Verify() = %v, want one of %s", claim.Host.Short(), err, self.Short())
	}
	if r, err := n.Server.Vacants.Get(t.Context(), vacants.OperatorAsker(), venue.ID); err != nil || r.ID != venue.ID {
		t.Errorf("Get() = %v", err)
	}
}

// The confirmation, the booking and the list of bookings say why the answer of a venue may be
// incomplete, whatever the venue decides.
func TestABookingSaysThatTheAnswerOfItsVenueWasCut(t *testing.T) {
	n := open(t, true)
	n.venue("worker", substrate.KindMock, nil)
	for end, cut := range map[substrate.FinishReason]string{substrate.FinishStop: "", substrate.FinishLength: "length", substrate.FinishUnknown: "unknown"} {
		for says, status := range map[string]string{`"half of"`: "completed", `{"decision":"accept"}`: "confirmed", `{"decision":"reject"}`: "rejected", `{"decision":"later"}`: "pending"} {
			if status == "pending" && cut != "length" {
				continue // the confirm waits for a later answer
			}
			n.said, n.ends = func(string) (string, error) { return says, nil }, end
			id, a := n.confirmed(n.pro, `{"venue_slug":"worker","input":{"add":[1,2]}}`)
			shown := n.do("GET", "/v1/bookings/"+id, n.pro, "")
			listed := n.do("GET", "/v1/bookings", n.pro, "")
			if a.text("status") != status || cmp.Or(a.json["cut"], any("")) != cut || cmp.Or(shown.json["cut"], any("")) != cut {
				t.Errorf("%s, ended by %s: the confirmation is %s, the booking %s; want it %s, cut %q", says, end, a.body, shown.body, status, cut)
			}
			_, own, _ := strings.Cut(listed.body, id)
			own, _, _ = strings.Cut(own, `"booking_id"`)
			if strings.Contains(own, `"cut":"`+cut+`"`) != (cut != "") {
				t.Errorf("%s, ended by %s: the list has %s, want cut %q", says, end, own, cut)
			}
		}
	}
}

// publishElsewhere publishes a venue at a URL of another host.
func (n *network) publishElsewhere(key *identity.Key, slug, url string) {
	n.Helper()
	l := registrytest.NewListing(n.TB, key, 1, func(l *listing.Listing) {
		l.Venue = &listing.Venue{Slug: slug, Category: "agent", Location: "elsewhere", Bookable: true}
	})
	_, err := n.Server.Registry.Publish(n.Context(), registrytest.NewPublication(n.TB, key, registrytest.Draft{
		Endpoint: url + "/v/" + key.ID().String() + "/a2a/message/send", SignedAt: n.Clock.NowFunc(0)(), BeforeSign: func(p *registry.Publication) { p.Listing = &l },
	}))
	n.Must(err)
	registrytest.ProbeEndpoints(n.TB, n.Server.Registry)
}

// TestAVenueElsewhere books a vacant of another host, over HTTP.
func TestAVenueElsewhere(t *testing.T) {
	there := open(t, false)
	server := httptest.NewServer(there.Public)
	defer server.Close()
	key := registrytest.Key(77)
	_, err := there.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "far", Capability: "far away", Substrate: substrate.KindMock, Key: registrytest.Key(77)})
	there.Must(err)
	there.Clock.Advance(time.Since(there.Clock.NowFunc(0)())) // an imported vacant takes what is signed later
	n := open(t, true)
	n.Clock.Advance(time.Since(n.Clock.NowFunc(0)()))
	n.publishElsewhere(key, "far", server.URL)
	there.said = func(text string) (string, error) { return `{"decision":"accept","result":"from afar"}`, nil }
	_, a := n.confirmed(n.pro, `{"venue_slug":"far"}`)
	if a.text("status") != "completed" || a.text("result") != "from afar" || there.asked.Load() != 1 {
		t.Errorf("confirm = %s, asked %d times: %s", a.body, there.asked.Load(), n.do("GET", "/v1/bookings/"+a.text("booking_id"), n.pro, "").body)
	}
	there.ends = substrate.FinishLength
	if _, a := n.confirmed(n.pro, `{"venue_slug":"far"}`); a.text("result") != "from afar" || a.text("cut") != "length" {
		t.Errorf("confirm whose answer was cut = %s", a.body)
	}
	// Down, it is a dispatch that failed.
	server.Close()
	if _, a := n.confirmed(n.pro, `{"venue_slug":"far"}`); a.text("envelope_status") != "dispatch_failed" {
		t.Errorf("confirm of one that is down = %s", a.body)
	}
}

// TestAVenueElsewhereThatMisbehaves is a dispatch that failed, whatever it answers, and
// reaches nothing else.
func TestAVenueElsewhereThatMisbehaves(t *testing.T) {
	inside := 0
	secret := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside++ }))
	defer secret.Close()
	n := open(t, true)
	n.Clock.Advance(time.Since(n.Clock.NowFunc(0)()))
	for i, answers := range []http.HandlerFunc{
		func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, secret.URL, http.StatusTemporaryRedirect)
		},
		func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(`{"result":{"decision":"accept"}}`))
		},
		func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNotFound) },
		func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
	} {
		server := httptest.NewServer(answers)
		slug := "odd-" + strconv.Itoa(i)
		n.publishElsewhere(registrytest.Key(90+i), slug, server.URL)
		if _, a := n.confirmed(n.pro, fmt.Sprintf(`{"venue_slug":%q}`, slug)); a.text("envelope_status") != "dispatch_failed" || a.json["result"] != nil {
			t.Errorf("venue %d: confirm = %s", i, a.body)
		}
		server.Close()
	}
	if inside != 0 {
		t.Errorf("the host followed a venue's redirect %d times", inside)
	}
}

func TestATestKeyMeetsTheTestVenue(t *testing.T) {
	n := open(t, true)
	n.venue("warung", substrate.KindMock, nil)
	before := n.balance()
	if got := n.send(n.test, "network.ping", ""); got.text("venues") != "1" {
		t.Errorf("ping = %s", got.body)
	}
	for _, intent := range []string{"booking.search", "venue.list"} {
		got := n.send(n.test, intent, `{"query":"warung"}`)
		if all := got.json["venues"].([]any); len(all) != 1 || all[0].(map[string]any)["slug"] != "test" {
			t.Errorf("%s = %s", intent, got.body)
		}
	}
	n.want("a real venue", n.send(n.test, "booking.confirm", `{"venue_slug":"warung"}`), http.StatusNotFound, "venue_not_found")
	id, a := n.confirmed(n.test, `{"venue_slug":"test"}`)
	if a.text("status") != "confirmed" || a.json["metered"] != nil || n.balance() != before || len(n.events(n.pro)) != 0 || n.asked.Load() != 0 {
		t.Errorf("confirm = %s, %s spent", a.body, before-n.balance())
	}
	if got := n.do("GET", "/v1/bookings/"+id, n.test, ""); got.status != http.StatusOK || got.json["test"] != true {
		t.Errorf("its booking = %d %s", got.status, got.body)
	}
	if got := n.do("GET", "/metrics", "", ""); strings.Contains(got.body, "a2a_requests_total{") {
		t.Errorf("metrics have a test key: %s", got.body)
	}
}
