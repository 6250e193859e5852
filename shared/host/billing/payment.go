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

// MinPayment and MaxPayment limit the amount of one payment.
const (
	MinPayment = 5 * money.Dollar
	MaxPayment = 10_000 * money.Dollar
	// Cent is the unit of payments.
	Cent = money.Dollar / 100
)

// Payments is a payment provider, such as Stripe. It must be safe for concurrent use. If the
// operator has not set the provider's keys, the errors of both methods are NotFound.
type Payments interface {
	// CreateCheckout creates a page for a payment to an account. A repeated idempotency key
	// returns the same page. If the idempotency key is "", each call creates a page.
	CreateCheckout(ctx context.Context, account string, amount money.Amount, idempotencyKey string) (Checkout, error)
	// ParseEvent verifies the signature of a provider's webhook and parses the event of a payment. If
	// the webhook is about something else, ParseEvent returns the zero Event. If the provider did not
	// sign the webhook in the last five minutes, the error is Malformed.
	ParseEvent(ctx context.Context, signature string, body []byte) (Event, error)
}

// Checkout is a page for a payment.
type Checkout struct {
	ID      string       `json:"id"`
	URL     string       `json:"url"`
	Amount  money.Amount `json:"amount"`
	Expires time.Time    `json:"expires"`
}

// CheckoutPath is the path to which payers return, below the URL of the host.
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
	PaymentID     string       // provider's id of the payment
	Account       string       // account that gets the payment, if it was paid
	Paid          money.Amount // amount of the payment, if it was paid
	RefundedTotal money.Amount // sum of the payment's refunds, without refunds that had failed before the event
	RefundID      string       // id of the refund that is reported, or ""
	RefundReport  Refund
	DisputeID     string // id of the dispute that is reported, or ""
	DisputeReport Dispute
}

// Refund is one refund of a payment. The provider withdraws the amount when the refund is created,
// and returns it if the refund fails or is canceled.
type Refund struct {
	Amount money.Amount `json:"amount"`
	Failed bool         `json:"failed,omitempty"` // failed or canceled, which is final
}

// Dispute is a payer's claim that a payment was wrong.
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

// Payment is the state of a payment. Its account has received Paid minus Withdrawn. When
// SettlePayment has returned, Withdrawn equals the sum of refunds and disputes.
type Payment struct {
	// Account is "" until the event of the payment itself arrives.
	Account string       `json:"account,omitempty"`
	Paid    money.Amount `json:"paid,omitempty"`
	// RefundedTotal is the highest RefundedTotal of all events.
	RefundedTotal money.Amount       `json:"refunded,omitempty"`
	Refunds       map[string]Refund  `json:"refunds,omitempty"`
	Disputes      map[string]Dispute `json:"disputes,omitempty"`
	// Withdrawn is the amount taken from the account, including the amount that it owes.
	Withdrawn money.Amount `json:"taken,omitempty"`
}

// refundedAmount returns the sum of refunds that have not failed and of open or lost disputes, at
// most Paid. Some refunds may have no event of their own, because the operator chooses which events
// the provider sends. The sum of such refunds is the part of RefundedTotal that exceeds the sum of
// all known refunds, including failed refunds. A refund is never counted twice, because
// RefundedTotal never exceeds the sum of all refunds.
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

// merge adds an event and reports whether p has changed. An event does not show whether it is newer
// than another one. Therefore the states decide: a failed refund and a decided dispute are final.
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

// unknownPaymentRetention is the time for which refunds and disputes of an unknown payment are
// stored. They may arrive before the payment's own event, which the provider retries for three
// days, or may belong to another business.
const unknownPaymentRetention = 30 * 24 * time.Hour

// SettlePayment applies an event of a provider to the account. It credits a payment once, and takes
// refunds and disputes from the balance. If the balance is too small, the account owes the rest and
// is suspended. A repeated event completes what a crash left incomplete, and otherwise has no
// effect.
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

// loadPayment reads a payment in a transaction. save writes the current value of p.
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

// recordRefund stores a refund or dispute. It returns the account of the payment, or "" if the
// payment is unknown.
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

// applyRefunds takes the refunds of a payment from its account, or returns the amount of a failed
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
	// The amount first pays the account's debt.
	paid := min(a.Owed, c.Amount)
	a.Owed -= paid
	c.Amount, c.Owed = c.Amount-paid, -paid
	return c, b.addToBalance(ctx, tx, a, c.Amount)
}
