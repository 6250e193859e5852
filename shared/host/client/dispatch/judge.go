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
	verdictAgain verdict = iota // inconclusive or pending: send the same bytes again
	done                        // the call is decided and settled
	other                       // another listed envelope was accepted: ask for it and settle it
	signAgain                   // sign again, because of the host's clock, a floor, or an earlier call that was settled
	moved                       // another program moved the chain: reset
	refused                     // not accepted, with an error
)

// judge applies a reply to the envelope e with hash h, and changes the state. The caller must save
// the state. If e may have reached the host earlier, a reply that the position is taken may be
// about e itself. If another listed envelope was accepted, judge also returns that envelope.
func (r *run) judge(e envelope.Envelope, h identity.Hash, a reply, before bool) (v verdict, x *envelope.Envelope, err error) {
	r.res.Status, r.res.Pay = a.status, a.pay
	switch {
	case a.status == 200 && a.state == "", a.status == 0 && a.result:
		reply, err := envelope.DecodeResponse(a.body)
		if err != nil {
			return refused, nil, &problem.Error{Kind: problem.Untrusted, Detail: problem.AsError(err).Text()}
		}
		return r.recordAnswer(e, h, &reply, a.cut, r.st.findNext(h) != nil)
	case a.state == stateAnswered:
		return r.applyStored(e, h, a)
	case a.state == stateUnanswered:
		return r.applyUnanswered(e, h, a)
	case a.state == statePending, a.isInconclusive():
		return verdictAgain, nil, nil
	case a.isBelowFloor() && a.floor.After(r.c.now().Add(r.st.ClockOffset+maxSkew)):
		return refused, nil, problem.New(problem.Clock, "%s has an envelope signed at %s on record, more than an hour ahead of this machine's clock", r.t.Name, canon.FormatTime(a.floor))
	case a.isConflict():
		v, x = r.applyConflict(e, h, a, before)
		return v, x, nil
	case !a.now.IsZero():
		// The envelope was signed too far ahead of the host's clock.
		r.st.moveToLive(h)
		if err := r.setClock(a.now); err != nil {
			return refused, nil, err
		}
		return signAgain, nil, nil
	}
	// The envelope was not accepted, but stays listed, because a copy may still arrive. If another
	// vacant could be called instead (MaxUnacceptedTries) and this one may have accepted the call before,
	// the call also stays in hand, because signing it again would make another call.
	if e.IdempotencyKey == r.st.CallKey && !(r.c.MaxUnacceptedTries > 0 && r.inDoubt()) {
		r.st.CallKey = ""
	}
	return refused, nil, problem.New(kindOf(a), "%s refused the call%s: %s", r.t.Name, r.httpStatus(a), a.safeDetail())
}

func (r *run) httpStatus(a reply) string {
	if a.status == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d)", a.status)
}

func (r *run) applyStored(e envelope.Envelope, h identity.Hash, a reply) (verdict, *envelope.Envelope, error) {
	current := a.isCurrent(e.Seq, h) && r.st.findNext(h) != nil
	if a.reply != nil {
		reply, err := envelope.DecodeMessage(a.reply)
		if err != nil {
			return refused, nil, &problem.Error{Kind: problem.Untrusted, Detail: "stored answer: " + problem.AsError(err).Text()}
		}
		return r.recordAnswer(e, h, &reply, a.cut, current)
	}
	if a.replySeq < 1 || a.replySeq > envelope.MaxSeq || a.replyHash.IsZero() {
		return refused, nil, problem.New(problem.Untrusted, "the host reports that the call is answered, but returned no answer")
	}
	if current {
		if want := r.st.Response.Seq + 1; a.replySeq != want && r.st.LostAnswers == 0 {
			return refused, nil, problem.New(problem.Untrusted, "the host reports answer number %d to the call, expected number %d", a.replySeq, want)
		}
		r.st.settle(Point{e.Seq, h}, &Point{a.replySeq, a.replyHash})
		r.st.BindsAnswers = true // only hosts that bind answers store them
	} else {
		r.settleOutside(h)
	}
	r.addOutcome(LateOutcome{Request: e, Fate: TextGone, ReplySeq: a.replySeq, ReplyHash: a.replyHash, Cut: a.cut})
	return done, nil, nil
}

// recordAnswer verifies and records an answer. If e is not the next call of the stored chain,
// another program has moved the chain, and the stored chain stays unchanged.
func (r *run) recordAnswer(e envelope.Envelope, h identity.Hash, reply *envelope.Envelope, cut string, current bool) (verdict, *envelope.Envelope, error) {
	p, err := r.st.verify(reply, h)
	if err == nil && !p.bound && !current {
		err = problem.New(problem.Untrusted, "the answer is not bound to a request and does not continue the chain")
	}
	if err == nil && current {
		if err = r.st.checkNext(reply, &p); err != nil {
			err = r.newStuck(RemedyReset, problem.Untrusted, "%s (of the answers; a reset starts both chains again)", problem.AsError(err).Text())
		}
	}
	if err != nil {
		return refused, nil, err
	}
	if current {
		if !p.bound && r.st.LostAnswers > 0 {
			r.addUnknown(fmt.Sprintf("%s does not bind answers to requests, and the answers to %d earlier calls are lost: this may be one of them", r.t.Name, r.st.LostAnswers))
		}
		r.st.recordAnswer(Point{e.Seq, h}, p)
	} else {
		r.settleOutside(h)
	}
	r.addOutcome(LateOutcome{Request: e, Fate: Answered, Reply: reply, ReplySeq: reply.Seq, ReplyHash: p.at.Hash, Cut: cut})
	return done, nil, nil
}

func (r *run) applyUnanswered(e envelope.Envelope, h identity.Hash, a reply) (verdict, *envelope.Envelope, error) {
	if a.isCurrent(e.Seq, h) && r.st.findNext(h) != nil {
		r.st.settle(Point{e.Seq, h}, nil) // the response chain does not move
	} else {
		r.settleOutside(h)
	}
	detail := a.safeDetail()
	if a.detail == "" || a.isConflict() || a.status != 0 && a.status < 500 {
		// The reply to an ask has no reason, and a resend's reason is about the resend.
		detail, a.code = "its agent failed, or took too long", ""
	}
	r.addOutcome(LateOutcome{Request: e, Fate: Unanswered, Detail: detail, Code: a.code})
	return done, nil, nil
}

// settleOutside settles the envelope with hash h without advancing the stored chain: the host accepted
// the envelope, but another program has moved the chain, or the envelope belongs to an earlier epoch.
func (r *run) settleOutside(h identity.Hash) {
	if r.st.findNext(h) != nil {
		r.st.retire(h)
		r.addUnknown(fmt.Sprintf("another holder of this key, or a reset, has moved the chain with %s: the next call will report the conflict", r.t.Name))
	} else {
		r.st.drop(h)
	}
}

func (r *run) addOutcome(l LateOutcome) {
	r.st.Late = append(r.st.Late[:len(r.st.Late):len(r.st.Late)], l)
	if l.Fate == Answered || l.Fate == TextGone {
		points := append(slices.Clone(r.st.Answered), Point{l.Request.Seq, l.Request.Hash()})
		r.st.Answered = points[max(len(points)-maxAnswered, 0):]
	}
}

func (r *run) applyConflict(e envelope.Envelope, h identity.Hash, a reply, before bool) (verdict, *envelope.Envelope) {
	if a.tip != nil {
		if x := r.st.findNext(*a.tip); x != nil {
			return other, x
		}
	}
	// After a reset, the first call must be signed later than all earlier envelopes. A restored vacant
	// requires the same of every call that fits its chain. If the host may have received e earlier, it
	// may have run e before the restore removed e and all other calls since the backup. If e were signed
	// again, its call could run twice, so a person must decide.
	first := e.Seq == 1 && r.st.Request.Seq == 0 && a.expected <= 1
	restored := !before && a.expected == e.Seq && a.tip != nil && *a.tip == e.Prev
	if a.isBelowFloor() && (first || restored) {
		r.st.retire(identity.Hash{})
		r.st.noteSigned(a.floor)
		r.floorRetries++
		return signAgain, nil
	}
	if a.wasTaken(e.Seq) {
		if x := r.findTaken(e, h, before); x != nil {
			return r.settleLost(*x, h)
		}
	}
	return moved, nil
}

// findTaken returns the envelope that a reference host has accepted when it reports that the sequence
// number of e is taken, or nil if it is not clear which envelope that is.
func (r *run) findTaken(e envelope.Envelope, h identity.Hash, before bool) *envelope.Envelope {
	if r.st.BindsAnswers {
		return nil // a host that binds answers reports its tip
	}
	var found []*envelope.Envelope
	for _, list := range [][]envelope.Envelope{r.st.Sent, r.st.Acceptable} {
		for i := range list {
			if list[i].Seq == e.Seq && (before || list[i].Hash() != h) {
				found = append(found, &list[i])
			}
		}
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// settleLost settles an envelope that was accepted by a host that cannot return its answer
// (PROTOCOL §23 A5). h is the hash of the envelope in hand.
func (r *run) settleLost(x envelope.Envelope, h identity.Hash) (verdict, *envelope.Envelope) {
	xh := x.Hash()
	r.st.settle(Point{x.Seq, xh}, nil)
	r.st.LostAnswers++
	r.addOutcome(LateOutcome{Request: x, Fate: AnswerLost})
	r.addUnknown(fmt.Sprintf("%s accepted call %d but does not store answers: the outcome is unknown", r.t.Name, x.Seq))
	if xh == h {
		return done, nil
	}
	return signAgain, nil
}

func (r *run) setClock(host time.Time) error {
	now := r.c.now()
	skew := host.Sub(now)
	if r.corrected || skew.Abs() > maxSkew {
		return problem.New(problem.Clock, "the clocks of this machine and of %s differ by %s: set this machine's clock, then run the same command again",
			r.t.Name, skew.Abs().Round(time.Second))
	}
	r.corrected = true
	r.st.setClockOffset(host, now)
	return nil
}
