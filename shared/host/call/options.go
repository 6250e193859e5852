package call

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Options extend a call beyond its rows. Send uses the zero Options.
type Options struct {
	Sink Sink // receives the progress, unless nil
	// Work bounds the behaviour. Zero means Config.Work.
	Work time.Duration
	// Stop ends the behaviour when it is closed. A nil Stop never does.
	Stop <-chan struct{}
	// Shown marks a call whose answer can be read while it comes.
	Shown bool
	// Guest marks a caller whose key the host made and has just signed with, so the
	// signature is not verified again. Calls of guests do not count as interest in the
	// vacant, because anybody can make guests.
	Guest bool
	// Agreed is the price that was agreed on before the call, as by a booking. With
	// nil, the vacant's present price applies.
	Agreed *Agreement
	Credential
	// Task is the id of the call's task, Operation what the caller asked for in the words of its
	// protocol, and Began the time at which a call that was accepted before came, for Log. All may be
	// zero.
	Task, Operation string
	Began           time.Time
	// Reply completes the message before it is signed, by its ids. It may be nil.
	Reply func(*envelope.Message)
	// Accepted returns writes that join the commit of the request row. It is called
	// for each position that is tried. It may be nil.
	Accepted func(*RequestRow) ([]store.Write, error)
	// Handoff returns writes that join the commit of the request row of a slow call
	// (Host.IsSlow), in the place of Accepted: Resume is to run the call, maybe in another
	// process, and SendWith does not wait for it. Its answer can be read while it comes (Shown). With
	// nil, a slow call waits like any other, and is refused if less time is left than its vacant
	// may take.
	Handoff func(*RequestRow) ([]store.Write, error)
	// Decided returns writes that join the commit of the row that decides the request.
	// It is called again after another writer changed one of their documents. It may
	// be nil.
	Decided func(context.Context, Decision) ([]store.Write, error)
}

// Agreement is the price of a call that was agreed on before. It stays the price if the
// vacant's price changes meanwhile.
type Agreement struct {
	Price *price.Price // nil if the call is free
	// Held is the amount that the payer's account paid for the call before, or
	// nil.
	Held *Held
}

// Held is a hold that was debited before the call's request row. Whoever debited it adds to
// Options.Accepted the writes that pass it to the row.
type Held struct {
	Amount money.Amount
	Shard  uint8 // of the balance, that a refund goes to
}

// Decision is the outcome that is about to be written.
type Decision struct {
	Reply   *envelope.Envelope // nil if the call is voided
	Cut     Cut                // why Reply ends early; "" for a whole answer
	Failure error              // why; nil if nobody knows
	Paid    *Paid              // nil if the call has no price, or is voided
}

// Paid is the charge of an answered call that has a price, and the position of its request
// row, which names its receipt.
type Paid struct {
	Charge   money.Amount `json:"charge"`
	Position uint64       `json:"position"`
}

// ReceiptsPath is the prefix of the paths of all receipts.
const ReceiptsPath = "/v1/account/receipts/"

// ReceiptPath is the path at which the host shows the receipt of a call with a price, by the position of its request
// row.
func ReceiptPath(p Pair, position uint64) string {
	return ReceiptsPath + p.Caller.String() + "/" + p.Vacant.String() + "/" + strconv.FormatUint(position, 10)
}

// maxConflicts bounds how often Decided is asked again for one row.
const maxConflicts = 20

// decisionWrites returns the writes besides the row that decides a request.
func (o *Options) decisionWrites(ctx context.Context, d Decision) ([]store.Write, error) {
	if o.Decided == nil {
		return nil, nil
	}
	return o.Decided(ctx, d)
}

// conflicted reports whether a commit failed because a document of Decided changed.
func (o *Options) conflicted(err error, tries *int) bool {
	var conflict *store.ConflictError
	if o.Decided == nil || !errors.As(err, &conflict) || *tries == maxConflicts {
		return false
	}
	*tries++
	return true
}

// Accepted is a call that was accepted and is not decided.
type Accepted struct {
	Pair     Pair
	Position uint64 // of the request row

	request *request
	row     *RequestRow
	tip     ResponseRow
}

// MaxQueued is the longest time between Accept and Resume.
const MaxQueued = 15 * time.Minute

// Accept accepts a call that Resume is to run later, maybe in another process. A
// refused call has the same Outcome as with Send; an accepted call has State
// Pending.
func (h *Host) Accept(ctx context.Context, route identity.ID, e *envelope.Envelope, o Options) Outcome {
	ctx, cancel := h.detach(ctx, o)
	defer cancel()
	a, out := h.acceptCall(ctx, route, &request{env: e, opts: o, queued: MaxQueued})
	if a == nil {
		return out
	}
	out = out.at(*a.row)
	out.State, out.Position = Pending, a.Position
	return out
}

// Begin accepts a call for Run. It returns nil if the call is refused.
func (h *Host) Begin(ctx context.Context, route identity.ID, e *envelope.Envelope, o Options) (*Accepted, Outcome) {
	ctx, cancel := h.detach(ctx, o)
	defer cancel()
	return h.acceptCall(ctx, route, &request{env: e, opts: o, root: rootOf(ctx)})
}

// Run runs a call and decides it. It is called once for each Accepted.
func (h *Host) Run(ctx context.Context, a *Accepted) Outcome {
	ctx, cancel := h.detach(ctx, a.request.opts)
	defer cancel()
	out := h.execute(ctx, a.request, a.row, a.tip)
	a.request.reporter.report(Ended{out}, true)
	return out
}

// Resume runs the call that Accept accepted at a position. The caller makes sure that
// a call is resumed at most once.
func (h *Host) Resume(ctx context.Context, pair Pair, position uint64, o Options) Outcome {
	ctx, cancel := h.detach(ctx, o)
	defer cancel()
	r := &request{pair: pair, needsSigner: true, opts: o, began: o.Began}
	row, err := h.callAt(ctx, pair, position)
	if err != nil {
		return r.out.refuse(err)
	}
	r.hash, r.out.Hash, r.out.Position = row.Hash, row.Hash, position
	sealed, bound := row.Sealed(pair)
	plain, err := h.Texts.Open(ctx, bound, sealed)
	if err != nil {
		return r.out.refuse(h.unavailable(err))
	}
	e, err := row.Envelope(pair, plain)
	if err != nil {
		return r.out.refuse(h.damaged(pair.Requests(), err))
	}
	r.env = &e
	r.until = row.Due.Add(-Grace)
	d, tip, err := h.decided(ctx, pair, &row)
	switch {
	case err != nil:
		return r.out.refuse(err)
	case d != nil || closedBy(tip, &row):
		r.out.State = Unanswered
		return r.out.refuse(problem.New(problem.Deadline, "the call was closed before it ran"))
	}
	if err := h.fetchForResume(ctx, r); err != nil {
		if _, voidErr := h.void(ctx, pair, &row, closing{cause: CauseOf(err, 0), failure: err, opts: &r.opts}); voidErr != nil {
			return r.out.refuse(voidErr)
		}
		r.out.State = Unanswered
		return r.out.refuse(err)
	}
	r.begin()
	out := h.execute(ctx, r, &row, tip)
	r.reporter.report(Ended{out}, true)
	return out
}

// fetchForResume reads the vacant of an accepted call again. It may have been sunk or
// deleted since.
func (h *Host) fetchForResume(ctx context.Context, r *request) error {
	ok, err := h.fetchVacant(ctx, r, false)
	if err != nil {
		return err
	}
	if err := h.checkRevoked(ctx, r); err != nil {
		return err
	}
	switch {
	case !ok || r.concealed():
		return h.notHosted(ctx, r.env.To)
	case r.callerRevoked != nil:
		return r.callerRevoked
	case r.signerErr != nil:
		return r.signerErr
	}
	return checkState(r.state())
}

// Void decides an accepted call without an answer, if it is undecided. State is how it
// was decided: Unanswered, or Answered if the answer was earlier.
func (h *Host) Void(ctx context.Context, pair Pair, position uint64, failure error, o Options) (State, error) {
	row, err := h.callAt(ctx, pair, position)
	if err != nil {
		return Unknown, err
	}
	return h.voidFor(ctx, pair, &row, closing{cause: CauseOf(failure, 0), failure: failure, opts: &o, ran: true})
}

// voidFor is void for callers that are not the executor.
func (h *Host) voidFor(ctx context.Context, pair Pair, row *RequestRow, c closing) (State, error) {
	d, err := h.void(ctx, pair, row, c)
	switch {
	case errors.Is(err, ErrUncertain):
		return Pending, waitsForPayment(err)
	case err == nil && d == decidedAnswer:
		return Answered, nil
	}
	return Unanswered, err
}

func waitsForPayment(err error) error {
	return problem.Wrap(problem.Deadline, err, "the answer waits for its payment")
}

// callAt reads the row of an accepted call.
func (h *Host) callAt(ctx context.Context, pair Pair, position uint64) (RequestRow, error) {
	row, ok, err := h.request(ctx, pair, position)
	if err == nil && (!ok || row.Kind != RowCall) {
		err = problem.New(problem.NotFound, "no call at position %d of %s", position, pair.Requests())
	}
	return row, err
}

// Next describes the next envelope of a pair, as far as this host knows. If
// another envelope came first, the refusal names the right values.
type Next struct {
	Seq   int64
	Prev  identity.Hash
	Floor time.Time // it must be signed later, if it is the first of its epoch
}

// Next reads the request tip of a pair, or takes it from the cache.
func (h *Host) Next(ctx context.Context, pair Pair) (Next, error) {
	var v tips
	if !h.tipCache.get(pair, &v) {
		var err error
		if v, err = h.read(ctx, pair); err != nil {
			return Next{}, err
		}
	}
	t := v.req.Tip()
	return Next{Seq: t.Seq + 1, Prev: t.Hash, Floor: t.Floor}, nil
}
