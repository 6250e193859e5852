package billing_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

func TestKeysAndLinksAreListedApart(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 0)
	k, _, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{})
	w.must(err)
	c := w.linked(a, 0)
	keys, err := w.billing.Keys(t.Context(), a.ID)
	if err != nil || len(keys) != 1 || keys[0].ID != k.ID {
		t.Errorf("Keys() = %+v, %v, want the one key", keys, err)
	}
	links, err := w.billing.Links(t.Context(), a.ID)
	if err != nil || len(links) != 1 || links[0].Caller != c.key.ID() {
		t.Errorf("Links() = %+v, %v, want the one link", links, err)
	}
}

// Setting again what is set adds no row.
func TestTheSameSettingAgainIsNoChange(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 0)
	for name, set := range map[string]func() (billing.Account, error){
		"line":    func() (billing.Account, error) { return w.billing.SetCreditLine(t.Context(), a.ID, 500, "") },
		"cap":     func() (billing.Account, error) { return w.billing.SetDailyCap(t.Context(), a.ID, 500) },
		"suspend": func() (billing.Account, error) { return w.billing.SetSuspended(t.Context(), a.ID, true, "") },
		"tasks":   func() (billing.Account, error) { return w.billing.SetTaskLifetime(t.Context(), a.ID, 60) },
	} {
		first, err := set()
		w.must(err)
		if again, err := set(); err != nil || again.LastPosition != first.LastPosition {
			t.Errorf("%s: the account has %d changes, %v, want %d", name, again.LastPosition, err, first.LastPosition)
		}
	}
}

func TestTheTaskLifetimeIsAMinuteToADay(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 0)
	for _, seconds := range []int64{-1, 0, 59, 86401} {
		_, err := w.billing.SetTaskLifetime(t.Context(), a.ID, seconds)
		w.wantRefusal("SetTaskLifetime()", err, problem.Malformed)
	}
	for _, seconds := range []int64{0, 60, 86400} {
		if seconds > 0 {
			_, err := w.billing.SetTaskLifetime(t.Context(), a.ID, seconds)
			w.must(err)
		}
		if got, err := w.billing.TaskLifetime(t.Context(), a.ID); err != nil || got != time.Duration(seconds)*time.Second {
			t.Errorf("TaskLifetime() = %s, %v, want %d s", got, err, seconds)
		}
	}
}

func TestAKeyNamesAtMost32Agents(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 0)
	agents := make([]string, 33)
	for i := range agents {
		agents[i] = fmt.Sprint("agent", i)
	}
	_, _, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{Tier: billing.Free, AgentIDs: agents[:32]})
	w.must(err)
	_, _, err = w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{Tier: billing.Free, AgentIDs: agents})
	w.wantRefusal("33 agents", err, problem.Malformed)
}

// A key may send 20 requests at once and 20 a second, however long it was idle. A clock that
// goes back takes nothing from it.
func TestTheRequestsOfAKeyAreBoundedAfterAPause(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 0)
	k, _, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{Tier: billing.Enterprise})
	w.must(err)
	burst := func(most int) (n int) {
		for ; n < most; n++ {
			err := store.Updater{Store: w.store, Rand: rand.Reader}.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
				_, _, err := w.billing.CountUse(ctx, tx, &k, "agent")
				return err
			})
			if quota := new(billing.QuotaError); errors.As(err, &quota) {
				return n
			}
			w.must(err)
		}
		return n
	}
	for _, step := range []struct {
		passes     time.Duration
		most, want int
	}{{0, 100, 20}, {0, 100, 0}, {time.Second / 2, 100, 10}, {time.Hour, 5, 5}, {-time.Second / 2, 100, 15}, {time.Second, 100, 20}} {
		w.clock.Advance(step.passes)
		if got := burst(step.most); got != step.want {
			t.Errorf("after %v %d requests are answered, want %d", step.passes, got, step.want)
		}
	}
}

// Each key has a cap of its own, which its calls and its bookings share.
func TestPurchasesCountInTheCapOfTheirKey(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 100_000)
	buy := func(k *billing.Key) error {
		p, err := w.billing.PlanPurchase(t.Context(), k, 2000)
		w.must(err)
		why := store.Put{Key: store.Key{Partition: "bought", Sort: rand.Text()}, WriteID: store.WriteID{1}}
		if err = w.store.Commit(t.Context(), append(p.Writes(), why)...); err != nil {
			err = p.Replan(t.Context(), err)
		}
		return err
	}
	first, _, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{DailyCap: 4000})
	w.must(err)
	second, _, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{DailyCap: 4000})
	w.must(err)
	w.must(buy(&first))
	by := call.Credential{Payer: &call.Payer{Account: a.ID, Tenant: "acme", Key: first.ID, DailyCap: first.DailyCap}}
	w.wantOutcome("a call by the first key", w.caller().say(w.host(), "a", by), 0)
	w.wantRefusal("over the cap of the first key", buy(&first), problem.SpendCapReached)
	w.must(buy(&second))
	w.must(buy(&second))
	w.wantRefusal("over the cap of the second key", buy(&second), problem.SpendCapReached)
	w.wantBalance(a, 100_000-4*2000)
}

// A link that says another caller, as damage or a writer to the store would leave it, pays
// for nobody.
func TestALinkOfAnotherCallerPaysForNobody(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 100_000)
	linked, other := w.linked(a, 0), w.caller()
	key := func(c *caller) store.Key { return store.Key{Partition: "link#" + c.key.ID().String(), Sort: "link"} }
	d, err := w.store.Doc(t.Context(), key(linked))
	w.must(err)
	w.must(w.store.Commit(t.Context(), store.Put{Key: key(other), WriteID: store.WriteID{1}, Data: d.Data}))
	if out := other.say(w.host(), "hi"); out.Problem == nil {
		t.Error("another's link pays for a call")
	}
	w.wantBalance(a, 100_000)
}
