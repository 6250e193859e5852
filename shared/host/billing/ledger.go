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

// paymentPlan contains the writes that pay for a call.
type paymentPlan struct {
	account *Account
	day     string
	// holds take the price from shards of the balance. A refund goes to the first of these shards.
	holds []store.Add
	// counters are the daily counters of an account's caps or of free calls.
	counters []counter
}

// counter is a daily counter and the error that is returned if it is full. parts is the number of
// parts into which the counter is divided, or 0. A call uses one part.
type counter struct {
	store.Add
	full  error
	parts int
}

// freeParts is the number of parts into which the counter of all callers' free calls is divided. An
// item of a DynamoDB table accepts only a thousand writes per second.
const freeParts = 16

func (b *Billing) Quote(ctx context.Context, q call.Query) (c call.Charge, err error) {
	p := q.Payer
	if q.Root != nil {
		p = q.Root.Payer
	}
	if p != nil && p.Test {
		switch {
		case q.Tenant != "" && q.Tenant == p.Tenant:
			_, err = b.activeAccount(ctx, p.Account)
		case q.Root != nil: // the caller may be another tenant's vacant
			err = problem.New(problem.TestKey, "the first request has a test key, which cannot pay for calls to vacants of other tenants")
		default:
			err = problem.New(problem.TestKey, "a test key can call only the vacants of its own tenant, %s", p.Tenant)
		}
		return c, err
	}
	if q.Price.IsFree() {
		return c, nil
	}
	by := &q
	if q.RootPays {
		by = q.Root
	}
	account, maker, caps, err := b.payer(ctx, by)
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
	if a.isEnding(&maker) {
		return b.quoteFree(ctx, &q)
	}
	if q.Reset {
		return c, nil // a reset runs no behaviour, and callers without an account may reset
	}
	ofRoot := false
	if q.Root != nil {
		root, _, rootCaps, err := b.payer(ctx, q.Root)
		if err != nil {
			return c, err
		}
		ofRoot = root == account
		for _, rootCap := range rootCaps {
			if ofRoot && !slices.ContainsFunc(caps, func(c spendingLimit) bool { return c.whose == rootCap.whose }) {
				caps = append(caps, rootCap)
			}
		}
	}
	c, err = b.quotePaid(&q, &a, caps)
	c.IsRootPaying = ofRoot
	return c, err
}

func (b *Billing) activeAccount(ctx context.Context, id string) (Account, error) {
	a, err := b.Account(ctx, id)
	if err == nil {
		err = a.checkActive()
	}
	return a, err
}

// spendingLimit limits the spending of its owner. Zero means no limit.
type spendingLimit struct {
	whose string       // owner, as part of the counter's key
	most  money.Amount // limit per UTC day
	once  money.Amount // limit per call
}

// payer returns the account that pays for a call, or "" if no account pays. It also returns the
// maker of the caller's link, and the spending limits in addition to the account's own cap.
func (b *Billing) payer(ctx context.Context, q *call.Query) (account string, maker Maker, caps []spendingLimit, err error) {
	if p := q.Payer; p != nil {
		caps = []spendingLimit{{whose: "key#" + p.Key, most: p.DailyCap, once: p.MaxWalk}}
		if p.Issuer != "" {
			caps = append(caps, spendingLimit{whose: "issuer#" + p.Issuer, most: p.IssuerDailyCap})
		}
		return p.Account, maker, caps, nil // AuthenticateRequest has checked the makers of the key
	}
	if q.Guest {
		return "", maker, nil, nil
	}
	l, err := b.linkOf(ctx, q.Pair.Caller)
	if err != nil || l.Account == "" {
		return "", maker, nil, err
	}
	return l.Account, l.Maker, []spendingLimit{{whose: "link#" + q.Pair.Caller.String(), most: l.Cap}}, nil
}

func (b *Billing) quotePaid(q *call.Query, a *Account, caps []spendingLimit) (c call.Charge, err error) {
	raw, err := hex.DecodeString(a.ID)
	if err != nil || len(raw) != len(c.Payer) {
		return c, problem.New(problem.Damaged, "account %.80q has no id", a.ID)
	}
	shard, err := b.pick(a.Shards)
	if err != nil {
		return c, err
	}
	p := &paymentPlan{account: a, day: b.day()}
	if held := q.Held; held != nil {
		if held.Amount != q.Price.Hold() {
			return c, problem.New(problem.Internal, "a hold of %s was debited for a call that needs a hold of %s", held.Amount, q.Price.Hold())
		}
		return call.Charge{Kind: call.PaidByAccount, Payer: [32]byte(raw), Hold: held.Amount, Shard: held.Shard, Version: q.Price.Version, Plan: p}, nil
	}
	hold := int64(q.Price.Hold())
	p.holds = []store.Add{{Key: BalanceKey(a.ID, shard), Delta: -hold, Max: math.MaxInt64}}
	for _, spendCap := range append(caps, spendingLimit{whose: "account#" + a.ID, most: a.Cap}) {
		if spendCap.once > 0 && q.Price.Hold() > spendCap.once {
			return c, problem.New(problem.PriceAboveMax, "the price is up to %s, more than the %s a call that the key allows", q.Price.Hold(), spendCap.once)
		}
		if spendCap.most > 0 {
			p.counters = append(p.counters, counter{
				Add:  store.Add{Key: quotaKey(p.day, spendCap.whose), Delta: hold, Max: int64(spendCap.most), Expires: b.dayEnds()},
				full: problem.New(problem.SpendCap, "the cap of %s a day is reached; try again after 00:00 UTC", spendCap.most),
			})
		}
	}
	return call.Charge{Kind: call.PaidByAccount, Payer: [32]byte(raw), Hold: q.Price.Hold(), Shard: uint8(shard), Version: q.Price.Version, Plan: p}, nil
}

// quoteFree plans one of the free calls of the day. A signing caller's calls are counted by caller
// and by address, and a guest's calls only by address.
func (b *Billing) quoteFree(ctx context.Context, q *call.Query) (c call.Charge, err error) {
	price, owner := q.Price, q.Owner()
	isGuest := owner == call.GuestOwner
	if isGuest && !price.AdmitsGuests() || !isGuest && !price.AdmitsSigners() {
		return c, unpaidError(q, "the price is "+price.String())
	}
	p := &paymentPlan{day: b.day()}
	vacant := q.Pair.Vacant.String()
	count := func(whose string, limit int64, holder string) {
		p.counters = append(p.counters, counter{
			Add:  store.Add{Key: quotaKey(p.day, vacant+"#"+whose), Delta: 1, Max: limit, Expires: b.dayEnds()},
			full: unpaidError(q, fmt.Sprintf("the free calls of this %s for today are used up; the price is %s", holder, price)),
		})
	}
	if !isGuest {
		count("caller#"+owner.String(), price.Free, "caller")
	}
	if price.FreeAddress > 0 {
		mac, err := b.MAC(ctx, []byte(q.Address))
		if err != nil {
			return c, err
		}
		count("address#"+hex.EncodeToString(mac[:16]), price.FreeAddress, "address")
	}
	if price.FreeAll > 0 {
		n, err := b.pick(freeParts)
		if err != nil {
			return c, err
		}
		count(partOf(n), partMax(price.FreeAll, n), "vacant")
		p.counters[len(p.counters)-1].parts = freeParts
	}
	for _, quota := range p.counters {
		if quota.parts > 0 {
			quota.Add = cacheKeyOfAll(p.day, vacant, price.FreeAll)
		}
		if b.spent.full(p.day, quota.Add) {
			return c, quota.full
		}
	}
	return call.Charge{Kind: call.PaidByFreeCall, Version: price.Version, Plan: p}, nil
}

func unpaidError(q *call.Query, why string) error {
	way := "link the caller's id to an account (POST " + linksPath + "), or call by A2A with an account's key (" + keyHeader + ")"
	if q.Guest { // the host created the guest's id
		way = "send the key of an account (" + keyHeader + "), which the operator of this host makes"
	}
	return problem.New(problem.PaymentRequired, "%s: %s", why, way)
}

// Parts of the errors that explain to a caller without money how to pay.
const (
	keyHeader = "Authorization: Bearer KEY"
	linksPath = "/v1/account/links"
)

// errShort means that the balance of an account does not cover a call.
var errShort = errors.New("the balance is short")

func cacheKeyOfAll(day, vacant string, total int64) store.Add {
	// The cache of full counters has one entry for all parts of a counter, with this key.
	return store.Add{Key: quotaKey(day, vacant+"#all"), Max: total}
}

func partOf(n int) string { return "all#" + strconv.Itoa(n) }

func partMax(total int64, part int) int64 {
	limit := total / freeParts
	if int64(part) < total%freeParts {
		limit++
	}
	return limit
}

func quotaKey(day, whose string) store.Key {
	return QuotaDocs.Key(whose, day)
}

func (b *Billing) day() string { return b.Now().UTC().Format(time.DateOnly) }

func (b *Billing) dayEnds() time.Time {
	// The counters may be deleted one day after the end of the day, because other clocks may be
	// behind.
	return b.Now().UTC().Truncate(24 * time.Hour).Add(48 * time.Hour)
}

func (b *Billing) pick(n int) (int, error) {
	if n == 1 {
		return 0, nil
	}
	var r [4]byte
	if _, err := io.ReadFull(b.Rand, r[:]); err != nil {
		return 0, problem.Wrap(problem.Unavailable, err, "no randomness")
	}
	return int(binary.BigEndian.Uint32(r[:]) % uint32(n)), nil
}

func (b *Billing) Debit(pair call.Pair, c *call.Charge, r *call.RequestRow) []store.Write {
	p := c.Plan.(*paymentPlan)
	writes := make([]store.Write, 0, len(p.holds)+len(p.counters)+1)
	for _, add := range p.holds {
		writes = append(writes, add)
	}
	for _, quota := range p.counters {
		writes = append(writes, quota.Add)
	}
	if c.Hold > 0 {
		// The reminder leads Sweep to the call.
		name := fmt.Sprintf("%s#%s#%d", pair.Caller, pair.Vacant, r.Position)
		data, _ := DueDocs.Encode(pair) // never fails for a pair
		writes = append(writes, store.Put{Key: b.due().Key(r.Due, name), WriteID: r.WriteID, Number: int64(r.Position), Data: data})
	}
	return writes
}

func (b *Billing) Explain(ctx context.Context, q call.Query, c *call.Charge, refused error) (call.Charge, error) {
	var bounds *store.BoundsError
	if !errors.As(refused, &bounds) {
		return *c, refused // a reminder of this position already exists, so the data is damaged
	}
	p := c.Plan.(*paymentPlan)
	for i, quota := range p.counters {
		if quota.Key != bounds.Key {
			continue
		}
		if quota.parts > 0 {
			return b.planOtherPart(ctx, &q, c, i)
		}
		if p.account == nil {
			b.spent.note(p.day, quota.Add)
		}
		return *c, quota.full
	}
	return b.holdAcrossShards(ctx, c, p)
}

// planOtherPart plans a free call with another part of the counter for all callers, or returns the
// error of the counter if all parts are full.
func (b *Billing) planOtherPart(ctx context.Context, q *call.Query, c *call.Charge, index int) (call.Charge, error) {
	old := c.Plan.(*paymentPlan)
	vacant := q.Pair.Vacant.String()
	room := make([]bool, freeParts)
	g, gctx := errgroup.WithContext(ctx)
	for n := range room {
		g.Go(func() error {
			d, err := b.Store.Doc(gctx, quotaKey(old.day, vacant+"#"+partOf(n)))
			room[n] = d.Number < partMax(q.Price.FreeAll, n)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return *c, err
	}
	var parts []int
	for n, has := range room {
		if has {
			parts = append(parts, n)
		}
	}
	if len(parts) == 0 {
		b.spent.note(old.day, cacheKeyOfAll(old.day, vacant, q.Price.FreeAll))
		return *c, old.counters[index].full
	}
	n, err := b.pick(len(parts))
	if err != nil {
		return *c, err
	}
	next := *old
	next.counters = slices.Clone(old.counters)
	next.counters[index].Key, next.counters[index].Max = quotaKey(old.day, vacant+"#"+partOf(parts[n])), partMax(q.Price.FreeAll, parts[n])
	moved := *c
	moved.Plan = &next
	return moved, nil
}

// holdAcrossShards plans the hold over several shards. It refuses the call only if all shards
// together do not cover the hold in two consecutive reads without a change between them.
func (b *Billing) holdAcrossShards(ctx context.Context, c *call.Charge, old *paymentPlan) (call.Charge, error) {
	var before []store.Doc
	for {
		shards, err := b.shards(ctx, old.account)
		if err != nil {
			return *c, err
		}
		holds, short := planDebits(old.account.ID, shards, c.Hold)
		if short == 0 {
			next := *old
			next.holds = holds
			spanned := *c
			spanned.Plan, spanned.Shard = &next, 0
			for n := range 16 {
				if BalanceKey(old.account.ID, n) == holds[0].Key {
					spanned.Shard = uint8(n)
				}
			}
			return spanned, nil
		}
		if slices.EqualFunc(before, shards, func(x, y store.Doc) bool { return x.Version == y.Version }) {
			return *c, problem.Wrap(problem.PaymentRequired, errShort, "the account's balance of %s does not cover a call, which may cost %s: "+
				"its tenant can pay in (vacancy account pay, POST %s), or the operator can credit it", sum(shards), c.Hold, CheckoutPath)
		}
		before = shards
	}
}

// planDebits plans how shards provide an amount, fullest shard first. short is the missing amount.
func planDebits(account string, shards []store.Doc, amount money.Amount) (adds []store.Add, short money.Amount) {
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

func (b *Billing) Settle(ctx context.Context, s call.Settlement) (call.FinalCharge, error) {
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
	var used call.Usage
	if s.Usage != nil {
		used = *s.Usage
	}
	settled := call.FinalCharge{Charge: min(p.Charge(used.In, used.Out), money.Amount(row.Price))}
	if back := int64(row.Price) - int64(settled.Charge); back > 0 {
		settled.Writes = []store.Write{refundWrite(row, back)}
	}
	return settled, nil
}

func refundWrite(row *call.RequestRow, amount int64) store.Write {
	return store.Add{Key: BalanceKey(hex.EncodeToString(row.Payer[:]), int(row.Shard)), Delta: amount, Max: math.MaxInt64}
}

func (b *Billing) Refund(_ call.Pair, row *call.RequestRow, _ bool) []store.Write {
	if row.PaidBy != call.PaidByAccount || row.Price == 0 {
		return nil
	}
	return []store.Write{refundWrite(row, int64(row.Price))}
}

func (*Billing) Late(*call.RequestRow) bool { return false } // an account settles immediately

func (*Billing) Pay(p *price.Price, refused error) (ways []json.RawMessage) {
	if errors.Is(refused, errShort) {
		ways = append(ways, json.RawMessage(`{"way":"credit","path":"`+CheckoutPath+`","of":"the account, by its tenant, or by the operator"}`))
	}
	ways = append(ways,
		json.RawMessage(`{"way":"key","header":"`+keyHeader+`","of":"an account of this host; for A2A"}`),
		json.RawMessage(`{"way":"link","path":"`+linksPath+`","of":"the caller's id to an account, by a signed claim"}`))
	if p.Free > 0 {
		ways = append(ways, json.RawMessage(fmt.Sprintf(`{"way":"free","calls":%d,"of":"a UTC day, for a caller that signs"}`, p.Free)))
	}
	if p.FreeAddress > 0 {
		ways = append(ways, json.RawMessage(fmt.Sprintf(`{"way":"free","calls":%d,"of":"a UTC day, for an address"}`, p.FreeAddress)))
	}
	return ways
}

func (b *Billing) PriceVersion(ctx context.Context, vacant identity.ID, version uint64) (price.Price, error) {
	p, err := price.Get(ctx, b.Store, vacant, version)
	return p, store.AsProblem(err)
}
