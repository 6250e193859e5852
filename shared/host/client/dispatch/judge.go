package dispatch

import (
	"fmt"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// verdict is the meaning of a reply for the envelope that was sent (PROTOCOL §16).
type verdict int

const (
	verdictResend verdict = iota // send the same bytes again
	verdictSettled
	verdictOtherAccepted // another listed envelope was accepted
	verdictSignAgain     // sign a new envelope
	verdictChainMoved    // another program moved the chain
	verdictRefused
)

// judge applies a reply to the envelope e and changes the state, which the caller must save.
// mayHaveArrived means that the host may have received e earlier.
func (r *run) judge(e envelope.Envelope, h identity.Hash, reply hostReply, mayHaveArrived bool) (v verdict, otherEnvelope *envelope.Envelope, err error) {
	r.result.Status, r.result.PaymentOptions = reply.status, reply.paymentOptions
	switch {
	case reply.status == 200 && reply.state == "", reply.status == 0 && reply.hasResult:
		answer, err := envelope.DecodeResponse(reply.body)
		if err != nil {
			return verdictRefused, nil, &problem.Error{Kind: problem.Untrusted, Detail: problem.AsError(err).Text()}
		}
		return r.acceptAnswer(e, h, &answer, reply.cutReason, r.state.findNext(h) != nil)
	case reply.state == stateAnswered:
		return r.applyStoredAnswer(e, h, reply)
	case reply.state == stateUnanswered:
		return r.applyUnanswered(e, h, reply)
	case reply.state == statePending, reply.isInconclusive():
		return verdictResend, nil, nil
	case reply.isBelowFloor() && reply.floor.After(r.caller.currentTime().Add(r.state.ClockOffset+maxSkew)):
		return verdictRefused, nil, problem.New(problem.ClockSkew, "%s has an envelope signed at %s on record, more than an hour ahead of this machine's clock", r.target.Name, canon.FormatTime(reply.floor))
	case reply.isConflict():
		v, otherEnvelope = r.applyConflict(e, h, reply, mayHaveArrived)
		return v, otherEnvelope, nil
	case !reply.hostTime.IsZero():
		// The envelope was signed too far ahead of the host's clock.
		r.state.moveToAcceptable(h)
		if err := r.correctClock(reply.hostTime); err != nil {
			return verdictRefused, nil, err
		}
		return verdictSignAgain, nil, nil
	}
	// The envelope stays listed, because a copy may still arrive. If the caller may try another
	// vacant, a call in doubt stays in hand, because signing it again would make a second call.
	if e.IdempotencyKey == r.state.CallKey && !(r.caller.MaxUnacceptedTries > 0 && r.isInDoubt()) {
		r.state.CallKey = ""
	}
	return verdictRefused, nil, problem.New(kindOf(reply), "%s refused the call%s: %s", r.target.Name, r.httpStatus(reply), reply.safeDetail())
}

func (r *run) httpStatus(reply hostReply) string {
	if reply.status == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d)", reply.status)
}

func (r *run) applyStoredAnswer(e envelope.Envelope, h identity.Hash, reply hostReply) (verdict, *envelope.Envelope, error) {
	isNext := reply.hasTip(e.Seq, h) && r.state.findNext(h) != nil
	if reply.storedAnswer != nil {
		answer, err := envelope.DecodeMessage(reply.storedAnswer)
		if err != nil {
			return verdictRefused, nil, &problem.Error{Kind: problem.Untrusted, Detail: "stored answer: " + problem.AsError(err).Text()}
		}
		return r.acceptAnswer(e, h, &answer, reply.cutReason, isNext)
	}
	if reply.replySeq < 1 || reply.replySeq > envelope.MaxSeq || reply.replyHash.IsZero() {
		return verdictRefused, nil, problem.New(problem.Untrusted, "the host reports that the call is answered, but returned no answer")
	}
	if isNext {
		if want := r.state.ResponseTip.Seq + 1; reply.replySeq != want && r.state.LostAnswers == 0 {
			return verdictRefused, nil, problem.New(problem.Untrusted, "the host reports answer number %d to the call, expected number %d", reply.replySeq, want)
		}
		r.state.advance(Point{e.Seq, h}, &Point{reply.replySeq, reply.replyHash})
		r.state.BindsAnswers = true // only hosts that bind answers store them
	} else {
		r.settleWithoutAdvance(h)
	}
	r.addOutcome(CallOutcome{Request: e, Fate: TextGone, ReplySeq: reply.replySeq, ReplyHash: reply.replyHash, CutReason: reply.cutReason})
	return verdictSettled, nil, nil
}

func (r *run) acceptAnswer(e envelope.Envelope, h identity.Hash, answer *envelope.Envelope, cutReason string, isNext bool) (verdict, *envelope.Envelope, error) {
	p, err := r.state.verifyAnswer(answer, h)
	if err == nil && !p.isBound && !isNext {
		err = problem.New(problem.Untrusted, "the answer is not bound to a request and does not continue the chain")
	}
	if err == nil && isNext {
		if err = r.state.checkNext(answer, &p); err != nil {
			err = r.newStuckError(RemedyReset, problem.Untrusted, "%s (in the chain of answers; a reset starts both chains again)", problem.AsError(err).Text())
		}
	}
	if err != nil {
		return verdictRefused, nil, err
	}
	if isNext {
		if !p.isBound && r.state.LostAnswers > 0 {
			r.addUndetermined(fmt.Sprintf("%s does not bind answers to requests, and the answers to %d earlier calls are lost: this may be one of them", r.target.Name, r.state.LostAnswers))
		}
		r.state.recordAnswer(Point{e.Seq, h}, p)
	} else {
		r.settleWithoutAdvance(h)
	}
	r.addOutcome(CallOutcome{Request: e, Fate: Answered, Reply: answer, ReplySeq: answer.Seq, ReplyHash: p.point.Hash, CutReason: cutReason})
	return verdictSettled, nil, nil
}

func (r *run) applyUnanswered(e envelope.Envelope, h identity.Hash, reply hostReply) (verdict, *envelope.Envelope, error) {
	if reply.hasTip(e.Seq, h) && r.state.findNext(h) != nil {
		r.state.advance(Point{e.Seq, h}, nil)
	} else {
		r.settleWithoutAdvance(h)
	}
	detail := reply.safeDetail()
	if reply.detail == "" || reply.isConflict() || reply.status != 0 && reply.status < 500 {
		// The reply to an ask has no reason, and a resend's reason is about the resend.
		detail, reply.code = "its agent failed, or took too long", ""
	}
	r.addOutcome(CallOutcome{Request: e, Fate: Unanswered, Detail: detail, Code: reply.code})
	return verdictSettled, nil, nil
}

// settleWithoutAdvance settles an accepted envelope that does not continue the stored chain.
func (r *run) settleWithoutAdvance(h identity.Hash) {
	if r.state.findNext(h) != nil {
		r.state.moveAllToOvertaken(h)
		r.addUndetermined(fmt.Sprintf("another holder of this key, or a reset, has moved the chain with %s: the next call will report the conflict", r.target.Name))
	} else {
		r.state.dropOvertaken(h)
	}
}

func (r *run) addOutcome(outcome CallOutcome) {
	r.state.UnreturnedOutcomes = append(r.state.UnreturnedOutcomes[:len(r.state.UnreturnedOutcomes):len(r.state.UnreturnedOutcomes)], outcome)
	if outcome.Fate == Answered || outcome.Fate == TextGone {
		points := append(slices.Clone(r.state.Answered), Point{outcome.Request.Seq, outcome.Request.Hash()})
		r.state.Answered = points[max(len(points)-maxAnswered, 0):]
	}
}

func (r *run) applyConflict(e envelope.Envelope, h identity.Hash, reply hostReply, mayHaveArrived bool) (verdict, *envelope.Envelope) {
	if reply.tip != nil {
		if otherEnvelope := r.state.findNext(*reply.tip); otherEnvelope != nil {
			return verdictOtherAccepted, otherEnvelope
		}
	}
	// A first call, or a call to a restored vacant, is signed again with a time after the floor. If
	// the host may have received e before its restore, it may have run e, and signing e again could
	// run the call twice. In that case a person must decide.
	isFirst := e.Seq == 1 && r.state.RequestTip.Seq == 0 && reply.expectedSeq <= 1
	isAfterRestore := !mayHaveArrived && reply.expectedSeq == e.Seq && reply.tip != nil && *reply.tip == e.Prev
	if reply.isBelowFloor() && (isFirst || isAfterRestore) {
		r.state.moveAllToOvertaken(identity.Hash{})
		r.state.recordSignedTime(reply.floor)
		r.floorRetries++
		return verdictSignAgain, nil
	}
	if reply.isSeqTaken(e.Seq) {
		if otherEnvelope := r.findTaken(e, h, mayHaveArrived); otherEnvelope != nil {
			return r.settleLost(*otherEnvelope, h)
		}
	}
	return verdictChainMoved, nil
}

// findTaken returns the listed envelope that a reference host has accepted, or nil if it is
// unclear.
func (r *run) findTaken(e envelope.Envelope, h identity.Hash, mayHaveArrived bool) *envelope.Envelope {
	if r.state.BindsAnswers {
		return nil
	}
	var candidates []*envelope.Envelope
	for _, list := range [][]envelope.Envelope{r.state.Sent, r.state.Acceptable} {
		for i := range list {
			if list[i].Seq == e.Seq && (mayHaveArrived || list[i].Hash() != h) {
				candidates = append(candidates, &list[i])
			}
		}
	}
	if len(candidates) != 1 {
		return nil
	}
	return candidates[0]
}

// settleLost settles an accepted envelope whose host cannot return the answer (PROTOCOL §23 A5).
func (r *run) settleLost(lost envelope.Envelope, h identity.Hash) (verdict, *envelope.Envelope) {
	lostHash := lost.Hash()
	r.state.advance(Point{lost.Seq, lostHash}, nil)
	r.state.LostAnswers++
	r.addOutcome(CallOutcome{Request: lost, Fate: AnswerLost})
	r.addUndetermined(fmt.Sprintf("%s accepted call %d but does not store answers: the outcome is unknown", r.target.Name, lost.Seq))
	if lostHash == h {
		return verdictSettled, nil
	}
	return verdictSignAgain, nil
}

func (r *run) correctClock(hostTime time.Time) error {
	now := r.caller.currentTime()
	skew := hostTime.Sub(now)
	if r.clockCorrected || skew.Abs() > maxSkew {
		return problem.New(problem.ClockSkew, "the clocks of this machine and of %s differ by %s: set this machine's clock, then run the same command again",
			r.target.Name, skew.Abs().Round(time.Second))
	}
	r.clockCorrected = true
	r.state.setClockOffset(hostTime, now)
	return nil
}
