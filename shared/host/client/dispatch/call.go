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

// Call sends msg to t and returns the verified answer. If a call with the same message is under
// way, Call resends its bytes and returns its answer. A call under way with another message is
// abandoned, although the host may still accept it, and its outcome is returned in Late. The
// package documentation describes the errors.
func (c *Caller) Call(ctx context.Context, t Target, msg envelope.Message) (Result, error) {
	return c.runLocked(ctx, t, func(ctx context.Context, r *run) error {
		r.isCall = true
		if err := r.prepareMessage(ctx, &msg); err != nil {
			return err
		}
		return r.repeatSteps(ctx, msg)
	})
}

// GiveUp ends the call in hand of t without an outcome. The next Call signs a new envelope, even
// for the same message. The signed envelopes remain listed, and the next Call asks for their fates.
func (c *Caller) GiveUp(ctx context.Context, t Target) error {
	_, err := c.runLocked(ctx, t, func(_ context.Context, r *run) error {
		if r.st.CallKey == "" || r.st.callOutcome() != nil {
			return nil
		}
		r.st.CallKey = ""
		return r.save()
	})
	return err
}

// prepareMessage checks the message and determines whether its call is under way. All envelopes of the call
// in hand have the same idempotency key.
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
	if e := r.st.anyCallEnvelope(); e != nil && (isSameMessage(e.Payload, *msg) || isSameMessage(e.Payload, r.withThread(*msg, e.IdempotencyKey)) || isThreadStart(e, *msg)) {
		*msg = e.Payload
		r.res.Resumed = true
		r.setCurrent(*e)
		r.callKey = r.st.CallKey
		return r.checkResumed(ctx)
	}
	if r.c.Check != nil {
		if err := r.c.Check(ctx, r.t); err != nil {
			return err
		}
	}
	if r.c.Thread == LastThread && r.st.ThreadID == "" {
		return problem.New(problem.Usage, "no call to %s has started a thread that can be continued", r.t.Name)
	}
	key, err := r.c.newIdempotencyKey()
	r.st.CallKey, r.callKey = key, key
	*msg = r.withThread(*msg, key)
	return err
}

func (r *run) withThread(msg envelope.Message, key string) envelope.Message {
	// A new id contains the idempotency key, so that prepareMessage recognizes a stored call with the
	// same message.
	switch id := "c-" + key; r.c.Thread {
	case NewThread:
		msg.ContextID = &id
	case LastThread:
		msg.ContextID = &r.st.ThreadID
	}
	return msg
}

// isThreadStart reports whether e contains msg as the first message of a new thread. A caller that repeats
// msg may omit the thread, because it may not know from the target's card that the agent remembers.
func isThreadStart(e *envelope.Envelope, msg envelope.Message) bool {
	id := "c-" + e.IdempotencyKey
	if msg.ContextID != nil {
		return false
	}
	msg.ContextID = &id
	return isSameMessage(e.Payload, msg)
}

// checkResumed applies Check to a call that is resumed, unless the target has accepted the call. In that
// case, resending the same bytes returns the answer without further cost.
func (r *run) checkResumed(ctx context.Context) error {
	if r.c.Check == nil || r.st.callOutcome() != nil {
		return nil
	}
	checkErr := r.c.Check(ctx, r.t)
	if checkErr == nil {
		return nil
	}
	for _, e := range slices.Concat(r.st.Sent, r.st.Acceptable, r.st.Overtaken) {
		if e.IdempotencyKey != r.st.CallKey {
			continue
		}
		a, err := r.post(ctx, r.callURLs.ask, envelope.AppendRequest(nil, nil, &e))
		if err == nil && (a.state == stateAnswered || a.state == stateUnanswered || a.state == statePending) {
			return nil
		}
	}
	return checkErr
}

func (r *run) setCurrent(e envelope.Envelope) identity.Hash {
	r.res.Request, r.res.RequestHash = e, e.Hash()
	return r.res.RequestHash
}

// repeatSteps repeats until the call in hand is decided. Each iteration performs the first due step, in
// the order of PROTOCOL §16.
func (r *run) repeatSteps(ctx context.Context, msg envelope.Message) error {
	resumed := r.res.Resumed
	for range maxSteps {
		var err error
		switch e := r.st.callEnvelope(); {
		case r.st.callOutcome() != nil: // possibly learned by an earlier run that ended before it returned
			return r.deliverOutcome()
		case r.st.PendingReset != nil:
			err = r.finishReset(ctx)
		case r.nextOvertaken() != nil:
			err = r.settleOvertaken(ctx)
		case e != nil:
			err = r.send(ctx, *e, resumed)
			resumed = false
		case len(r.st.Sent)+len(r.st.Acceptable) >= MaxListed && r.c.AutoReset:
			err = r.signReset(ctx, time.Time{})
		case len(r.st.Sent)+len(r.st.Acceptable) >= MaxListed:
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
	if r.st.RequestTip.Seq >= envelope.MaxSeq {
		return r.newStuckError(RemedyReset, problem.Conflict, "the chain with %s is at its end; a reset starts it again", r.t.Name)
	}
	e := envelope.Envelope{
		From: r.self, To: r.t.ID, Seq: r.st.RequestTip.Seq + 1, Prev: r.st.RequestTip.Hash, Time: r.st.nextSignTime(r.c.now()),
		Payload: msg, IdempotencyKey: r.st.CallKey,
	}
	if _, err := e.Sign(ctx, r.c.Signer); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the call could not be signed")
	}
	if n, limit := len(envelope.AppendRequest(nil, nil, &e)), canon.DefaultLimits().Bytes; n > limit {
		return &problem.Error{Kind: problem.TooLarge, Field: "message", Want: fmt.Sprintf("at most %d bytes signed and encoded", limit), Got: fmt.Sprint(n)}
	}
	r.st.Sent = append(r.st.Sent[:len(r.st.Sent):len(r.st.Sent)], e)
	r.st.recordSignedTime(e.Time)
	if r.c.Thread != AnyThread && msg.ContextID != nil {
		r.st.ThreadID = *msg.ContextID
	}
	r.setCurrent(e)
	return r.save()
}

func (r *run) tooManyListedError() error {
	return r.newStuckError(RemedyAsk, problem.Conflict, "%d listed calls to %s have no known outcome: ask for their outcomes, or start a new chain by a reset", len(r.st.Sent)+len(r.st.Acceptable), r.t.Name)
}

// send posts e until it gets a conclusive reply, and acts on the reply.
func (r *run) send(ctx context.Context, e envelope.Envelope, mayHaveArrived bool) error {
	h := r.setCurrent(e)
	r.mayHaveReached, r.mayBeAccepted = r.mayHaveReached || mayHaveArrived, r.mayBeAccepted || mayHaveArrived
	body, callURL := envelope.AppendRequest(nil, nil, &e), r.withMaxPrice(r.callURLs.send)
	storeFailed := false // whether a try failed in the host's store
	for failedTries, pendingReplies := 0, 0; ; {
		a, err := r.post(ctx, callURL, body)
		// After a failure of the host's store, only an explicit statement of the host shows that it
		// did not accept the call.
		isFateUnstated := storeFailed && err == nil && !a.hasMembers()
		r.mayBeAccepted = r.mayBeAccepted || mayHaveAccepted(a, err) || isFateUnstated
		storeFailed = storeFailed || err == nil && a.hasStoreFailure()
		if isRetryPointless(err) {
			return err
		}
		if err == nil {
			if v, otherEnvelope, err := r.judge(e, h, a, mayHaveArrived); v != verdictResend {
				return r.actOnVerdict(ctx, h, a, v, otherEnvelope, err)
			}
		}
		mayHaveArrived = mayHaveArrived || !problem.Is(err, problem.Unavailable) // the request may have arrived
		if a.state == statePending {
			r.res.Due, ctx = a.due, r.unlimitedCtx
			remaining := r.remainingWait(a.due)
			if remaining <= 0 {
				return r.unresolvedError(nil)
			}
			err = r.awaitAnswer(ctx, &e, remaining, pendingReplies)
			pendingReplies++
		} else {
			// If the target cannot have accepted the call, the caller may prefer to call another
			// vacant soon.
			if failedTries++; failedTries >= r.c.tries() || r.c.MaxUnacceptedTries > 0 && !r.mayBeAccepted && failedTries >= r.c.MaxUnacceptedTries {
				return r.endPosting(ctx, e, h, errors.Join(err, replyError(a)))
			}
			err = r.pause(ctx, failedTries-1)
		}
		if err != nil {
			return r.unresolvedError(err)
		}
	}
}

func (r *run) withMaxPrice(callURL string) string {
	if r.c.MaxPrice == nil {
		return callURL
	}
	sep := "?"
	if strings.Contains(callURL, "?") {
		sep = "&"
	}
	return callURL + sep + "max_price=" + strconv.FormatInt(*r.c.MaxPrice, 10)
}

// mayHaveAccepted reports whether, after a or err, the target may have accepted the call. A request that
// was not sent or was refused was not accepted. If the host's store failed, mayHaveAccepted returns
// false, and endPosting asks for the fate of the call.
func mayHaveAccepted(a hostReply, err error) bool {
	switch {
	case err != nil:
		return !problem.Is(err, problem.Unavailable) && !problem.Is(err, problem.Usage)
	case a.state != "":
		return a.state != stateUnknown
	case a.isInconclusive():
		return !a.hasStoreFailure()
	}
	return a.status >= 200 && a.status < 300 || a.status >= 500 && a.status != http.StatusNotImplemented
}

// hasStoreFailure reports whether the host states that its store failed, either before it could accept
// the call or after the call ran (PROTOCOL §6, steps 4, 7 and 9). In both cases the host has
// finished the request.
func (a hostReply) hasStoreFailure() bool {
	return a.status == problem.Unavailable.Forms().HTTPStatus && a.code == problem.Unavailable.String()
}

// endPosting ends the attempts to post e without a conclusive reply. If another vacant can be called
// instead (MaxUnacceptedTries) and the host reported a failure of its store, endPosting asks the host
// once for the fate of e. Another vacant may get the message only if the host does not know e and has
// not left older epochs out of its search.
func (r *run) endPosting(ctx context.Context, e envelope.Envelope, h identity.Hash, cause error) error {
	if r.mayBeAccepted || !r.mayHaveReached || r.c.MaxUnacceptedTries == 0 {
		return r.unresolvedError(cause)
	}
	a, err := r.post(ctx, r.callURLs.ask, envelope.AppendRequest(nil, nil, &e))
	if err == nil && (a.state == stateAnswered || a.state == stateUnanswered) {
		if v, otherEnvelope, err := r.judge(e, h, a, true); v != verdictResend {
			return r.actOnVerdict(ctx, h, a, v, otherEnvelope, err)
		}
	}
	r.mayBeAccepted = err != nil || a.state != stateUnknown || a.tooOld
	return r.unresolvedError(cause)
}

func (r *run) actOnVerdict(ctx context.Context, h identity.Hash, a hostReply, v verdict, otherEnvelope *envelope.Envelope, err error) error {
	switch {
	case v == verdictOther:
		return r.settleOther(ctx, *otherEnvelope, h)
	case v == verdictMoved:
		return r.handleMovedChain(ctx, h, a)
	case v == verdictSignAgain && r.floorRetries > r.c.tries():
		err = problem.New(problem.ClockSkew, "%s keeps asking for a later time: check the clock of this machine", r.t.Name)
	}
	if serr := r.save(); serr != nil {
		return serr
	}
	return err
}

// deliverOutcome moves outcomes to the result and saves the state without them. After a crash before the
// save, the same call finds the outcome without sending anything. After a crash between the save
// and the use of the result, the same call is a new one.
func (r *run) deliverOutcome() error {
	l := *r.st.callOutcome()
	h := r.setCurrent(l.Request)
	r.res.Fate, r.res.Reply, r.res.ReplySeq, r.res.ReplyHash, r.res.CutReason = l.Fate, l.Reply, l.ReplySeq, l.ReplyHash, l.CutReason
	r.res.ReplyBound = l.Reply != nil && envelope.IsReplyKey(l.Reply.IdempotencyKey)
	r.st.CallKey = ""
	r.st.UnreturnedOutcomes = slices.DeleteFunc(slices.Clone(r.st.UnreturnedOutcomes), func(x CallOutcome) bool { return x.Request.Hash() == h })
	if err := r.deliverLate(); err != nil {
		return err
	}
	switch l.Fate {
	case TextGone:
		return problem.New(problem.BehaviourFailed, "%s answered call %d, and no longer stores the text of the answer (number %d, hash %s)",
			r.t.Name, l.Request.Seq, l.ReplySeq, l.ReplyHash)
	case Unanswered:
		reason := strings.TrimPrefix(l.Detail, problem.BehaviourFailed.Forms().DefaultMessage+": ")
		kind := problem.BehaviourFailed
		for _, k := range problem.Kinds() {
			if k.String() == l.Code && (k.IsFailure() || k == problem.DeadlineExceeded) {
				kind = k
			}
		}
		return problem.New(kind, "call %d to %s failed: %s", l.Request.Seq, r.t.Name, reason)
	case AnswerLost:
		return problem.New(problem.BehaviourFailed, "%s accepted call %d, but its answer is lost", r.t.Name, l.Request.Seq)
	}
	return nil
}

func (r *run) deliverLate() error {
	if r.st.callOutcome() != nil {
		r.st.CallKey = ""
	}
	r.res.LateOutcomes = append(r.res.LateOutcomes, r.st.UnreturnedOutcomes...)
	r.st.UnreturnedOutcomes = nil
	return r.save()
}

// settleOther handles a host whose tip is another listed envelope with the same sequence number. It
// asks for the fate of that envelope and never resends it.
func (r *run) settleOther(ctx context.Context, otherEnvelope envelope.Envelope, h identity.Hash) error {
	a, err := r.askFate(ctx, otherEnvelope, true)
	if err != nil {
		return err
	}
	switch {
	case a.state == stateAnswered || a.state == stateUnanswered:
		otherHash := r.setCurrent(otherEnvelope)
		if v, _, err := r.judge(otherEnvelope, otherHash, a, true); v != verdictSettled {
			return r.actOnVerdict(ctx, otherHash, a, v, nil, err)
		}
	case a.isRouteMissing():
		r.settleLost(otherEnvelope, h)
	default:
		// The tip has changed since then, or the host contradicts itself: try again.
		return r.pause(ctx, 0)
	}
	return r.save()
}

func (r *run) handleMovedChain(ctx context.Context, h identity.Hash, a hostReply) error {
	if r.c.AutoReset {
		return r.signReset(ctx, a.floor)
	}
	for _, q := range removeEnvelope(slices.Concat(r.st.Sent, r.st.Acceptable), h) {
		if err := r.settleListed(ctx, q); err != nil {
			return err
		}
	}
	if err := r.save(); err != nil || r.st.callOutcome() != nil {
		return err
	}
	kind := problem.Conflict
	for _, k := range []problem.Kind{problem.Replay, problem.Gap, problem.Fork, problem.BelowFloor} {
		if a.code == k.String() {
			kind = k
		}
	}
	return r.movedChainError(kind, a, ", then run the same command again")
}

func (r *run) movedChainError(kind problem.Kind, a hostReply, suffix string) error {
	if expectedSeq := a.expectedSeq; !a.restoredAt.IsZero() && expectedSeq > 0 && expectedSeq <= r.st.RequestTip.Seq+1 {
		return r.newStuckError(RemedyReset, kind, "%s was restored from a backup at %s: it has the chain up to call %d, and accepts only messages signed later than %s; a reset starts the chain again now%s",
			r.t.Name, formatTime(a.restoredAt), expectedSeq-1, formatTime(a.floor), suffix)
	}
	return r.newStuckError(RemedyReset, kind, "the chain with %s was moved by another holder of this key, or reset by the other side (%s): a reset starts it again%s", r.t.Name, a.safeDetail(), suffix)
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func (r *run) post(ctx context.Context, url string, body []byte) (hostReply, error) {
	r.res.RequestCount++
	start := r.c.now()
	status, responseBody, err := r.c.Transport.Post(ctx, url, body)
	r.res.RequestTime += r.c.now().Sub(start)
	r.mayHaveReached = r.mayHaveReached || !problem.Is(err, problem.Unavailable)
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
	if r.c.Wait != nil {
		return r.c.Wait(ctx, d)
	}
	return retry.Sleep(ctx, d)
}

func replyError(a hostReply) error {
	if a.status == 0 {
		return nil
	}
	return fmt.Errorf("%d %s", a.status, a.safeDetail())
}

func (r *run) unresolvedError(cause error) error {
	switch {
	case errors.Is(cause, context.Canceled):
		return problem.Wrap(problem.Canceled, cause, "stopped; the call to %s is stored; run the same command again to resume it", r.t.Name)
	case !r.mayHaveReached:
		return problem.Wrap(problem.Unavailable, cause, "%s cannot be reached, nothing was sent; the signed call is stored; run the same command again to send it", r.t.Name)
	case !r.mayBeAccepted && r.c.MaxUnacceptedTries > 0:
		return problem.Wrap(problem.Unavailable, cause, "%s does not accept calls now", r.t.Name)
	}
	return problem.Wrap(problem.Pending, cause, "%s has not answered yet; the call is stored; run the same command again to resume it", r.t.Name)
}
