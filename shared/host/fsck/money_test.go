package fsck_test

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/money"
	"github.com/vacancy-host/vacancy/shared/host/billing/price"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/vacants/hosttest"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
)

// paying is a host whose demo vacant has a price, with calls of every fate: answered,
// failed, overdue and voided, undecided, free.
func paying(t *testing.T) (*caller, billing.Account) {
	t.Helper()
	c := &caller{hosttest.New(t, memory.New()).Caller()}
	b := c.Charge()
	a, err := b.OpenAccount(c.Ctx, "acme", 4)
	c.Must(err)
	_, _, err = b.Credit(c.Ctx, a.ID, 50_000, "first", "")
	c.Must(err)
	_, err = b.SetLine(c.Ctx, a.ID, 500, "")
	c.Must(err)
	_, err = c.Vacants.SetPrice(c.Ctx, c.Demo.ID, price.Price{Flat: 2000, Free: 2})
	c.Must(err)
	free := &caller{c.Fixture.Caller()}
	free.Call("free")
	self, err := c.Vacants.SelfID(c.Ctx)
	c.Must(err)
	one := claim.Claim{Host: self, Account: a.ID}
	c.Must(one.Sign(c.Ctx, c.Key, c.Time))
	_, err = b.Link(c.Ctx, a.ID, one.String())
	c.Must(err)
	c.Call("paid")
	c.Call("fail")
	late := c.Crash("overdue")
	c.Time = c.Time.Add(call.DefaultWork + call.Grace + 1)
	c.Ask(late, call.Unanswered)
	_, err = c.Vacants.SetPrice(c.Ctx, c.Demo.ID, price.Price{In: money.Dollar, Flat: 3, Most: 700})
	c.Must(err)
	c.Call("by tokens")
	c.Crash("undecided")
	balance, err := b.Balance(c.Ctx, &a)
	c.Must(err)
	if want := money.Amount(50_500 - 2000 - 3 - 700); balance != want {
		t.Fatalf("balance = %d, want %d", balance, want)
	}
	return c, a
}

func TestMoneyIsRecounted(t *testing.T) {
	c, a := paying(t)
	if _, found := c.check(c.Store); len(found) > 0 {
		t.Fatalf("Run() finds %v in a whole host", found)
	}
	if _, found := c.checkWith(c.Store, narrow); len(found) > 0 {
		t.Fatalf("Run() in small pages finds %v in a whole host", found)
	}
	more := func(n int64) func(store.Doc) store.Doc {
		return func(d store.Doc) store.Doc { d.Number += n; return d }
	}
	account, err := billing.AccountStream(a.ID)
	c.Must(err)
	requests, responses := c.Pair().Requests(), c.Pair().Responses()
	for name, altered := range map[string]*altered{
		"a balance that is too high":  {docs: map[store.Key]func(store.Doc) store.Doc{billing.BalanceKey(a.ID, 0): more(1)}},
		"a balance that is too low":   {docs: map[store.Key]func(store.Doc) store.Doc{billing.BalanceKey(a.ID, 3): more(-1)}},
		"a shard below 0":             {docs: map[store.Key]func(store.Doc) store.Doc{billing.BalanceKey(a.ID, 1): more(-1 << 40), billing.BalanceKey(a.ID, 0): more(1 << 40)}},
		"a shard that is gone":        {docs: map[store.Key]func(store.Doc) store.Doc{billing.BalanceKey(a.ID, 2): gone}},
		"a version of the price gone": {docs: map[store.Key]func(store.Doc) store.Doc{price.Key(c.Demo.ID, 1): gone}},
		"another price":               {docs: map[store.Key]func(store.Doc) store.Doc{price.Key(c.Demo.ID, 2): member("flat", to(4.0))}},
		"a credit that nobody made": {rows: map[store.Stream]func([]store.Row) []store.Row{account: edit(2, func([]byte) []byte {
			return []byte(`{"format":1,"kind":"credit","amount":60000,"at":"2026-05-06T12:00:00Z"}`)
		})}},
		"an account opened twice": {rows: map[store.Stream]func([]store.Row) []store.Row{account: edit(3, func([]byte) []byte {
			return []byte(`{"format":1,"kind":"opened","amount":500,"at":"2026-05-06T12:00:00Z"}`)
		})}},
		"an account without its changes": {docs: map[store.Key]func(store.Doc) store.Doc{billing.AccountKey(a.ID): member("changes", to(2))}},
	} {
		altered.Store = c.Store
		_, found := c.check(altered)
		if len(found) == 0 {
			t.Errorf("%s is not found", name)
		}
		for _, f := range found {
			if f.Check != fsck.Money && f.Check != fsck.Document {
				t.Errorf("%s: found %v, want it about money", name, f)
			}
		}
	}
	for name, altered := range map[string]*altered{
		"an answer lost": {rows: map[store.Stream]func([]store.Row) []store.Row{responses: func(rows []store.Row) []store.Row { return rows[:len(rows)-1] }}},
		"a call lost":    {rows: map[store.Stream]func([]store.Row) []store.Row{requests: func(rows []store.Row) []store.Row { return rows[:len(rows)-1] }}},
	} {
		altered.Store = c.Store
		money := false
		_, found := c.check(altered)
		for _, f := range found {
			money = money || f.Check == fsck.Money
		}
		if !money {
			t.Errorf("%s: found %v, want the balance among it", name, found)
		}
	}
}
