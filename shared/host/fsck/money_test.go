package fsck_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// paying returns a host whose demo vacant has a price. Its calls have every outcome: answered,
// failed, overdue and voided, undecided, free.
func paying(t *testing.T, s hosttest.Store) (*caller, billing.Account) {
	t.Helper()
	c := &caller{hosttest.New(t, s).Caller()}
	b := c.OpenBilling()
	a, err := b.OpenAccount(c.Ctx, "acme", 4)
	c.Must(err)
	_, _, err = b.Credit(c.Ctx, a.ID, 50_000, "first", "")
	c.Must(err)
	_, err = b.SetCreditLine(c.Ctx, a.ID, 500, "")
	c.Must(err)
	for _, e := range []billing.Event{
		{PaymentID: "pi_1", Account: a.ID, Paid: 1000}, {PaymentID: "pi_1", RefundedTotal: 1000}, {PaymentID: "pi_2", Account: a.ID, Paid: 1000},
		{PaymentID: "pi_3", Account: a.ID, Paid: 1000}, {PaymentID: "pi_3", RefundID: "re_1", RefundReport: billing.Refund{Amount: 1000}},
		{PaymentID: "pi_3", RefundID: "re_1", RefundReport: billing.Refund{Amount: 1000, Failed: true}}, {PaymentID: "pi_3", RefundID: "re_2", RefundReport: billing.Refund{Amount: 1000}},
	} {
		c.Must(b.SettlePayment(c.Ctx, e))
	}
	_, _, err = b.Adjust(c.Ctx, a.ID, -51_400, "nearly all", "for a test")
	c.Must(err)
	c.Must(b.SettlePayment(c.Ctx, billing.Event{PaymentID: "pi_2", RefundedTotal: 1000}))
	_, _, err = b.Credit(c.Ctx, a.ID, 50_900, "second", "") // 900 of it are owed
	c.Must(err)
	_, err = b.SetSuspended(c.Ctx, a.ID, false, "")
	c.Must(err)
	_, _, err = b.Adjust(c.Ctx, a.ID, 500, "the line again", "for a test")
	c.Must(err)
	_, err = c.Vacants.SetPrice(c.Ctx, c.Demo.ID, price.Price{Flat: 2000, FreePerSigner: 2})
	c.Must(err)
	free := &caller{c.Fixture.Caller()}
	free.Call("free")
	self, err := c.Vacants.HostID(c.Ctx)
	c.Must(err)
	one := claim.PaymentClaim{Host: self, Account: a.ID}
	c.Must(one.Sign(c.Ctx, c.Key, c.Time))
	_, err = b.Link(c.Ctx, a.ID, one.String())
	c.Must(err)
	c.Call("paid")
	c.Call("fail")
	late := c.Crash("overdue")
	c.Time = c.Time.Add(call.DefaultCallTimeout + call.GracePeriod + 1)
	c.Ask(late, call.Unanswered)
	_, err = c.Vacants.SetPrice(c.Ctx, c.Demo.ID, price.Price{InputPrice: money.Dollar, Flat: 3, MaxCharge: 700})
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
	c, a := paying(t, memory.New())
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
		"a version of the price gone": {docs: map[store.Key]func(store.Doc) store.Doc{price.VersionKey(c.Demo.ID, 1): gone}},
		"another price":               {docs: map[store.Key]func(store.Doc) store.Doc{price.VersionKey(c.Demo.ID, 2): member("flat", to(4.0))}},
		"a credit that nobody made": {rows: map[store.Stream]func([]store.Row) []store.Row{account: edit(2, func([]byte) []byte {
			return []byte(`{"format":1,"kind":"credit","amount":60000,"at":"2026-05-06T12:00:00Z"}`)
		})}},
		"an account opened twice": {rows: map[store.Stream]func([]store.Row) []store.Row{account: edit(3, func([]byte) []byte {
			return []byte(`{"format":1,"kind":"opened","amount":500,"at":"2026-05-06T12:00:00Z"}`)
		})}},
		"a payment taken back":           {docs: map[store.Key]func(store.Doc) store.Doc{billing.PaymentDocs.Key("pi_1"): member("taken", to(0))}},
		"a payment of somebody else":     {docs: map[store.Key]func(store.Doc) store.Doc{billing.PaymentDocs.Key("pi_2"): member("account", to("other"))}},
		"a payment that is gone":         {docs: map[store.Key]func(store.Doc) store.Doc{billing.PaymentDocs.Key("pi_2"): gone}},
		"a debt that no row has":         {docs: map[store.Key]func(store.Doc) store.Doc{billing.AccountKey(a.ID): member("owed", to(7))}},
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

func TestMoneyThatMovesDuringACheckIsNoDamage(t *testing.T) {
	n := 0
	for what, does := range map[string]struct {
		step int
		do   func(c *caller, b *billing.Billing, a *billing.Account)
	}{
		"a call": {3, func(c *caller, _ *billing.Billing, _ *billing.Account) { c.Call("meanwhile") }},
		"the first call of a caller": {3, func(c *caller, b *billing.Billing, a *billing.Account) {
			other := &caller{c.Fixture.Caller()}
			self, err := c.Vacants.HostID(c.Ctx)
			c.Must(err)
			one := claim.PaymentClaim{Host: self, Account: a.ID}
			c.Must(one.Sign(c.Ctx, other.Key, c.Time))
			_, err = b.Link(c.Ctx, a.ID, one.String())
			c.Must(err)
			other.Call("meanwhile")
		}},
		"a payment and a refund": {3, func(c *caller, b *billing.Billing, a *billing.Account) {
			n++
			c.Must(b.SettlePayment(c.Ctx, billing.Event{PaymentID: fmt.Sprint("pi_more_", n), Account: a.ID, Paid: 1000}))
			c.Must(b.SettlePayment(c.Ctx, billing.Event{PaymentID: fmt.Sprint("pi_more_", n), RefundedTotal: money.Amount(n % 1000)}))
		}},
	} {
		t.Run(what, func(t *testing.T) {
			wholeMeanwhile(t, "", does.step, func(t *testing.T) (*caller, func() func()) {
				c, a := paying(t, memory.New())
				b := c.OpenBilling()
				return c, func() func() { return func() { does.do(c, b, &a) } }
			})
		})
	}
}

func TestDamageOfABalanceIsFoundWhileMoneyMoves(t *testing.T) {
	c, a := paying(t, memory.New())
	d, err := c.Store.Doc(c.Ctx, billing.BalanceKey(a.ID, 0))
	c.Must(err)
	c.Must(c.Store.Commit(c.Ctx, store.Put{Key: d.Key, IfVersion: d.Version, WriteID: store.WriteID{7}, Number: d.Number - 1}))
	for way, check := range ways {
		calls := 0
		_, found := check(c, busy{c.Store, true, func(read string) {
			if read == d.Key.String() && calls < 3 {
				calls++
				c.Call("meanwhile")
			}
		}})
		if len(found) != 1 || found[0].Check != fsck.Money || found[0].Location != billing.AccountKey(a.ID).String() || calls != 3 {
			t.Errorf("%s: found %v after %d calls, want the account after 3", way, found, calls)
		}
	}
}

// The balance of an account that pays for calls during every reading is compared as far as the
// calls allow, and Result.Changing counts it.
func TestABalanceThatNeverStandsStillIsToldOrFound(t *testing.T) {
	c, a := paying(t, memory.New())
	key := billing.BalanceKey(a.ID, 0)
	add := func(amount int64) {
		d, err := c.Store.Doc(c.Ctx, key)
		c.Must(err)
		c.Must(c.Store.Commit(c.Ctx, store.Put{Key: key, IfVersion: d.Version, WriteID: store.WriteID{byte(d.Version), byte(d.Version >> 8), 8}, Number: d.Number + amount}))
	}
	for way, check := range ways {
		calling := func() (fsck.Result, []fsck.Finding) {
			return check(c, busy{c.Store, true, func(read string) {
				if read == key.String() {
					c.Call("meanwhile")
				}
			}})
		}
		for _, tc := range []struct {
			more, found int64
			changing    uint64
		}{{0, 0, 1}, {-1, 0, 1}, {5000, 1, 0}, {-5000, 1, 0}} {
			add(tc.more)
			res, found := calling()
			if int64(len(found)) != tc.found || res.ChangingFindings != tc.changing {
				t.Errorf("%s, a balance of %d more: found %v and %d changing, want %d and %d", way, tc.more, found, res.ChangingFindings, tc.found, tc.changing)
			}
			add(-tc.more)
		}
	}
}

func TestACallDuringTheCheckOfAFileIsNoDamage(t *testing.T) {
	file, err := bolt.Open(filepath.Join(t.TempDir(), "vacancy.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c, a := paying(t, file)
	called := false
	if _, found := c.checkWith(busy{c.Store, false, func(read string) {
		if !called && read == billing.BalanceKey(a.ID, 0).String() {
			called = true
			c.Call("meanwhile")
		}
	}}, fsck.Run); !called || len(found) > 0 {
		t.Errorf("Run() over one moment of a busy host finds %v; the call came: %t", found, called)
	}
}

func TestUsageIsRecounted(t *testing.T) {
	file, err := bolt.Open(filepath.Join(t.TempDir(), "vacancy.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c, a := paying(t, file)
	meter := usage.Meter{Store: file, Feed: file, Now: c.Now, Rand: rand.Reader, TenantOf: func(context.Context, identity.ID) (string, error) { return "", nil }}
	_, err = meter.Fold(c.Ctx)
	c.Must(err)
	whole := func(what string) {
		t.Helper()
		if _, found := c.check(file); len(found) > 0 {
			t.Errorf("%s: found %v", what, found)
		}
	}
	whole("folded")
	c.Call("not folded yet")
	whole("the last call is not folded yet")
	_, err = meter.Fold(c.Ctx)
	c.Must(err)
	c.Time = c.Time.Add(2 * time.Hour)
	whole("two hours later")
	docs, _, err := file.Docs(c.Ctx, usage.PaidDocs.Range(a.ID), 10, "")
	c.Must(err)
	if len(docs) != 1 {
		t.Fatalf("%d documents of usage, want 1", len(docs))
	}
	version := docs[0].Version
	for i, data := range []string{`{"format":1,"answers":3,"voids":2,"charge":2007}`, `{"format":1}`, "garbage"} {
		c.Must(file.Commit(c.Ctx, store.Put{Key: docs[0].Key, IfVersion: version, WriteID: store.WriteID{byte(i + 1)}, Data: []byte(data)}))
		version++
		_, found := c.check(file)
		if len(found) != 1 || found[0].Check != fsck.Money || found[0].Location != billing.AccountKey(a.ID).String() {
			t.Errorf("with %s: found %v, want the account", data, found)
		}
	}
	recounter := usage.Recounter{Meter: &meter, Rows: file, Fold: func(ctx context.Context) error {
		_, err := meter.Fold(ctx)
		return err
	}}
	recount := func() {
		t.Helper()
		if done, err := recounter.Recount(c.Ctx); err != nil || done != (usage.RecountResult{Corrected: 1}) {
			t.Errorf("Recount() = %+v, %v, want 1 corrected", done, err)
		}
		whole("recounted")
	}
	recount()

	c.Time = c.Time.Add(24 * time.Hour)
	docs, _, err = file.Docs(c.Ctx, usage.SpentDocs.Range(a.ID), 10, "")
	c.Must(err)
	if len(docs) != 1 || docs[0].Number == 0 {
		t.Fatalf("spent by day: %v, want one day", docs)
	}
	c.Must(file.Commit(c.Ctx, store.Put{Key: docs[0].Key, IfVersion: docs[0].Version, WriteID: store.WriteID{9}, Number: docs[0].Number + 1}))
	if _, found := c.check(file); len(found) != 1 || found[0].Check != fsck.Money || !strings.Contains(found[0].Want, " spent on ") {
		t.Errorf("with a day of more: found %v, want the account", found)
	}
	recount()
}

// During a long check, usage contains calls that were stored after their rows were read.
func TestUsageOfHoursSinceTheCheckBeganIsNotCompared(t *testing.T) {
	st := openBolt(t, filepath.Join(t.TempDir(), "vacancy.db"))
	defer st.Close()
	c, a := paying(t, st)
	meter := usage.Meter{Store: st, Feed: st, Now: c.Now, Rand: rand.Reader, TenantOf: func(context.Context, identity.ID) (string, error) { return "", nil }}
	_, err := meter.Fold(c.Ctx)
	c.Must(err)
	c.Time = c.Time.Add(2 * time.Hour)
	done := false
	_, found := c.checkWith(busy{c.Store, false, func(read string) {
		if !done && read == billing.BalanceKey(a.ID, 0).String() {
			done = true
			c.Call("meanwhile")
			_, err := meter.Fold(c.Ctx)
			c.Must(err)
			c.Time = c.Time.Add(2 * time.Hour)
		}
	}}, fsck.Run)
	if len(found) > 0 || !done {
		t.Errorf("found %v; hours passed: %t", found, done)
	}
}
