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

// verdict is the meaning of a reply for the envelope that was sent, a row of the table in PROTOCOL
// §16.
type verdict int

const (
	verdictResend    verdict = iota // inconclusive or pending: send the same bytes again
	verdictSettled                  // the call is decided and settled
	verdictOther                    // another listed envelope was accepted: ask for it and settle it
	verdictSignAgain                // sign again, because of the host's clock, a floor, or an earlier call that was settled
	verdictMoved                    // another program moved the chain: reset
	verdictRefused                  // not accepted, with an error
)

// judge applies a reply to the envelope e with hash h, and changes the state. The caller must save
// the state. If e may have reached the host earlier, a reply that the position is taken may be
// about e itself. If another listed envelope was accepted, judge also returns that envelope.
func (r *run) judge(e envelope.Envelope, h identity.Hash, a hostReply, mayHaveArrived bool) (v verdict, otherEnvelope *envelope.Envelope, err error) {
	r.res.Status, r.res.PaymentOptions = a.status, a.paymentOptions
	switch {
	case a.status == 200 && a.state == "", a.status == 0 && a.hasResult:
		answer, err := envelope.DecodeResponse(a.body)
		if err != nil {
			return verdictRefused, nil, &problem.Error{Kind: problem.Untrusted, Detail: problem.AsError(err).Text()}
		}
		return r.acceptAnswer(e, h, &answer, a.cutReason, r.st.findNext(h) != nil)
	case a.state == stateAnswered:
		return r.applyStoredAnswer(e, h, a)
	case a.state == stateUnanswered:
		return r.applyUnanswered(e, h, a)
	case a.state == statePending, a.isInconclusive():
		return verdictResend, nil, nil
	case a.isBelowFloor() && a.floor.After(r.c.now().Add(r.st.ClockOffset+maxSkew)):
		return verdictRefused, nil, problem.New(problem.ClockSkew, "%s has an envelope signed at %s on record, more than an hour ahead of this machine's clock", r.t.Name, canon.FormatTime(a.floor))
	case a.isConflict():
		v, otherEnvelope = r.applyConflict(e, h, a, mayHaveArrived)
		return v, otherEnvelope, nil
	case !a.hostTime.IsZero():
		// The envelope was signed too far ahead of the host's clock.
		r.st.moveToAcceptable(h)
		if err := r.correctClock(a.hostTime); err != nil {
			return verdictRefused, nil, err
		}
		return verdictSignAgain, nil, nil
	}
	// The envelope was not accepted, but stays listed, because a copy may still arrive. If another
	// vacant could be called instead (MaxUnacceptedTries) and this one may have accepted the call before,
	// the call also stays in hand, because signing it again would make another call.
	if e.IdempotencyKey == r.st.CallKey && !(r.c.MaxUnacceptedTries > 0 && r.isInDoubt()) {
		r.st.CallKey = ""
	}
	return verdictRefused, nil, problem.New(kindOf(a), "%s refused the call%s: %s", r.t.Name, r.httpStatus(a), a.safeDetail())
}

func (r *run) httpStatus(a hostReply) string {
	if a.status == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d)", a.status)
}

func (r *run) applyStoredAnswer(e envelope.Envelope, h identity.Hash, a hostReply) (verdict, *envelope.Envelope, error) {
	isNext := a.hasTip(e.Seq, h) && r.st.findNext(h) != nil
	if a.storedAnswer != nil {
		answer, err := envelope.DecodeMessage(a.storedAnswer)
		if err != nil {
			return verdictRefused, nil, &problem.Error{Kind: problem.Untrusted, Detail: "stored answer: " + problem.AsError(err).Text()}
		}
		return r.acceptAnswer(e, h, &answer, a.cutReason, isNext)
	}
	if a.replySeq < 1 || a.replySeq > envelope.MaxSeq || a.replyHash.IsZero() {
		return verdictRefused, nil, problem.New(problem.Untrusted, "the host reports that the call is answered, but returned no answer")
	}
	if isNext {
		if want := r.st.ResponseTip.Seq + 1; a.replySeq != want && r.st.LostAnswers == 0 {
			return verdictRefused, nil, problem.New(problem.Untrusted, "the host reports answer number %d to the call, expected number %d", a.replySeq, want)
		}
		r.st.advance(Point{e.Seq, h}, &Point{a.replySeq, a.replyHash})
		r.st.BindsAnswers = true // only hosts that bind answers store them
	} else {
		r.settleWithoutAdvance(h)
	}
	r.addOutcome(CallOutcome{Request: e, Fate: TextGone, ReplySeq: a.replySeq, ReplyHash: a.replyHash, CutReason: a.cutReason})
	return verdictSettled, nil, nil
}

// acceptAnswer verifies and records an answer. If e is not the next call of the stored chain,
// another program has moved the chain, and the stored chain stays unchanged.
func (r *run) acceptAnswer(e envelope.Envelope, h identity.Hash, answer *envelope.Envelope, cutReason string, isNext bool) (verdict, *envelope.Envelope, error) {
	p, err := r.st.verifyAnswer(answer, h)
	if err == nil && !p.isBound && !isNext {
		err = problem.New(problem.Untrusted, "the answer is not bound to a request and does not continue the chain")
	}
	if err == nil && isNext {
		if err = r.st.checkNext(answer, &p); err != nil {
			err = r.newStuckError(RemedyReset, problem.Untrusted, "%s (of the answers; a reset starts both chains again)", problem.AsError(err).Text())
		}
	}
	if err != nil {
		return verdictRefused, nil, err
	}
	if isNext {
		if !p.isBound && r.st.LostAnswers > 0 {
			r.addUndetermined(fmt.Sprintf("%s does not bind answers to requests, and the answers to %d earlier calls are lost: this may be one of them", r.t.Name, r.st.LostAnswers))
		}
		r.st.recordAnswer(Point{e.Seq, h}, p)
	} else {
		r.settleWithoutAdvance(h)
	}
	r.addOutcome(CallOutcome{Request: e, Fate: Answered, Reply: answer, ReplySeq: answer.Seq, ReplyHash: p.point.Hash, CutReason: cutReason})
	return verdictSettled, nil, nil
}

func (r *run) applyUnanswered(e envelope.Envelope, h identity.Hash, a hostReply) (verdict, *envelope.Envelope, error) {
	if a.hasTip(e.Seq, h) && r.st.findNext(h) != nil {
		r.st.advance(Point{e.Seq, h}, nil) // the response chain does not move
	} else {
		r.settleWithoutAdvance(h)
	}
	detail := a.safeDetail()
	if a.detail == "" || a.isConflict() || a.status != 0 && a.status < 500 {
		// The reply to an ask has no reason, and a resend's reason is about the resend.
		detail, a.code = "its agent failed, or took too long", ""
	}
	r.addOutcome(CallOutcome{Request: e, Fate: Unanswered, Detail: detail, Code: a.code})
	return verdictSettled, nil, nil
}

// settleWithoutAdvance settles the envelope with hash h without advancing the stored chain: the host accepted
// the envelope, but another program has moved the chain, or the envelope belongs to an earlier epoch.
func (r *run) settleWithoutAdvance(h identity.Hash) {
	if r.st.findNext(h) != nil {
		r.st.moveAllToOvertaken(h)
		r.addUndetermined(fmt.Sprintf("another holder of this key, or a reset, has moved the chain with %s: the next call will report the conflict", r.t.Name))
	} else {
		r.st.dropOvertaken(h)
	}
}

func (r *run) addOutcome(l CallOutcome) {
	r.st.UnreturnedOutcomes = append(r.st.UnreturnedOutcomes[:len(r.st.UnreturnedOutcomes):len(r.st.UnreturnedOutcomes)], l)
	if l.Fate == Answered || l.Fate == TextGone {
		points := append(slices.Clone(r.st.Answered), Point{l.Request.Seq, l.Request.Hash()})
		r.st.Answered = points[max(len(points)-maxAnswered, 0):]
	}
}

func (r *run) applyConflict(e envelope.Envelope, h identity.Hash, a hostReply, mayHaveArrived bool) (verdict, *envelope.Envelope) {
	if a.tip != nil {
		if otherEnvelope := r.st.findNext(*a.tip); otherEnvelope != nil {
			return verdictOther, otherEnvelope
		}
	}
	// After a reset, the first call must be signed later than all earlier envelopes. A restored vacant
	// requires the same of every call that fits its chain. If the host may have received e earlier, it
	// may have run e before the restore removed e and all other calls since the backup. If e were signed
	// again, its call could run twice, so a person must decide.
	isFirst := e.Seq == 1 && r.st.RequestTip.Seq == 0 && a.expectedSeq <= 1
	isAfterRestore := !mayHaveArrived && a.expectedSeq == e.Seq && a.tip != nil && *a.tip == e.Prev
	if a.isBelowFloor() && (isFirst || isAfterRestore) {
		r.st.moveAllToOvertaken(identity.Hash{})
		r.st.recordSignedTime(a.floor)
		r.floorRetries++
		return verdictSignAgain, nil
	}
	if a.isSeqTaken(e.Seq) {
		if otherEnvelope := r.findTaken(e, h, mayHaveArrived); otherEnvelope != nil {
			return r.settleLost(*otherEnvelope, h)
		}
	}
	return verdictMoved, nil
}

// findTaken returns the envelope that a reference host has accepted when it reports that the sequence
// number of e is taken, or nil if it is not clear which envelope that is.
func (r *run) findTaken(e envelope.Envelope, h identity.Hash, mayHaveArrived bool) *envelope.Envelope {
	if r.st.BindsAnswers {
		return nil // a host that binds answers reports its tip
	}
	var candidates []*envelope.Envelope
	for _, list := range [][]envelope.Envelope{r.st.Sent, r.st.Acceptable} {
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

// settleLost settles an envelope that was accepted by a host that cannot return its answer
// (PROTOCOL §23 A5). h is the hash of the envelope in hand.
func (r *run) settleLost(lost envelope.Envelope, h identity.Hash) (verdict, *envelope.Envelope) {
	lostHash := lost.Hash()
	r.st.advance(Point{lost.Seq, lostHash}, nil)
	r.st.LostAnswers++
	r.addOutcome(CallOutcome{Request: lost, Fate: AnswerLost})
	r.addUndetermined(fmt.Sprintf("%s accepted call %d but does not store answers: the outcome is unknown", r.t.Name, lost.Seq))
	if lostHash == h {
		return verdictSettled, nil
	}
	return verdictSignAgain, nil
}

func (r *run) correctClock(hostTime time.Time) error {
	now := r.c.now()
	skew := hostTime.Sub(now)
	if r.clockCorrected || skew.Abs() > maxSkew {
		return problem.New(problem.ClockSkew, "the clocks of this machine and of %s differ by %s: set this machine's clock, then run the same command again",
			r.t.Name, skew.Abs().Round(time.Second))
	}
	r.clockCorrected = true
	r.st.setClockOffset(hostTime, now)
	return nil
}
