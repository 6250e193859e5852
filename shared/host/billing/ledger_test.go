package billing_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/due"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestAnAnsweredCallIsChargedOnce(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 4, 10_000)
	c, h := w.linked(a, 0), w.host()
	out := c.say(h, "hi")
	w.wantOutcome("Send()", out, 0)
	w.wantBalance(a, 8000)
	if out.Charge != 2000 || out.Price.Version != 1 {
		t.Errorf("Charge = %v of version %v, want 2000 of 1", out.Charge, out.Price)
	}
	r := c.row(1)
	if hex.EncodeToString(r.Payer[:]) != a.ID || r.PaidBy != call.PaidByAccount || r.Price != 2000 || r.PriceVersion != 1 {
		t.Errorf("the row says %+v, want that acme pays", r)
	}
	for range 2 {
		resent := h.Send(t.Context(), identity.ID{}, c.last)
		if resent.State != call.Answered {
			t.Errorf("a resend is %v %q", resent.Problem, resent.State)
		}
	}
	w.wantBalance(a, 8000)
	w.wantOutcome("a failing call", c.say(h, "fail"), problem.BehaviourFailed)
	w.wantBalance(a, 8000)
}

func TestNobodyPaysTwiceForWhatIsMissing(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 4, 3000)
	c, h := w.linked(a, 0), w.host()
	stranger := w.caller()
	out := stranger.say(h, "hi")
	w.wantOutcome("a call that nobody pays for", out, problem.PaymentRequired)
	if len(out.PaymentOptions) < 2 || !out.HasChain {
		t.Errorf("Pay = %s, chain told %t", out.PaymentOptions, out.HasChain)
	}
	w.wantOutcome("the first call", c.say(h, "one"), 0)
	refused := c.say(h, "two")
	w.wantOutcome("the second call", refused, problem.PaymentRequired)
	if len(refused.PaymentOptions) != len(out.PaymentOptions)+1 || !strings.Contains(string(refused.PaymentOptions[0]), `{"way":"credit",`) {
		t.Errorf("a short balance names %s, nobody who pays %s", refused.PaymentOptions, out.PaymentOptions)
	}
	w.wantBalance(a, 1000)
	_, _, err := w.billing.Credit(t.Context(), a.ID, 1000, "second", "")
	w.must(err)
	w.wantOutcome("after a credit", c.say(h, "two"), 0)
	w.wantBalance(a, 0)
}

func TestACallThatNoShardCoversIsPaidByAll(t *testing.T) {
	w := newWorld(t)
	w.price = &price.Price{Version: 1, Flat: 1000}
	a := w.account("acme", 16, 1000) // 62 and 70 in a shard
	c, h := w.linked(a, 0), w.host()
	w.wantOutcome("Send()", c.say(h, "hi"), 0)
	w.wantBalance(a, 0)
	_, _, err := w.billing.Credit(t.Context(), a.ID, 1000, "second", "")
	w.must(err)
	w.wantOutcome("a failing call", c.say(h, "fail"), problem.BehaviourFailed)
	w.wantBalance(a, 1000)
	w.wantOutcome("by the one shard that has it", c.say(h, "again"), 0)
	w.wantBalance(a, 0)
}

// 64 writers in 4 processes race for what pays for 20 calls, over 16 shards.
func TestTheLastCentIsSpentOnce(t *testing.T) {
	file, err := bolt.Open(filepath.Join(t.TempDir(), "data"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := newWorldOver(t, file)
	w.price = &price.Price{Version: 1, Flat: 100}
	a := w.account("acme", 16, 2050)
	var paid, refused atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		h := w.hostOf(file, w.instance(file))
		for range 16 {
			c := w.linked(a, 0)
			all.Go(func() {
				for range 3 {
					out := c.say(h, "hi")
					switch {
					case out.Problem == nil:
						paid.Add(1)
					case problem.Is(out.Problem, problem.PaymentRequired):
						refused.Add(1)
					default:
						t.Errorf("Send() = %v", out.Problem)
					}
				}
			})
		}
	}
	all.Wait()
	if paid.Load() != 20 || paid.Load()+refused.Load() != 64*3 {
		t.Errorf("%d calls are paid and %d refused, want 20 and %d", paid.Load(), refused.Load(), 64*3-20)
	}
	w.wantBalance(a, 50)
}

func TestTokensCostWhatIsReported(t *testing.T) {
	w := newWorld(t)
	w.price = &price.Price{Version: 1, Flat: 10, InputPrice: 3 * money.Dollar, OutputPrice: 15 * money.Dollar, MaxCharge: 5000}
	var used *call.Usage
	w.behave = func(ctx context.Context, _ *call.Host, _ envelope.Envelope) (envelope.Message, error) {
		if used != nil {
			call.RecordUsage(ctx, *used)
		}
		return envelope.Message{Role: envelope.RoleAgent, Parts: []string{"done"}}, nil
	}
	a := w.account("acme", 4, 100_000)
	c, h := w.linked(a, 0), w.host()
	left := money.Amount(100_000)
	for _, tt := range []struct {
		used *call.Usage
		want money.Amount
	}{
		{nil, 10},
		{&call.Usage{InputTokens: 100, OutputTokens: 20}, 10 + 300 + 300},
		{&call.Usage{InputTokens: 1 << 40}, 5000},
	} {
		used = tt.used
		out := c.say(h, "hi")
		w.wantOutcome("Send()", out, 0)
		if out.Charge != tt.want {
			t.Errorf("with %+v the charge is %d, want %d", tt.used, out.Charge, tt.want)
		}
		left -= tt.want
		w.wantBalance(a, left)
	}
}

// A price that changes while a call runs is the next call's.
func TestAChangedPriceIsTheNextCalls(t *testing.T) {
	w := newWorld(t)
	w.price = &price.Price{Version: 1, InputPrice: money.Dollar, MaxCharge: 5000}
	old := *w.price
	data, err := price.VersionDocs.Encode(old)
	w.must(err)
	w.must(w.store.Commit(t.Context(), store.Put{Key: price.VersionKey(w.vacant.ID(), 1), WriteID: store.WriteID{1}, Data: data}))
	a := w.account("acme", 1, 10_000)
	c := w.linked(a, 0)
	w.behave = func(ctx context.Context, _ *call.Host, _ envelope.Envelope) (envelope.Message, error) {
		call.RecordUsage(ctx, call.Usage{InputTokens: 1000})
		return envelope.Message{Role: envelope.RoleAgent, Parts: []string{"done"}}, nil
	}
	h := w.host()
	e := c.next("hi")
	accepted, out := h.AcceptForRun(t.Context(), identity.ID{}, e, call.Options{})
	w.wantOutcome("AcceptForRun()", out, 0)
	w.wantBalance(a, 5000)
	next := w.host()
	v := next.Directory.(call.SingleVacant)
	v.Price = &price.Price{Version: 2, Flat: 9999}
	next.Directory = v
	out = next.Resume(t.Context(), accepted.Pair, 1, call.Options{})
	w.wantOutcome("Resume() under another price", out, 0)
	if out.Charge != 1000 {
		t.Errorf("Charge = %v, want the tokens by version 1", out.Charge)
	}
	w.wantBalance(a, 9000)
}

func TestFreeCallsOfADayAreCounted(t *testing.T) {
	w := newWorld(t)
	w.price = &price.Price{Version: 1, Flat: 2000, FreePerSigner: 2, FreePerAddress: 3, FreeTotal: 20}
	h := w.host()
	from := func(n byte) call.Credential { return call.Credential{Address: "192.0.2." + string('0'+n) + "/32"} }
	c := w.caller()
	w.wantOutcome("the first", c.say(h, "a", from(1)), 0)
	if r := c.row(1); r.PaidBy != call.PaidByFreeCall || r.Price != 0 || r.Payer != [32]byte{} {
		t.Errorf("the row of a free call says %+v", r)
	}
	for range 3 { // a replay burns none
		if out := h.SendWith(t.Context(), identity.ID{}, c.last, call.Options{Credential: from(1)}); out.State != call.Answered {
			t.Fatalf("a resend is %v", out.Problem)
		}
	}
	w.wantOutcome("the second", c.say(h, "b", from(1)), 0)
	w.wantOutcome("the third", c.say(h, "c", from(1)), problem.PaymentRequired)
	w.wantOutcome("the third, by another host", c.say(w.hostOf(w.store, w.instance(w.store)), "c", from(1)), problem.PaymentRequired)
	second := w.caller()
	w.wantOutcome("another caller of the address", second.say(h, "a", from(1)), 0)
	w.wantOutcome("its second, the address's fourth", second.say(h, "b", from(1)), problem.PaymentRequired)
	w.wantOutcome("its second from elsewhere", second.say(h, "b", from(2)), 0)
	w.clock.Advance(12 * time.Hour)
	w.wantOutcome("the next day", c.say(h, "c", from(1)), 0)
}

// Free calls are for owners without an account: each signer has its own, and guests of an
// address share theirs. Whoever of an account sends a request, the account pays.
func TestFreeCallsAreCountedByOwner(t *testing.T) {
	w := newWorld(t)
	w.price = &price.Price{Version: 1, Flat: 2000, FreePerSigner: 1, FreePerAddress: 3}
	acme, other := w.account("acme", 1, 100_000), w.account("other", 1, 100_000)
	nobody := call.Credential{Address: "192.0.2.1/32"}
	of := func(a billing.Account, subject, key string) call.Credential {
		return call.Credential{Address: nobody.Address, Payer: &call.Payer{Account: a.ID, Subject: subject, Key: key}}
	}
	h := w.host()
	const paid, free, refused = call.PaidByAccount, call.PaidByFreeCall, call.Unpriced
	for _, tt := range []struct {
		who   string
		guest bool
		by    [2]call.Credential // of two calls
		want  [2]call.PayerKind
	}{
		{"two keys of acme", true, [2]call.Credential{of(acme, "", "k1"), of(acme, "", "k2")}, [2]call.PayerKind{paid, paid}},
		{"x and y of acme", true, [2]call.Credential{of(acme, "x", "kx"), of(acme, "y", "ky")}, [2]call.PayerKind{paid, paid}},
		{"a key and x of other", true, [2]call.Credential{of(other, "", "k1"), of(other, "x", "kx")}, [2]call.PayerKind{paid, paid}},
		{"a signer", false, [2]call.Credential{nobody, nobody}, [2]call.PayerKind{free, refused}},
		{"another signer", false, [2]call.Credential{nobody, nobody}, [2]call.PayerKind{free, refused}},
		{"a guest, the third of the address", true, [2]call.Credential{nobody, nobody}, [2]call.PayerKind{free, refused}},
		{"another guest of the address", true, [2]call.Credential{nobody, nobody}, [2]call.PayerKind{refused, refused}},
	} {
		c := w.caller()
		for i, want := range tt.want {
			e := c.next("hi")
			out := h.SendWith(t.Context(), identity.ID{}, e, call.Options{Guest: tt.guest, Credential: tt.by[i]})
			if want == refused {
				w.wantOutcome(tt.who, out, problem.PaymentRequired)
				continue
			}
			w.wantOutcome(tt.who, out, 0)
			c.last = e
			if got := c.row(uint64(e.Seq)).PaidBy; got != want {
				t.Errorf("call %d of %s is paid by %d, want %d", i, tt.who, got, want)
			}
		}
	}
	w.wantBalance(acme, 100_000-4*2000)
	w.wantBalance(other, 100_000-2*2000)
}

// A quota of one call admits one call of each party, and a party that differs in one thing has a quota of its own.
func TestAQuotaOfOneFreeCallAdmitsOne(t *testing.T) {
	const here, there = "192.0.2.1/32", "192.0.2.2/32"
	for _, tt := range []struct {
		name    string
		price   price.Price
		guest   bool
		again   string // address of the same caller's next call
		another string // address of another caller's call
		passes  bool   // the other caller's call is free
	}{
		{"a caller", price.Price{FreePerSigner: 1}, false, there, here, true},
		{"an address of callers", price.Price{FreePerSigner: 9, FreePerAddress: 1}, false, here, there, true},
		{"an address of two callers", price.Price{FreePerSigner: 9, FreePerAddress: 1}, false, here, here, false},
		{"an address of guests", price.Price{FreePerAddress: 1}, true, here, there, true},
		{"an address of two guests", price.Price{FreePerAddress: 1}, true, here, here, false},
		{"all callers", price.Price{FreePerSigner: 9, FreeTotal: 1}, false, here, there, false},
		{"all guests", price.Price{FreePerAddress: 9, FreeTotal: 1}, true, here, there, false},
	} {
		w := newWorld(t)
		w.price = &tt.price
		w.price.Version, w.price.Flat = 1, 2000
		send := func(what string, c *caller, address string, isFree bool) {
			t.Helper()
			e, want := c.next("hi"), problem.PaymentRequired
			if isFree {
				want = 0
			}
			out := w.host().SendWith(t.Context(), identity.ID{}, e, call.Options{Guest: tt.guest, Credential: call.Credential{Address: address}})
			w.wantOutcome(tt.name+": "+what, out, want)
			if isFree {
				c.last = e
			}
		}
		first := w.caller()
		send("the first call", first, here, true)
		send("the second call", first, tt.again, false)
		send("a call of another", w.caller(), tt.another, tt.passes)
		w.vacant = newKey(t)
		send("a call to another vacant", &caller{world: w, key: first.key}, here, true)
	}
}

// A quota that is raised counts at once, also for a caller who was refused before.
func TestARaisedQuotaOfFreeCallsCountsAtOnce(t *testing.T) {
	w := newWorld(t)
	c := w.caller()
	for free := int64(1); free <= 3; free++ {
		w.price = &price.Price{Version: uint64(free), Flat: 2000, FreePerSigner: free, FreeTotal: free}
		w.wantOutcome("a free call", c.say(w.host(), "hi"), 0)
		for range 2 { // the second is refused from memory
			w.wantOutcome("a call too many", c.say(w.host(), "hi"), problem.PaymentRequired)
		}
	}
}

func TestFreeCallsOfAllAreCountedInParts(t *testing.T) {
	w := newWorld(t)
	w.price = &price.Price{Version: 1, Flat: 2000, FreePerSigner: 1, FreeTotal: 37}
	var free, refused atomic.Int64
	var all sync.WaitGroup
	for range 2 {
		h := w.hostOf(w.store, w.instance(w.store))
		for range 30 {
			all.Go(func() {
				out := w.caller().say(h, "hi")
				if out.Problem == nil {
					free.Add(1)
				} else if problem.Is(out.Problem, problem.PaymentRequired) {
					refused.Add(1)
				} else {
					t.Errorf("Send() = %v", out.Problem)
				}
			})
		}
	}
	all.Wait()
	if free.Load() != 37 || refused.Load() != 23 {
		t.Errorf("%d calls are free and %d refused, want 37 and 23", free.Load(), refused.Load())
	}
	// A host that knows it asks the store for nothing more.
	s := &recording{Store: w.store}
	h := w.hostOf(s, w.instance(s))
	for i := range 3 {
		s.written.Reset()
		w.wantOutcome("a call too many", w.caller().say(h, "hi"), problem.PaymentRequired)
		if i > 0 && s.written.Len() > 0 {
			t.Errorf("refusal %d tries to write %q", i, s.written.String())
		}
	}
}

func TestResetsDrawOnFreeCallsButNotAPayers(t *testing.T) {
	w := newWorld(t)
	w.price = &price.Price{Version: 1, Flat: 2000, FreePerSigner: 2}
	h := w.host()
	reset := func(c *caller) call.Outcome {
		w.clock.Advance(time.Second)
		e := &envelope.Envelope{From: c.key.ID(), To: w.vacant.ID(), Seq: 1, Time: w.clock.NowFunc(0)(), Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{envelope.ResetText}}}
		_, err := e.Sign(t.Context(), c.key)
		w.must(err)
		return h.Reset(t.Context(), identity.ID{}, e)
	}
	c := w.caller()
	w.wantOutcome("a call", c.say(h, "hi"), 0)
	w.wantOutcome("a reset", reset(c), 0)
	out := reset(c)
	w.wantOutcome("a reset too many", out, problem.PaymentRequired)
	if len(out.PaymentOptions) == 0 {
		t.Error("a reset that is refused names no way to pay")
	}
	a := w.account("acme", 1, 0)
	payer := w.linked(a, 0)
	for range 4 {
		w.wantOutcome("a payer's reset", reset(payer), 0)
	}
}

func TestCapsOfADay(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 100_000)
	h := w.host()
	c := w.linked(a, 4000)
	w.wantOutcome("one", c.say(h, "a"), 0)
	w.wantOutcome("two", c.say(h, "b"), 0)
	w.wantOutcome("over the link's cap", c.say(h, "c"), problem.SpendCapReached)
	k, _, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{DailyCap: 2000})
	w.must(err)
	by := call.Credential{Payer: &call.Payer{Account: a.ID, Tenant: "acme", Key: k.ID, DailyCap: k.DailyCap}}
	plain := w.caller()
	w.wantOutcome("by a key", plain.say(h, "a", by), 0)
	w.wantOutcome("over the key's cap", plain.say(h, "b", by), problem.SpendCapReached)
	if _, err := w.billing.SetDailyCap(t.Context(), a.ID, 2000); err != nil {
		t.Fatal(err)
	}
	other := w.linked(a, 0)
	w.wantOutcome("within the account's cap", other.say(h, "a"), 0)
	w.wantOutcome("over the account's cap", other.say(h, "b"), problem.SpendCapReached)
	w.clock.Advance(12 * time.Hour)
	w.wantOutcome("the next day", other.say(h, "b"), 0)
	w.wantBalance(a, 100_000-5*2000)
}

// Links, keys and accounts that differ in nothing else have each a cap of the day.
func TestCapsOfADayAreOfOneParty(t *testing.T) {
	w := newWorld(t)
	h := w.host()
	acme, other := w.account("acme", 1, 100_000), w.account("other", 1, 100_000)
	spend := func(what string, say func() call.Outcome) {
		t.Helper()
		w.wantOutcome(what, say(), 0)
		w.wantOutcome(what+" again", say(), problem.SpendCapReached)
	}
	for i := range 2 {
		link := w.linked(acme, 2000)
		spend(fmt.Sprint("link ", i), func() call.Outcome { return link.say(h, "hi") })
		k, _, err := w.billing.MakeKey(t.Context(), acme.ID, billing.KeyOptions{DailyCap: 2000})
		w.must(err)
		by := call.Credential{Payer: &call.Payer{Account: acme.ID, Tenant: "acme", Key: k.ID, DailyCap: k.DailyCap}}
		spend(fmt.Sprint("key ", i), func() call.Outcome { return w.caller().say(h, "hi", by) })
	}
	for _, a := range []billing.Account{acme, other} {
		_, err := w.billing.SetDailyCap(t.Context(), a.ID, 10_000)
		w.must(err)
	}
	last := w.linked(acme, 0)
	for range 5 { // what the account has spent before is not counted in a cap that was set later
		w.wantOutcome("acme within its cap", last.say(h, "hi"), 0)
	}
	w.wantOutcome("acme over its cap", last.say(h, "hi"), problem.SpendCapReached)
	w.wantOutcome("the other account", w.linked(other, 0).say(h, "hi"), 0)
}

func TestSuspensionUnlinkAndRevocationCountFromTheNextCall(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 100_000)
	h, c := w.host(), w.linked(a, 0)
	w.wantOutcome("before", c.say(h, "a"), 0)
	_, err := w.billing.SetSuspended(t.Context(), a.ID, true, "unpaid")
	w.must(err)
	w.wantOutcome("suspended", c.say(h, "b"), problem.AccountSuspended)
	_, err = w.billing.SetSuspended(t.Context(), a.ID, false, "")
	w.must(err)
	w.wantOutcome("resumed", c.say(h, "b"), 0)
	w.must(w.billing.Unlink(t.Context(), nil, a.ID, c.key.ID()))
	w.wantOutcome("unlinked", c.say(h, "c"), problem.PaymentRequired)
	w.wantBalance(a, 96_000)
}

func TestATestKeyCallsItsOwnTenantsVacantsUnbilled(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 5000)
	w.tenant = "acme"
	by := call.Credential{Payer: &call.Payer{Account: a.ID, Tenant: "acme", Key: "k", Test: true}}
	h, c := w.host(), w.caller()
	w.wantOutcome("its own", c.say(h, "hi", by), 0)
	if r := c.row(1); r.PaidBy != call.Unpriced || r.Price != 0 {
		t.Errorf("the row says %+v", r)
	}
	w.wantBalance(a, 5000)
	for _, tenant := range []string{"other", ""} {
		w.tenant = tenant
		w.wantOutcome("another's", c.say(w.host(), "hi", by), problem.TestKeyNotAllowed)
	}
	nobodys := call.Credential{Payer: &call.Payer{Account: a.ID, Key: "k", Test: true}}
	w.wantOutcome("the operator's, by a key without a tenant", c.say(w.host(), "hi", nobodys), problem.TestKeyNotAllowed)
	w.price = nil
	w.wantOutcome("another's that is free", c.say(w.host(), "hi", by), problem.TestKeyNotAllowed)
}

// A claim counts once, in the order of the times, and an id has one payer.
func TestAnIdHasOnePayer(t *testing.T) {
	w := newWorld(t)
	a, b := w.account("acme", 1, 0), w.account("other", 1, 0)
	c := w.caller()
	first := c.claim(a.ID, 5)
	l, err := w.billing.Link(t.Context(), a.ID, first)
	w.must(err)
	again, err := w.billing.Link(t.Context(), a.ID, first)
	if err != nil || !reflect.DeepEqual(again, l) {
		t.Errorf("Link() again = %v, %v", again, err)
	}
	_, err = w.billing.Link(t.Context(), b.ID, first)
	w.wantRefusal("Link() of another's claim", err, problem.Malformed)
	w.clock.Advance(time.Second)
	_, err = w.billing.Link(t.Context(), b.ID, c.claim(b.ID, 0))
	w.wantRefusal("Link() to a second account", err, problem.Conflict)
	w.must(w.billing.Unlink(t.Context(), nil, a.ID, c.key.ID()))
	_, err = w.billing.Link(t.Context(), a.ID, first)
	w.wantRefusal("Link() by a claim that was used", err, problem.Replay)
	w.wantRefusal("Unlink() again", w.billing.Unlink(t.Context(), nil, a.ID, c.key.ID()), problem.NotFound)
	_, err = w.billing.Link(t.Context(), b.ID, c.claim(b.ID, 0))
	w.must(err)
	w.wantRefusal("Unlink() by another account", w.billing.Unlink(t.Context(), nil, a.ID, c.key.ID()), problem.NotFound)
	w.clock.Advance(time.Second)
	ends := c.claim("", 0)
	w.must(w.billing.UnlinkByClaim(t.Context(), ends))
	w.must(w.billing.UnlinkByClaim(t.Context(), ends))
	for account, want := range map[string]int{a.ID: 0, b.ID: 0} {
		if links, err := w.billing.Links(t.Context(), account); err != nil || len(links) != want {
			t.Errorf("Links() = %v, %v, want %d", links, err, want)
		}
	}
	old := c.claim(a.ID, 0)
	w.clock.Advance(10 * time.Minute)
	_, err = w.billing.Link(t.Context(), a.ID, old)
	w.wantRefusal("Link() by an old claim", err, problem.ClockSkew)
	w.self = identity.ID{0xbb}
	foreign := c.claim(a.ID, 0)
	w.self = identity.ID{0xaa}
	_, err = w.billing.Link(t.Context(), a.ID, foreign)
	w.wantRefusal("Link() by a claim for another host", err, problem.Malformed)
}

func TestTheSweeperVoidsWhatIsOverdueAndForgetsTheRest(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 4, 100_000)
	h := w.host()
	sweep := func() due.SweepResult {
		t.Helper()
		s, err := w.billing.Sweep(t.Context(), h)
		w.must(err)
		return s
	}
	sweep() // as a host does when it starts
	answered, crashed := w.linked(a, 0), w.linked(a, 0)
	w.wantOutcome("answered", answered.say(h, "hi"), 0)
	e := crashed.next("hi")
	if _, out := h.AcceptForRun(t.Context(), identity.ID{}, e, call.Options{}); out.Problem != nil { // and no Run
		t.Fatal(out.Problem)
	}
	w.wantBalance(a, 96_000)
	if s := sweep(); s.Finished != 0 {
		t.Errorf("Sweep() before anything is due = %+v", s)
	}
	w.clock.Advance(3 * time.Minute)
	if s := sweep(); s.Finished != 2 || s.Waiting != 0 {
		t.Errorf("Sweep() = %+v, want two decided", s)
	}
	w.wantBalance(a, 98_000)
	if s := sweep(); s.Finished != 0 {
		t.Errorf("Sweep() again = %+v, want none", s)
	}
	if out := h.Send(t.Context(), identity.ID{}, e); out.State != call.Unanswered {
		t.Errorf("a resend is %q", out.State)
	}
	w.wantBalance(a, 98_000)
}

// A call is voided a minute after it is due at the earliest: its executor, whose clock may differ, may be about to answer.
func TestTheSweeperLeavesACallAMinuteAfterItIsDue(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 100_000)
	h := w.host()
	_, err := w.billing.Sweep(t.Context(), h)
	w.must(err)
	c := w.linked(a, 0)
	e := c.next("hi")
	if _, out := h.AcceptForRun(t.Context(), identity.ID{}, e, call.Options{}); out.Problem != nil {
		t.Fatal(out.Problem)
	}
	row, err := w.store.Tip(t.Context(), call.Pair{Caller: e.From, Vacant: e.To}.Requests())
	w.must(err)
	request, err := call.DecodeRequest(row)
	w.must(err)
	for {
		now := w.billing.Now()
		s, err := w.billing.Sweep(t.Context(), h)
		w.must(err)
		if late := now.Sub(request.Due); s.Finished > 0 {
			if late < time.Minute || late > 3*time.Minute {
				t.Errorf("voided %s after it is due, want a minute or two", late)
			}
			return
		} else if late > 5*time.Minute {
			t.Fatal("it is never voided")
		}
		w.clock.Advance(5 * time.Second)
	}
}

// A clock that is ten minutes ahead or behind makes no call void early or stay.
func TestTheSweeperLooksBehindItsOffset(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 100_000)
	h := w.host()
	ahead := billing.New(billing.Config{Store: w.store, Now: w.clock.NowFunc(9 * time.Minute), Rand: w.billing.Rand, MAC: w.billing.MAC, Self: w.billing.Self})
	_, err := ahead.Sweep(t.Context(), h)
	w.must(err)
	c := w.linked(a, 0)
	if _, out := h.AcceptForRun(t.Context(), identity.ID{}, c.next("hi"), call.Options{}); out.Problem != nil {
		t.Fatal(out.Problem)
	}
	w.clock.Advance(3 * time.Minute)
	s, err := w.billing.Sweep(t.Context(), h)
	if err != nil || s.Finished != 1 {
		t.Errorf("Sweep() = %+v, %v, want the call before the offset", s, err)
	}
	w.wantBalance(a, 100_000)
}

// A refund and a late answer compete for one position.
func TestARefundAndALateAnswerAreNotBoth(t *testing.T) {
	for range 50 {
		w := newWorld(t)
		a := w.account("acme", 1, 2000)
		h := w.host()
		c := w.linked(a, 0)
		accepted, out := h.AcceptForRun(t.Context(), identity.ID{}, c.next("hi"), call.Options{})
		w.wantOutcome("AcceptForRun()", out, 0)
		w.clock.Advance(3 * time.Minute)
		var all sync.WaitGroup
		var answered call.Outcome
		all.Go(func() { answered = h.Run(context.Background(), accepted) })
		for range 2 {
			all.Go(func() {
				if _, err := w.billing.Sweep(context.Background(), w.host()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		want := money.Amount(2000)
		if answered.Problem == nil {
			want = 0
		}
		w.wantBalance(a, want)
	}
}

// lossy is a store whose commits of every third call are applied, and the
// acknowledgement lost.
type lossy struct {
	store.Store
	n atomic.Int64
}

func (s *lossy) Commit(ctx context.Context, writes ...store.Write) error {
	err := s.Store.Commit(ctx, writes...)
	if err == nil && s.n.Add(1)%3 == 0 {
		return errors.Join(store.ErrUnavailable, errors.New("lost"))
	}
	return err
}

func TestMoneyIsNotLostWithAcknowledgements(t *testing.T) {
	w := newWorldOver(t, &lossy{Store: memory.New()})
	a := w.account("acme", 4, 100_000)
	h, c := w.host(), w.linked(a, 0)
	left := money.Amount(100_000)
	for i := range 30 {
		text := "hi"
		if i%3 == 0 {
			text = "fail"
		}
		if out := c.say(h, text); out.Problem == nil {
			left -= 2000
		} else if !problem.Is(out.Problem, problem.BehaviourFailed) {
			t.Fatal(out.Problem)
		}
		w.wantBalance(a, left)
	}
	for i := range 10 {
		_, _, err := w.billing.Credit(t.Context(), a.ID, 10, name(i), "")
		w.must(err)
	}
	w.wantBalance(a, left+100)
}

// torn is a store in which an account is credited once its shards have been read.
type torn struct {
	store.Store
	reads  atomic.Int64
	shards int64
	credit func()
}

func (s *torn) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	d, err := s.Store.Doc(ctx, k)
	if strings.HasPrefix(k.Partition, "bal#") && s.reads.Add(1) == s.shards {
		s.credit()
	}
	return d, err
}

// Shards that are short in one read, while money moves between them, are read again before a call
// is refused.
func TestShardsThatChangeAreReadAgain(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 4, 1000)
	c := w.linked(a, 1_000_000)
	s := &torn{Store: w.store, shards: 4, credit: func() {
		_, _, err := w.billing.Credit(context.Background(), a.ID, 3000, "second", "")
		w.must(err)
	}}
	if out := c.say(w.hostOf(s, w.instance(s)), "hi"); out.Problem != nil || s.reads.Load() < 8 {
		t.Errorf("after %d reads of shards: %v, want an answer", s.reads.Load(), out.Problem)
	}
	w.wantBalance(a, 2000)
}
