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

type Options struct {
	Sink        Sink
	CallTimeout time.Duration
	// Stop ends the behaviour when it is closed. It may be nil.
	Stop     <-chan struct{}
	Streamed bool
	// Guest marks a caller whose key the host created. The host has just signed the message and
	// does not verify it. Answers to guests are not observed, because anyone can create guests.
	Guest       bool
	AgreedPrice *Agreement
	Credential
	// RefreshPayer updates the payer's limits, or returns an error if the payer is not accepted any
	// more. It may be nil.
	RefreshPayer    func(context.Context, *Payer) error
	Task, Operation string
	Arrival         time.Time
	// CompleteReply adds ids to the message before it is signed. It may be nil.
	CompleteReply func(*envelope.Message)
	// AcceptWrites returns writes for the commit of the request row. It may be nil, and may be
	// called several times.
	AcceptWrites func(*RequestRow) ([]store.Write, error)
	// HandoffWrites replaces AcceptWrites for a slow call. SendWith then returns at once, and
	// Resume runs the call, maybe in another process. It may be nil.
	HandoffWrites func(*RequestRow) ([]store.Write, error)
	// DecideWrites returns writes for the commit of the deciding row. It may be nil, and may be
	// called several times.
	DecideWrites func(context.Context, Decision) ([]store.Write, error)
}

type Agreement struct {
	Price *price.Price
	Hold  *Hold
}

// Hold was debited before the request row was written. Options.AcceptWrites must transfer it to the
// row.
type Hold struct {
	Amount money.Amount
	Shard  uint8
}

type Decision struct {
	Reply     *envelope.Envelope // nil for a void
	CutReason CutReason
	Failure   error
	Payment   *CallPayment // nil for a void or a call without a price
	// Cost is the charge of the request. In the process that runs the root of a walk, Cost
	// includes the complete walk.
	Cost money.Amount
}

type CallPayment struct {
	Charge   money.Amount `json:"charge"`
	Position uint64       `json:"position"`
}

const ReceiptsPrefix = "/v1/account/receipts/"

func ReceiptPath(p Pair, position uint64) string {
	return ReceiptsPrefix + p.Caller.String() + "/" + p.Vacant.String() + "/" + strconv.FormatUint(position, 10)
}

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

type AcceptedCall struct {
	Pair     Pair
	Position uint64

	request *request
	row     *RequestRow
	tip     ResponseRow
}

const MaxQueueDuration = 15 * time.Minute

func (h *Host) AcceptForResume(ctx context.Context, route identity.ID, e *envelope.Envelope, o Options) Outcome {
	ctx, cancel := h.detach(ctx, o)
	defer cancel()
	a, out := h.acceptRequest(ctx, route, &request{env: e, opts: o, maxQueueTime: MaxQueueDuration})
	if a == nil {
		return out
	}
	out = out.withTip(*a.row)
	out.State, out.Position = Pending, a.Position
	return out
}

// AcceptForRun returns nil if the call is refused.
func (h *Host) AcceptForRun(ctx context.Context, route identity.ID, e *envelope.Envelope, o Options) (*AcceptedCall, Outcome) {
	ctx, cancel := h.detach(ctx, o)
	defer cancel()
	return h.acceptRequest(ctx, route, &request{env: e, opts: o, root: rootOf(ctx), callingRequest: requestFrom(ctx)})
}

// Run must be called once for each AcceptedCall.
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
	r.behaviourDeadline = row.Due.Add(-GracePeriod)
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

// Void voids an accepted call unless it is already decided, and returns its state. If an answer
// waits for its settlement, Void returns Pending and an error.
func (h *Host) Void(ctx context.Context, pair Pair, position uint64, failure error, o Options) (State, error) {
	row, err := h.loadCall(ctx, pair, position)
	if err != nil {
		return Unknown, err
	}
	return h.voidAndReport(ctx, pair, &row, voidReason{cause: NewCause(failure, 0), failure: failure, opts: &o, hasRun: true})
}

func (h *Host) voidAndReport(ctx context.Context, pair Pair, row *RequestRow, reason voidReason) (State, error) {
	decision, err := h.voidCall(ctx, pair, row, reason)
	switch {
	case errors.Is(err, ErrUncertain):
		return Pending, pendingPaymentError(err)
	case err == nil && decision == decidedAnswer:
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

// ExpectedEnvelope contains the required values of a pair's next envelope. It may be outdated.
type ExpectedEnvelope struct {
	Seq   int64
	Prev  identity.Hash
	Floor time.Time
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
