package billing

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// The least and the most that one payment adds.
const (
	MinPayment = 5 * money.Dollar
	MaxPayment = 10_000 * money.Dollar
	// Cent is the unit of payments.
	Cent = money.Dollar / 100
)

// Payments is a provider of payments, such as Stripe. It is safe for concurrent use. The
// errors of both are NotFound if the operator has set no keys for it.
type Payments interface {
	// Checkout makes a page where somebody pays an amount to an account. A repeated key
	// makes only one page. "" makes a page each time.
	Checkout(ctx context.Context, account string, amount money.Amount, key string) (Checkout, error)
	// Event verifies a webhook of the provider by its signature, and reads a payment's event
	// from it. The zero Event is a webhook about something else. A webhook that the provider
	// has not signed in the last five minutes is Malformed.
	Event(ctx context.Context, signature string, body []byte) (Event, error)
}

// Checkout is a page where somebody pays.
type Checkout struct {
	ID      string       `json:"id"`
	URL     string       `json:"url"`
	Amount  money.Amount `json:"amount"`
	Expires time.Time    `json:"expires"`
}

// CheckoutPath is the path that payers return to, below the URL of the host.
const CheckoutPath = "/v1/account/checkout"

// CheckPayment checks the amount of a payment.
func CheckPayment(amount money.Amount) error {
	if amount < MinPayment || amount > MaxPayment || amount%Cent != 0 {
		return problem.Invalid("amount", fmt.Sprintf("%d to %d micro-dollars in whole cents: %s to %s", MinPayment, MaxPayment, MinPayment, MaxPayment), strconv.FormatInt(int64(amount), 10))
	}
	return nil
}

// Event is a provider's report about a payment. Events come repeatedly, late and in
// any order.
type Event struct {
	Payment       string       // the provider's id of the payment
	Account       string       // account that gets the payment, if it was paid
	Paid          money.Amount // amount of the payment, if it was paid
	RefundedTotal money.Amount // until now, without refunds that had failed by then
	Refund        string       // the id of a refund
	Refunded      Refund
	Dispute       string // the id of a dispute
	Disputed      Dispute
}

// Refund is one refund of a payment. The provider withdraws its amount when the refund is
// made, and returns the amount if the refund fails or is canceled.
type Refund struct {
	Amount money.Amount `json:"amount"`
	Failed bool         `json:"failed,omitempty"` // or canceled; for good
}

// Dispute is a payer's claim that an amount was paid wrongly.
type Dispute struct {
	Amount money.Amount `json:"amount"`
	State  DisputeState `json:"state"`
}

// DisputeState tells how far a dispute is.
type DisputeState string

// The states of disputes. The provider withdraws the amount of an open or lost dispute.
const (
	DisputeOpen DisputeState = "open"
	DisputeLost DisputeState = "lost"
	DisputeWon  DisputeState = "won"
)

// Payment is the state of a payment. Its account has received Paid, less Taken, which equals
// the refunds and disputes once SettlePayment has returned.
type Payment struct {
	Account string       `json:"account,omitempty"` // "" while only refunds and disputes of the payment have come
	Paid    money.Amount `json:"paid,omitempty"`
	// Refunded is the highest RefundedTotal of all events.
	Refunded money.Amount       `json:"refunded,omitempty"`
	Refunds  map[string]Refund  `json:"refunds,omitempty"`
	Disputes map[string]Dispute `json:"disputes,omitempty"`
	Taken    money.Amount       `json:"taken,omitempty"` // from the account, including what it owes
}

// refunds is the sum of refunds that have not failed and of disputes that are open or lost, at
// most Paid. A total may include refunds without an event of their own, because the operator
// chooses which events the provider sends. The part of a total that exceeds the known refunds
// is counted for those unknown ones. No total exceeds the sum of all refunds, so none counts
// twice.
func (p *Payment) refunds() money.Amount {
	var total, known money.Amount
	for _, r := range p.Refunds {
		known += r.Amount
		if !r.Failed {
			total += r.Amount
		}
	}
	total += max(p.Refunded-known, 0)
	for _, d := range p.Disputes {
		if d.State != DisputeWon {
			total += d.Amount
		}
	}
	return min(total, p.Paid)
}

// merge adds an event and reports whether it changed p. No member of an event tells which of
// two events is newer. The states decide instead: a failed refund and a decided dispute are
// final.
func (p *Payment) merge(e *Event) (changed bool) {
	if e.RefundedTotal > p.Refunded {
		p.Refunded, changed = e.RefundedTotal, true
	}
	if r := p.Refunds[e.Refund]; e.Refund != "" && r != e.Refunded && !r.Failed {
		if p.Refunds == nil {
			p.Refunds = map[string]Refund{}
		}
		p.Refunds[e.Refund], changed = e.Refunded, true
	}
	before, known := p.Disputes[e.Dispute]
	if e.Dispute == "" || before == e.Disputed || known && before.State != DisputeOpen {
		return changed
	}
	if p.Disputes == nil {
		p.Disputes = map[string]Dispute{}
	}
	p.Disputes[e.Dispute] = e.Disputed
	return true
}

// unpaidFor is the time for which refunds and disputes of an unknown payment are kept. Their
// events may arrive before the payment's own event, which the provider retries for three
// days, or belong to another business.
const unpaidFor = 30 * 24 * time.Hour

// SettlePayment applies an event of a provider to the account: it credits a payment once, and
// takes refunds and disputes from the balance. If the balance is too small, the account owes
// the rest and is suspended. A repeated event changes nothing, unless a crash left the event
// half applied: then it completes it.
func (b *Billing) SettlePayment(ctx context.Context, e Event) (err error) {
	account := e.Account
	switch {
	case e.Payment == "": // something else
		return nil
	case account == "":
		account, err = b.recordRefund(ctx, &e)
	default:
		err = b.creditPayment(ctx, &e)
	}
	if err != nil || account == "" {
		return err
	}
	return b.applyRefunds(ctx, account, e.Payment)
}

// payment reads a payment in a transaction. put writes what p is then.
func (b *Billing) payment(ctx context.Context, tx *store.Tx, id string) (p *Payment, put func(), err error) {
	known, d, err := PaymentDocs.Get(ctx, tx, PaymentDocs.Key(id))
	p = &known
	return p, func() {
		next := store.Doc{Key: d.Key}
		if p.Account == "" {
			next.Expires = b.now().Add(unpaidFor)
		}
		PaymentDocs.Put(tx, next, *p)
	}, err
}

// creditPayment credits a payment to its account, once.
func (b *Billing) creditPayment(ctx context.Context, e *Event) error {
	if e.Paid <= 0 || e.Paid > money.Max {
		return problem.Invalid("amount", fmt.Sprintf("1 to %d micro-dollars", money.Max), strconv.FormatInt(int64(e.Paid), 10))
	}
	_, err := b.change(ctx, e.Account, func(ctx context.Context, tx *store.Tx, a *Account) (Change, error) {
		p, put, err := b.payment(ctx, tx, e.Payment)
		switch {
		case err != nil:
			return Change{}, err
		case p.Account != "" && (p.Account != e.Account || p.Paid != e.Paid):
			return Change{}, problem.New(problem.Conflict, "payment %.80q of %s was made to account %s", e.Payment, p.Paid, p.Account)
		case p.Account != "":
			return Change{}, nil
		}
		p.Account, p.Paid = e.Account, e.Paid
		put()
		return b.receive(ctx, tx, a, Change{Kind: Credited, Amount: e.Paid, Payment: e.Payment})
	})
	return err
}

// recordRefund stores a refund or dispute, and returns the account of the payment, "" if the
// payment is unknown.
func (b *Billing) recordRefund(ctx context.Context, e *Event) (account string, err error) {
	err = b.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		p, put, err := b.payment(ctx, tx, e.Payment)
		if err != nil {
			return err
		}
		account = p.Account
		if p.merge(e) {
			put()
		}
		return nil
	})
	return account, store.Problem(err)
}

// applyRefunds takes the refunds of a payment from its account, or returns the amount of a
// refund that failed or of a dispute that was won.
func (b *Billing) applyRefunds(ctx context.Context, account, id string) error {
	_, err := b.change(ctx, account, func(ctx context.Context, tx *store.Tx, a *Account) (Change, error) {
		p, put, err := b.payment(ctx, tx, id)
		if err != nil {
			return Change{}, err
		}
		more := p.refunds() - p.Taken
		if more == 0 {
			return Change{}, nil
		}
		p.Taken += more
		put()
		if more < 0 {
			return b.receive(ctx, tx, a, Change{Kind: Reversed, Amount: -more, Payment: id})
		}
		shards, err := b.shards(ctx, a)
		if err != nil {
			return Change{}, err
		}
		adds, short := take(a.ID, shards, more)
		for _, add := range adds {
			tx.Add(add)
		}
		a.Owed += short
		a.Suspended = a.Suspended || short > 0
		return Change{Kind: Clawback, Amount: short - more, Owed: short, Payment: id}, nil
	})
	return err
}

// receive adds the amount of a change to an account: first to what it owes.
func (b *Billing) receive(ctx context.Context, tx *store.Tx, a *Account, c Change) (Change, error) {
	paid := min(a.Owed, c.Amount)
	a.Owed -= paid
	c.Amount, c.Owed = c.Amount-paid, -paid
	return c, b.addMoney(ctx, tx, a, c.Amount)
}
