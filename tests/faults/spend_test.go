package faults

import (
	"crypto/rand"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// payerOver is a host over a store that pays for models.
func (h *fixture) payerOver(s store.Store) *serve.Server {
	server := h.Open(h.t, s, time.Now, substrate.Kinds{substrate.KindMock: mock.Kinds()[substrate.KindMock]})
	server.Vacants.Resources.Budgets, server.Vacants.Resources.Models = spend.New(store.Updater{Store: s, Rand: rand.Reader}, time.Now, money.Dollar), models.NewTables(s, time.Now, rand.Reader)
	return server
}

// paid is a host and a caller that calls a vacant whose model costs money, and asks for
// so many turns. A turn costs 20 micro-dollars.
func (h *fixture) paid(name string, turns int) *fixture {
	h.t.Helper()
	const turn = "usage: 10 10\n---\n"
	agent := &definition.Agent{
		Provider: substrate.KindMock, Price: &models.Price{InputPrice: money.Dollar, OutputPrice: money.Dollar, CachedPrice: money.Dollar},
		System: "```mock\n" + strings.Repeat("call: nothing {}\n"+turn, turns-1) + "text: yes\n" + strings.TrimSuffix(turn, "---\n") + "```",
	}
	r, err := h.payerOver(h.Store(h.Endpoint)).Vacants.Create(h.t.Context(), vacants.CreateSpec{Name: name, Capability: "answers", Agent: agent})
	must(h.t, err)
	return &fixture{Host: h.Host, t: h.t, vacant: r.ID, caller: caller.New(h.t, r.ID), asked: h.asked}
}

// spent returns the vacant's spending of today in micro-dollars.
func (h *fixture) spent() int64 {
	h.t.Helper()
	d, err := h.Store(h.Endpoint).Doc(h.t.Context(), spend.VacantTotalKey(h.vacant, time.Now().UTC().Format(time.DateOnly)))
	must(h.t, err)
	return d.Number
}

func (h *fixture) payingHandler(s store.Store) http.Handler {
	return serve.Public(h.payerOver(s).MessageHandler())
}

// The figures of a warm call that costs money: its two rows, an entry in the logbook,
// and for each turn the totals of the vacant and of the host in one transaction.
func TestACallThatCostsMoneyConsumesFewWriteUnits(t *testing.T) {
	base := newFixture(t)
	base.answered("the first of the day")
	var one float64
	for turns := 1; turns <= 3; turns++ {
		h := base.paid(strings.Repeat("i", turns), turns)
		counter := &roundtrips.Counter{}
		handler := h.payingHandler(h.Store(h.Endpoint, counter.Option))
		for _, text := range []string{"cold", "warm"} {
			counter.Reset()
			e := h.caller.Call(text, time.Now())
			if a := h.post(handler, caller.SendPath, e); a.Status != 200 {
				t.Fatalf("%d turns, %s: %v, want 200", turns, text, a)
			}
			h.caller.Accepted(e)
		}
		units := counter.WriteUnits()
		t.Logf("%d turns: %v write units, %v read units", turns, units, counter.ReadUnits())
		if turns == 1 {
			one = units
		}
		if units > 24+8*float64(turns-1) || units > one+8*float64(turns-1) {
			t.Errorf("a call of %d turns consumed %v write units, want at most 24, and 8 for each further turn", turns, units)
		}
		if got := h.spent(); got != int64(2*turns*20) {
			t.Errorf("%d micro-dollars are spent, want %d", got, 2*turns*20)
		}
	}
	base.whole()
}

// The commits that reserve and settle fail in every way, once: the call is answered, and
// what it cost is counted once.
func TestFaultInTheCommitsOfABudget(t *testing.T) {
	base := newFixture(t)
	base.answered("the first of the day")
	for i, f := range faultproxy.Faults() {
		for nth := 1; nth <= 2; nth++ {
			t.Run(f.String(), func(t *testing.T) {
				h := (&fixture{Host: base.Host, t: t, asked: map[string]int{}}).paid(strings.Repeat("i", 2*i+nth), 1)
				proxy := faultproxy.Start(t, h.Endpoint)
				proxy.Set(faultproxy.Rule{Operation: "TransactWriteItems", Nth: nth, Fault: f, For: 20 * time.Millisecond})
				e := h.caller.Call("broken", time.Now())
				if a := h.post(h.payingHandler(h.faulty(proxy.URL, time.Second)), caller.SendPath, e); a.Status != 200 {
					t.Errorf("call = %v, want 200: the transaction is sent again until its outcome is known", a)
				}
				h.caller.Accepted(e)
				release(t, proxy)
				if got := h.spent(); got != 20 {
					t.Errorf("%d micro-dollars are spent, want 20", got)
				}
			})
		}
	}
	base.whole()
}
