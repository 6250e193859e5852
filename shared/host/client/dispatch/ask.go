package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Ask asks t for the fate of every listed envelope and returns the outcomes in LateOutcomes. The
// error has kind Pending if an accepted call is not answered yet.
func (c *Caller) Ask(ctx context.Context, t Target) (Result, error) {
	return c.runLocked(ctx, t, func(ctx context.Context, r *run) error {
		for _, e := range slices.Concat(r.state.Sent, r.state.Acceptable, r.state.Overtaken) {
			if err := r.settleListed(ctx, e); err != nil {
				return err
			}
			if r.askError != nil {
				break
			}
		}
		if err := r.deliverLate(); err != nil {
			return err
		}
		switch {
		case r.askError != nil:
			return problem.Wrap(problem.Unavailable, r.askError, "%s could not be asked about all calls", r.target.Name)
		case r.hasPendingCall:
			return problem.New(problem.Pending, "%s has not answered yet: ask again later", r.target.Name)
		}
		return nil
	})
}

func (r *run) nextOvertaken() *envelope.Envelope {
	for i := range r.state.Overtaken {
		e := &r.state.Overtaken[i]
		if r.askedHashes[e.Hash()] || r.askError != nil && !r.isOfCurrentCall(e) {
			continue
		}
		return e
	}
	return nil
}

func (r *run) settleOvertaken(ctx context.Context) error {
	for e := r.nextOvertaken(); e != nil && (!r.isCall || r.state.callOutcome() == nil); e = r.nextOvertaken() {
		if err := r.settleListed(ctx, *e); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) isOfCurrentCall(e *envelope.Envelope) bool {
	return r.isCall && r.state.CallKey != "" && e.IdempotencyKey == r.state.CallKey
}

// settleListed asks for the fate of one listed envelope and settles it. If the host refuses to
// report on the call in hand, settleListed returns an error, because signing a new envelope could
// run the call twice.
func (r *run) settleListed(ctx context.Context, e envelope.Envelope) error {
	h, isCurrent := e.Hash(), r.isOfCurrentCall(&e)
	r.askedHashes[h] = true
	if isCurrent {
		r.setResultRequest(e)
	}
	reply, err := r.askFate(ctx, e, isCurrent)
	if err != nil {
		return err
	}
	switch {
	case reply.state == stateAnswered || reply.state == stateUnanswered:
		v, _, err := r.judge(e, h, reply, true)
		if v != verdictSettled && isCurrent {
			return err
		}
		if v != verdictSettled {
			r.addUndetermined(fmt.Sprintf("the answer of %s to call %d did not verify: %s", r.target.Name, e.Seq, problem.AsError(err).Text()))
			return nil
		}
	case reply.state == stateUnknown:
		r.dropUnknown(&e, h, reply)
	case reply.isRouteMissing() && !r.state.BindsAnswers:
		r.state.dropOvertaken(h)
		r.addUndetermined(fmt.Sprintf("%s does not report outcomes of calls: it is unknown whether call %d was accepted", r.target.Name, e.Seq))
	case isCurrent:
		return problem.New(kindOf(reply), "%s does not report the outcome of the call%s: %s", r.target.Name, r.httpStatus(reply), reply.safeDetail())
	case reply.state == statePending:
		r.hasPendingCall = true
		r.addUndetermined(fmt.Sprintf("call %d is accepted and not answered yet", e.Seq))
		return nil
	default:
		r.addUndetermined(fmt.Sprintf("the outcome of call %d could not be requested now", e.Seq))
		return nil
	}
	return r.save()
}

// dropUnknown drops an overtaken envelope that the host does not know. A first call that was signed
// later than the floor can still be accepted after a reset, and moves to Acceptable.
func (r *run) dropUnknown(unknown *envelope.Envelope, h identity.Hash, reply hostReply) {
	if !slices.ContainsFunc(r.state.Overtaken, func(e envelope.Envelope) bool { return e.Hash() == h }) {
		r.addUndetermined(fmt.Sprintf("call %d has not been accepted, but a copy that is still in transit may be accepted", unknown.Seq))
		return
	}
	if reply.tooOld {
		r.addUndetermined(fmt.Sprintf("call %d is older than the calls that %s reports on: it is unknown whether the call was accepted", unknown.Seq, r.target.Name))
	}
	r.state.dropOvertaken(h)
	if unknown.Seq == 1 && unknown.Time.After(reply.floor) {
		r.state.Acceptable = append(r.state.Acceptable[:len(r.state.Acceptable):len(r.state.Acceptable)], *unknown)
	}
}

func (r *run) askFate(ctx context.Context, e envelope.Envelope, canRetry bool) (hostReply, error) {
	body := envelope.AppendRequest(nil, nil, &e)
	for failedTries, pendingReplies := 0, 0; ; {
		reply, err := r.post(ctx, r.callURLs.ask, body)
		switch {
		case isRetryPointless(err):
			return reply, err
		case err == nil && reply.state != statePending && !reply.isInconclusive():
			return reply, nil
		case !canRetry:
			if reply.state != statePending {
				r.askError = errors.Join(err, replyError(reply))
			}
			return reply, ctx.Err()
		case reply.state == statePending:
			if r.waitedTime >= r.caller.waitLimit() {
				return reply, r.unresolvedError(nil)
			}
			err = r.pause(ctx, pendingReplies)
			pendingReplies++
		default:
			r.mayHaveReachedTarget = true // the envelope was sent earlier
			if failedTries++; failedTries >= r.caller.tryLimit() {
				return reply, r.unresolvedError(err)
			}
			err = r.pause(ctx, failedTries-1)
		}
		if err != nil {
			return reply, r.unresolvedError(err)
		}
	}
}
