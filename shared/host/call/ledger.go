package call

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Ledger moves the money of priced calls. No debit or refund exists without its request or response
// row. A Ledger is safe for concurrent use.
type Ledger interface {
	// Quote plans the payment of a call. A problem with status 402, 403 or 429 refuses the call.
	// Any other error is a store error.
	Quote(ctx context.Context, q QuoteRequest) (PaymentPlan, error)
	// Debit returns at most 8 writes for the commit of the request row, none of them an Append.
	Debit(pair Pair, plan *PaymentPlan, r *RequestRow) []store.Write
	// Replan returns another plan after a write of Debit failed. Like Quote, it may return a
	// refusal.
	Replan(ctx context.Context, q QuoteRequest, plan *PaymentPlan, refusal error) (PaymentPlan, error)
	// Settle runs before the answer row is stored, and returns the charge. Any process may call
	// Settle again for the same row, and Settle must charge only once. An error voids the call,
	// unless it is ErrUncertain or of kind Unavailable.
	Settle(ctx context.Context, s SettlementRequest) (FinalCharge, error)
	Refund(pair Pair, r *RequestRow, hasRun bool) []store.Write
	// CanSettleLate reports whether Settle may return ErrUncertain for a row.
	CanSettleLate(r *RequestRow) bool
	ListPaymentOptions(p *price.Price, refusal error) []json.RawMessage
}

type QuoteRequest struct {
	Pair    Pair
	Tenant  string // "" for the operator
	Price   *price.Price
	Guest   bool // whether the host created the caller's key
	IsReset bool
	Hold    *Hold // debited earlier for this call, or nil
	// Root is nil if this call is the root of its walk (walk.go).
	Root *QuoteRequest
	// RootPays is set if the account of a dispatched task pays for the call.
	RootPays bool
	Credential
}

func (q *QuoteRequest) Owner() Owner {
	switch {
	case q.Payer != nil:
		return q.Payer.Owner()
	case q.Guest:
		return GuestOwner
	}
	return KeyOwner(q.Pair.Caller)
}

// Credential is a request's means of payment. It also pays for other calls of the walk.
type Credential struct {
	Payer   *Payer `json:"payer,omitempty"`
	Address string `json:"address,omitempty"`
	// MaxPrice limits the price of the call and the payments in its walk. Nil means no limit.
	MaxPrice *money.Amount `json:"most,omitempty"`
	// Voucher is a payment for this call only, or nil.
	Voucher []byte `json:"-"`
	// IsTaskTurn marks a turn of a dispatched task, for which MaxPrice is the rest of the budget.
	// If the owner of the task owns the vacant, MaxPrice also limits the cost of models.
	IsTaskTurn  bool `json:"-"`
	IsOwnVacant bool `json:"-"`
}

type Payer struct {
	Account     string       `json:"account"`           // in hex
	Subject     string       `json:"subject,omitempty"` // in hex; "" for a key of the account
	Tenant      string       `json:"tenant"`
	Key         string       `json:"key"`            // id of the key or subject
	DailyCap    money.Amount `json:"cap,omitempty"`  // zero means no limit
	MaxWalkCost money.Amount `json:"most,omitempty"` // zero means no limit
	Test        bool         `json:"test,omitempty"` // calls of a test key are not charged
	// IssuerDailyCap limits all subjects of the issuer together.
	Issuer         string       `json:"issuer,omitempty"`
	IssuerDailyCap money.Amount `json:"issuer_cap,omitempty"`
	HasAgentsScope bool         `json:"agents,omitempty"`
}

type PayerKind byte

const (
	Unpriced       PayerKind = 0
	PaidByFreeCall PayerKind = 1
	PaidByAccount  PayerKind = 2
	PaidByVoucher  PayerKind = 3
)

type PaymentPlan struct {
	Kind         PayerKind
	Payer        [32]byte
	Hold         money.Amount
	Shard        uint8 // balance shard that receives a refund
	Version      uint64
	IsRootPaying bool // whether the account of QuoteRequest.Root pays
	LedgerState  any  // value for Debit and Replan
}

type SettlementRequest struct {
	Pair    Pair
	Row     *RequestRow
	Price   *price.Price // nil if Row names another version
	Usage   *Usage
	IsRetry bool
}

type FinalCharge struct {
	Charge money.Amount
	Writes []store.Write
}

// ErrUncertain means that it is not known yet whether a call is settled. A resend or the sweeper
// tries again.
var ErrUncertain = errors.New("it is not known whether the call is settled")

func (h *Host) fetchAndQuote(ctx context.Context, r *request, fresh bool) (ok bool, err error) {
	if ok, err = h.fetchVacant(ctx, r, fresh); err != nil || !ok || !r.needsQuote() {
		return ok, err
	}
	return true, h.planPayment(ctx, r)
}

// needsQuote includes free calls with a payer, because a test key can call only some vacants.
func (r *request) needsQuote() bool {
	return r.mayNeedPayment && (!r.vacant.Price.IsFree() || r.opts.Payer != nil)
}

func (h *Host) planPayment(ctx context.Context, r *request) (err error) {
	r.plan, r.paymentRefusal, r.out.Price = PaymentPlan{}, nil, nil
	if p := r.vacant.Price; !p.IsFree() {
		isExempt, err := h.isExempt(ctx, r)
		if err != nil || isExempt {
			return err
		}
		if h.Ledger == nil {
			return problem.New(problem.Unavailable, "this host cannot charge for calls now")
		}
		r.out.Price = p
		if limit := r.opts.MaxPrice; limit != nil && p.Hold() > *limit {
			r.paymentRefusal = problem.New(problem.PriceAboveMax, "a call costs up to %s, more than the %s that the request allows", p.Hold(), *limit)
			return nil
		}
	}
	if h.Ledger != nil {
		r.plan, err = h.Ledger.Quote(ctx, r.newQuoteRequest())
		if err == nil && r.plan.IsRootPaying {
			err = r.root.reserve(ctx, r.hash, r.plan.Hold)
		}
	}
	return h.recordPaymentRefusal(r, err)
}

func (r *request) newQuoteRequest() QuoteRequest {
	q := QuoteRequest{Pair: r.pair, Tenant: r.vacant.Tenant, Price: r.vacant.Price, Guest: r.opts.Guest, IsReset: r.isReset, Credential: r.credential()}
	if agreement := r.opts.AgreedPrice; agreement != nil {
		q.Hold = agreement.Hold
	}
	if r.root != nil {
		root := r.root.newQuoteRequest()
		q.Root, q.RootPays, q.Address = &root, r.callingRequest.taskPaysForCalls(), root.Address
	}
	return q
}

func (h *Host) recordPaymentRefusal(r *request, err error) error {
	if err == nil {
		return nil
	}
	switch problem.AsError(err).Kind {
	case problem.PaymentRequired, problem.PriceAboveMax, problem.SpendCapReached, problem.AccountSuspended, problem.TestKeyNotAllowed, problem.TooManyRequests:
		r.paymentRefusal = err
		return nil
	}
	return h.unavailableError(err)
}

func (h *Host) isExempt(ctx context.Context, r *request) (bool, error) {
	if related, err := h.isRelated(ctx, r.pair, r.vacant.Parent); err != nil || related {
		return related, err
	}
	self, err := h.Self(ctx)
	return !self.IsZero() && self == r.pair.Caller, h.unavailableError(err)
}

func (h *Host) listPaymentOptions(r *request) []json.RawMessage {
	if h.Ledger == nil || r.vacant.Price == nil || problem.AsError(r.paymentRefusal).Kind.Forms().HTTPStatus != http.StatusPaymentRequired {
		return nil
	}
	return h.Ledger.ListPaymentOptions(r.vacant.Price, r.paymentRefusal)
}

func isDebitRefused(debit []store.Write, err error) bool {
	var bounds *store.BoundsError
	var conflict *store.ConflictError
	for _, write := range debit {
		switch write := write.(type) {
		case store.Add:
			if errors.As(err, &bounds) && bounds.Key == write.Key {
				return true
			}
		case store.Put:
			if errors.As(err, &conflict) && conflict.Key == write.Key {
				return true
			}
		}
	}
	return false
}

const maxPlans = 32
