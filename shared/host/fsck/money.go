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

// An account's balance is the sum of its own rows minus the amounts that calls and bookings hold
// (reserve until the decision) or charge. Only sums are stored, because requests and decisions are
// read in any order.

type ledger struct {
	ownSum            money.Amount
	credited, debited money.Amount // sums of all amounts that rows add and take; both only grow
	countsByHour      map[time.Time]usage.Counts
	costByDay         map[time.Time]money.Amount
	account           *billing.Account   // nil until the account's document was read
	lateHours         map[time.Time]bool // hours of decisions that were stored after the rows were checked
	isDamaged         bool               // whether a row or shard of the account is unreadable
}

func (l *ledger) addChange(c *billing.Change) {
	l.ownSum += c.Amount
	l.addAmount(c.Amount)
}

func (l *ledger) addAmount(amount money.Amount) {
	l.credited += max(amount, 0)
	l.debited -= min(amount, 0)
}

func (r *run) ledgerOf(id [32]byte) *ledger {
	l := r.ledgers[id]
	if l == nil {
		l = &ledger{countsByHour: map[time.Time]usage.Counts{}, costByDay: map[time.Time]money.Amount{}, lateHours: map[time.Time]bool{}}
		r.ledgers[id] = l
	}
	return l
}

type requestPayment struct {
	payerKind    call.PayerKind
	payer        [32]byte
	hold         uint64 // micro-dollars
	priceVersion uint64
	due          time.Time // time from which any process may void the call
}

func paymentOf(req *call.RequestRow) requestPayment {
	return requestPayment{req.PaidBy, req.Payer, req.Price, req.PriceVersion, req.Due}
}

func (l *ledger) addDecision(p requestPayment, resp *call.ResponseRow) {
	c, decidedAt := usage.CountsOf(p.due, resp)
	sum := l.countsByHour[decidedAt.Truncate(time.Hour)]
	sum.Add(c)
	l.countsByHour[decidedAt.Truncate(time.Hour)] = sum
	l.addCost(decidedAt, c.Charge)
}

func (l *ledger) addCost(spentAt time.Time, amount money.Amount) {
	if amount != 0 {
		l.costByDay[spentAt.UTC().Truncate(24*time.Hour)] += amount
	}
}

func (q *requestChecker) checkHold(ctx context.Context, req *call.RequestRow) error {
	if req.PaidBy == call.Unpriced {
		return nil
	}
	p, ok, err := q.loadPrice(ctx, req.PriceVersion)
	if err != nil {
		return err
	}
	s := q.pair.Requests()
	switch {
	case !ok:
		q.addFinding(newStreamFinding(s, req.Position, Money, fmt.Sprintf("version %d of the price of %s", req.PriceVersion, q.pair.Vacant.Short()), "none that can be read"))
	case req.PaidBy == call.PaidByAccount && req.Price != uint64(p.Hold()):
		q.addFinding(newStreamFinding(s, req.Position, Money, fmt.Sprintf("a hold of %d, by version %d of the price", p.Hold(), p.Version), fmt.Sprint(req.Price)))
	case req.PaidBy == call.PaidByFreeCall && req.Price != 0:
		q.addFinding(newStreamFinding(s, req.Position, Money, "a free call without a hold", fmt.Sprint(req.Price)))
	}
	q.hasPricedCalls = true
	q.recordHold(req)
	return nil
}

func (r *run) recordHold(req *call.RequestRow) {
	if req.PaidBy == call.PaidByAccount {
		r.ledgerOf(req.Payer).addAmount(-money.Amount(req.Price))
	}
}

// checkCharge records the released part of a hold and checks the charge.
func (a *responseChecker) checkCharge(ctx context.Context, p requestPayment, resp *call.ResponseRow) error {
	s := a.pair.Responses()
	if resp.IsPriced != (resp.Kind == call.RowAnswer && p.payerKind != call.Unpriced) {
		a.addFinding(newStreamFinding(s, resp.Position, Money, "a charge only in answers to calls with a price", fmt.Sprintf("a charge: %t", resp.IsPriced)))
	}
	if p.payerKind == call.Unpriced {
		return nil
	}
	if resp.Charge > p.hold {
		a.addFinding(newStreamFinding(s, resp.Position, Money, fmt.Sprintf("a charge within the hold of %d", p.hold), fmt.Sprint(resp.Charge)))
	}
	if p.payerKind != call.PaidByAccount {
		return nil
	}
	a.recordRelease(p, resp).addDecision(p, resp)
	if resp.Kind != call.RowAnswer {
		return nil
	}
	v, ok, err := a.loadPrice(ctx, p.priceVersion)
	if err != nil || !ok {
		return err
	}
	var modelUsage call.Usage
	if resp.Usage != nil {
		modelUsage = *resp.Usage
	}
	if want := v.Charge(modelUsage.InputTokens, modelUsage.OutputTokens); uint64(want) != resp.Charge {
		a.addFinding(newStreamFinding(s, resp.Position, Money, fmt.Sprintf("a charge of %d, by version %d of the price", want, p.priceVersion), fmt.Sprint(resp.Charge)))
	}
	return nil
}

func (r *run) recordRelease(p requestPayment, resp *call.ResponseRow) *ledger {
	l := r.ledgerOf(p.payer)
	l.addAmount(money.Amount(p.hold) - money.Amount(resp.Charge))
	return l
}

func (q *requestChecker) loadPrice(ctx context.Context, version uint64) (p price.Price, ok bool, err error) {
	if cachedPrice, isCached := q.prices[version]; isCached {
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

func (r *run) checkAccount(ctx context.Context, s store.Stream, id identity.ID) error {
	l, rows := r.ledgerOf(id), r.newReader(s)
	var lastPosition uint64
	var owedAmount money.Amount
	payments := map[string]money.Amount{} // sum of added amounts minus owed amounts by payment
	var uncertain []Finding               // findings that newer rows could explain
	for {
		row, more, err := rows.next(ctx)
		if err != nil {
			return err
		}
		if !more {
			r.nextPositions[s] = rows.nextPosition
			break
		}
		if row.Position == 0 {
			l.isDamaged = true
			continue
		}
		lastPosition = row.Position
		c, err := billing.DecodeChange(row)
		if err != nil {
			l.isDamaged = true
			r.addFinding(newStreamFinding(s, row.Position, Row, "a change of an account", err.Error()))
			continue
		}
		if (c.Kind == billing.Opened) != (row.Position == 1) {
			r.addFinding(newStreamFinding(s, row.Position, Money, "an opening only in the first row", string(c.Kind)))
		}
		l.addChange(&c)
		owedAmount += c.Owed
		if c.Payment != "" {
			payments[c.Payment] += c.Amount - c.Owed
		}
	}
	if err := r.checkUnrelatedDocuments(ctx, store.OwnedByAccount, id.String()); err != nil {
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
		if paymentSum := payments[payment]; p.Account != id.String() || p.Paid-p.Withdrawn != paymentSum {
			uncertain = append(uncertain, newDocumentFinding(k, Money, fmt.Sprintf("%s for account %s, by its rows", paymentSum, id), fmt.Sprintf("%s for account %.80q", p.Paid-p.Withdrawn, p.Account)))
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
		r.addFinding(newDocumentFinding(key, Document, "the account of its rows", "none"))
	default:
		l.account = &a
		if a.LastPosition != lastPosition {
			uncertain = append(uncertain, newDocumentFinding(key, Money, fmt.Sprintf("%d changes, one for each row", lastPosition), fmt.Sprint(a.LastPosition)))
		}
		if a.Owed != owedAmount && !l.isDamaged {
			uncertain = append(uncertain, newDocumentFinding(key, Money, fmt.Sprintf("%s owed, by its rows", owedAmount), a.Owed.String()))
		}
	}
	if len(uncertain) == 0 {
		return nil
	}
	next, err := r.eachNewRow(ctx, s, lastPosition+1, func(store.Row) error { return nil })
	report := r.addFinding
	if next == lastPosition+1 {
		report = r.addCertainFinding
	}
	for _, f := range uncertain {
		report(f)
	}
	return err
}

// balanceReading contains a balance and the sums of the rows that were read before it.
type balanceReading struct {
	balance                   money.Amount
	ownSum, credited, debited money.Amount
	negativeShards            []Finding
}

// maxRereads limits how often data is read again because it changes.
const maxRereads = 5

// recountBalances compares the balances with the rows. A row that is read after a balance may
// already be part of it. If such rows appear, the balance is read again.
func (r *run) recountBalances(ctx context.Context) error {
	ids := slices.SortedFunc(maps.Keys(r.ledgers), func(a, b [32]byte) int { return slices.Compare(a[:], b[:]) })
	pending := slices.Clone(ids)
	for try := 1; len(pending) > 0; try++ {
		readings := map[[32]byte]balanceReading{}
		for _, id := range pending {
			if l := r.ledgers[id]; l.account != nil {
				b, err := r.readBalance(ctx, l)
				if err != nil {
					return err
				}
				readings[id] = b
			}
		}
		if err := r.readNewMoneyRows(ctx); err != nil {
			return err
		}
		pending = slices.DeleteFunc(pending, func(id [32]byte) bool {
			l := r.ledgers[id]
			if b, isRead := readings[id]; isRead {
				return r.compareBalance(l, &b, try == maxRereads)
			}
			if l.account == nil && l.ownSum == 0 && !l.isDamaged {
				r.addFinding(newDocumentFinding(billing.AccountKey(hex.EncodeToString(id[:])), Money, "the account that rows of calls name", "none"))
			}
			return true // reported, or opened during the check
		})
	}
	for _, id := range ids {
		l := r.ledgers[id]
		if l.account == nil {
			continue
		}
		if err := r.checkUsage(ctx, l); err != nil {
			return err
		}
		if err := r.checkSpent(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) readBalance(ctx context.Context, l *ledger) (balanceReading, error) {
	b := balanceReading{ownSum: l.ownSum, credited: l.credited, debited: l.debited}
	for n := range l.account.Shards {
		k := billing.BalanceKey(l.account.ID, n)
		d, err := r.view.Doc(ctx, k)
		if isDamaged(err) && !l.isDamaged {
			l.isDamaged = true
			r.addFinding(newDocumentFinding(k, Document, "a document that can be read", problem.AsError(err).Error()))
		}
		if err != nil && !isDamaged(err) {
			return b, err
		}
		if d.Number < 0 {
			b.negativeShards = append(b.negativeShards, newDocumentFinding(k, Money, "a balance of at least 0", fmt.Sprint(d.Number)))
		}
		b.balance += money.Amount(d.Number)
	}
	return b, nil
}

// compareBalance returns false if new rows prevent an exact comparison and the balance can be read
// again.
func (r *run) compareBalance(l *ledger, b *balanceReading, isLastTry bool) bool {
	want := b.credited - b.debited
	debitedSince, creditedSince := l.debited-b.debited, l.credited-b.credited // amounts in rows read after the balance
	isTooLow := b.balance < want-debitedSince
	isWrong := isTooLow || b.balance > want+creditedSince
	if !isWrong && debitedSince+creditedSince > 0 && !isLastTry && !l.isDamaged {
		return false
	}
	for _, f := range b.negativeShards {
		r.addCertainFinding(f)
	}
	switch {
	case l.isDamaged:
	case isWrong:
		expected := fmt.Sprintf("a balance of %s", want)
		if debitedSince+creditedSince > 0 {
			expected = fmt.Sprintf("a balance from %s to %s, because of new calls", want-debitedSince, want+creditedSince)
		}
		r.addCertainFinding(newDocumentFinding(billing.AccountKey(l.account.ID), Money, fmt.Sprintf("%s: %s by its rows, less the %s that calls hold or cost", expected, b.ownSum, b.ownSum-want), b.balance.String()))
	case debitedSince+creditedSince > 0:
		r.result.ChangingFindings++
	}
	return true
}

// readNewMoneyRows reads new rows that move money, without checking them.
func (r *run) readNewMoneyRows(ctx context.Context) error {
	hasPrice := map[identity.ID]bool{}
	for s, err := range store.Streams(ctx, r.view, "") {
		if err != nil {
			return err
		}
		ids := s.IDs()
		if len(ids) != idCountOf(s.Kind()) || store.StreamOf(s.Kind(), ids...) != s {
			continue
		}
		_, wasRead := r.nextPositions[s]
		switch s.Kind() {
		case store.KindRequest:
			p := pairOf(ids)
			isPriced, isCached := hasPrice[p.Vacant]
			if !wasRead && !isCached {
				d, err := r.view.Doc(ctx, price.VersionKey(p.Vacant, 1))
				if err != nil && !isDamaged(err) {
					return err
				}
				isPriced = d.Version > 0 || err != nil
				hasPrice[p.Vacant] = isPriced
			}
			if wasRead || isPriced {
				err = r.readNewCallRows(ctx, p)
			}
		case billing.KindAccount:
			if !wasRead {
				err = r.checkAccount(ctx, s, ids[0])
				break
			}
			err = r.readNewRows(ctx, s, func(row store.Row) error {
				if c, err := billing.DecodeChange(row); err == nil {
					r.ledgerOf(ids[0]).addChange(&c)
				}
				return nil
			})
		case booking.KindBooking:
			err = r.readNewRows(ctx, s, func(row store.Row) error {
				if bookingRow, err := booking.DecodeRow(row); err == nil {
					r.applyBookingAmounts(&bookingRow)
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

func (r *run) readNewCallRows(ctx context.Context, p call.Pair) error {
	if err := r.readNewRows(ctx, p.Requests(), func(row store.Row) error {
		if req, err := call.DecodeRequest(row); err == nil {
			r.recordHold(&req)
		}
		return nil
	}); err != nil {
		return err
	}
	return r.readNewRows(ctx, p.Responses(), func(row store.Row) error {
		resp, err := call.DecodeResponse(row)
		if err != nil || resp.Kind == call.RowAnswer && !resp.IsPriced {
			return nil
		}
		requestRow, condition, err := r.rowAt(ctx, p.Requests(), resp.RequestPosition)
		if err != nil || condition != rowPresent {
			return err
		}
		req, err := call.DecodeRequest(requestRow)
		if err != nil || req.PaidBy != call.PaidByAccount {
			return nil
		}
		_, decidedAt := usage.CountsOf(req.Due, &resp)
		l := r.recordRelease(paymentOf(&req), &resp)
		l.lateHours[decidedAt.Truncate(time.Hour)] = true
		return nil
	})
}

func (r *run) readNewRows(ctx context.Context, s store.Stream, fn func(store.Row) error) error {
	next, err := r.eachNewRow(ctx, s, max(r.nextPositions[s], 1), fn)
	r.nextPositions[s] = next
	return err
}

// checkUsage compares an account's usage documents with its rows, hour by hour. Recent hours are
// not compared, because usage documents may lag behind the rows. A host without a meter has no
// usage documents.
func (r *run) checkUsage(ctx context.Context, l *ledger) error {
	recorded := map[time.Time]usage.Counts{}
	err := usage.EachPaidHour(ctx, r.Source, l.account.ID, time.Time{}, time.Time{}, func(h usage.Hour) error {
		sum := recorded[h.Start]
		h.Fee, h.UnreportedAnswers = 0, 0 // usage.CountsOf does not set them, because they depend on the price
		sum.Add(h.Counts)
		recorded[h.Start] = sum
		return nil
	})
	if isDamaged(err) {
		r.addFinding(newDocumentFinding(billing.AccountKey(l.account.ID), Money, "usage that can be read", problem.AsError(err).Error()))
		return nil
	}
	if err != nil || len(recorded) == 0 || l.isDamaged {
		return err
	}
	completeUntil := usage.CompleteUntil(r.startedAt).Truncate(time.Hour)
	for hour := range l.lateHours { // usage may or may not contain these decisions
		delete(l.countsByHour, hour)
		delete(recorded, hour)
	}
	for _, hour := range slices.SortedFunc(maps.Keys(l.countsByHour), time.Time.Compare) {
		if want, got := l.countsByHour[hour], recorded[hour]; hour.Before(completeUntil) && got != want {
			r.addFinding(newDocumentFinding(billing.AccountKey(l.account.ID), Money, fmt.Sprintf("usage in the hour from %s: %+v, by its rows", hour.Format(time.RFC3339), want), fmt.Sprintf("%+v", got)))
		}
		delete(recorded, hour)
	}
	for hour, got := range recorded {
		if hour.Before(completeUntil) && got != (usage.Counts{}) { // a correction leaves documents with zero counts
			r.addFinding(newDocumentFinding(billing.AccountKey(l.account.ID), Money, fmt.Sprintf("no usage in the hour from %s, by its rows", hour.Format(time.RFC3339)), fmt.Sprintf("%+v", got)))
		}
	}
	return nil
}

func (r *run) checkSpent(ctx context.Context, l *ledger) error {
	key := billing.AccountKey(l.account.ID)
	recorded := map[time.Time]money.Amount{}
	err := usage.EachSpentDay(ctx, r.Source, l.account.ID, func(day time.Time, amount money.Amount) error {
		recorded[day] = amount
		return nil
	})
	if isDamaged(err) {
		r.addFinding(newDocumentFinding(key, Money, "days of usage that can be read", problem.AsError(err).Error()))
		return nil
	}
	if err != nil || len(recorded) == 0 || l.isDamaged {
		return err
	}
	completeUntil := usage.CompleteUntil(r.startedAt).Truncate(24 * time.Hour)
	for day := range l.costByDay {
		recorded[day] += 0 // includes days that usage lacks
	}
	for _, day := range slices.SortedFunc(maps.Keys(recorded), time.Time.Compare) {
		if want, got := l.costByDay[day], recorded[day]; day.Before(completeUntil) && got != want {
			r.addFinding(newDocumentFinding(key, Money, fmt.Sprintf("%s spent on %s, by its rows", want, day.Format(time.DateOnly)), got.String()))
		}
	}
	return nil
}
