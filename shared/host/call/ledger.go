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

// Ledger moves the money of priced calls. The pipeline commits the Ledger's writes together with a
// request or response row, so that every priced request row has its debit and every refund has its
// void. A Ledger is safe for concurrent use.
type Ledger interface {
	// Quote plans who pays for a call and how. A problem with status 402, 403 or 429 refuses the
	// call. Any other error is a store error.
	Quote(ctx context.Context, q QuoteRequest) (PaymentPlan, error)
	// Debit returns at most 8 writes for the commit of the request row. None of them is an Append.
	Debit(pair Pair, plan *PaymentPlan, r *RequestRow) []store.Write
	// Replan is called if a write of Debit failed with a *store.BoundsError or *store.ConflictError.
	// It returns another plan for the same call, or a refusal like Quote.
	Replan(ctx context.Context, q QuoteRequest, plan *PaymentPlan, refusal error) (PaymentPlan, error)
	// Settle runs after the behaviour and before the answer row is stored. It may be called again
	// for the same row, by any process, and must settle only once. An error voids the call, unless
	// it is ErrUncertain or of kind Unavailable. Settle may return ErrUncertain only for rows for
	// which CanSettleLate returns true.
	Settle(ctx context.Context, s SettlementRequest) (FinalCharge, error)
	// Refund returns writes for the commit of the void row. hasRun reports whether the behaviour
	// was started.
	Refund(pair Pair, r *RequestRow, hasRun bool) []store.Write
	// CanSettleLate reports whether Settle may return ErrUncertain for a row.
	CanSettleLate(r *RequestRow) bool
	// ListPaymentOptions lists the ways to pay a price, in JSON, for a call that was refused.
	ListPaymentOptions(p *price.Price, refusal error) []json.RawMessage
}

// QuoteRequest is a call that is about to be accepted, for which the Ledger plans the payment.
type QuoteRequest struct {
	Pair    Pair
	Tenant  string       // tenant of the vacant; "" for the operator
	Price   *price.Price // price of the vacant; nil if calls are free
	Guest   bool         // whether the host created the caller's key
	IsReset bool         // whether the request is a reset, which runs no behaviour
	Hold    *Hold        // hold debited earlier for this call, or nil
	// Root is the first request of the walk (walk.go) in which a vacant makes this call, or nil if
	// this call is the first request. All calls of a walk have the Address of Root.
	Root *QuoteRequest
	// RootPays is set if Root is a turn of a dispatched task whose account pays for the call
	// (taskPaysForCalls).
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

// Credential is a request's means of payment. If the request runs later, its turn stores the
// credential as JSON, because the credential also pays for calls in the walk.
type Credential struct {
	// Payer is the account that the handler authenticated, or nil. It pays for the call even if
	// another party signs it.
	Payer *Payer `json:"payer,omitempty"`
	// Address is the client's IP address, or "" if unknown.
	Address string `json:"address,omitempty"`
	// MaxPrice limits the price of the call. It also limits the total that the payer's account pays
	// for the walk of the call (walk.go). If MaxPrice is nil, any price is accepted.
	MaxPrice *money.Amount `json:"most,omitempty"`
	// Voucher is a payment for this call only, or nil.
	Voucher []byte `json:"-"`
	// IsTaskTurn marks a turn of a dispatched task, for which MaxPrice is the rest of the task's
	// budget. IsOwnVacant means that the owner of the task also owns the vacant. MaxPrice then also
	// limits the cost of models.
	IsTaskTurn  bool `json:"-"`
	IsOwnVacant bool `json:"-"`
}

// Payer is an account and the credential that authenticated it.
type Payer struct {
	Account     string       `json:"account"`           // account id in hex
	Subject     string       `json:"subject,omitempty"` // id in hex of the account's subject that sends the request; "" for a key of the account
	Tenant      string       `json:"tenant"`            // tenant name
	Key         string       `json:"key"`               // id of the key or subject
	DailyCap    money.Amount `json:"cap,omitempty"`     // limit of the key or subject for a UTC day; zero means no limit
	MaxWalkCost money.Amount `json:"most,omitempty"`    // limit of the key for a walk; zero means no limit
	Test        bool         `json:"test,omitempty"`    // calls of a test key are not charged
	// Issuer is the id of the issuer of a subject's token, and IssuerDailyCap is the daily cap of all
	// subjects of the issuer together. HasAgentsScope reports whether the token has the scope agents.
	Issuer         string       `json:"issuer,omitempty"`
	IssuerDailyCap money.Amount `json:"issuer_cap,omitempty"`
	HasAgentsScope bool         `json:"agents,omitempty"`
}

// PayerKind is the kind of payer of a call.
type PayerKind byte

const (
	Unpriced       PayerKind = 0 // the call has no price
	PaidByFreeCall PayerKind = 1 // one of the caller's free calls of the day
	PaidByAccount  PayerKind = 2
	PaidByVoucher  PayerKind = 3
)

// PaymentPlan is the plan for the payment of one call.
type PaymentPlan struct {
	Kind         PayerKind
	Payer        [32]byte     // account; zero for a free call
	Hold         money.Amount // amount debited with the accept
	Shard        uint8        // balance shard that receives a refund
	Version      uint64       // price version
	IsRootPaying bool         // whether the account of QuoteRequest.Root pays, so that its limits for the walk apply
	LedgerState  any          // value that the ledger passes from Quote to Debit and Replan
}

// SettlementRequest is an accepted call whose behaviour returned an answer.
type SettlementRequest struct {
	Pair    Pair
	Row     *RequestRow
	Price   *price.Price // price version that Row names, or nil if the vacant now has another version
	Usage   *Usage       // nil if the agent does not report usage
	IsRetry bool         // whether Settle may have been called for the row before
}

// FinalCharge is the final charge of a call, with writes for the commit of its answer.
type FinalCharge struct {
	Charge money.Amount
	Writes []store.Write
}

// ErrUncertain means that it is not known yet whether a call is settled. Its answer is stored, and
// Settle is called again when the caller resends the call or the sweeper runs.
var ErrUncertain = errors.New("it is not known whether the call is settled")

func (h *Host) fetchAndQuote(ctx context.Context, r *request, fresh bool) (ok bool, err error) {
	if ok, err = h.fetchVacant(ctx, r, fresh); err != nil || !ok || !r.needsQuote() {
		return ok, err
	}
	return true, h.planPayment(ctx, r)
}

// needsQuote reports whether the ledger must plan the call. A free call with a payer needs a quote,
// because a test key can call only some vacants.
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

// recordPaymentRefusal stores a refusal of the ledger for decide, and returns any other error.
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

// maxPlans limits the calls of Ledger.Replan for one call.
const maxPlans = 32
