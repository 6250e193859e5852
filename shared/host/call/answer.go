package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (h *Host) runAndDecide(ctx context.Context, r *request, row *RequestRow, rsp ResponseRow) Outcome {
	r.out.Position = row.Position
	r.out = r.out.withTip(*row)
	if row.PaidBy == PaidByAccount {
		r.walk.rootHold = money.Amount(row.Price)
	}
	start := h.Now()
	rec := &recorder{now: h.Now}
	msg, callErr := h.runBehaviour(context.WithValue(context.WithValue(ctx, recorderKey{}, rec), requestKey{}, r), r)
	rec.copyTo(r)
	if callErr == nil {
		reply, isDiscarded, err := h.settleAndAnswer(ctx, r, row, rsp, msg, start)
		var settlementErr *settlementError
		switch {
		case errors.Is(err, ErrUncertain):
			r.out.State = Pending
			return r.out.withProblem(problem.Wrap(problem.DeadlineExceeded, err, "the answer waits for its payment to settle; send the same request again"))
		case errors.As(err, &settlementErr):
			callErr = settlementErr.cause
		case err != nil && !problem.AsError(err).Kind.IsFailure():
			return r.out.withProblem(err)
		case err != nil:
			callErr = err
		case isDiscarded:
			r.out.State = Unanswered
			return r.out.withProblem(problem.New(problem.DeadlineExceeded, "the call was voided, or its chain was reset, before its answer was ready"))
		default:
			r.out.Reply = reply
			return r.out
		}
	}
	cause := NewCause(callErr, h.Now().Sub(start))
	r.out.Cause = cause
	reason := r.newVoidReason()
	reason.cause, reason.tools, reason.usage, reason.failure, reason.hasRun, reason.isFinal = cause, r.tools, r.out.Usage, callErr, true, true
	decision, err := h.voidCall(ctx, r.pair, row, reason)
	switch {
	case err != nil:
		return r.out.withProblem(err)
	case decision == decidedAnswer:
		// Only this process can write a complete answer, and its behaviour failed. The stored
		// answer must therefore be partial.
		if err := h.loadOutcome(ctx, r, row); err != nil {
			return r.out.withProblem(err)
		}
		if r.out.CutReason == "" {
			return r.out.withProblem(problem.New(problem.Damaged, "request %d has a complete answer although its behaviour failed", row.Position))
		}
		r.out.State, r.out.Cause = "", nil
		return r.out
	}
	r.out.State, r.out.HasEnded = Unanswered, true
	return r.out.withProblem(callErr)
}

var errGoexit = errors.New("behaviour ended its goroutine")

func (h *Host) runBehaviour(ctx context.Context, r *request) (envelope.Message, error) {
	limit := h.currentTimeLimit(ctx, r, h.Now())
	ctx, cancel := context.WithTimeoutCause(ctx, limit.Duration, limit)
	defer cancel()
	if r.opts.Stop != nil {
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			select {
			case <-r.opts.Stop:
				cancel()
			case <-ended:
			}
		}()
	}
	type result struct {
		m   envelope.Message
		err error
	}
	done := make(chan result, 1)
	go func() {
		res := result{err: errGoexit}
		defer func() {
			if p := recover(); p != nil {
				res.err = fmt.Errorf("behaviour panicked: %v\n%s", p, debug.Stack())
			}
			done <- res
		}()
		res.m, res.err = r.vacant.Behaviour(ctx, h, *r.env)
	}()
	var res result
	select {
	case res = <-done:
	case <-ctx.Done():
		res.err = ctx.Err()
	}
	switch {
	case res.err == nil:
		res.m.Role = envelope.RoleAgent
		if err := res.m.Check(); err != nil {
			return res.m, problem.Wrap(problem.BehaviourFailed, err, "the vacant gave an answer that cannot be signed")
		}
		return res.m, nil
	case errors.Is(res.err, context.DeadlineExceeded), problem.Is(res.err, problem.DeadlineExceeded):
		if exceeded := ExceededLimit(ctx, res.err); exceeded != nil {
			return res.m, problem.Wrap(problem.DeadlineExceeded, exceeded, "the vacant did not answer within %s, %s", exceeded.roundedDuration(), exceeded.Name)
		}
		return res.m, problem.Wrap(problem.DeadlineExceeded, res.err, "the vacant did not answer in time")
	}
	kind := problem.BehaviourFailed
	if p := problem.AsError(res.err); p.Kind.IsFailure() {
		kind = p.Kind
	}
	return res.m, problem.Wrap(kind, res.err, "%s", kind.Forms().DefaultMessage)
}

// storeAnswer stores the answer before the reply is sent. Otherwise, two different replies with the
// same sequence number could leave the host.
func (h *Host) storeAnswer(ctx context.Context, r *request, row *RequestRow, tip ResponseRow, msg envelope.Message, elapsed func() time.Duration, charge answerCharge) (reply *envelope.Envelope, isDiscarded bool, err error) {
	writeID, err := h.newWriteID()
	if err != nil {
		return nil, false, err
	}
	waitForObserver, isStored := func() {}, false
	defer func() {
		if waitForObserver(); isStored {
			reason := r.newVoidReason()
			reason.usage = r.out.Usage
			h.logEnd(ctx, callEnd{voidReason: reason, pair: r.pair, row: row, hasReply: true, cutReason: r.cutReason})
		}
	}()
	conflicts := 0
	for isFirstTry := true; ; isFirstTry = false {
		if tip.Position > 0 && tip.Epoch > row.Epoch {
			// An answer of an older epoch must not follow a row of a newer epoch.
			reason := r.newVoidReason()
			reason.usage, reason.hasRun, reason.isFinal = r.out.Usage, true, true
			d, err := h.voidCall(ctx, r.pair, row, reason)
			r.out.HasEnded = err == nil
			if err == nil && d == decidedAnswer && r.cutReason == "" {
				err = problem.New(problem.Damaged, "request %d has another answer than the one of this process", row.Position)
			}
			return nil, true, err
		}
		reply, ans, err := h.signAnswer(ctx, r, row, tip, msg)
		if err != nil {
			return nil, false, err
		}
		ans.WriteID, ans.Duration = writeID, elapsed().Truncate(time.Millisecond)
		ans.IsPriced, ans.Charge = row.PaidBy != Unpriced, uint64(charge.Charge)
		if isFirstTry && r.cutReason == "" { // a partial answer is not evidence about the vacant
			waitForObserver = h.startObservation(ctx, r, ans)
		}
		decision := Decision{Reply: reply, CutReason: r.cutReason, Cost: r.walkCost()}
		if ans.IsPriced {
			decision.Payment = &CallPayment{charge.Charge, row.Position}
			decision.Cost += charge.Charge
		}
		extraWrites, err := r.opts.decisionWrites(ctx, decision)
		if err != nil {
			return nil, false, err
		}
		writes := append([]store.Write{store.Append{Stream: r.pair.Responses(), Position: ans.Position, WriteID: writeID, Data: ans.encode()}}, charge.writes(r.pair, row)...)
		err = h.commit(ctx, append(writes, extraWrites...)...)
		if err == nil {
			h.tipCache.put(r.pair, tips{req: *row, rsp: *ans})
			r.out.Charge, r.out.CutReason, r.out.HasEnded, isStored = charge.Charge, r.cutReason, true, true
			return reply, false, nil
		}
		var taken *store.TakenError
		switch {
		case isDebitRefused(charge.Writes, err) && conflicts < maxConflicts:
			conflicts++
			if charge.FinalCharge, err = h.settleCharge(ctx, r, row, true); err != nil {
				return nil, false, err
			}
			continue
		case r.opts.canRetryConflict(err, &conflicts):
			continue
		case errors.Is(err, store.ErrTooLarge):
			return nil, false, problem.Wrap(problem.SubstrateTooLarge, err, "%s", problem.SubstrateTooLarge.Forms().DefaultMessage)
		case !errors.As(err, &taken):
			return nil, false, h.unavailableError(err)
		}
		d, newTip, err := h.findDecidingRow(ctx, r.pair, row)
		if err != nil {
			return nil, false, err
		}
		if d != nil && d.Kind == RowVoid {
			return nil, true, nil
		}
		// A resend, the sweeper or a cancellation may have stored an answer first.
		if d != nil && (h.allowsLateSettlement(row) || d.CutReason != "" || r.cutReason != "") {
			err := h.loadAnswer(ctx, r, d)
			r.out.State = ""
			return r.out.Reply, false, err
		}
		if d != nil {
			return nil, false, problem.New(problem.Damaged, "request %d has another answer than the one of this process", row.Position)
		}
		tip = newTip
	}
}

func (h *Host) signAnswer(ctx context.Context, r *request, row *RequestRow, tip ResponseRow, msg envelope.Message) (*envelope.Envelope, *ResponseRow, error) {
	if r.opts.CompleteReply != nil {
		r.opts.CompleteReply(&msg)
	}
	e := &envelope.Envelope{
		From: r.pair.Vacant, To: r.pair.Caller, Seq: 1, Time: h.Now().UTC().Truncate(time.Microsecond),
		Payload: msg, IdempotencyKey: envelope.ReplyKey(row.Hash),
	}
	if tip.Position > 0 && tip.Epoch == row.Epoch {
		e.Seq, e.Prev = tip.Seq+1, tip.Hash
	}
	hash, err := e.Sign(ctx, r.vacant.Signer)
	if err != nil {
		return nil, nil, problem.Wrap(problem.BehaviourFailed, err, "the answer could not be signed")
	}
	ans := &ResponseRow{
		Position: tip.Position + 1, Kind: RowAnswer,
		RequestPosition: row.Position, RequestHash: row.Hash, RequestEpoch: row.Epoch,
		Epoch: row.Epoch, Seq: e.Seq, Hash: hash, Prev: e.Prev, Time: e.Time, Signature: e.Signature, Usage: r.out.Usage, CutReason: r.cutReason,
	}
	ans.Text, err = h.Texts.Seal(ctx, additionalData(r.pair.Responses(), hash), appendTools(encodePayload(&msg, ""), r.tools))
	if err != nil {
		return nil, nil, h.unavailableError(err)
	}
	return e, ans, nil
}

type resolution int

const (
	undecided resolution = iota
	decidedAnswer
	decidedVoid
	decidedByNewerEpoch // the request gets no row
)

type voidReason struct {
	cause    *Cause
	tools    []RecordedToolCall
	usage    *Usage
	failure  error
	opts     *Options
	walkCost money.Amount
	hasRun   bool
	isFinal  bool // voids even a call with an unsettled answer

	agentLog          *AgentLog
	arrival           time.Time
	logsRequestCounts bool
}

func (r *request) newVoidReason() voidReason {
	return voidReason{opts: &r.opts, walkCost: r.walkCost(), agentLog: r.out.AgentLog, arrival: r.arrival, logsRequestCounts: r.root == nil && !r.arrival.IsZero()}
}

// voidCall voids and refunds an undecided request, or returns the existing decision. The void and a
// late answer compete for one position, so a request is never both answered and refunded.
func (h *Host) voidCall(ctx context.Context, pair Pair, row *RequestRow, reason voidReason) (resolution, error) {
	writeID, err := h.newWriteID()
	if err != nil {
		return undecided, err
	}
	if reason.opts == nil {
		reason.opts = &Options{}
	}
	var text textkeys.Sealed
	if reason.cause != nil {
		// A cause that cannot be sealed must not prevent the void.
		if b, err := json.Marshal(sealedCause{reason.cause, encodeTools(reason.tools)}); err == nil {
			text, _ = h.Texts.Seal(ctx, additionalData(pair.Responses(), row.Hash), b)
		}
	}
	conflicts := 0
	for {
		d, tip, err := h.findDecidingRow(ctx, pair, row)
		if err != nil {
			return undecided, err
		}
		if d != nil {
			return d.resolution(), nil
		}
		if tipSupersedes(tip, row) {
			if reason.hasRun && reason.isFinal {
				reason.cause, reason.failure = nil, errReset
				h.logEnd(ctx, callEnd{voidReason: reason, pair: pair, row: row})
			}
			return decidedByNewerEpoch, nil
		}
		v := &ResponseRow{
			Position: tip.Position + 1, WriteID: writeID, Kind: RowVoid,
			RequestPosition: row.Position, RequestHash: row.Hash, RequestEpoch: row.Epoch,
			Epoch: tip.Epoch, Seq: tip.Seq, Hash: tip.Hash, Text: text, Usage: reason.usage,
		}
		writes := []store.Write{store.Append{Stream: pair.Responses(), Position: v.Position, WriteID: writeID, Data: v.encode()}}
		if row.PaidBy != Unpriced {
			writes = append(writes, h.Ledger.Refund(pair, row, reason.hasRun)...)
		}
		if h.allowsLateSettlement(row) {
			w, err := h.unsettledVoidWrite(ctx, pair, row, writeID, reason.isFinal)
			if err != nil {
				return undecided, err
			}
			writes = append(writes, w)
		}
		extraWrites, err := reason.opts.decisionWrites(ctx, Decision{Failure: reason.failure, Cost: reason.walkCost})
		if err != nil {
			return undecided, err
		}
		err = h.commit(ctx, append(writes, extraWrites...)...)
		var taken *store.TakenError
		switch {
		case err == nil:
			h.tipCache.put(pair, tips{rsp: *v})
			h.logEnd(ctx, callEnd{voidReason: reason, pair: pair, row: row})
			return decidedVoid, nil
		case reason.opts.canRetryConflict(err, &conflicts), h.allowsLateSettlement(row) && store.IsConflict(err):
		case !errors.As(err, &taken):
			return undecided, h.unavailableError(err)
		}
	}
}

func (r *ResponseRow) resolution() resolution {
	if r.Kind == RowAnswer {
		return decidedAnswer
	}
	return decidedVoid
}

func tipSupersedes(tip ResponseRow, row *RequestRow) bool {
	return tip.Position > 0 && tip.Epoch > row.Epoch && row.Price == 0
}

func (h *Host) loadResendOutcome(ctx context.Context, r *request, v *tips) error {
	row, hasUnsearchedEpochs, err := h.findResentCall(ctx, r, v.req)
	if err != nil || row == nil {
		r.out.HasUnsearchedEpochs = hasUnsearchedEpochs
		return err
	}
	r.out.Position = row.Position
	return h.loadOutcome(ctx, r, row)
}

func (h *Host) findResentCall(ctx context.Context, r *request, tip RequestRow) (row *RequestRow, hasUnsearchedEpochs bool, err error) {
	epochStart, prevEpochStart := tip.EpochStart, tip.PrevEpochStart
	for n := 1; tip.Position > 0; n++ {
		if p := epochStart + uint64(r.env.Seq); p <= tip.Position {
			row, ok, err := h.findRequestRow(ctx, r.pair, p)
			if err != nil {
				return nil, false, err
			}
			if ok && row.Hash == r.hash && row.Kind == RowCall {
				return &row, false, nil
			}
		}
		if epochStart == 0 {
			return nil, false, nil
		}
		if n == epochsSearched {
			return nil, true, nil
		}
		if epochStart = prevEpochStart; epochStart > 0 {
			reset, ok, err := h.findRequestRow(ctx, r.pair, epochStart)
			if err != nil {
				return nil, false, err
			}
			if !ok {
				return nil, false, problem.New(problem.Damaged, "the reset at position %d is missing", epochStart)
			}
			prevEpochStart = reset.PrevEpochStart
		}
	}
	return nil, false, nil
}

// loadOutcome voids an overdue call first, because the host reports a call as unanswered only after
// a row records the void.
func (h *Host) loadOutcome(ctx context.Context, r *request, row *RequestRow) error {
	d, tip, err := h.findDecidingRow(ctx, r.pair, row)
	if err != nil {
		return err
	}
	if d == nil && !tipSupersedes(tip, row) {
		res, err := h.retrySettlement(ctx, r.pair, row)
		if err == nil && res == undecided && h.Now().After(row.Due) {
			res, err = h.voidCall(ctx, r.pair, row, voidReason{hasRun: true})
		}
		switch {
		case errors.Is(err, ErrUncertain), err == nil && res == undecided:
			r.out.State, r.out.Due = Pending, row.Due
			return nil
		case err != nil:
			return err
		}
		if res == decidedAnswer {
			if d, _, err = h.findDecidingRow(ctx, r.pair, row); err != nil {
				return err
			}
		}
	}
	if d == nil || d.Kind != RowAnswer {
		r.out.State = Unanswered
		return nil
	}
	return h.loadAnswer(ctx, r, d)
}

func (h *Host) loadAnswer(ctx context.Context, r *request, d *ResponseRow) error {
	r.out.CutReason, r.out.HasReceipt, r.out.Charge = d.CutReason, d.IsPriced, money.Amount(d.Charge)
	sealed, bound := d.SealedText(r.pair)
	plain, err := h.Texts.Open(ctx, bound, sealed)
	switch {
	case errors.Is(err, textkeys.ErrDestroyed):
		r.out.State, r.out.ReplySeq, r.out.ReplyHash = Answered, d.Seq, d.Hash
		return nil
	case errors.Is(err, store.ErrUnavailable), problem.Is(err, problem.Unavailable):
		return h.unavailableError(err)
	case err != nil:
		return h.damagedError(r.pair.Responses(), err)
	}
	e, err := d.Envelope(r.pair, plain)
	if err != nil {
		return h.damagedError(r.pair.Responses(), err)
	}
	r.out.State, r.out.Reply = Answered, &e
	return nil
}

// Ask reports the state of an envelope without accepting it.
func (h *Host) Ask(ctx context.Context, route identity.ID, e *envelope.Envelope) Outcome {
	ctx, cancel := h.detach(ctx, Options{})
	defer cancel()
	r, v := request{pair: Pair{Caller: e.From, Vacant: e.To}, env: e}, tips{}
	_, err := h.verifyAndFetch(ctx, route, &r, &v, false)
	if err != nil {
		return r.out.withProblem(err)
	}
	if err := h.checkEnvelope(&r, true); err != nil {
		return r.out.withTip(v.req).withProblem(err)
	}
	r.out.State = Unknown
	if err := h.loadResendOutcome(ctx, &r, &v); err != nil {
		return r.out.withProblem(err)
	}
	r.out = r.out.withTip(v.req)
	r.out.Floor = r.floor(v.req)
	return r.out
}

// ResolveOverdue settles or voids an overdue request. It reports whether the request is decided.
func (h *Host) ResolveOverdue(ctx context.Context, pair Pair, position uint64) (bool, error) {
	row, err := h.loadCall(ctx, pair, position)
	switch {
	case err != nil:
		return false, err
	case !h.Now().After(row.Due):
		d, tip, err := h.findDecidingRow(ctx, pair, &row)
		return d != nil || tipSupersedes(tip, &row), err
	}
	res, err := h.retrySettlement(ctx, pair, &row)
	if err == nil && res == undecided {
		_, err = h.voidCall(ctx, pair, &row, voidReason{hasRun: true})
	}
	if errors.Is(err, ErrUncertain) {
		return false, nil
	}
	return err == nil, err
}
