package call

import (
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Send handles a call. route is zero on the host route.
func (h *Host) Send(ctx context.Context, route identity.ID, e *envelope.Envelope) Outcome {
	return h.SendWith(ctx, route, e, Options{})
}

func (h *Host) SendWith(ctx context.Context, route identity.ID, e *envelope.Envelope, o Options) (out Outcome) {
	if root := rootOf(ctx); root != nil {
		defer func() { root.recordCharge(&out) }()
		if err := root.recheckPayer(ctx); err != nil {
			return out.withProblem(err)
		}
	}
	a, out := h.AcceptForRun(ctx, route, e, o)
	switch {
	case a == nil:
		return out
	case a.request.isHandedOff:
		out = out.withTip(*a.row)
		out.State, out.Due, out.Position = Pending, a.row.Due, a.Position
		return out.withProblem(problem.New(problem.Pending, "accepted; the answer is not ready yet: send the same request again for the answer"))
	}
	return h.Run(ctx, a)
}

func (r *request) startReporter() {
	if r.opts.Sink != nil {
		r.reporter = &reporter{sink: r.opts.Sink}
	}
}

func (h *Host) acceptRequest(ctx context.Context, route identity.ID, r *request) (*AcceptedCall, Outcome) {
	r.pair, r.needsSigner, r.mayNeedPayment, r.arrival = Pair{Caller: r.env.From, Vacant: r.env.To}, true, true, h.Now()
	r.startReporter()
	var v tips
	isFresh, err := h.verifyAndFetch(ctx, route, r, &v, true)
	if err != nil {
		return nil, r.out.withProblem(err)
	}
	if err := h.checkEnvelope(r, false); err != nil {
		if !isFresh { // the chain state reported with a refusal must be current
			if err := h.reread(ctx, r, &v); err != nil {
				return nil, r.out.withProblem(err)
			}
		}
		return nil, r.out.withTip(v.req).withProblem(err)
	}
	row, err := h.appendOrRefuse(ctx, r, &v, isFresh)
	if err != nil {
		return nil, r.out.withProblem(err)
	}
	return &AcceptedCall{Pair: r.pair, Position: row.Position, request: r, row: row, tip: v.rsp}, r.out
}

// appendOrRefuse updates v to the tips on which the decision is based.
func (h *Host) appendOrRefuse(ctx context.Context, r *request, v *tips, isFresh bool) (*RequestRow, error) {
	for {
		verdict := decide(r.facts, r.pair, r.env, v.req)
		if verdict.refusal == nil {
			row, err := h.appendAndCheckRevocation(ctx, r, v)
			if row != nil || err != nil {
				return row, err
			}
		} else if isFresh {
			r.out = r.out.withTip(v.req).withFloor(verdict.floor, &r.vacant)
			if verdict.mayBeResend {
				if err := h.loadResendOutcome(ctx, r, v); err != nil {
					return nil, err
				}
			}
			if r.paymentRefusal != nil && verdict.refusal == r.paymentRefusal {
				r.out.PaymentOptions = h.listPaymentOptions(r)
			}
			return nil, verdict.refusal
		}
		if err := h.reread(ctx, r, v); err != nil {
			return nil, err
		}
		isFresh = true
	}
}

func (h *Host) reread(ctx context.Context, r *request, v *tips) error {
	g, gctx := errgroup.WithContext(ctx)
	hosted := true
	g.Go(func() (err error) { *v, err = h.readTips(gctx, r.pair); return err })
	g.Go(func() (err error) {
		hosted, err = h.fetchAndQuote(gctx, r, true)
		return err
	})
	if !r.revocationChecked {
		g.Go(func() error { return h.checkRevoked(gctx, r) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	h.forgetTipsIfRevoked(r)
	if !hosted || r.isConcealed() {
		return h.notHostedError(ctx, r.env.To)
	}
	return r.revokedCallerErr
}

// appendRequest returns neither a row nor an error if another writer took the position.
func (h *Host) appendRequest(ctx context.Context, r *request, v *tips) (*RequestRow, error) {
	if problem.Is(r.signerErr, problem.BudgetSpent) {
		r.out = r.out.withTip(v.req)
		return nil, r.signerErr
	}
	if r.signerErr != nil {
		return nil, h.unavailableError(r.signerErr)
	}
	now := h.Now()
	r.isHandedOff = r.opts.HandoffWrites != nil && h.IsSlow(r.vacant.CallTimeout)
	timeAllowed := h.currentTimeLimit(ctx, r, now).Duration
	if err := CheckTimeLeft(r.vacant.CallTimeout, timeAllowed); err != nil {
		r.out = r.out.withTip(v.req)
		return nil, err
	}
	if timeAllowed == 0 {
		// An accepted call could only be voided now, whereas a refused call can be sent again.
		return nil, problem.New(problem.Unavailable, "too little time is left for an answer; send the same request again")
	}
	tip := &v.req
	row := &RequestRow{
		Position: tip.Position + 1, Kind: RowCall,
		Seq: r.env.Seq, Prev: r.env.Prev, Time: r.env.Time, Signature: r.env.Signature,
		Hash: r.hash, Epoch: tip.Epoch, EpochStart: tip.EpochStart, PrevEpochStart: tip.PrevEpochStart, Floor: tip.Tip().WithEnvelope(r.env, r.hash).Floor,
		ResponseTip: v.rsp.Position, Due: now.Add(r.maxQueueTime + timeAllowed + GracePeriod),
	}
	var err error
	if row.Text, err = h.Texts.Seal(ctx, additionalData(r.pair.Requests(), r.hash), encodePayload(&r.env.Payload, r.env.IdempotencyKey)); err != nil {
		return nil, h.unavailableError(err)
	}
	for try := 1; ; try++ {
		// A late write of an earlier plan may create a row with another payer. This commit must not
		// mistake that row for its own, so each plan has its own WriteID.
		debit, err := h.appendWithDebit(ctx, r, row)
		if err == nil {
			h.tipCache.put(r.pair, tips{req: *row, rsp: v.rsp})
			return row, nil
		}
		var taken *store.TakenError
		switch {
		case errors.As(err, &taken):
			return nil, nil
		case isDebitRefused(debit, err) && try < maxPlans:
			newPlan, err := h.Ledger.Replan(ctx, r.newQuoteRequest(), &r.plan, err)
			if err := h.recordPaymentRefusal(r, err); err != nil {
				return nil, err
			}
			if r.paymentRefusal != nil {
				r.out = r.out.withTip(v.req)
				r.out.PaymentOptions = h.listPaymentOptions(r)
				return nil, r.paymentRefusal
			}
			r.plan = newPlan
			continue
		case isDebitRefused(debit, err):
			return nil, h.unavailableError(err)
		case errors.As(err, new(*store.BoundsError)):
			r.out = r.out.withTip(v.req)
			return nil, problem.Wrap(problem.TooManyRequests, err, "the vacant has reached its limit of background calls")
		case errors.Is(err, store.ErrTooLarge):
			r.out = r.out.withTip(v.req)
			return nil, problem.Wrap(problem.TooLarge, err, "message is too large to store")
		case (r.opts.AcceptWrites != nil || r.isHandedOff) && store.IsConflict(err):
			r.out = r.out.withTip(v.req)
			return nil, problem.Wrap(problem.Conflict, err, "another message was accepted first")
		case errors.As(err, new(*problem.Error)):
			return nil, err
		}
		return nil, h.unavailableError(err)
	}
}

func (h *Host) appendWithDebit(ctx context.Context, r *request, row *RequestRow) (debit []store.Write, err error) {
	if row.WriteID, err = h.newWriteID(); err != nil {
		return nil, err
	}
	plan := &r.plan
	row.Payer, row.PaidBy, row.Price, row.Shard, row.PriceVersion = plan.Payer, plan.Kind, uint64(plan.Hold), plan.Shard, plan.Version
	if row.PaidBy == PaidByAccount {
		payerRequest := r.newQuoteRequest()
		if payerRequest.RootPays {
			payerRequest = *payerRequest.Root
		}
		if payerRequest.Payer != nil {
			row.Subject = payerRequest.Payer.Subject
		}
	}
	row.IsStreamed = (r.opts.Streamed || r.isHandedOff) && row.Price > 0
	writes := []store.Write{store.Append{Stream: r.pair.Requests(), Position: row.Position, WriteID: row.WriteID, Data: row.encode()}}
	if row.PaidBy != Unpriced {
		debit = h.Ledger.Debit(r.pair, plan, row)
		writes = append(writes, debit...)
	}
	acceptWrites := r.opts.AcceptWrites
	if r.isHandedOff {
		acceptWrites = r.opts.HandoffWrites
	}
	if acceptWrites != nil {
		extra, err := acceptWrites(row)
		if err != nil {
			return debit, err
		}
		writes = append(writes, extra...)
	}
	return debit, h.commit(ctx, writes...)
}

// commit repeats writes with the same positions and WriteIDs while the outcome is unknown. A retry
// at another position could store a request twice. After maxTries, a request row may exist although
// its call has not run.
func (h *Host) commit(ctx context.Context, writes ...store.Write) error {
	for try := 1; ; try++ {
		err := h.Store.Commit(ctx, writes...)
		if !errors.Is(err, store.ErrUnavailable) || try == maxTries {
			return err
		}
		if h.Wait(ctx, time.Duration(try*try)*5*time.Millisecond) != nil {
			return err
		}
	}
}

func (h *Host) newWriteID() (a store.WriteID, err error) {
	if _, err := io.ReadFull(h.Rand, a[:]); err != nil {
		return a, problem.Wrap(problem.Unavailable, err, "no randomness")
	}
	return a, nil
}

// CheckTimeLeft refuses a slow call that has too little time, because its answer would probably be
// lost.
func CheckTimeLeft(callTimeout, remaining time.Duration) error {
	if callTimeout <= DefaultCallTimeout || remaining >= callTimeout {
		return nil
	}
	return problem.New(problem.DeadlineExceeded, "the call may take %s, but only %s are left", callTimeout, max(remaining, 0).Round(time.Second))
}

func (h *Host) currentTimeLimit(ctx context.Context, r *request, now time.Time) *TimeLimit {
	l := &TimeLimit{Duration: h.CallTimeout, Name: "the time that the host allows", IsWaitLimit: true}
	switch {
	case r.vacant.CallTimeout > 0:
		l = &TimeLimit{Duration: r.vacant.CallTimeout, Name: "the time that the vacant allows (work)"}
	case r.opts.CallTimeout > 0 && !r.isHandedOff:
		l = &TimeLimit{Duration: r.opts.CallTimeout, Name: "the longest time of a turn"}
	}
	if r.isHandedOff {
		return l
	}
	shorten := func(d time.Duration, source string, isForWaiting bool) {
		if d < l.Duration {
			l = &TimeLimit{Duration: max(d, 0), Name: source, IsWaitLimit: isForWaiting}
		}
	}
	if r.opts.CallTimeout > 0 {
		shorten(r.opts.CallTimeout, "the longest time of a turn", false)
	}
	if r.maxQueueTime > 0 {
		return l
	}
	if deadline, ok := ctx.Deadline(); ok {
		shorten(time.Until(deadline)-h.ReplyMargin, "the time that the request has", true)
	}
	if !r.behaviourDeadline.IsZero() {
		shorten(r.behaviourDeadline.Sub(now), "the time that was left for the call", false)
	}
	return l
}

func (h *Host) Reset(ctx context.Context, route identity.ID, e *envelope.Envelope) Outcome {
	return h.ResetWith(ctx, route, e, Credential{})
}

// ResetWith handles a chain reset (PROTOCOL §9). If no account pays for a vacant with a price, a
// reset uses a free call. Otherwise, strangers could fill the store with resets.
func (h *Host) ResetWith(ctx context.Context, route identity.ID, e *envelope.Envelope, cred Credential) Outcome {
	ctx, cancel := h.detach(ctx, Options{})
	defer cancel()
	r := request{pair: Pair{Caller: e.From, Vacant: e.To}, env: e, mayNeedPayment: true, isReset: true, opts: Options{Credential: cred}}
	if err := h.checkReset(&r, route); err != nil {
		if problem.Is(err, problem.BadSignature) || problem.Is(err, problem.NotAddressed) {
			return r.out.withProblem(err)
		}
		return h.refuseReset(ctx, &r, err)
	}
	for {
		g, gctx := errgroup.WithContext(ctx)
		hosted := false
		var tip RequestRow
		g.Go(func() (err error) {
			hosted, err = h.fetchAndQuote(gctx, &r, true)
			return err
		})
		g.Go(func() (err error) { tip, err = h.readRequestTip(gctx, r.pair); return err })
		g.Go(func() error { return h.unavailableError(h.Texts.Warm(gctx)) })
		g.Go(func() error { return h.checkRevoked(gctx, &r) })
		if err := g.Wait(); err != nil {
			return r.out.withProblem(err)
		}
		if !hosted || r.isConcealed() {
			return r.out.withProblem(notAddressedError())
		}
		if r.revokedCallerErr != nil {
			return r.out.withProblem(r.revokedCallerErr)
		}
		out := r.out.withTip(tip)
		if verdict := decideReset(r.facts, r.pair, e, tip); verdict.refusal != nil {
			return out.withFloor(verdict.floor, &r.vacant).withProblem(verdict.refusal)
		}
		if r.paymentRefusal != nil {
			out.PaymentOptions = h.listPaymentOptions(&r)
			return out.withProblem(r.paymentRefusal)
		}
		if !r.vacant.Price.IsFree() {
			position, err := h.findStreamedCall(ctx, r.pair, tip)
			if err != nil {
				return out.withProblem(err)
			}
			if position > 0 {
				return out.withProblem(problem.New(problem.Pending, "the paid answer to call %d is still being streamed: wait for its end, or cancel its task, before a reset", position))
			}
		}
		done, err := h.appendReset(ctx, &r, tip)
		if err != nil {
			return out.withProblem(err)
		}
		if done {
			r.out.ResetAt = h.Now().UTC()
			r.out.Position = tip.Position + 1
			return r.out
		}
	}
}

// maxTimeToDue exceeds the longest time until a call is due.
const maxTimeToDue = time.Hour

// findStreamedCall returns the position of an undecided streamed call, or 0. After a reset, an
// answer of the next epoch would refund this call, although its caller has read a part of the
// answer.
func (h *Host) findStreamedCall(ctx context.Context, pair Pair, tip RequestRow) (uint64, error) {
	now, openCalls, minResponseTip := h.Now(), map[uint64]bool{}, uint64(math.MaxInt64)
	isRecent := true
	for position := tip.Position; isRecent && position > tip.EpochStart; {
		rows, err := h.Store.Rows(ctx, pair.Requests(), position, store.MaxPage, store.Descending)
		if err != nil {
			return 0, h.unavailableError(err)
		}
		for _, row := range rows {
			callRow, err := DecodeRequest(row)
			if err != nil {
				return 0, h.damagedError(pair.Requests(), err)
			}
			if isRecent = callRow.Kind == RowCall && now.Sub(callRow.Due) < maxTimeToDue; !isRecent {
				break
			}
			if callRow.IsStreamed && !now.After(callRow.Due) {
				openCalls[callRow.Position], minResponseTip = true, min(minResponseTip, callRow.ResponseTip)
			}
			position = callRow.Position - 1
		}
		isRecent = isRecent && len(rows) > 0
	}
	for next := minResponseTip + 1; len(openCalls) > 0; {
		rows, err := h.Store.Rows(ctx, pair.Responses(), next, store.MaxPage, store.Ascending)
		if err != nil {
			return 0, h.unavailableError(err)
		}
		if len(rows) == 0 {
			return slices.Min(slices.Collect(maps.Keys(openCalls))), nil
		}
		for _, row := range rows {
			d, err := DecodeResponse(row)
			if err != nil {
				return 0, h.damagedError(pair.Responses(), err)
			}
			delete(openCalls, d.RequestPosition)
			next = d.Position + 1
		}
	}
	return 0, nil
}

func (h *Host) refuseReset(ctx context.Context, r *request, refusal error) Outcome {
	g, ctx := errgroup.WithContext(ctx)
	hosted := false
	var tip RequestRow
	g.Go(func() (err error) { tip, err = h.readRequestTip(ctx, r.pair); return err })
	g.Go(func() (err error) {
		hosted, err = h.fetchVacant(ctx, r, false)
		return err
	})
	g.Go(func() error { return h.checkRevoked(ctx, r) })
	if err := g.Wait(); err != nil {
		return r.out.withProblem(err)
	}
	if !hosted || r.isConcealed() {
		// A deleted vacant must look like one that never existed.
		tip = RequestRow{}
	}
	if r.revokedCallerErr != nil {
		return r.out.withProblem(r.revokedCallerErr)
	}
	return r.out.withTip(tip).withProblem(refusal)
}

func (h *Host) checkReset(r *request, route identity.ID) error {
	e := r.env
	var signed bool
	if r.hash, signed = e.Verify(); !signed {
		return problem.New(problem.BadSignature, "signature_invalid: %s", badSignatureError(e.From))
	}
	r.out.Hash = r.hash
	if !e.IsReset() {
		return problem.New(problem.Malformed, "payload_not_reset_chain")
	}
	now := h.Now()
	if age := now.Sub(e.Time); age.Abs() > MaxSkew {
		r.out.HostTime = now.UTC().Truncate(time.Microsecond)
		return problem.New(problem.ClockSkew, "stale_reset_request: age=%.0fs", age.Abs().Seconds())
	}
	if !route.IsZero() && route != e.To {
		return notAddressedError()
	}
	return checkAddress(e)
}

func notAddressedError() error { return problem.New(problem.NotAddressed, "not_addressed_to_self") }

func (h *Host) appendReset(ctx context.Context, r *request, tip RequestRow) (done bool, err error) {
	writeID, err := h.newWriteID()
	if err != nil {
		return false, err
	}
	t := tip.Tip().WithReset(r.env)
	row := &RequestRow{
		Position: tip.Position + 1, WriteID: writeID, Kind: RowReset,
		Seq: r.env.Seq, Prev: r.env.Prev, Time: r.env.Time, Signature: r.env.Signature,
		Hash: r.hash, Epoch: t.Epoch, EpochStart: tip.Position + 1, PrevEpochStart: tip.EpochStart, Floor: t.Floor,
	}
	s := r.pair.Requests()
	if row.Text, err = h.Texts.Seal(ctx, additionalData(s, r.hash), encodePayload(&r.env.Payload, r.env.IdempotencyKey)); err != nil {
		return false, h.unavailableError(err)
	}
	writes := []store.Write{store.Append{Stream: s, Position: row.Position, WriteID: writeID, Data: row.encode()}}
	var debit []store.Write
	if r.plan.Kind != Unpriced {
		debit = h.Ledger.Debit(r.pair, &r.plan, row)
	}
	err = h.commit(ctx, append(writes, debit...)...)
	var taken *store.TakenError
	switch {
	case err == nil:
		h.tipCache.forget(r.pair) // a cached pair needs both tips, and the response tip was not read
		return true, nil
	case errors.As(err, &taken):
		return false, nil
	case isDebitRefused(debit, err):
		r.plan, err = h.Ledger.Replan(ctx, r.newQuoteRequest(), &r.plan, err)
		return false, h.recordPaymentRefusal(r, err)
	case errors.Is(err, store.ErrTooLarge):
		return false, problem.Wrap(problem.TooLarge, err, "message is too large to store")
	}
	return false, h.unavailableError(err)
}
