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

// Options modify a call. Send uses the zero Options.
type Options struct {
	Sink Sink // receives the progress; may be nil
	// CallTimeout is the time limit of the behaviour. Zero means Config.CallTimeout.
	CallTimeout time.Duration
	// Stop ends the behaviour when it is closed. It may be nil.
	Stop <-chan struct{}
	// Streamed marks a call whose answer can be read while it is being produced.
	Streamed bool
	// Guest marks a caller whose key the host created. The host has just signed with it, so the
	// signature is not verified again. Answers to guests are not passed to Config.Observe, because
	// anyone can create guests.
	Guest bool
	// AgreedPrice is a price that was agreed on earlier, for example by a booking. If it is nil, the
	// vacant's current price applies.
	AgreedPrice *Agreement
	Credential
	// RefreshPayer returns an error if the payer's credential is no longer accepted, and otherwise
	// refreshes the payer's limits. It is called when a vacant makes another call to answer this one.
	// It may be nil.
	RefreshPayer func(context.Context, *Payer) error
	// Task, Operation and Arrival are for Log: the id of the call's task, the name of the caller's
	// request in its protocol, and the arrival time of a call that was accepted earlier. All may be
	// zero.
	Task, Operation string
	Arrival         time.Time
	// CompleteReply adds ids to the message before it is signed. It may be nil.
	CompleteReply func(*envelope.Message)
	// AcceptWrites returns writes for the commit of the request row. It is called again
	// if the row gets another position or another payment plan. It may be nil.
	AcceptWrites func(*RequestRow) ([]store.Write, error)
	// HandoffWrites replaces AcceptWrites for a slow call (Host.IsSlow). SendWith then does not wait
	// for the call. Resume runs the call, maybe in another process, and callers can read the answer
	// while it is being produced (RequestRow.IsStreamed). If HandoffWrites is nil, SendWith runs a
	// slow call, or refuses it if too little time is left (CheckTimeLeft).
	HandoffWrites func(*RequestRow) ([]store.Write, error)
	// DecideWrites returns writes for the commit of the row that decides the request. It is called
	// again if another writer has changed a document of these writes. It may be nil.
	DecideWrites func(context.Context, Decision) ([]store.Write, error)
}

// Agreement is a price that was agreed on before the call. It applies even if the vacant's price
// changes.
type Agreement struct {
	Price *price.Price // nil if the call is free
	// Hold is the amount that the payer's account has already paid for the call, or nil.
	Hold *Hold
}

// Hold is an amount that was debited for a call before its request row was written.
// Options.AcceptWrites must return the writes that transfer the hold to the row.
type Hold struct {
	Amount money.Amount
	Shard  uint8 // balance shard that receives a refund
}

// Decision is an outcome that is about to be written.
type Decision struct {
	Reply     *envelope.Envelope // nil if the call is voided
	CutReason CutReason          // "" for a complete answer
	Failure   error              // reason for the void; nil if it is unknown
	Payment   *CallPayment       // nil if the call has no price, or is voided
	// Cost is the charge of the request. If the request is the root of a walk (walk.go), Cost also
	// includes what its account pays for the other calls of the walk, and the cost of models that the
	// budget of its task limits. Only the process that runs the call knows these two amounts.
	Cost money.Amount
}

// CallPayment is the charge of an answered call with a price, and the position of its request row,
// which identifies its receipt.
type CallPayment struct {
	Charge   money.Amount `json:"charge"`
	Position uint64       `json:"position"`
}

// ReceiptsPrefix is the prefix of the paths of all receipts.
const ReceiptsPrefix = "/v1/account/receipts/"

func ReceiptPath(p Pair, position uint64) string {
	return ReceiptsPrefix + p.Caller.String() + "/" + p.Vacant.String() + "/" + strconv.FormatUint(position, 10)
}

// maxConflicts limits the retries for each row after conflicts with DecideWrites or with a debit.
const maxConflicts = 20

func (o *Options) decisionWrites(ctx context.Context, d Decision) ([]store.Write, error) {
	if o.DecideWrites == nil {
		return nil, nil
	}
	return o.DecideWrites(ctx, d)
}

func (o *Options) canRetryConflict(err error, tries *int) bool {
	var conflict *store.ConflictError
	if o.DecideWrites == nil || !errors.As(err, &conflict) || *tries == maxConflicts {
		return false
	}
	*tries++
	return true
}

// AcceptedCall is a call that was accepted but not decided.
type AcceptedCall struct {
	Pair     Pair
	Position uint64 // position of the request row

	request *request
	row     *RequestRow
	tip     ResponseRow
}

// MaxQueued is the longest time between AcceptForResume and Resume.
const MaxQueued = 15 * time.Minute

// AcceptForResume accepts a call that Resume will run later, maybe in another process. The outcome
// of a refused call is the same as with Send. An accepted call has State Pending.
func (h *Host) AcceptForResume(ctx context.Context, route identity.ID, e *envelope.Envelope, o Options) Outcome {
	ctx, cancel := h.detach(ctx, o)
	defer cancel()
	a, out := h.acceptRequest(ctx, route, &request{env: e, opts: o, maxQueueTime: MaxQueued})
	if a == nil {
		return out
	}
	out = out.withTip(*a.row)
	out.State, out.Position = Pending, a.Position
	return out
}

// AcceptForRun accepts a call for Run. If the call is refused, AcceptForRun returns nil.
func (h *Host) AcceptForRun(ctx context.Context, route identity.ID, e *envelope.Envelope, o Options) (*AcceptedCall, Outcome) {
	ctx, cancel := h.detach(ctx, o)
	defer cancel()
	return h.acceptRequest(ctx, route, &request{env: e, opts: o, root: rootOf(ctx), callingRequest: requestFrom(ctx)})
}

// Run runs a call and decides it. It must be called once for each AcceptedCall.
func (h *Host) Run(ctx context.Context, accepted *AcceptedCall) Outcome {
	ctx, cancel := h.detach(ctx, accepted.request.opts)
	defer cancel()
	out := h.runAndDecide(ctx, accepted.request, accepted.row, accepted.tip)
	accepted.request.reporter.report(EndEvent{out}, true)
	return out
}

// Resume runs the call that AcceptForResume accepted at a position. The caller must ensure that a
// call is resumed at most once.
func (h *Host) Resume(ctx context.Context, pair Pair, position uint64, o Options) Outcome {
	ctx, cancel := h.detach(ctx, o)
	defer cancel()
	r := &request{pair: pair, needsSigner: true, opts: o, arrival: o.Arrival}
	row, err := h.loadCall(ctx, pair, position)
	if err != nil {
		return r.out.withProblem(err)
	}
	r.hash, r.out.Hash, r.out.Position = row.Hash, row.Hash, position
	sealed, bound := row.SealedText(pair)
	plain, err := h.Texts.Open(ctx, bound, sealed)
	if err != nil {
		return r.out.withProblem(h.unavailableError(err))
	}
	e, err := row.Envelope(pair, plain)
	if err != nil {
		return r.out.withProblem(h.damagedError(pair.Requests(), err))
	}
	r.env = &e
	r.behaviourEnd = row.Due.Add(-GracePeriod)
	d, tip, err := h.findDecidingRow(ctx, pair, &row)
	switch {
	case err != nil:
		return r.out.withProblem(err)
	case d != nil || tipSupersedes(tip, &row):
		r.out.State = Unanswered
		return r.out.withProblem(problem.New(problem.DeadlineExceeded, "the call was already decided before it could run"))
	}
	// The vacant may have been sunk or deleted since the accept.
	if err := h.fetchForResume(ctx, r); err != nil {
		if _, voidErr := h.voidCall(ctx, pair, &row, voidReason{cause: NewCause(err, 0), failure: err, opts: &r.opts}); voidErr != nil {
			return r.out.withProblem(voidErr)
		}
		r.out.State = Unanswered
		return r.out.withProblem(err)
	}
	r.startReporter()
	out := h.runAndDecide(ctx, r, &row, tip)
	r.reporter.report(EndEvent{out}, true)
	return out
}

func (h *Host) fetchForResume(ctx context.Context, r *request) error {
	ok, err := h.fetchVacant(ctx, r, false)
	if err != nil {
		return err
	}
	if err := h.checkRevoked(ctx, r); err != nil {
		return err
	}
	switch {
	case !ok || r.isConcealed():
		return h.notHostedError(ctx, r.env.To)
	case r.revokedCallerErr != nil:
		return r.revokedCallerErr
	case r.signerErr != nil:
		return r.signerErr
	}
	return checkState(r.state())
}

// Void voids an accepted call unless it is already decided, and returns its state. The state is
// Answered if the call was answered before. If an answer waits for its settlement, the state is
// Pending, together with an error. Otherwise the state is Unanswered.
func (h *Host) Void(ctx context.Context, pair Pair, position uint64, failure error, o Options) (State, error) {
	row, err := h.loadCall(ctx, pair, position)
	if err != nil {
		return Unknown, err
	}
	return h.voidAndReport(ctx, pair, &row, voidReason{cause: NewCause(failure, 0), failure: failure, opts: &o, hasRun: true})
}

func (h *Host) voidAndReport(ctx context.Context, pair Pair, row *RequestRow, reason voidReason) (State, error) {
	d, err := h.voidCall(ctx, pair, row, reason)
	switch {
	case errors.Is(err, ErrUncertain):
		return Pending, pendingPaymentError(err)
	case err == nil && d == decidedAnswer:
		return Answered, nil
	}
	return Unanswered, err
}

func pendingPaymentError(err error) error {
	return problem.Wrap(problem.DeadlineExceeded, err, "the answer waits for its payment")
}

func (h *Host) loadCall(ctx context.Context, pair Pair, position uint64) (RequestRow, error) {
	row, ok, err := h.findRequestRow(ctx, pair, position)
	if err == nil && (!ok || row.Kind != RowCall) {
		err = problem.New(problem.NotFound, "no call at position %d of %s", position, pair.Requests())
	}
	return row, err
}

// ExpectedEnvelope contains the values that the next envelope of a pair must have. They may come
// from this host's cache and be outdated. If an envelope with outdated values is refused, the
// refusal contains the current values.
type ExpectedEnvelope struct {
	Seq   int64
	Prev  identity.Hash
	Floor time.Time // the first envelope of an epoch must be signed later than this
}

func (h *Host) ExpectedEnvelope(ctx context.Context, pair Pair) (ExpectedEnvelope, error) {
	var v tips
	if !h.tipCache.get(pair, &v) {
		var err error
		if v, err = h.readTips(ctx, pair); err != nil {
			return ExpectedEnvelope{}, err
		}
	}
	t := v.req.Tip()
	return ExpectedEnvelope{Seq: t.Seq + 1, Prev: t.Hash, Floor: t.Floor}, nil
}
