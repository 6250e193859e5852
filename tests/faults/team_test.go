package faults

import (
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/team"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// A dispatch writes a task, its entry in the list of its owner and its entry among the unfinished tasks of the account.
// A waiting task holds no money.
func TestADispatchConsumesFewWriteUnits(t *testing.T) {
	h := newFixture(t)
	h.answered("the first of the day")
	ctx := t.Context()
	server := h.money(h.Store(h.Endpoint), time.Now)
	a, err := server.Billing.OpenAccount(ctx, "team", 4)
	must(t, err)
	_, _, err = server.Billing.Credit(ctx, a.ID, money.Dollar, "first", "")
	must(t, err)
	k, _, err := server.Billing.MakeKey(ctx, a.ID, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeAgents, billing.ScopeRead}})
	must(t, err)
	counter := &roundtrips.Counter{}
	agents := h.money(h.Store(h.Endpoint, counter.Option), time.Now).OpenQueuedA2A(serve.Queues{Tasks: &messages{}, Notices: &messages{}, MaxTurns: 64})
	by := team.Caller{Payer: k.Payer()}
	for _, tt := range []struct {
		name  string
		price money.Amount
		units float64 // limit
	}{{"team-free", 0, 12}, {"team-priced", 2000, 17}} {
		r, err := server.Vacants.Create(ctx, vacants.CreateSpec{Name: tt.name, Capability: "works", Substrate: "echo", Tenant: "team"})
		must(t, err)
		if tt.price > 0 {
			_, err = server.Vacants.SetPrice(ctx, r.ID, price.Price{Flat: tt.price})
			must(t, err)
		}
		counter.Reset()
		started, err := agents.Team.Dispatch(ctx, by, team.Request{Agent: tt.name, Text: "hi"})
		must(t, err)
		units := counter.WriteUnits()
		counter.Reset()
		_, err = agents.Team.Status(ctx, by, started.TaskID, 0)
		must(t, err)
		reads := counter.Operations()
		t.Logf("%s: %v write units; a status is %v", tt.name, units, reads)
		if units > tt.units || len(reads) > 3 {
			t.Errorf("%s: a dispatch consumed %v write units, want at most %v; a status made the requests %v, want at most 3", tt.name, units, tt.units, reads)
		}
	}
}
