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

// runAndDecide runs the behaviour of an accepted call and decides the request with an answer or a void.
// rsp is the last response row that was read before the call was accepted.
func (h *Host) runAndDecide(ctx context.Context, r *request, row *RequestRow, rsp ResponseRow) Outcome {
	r.out.Position = row.Position
	r.out = r.out.withTip(*row)
	if row.PaidBy == PaidByAccount {
		r.walk.own = money.Amount(row.Price)
	}
	began := h.Now()
	used := &meter{now: h.Now}
	msg, failed := h.runBehaviour(context.WithValue(context.WithValue(ctx, meterKey{}, used), requestKey{}, r), r)
	used.copyTo(r)
	if failed == nil {
		reply, closed, err := h.settleAndAnswer(ctx, r, row, rsp, msg, began)
		var unsettled *unsettledError
		switch {
		case errors.Is(err, ErrUncertain):
			r.out.State = Pending
			return r.out.refuse(problem.Wrap(problem.Deadline, err, "the answer waits for its payment to settle; send the same request again"))
		case errors.As(err, &unsettled):
			failed = unsettled.cause
		case err != nil && !problem.AsError(err).Kind.IsFailure():
			return r.out.refuse(err)
		case err != nil:
			failed = err
		case closed:
			r.out.State = Unanswered
			return r.out.refuse(problem.New(problem.Deadline, "the call was voided, or its chain was reset, before its answer was ready"))
		default:
			r.out.Reply = reply
			return r.out
		}
	}
	cause := CauseOf(failed, h.Now().Sub(began))
	r.out.Cause = cause
	c := r.voidReason()
	c.cause, c.tools, c.used, c.failure, c.ran, c.final = cause, r.tools, r.out.Usage, failed, true, true
	d, err := h.voidCall(ctx, r.pair, row, c)
	switch {
	case err != nil:
		return r.out.refuse(err)
	case d == decidedAnswer:
		// Only the process that runs the behaviour can write a complete answer, and here the behaviour
		// failed. The stored answer must therefore be a partial answer, which CutAnswer wrote.
		if err := h.outcomeOf(ctx, r, row); err != nil {
			return r.out.refuse(err)
		}
		if r.out.Cut == "" {
			return r.out.refuse(problem.New(problem.Damaged, "request %d has a complete answer although its behaviour failed", row.Position))
		}
		r.out.State, r.out.Cause = "", nil
		return r.out
	}
	r.out.State, r.out.HasEnded = Unanswered, true
	return r.out.refuse(failed)
}

var errGoexit = errors.New("behaviour ended its goroutine")

// runBehaviour runs the behaviour until it returns or its deadline passes. If the behaviour ignores its
// context, its result is discarded.
func (h *Host) runBehaviour(ctx context.Context, r *request) (envelope.Message, error) {
	limit := h.timeAllowed(ctx, r, h.Now())
	ctx, cancel := context.WithTimeoutCause(ctx, limit.Time, limit)
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
	case errors.Is(res.err, context.DeadlineExceeded), problem.Is(res.err, problem.Deadline):
		if passed := ExceededLimit(ctx, res.err); passed != nil {
			return res.m, problem.Wrap(problem.Deadline, passed, "the vacant did not answer within %s, %s", passed.roundedTime(), passed.Name)
		}
		return res.m, problem.Wrap(problem.Deadline, res.err, "the vacant did not answer in time")
	}
	kind := problem.BehaviourFailed
	if p := problem.AsError(res.err); p.Kind.IsFailure() {
		kind = p.Kind
	}
	return res.m, problem.Wrap(kind, res.err, "%s", kind.Row().Text)
}

// storeAnswer signs msg as the next message of the response chain and stores it. The reply is sent only
// after its row is stored, so that two different replies with the same sequence number never leave
// the host. If the request was voided, or the response chain has begun a newer epoch, closed is true.
func (h *Host) storeAnswer(ctx context.Context, r *request, row *RequestRow, tip ResponseRow, msg envelope.Message, took func() time.Duration, paid settlement) (reply *envelope.Envelope, closed bool, err error) {
	writeID, err := h.newWriteID()
	if err != nil {
		return nil, false, err
	}
	observed, wrote := func() {}, false
	defer func() {
		if observed(); wrote {
			c := r.voidReason()
			c.used = r.out.Usage
			h.logEnd(ctx, callEnd{voidReason: c, pair: r.pair, row: row, reply: true, cut: r.cut})
		}
	}()
	conflicts := 0
	for first := true; ; first = false {
		if tip.Position > 0 && tip.Epoch > row.Epoch {
			// The request's epoch is over: the response chain already has a row of a newer epoch,
			// which an answer of an older epoch must not follow.
			c := r.voidReason()
			c.used, c.ran, c.final = r.out.Usage, true, true
			d, err := h.voidCall(ctx, r.pair, row, c)
			r.out.HasEnded = err == nil
			if err == nil && d == decidedAnswer && r.cut == "" {
				err = problem.New(problem.Damaged, "request %d has another answer than the one of this process", row.Position)
			}
			return nil, true, err
		}
		reply, ans, err := h.signAnswer(ctx, r, row, tip, msg)
		if err != nil {
			return nil, false, err
		}
		ans.WriteID, ans.Took = writeID, took().Truncate(time.Millisecond)
		ans.Charged, ans.Charge = row.PaidBy != Unpriced, uint64(paid.Charge)
		if first && r.cut == "" { // a partial answer is not evidence about the vacant
			observed = h.observe(ctx, r, ans)
		}
		answered := Decision{Reply: reply, Cut: r.cut, Spent: r.walkCost()}
		if ans.Charged {
			answered.Paid = &Paid{paid.Charge, row.Position}
			answered.Spent += paid.Charge
		}
		beside, err := r.opts.decisionWrites(ctx, answered)
		if err != nil {
			return nil, false, err
		}
		writes := append([]store.Write{store.Append{Stream: r.pair.Responses(), Position: ans.Position, WriteID: writeID, Data: ans.encode()}}, paid.writes(r.pair, row)...)
		err = h.commit(ctx, append(writes, beside...)...)
		if err == nil {
			h.tipCache.put(r.pair, tips{req: *row, rsp: *ans})
			r.out.Charge, r.out.Cut, r.out.HasEnded, wrote = paid.Charge, r.cut, true, true
			return reply, false, nil
		}
		var taken *store.TakenError
		switch {
		case isDebitRefused(paid.Writes, err) && conflicts < maxConflicts:
			conflicts++
			if paid.FinalCharge, err = h.settleCharge(ctx, r, row, true); err != nil {
				return nil, false, err
			}
			continue
		case r.opts.retryConflict(err, &conflicts):
			continue
		case errors.Is(err, store.ErrTooLarge):
			return nil, false, problem.Wrap(problem.SubstrateTooLarge, err, "%s", problem.SubstrateTooLarge.Row().Text)
		case !errors.As(err, &taken):
			return nil, false, h.unavailableError(err)
		}
		d, last, err := h.decided(ctx, r.pair, row)
		if err != nil {
			return nil, false, err
		}
		if d != nil && d.Kind == RowVoid {
			return nil, true, nil
		}
		if d != nil && (h.maySettleLate(row) || d.Cut != "" || r.cut != "") {
			// A resend or the sweeper has settled the stored answer, or a partial and a complete answer
			// competed, and the other one was stored first.
			err := h.loadAnswer(ctx, r, d)
			r.out.State = ""
			return r.out.Reply, false, err
		}
		if d != nil {
			return nil, false, problem.New(problem.Damaged, "request %d has another answer than the one of this process", row.Position)
		}
		tip = last
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
		Request: row.Position, RequestHash: row.Hash, RequestEpoch: row.Epoch,
		Epoch: row.Epoch, Seq: e.Seq, Hash: hash, Prev: e.Prev, Time: e.Time, Signature: e.Signature, Usage: r.out.Usage, Cut: r.cut,
	}
	ans.Text, err = h.Texts.Seal(ctx, additionalData(r.pair.Responses(), hash), appendTools(encodePayload(&msg, ""), r.tools))
	if err != nil {
		return nil, nil, h.unavailableError(err)
	}
	return e, ans, nil
}

// decision is the outcome of a request.
type decision int

const (
	undecided decision = iota
	decidedAnswer
	decidedVoid
	decidedClosed // the response chain has begun a newer epoch; the request gets no row
)

// voidReason describes a call that is about to be voided. All fields may be zero.
type voidReason struct {
	cause   *Cause
	tools   []RecordedToolCall
	used    *Usage
	failure error
	opts    *Options
	spent   money.Amount // cost of the request's walk (walk.go)
	ran     bool         // whether the behaviour was started
	// final reports whether the call is voided even if it has an unsettled answer, because this answer
	// can no longer be sent.
	final bool

	// agent and began are for the log. counts reports whether the log line includes the number of AWS
	// requests (package obs). It is false if a vacant made the call, or if the call is decided outside
	// the request that runs it.
	agent  *AgentLog
	began  time.Time
	counts bool
}

func (r *request) voidReason() voidReason {
	return voidReason{opts: &r.opts, spent: r.walkCost(), agent: r.out.AgentLog, began: r.began, counts: r.root == nil && !r.began.IsZero()}
}

// voidCall closes an undecided request permanently, with a refund if it was priced. It reads all
// response rows after the request's ResponseTip. The void and a late answer compete for the same
// position, so a request is never both answered and refunded, even if a caller of voidCall has a wrong
// clock.
func (h *Host) voidCall(ctx context.Context, pair Pair, row *RequestRow, c voidReason) (decision, error) {
	writeID, err := h.newWriteID()
	if err != nil {
		return undecided, err
	}
	if c.opts == nil {
		c.opts = &Options{}
	}
	var text textkeys.Sealed
	if c.cause != nil {
		// A cause that cannot be sealed is lost, because the void is more important.
		if b, err := json.Marshal(sealedCause{c.cause, encodeTools(c.tools)}); err == nil {
			text, _ = h.Texts.Seal(ctx, additionalData(pair.Responses(), row.Hash), b)
		}
	}
	conflicts := 0
	for {
		d, tip, err := h.decided(ctx, pair, row)
		if err != nil {
			return undecided, err
		}
		if d != nil {
			return d.decision(), nil
		}
		if isClosedBy(tip, row) {
			if c.ran && c.final {
				c.cause, c.failure = nil, errReset
				h.logEnd(ctx, callEnd{voidReason: c, pair: pair, row: row})
			}
			return decidedClosed, nil
		}
		v := &ResponseRow{
			Position: tip.Position + 1, WriteID: writeID, Kind: RowVoid,
			Request: row.Position, RequestHash: row.Hash, RequestEpoch: row.Epoch,
			Epoch: tip.Epoch, Seq: tip.Seq, Hash: tip.Hash, Text: text, Usage: c.used,
		}
		writes := []store.Write{store.Append{Stream: pair.Responses(), Position: v.Position, WriteID: writeID, Data: v.encode()}}
		if row.PaidBy != Unpriced {
			writes = append(writes, h.Ledger.Refund(pair, row, c.ran)...)
		}
		if h.maySettleLate(row) {
			w, err := h.closeKept(ctx, pair, row, writeID, c.final)
			if err != nil {
				return undecided, err
			}
			writes = append(writes, w)
		}
		beside, err := c.opts.decisionWrites(ctx, Decision{Failure: c.failure, Spent: c.spent})
		if err != nil {
			return undecided, err
		}
		err = h.commit(ctx, append(writes, beside...)...)
		var taken *store.TakenError
		switch {
		case err == nil:
			h.tipCache.put(pair, tips{rsp: *v})
			h.logEnd(ctx, callEnd{voidReason: c, pair: pair, row: row})
			return decidedVoid, nil
		case c.opts.retryConflict(err, &conflicts), h.maySettleLate(row) && store.IsConflict(err):
		case !errors.As(err, &taken):
			return undecided, h.unavailableError(err)
		}
	}
}

func (r *ResponseRow) decision() decision {
	if r.Kind == RowAnswer {
		return decidedAnswer
	}
	return decidedVoid
}

// isClosedBy reports whether tip is a response of a later epoch than an unpriced request, which can then
// no longer be answered and does not get its own row.
func isClosedBy(tip ResponseRow, row *RequestRow) bool {
	return tip.Position > 0 && tip.Epoch > row.Epoch && row.Price == 0
}

// findResend finds the outcome of an envelope that was already accepted. Resending the same signed bytes
// returns the stored answer, which makes the protocol idempotent (PROTOCOL §23 A5, A6).
func (h *Host) findResend(ctx context.Context, r *request, v *tips) error {
	row, tooOld, err := h.lookup(ctx, r, v.req)
	if err != nil || row == nil {
		r.out.TooOld = tooOld
		return err
	}
	r.out.Position = row.Position
	return h.outcomeOf(ctx, r, row)
}

// lookup returns the call row with the hash of r. The row can only be at EpochStart + seq of the
// current epoch or one of the seven before it, so lookup needs one or two reads per epoch.
func (h *Host) lookup(ctx context.Context, r *request, tip RequestRow) (row *RequestRow, tooOld bool, err error) {
	epochStart, back := tip.EpochStart, tip.PrevEpochStart
	for n := 1; tip.Position > 0; n++ {
		if p := epochStart + uint64(r.env.Seq); p <= tip.Position {
			row, ok, err := h.callRow(ctx, r.pair, p)
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
		if epochStart = back; epochStart > 0 {
			reset, ok, err := h.callRow(ctx, r.pair, epochStart)
			if err != nil {
				return nil, false, err
			}
			if !ok {
				return nil, false, problem.New(problem.Damaged, "the reset at position %d is missing", epochStart)
			}
			back = reset.PrevEpochStart
		}
	}
	return nil, false, nil
}

// outcomeOf reads the state of an accepted call into r.out. It first voids an overdue undecided
// call, because a row must record that a call is unanswered before the host reports it to a caller.
func (h *Host) outcomeOf(ctx context.Context, r *request, row *RequestRow) error {
	d, tip, err := h.decided(ctx, r.pair, row)
	if err != nil {
		return err
	}
	if d == nil && !isClosedBy(tip, row) {
		what, err := h.finishKept(ctx, r.pair, row)
		if err == nil && what == undecided && h.Now().After(row.Due) {
			what, err = h.voidCall(ctx, r.pair, row, voidReason{ran: true})
		}
		switch {
		case errors.Is(err, ErrUncertain), err == nil && what == undecided:
			r.out.State, r.out.Due = Pending, row.Due
			return nil
		case err != nil:
			return err
		}
		if what == decidedAnswer { // the answer was stored before the void, or was settled now
			if d, _, err = h.decided(ctx, r.pair, row); err != nil {
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

// loadAnswer copies the stored answer d to r.out. If the text key is destroyed, it copies only the
// sequence number and the hash.
func (h *Host) loadAnswer(ctx context.Context, r *request, d *ResponseRow) error {
	r.out.Cut, r.out.Charged, r.out.Charge = d.Cut, d.Charged, money.Amount(d.Charge)
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

// Ask reports the state of an envelope without accepting it. It performs steps 2 to 4 of the package
// documentation and returns 200 with the state.
func (h *Host) Ask(ctx context.Context, route identity.ID, e *envelope.Envelope) Outcome {
	ctx, cancel := h.detach(ctx, Options{})
	defer cancel()
	r, v := request{pair: Pair{Caller: e.From, Vacant: e.To}, env: e}, tips{}
	_, err := h.verifyAndFetch(ctx, route, &r, &v, false)
	if err != nil {
		return r.out.refuse(err)
	}
	if err := h.checkEnvelope(&r, true); err != nil {
		return r.out.withTip(v.req).refuse(err)
	}
	r.out.State = Unknown
	if err := h.findResend(ctx, &r, &v); err != nil {
		return r.out.refuse(err)
	}
	r.out = r.out.withTip(v.req)
	r.out.Floor = r.floor(v.req)
	return r.out
}

// ResolveOverdue voids the request at a position if it is overdue and undecided, or retries the
// settlement of its unsettled answer. The sweeper calls it for priced calls. It reports whether the
// request is decided.
func (h *Host) ResolveOverdue(ctx context.Context, pair Pair, position uint64) (bool, error) {
	row, err := h.callAt(ctx, pair, position)
	switch {
	case err != nil:
		return false, err
	case !h.Now().After(row.Due):
		d, tip, err := h.decided(ctx, pair, &row)
		return d != nil || isClosedBy(tip, &row), err
	}
	what, err := h.finishKept(ctx, pair, &row)
	if err == nil && what == undecided {
		_, err = h.voidCall(ctx, pair, &row, voidReason{ran: true})
	}
	if errors.Is(err, ErrUncertain) {
		return false, nil
	}
	return err == nil, err
}
