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

// Ledger moves the money of calls that have a price. Its writes join the commit of the
// row they belong to, so there is never a row without its debit or a refund without its
// void. It is safe for concurrent use.
type Ledger interface {
	// Quote plans who pays for a call now, and how. A problem of status 402, 403 or 429
	// refuses the call; any other error is the store's.
	Quote(ctx context.Context, q Query) (Charge, error)
	// Debit returns the writes besides the request row: at most 8, with no Append.
	Debit(pair Pair, c *Charge, r *RequestRow) []store.Write
	// Explain is asked when the store refused one of the writes of Debit, with its
	// *store.BoundsError or *store.ConflictError: another way to pay for the same call, or
	// the refusal of Quote.
	Explain(ctx context.Context, q Query, c *Charge, refused error) (Charge, error)
	// Settle runs after the behaviour and before the answer is stored. It may be asked
	// again for the same row, by any process, and settles once. An error voids the call,
	// unless it is ErrUncertain, which only charges with Late may return.
	Settle(ctx context.Context, s Settlement) (Settled, error)
	// Refund returns the writes besides the void row. ran: the behaviour was begun.
	Refund(pair Pair, r *RequestRow, ran bool) []store.Write
	// Late reports whether the settlement of a row may stay uncertain.
	Late(r *RequestRow) bool
	// Pay lists the ways to pay a price, in JSON, for a call that was refused.
	Pay(p *price.Price, refused error) []json.RawMessage
}

// Query is a call that is about to be accepted.
type Query struct {
	Pair   Pair
	Tenant string       // of the vacant; "" is the operator
	Price  *price.Price // of the vacant; nil if calls are free
	Guest  bool         // the host made the caller's key
	Reset  bool         // a reset: it runs nothing
	Held   *Held        // debited before for this call, or nil
	// Root is the first request of the walk in which a vacant makes the call. It is nil if the
	// call is a first request. The Address of a walk is its root's.
	Root *Query
	Credential
}

// Owner returns the owner of the call: of the free calls that it draws on.
func (q *Query) Owner() Owner {
	switch {
	case q.Payer != nil:
		return q.Payer.Owner()
	case q.Guest:
		return GuestOwner
	}
	return KeyOwner(q.Pair.Caller)
}

// Credential holds a request's means to pay. Its JSON is stored with the turn of a request that runs
// later, for the calls of its walk.
type Credential struct {
	// Payer is an account that the handler knows by its key, or nil. It pays for the
	// call, even if another party signs it.
	Payer *Payer `json:"payer,omitempty"`
	// Address is the client's IP address, or "" if unknown.
	Address string `json:"address,omitempty"`
	// Most is the highest price of the call, and the limit of what the payer's account pays in
	// the walk of the call. With nil, any price is accepted.
	Most *money.Amount `json:"most,omitempty"`
	// Voucher is a payment for only this call, or nil.
	Voucher []byte `json:"-"`
}

// Payer is an account, and how it was known.
type Payer struct {
	Account string       `json:"account"`           // its id in hex
	Subject string       `json:"subject,omitempty"` // who of the account sends the request, in hex; "" for a key of the account
	Tenant  string       `json:"tenant"`            // its name
	Key     string       `json:"key"`               // id of the key, or of the subject
	Cap     money.Amount `json:"cap,omitempty"`     // of the key or the subject, for a UTC day; zero means no cap
	Most    money.Amount `json:"most,omitempty"`    // limit of the key for a walk; zero means no limit
	Test    bool         `json:"test,omitempty"`    // a test key: nothing is charged
	// Issuer is the id of the issuer of a subject's token, and IssuerCap the cap of all its
	// subjects together.
	Issuer    string       `json:"issuer,omitempty"`
	IssuerCap money.Amount `json:"issuer_cap,omitempty"`
}

// PayerKind says who pays for a call with a price.
type PayerKind byte

// The kinds of payer.
const (
	PaidByNobody  PayerKind = 0 // the call has no price
	FreeOfDay     PayerKind = 1 // one of the free calls of a day
	PaidByAccount PayerKind = 2
	PaidByVoucher PayerKind = 3
)

// Charge is the plan by which one call is paid for.
type Charge struct {
	Kind    PayerKind
	Payer   [32]byte     // the account; zeros for a free call
	Hold    money.Amount // debited with the accept
	Shard   uint8        // of the balance, that a refund goes to
	Version uint64       // of the price
	OfRoot  bool         // the account of Query.Root pays, so its limits for the walk apply
	Plan    any          // the ledger's own, from Quote to Debit and Explain
}

// Settlement is an accepted call whose behaviour gave an answer.
type Settlement struct {
	Pair  Pair
	Row   *RequestRow
	Price *price.Price // the version that Row names, if it is the vacant's current one
	Usage *Usage       // nil if the agent reports nothing
	Again bool         // it may have been asked before
}

// Settled is the final cost of a call, and the writes besides its answer.
type Settled struct {
	Charge money.Amount
	Writes []store.Write
}

// ErrUncertain means that nobody knows yet whether a call is settled. Its answer is kept,
// and Settle is asked again when the caller resends, or by the sweeper.
var ErrUncertain = errors.New("it is not known whether the call is settled")

// fetchAndQuote reads the vacant, and who pays if the call has a price.
func (h *Host) fetchAndQuote(ctx context.Context, r *request, fresh bool) (ok bool, err error) {
	if ok, err = h.fetchVacant(ctx, r, fresh); err != nil || !ok || !r.toQuote() {
		return ok, err
	}
	return true, h.quote(ctx, r)
}

// toQuote reports whether the call has a price, or a key that says whom it may call.
func (r *request) toQuote() bool {
	return r.pays && (!r.vacant.Price.IsFree() || r.opts.Payer != nil)
}

// quote finds who pays. A refusal is kept for decide.
func (h *Host) quote(ctx context.Context, r *request) (err error) {
	r.charge, r.paymentRefusal, r.out.Price = Charge{}, nil, nil
	if p := r.vacant.Price; !p.IsFree() {
		exempt, err := h.exempt(ctx, r)
		if err != nil || exempt {
			return err
		}
		if h.Ledger == nil {
			return problem.New(problem.Unavailable, "this host cannot charge for calls now")
		}
		r.out.Price = p
		if most := r.opts.Most; most != nil && p.Hold() > *most {
			r.paymentRefusal = problem.New(problem.PriceAboveMax, "a call costs up to %s, more than the %s that the request allows", p.Hold(), *most)
			return nil
		}
	}
	if h.Ledger != nil {
		r.charge, err = h.Ledger.Quote(ctx, r.query())
		if err == nil && r.charge.OfRoot {
			err = r.root.reserve(r.hash, r.charge.Hold)
		}
	}
	return h.refusePayment(r, err)
}

func (r *request) query() Query {
	q := Query{Pair: r.pair, Tenant: r.vacant.Tenant, Price: r.vacant.Price, Guest: r.opts.Guest, Reset: r.reset, Credential: r.opts.Credential}
	if agreed := r.opts.Agreed; agreed != nil {
		q.Held = agreed.Held
	}
	if r.root != nil {
		root := r.root.query()
		q.Root, q.Address = &root, root.Address
	}
	return q
}

// refusePayment keeps a refusal of the ledger for decide, and returns other errors.
func (h *Host) refusePayment(r *request, err error) error {
	if err == nil {
		return nil
	}
	switch problem.Of(err).Kind {
	case problem.PaymentRequired, problem.PriceAboveMax, problem.SpendCap, problem.AccountSuspended, problem.TestKey, problem.TooMany:
		r.paymentRefusal = err
		return nil
	}
	return h.unavailable(err)
}

// exempt reports whether the caller is of the vacant's tree, or the host.
func (h *Host) exempt(ctx context.Context, r *request) (bool, error) {
	if related, err := h.related(ctx, r.pair, r.vacant.Parent); err != nil || related {
		return related, err
	}
	self, err := h.Self(ctx)
	return !self.IsZero() && self == r.pair.Caller, h.unavailable(err)
}

// waysToPay lists the ways to pay for the call that is refused.
func (h *Host) waysToPay(r *request) []json.RawMessage {
	if h.Ledger == nil || r.vacant.Price == nil || problem.Of(r.paymentRefusal).Kind.Row().Status != http.StatusPaymentRequired {
		return nil
	}
	return h.Ledger.Pay(r.vacant.Price, r.paymentRefusal)
}

// refusedDebit reports whether the store refused one of the writes of a debit.
func refusedDebit(debit []store.Write, err error) bool {
	var bounds *store.BoundsError
	var conflict *store.ConflictError
	for _, w := range debit {
		switch w := w.(type) {
		case store.Add:
			if errors.As(err, &bounds) && bounds.Key == w.Key {
				return true
			}
		case store.Put:
			if errors.As(err, &conflict) && conflict.Key == w.Key {
				return true
			}
		}
	}
	return false
}

// maxPlans bounds how often Explain is asked for one call.
const maxPlans = 32
