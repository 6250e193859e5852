package fsck

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The rows are the ledger: an account's balance is the sum of its own rows, less the
// amounts that the rows of calls hold or charge. Requests and decisions of pairs come in
// any order, so only the sums are kept.

// ledger adds up the rows of one account.
type ledger struct {
	added   money.Amount               // by the rows of the account
	held    money.Amount               // by requests
	back    money.Amount               // by answers and voids
	hours   map[time.Time]usage.Counts // of decisions
	days    map[time.Time]money.Amount // of what calls and bookings cost
	account *billing.Account
	damaged bool // a row of it is unreadable, which is reported
}

// ledgerOf returns the ledger of an account, by its id.
func (r *run) ledgerOf(id [32]byte) *ledger {
	l := r.money[id]
	if l == nil {
		l = &ledger{hours: map[time.Time]usage.Counts{}, days: map[time.Time]money.Amount{}}
		r.money[id] = l
	}
	return l
}

// paid is how a request with a price is paid for.
type paid struct {
	by      call.PayerKind
	payer   [32]byte
	price   uint64
	version uint64
	due     time.Time
}

func paidBy(q *call.RequestRow) paid {
	return paid{q.PaidBy, q.Payer, q.Price, q.PriceVersion, q.Due}
}

// count adds a decision to the hour that usage counts it in.
func (l *ledger) count(p paid, r *call.ResponseRow) {
	c, at := usage.CountsOf(p.due, r)
	sum := l.hours[at.Truncate(time.Hour)]
	sum.Add(c)
	l.hours[at.Truncate(time.Hour)] = sum
	l.spend(at, c.Charge)
}

// spend adds what a call or a booking cost to the day that usage counts it in.
func (l *ledger) spend(at time.Time, amount money.Amount) {
	if amount != 0 {
		l.days[at.UTC().Truncate(24*time.Hour)] += amount
	}
}

// hold counts what a request holds, and checks that its price is there.
func (q *requests) hold(ctx context.Context, r *call.RequestRow) error {
	if r.PaidBy == call.PaidByNobody {
		return nil
	}
	p, ok, err := q.priceVersion(ctx, r.PriceVersion)
	if err != nil {
		return err
	}
	s := q.pair.Requests()
	switch {
	case !ok:
		q.found(inStream(s, r.Position, Money, fmt.Sprintf("version %d of the price of %s", r.PriceVersion, q.pair.Vacant.Short()), "none that can be read"))
	case r.PaidBy == call.PaidByAccount && r.Price != uint64(p.Hold()):
		q.found(inStream(s, r.Position, Money, fmt.Sprintf("a hold of %d, by version %d of the price", p.Hold(), p.Version), fmt.Sprint(r.Price)))
	case r.PaidBy == call.FreeOfDay && r.Price != 0:
		q.found(inStream(s, r.Position, Money, "a free call that holds nothing", fmt.Sprint(r.Price)))
	}
	if r.PaidBy == call.PaidByAccount {
		q.ledgerOf(r.Payer).held += money.Amount(r.Price)
	}
	return nil
}

// settle subtracts the part of a request's hold that a decision gives back.
func (a *responses) settle(ctx context.Context, p paid, r *call.ResponseRow) error {
	s := a.pair.Responses()
	if r.Charged != (r.Kind == call.RowAnswer && p.by != call.PaidByNobody) {
		a.found(inStream(s, r.Position, Money, "a charge in the answers to calls with a price, and in no other row", fmt.Sprintf("a charge: %t", r.Charged)))
	}
	if p.by == call.PaidByNobody {
		return nil
	}
	if r.Charge > p.price {
		a.found(inStream(s, r.Position, Money, fmt.Sprintf("a charge within the hold of %d", p.price), fmt.Sprint(r.Charge)))
	}
	if p.by != call.PaidByAccount {
		return nil
	}
	l := a.ledgerOf(p.payer)
	l.back += money.Amount(p.price) - money.Amount(r.Charge)
	l.count(p, r)
	if r.Kind != call.RowAnswer {
		return nil
	}
	v, ok, err := a.priceVersion(ctx, p.version)
	if err != nil || !ok {
		return err
	}
	var used call.Usage
	if r.Usage != nil {
		used = *r.Usage
	}
	if want := v.Charge(used.In, used.Out); uint64(want) != r.Charge {
		a.found(inStream(s, r.Position, Money, fmt.Sprintf("a charge of %d, by version %d of the price", want, p.version), fmt.Sprint(r.Charge)))
	}
	return nil
}

// priceVersion reads a version of the price of the vacant under check; ok is false if
// there is none that can be read.
func (q *requests) priceVersion(ctx context.Context, version uint64) (p price.Price, ok bool, err error) {
	if known, there := q.prices[version]; there {
		return known, known.Version > 0, nil
	}
	if p, err = price.Get(ctx, q.view, q.pair.Vacant, version); err != nil && !damaged(err) {
		return p, false, err
	}
	if q.prices == nil {
		q.prices = map[uint64]price.Price{}
	}
	q.prices[version] = p
	return p, p.Version > 0, nil
}

// accountRows checks the changes of an account.
func (r *run) accountRows(ctx context.Context, s store.Stream, id identity.ID) error {
	l := r.ledgerOf(id)
	rows := r.reader(s)
	var last uint64
	var owed money.Amount
	payments := map[string]money.Amount{} // by id: what they have added, what is owed less
	for {
		row, more, err := rows.next(ctx)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if row.Position == 0 {
			l.damaged = true
			continue
		}
		last = row.Position
		c, err := billing.DecodeChange(row)
		if err != nil {
			l.damaged = true
			r.found(inStream(s, row.Position, Row, "a change of an account", err.Error()))
			continue
		}
		if (c.Kind == billing.Opened) != (row.Position == 1) {
			r.found(inStream(s, row.Position, Money, "an account that only its first row opens", string(c.Kind)))
		}
		l.added += c.Amount
		owed += c.Owed
		if c.Payment != "" {
			payments[c.Payment] += c.Amount - c.Owed
		}
	}
	if err := r.payments(ctx, id, payments); err != nil {
		return err
	}
	if err := r.alone(ctx, store.OfAccount, id.String()); err != nil {
		return err
	}
	key := billing.AccountKey(id.String())
	d, err := r.document(ctx, key)
	if err != nil {
		return err
	}
	if d.Version == 0 {
		r.found(inDocument(key, Document, "the account of its rows", "none"))
		return nil
	}
	a, err := billing.AccountDocs.Parse(d)
	if err != nil {
		r.found(inDocument(key, Document, "an account", err.Error()))
		return nil
	}
	if a.Changes != last {
		r.found(inDocument(key, Money, fmt.Sprintf("%d changes, its rows", last), fmt.Sprint(a.Changes)))
	}
	if a.Owed != owed && !l.damaged {
		r.found(inDocument(key, Money, fmt.Sprintf("%s owed, by its rows", owed), a.Owed.String()))
	}
	l.account = &a
	return nil
}

// payments compares the payments of an account with what its rows say that they added.
func (r *run) payments(ctx context.Context, account identity.ID, added map[string]money.Amount) error {
	for _, id := range slices.Sorted(maps.Keys(added)) {
		d, err := r.document(ctx, billing.PaymentDocs.Key(id))
		if err != nil {
			return err
		}
		var p billing.Payment
		if d.Version > 0 {
			if p, err = billing.PaymentDocs.Parse(d); err != nil {
				r.found(inDocument(d.Key, Document, "a payment", err.Error()))
				continue
			}
		}
		if p.Account != account.String() || p.Paid-p.Taken != added[id] {
			r.found(inDocument(d.Key, Money, fmt.Sprintf("%s for account %s, by its rows", added[id], account), fmt.Sprintf("%s for account %.80q", p.Paid-p.Taken, p.Account)))
		}
	}
	return nil
}

// recount compares the balances with the rows, to the micro-dollar.
func (r *run) recount(ctx context.Context) error {
	ids := slices.SortedFunc(maps.Keys(r.money), func(a, b [32]byte) int { return slices.Compare(a[:], b[:]) })
	for _, id := range ids {
		l := r.money[id]
		key := billing.AccountKey(hex.EncodeToString(id[:]))
		if l.account == nil {
			if l.added == 0 && !l.damaged {
				r.found(inDocument(key, Money, "the account that rows of calls name", "none"))
			}
			continue
		}
		var balance money.Amount
		for n := range l.account.Shards {
			d, err := r.document(ctx, billing.BalanceKey(l.account.ID, n))
			if err != nil {
				return err
			}
			if d.Number < 0 {
				r.found(inDocument(d.Key, Money, "a balance from 0", fmt.Sprint(d.Number)))
			}
			balance += money.Amount(d.Number)
		}
		if want := l.added - l.held + l.back; balance != want && !l.damaged {
			r.found(inDocument(key, Money, fmt.Sprintf("a balance of %s: %s by its rows, less the %s that calls hold or cost", want, l.added, l.held-l.back), balance.String()))
		}
		if err := r.usage(ctx, l); err != nil {
			return err
		}
		if err := r.spent(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// usage compares an account's folded usage with its rows, by the hour. A host that folds
// nothing yet has no usage. Usage may lack rows of the last hour, and may have more rows
// than the walk in hours since the walk began.
func (r *run) usage(ctx context.Context, l *ledger) error {
	folded := map[time.Time]usage.Counts{}
	err := usage.Paid(ctx, r.Source, l.account.ID, time.Time{}, time.Time{}, func(h usage.Hour) error {
		sum := folded[h.Start]
		h.Fee, h.Unreported = 0, 0 // by the price of each call, which only usage sums up
		sum.Add(h.Counts)
		folded[h.Start] = sum
		return nil
	})
	if damaged(err) {
		r.found(inDocument(billing.AccountKey(l.account.ID), Money, "usage that can be read", problem.Of(err).Error()))
		return nil
	}
	if err != nil || len(folded) == 0 || l.damaged {
		return err
	}
	settled := usage.Complete(r.Now()).Truncate(time.Hour)
	for _, hour := range slices.SortedFunc(maps.Keys(l.hours), time.Time.Compare) {
		if want, got := l.hours[hour], folded[hour]; hour.Before(settled) && got != want {
			r.found(inDocument(billing.AccountKey(l.account.ID), Money, fmt.Sprintf("usage in the hour from %s: %+v, by its rows", hour.Format(time.RFC3339), want), fmt.Sprintf("%+v", got)))
		}
		delete(folded, hour)
	}
	for hour, got := range folded {
		if hour.Before(settled) && got != (usage.Counts{}) { // which a correction leaves
			r.found(inDocument(billing.AccountKey(l.account.ID), Money, fmt.Sprintf("no usage in the hour from %s, by its rows", hour.Format(time.RFC3339)), fmt.Sprintf("%+v", got)))
		}
	}
	return nil
}

// spent compares an account's folded spending with its rows, by the day.
func (r *run) spent(ctx context.Context, l *ledger) error {
	key := billing.AccountKey(l.account.ID)
	folded := map[time.Time]money.Amount{}
	err := usage.Spent(ctx, r.Source, l.account.ID, func(day time.Time, amount money.Amount) error {
		folded[day] = amount
		return nil
	})
	if damaged(err) {
		r.found(inDocument(key, Money, "days of usage that can be read", problem.Of(err).Error()))
		return nil
	}
	if err != nil || len(folded) == 0 || l.damaged {
		return err
	}
	over := usage.Complete(r.Now()).Truncate(24 * time.Hour)
	for day := range l.days {
		folded[day] += 0 // a day that usage does not have
	}
	for _, day := range slices.SortedFunc(maps.Keys(folded), time.Time.Compare) {
		if want, got := l.days[day], folded[day]; day.Before(over) && got != want {
			r.found(inDocument(key, Money, fmt.Sprintf("%s spent on %s, by its rows", want, day.Format(time.DateOnly)), got.String()))
		}
	}
	return nil
}
