package billing_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const ten = 10 * money.Dollar

func paid(a billing.Account, amount money.Amount) billing.Event {
	return billing.Event{PaymentID: "pi_1", Account: a.ID, Paid: amount}
}

func refunded(total money.Amount) billing.Event {
	return billing.Event{PaymentID: "pi_1", RefundedTotal: total}
}

func refund(id string, amount money.Amount, failed bool) billing.Event {
	return billing.Event{PaymentID: "pi_1", RefundID: id, RefundReport: billing.Refund{Amount: amount, Failed: failed}}
}

func disputed(id string, amount money.Amount, s billing.DisputeState) billing.Event {
	return billing.Event{PaymentID: "pi_1", DisputeID: id, DisputeReport: billing.Dispute{Amount: amount, State: s}}
}

// wantAccount requires the balance, what is owed and whether the account is suspended, and
// that the rows recount it.
func (w *world) wantAccount(id string, balance, owed money.Amount, suspended bool) {
	w.Helper()
	a, err := w.billing.Account(w.Context(), id)
	w.must(err)
	got, err := w.billing.Balance(w.Context(), &a)
	w.must(err)
	if got != balance || a.Owed != owed || a.Suspended != suspended {
		w.Errorf("balance %s, owed %s, suspended %t; want %s, %s, %t", got, a.Owed, a.Suspended, balance, owed, suspended)
	}
	changes, err := w.billing.Changes(w.Context(), id, 1, 1000)
	w.must(err)
	var added, owes money.Amount
	for _, c := range changes {
		added, owes = added+c.Amount, owes+c.Owed
	}
	if added != got || owes != a.Owed {
		w.Errorf("the rows add up to %s and %s owed, want %s and %s", added, owes, got, a.Owed)
	}
}

func TestAnAccountFollowsItsPayments(t *testing.T) {
	type step struct {
		event         billing.Event
		spend         money.Amount // before the event
		balance, owed money.Amount
		suspended     bool
	}
	all := func(a billing.Account) map[string][]step {
		return map[string][]step{
			"paid once, told three times": {{paid(a, ten), 0, ten, 0, false}, {paid(a, ten), 0, ten, 0, false}, {paid(a, ten), 0, ten, 0, false}},
			"something else":              {{billing.Event{}, 0, 0, 0, false}},
			"refunded in parts": {
				{paid(a, ten), 0, ten, 0, false}, {refunded(ten / 5), 0, ten * 4 / 5, 0, false},
				{refunded(ten / 2), 0, ten / 2, 0, false}, {refunded(ten / 5), 0, ten / 2, 0, false}, // the first comes late
			},
			"refunded before it is told to be paid": {{refunded(ten / 5), 0, 0, 0, false}, {paid(a, ten), 0, ten * 4 / 5, 0, false}},
			"refunded, as two events tell": {
				{paid(a, ten), 0, ten, 0, false}, {refunded(ten / 5), 0, ten * 4 / 5, 0, false}, {refund("re_1", ten/5, false), 0, ten * 4 / 5, 0, false},
				{refund("re_2", ten/5, false), 0, ten * 3 / 5, 0, false}, {refunded(ten * 2 / 5), 0, ten * 3 / 5, 0, false},
			},
			"a refund fails": {
				{paid(a, ten), 0, ten, 0, false}, {refunded(ten / 2), 0, ten / 2, 0, false}, {refund("re_1", ten/2, true), 0, ten, 0, false},
				{refunded(ten / 2), 0, ten, 0, false}, {refund("re_1", ten/2, false), 0, ten, 0, false}, {refund("re_1", ten/2, true), 0, ten, 0, false}, // each late or again
				{refunded(ten / 2), 0, ten, 0, false}, {refund("re_2", ten/2, false), 0, ten / 2, 0, false}, // and another is made
			},
			"a refund fails before anything else is told": {{refund("re_1", ten, true), 0, 0, 0, false}, {refund("re_1", ten, false), 0, 0, 0, false}, {paid(a, ten), 0, ten, 0, false}},
			"a refund fails that was spent": {
				{paid(a, ten), 0, ten, 0, false}, {refund("re_1", ten, false), ten / 2, 0, ten / 2, true},
				{refund("re_1", ten, true), 0, ten / 2, 0, true}, // the operator resumes
			},
			"one of three refunds fails": {
				{paid(a, ten), 0, ten, 0, false}, {refund("re_1", ten/5, false), 0, ten * 4 / 5, 0, false}, {refund("re_2", ten/2, false), 0, ten * 3 / 10, 0, false},
				{refund("re_2", ten/2, true), 0, ten * 4 / 5, 0, false}, {refund("re_3", ten/10, false), 0, ten * 7 / 10, 0, false},
			},
			"a pending refund fails because of a dispute": {
				{paid(a, ten), 0, ten, 0, false}, {refund("re_1", ten, false), 0, 0, 0, false},
				{disputed("dp_1", ten, billing.DisputeOpen), 0, 0, 0, false}, {refund("re_1", ten, true), 0, 0, 0, false}, {disputed("dp_1", ten, billing.DisputeWon), 0, ten, 0, false},
			},
			"more than it was":   {{paid(a, ten), 0, ten, 0, false}, {refunded(3 * ten), 0, 0, 0, false}},
			"refunded and spent": {{paid(a, ten), 0, ten, 0, false}, {refunded(ten), ten * 3 / 4, 0, ten * 3 / 4, true}},
			"disputed, won": {
				{paid(a, ten), 0, ten, 0, false}, {disputed("dp_1", ten, billing.DisputeOpen), 0, 0, 0, false},
				{disputed("dp_1", ten, billing.DisputeWon), 0, ten, 0, false}, {disputed("dp_1", ten, billing.DisputeOpen), 0, ten, 0, false},
			},
			"disputed and spent, won": {
				{paid(a, ten), 0, ten, 0, false}, {disputed("dp_1", ten, billing.DisputeOpen), ten / 2, 0, ten / 2, true},
				{disputed("dp_1", ten, billing.DisputeWon), 0, ten / 2, 0, true}, // the operator resumes
			},
			"disputed, lost": {
				{paid(a, ten), 0, ten, 0, false}, {disputed("dp_1", ten/2, billing.DisputeLost), 0, ten / 2, 0, false},
				{disputed("dp_1", ten/2, billing.DisputeOpen), 0, ten / 2, 0, false},
			},
			"refunded and disputed": {
				{paid(a, ten), 0, ten, 0, false}, {refunded(ten / 5), 0, ten * 4 / 5, 0, false},
				{disputed("dp_1", ten/5, billing.DisputeOpen), 0, ten * 3 / 5, 0, false}, {disputed("dp_2", ten/5, billing.DisputeOpen), 0, ten * 2 / 5, 0, false},
			},
			"won before it is paid": {{disputed("dp_1", ten, billing.DisputeWon), 0, 0, 0, false}, {paid(a, ten), 0, ten, 0, false}},
		}
	}
	for _, shards := range []int{1, 4, 16} {
		for name := range all(billing.Account{}) {
			t.Run(fmt.Sprintf("%s, %d shards", name, shards), func(t *testing.T) {
				w := newWorld(t)
				a := w.account("acme", shards, 0)
				for i, s := range all(a)[name] {
					if s.spend > 0 {
						_, _, err := w.billing.Adjust(t.Context(), a.ID, -s.spend, fmt.Sprint(i), "spent")
						w.must(err)
					}
					w.must(w.billing.SettlePayment(t.Context(), s.event))
					w.wantAccount(a.ID, s.balance, s.owed, s.suspended)
				}
			})
		}
	}
}

// What is owed is paid by what comes next, and by nothing twice.
func TestCreditsPayWhatIsOwed(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 4, 0)
	w.must(w.billing.SettlePayment(t.Context(), paid(a, ten)))
	_, _, err := w.billing.Adjust(t.Context(), a.ID, -ten, "spend", "spent")
	w.must(err)
	w.must(w.billing.SettlePayment(t.Context(), refunded(ten)))
	w.wantAccount(a.ID, 0, ten, true)
	for range 2 {
		_, _, err = w.billing.Credit(t.Context(), a.ID, 3*money.Dollar, "bank", "")
		w.must(err)
		w.wantAccount(a.ID, 0, 7*money.Dollar, true)
	}
	if _, _, err = w.billing.Credit(t.Context(), a.ID, 0, "bank", ""); !problem.Is(err, problem.Malformed) {
		t.Errorf("Credit(0) = %v", err)
	}
	w.must(w.billing.SettlePayment(t.Context(), billing.Event{PaymentID: "pi_2", Account: a.ID, Paid: ten}))
	w.wantAccount(a.ID, 3*money.Dollar, 0, true)
	_, err = w.billing.SetSuspended(t.Context(), a.ID, false, "paid")
	w.must(err)
	w.wantAccount(a.ID, 3*money.Dollar, 0, false)
}

// Only the operator resumes an account, whatever becomes of its payments meanwhile.
func TestPaymentsLiftNoSuspension(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 4, 0)
	w.must(w.billing.SettlePayment(t.Context(), paid(a, ten)))
	_, err := w.billing.SetSuspended(t.Context(), a.ID, true, "abuse")
	w.must(err)
	for _, e := range []billing.Event{
		refunded(ten / 5), refund("re_1", ten/5, false), refund("re_2", ten/5, false), refund("re_2", ten/5, true),
		disputed("dp_1", ten/5, billing.DisputeOpen), disputed("dp_1", ten/5, billing.DisputeWon), {PaymentID: "pi_2", Account: a.ID, Paid: ten},
	} {
		w.must(w.billing.SettlePayment(t.Context(), e))
		if now, err := w.billing.Account(t.Context(), a.ID); err != nil || !now.Suspended {
			t.Errorf("after %+v the account is not suspended, %v", e, err)
		}
	}
	w.wantAccount(a.ID, ten*9/5, 0, true)
}

func TestPaymentsThatContradictAreRefused(t *testing.T) {
	w := newWorld(t)
	a, b := w.account("acme", 4, 0), w.account("other", 4, 0)
	w.must(w.billing.SettlePayment(t.Context(), paid(a, ten)))
	for name, one := range map[string]struct {
		event billing.Event
		want  problem.Kind
	}{
		"another account": {paid(b, ten), problem.Conflict},
		"another amount":  {paid(a, 2*ten), problem.Conflict},
		"no money":        {billing.Event{PaymentID: "pi_2", Account: a.ID}, problem.Malformed},
		"negative":        {billing.Event{PaymentID: "pi_2", Account: a.ID, Paid: -ten}, problem.Malformed},
		"no account":      {billing.Event{PaymentID: "pi_2", Account: "acme", Paid: ten}, problem.Malformed},
		"unknown account": {billing.Event{PaymentID: "pi_2", Account: strings.Repeat("ab", 32), Paid: ten}, problem.NotFound},
	} {
		if err := w.billing.SettlePayment(t.Context(), one.event); !problem.Is(err, one.want) {
			t.Errorf("%s: %v, want %v", name, err, one.want)
		}
	}
	w.wantAccount(a.ID, ten, 0, false)
	w.wantAccount(b.ID, 0, 0, false)
}

// told returns the events of a payment of ten, and the amount that its refunds and disputes take in
// the end.
func told(r *rapid.T, a billing.Account) (events []billing.Event, taken money.Amount) {
	events = append(events, paid(a, ten))
	// Refunds begin and fail one by one. A total counts the refunds that have not failed
	// by then.
	var total money.Amount
	open := map[string]money.Amount{}
	for i := range rapid.IntRange(0, 8).Draw(r, "steps") {
		ids := slices.Sorted(maps.Keys(open))
		if len(ids) > 0 && rapid.Bool().Draw(r, "one fails") {
			id := rapid.SampledFrom(ids).Draw(r, "failed")
			events = append(events, refund(id, open[id], true))
			total -= open[id]
			delete(open, id)
			continue
		}
		id, amount := fmt.Sprint("re_", i), money.Amount(rapid.IntRange(1, 4).Draw(r, "amount"))*money.Dollar
		if total+amount > ten {
			continue // as the provider refuses it
		}
		open[id] = amount
		total += amount
		events = append(events, refund(id, amount, false), refunded(total))
	}
	taken = total
	for i := range rapid.IntRange(0, 3).Draw(r, "disputes") {
		id, amount := fmt.Sprint("dp_", i), money.Amount(rapid.IntRange(1, 4).Draw(r, "amount"))*money.Dollar
		events = append(events, disputed(id, amount, billing.DisputeOpen))
		end := rapid.SampledFrom([]billing.DisputeState{billing.DisputeOpen, billing.DisputeLost, billing.DisputeWon}).Draw(r, "end")
		if events = append(events, disputed(id, amount, end)); end != billing.DisputeWon {
			taken += amount
		}
	}
	return events, min(taken, ten)
}

// Whatever the order in which webhooks come, however often, and one by one or by many
// instances at once: the account ends as the last states say.
func TestWebhooksMayComeInAnyOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		a := w.account("acme", rapid.SampledFrom([]int{1, 4, 16}).Draw(r, "shards"), 0)
		events, taken := told(r, a)
		again := rapid.Permutation(slices.Concat(events, events)).Draw(r, "told")
		at := rapid.IntRange(0, len(again)).Draw(r, "spent at")
		spent := money.Amount(0)
		all, atOnce := sync.WaitGroup{}, rapid.Bool().Draw(r, "at once")
		for i, e := range again {
			if i == at {
				all.Wait()
				if _, _, err := w.billing.Adjust(t.Context(), a.ID, -ten/2, "spend", "spent"); err == nil {
					spent = ten / 2
				}
			}
			if !atOnce {
				w.must(w.billing.SettlePayment(t.Context(), e))
				continue
			}
			all.Go(func() {
				one := w.instance(w.store)
				for range 500 { // as a provider repeats it
					if one.SettlePayment(t.Context(), e) == nil {
						return
					}
				}
				t.Error("a webhook is not taken")
			})
		}
		all.Wait()
		now, err := w.billing.Account(t.Context(), a.ID)
		w.must(err)
		owed := max(taken+spent-ten, 0)
		w.wantAccount(a.ID, max(ten-taken-spent, 0), owed, now.Suspended)
		if owed > 0 && !now.Suspended {
			t.Errorf("%s is owed, and the account is not suspended", owed)
		}
	})
}

// Of many instances that are told at once, one credits and one takes back.
func TestWebhooksAtOnceMoveMoneyOnce(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 4, 0)
	var all sync.WaitGroup
	for range 8 {
		for _, e := range []billing.Event{
			paid(a, ten), refunded(2 * money.Dollar), disputed("dp_1", money.Dollar, billing.DisputeOpen),
			refund("re_1", 2*money.Dollar, false), refund("re_2", money.Dollar, false), refund("re_2", money.Dollar, true),
		} {
			all.Go(func() {
				for range 50 { // as a provider repeats it
					if err := w.instance(w.store).SettlePayment(t.Context(), e); err == nil {
						return
					}
				}
				t.Error("a webhook is not taken")
			})
		}
	}
	all.Wait()
	w.wantAccount(a.ID, 7*money.Dollar, 0, false)
}

func TestAWebhookThatDiesIsCompletedByTheNext(t *testing.T) {
	for name, events := range map[string]func(a billing.Account) []billing.Event{
		"paid":     func(a billing.Account) []billing.Event { return []billing.Event{paid(a, ten)} },
		"refunded": func(a billing.Account) []billing.Event { return []billing.Event{paid(a, ten), refunded(ten)} },
		"early":    func(a billing.Account) []billing.Event { return []billing.Event{refunded(ten), paid(a, ten)} },
		"failed": func(a billing.Account) []billing.Event {
			return []billing.Event{paid(a, ten), refund("re_1", ten, false), refund("re_1", ten, true)}
		},
		"won": func(a billing.Account) []billing.Event {
			return []billing.Event{paid(a, ten), disputed("dp_1", ten, billing.DisputeOpen), disputed("dp_1", ten, billing.DisputeWon)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, s *dying) bool {
				w := newWorldOver(t, s.Store)
				a := w.account("acme", 4, 0)
				all := events(a)
				for _, e := range all[:len(all)-1] {
					w.must(w.billing.SettlePayment(t.Context(), e))
				}
				last := all[len(all)-1]
				died := w.instance(s).SettlePayment(t.Context(), last) != nil
				w.must(w.billing.SettlePayment(t.Context(), last))
				w.wantAccount(a.ID, map[string]money.Amount{"paid": ten, "failed": ten, "won": ten}[name], 0, false)
				return !died
			})
		})
	}
}

func TestAmountsOfPaymentsAreChecked(t *testing.T) {
	for amount, ok := range map[money.Amount]bool{
		billing.MinPayment: true, billing.MaxPayment: true, 12_340_000: true, billing.MinPayment - billing.Cent: false,
		billing.MaxPayment + billing.Cent: false, 5_000_001: false, 0: false, -ten: false,
	} {
		if err := billing.CheckPayment(amount); (err == nil) != ok || err != nil && problem.AsError(err).Field != "amount" {
			t.Errorf("CheckPayment(%d) = %v", amount, err)
		}
	}
}
