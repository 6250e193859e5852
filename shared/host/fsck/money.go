package fsck

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The rows determine all balances. An account's balance is the sum of its own rows minus the
// amounts that the rows of calls and bookings hold (reserve until the decision) or charge. Requests
// and their decisions are read in any order, so only sums are stored.

// ledger contains the sums of the rows of one account.
type ledger struct {
	added   money.Amount               // sum of the account's own rows
	in, out money.Amount               // sums of all amounts that rows add to the balance and take from it; both only grow
	hours   map[time.Time]usage.Counts // decisions by hour
	days    map[time.Time]money.Amount // costs of calls and bookings by day
	account *billing.Account           // nil until the account's document was read
	late    map[time.Time]bool         // hours of decisions that were stored after the rows were checked
	damaged bool                       // whether a row or shard of the account is unreadable, which was reported
}

func (l *ledger) change(c *billing.Change) {
	l.added += c.Amount
	l.move(c.Amount)
}

func (l *ledger) move(amount money.Amount) {
	l.in += max(amount, 0)
	l.out -= min(amount, 0)
}

func (r *run) ledgerOf(id [32]byte) *ledger {
	l := r.money[id]
	if l == nil {
		l = &ledger{hours: map[time.Time]usage.Counts{}, days: map[time.Time]money.Amount{}, late: map[time.Time]bool{}}
		r.money[id] = l
	}
	return l
}

// paid describes the payment of a request.
type paid struct {
	by      call.PayerKind
	payer   [32]byte
	price   uint64    // hold in micro-dollars
	version uint64    // price version
	due     time.Time // time from which any process may void the call
}

func paymentOf(q *call.RequestRow) paid {
	return paid{q.PaidBy, q.Payer, q.Price, q.PriceVersion, q.Due}
}

func (l *ledger) count(p paid, r *call.ResponseRow) {
	c, decidedAt := usage.CountsOf(p.due, r)
	sum := l.hours[decidedAt.Truncate(time.Hour)]
	sum.Add(c)
	l.hours[decidedAt.Truncate(time.Hour)] = sum
	l.spend(decidedAt, c.Charge)
}

func (l *ledger) spend(spentAt time.Time, amount money.Amount) {
	if amount != 0 {
		l.days[spentAt.UTC().Truncate(24*time.Hour)] += amount
	}
}

func (q *requests) hold(ctx context.Context, r *call.RequestRow) error {
	if r.PaidBy == call.Unpriced {
		return nil
	}
	p, ok, err := q.priceVersion(ctx, r.PriceVersion)
	if err != nil {
		return err
	}
	s := q.pair.Requests()
	switch {
	case !ok:
		q.addFinding(inStream(s, r.Position, Money, fmt.Sprintf("version %d of the price of %s", r.PriceVersion, q.pair.Vacant.Short()), "none that can be read"))
	case r.PaidBy == call.PaidByAccount && r.Price != uint64(p.Hold()):
		q.addFinding(inStream(s, r.Position, Money, fmt.Sprintf("a hold of %d, by version %d of the price", p.Hold(), p.Version), fmt.Sprint(r.Price)))
	case r.PaidBy == call.PaidByFreeCall && r.Price != 0:
		q.addFinding(inStream(s, r.Position, Money, "a free call that holds nothing", fmt.Sprint(r.Price)))
	}
	q.paying = true
	q.takeHold(r)
	return nil
}

func (r *run) takeHold(q *call.RequestRow) {
	if q.PaidBy == call.PaidByAccount {
		r.ledgerOf(q.Payer).move(-money.Amount(q.Price))
	}
}

// settle records the part of a request's hold that a decision releases, and checks the charge.
func (a *responses) settle(ctx context.Context, p paid, r *call.ResponseRow) error {
	s := a.pair.Responses()
	if r.Charged != (r.Kind == call.RowAnswer && p.by != call.Unpriced) {
		a.addFinding(inStream(s, r.Position, Money, "a charge in the answers to calls with a price, and in no other row", fmt.Sprintf("a charge: %t", r.Charged)))
	}
	if p.by == call.Unpriced {
		return nil
	}
	if r.Charge > p.price {
		a.addFinding(inStream(s, r.Position, Money, fmt.Sprintf("a charge within the hold of %d", p.price), fmt.Sprint(r.Charge)))
	}
	if p.by != call.PaidByAccount {
		return nil
	}
	a.releaseHold(p, r).count(p, r)
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
		a.addFinding(inStream(s, r.Position, Money, fmt.Sprintf("a charge of %d, by version %d of the price", want, p.version), fmt.Sprint(r.Charge)))
	}
	return nil
}

func (r *run) releaseHold(p paid, a *call.ResponseRow) *ledger {
	l := r.ledgerOf(p.payer)
	l.move(money.Amount(p.price) - money.Amount(a.Charge))
	return l
}

func (q *requests) priceVersion(ctx context.Context, version uint64) (p price.Price, ok bool, err error) {
	if cachedPrice, there := q.prices[version]; there {
		return cachedPrice, cachedPrice.Version > 0, nil
	}
	if p, err = price.Get(ctx, q.view, q.pair.Vacant, version); err != nil && !isDamaged(err) {
		return p, false, err
	}
	if q.prices == nil {
		q.prices = map[uint64]price.Price{}
	}
	q.prices[version] = p
	return p, p.Version > 0, nil
}

func (r *run) accountRows(ctx context.Context, s store.Stream, id identity.ID) error {
	l, rows := r.ledgerOf(id), r.reader(s)
	var tip uint64
	var owed money.Amount
	payments := map[string]money.Amount{} // sum of added amounts minus owed amounts by payment
	var wrong []Finding                   // findings that newer rows could explain
	for {
		row, more, err := rows.next(ctx)
		if err != nil {
			return err
		}
		if !more {
			r.tips[s] = rows.at
			break
		}
		if row.Position == 0 {
			l.damaged = true
			continue
		}
		tip = row.Position
		c, err := billing.DecodeChange(row)
		if err != nil {
			l.damaged = true
			r.addFinding(inStream(s, row.Position, Row, "a change of an account", err.Error()))
			continue
		}
		if (c.Kind == billing.Opened) != (row.Position == 1) {
			r.addFinding(inStream(s, row.Position, Money, "an account that only its first row opens", string(c.Kind)))
		}
		l.change(&c)
		owed += c.Owed
		if c.Payment != "" {
			payments[c.Payment] += c.Amount - c.Owed
		}
	}
	if err := r.unrelatedDocuments(ctx, store.OfAccount, id.String()); err != nil {
		return err
	}
	for _, payment := range slices.Sorted(maps.Keys(payments)) {
		k := billing.PaymentDocs.Key(payment)
		p, _, err := billing.PaymentDocs.Get(ctx, r.view, k)
		if err != nil {
			if err := r.reportDamage(k, Document, "a payment", err); err != nil {
				return err
			}
			continue
		}
		if added := payments[payment]; p.Account != id.String() || p.Paid-p.Taken != added {
			wrong = append(wrong, inDocument(k, Money, fmt.Sprintf("%s for account %s, by its rows", added, id), fmt.Sprintf("%s for account %.80q", p.Paid-p.Taken, p.Account)))
		}
	}
	key := billing.AccountKey(id.String())
	a, d, err := billing.AccountDocs.Get(ctx, r.view, key)
	switch {
	case err != nil:
		if err := r.reportDamage(key, Document, "an account", err); err != nil {
			return err
		}
	case d.Version == 0:
		r.addFinding(inDocument(key, Document, "the account of its rows", "none"))
	default:
		l.account = &a
		if a.Changes != tip {
			wrong = append(wrong, inDocument(key, Money, fmt.Sprintf("%d changes, one for each row", tip), fmt.Sprint(a.Changes)))
		}
		if a.Owed != owed && !l.damaged {
			wrong = append(wrong, inDocument(key, Money, fmt.Sprintf("%s owed, by its rows", owed), a.Owed.String()))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	next, err := r.tail(ctx, s, tip+1, func(store.Row) error { return nil })
	report := r.addFinding
	if next == tip+1 {
		report = r.addCertainFinding
	}
	for _, f := range wrong {
		report(f)
	}
	return err
}

// reading contains a balance and the sums of the rows that were read before it.
type reading struct {
	balance        money.Amount
	added, in, out money.Amount
	below          []Finding // findings for shards below zero
}

// maxRereads limits how often data is read again because it changes.
const maxRereads = 5

// recount compares the balances with the rows. If the view is not a snapshot, rows that are read
// after a balance may be newer or older than it. A balance is therefore compared exactly only if no
// new row of its account is found after it was read. Otherwise it must be within the range that the
// new rows allow, and it is read again.
func (r *run) recount(ctx context.Context) error {
	ids := slices.SortedFunc(maps.Keys(r.money), func(a, b [32]byte) int { return slices.Compare(a[:], b[:]) })
	open := slices.Clone(ids)
	for try := 1; len(open) > 0; try++ {
		before := map[[32]byte]reading{}
		for _, id := range open {
			if l := r.money[id]; l.account != nil {
				b, err := r.balance(ctx, l)
				if err != nil {
					return err
				}
				before[id] = b
			}
		}
		if err := r.readMoreMoney(ctx); err != nil {
			return err
		}
		open = slices.DeleteFunc(open, func(id [32]byte) bool {
			l := r.money[id]
			if b, read := before[id]; read {
				return r.compareBalance(l, &b, try == maxRereads)
			}
			if l.account == nil && l.added == 0 && !l.damaged {
				r.addFinding(inDocument(billing.AccountKey(hex.EncodeToString(id[:])), Money, "the account that rows of calls name", "none"))
			}
			return true // reported, or opened during the check
		})
	}
	for _, id := range ids {
		l := r.money[id]
		if l.account == nil {
			continue
		}
		if err := r.usage(ctx, l); err != nil {
			return err
		}
		if err := r.checkSpent(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) balance(ctx context.Context, l *ledger) (reading, error) {
	b := reading{added: l.added, in: l.in, out: l.out}
	for n := range l.account.Shards {
		k := billing.BalanceKey(l.account.ID, n)
		d, err := r.view.Doc(ctx, k)
		if isDamaged(err) && !l.damaged {
			l.damaged = true
			r.addFinding(inDocument(k, Document, "a document that can be read", problem.AsError(err).Error()))
		}
		if err != nil && !isDamaged(err) {
			return b, err
		}
		if d.Number < 0 {
			b.below = append(b.below, inDocument(k, Money, "a balance of at least 0", fmt.Sprint(d.Number)))
		}
		b.balance += money.Amount(d.Number)
	}
	return b, nil
}

// compareBalance compares a balance with the rows. It returns false if new rows prevent an exact
// comparison and the balance can be read again.
func (r *run) compareBalance(l *ledger, b *reading, isLast bool) bool {
	want := b.in - b.out
	taken, given := l.out-b.out, l.in-b.in // amounts in rows that were read after the balance
	short := b.balance < want-taken
	wrong := short || b.balance > want+given
	if !wrong && taken+given > 0 && !isLast && !l.damaged {
		return false
	}
	for _, f := range b.below {
		r.addCertainFinding(f)
	}
	switch {
	case l.damaged:
	case wrong:
		expected := fmt.Sprintf("a balance of %s", want)
		if taken+given > 0 {
			expected = fmt.Sprintf("a balance from %s to %s, because of new calls", want-taken, want+given)
		}
		r.addCertainFinding(inDocument(billing.AccountKey(l.account.ID), Money, fmt.Sprintf("%s: %s by its rows, less the %s that calls hold or cost", expected, b.added, b.added-want), b.balance.String()))
	case taken+given > 0:
		r.result.ChangingFindings++
	}
	return true
}

// readMoreMoney reads new rows that move money. It does not check them, because writes during a
// check are left to the next check.
func (r *run) readMoreMoney(ctx context.Context) error {
	priced := map[identity.ID]bool{} // whether a vacant has a price, in this reading
	for s, err := range store.Streams(ctx, r.view, "") {
		if err != nil {
			return err
		}
		ids := s.IDs()
		if len(ids) != idsOf(s.Kind()) || store.StreamOf(s.Kind(), ids...) != s {
			continue // reported
		}
		_, hasTip := r.tips[s]
		switch s.Kind() {
		case store.KindRequest:
			p := pairOf(ids)
			isPriced, asked := priced[p.Vacant]
			if !hasTip && !asked {
				d, err := r.view.Doc(ctx, price.Key(p.Vacant, 1))
				if err != nil && !isDamaged(err) {
					return err
				}
				isPriced = d.Version > 0 || err != nil
				priced[p.Vacant] = isPriced
			}
			if hasTip || isPriced {
				err = r.readMoreCalls(ctx, p)
			}
		case billing.KindAccount:
			if !hasTip {
				err = r.accountRows(ctx, s, ids[0])
				break
			}
			err = r.readMore(ctx, s, func(row store.Row) error {
				if c, err := billing.DecodeChange(row); err == nil {
					r.ledgerOf(ids[0]).change(&c)
				}
				return nil
			})
		case booking.KindBooking:
			err = r.readMore(ctx, s, func(row store.Row) error {
				if bookingRow, err := booking.DecodeRow(row); err == nil {
					r.moveBooked(&bookingRow)
				}
				return nil
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) readMoreCalls(ctx context.Context, p call.Pair) error {
	if err := r.readMore(ctx, p.Requests(), func(row store.Row) error {
		if q, err := call.DecodeRequest(row); err == nil {
			r.takeHold(&q)
		}
		return nil
	}); err != nil {
		return err
	}
	return r.readMore(ctx, p.Responses(), func(row store.Row) error {
		a, err := call.DecodeResponse(row)
		if err != nil || a.Kind == call.RowAnswer && !a.Charged {
			return nil
		}
		requestRow, state, err := r.at(ctx, p.Requests(), a.Request)
		if err != nil || state != present {
			return err
		}
		q, err := call.DecodeRequest(requestRow)
		if err != nil || q.PaidBy != call.PaidByAccount {
			return nil
		}
		_, decidedAt := usage.CountsOf(q.Due, &a)
		l := r.releaseHold(paymentOf(&q), &a)
		l.late[decidedAt.Truncate(time.Hour)] = true
		return nil
	})
}

func (r *run) readMore(ctx context.Context, s store.Stream, fn func(store.Row) error) error {
	next, err := r.tail(ctx, s, max(r.tips[s], 1), fn)
	r.tips[s] = next
	return err
}

// usage compares an account's usage documents with its rows, hour by hour. A host that does not run
// the meter (package usage) has no usage documents. The documents may lack rows of the last hour
// before the check and may include rows that were written since the check began.
func (r *run) usage(ctx context.Context, l *ledger) error {
	folded := map[time.Time]usage.Counts{}
	err := usage.EachPaid(ctx, r.Source, l.account.ID, time.Time{}, time.Time{}, func(h usage.Hour) error {
		sum := folded[h.Start]
		h.Fee, h.Unreported = 0, 0 // usage.CountsOf does not set them, because they depend on the price
		sum.Add(h.Counts)
		folded[h.Start] = sum
		return nil
	})
	if isDamaged(err) {
		r.addFinding(inDocument(billing.AccountKey(l.account.ID), Money, "usage that can be read", problem.AsError(err).Error()))
		return nil
	}
	if err != nil || len(folded) == 0 || l.damaged {
		return err
	}
	settled := usage.CompleteUntil(r.began).Truncate(time.Hour)
	for hour := range l.late { // usage may or may not contain these decisions
		delete(l.hours, hour)
		delete(folded, hour)
	}
	for _, hour := range slices.SortedFunc(maps.Keys(l.hours), time.Time.Compare) {
		if want, got := l.hours[hour], folded[hour]; hour.Before(settled) && got != want {
			r.addFinding(inDocument(billing.AccountKey(l.account.ID), Money, fmt.Sprintf("usage in the hour from %s: %+v, by its rows", hour.Format(time.RFC3339), want), fmt.Sprintf("%+v", got)))
		}
		delete(folded, hour)
	}
	for hour, got := range folded {
		if hour.Before(settled) && got != (usage.Counts{}) { // a correction leaves documents with zero counts
			r.addFinding(inDocument(billing.AccountKey(l.account.ID), Money, fmt.Sprintf("no usage in the hour from %s, by its rows", hour.Format(time.RFC3339)), fmt.Sprintf("%+v", got)))
		}
	}
	return nil
}

func (r *run) checkSpent(ctx context.Context, l *ledger) error {
	key := billing.AccountKey(l.account.ID)
	folded := map[time.Time]money.Amount{}
	err := usage.EachSpent(ctx, r.Source, l.account.ID, func(day time.Time, amount money.Amount) error {
		folded[day] = amount
		return nil
	})
	if isDamaged(err) {
		r.addFinding(inDocument(key, Money, "days of usage that can be read", problem.AsError(err).Error()))
		return nil
	}
	if err != nil || len(folded) == 0 || l.damaged {
		return err
	}
	over := usage.CompleteUntil(r.began).Truncate(24 * time.Hour)
	for day := range l.days {
		folded[day] += 0 // includes days that usage lacks
	}
	for _, day := range slices.SortedFunc(maps.Keys(folded), time.Time.Compare) {
		if want, got := l.days[day], folded[day]; day.Before(over) && got != want {
			r.addFinding(inDocument(key, Money, fmt.Sprintf("%s spent on %s, by its rows", want, day.Format(time.DateOnly)), got.String()))
		}
	}
	return nil
}
