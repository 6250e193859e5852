package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Call sends msg to t and returns the verified answer. If the call in hand has the same message,
// Call resends its bytes. A call in hand with another message is abandoned, and its outcome is
// later returned in LateOutcomes.
func (c *Caller) Call(ctx context.Context, t Target, msg envelope.Message) (Result, error) {
	return c.runLocked(ctx, t, func(ctx context.Context, r *run) error {
		r.isCall = true
		if err := r.prepareMessage(ctx, &msg); err != nil {
			return err
		}
		return r.repeatSteps(ctx, msg)
	})
}

// GiveUp ends the call in hand of t without an outcome, so that the next Call signs a new envelope
// even for the same message.
func (c *Caller) GiveUp(ctx context.Context, t Target) error {
	_, err := c.runLocked(ctx, t, func(_ context.Context, r *run) error {
		if r.state.CallKey == "" || r.state.callOutcome() != nil {
			return nil
		}
		r.state.CallKey = ""
		return r.save()
	})
	return err
}

func (r *run) prepareMessage(ctx context.Context, msg *envelope.Message) error {
	msg.Role = cmp.Or(msg.Role, envelope.RoleUser)
	if err := msg.Check(); err != nil {
		return err
	}
	if msg.Role == envelope.RoleAgent {
		return problem.New(problem.Usage, "role: a call is not signed as %s", envelope.RoleAgent)
	}
	if probe := (envelope.Envelope{Payload: *msg}); probe.IsReset() {
		return r.newStuckError(RemedyReset, problem.Usage, "%s is a chain reset, not a call", envelope.ResetText)
	}
	if e := r.state.anyCallEnvelope(); e != nil && (isSameMessage(e.Payload, *msg) || isSameMessage(e.Payload, r.withThread(*msg, e.IdempotencyKey)) || isThreadStart(e, *msg)) {
		*msg = e.Payload
		r.result.Resumed = true
		r.setResultRequest(*e)
		r.callKey = r.state.CallKey
		return r.checkResumed(ctx)
	}
	if r.caller.Check != nil {
		if err := r.caller.Check(ctx, r.target); err != nil {
			return err
		}
	}
	if r.caller.Thread == LastThread && r.state.ThreadID == "" {
		return problem.New(problem.Usage, "no call to %s has started a thread that can be continued", r.target.Name)
	}
	key, err := r.caller.newIdempotencyKey()
	r.state.CallKey, r.callKey = key, key
	*msg = r.withThread(*msg, key)
	return err
}

func (r *run) withThread(msg envelope.Message, key string) envelope.Message {
	// A new id contains the idempotency key, so that prepareMessage recognizes a stored call with the
	// same message.
	switch id := "c-" + key; r.caller.Thread {
	case NewThread:
		msg.ContextID = &id
	case LastThread:
		msg.ContextID = &r.state.ThreadID
	}
	return msg
}

func isThreadStart(e *envelope.Envelope, msg envelope.Message) bool {
	id := "c-" + e.IdempotencyKey
	if msg.ContextID != nil {
		return false
	}
	msg.ContextID = &id
	return isSameMessage(e.Payload, msg)
}

// checkResumed applies Check to a resumed call that the target has not accepted. Resending an
// accepted call is free.
func (r *run) checkResumed(ctx context.Context) error {
	if r.caller.Check == nil || r.state.callOutcome() != nil {
		return nil
	}
	checkErr := r.caller.Check(ctx, r.target)
	if checkErr == nil {
		return nil
	}
	for _, e := range slices.Concat(r.state.Sent, r.state.Acceptable, r.state.Overtaken) {
		if e.IdempotencyKey != r.state.CallKey {
			continue
		}
		reply, err := r.post(ctx, r.callURLs.ask, envelope.AppendRequest(nil, nil, &e))
		if err == nil && (reply.state == stateAnswered || reply.state == stateUnanswered || reply.state == statePending) {
			return nil
		}
	}
	return checkErr
}

func (r *run) setResultRequest(e envelope.Envelope) identity.Hash {
	r.result.Request, r.result.RequestHash = e, e.Hash()
	return r.result.RequestHash
}

func (r *run) repeatSteps(ctx context.Context, msg envelope.Message) error {
	resumed := r.result.Resumed
	for range maxSteps {
		var err error
		switch e := r.state.callEnvelope(); {
		case r.state.callOutcome() != nil:
			return r.deliverOutcome()
		case r.state.PendingReset != nil:
			err = r.finishReset(ctx)
		case r.nextOvertaken() != nil:
			err = r.settleOvertaken(ctx)
		case e != nil:
			err = r.send(ctx, *e, resumed)
			resumed = false
		case len(r.state.Sent)+len(r.state.Acceptable) >= MaxListed && r.caller.AutoReset:
			err = r.signReset(ctx, time.Time{})
		case len(r.state.Sent)+len(r.state.Acceptable) >= MaxListed:
			err = r.tooManyListedError()
		default:
			err = r.sign(ctx, msg)
			resumed = false
		}
		if err != nil {
			return err
		}
	}
	return r.unresolvedError(nil)
}

func (r *run) sign(ctx context.Context, msg envelope.Message) error {
	if r.state.RequestTip.Seq >= envelope.MaxSeq {
		return r.newStuckError(RemedyReset, problem.Conflict, "the chain with %s is at its end; a reset starts it again", r.target.Name)
	}
	e := envelope.Envelope{
		From: r.self, To: r.target.ID, Seq: r.state.RequestTip.Seq + 1, Prev: r.state.RequestTip.Hash, Time: r.state.nextSignTime(r.caller.currentTime()),
		Payload: msg, IdempotencyKey: r.state.CallKey,
	}
	if _, err := e.Sign(ctx, r.caller.Signer); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the call could not be signed")
	}
	if n, limit := len(envelope.AppendRequest(nil, nil, &e)), canon.DefaultLimits().Bytes; n > limit {
		return &problem.Error{Kind: problem.TooLarge, Field: "message", Want: fmt.Sprintf("at most %d bytes signed and encoded", limit), Got: fmt.Sprint(n)}
	}
	r.state.Sent = append(r.state.Sent[:len(r.state.Sent):len(r.state.Sent)], e)
	r.state.recordSignedTime(e.Time)
	if r.caller.Thread != AnyThread && msg.ContextID != nil {
		r.state.ThreadID = *msg.ContextID
	}
	r.setResultRequest(e)
	return r.save()
}

func (r *run) tooManyListedError() error {
	return r.newStuckError(RemedyAsk, problem.Conflict, "%d listed calls to %s have no known outcome: ask for their outcomes, or start a new chain by a reset", len(r.state.Sent)+len(r.state.Acceptable), r.target.Name)
}

func (r *run) send(ctx context.Context, e envelope.Envelope, mayHaveArrived bool) error {
	h := r.setResultRequest(e)
	r.mayHaveReachedTarget, r.mayBeAccepted = r.mayHaveReachedTarget || mayHaveArrived, r.mayBeAccepted || mayHaveArrived
	body, callURL := envelope.AppendRequest(nil, nil, &e), r.withMaxPrice(r.callURLs.send)
	storeFailed := false
	for failedTries, pendingReplies := 0, 0; ; {
		reply, err := r.post(ctx, callURL, body)
		// After the host's store failed, only an explicit reply shows that the call was not
		// accepted.
		isFateUnstated := storeFailed && err == nil && !reply.hasExtensionMembers()
		r.mayBeAccepted = r.mayBeAccepted || mayHaveAccepted(reply, err) || isFateUnstated
		storeFailed = storeFailed || err == nil && reply.hasStoreFailure()
		if isRetryPointless(err) {
			return err
		}
		if err == nil {
			if v, otherEnvelope, err := r.judge(e, h, reply, mayHaveArrived); v != verdictResend {
				return r.actOnVerdict(ctx, h, reply, v, otherEnvelope, err)
			}
		}
		mayHaveArrived = mayHaveArrived || !problem.Is(err, problem.Unavailable)
		if reply.state == statePending {
			r.result.Due, ctx = reply.due, r.unlimitedCtx
			remaining := r.remainingWait(reply.due)
			if remaining <= 0 {
				return r.unresolvedError(nil)
			}
			err = r.awaitAnswer(ctx, &e, remaining, pendingReplies)
			pendingReplies++
		} else {
			if failedTries++; failedTries >= r.caller.tryLimit() || r.caller.MaxUnacceptedTries > 0 && !r.mayBeAccepted && failedTries >= r.caller.MaxUnacceptedTries {
				return r.endPosting(ctx, e, h, errors.Join(err, replyError(reply)))
			}
			err = r.pause(ctx, failedTries-1)
		}
		if err != nil {
			return r.unresolvedError(err)
		}
	}
}

func (r *run) withMaxPrice(callURL string) string {
	if r.caller.MaxPrice == nil {
		return callURL
	}
	sep := "?"
	if strings.Contains(callURL, "?") {
		sep = "&"
	}
	return callURL + sep + "max_price=" + strconv.FormatInt(*r.caller.MaxPrice, 10)
}

func mayHaveAccepted(reply hostReply, err error) bool {
	switch {
	case err != nil:
		return !problem.Is(err, problem.Unavailable) && !problem.Is(err, problem.Usage)
	case reply.state != "":
		return reply.state != stateUnknown
	case reply.isInconclusive():
		return !reply.hasStoreFailure() // endPosting asks for the fate
	}
	return reply.status >= 200 && reply.status < 300 || reply.status >= 500 && reply.status != http.StatusNotImplemented
}

func (a hostReply) hasStoreFailure() bool {
	return a.status == problem.Unavailable.Forms().HTTPStatus && a.code == problem.Unavailable.String()
}

// endPosting ends the attempts to post e. If the caller may now call another vacant, endPosting
// first asks the host for the fate of e, because otherwise both vacants could run the call.
func (r *run) endPosting(ctx context.Context, e envelope.Envelope, h identity.Hash, cause error) error {
	if r.mayBeAccepted || !r.mayHaveReachedTarget || r.caller.MaxUnacceptedTries == 0 {
		return r.unresolvedError(cause)
	}
	reply, err := r.post(ctx, r.callURLs.ask, envelope.AppendRequest(nil, nil, &e))
	if err == nil && (reply.state == stateAnswered || reply.state == stateUnanswered) {
		if v, otherEnvelope, err := r.judge(e, h, reply, true); v != verdictResend {
			return r.actOnVerdict(ctx, h, reply, v, otherEnvelope, err)
		}
	}
	r.mayBeAccepted = err != nil || reply.state != stateUnknown || reply.tooOld
	return r.unresolvedError(cause)
}

func (r *run) actOnVerdict(ctx context.Context, h identity.Hash, reply hostReply, v verdict, otherEnvelope *envelope.Envelope, err error) error {
	switch {
	case v == verdictOtherAccepted:
		return r.settleOther(ctx, *otherEnvelope, h)
	case v == verdictChainMoved:
		return r.handleMovedChain(ctx, h, reply)
	case v == verdictSignAgain && r.floorRetries > r.caller.tryLimit():
		err = problem.New(problem.ClockSkew, "%s keeps asking for a later time: check the clock of this machine", r.target.Name)
	}
	if saveErr := r.save(); saveErr != nil {
		return saveErr
	}
	return err
}

// deliverOutcome moves outcomes to the result and saves the state without them. If the process dies
// before the save, repeating the call returns the outcome. If the process dies after the save,
// repeating the call makes a new call.
func (r *run) deliverOutcome() error {
	outcome := *r.state.callOutcome()
	h := r.setResultRequest(outcome.Request)
	r.result.Fate, r.result.Reply, r.result.ReplySeq, r.result.ReplyHash, r.result.CutReason = outcome.Fate, outcome.Reply, outcome.ReplySeq, outcome.ReplyHash, outcome.CutReason
	r.result.ReplyBound = outcome.Reply != nil && envelope.IsReplyKey(outcome.Reply.IdempotencyKey)
	r.state.CallKey = ""
	r.state.UnreturnedOutcomes = slices.DeleteFunc(slices.Clone(r.state.UnreturnedOutcomes), func(x CallOutcome) bool { return x.Request.Hash() == h })
	if err := r.deliverLate(); err != nil {
		return err
	}
	switch outcome.Fate {
	case TextGone:
		return problem.New(problem.BehaviourFailed, "%s answered call %d, and no longer stores the text of the answer (number %d, hash %s)",
			r.target.Name, outcome.Request.Seq, outcome.ReplySeq, outcome.ReplyHash)
	case Unanswered:
		reason := strings.TrimPrefix(outcome.Detail, problem.BehaviourFailed.Forms().DefaultMessage+": ")
		kind := problem.BehaviourFailed
		for _, k := range problem.Kinds() {
			if k.String() == outcome.Code && (k.IsFailure() || k == problem.DeadlineExceeded) {
				kind = k
			}
		}
		return problem.New(kind, "call %d to %s failed: %s", outcome.Request.Seq, r.target.Name, reason)
	case AnswerLost:
		return problem.New(problem.BehaviourFailed, "%s accepted call %d, but its answer is lost", r.target.Name, outcome.Request.Seq)
	}
	return nil
}

func (r *run) deliverLate() error {
	if r.state.callOutcome() != nil {
		r.state.CallKey = ""
	}
	r.result.LateOutcomes = append(r.result.LateOutcomes, r.state.UnreturnedOutcomes...)
	r.state.UnreturnedOutcomes = nil
	return r.save()
}

func (r *run) settleOther(ctx context.Context, otherEnvelope envelope.Envelope, h identity.Hash) error {
	reply, err := r.askFate(ctx, otherEnvelope, true)
	if err != nil {
		return err
	}
	switch {
	case reply.state == stateAnswered || reply.state == stateUnanswered:
		otherHash := r.setResultRequest(otherEnvelope)
		if v, _, err := r.judge(otherEnvelope, otherHash, reply, true); v != verdictSettled {
			return r.actOnVerdict(ctx, otherHash, reply, v, nil, err)
		}
	case reply.isRouteMissing():
		r.settleLost(otherEnvelope, h)
	default:
		// The host's report is out of date or contradictory.
		return r.pause(ctx, 0)
	}
	return r.save()
}

func (r *run) handleMovedChain(ctx context.Context, h identity.Hash, reply hostReply) error {
	if r.caller.AutoReset {
		return r.signReset(ctx, reply.floor)
	}
	for _, e := range removeEnvelope(slices.Concat(r.state.Sent, r.state.Acceptable), h) {
		if err := r.settleListed(ctx, e); err != nil {
			return err
		}
	}
	if err := r.save(); err != nil || r.state.callOutcome() != nil {
		return err
	}
	kind := problem.Conflict
	for _, k := range []problem.Kind{problem.Replay, problem.Gap, problem.Fork, problem.BelowFloor} {
		if reply.code == k.String() {
			kind = k
		}
	}
	return r.movedChainError(kind, reply, ", then run the same command again")
}

func (r *run) movedChainError(kind problem.Kind, reply hostReply, suffix string) error {
	if expectedSeq := reply.expectedSeq; !reply.restoredAt.IsZero() && expectedSeq > 0 && expectedSeq <= r.state.RequestTip.Seq+1 {
		return r.newStuckError(RemedyReset, kind, "%s was restored from a backup at %s: it has the chain up to call %d, and accepts only messages signed later than %s; a reset starts the chain again now%s",
			r.target.Name, formatTime(reply.restoredAt), expectedSeq-1, formatTime(reply.floor), suffix)
	}
	return r.newStuckError(RemedyReset, kind, "the chain with %s was moved by another holder of this key, or reset by the other side (%s): a reset starts it again%s", r.target.Name, reply.safeDetail(), suffix)
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func (r *run) post(ctx context.Context, url string, body []byte) (hostReply, error) {
	r.result.RequestCount++
	start := r.caller.currentTime()
	status, responseBody, err := r.caller.Transport.Post(ctx, url, body)
	r.result.RequestTime += r.caller.currentTime().Sub(start)
	r.mayHaveReachedTarget = r.mayHaveReachedTarget || !problem.Is(err, problem.Unavailable)
	if err != nil {
		return hostReply{}, err
	}
	return parseReply(status, responseBody), nil
}

func isRetryPointless(err error) bool {
	return problem.Is(err, problem.TooLarge) || problem.Is(err, problem.Usage)
}

func (r *run) pause(ctx context.Context, n int) error {
	d := maxPause
	if n <= 4 {
		d = min(firstPause<<n, maxPause)
	}
	r.waitedTime += d
	if r.caller.Wait != nil {
		return r.caller.Wait(ctx, d)
	}
	return retry.Sleep(ctx, d)
}

func replyError(reply hostReply) error {
	if reply.status == 0 {
		return nil
	}
	return fmt.Errorf("%d %s", reply.status, reply.safeDetail())
}

func (r *run) unresolvedError(cause error) error {
	switch {
	case errors.Is(cause, context.Canceled):
		return problem.Wrap(problem.Canceled, cause, "stopped; the call to %s is stored; run the same command again to resume it", r.target.Name)
	case !r.mayHaveReachedTarget:
		return problem.Wrap(problem.Unavailable, cause, "%s cannot be reached, nothing was sent; the signed call is stored; run the same command again to send it", r.target.Name)
	case !r.mayBeAccepted && r.caller.MaxUnacceptedTries > 0:
		return problem.Wrap(problem.Unavailable, cause, "%s does not accept calls now", r.target.Name)
	}
	return problem.Wrap(problem.Pending, cause, "%s has not answered yet; the call is stored; run the same command again to resume it", r.target.Name)
}
