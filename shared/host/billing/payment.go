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

const (
	MinPayment = 5 * money.Dollar
	MaxPayment = 10_000 * money.Dollar
	Cent       = money.Dollar / 100
)

// Payments is a payment provider, such as Stripe. It must be safe for concurrent use. If the
// provider's keys are not set, errors are NotFound.
type Payments interface {
	// CreateCheckout creates a page for a payment. A repeated idempotency key, except "", returns
	// the same page.
	CreateCheckout(ctx context.Context, account string, amount money.Amount, idempotencyKey string) (Checkout, error)
	// ParseEvent verifies and parses a provider's webhook. If the webhook is about something else,
	// it returns the zero Event. A webhook that was not signed in the last five minutes is
	// Malformed.
	ParseEvent(ctx context.Context, signature string, body []byte) (Event, error)
}

type Checkout struct {
	ID      string       `json:"id"`
	URL     string       `json:"url"`
	Amount  money.Amount `json:"amount"`
	Expires time.Time    `json:"expires"`
}

const CheckoutPath = "/v1/account/checkout"

func CheckPayment(amount money.Amount) error {
	if amount < MinPayment || amount > MaxPayment || amount%Cent != 0 {
		return problem.Invalid("amount", fmt.Sprintf("%d to %d micro-dollars in whole cents: %s to %s", MinPayment, MaxPayment, MinPayment, MaxPayment), strconv.FormatInt(int64(amount), 10))
	}
	return nil
}

// Event is a provider's report about a payment. Events may arrive repeatedly, late and in any
// order.
type Event struct {
	PaymentID     string
	Account       string // set if the payment was paid
	Paid          money.Amount
	RefundedTotal money.Amount // without refunds that failed earlier
	RefundID      string
	RefundReport  Refund
	DisputeID     string
	DisputeReport Dispute
}

type Refund struct {
	Amount money.Amount `json:"amount"`
	Failed bool         `json:"failed,omitempty"` // failed or canceled, which is final
}

type Dispute struct {
	Amount money.Amount `json:"amount"`
	State  DisputeState `json:"state"`
}

type DisputeState string

// The provider withdraws the amount of an open or lost dispute.
const (
	DisputeOpen DisputeState = "open"
	DisputeLost DisputeState = "lost"
	DisputeWon  DisputeState = "won"
)

// Payment is the state of a payment. Its account has received Paid minus Withdrawn.
type Payment struct {
	// Account is "" until the event of the payment itself arrives.
	Account       string             `json:"account,omitempty"`
	Paid          money.Amount       `json:"paid,omitempty"`
	RefundedTotal money.Amount       `json:"refunded,omitempty"`
	Refunds       map[string]Refund  `json:"refunds,omitempty"`
	Disputes      map[string]Dispute `json:"disputes,omitempty"`
	// Withdrawn includes the amount that the account owes.
	Withdrawn money.Amount `json:"taken,omitempty"`
}

// refundedAmount returns the sum of refunds that have not failed and of open or lost disputes, at
// most Paid. Only the part of RefundedTotal that exceeds the known refunds is added, so that no
// refund is counted twice.
func (p *Payment) refundedAmount() money.Amount {
	var total, knownTotal money.Amount
	for _, r := range p.Refunds {
		knownTotal += r.Amount
		if !r.Failed {
			total += r.Amount
		}
	}
	total += max(p.RefundedTotal-knownTotal, 0)
	for _, d := range p.Disputes {
		if d.State != DisputeWon {
			total += d.Amount
		}
	}
	return min(total, p.Paid)
}

// merge adds an event. Events may arrive in any order, so the final states win: a failed refund and
// a decided dispute.
func (p *Payment) merge(e *Event) (changed bool) {
	if e.RefundedTotal > p.RefundedTotal {
		p.RefundedTotal, changed = e.RefundedTotal, true
	}
	if r := p.Refunds[e.RefundID]; e.RefundID != "" && r != e.RefundReport && !r.Failed {
		if p.Refunds == nil {
			p.Refunds = map[string]Refund{}
		}
		p.Refunds[e.RefundID], changed = e.RefundReport, true
	}
	previous, isKnown := p.Disputes[e.DisputeID]
	if e.DisputeID == "" || previous == e.DisputeReport || isKnown && previous.State != DisputeOpen {
		return changed
	}
	if p.Disputes == nil {
		p.Disputes = map[string]Dispute{}
	}
	p.Disputes[e.DisputeID] = e.DisputeReport
	return true
}

// unknownPaymentRetention limits how long refunds of an unknown payment are stored. The payment's
// own event may arrive days later, or never.
const unknownPaymentRetention = 30 * 24 * time.Hour

// SettlePayment applies an event to the account, once. If the balance does not cover a refund or
// dispute, the account owes the rest and is suspended. A repeated event completes what a crash left
// incomplete.
func (b *Billing) SettlePayment(ctx context.Context, e Event) (err error) {
	account := e.Account
	switch {
	case e.PaymentID == "": // the webhook was about something else
		return nil
	case account == "":
		account, err = b.recordRefund(ctx, &e)
	default:
		err = b.creditPayment(ctx, &e)
	}
	if err != nil || account == "" {
		return err
	}
	return b.applyRefunds(ctx, account, e.PaymentID)
}

func (b *Billing) loadPayment(ctx context.Context, tx *store.Tx, id string) (p *Payment, save func(), err error) {
	stored, d, err := PaymentDocs.Get(ctx, tx, PaymentDocs.Key(id))
	p = &stored
	return p, func() {
		next := store.Doc{Key: d.Key}
		if p.Account == "" {
			next.Expires = b.currentSecond().Add(unknownPaymentRetention)
		}
		PaymentDocs.Put(tx, next, *p)
	}, err
}

func (b *Billing) creditPayment(ctx context.Context, e *Event) error {
	if e.Paid <= 0 || e.Paid > money.Max {
		return problem.Invalid("amount", fmt.Sprintf("1 to %d micro-dollars", money.Max), strconv.FormatInt(int64(e.Paid), 10))
	}
	_, err := b.changeAccount(ctx, e.Account, func(ctx context.Context, tx *store.Tx, a *Account) (Change, error) {
		p, save, err := b.loadPayment(ctx, tx, e.PaymentID)
		switch {
		case err != nil:
			return Change{}, err
		case p.Account != "" && (p.Account != e.Account || p.Paid != e.Paid):
			return Change{}, problem.New(problem.Conflict, "payment %.80q of %s was made to account %s", e.PaymentID, p.Paid, p.Account)
		case p.Account != "":
			return Change{}, nil
		}
		p.Account, p.Paid = e.Account, e.Paid
		save()
		return b.creditAfterDebt(ctx, tx, a, Change{Kind: Credited, Amount: e.Paid, Payment: e.PaymentID})
	})
	return err
}

func (b *Billing) recordRefund(ctx context.Context, e *Event) (account string, err error) {
	err = b.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		p, save, err := b.loadPayment(ctx, tx, e.PaymentID)
		if err != nil {
			return err
		}
		account = p.Account
		if p.merge(e) {
			save()
		}
		return nil
	})
	return account, store.AsProblem(err)
}

// applyRefunds takes refunds and disputes from the account, or returns the amount of a failed
// refund or a won dispute.
func (b *Billing) applyRefunds(ctx context.Context, account, id string) error {
	_, err := b.changeAccount(ctx, account, func(ctx context.Context, tx *store.Tx, a *Account) (Change, error) {
		p, save, err := b.loadPayment(ctx, tx, id)
		if err != nil {
			return Change{}, err
		}
		delta := p.refundedAmount() - p.Withdrawn
		if delta == 0 {
			return Change{}, nil
		}
		p.Withdrawn += delta
		save()
		if delta < 0 {
			return b.creditAfterDebt(ctx, tx, a, Change{Kind: Reversed, Amount: -delta, Payment: id})
		}
		shards, err := b.readShards(ctx, a)
		if err != nil {
			return Change{}, err
		}
		adds, missing := planDebits(a.ID, shards, delta)
		for _, add := range adds {
			tx.AddWrites(add)
		}
		a.Owed += missing
		a.Suspended = a.Suspended || missing > 0
		return Change{Kind: Clawback, Amount: missing - delta, Owed: missing, Payment: id}, nil
	})
	return err
}

func (b *Billing) creditAfterDebt(ctx context.Context, tx *store.Tx, a *Account, c Change) (Change, error) {
	paid := min(a.Owed, c.Amount)
	a.Owed -= paid
	c.Amount, c.Owed = c.Amount-paid, -paid
	return c, b.addToBalance(ctx, tx, a, c.Amount)
}
