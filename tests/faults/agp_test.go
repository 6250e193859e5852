package faults

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/keys/signingkey"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
	"github.com/vacancy-host/vacancy/tests/estimates"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// The write units of an envelope by AGP: a request is the use of its key and a counter, the
// first of an agent's minute also who was there. The confirm is without its dispatch,
// which follows.
func TestAGPConsumesFewWriteUnits(t *testing.T) {
	h := newFixture(t)
	ctx, still := t.Context(), time.Now()
	server := h.money(h.Store(h.Endpoint), time.Now)
	r, err := server.Vacants.Create(ctx, vacants.CreateSpec{Name: "booked", Capability: "is booked", Substrate: "echo"})
	must(t, err)
	_, _, err = server.Vacants.Publish(ctx, r.ID, vacants.PublishOptions{EditVenue: func(v *listing.Venue) error { v.Slug = "booked"; return nil }})
	must(t, err)
	a, err := server.Billing.OpenAccount(ctx, "agp", 4)
	must(t, err)
	_, _, err = server.Billing.Credit(ctx, a.ID, 100*money.Dollar, "first", "")
	must(t, err)
	_, key, err := server.Billing.MakeKey(ctx, a.ID, billing.KeyOptions{Tier: billing.Pro})
	must(t, err)
	// As the checkpointer does.
	keys := signingkey.New(signingkey.Config{Store: h.Store(h.Endpoint), Vault: h.Vault, Now: time.Now, Rand: rand.Reader, Identity: server.Vacants.HostSigner})
	must(t, keys.RenewIfDue(ctx))
	counter := &roundtrips.Counter{}
	counted := h.money(h.Store(h.Endpoint, counter.Option), func() time.Time { return still })
	agents := counted.OpenA2A()
	handler := counted.OpenAGP(agents, func(context.Context, search.Request) (search.Page, error) {
		return search.Page{}, problem.New(problem.Unavailable, "no search here")
	}, false)
	booked := ""
	for _, tt := range []struct {
		name, body string
		units      float64
	}{
		{"the first ping of a minute", `{"from":"a","intent":"network.ping"}`, 6},
		{"a ping", `{"from":"a","intent":"network.ping"}`, 4},
		{"a refusal", `{"from":"a","intent":"booking.cancel"}`, 4},
		{"a confirm", `{"from":"a","intent":"booking.confirm","payload":{"venue_slug":"booked"}}`, 21},
		{"a confirm with a key", `{"from":"a","intent":"booking.confirm","payload":{"venue_slug":"booked","idempotency_key":"k"}}`, 23},
		{"the same again", `{"from":"a","intent":"booking.confirm","payload":{"venue_slug":"booked","idempotency_key":"k"}}`, 4},
	} {
		counter.Reset()
		q := httptest.NewRequest("POST", "/a2a/v1", strings.NewReader(tt.body))
		q.Header.Set("Authorization", "Bearer "+key)
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Prefer", "respond-async")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, q)
		if w.Code != http.StatusOK && tt.name != "a refusal" {
			t.Fatalf("%s = %d %s", tt.name, w.Code, w.Body)
		}
		t.Logf("%s: %v write units, %v read units, %d round trips", tt.name, counter.WriteUnits(), counter.ReadUnits(), counter.Trips())
		if got := counter.WriteUnits(); got != tt.units {
			t.Errorf("%s consumed %v write units, want %v", tt.name, got, tt.units)
		}
		if id := bookingID.FindStringSubmatch(w.Body.String()); id != nil {
			booked = id[1]
		}
	}
	// An accepted, a completed state and the call between, by the worker.
	must(t, agents.HandleMessage(ctx, "booking#"+booked))
	counter.Reset()
	q := httptest.NewRequest("POST", "/a2a/v1", strings.NewReader(`{"from":"a","intent":"booking.confirm","payload":{"venue_slug":"booked"}}`))
	q.Header.Set("Authorization", "Bearer "+key)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Prefer", "respond-async")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, q)
	confirm := counter.WriteUnits()
	must(t, agents.HandleMessage(ctx, "booking#"+bookingID.FindStringSubmatch(w.Body.String())[1]))
	model := estimates.Booking
	t.Logf("with its dispatch: %v write units, %v of the confirm, %v read units", counter.WriteUnits(), confirm, counter.ReadUnits())
	if counter.WriteUnits() != model.WriteUnits || counter.ReadUnits() > model.ReadUnits {
		t.Errorf("a booking consumed %v write and %v read units, the estimate is %v and %v", counter.WriteUnits(), counter.ReadUnits(), model.WriteUnits, model.ReadUnits)
	}
}

var bookingID = regexp.MustCompile(`"booking_id":"([0-9a-f]{64})"`)
