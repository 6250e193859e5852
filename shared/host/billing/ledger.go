package billing

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type planState struct {
	account *Account
	day     string
	// A refund goes to the shard of the first hold.
	holds    []store.Add
	counters []counter
}

type counter struct {
	store.Add
	fullError error
	partCount int
}

// freeCallParts divides the counter of all callers' free calls, because a DynamoDB item accepts
// only a thousand writes per second.
const freeCallParts = 16

func (b *Billing) Quote(ctx context.Context, q call.QuoteRequest) (c call.PaymentPlan, err error) {
	p := q.Payer
	if q.Root != nil {
		p = q.Root.Payer
	}
	if p != nil && p.Test {
		switch {
		case q.Tenant != "" && q.Tenant == p.Tenant:
			_, err = b.activeAccount(ctx, p.Account)
		case q.Root != nil: // the caller may be another tenant's vacant
			err = problem.New(problem.TestKeyNotAllowed, "the first request has a test key, which cannot pay for calls to vacants of other tenants")
		default:
			err = problem.New(problem.TestKeyNotAllowed, "a test key can call only the vacants of its own tenant, %s", p.Tenant)
		}
		return c, err
	}
	if q.Price.IsFree() {
		return c, nil
	}
	payingRequest := &q
	if q.RootPays {
		payingRequest = q.Root
	}
	account, maker, limits, err := b.findPayer(ctx, payingRequest)
	if err != nil {
		return c, err
	}
	if account == "" {
		return b.quoteFree(ctx, &q)
	}
	a, err := b.activeAccount(ctx, account)
	if err != nil {
		return c, err
	}
	if a.isInEndingTree(&maker) {
		return b.quoteFree(ctx, &q)
	}
	if q.IsReset {
		return c, nil // a reset runs no behaviour, and callers without an account may reset
	}
	isRootPaying := false
	if q.Root != nil {
		rootAccount, _, rootLimits, err := b.findPayer(ctx, q.Root)
		if err != nil {
			return c, err
		}
		isRootPaying = rootAccount == account
		for _, rootLimit := range rootLimits {
			if isRootPaying && !slices.ContainsFunc(limits, func(c spendingLimit) bool { return c.counterName == rootLimit.counterName }) {
				limits = append(limits, rootLimit)
			}
		}
	}
	c, err = b.quotePaid(&q, &a, limits)
	c.IsRootPaying = isRootPaying
	return c, err
}

func (b *Billing) activeAccount(ctx context.Context, id string) (Account, error) {
	a, err := b.Account(ctx, id)
	if err == nil {
		err = a.checkActive()
	}
	return a, err
}

// spendingLimit uses zero for no limit.
type spendingLimit struct {
	counterName string
	perDay      money.Amount // per UTC day
	perCall     money.Amount
}

// findPayer returns the account that pays for a call, or "", and the limits in addition to the
// account's own cap. maker is the maker of the caller's link.
func (b *Billing) findPayer(ctx context.Context, q *call.QuoteRequest) (account string, maker Maker, limits []spendingLimit, err error) {
	if p := q.Payer; p != nil {
		limits = []spendingLimit{{counterName: "key#" + p.Key, perDay: p.DailyCap, perCall: p.MaxWalkCost}}
		if p.Issuer != "" {
			limits = append(limits, spendingLimit{counterName: "issuer#" + p.Issuer, perDay: p.IssuerDailyCap})
		}
		return p.Account, maker, limits, nil // AuthenticateRequest has checked the makers of the key
	}
	if q.Guest {
		return "", maker, nil, nil
	}
	l, err := b.recentLink(ctx, q.Pair.Caller)
	if err != nil || l.Account == "" {
		return "", maker, nil, err
	}
	return l.Account, l.Maker, []spendingLimit{{counterName: "link#" + q.Pair.Caller.String(), perDay: l.DailyCap}}, nil
}

func (b *Billing) quotePaid(q *call.QuoteRequest, a *Account, limits []spendingLimit) (plan call.PaymentPlan, err error) {
	raw, err := hex.DecodeString(a.ID)
	if err != nil || len(raw) != len(plan.Payer) {
		return plan, problem.New(problem.Damaged, "account %.80q has an invalid id", a.ID)
	}
	shard, err := b.randomIndex(a.Shards)
	if err != nil {
		return plan, err
	}
	p := &planState{account: a, day: b.today()}
	if existingHold := q.Hold; existingHold != nil {
		if existingHold.Amount != q.Price.Hold() {
			return plan, problem.New(problem.Internal, "a hold of %s was debited for a call that needs a hold of %s", existingHold.Amount, q.Price.Hold())
		}
		return call.PaymentPlan{Kind: call.PaidByAccount, Payer: [32]byte(raw), Hold: existingHold.Amount, Shard: existingHold.Shard, Version: q.Price.Version, LedgerState: p}, nil
	}
	hold := int64(q.Price.Hold())
	p.holds = []store.Add{{Key: BalanceKey(a.ID, shard), Delta: -hold, Max: math.MaxInt64}}
	for _, limit := range append(limits, spendingLimit{counterName: "account#" + a.ID, perDay: a.DailyCap}) {
		if limit.perCall > 0 && q.Price.Hold() > limit.perCall {
			return plan, problem.New(problem.PriceAboveMax, "the price is up to %s, more than the %s a call that the key allows", q.Price.Hold(), limit.perCall)
		}
		if limit.perDay > 0 {
			p.counters = append(p.counters, counter{
				Add:       store.Add{Key: quotaKey(p.day, limit.counterName), Delta: hold, Max: int64(limit.perDay), Expires: b.counterExpiry()},
				fullError: problem.New(problem.SpendCapReached, "the cap of %s a day is reached; try again after 00:00 UTC", limit.perDay),
			})
		}
	}
	return call.PaymentPlan{Kind: call.PaidByAccount, Payer: [32]byte(raw), Hold: q.Price.Hold(), Shard: uint8(shard), Version: q.Price.Version, LedgerState: p}, nil
}

// quoteFree plans a free call. A guest's calls are counted only by address, and other calls by
// caller and address.
func (b *Billing) quoteFree(ctx context.Context, q *call.QuoteRequest) (plan call.PaymentPlan, err error) {
	price, owner := q.Price, q.Owner()
	isGuest := owner == call.GuestOwner
	if isGuest && !price.AdmitsGuests() || !isGuest && !price.AdmitsSigners() {
		return plan, unpaidError(q, "the price is "+price.String())
	}
	p := &planState{day: b.today()}
	vacant := q.Pair.Vacant.String()
	addCounter := func(counterName string, limit int64, holder string) {
		p.counters = append(p.counters, counter{
			Add:       store.Add{Key: quotaKey(p.day, vacant+"#"+counterName), Delta: 1, Max: limit, Expires: b.counterExpiry()},
			fullError: unpaidError(q, fmt.Sprintf("the free calls of this %s for today are used up; the price is %s", holder, price)),
		})
	}
	if !isGuest {
		addCounter("caller#"+owner.String(), price.FreePerSigner, "caller")
	}
	if price.FreePerAddress > 0 {
		mac, err := b.MAC(ctx, []byte(q.Address))
		if err != nil {
			return plan, err
		}
		addCounter("address#"+hex.EncodeToString(mac[:16]), price.FreePerAddress, "address")
	}
	if price.FreeTotal > 0 {
		n, err := b.randomIndex(freeCallParts)
		if err != nil {
			return plan, err
		}
		addCounter(partName(n), partLimit(price.FreeTotal, n), "vacant")
		p.counters[len(p.counters)-1].partCount = freeCallParts
	}
	for _, dailyCounter := range p.counters {
		if dailyCounter.partCount > 0 {
			dailyCounter.Add = allPartsCounter(p.day, vacant, price.FreeTotal)
		}
		if b.fullCounters.isFull(p.day, dailyCounter.Add) {
			return plan, dailyCounter.fullError
		}
	}
	return call.PaymentPlan{Kind: call.PaidByFreeCall, Version: price.Version, LedgerState: p}, nil
}

func unpaidError(q *call.QuoteRequest, reason string) error {
	howToPay := "link the caller's id to an account (POST " + linksPath + "), or call by A2A with an account's key (" + keyHeader + ")"
	if q.Guest { // the host created the guest's id
		howToPay = "send the key of an account (" + keyHeader + "), which the operator of this host creates"
	}
	return problem.New(problem.PaymentRequired, "%s: %s", reason, howToPay)
}

const (
	keyHeader = "Authorization: Bearer KEY"
	linksPath = "/v1/account/links"
)

var errBalanceTooLow = errors.New("the balance is short")

// allPartsCounter returns the entry for all parts in the cache of full counters.
func allPartsCounter(day, vacant string, total int64) store.Add {
	return store.Add{Key: quotaKey(day, vacant+"#all"), Max: total}
}

func partName(n int) string { return "all#" + strconv.Itoa(n) }

func partLimit(total int64, part int) int64 {
	limit := total / freeCallParts
	if int64(part) < total%freeCallParts {
		limit++
	}
	return limit
}

func quotaKey(day, counterName string) store.Key {
	return QuotaDocs.Key(counterName, day)
}

func (b *Billing) today() string { return b.Now().UTC().Format(time.DateOnly) }

func (b *Billing) counterExpiry() time.Time {
	// A counter is stored for a day after its day, because other clocks may be behind.
	return b.Now().UTC().Truncate(24 * time.Hour).Add(48 * time.Hour)
}

func (b *Billing) randomIndex(n int) (int, error) {
	if n == 1 {
		return 0, nil
	}
	var r [4]byte
	if _, err := io.ReadFull(b.Rand, r[:]); err != nil {
		return 0, problem.Wrap(problem.Unavailable, err, "no randomness")
	}
	return int(binary.BigEndian.Uint32(r[:]) % uint32(n)), nil
}

func (b *Billing) Debit(pair call.Pair, plan *call.PaymentPlan, r *call.RequestRow) []store.Write {
	p := plan.LedgerState.(*planState)
	writes := make([]store.Write, 0, len(p.holds)+len(p.counters)+1)
	for _, add := range p.holds {
		writes = append(writes, add)
	}
	for _, dailyCounter := range p.counters {
		writes = append(writes, dailyCounter.Add)
	}
	if plan.Hold > 0 {
		name := fmt.Sprintf("%s#%s#%d", pair.Caller, pair.Vacant, r.Position)
		data, _ := DueDocs.Encode(pair) // never fails for a pair
		writes = append(writes, store.Put{Key: b.reminders().Key(r.Due, name), WriteID: r.WriteID, Number: int64(r.Position), Data: data})
	}
	return writes
}

func (b *Billing) Replan(ctx context.Context, q call.QuoteRequest, plan *call.PaymentPlan, storeErr error) (call.PaymentPlan, error) {
	var bounds *store.BoundsError
	if !errors.As(storeErr, &bounds) {
		return *plan, storeErr // a reminder of this position already exists, so the data is damaged
	}
	p := plan.LedgerState.(*planState)
	for i, dailyCounter := range p.counters {
		if dailyCounter.Key != bounds.Key {
			continue
		}
		if dailyCounter.partCount > 0 {
			return b.planOtherPart(ctx, &q, plan, i)
		}
		if p.account == nil {
			b.fullCounters.recordFull(p.day, dailyCounter.Add)
		}
		return *plan, dailyCounter.fullError
	}
	return b.holdAcrossShards(ctx, plan, p)
}

func (b *Billing) planOtherPart(ctx context.Context, q *call.QuoteRequest, plan *call.PaymentPlan, index int) (call.PaymentPlan, error) {
	oldState := plan.LedgerState.(*planState)
	vacant := q.Pair.Vacant.String()
	hasRoom := make([]bool, freeCallParts)
	g, gctx := errgroup.WithContext(ctx)
	for n := range hasRoom {
		g.Go(func() error {
			d, err := b.Store.Doc(gctx, quotaKey(oldState.day, vacant+"#"+partName(n)))
			hasRoom[n] = d.Number < partLimit(q.Price.FreeTotal, n)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return *plan, err
	}
	var parts []int
	for n, partHasRoom := range hasRoom {
		if partHasRoom {
			parts = append(parts, n)
		}
	}
	if len(parts) == 0 {
		b.fullCounters.recordFull(oldState.day, allPartsCounter(oldState.day, vacant, q.Price.FreeTotal))
		return *plan, oldState.counters[index].fullError
	}
	n, err := b.randomIndex(len(parts))
	if err != nil {
		return *plan, err
	}
	newState := *oldState
	newState.counters = slices.Clone(oldState.counters)
	newState.counters[index].Key, newState.counters[index].Max = quotaKey(oldState.day, vacant+"#"+partName(parts[n])), partLimit(q.Price.FreeTotal, parts[n])
	revisedPlan := *plan
	revisedPlan.LedgerState = &newState
	return revisedPlan, nil
}

// holdAcrossShards plans the hold over several shards. Shards may change while they are read, so
// the call is refused only if two consecutive reads return the same shards.
func (b *Billing) holdAcrossShards(ctx context.Context, plan *call.PaymentPlan, oldState *planState) (call.PaymentPlan, error) {
	var previous []store.Doc
	for {
		shards, err := b.readShards(ctx, oldState.account)
		if err != nil {
			return *plan, err
		}
		holds, missing := planDebits(oldState.account.ID, shards, plan.Hold)
		if missing == 0 {
			newState := *oldState
			newState.holds = holds
			revisedPlan := *plan
			revisedPlan.LedgerState, revisedPlan.Shard = &newState, 0
			for n := range 16 {
				if BalanceKey(oldState.account.ID, n) == holds[0].Key {
					revisedPlan.Shard = uint8(n)
				}
			}
			return revisedPlan, nil
		}
		if slices.EqualFunc(previous, shards, func(x, y store.Doc) bool { return x.Version == y.Version }) {
			return *plan, problem.Wrap(problem.PaymentRequired, errBalanceTooLow, "the account's balance of %s does not cover a call, which may cost %s: "+
				"its tenant can pay in (vacancy account pay, POST %s), or the operator can credit it", sumShards(shards), plan.Hold, CheckoutPath)
		}
		previous = shards
	}
}

func planDebits(account string, shards []store.Doc, amount money.Amount) (adds []store.Add, missing money.Amount) {
	order := make([]int, len(shards))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(shards[y].Number, shards[x].Number) })
	for _, i := range order {
		part := min(amount, money.Amount(max(shards[i].Number, 0)))
		if part > 0 {
			adds = append(adds, store.Add{Key: BalanceKey(account, i), Delta: -int64(part), Max: math.MaxInt64})
			amount -= part
		}
	}
	return adds, amount
}

func (b *Billing) Settle(ctx context.Context, s call.SettlementRequest) (call.FinalCharge, error) {
	row := s.Row
	if row.PaidBy != call.PaidByAccount {
		return call.FinalCharge{}, nil
	}
	p := s.Price
	if p == nil {
		version, err := b.PriceVersion(ctx, s.Pair.Vacant, row.PriceVersion)
		if err != nil {
			return call.FinalCharge{}, err
		}
		p = &version
	}
	var usage call.Usage
	if s.Usage != nil {
		usage = *s.Usage
	}
	finalCharge := call.FinalCharge{Charge: min(p.Charge(usage.InputTokens, usage.OutputTokens), money.Amount(row.Price))}
	if unused := int64(row.Price) - int64(finalCharge.Charge); unused > 0 {
		finalCharge.Writes = []store.Write{rowRefundWrite(row, unused)}
	}
	return finalCharge, nil
}

func rowRefundWrite(row *call.RequestRow, amount int64) store.Write {
	return store.Add{Key: BalanceKey(hex.EncodeToString(row.Payer[:]), int(row.Shard)), Delta: amount, Max: math.MaxInt64}
}

func (b *Billing) Refund(_ call.Pair, row *call.RequestRow, _ bool) []store.Write {
	if row.PaidBy != call.PaidByAccount || row.Price == 0 {
		return nil
	}
	return []store.Write{rowRefundWrite(row, int64(row.Price))}
}

func (*Billing) CanSettleLate(*call.RequestRow) bool { return false }

func (*Billing) ListPaymentOptions(p *price.Price, refusal error) (options []json.RawMessage) {
	if errors.Is(refusal, errBalanceTooLow) {
		options = append(options, json.RawMessage(`{"way":"credit","path":"`+CheckoutPath+`","of":"the account, by its tenant, or by the operator"}`))
	}
	options = append(options,
		json.RawMessage(`{"way":"key","header":"`+keyHeader+`","of":"an account of this host; for A2A"}`),
		json.RawMessage(`{"way":"link","path":"`+linksPath+`","of":"the caller's id to an account, by a signed claim"}`))
	if p.FreePerSigner > 0 {
		options = append(options, json.RawMessage(fmt.Sprintf(`{"way":"free","calls":%d,"of":"a UTC day, for a caller that signs"}`, p.FreePerSigner)))
	}
	if p.FreePerAddress > 0 {
		options = append(options, json.RawMessage(fmt.Sprintf(`{"way":"free","calls":%d,"of":"a UTC day, for an address"}`, p.FreePerAddress)))
	}
	return options
}

func (b *Billing) PriceVersion(ctx context.Context, vacant identity.ID, version uint64) (price.Price, error) {
	p, err := price.Get(ctx, b.Store, vacant, version)
	return p, store.AsProblem(err)
}
