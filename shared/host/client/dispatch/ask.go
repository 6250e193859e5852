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

// Ask asks t for the fate of every listed envelope and returns the learned outcomes in Late. The
// host does not run a call because of Ask. An error of kind Pending means that a call is accepted
// but not answered yet.
func (c *Caller) Ask(ctx context.Context, t Target) (Result, error) {
	return c.runLocked(ctx, t, func(ctx context.Context, r *run) error {
		for _, q := range slices.Concat(r.st.Sent, r.st.Acceptable, r.st.Overtaken) {
			if err := r.settleListed(ctx, q); err != nil {
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
			return problem.Wrap(problem.Unavailable, r.askError, "%s could not be asked about everything", r.t.Name)
		case r.hasPendingCall:
			return problem.New(problem.Pending, "%s has not answered yet: ask again later", r.t.Name)
		}
		return nil
	})
}

// nextOvertaken returns the next overtaken envelope to ask for, or nil.
func (r *run) nextOvertaken() *envelope.Envelope {
	for i := range r.st.Overtaken {
		q := &r.st.Overtaken[i]
		// Each envelope is asked for once per operation, and once more after a reset.
		if r.askedHashes[q.Hash()] || r.askError != nil && !r.isOfCurrentCall(q) {
			continue
		}
		return q
	}
	return nil
}

func (r *run) settleOvertaken(ctx context.Context) error {
	for q := r.nextOvertaken(); q != nil && (!r.isCall || r.st.callOutcome() == nil); q = r.nextOvertaken() {
		if err := r.settleListed(ctx, *q); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) isOfCurrentCall(q *envelope.Envelope) bool {
	return r.isCall && r.st.CallKey != "" && q.IdempotencyKey == r.st.CallKey
}

// settleListed asks for the fate of one listed envelope and settles it. If the host does not report the
// fate, settleListed adds a sentence to Result.Undetermined. For an envelope of the call in hand, it returns
// an error instead, because a new envelope must not be signed before the fate is known.
func (r *run) settleListed(ctx context.Context, q envelope.Envelope) error {
	h, isCurrent := q.Hash(), r.isOfCurrentCall(&q)
	r.askedHashes[h] = true
	if isCurrent {
		r.setCurrent(q)
	}
	a, err := r.askFate(ctx, q, isCurrent)
	if err != nil {
		return err
	}
	switch {
	case a.state == stateAnswered || a.state == stateUnanswered:
		v, _, err := r.judge(q, h, a, true)
		if v != verdictSettled && isCurrent {
			return err
		}
		if v != verdictSettled {
			r.addUndetermined(fmt.Sprintf("the answer of %s to call %d did not verify: %s", r.t.Name, q.Seq, problem.AsError(err).Text()))
			return nil
		}
	case a.state == stateUnknown:
		r.dropUnknown(&q, h, a)
	case a.isRouteMissing() && !r.st.BindsAnswers:
		r.st.dropOvertaken(h)
		r.addUndetermined(fmt.Sprintf("%s does not report outcomes of calls: it is unknown whether call %d was accepted", r.t.Name, q.Seq))
	case isCurrent:
		return problem.New(kindOf(a), "%s does not report the outcome of the call%s: %s", r.t.Name, r.httpStatus(a), a.safeDetail())
	case a.state == statePending:
		r.hasPendingCall = true
		r.addUndetermined(fmt.Sprintf("call %d is accepted and not answered yet", q.Seq))
		return nil
	default:
		r.addUndetermined(fmt.Sprintf("the outcome of call %d could not be requested now", q.Seq))
		return nil
	}
	return r.save()
}

// dropUnknown drops an overtaken envelope that the host does not know. Because another envelope took its
// position, the host can never accept it, with one exception: the first call of a chain can be accepted
// after a reset if it was signed later than the floor. Such a call moves to Acceptable.
func (r *run) dropUnknown(q *envelope.Envelope, h identity.Hash, a hostReply) {
	if !slices.ContainsFunc(r.st.Overtaken, func(e envelope.Envelope) bool { return e.Hash() == h }) {
		r.addUndetermined(fmt.Sprintf("call %d has not been accepted, but a copy that is still in transit may be accepted", q.Seq))
		return
	}
	if a.tooOld {
		r.addUndetermined(fmt.Sprintf("call %d is older than the calls that %s reports on: it is unknown whether the call was accepted", q.Seq, r.t.Name))
	}
	r.st.dropOvertaken(h)
	if q.Seq == 1 && q.Time.After(a.floor) {
		r.st.Acceptable = append(r.st.Acceptable[:len(r.st.Acceptable):len(r.st.Acceptable)], *q)
	}
}

// askFate posts q to the ask route. If patient is set, it retries within the limits of the Caller.
// Otherwise it tries once, and returns the zero reply if the host does not reply.
func (r *run) askFate(ctx context.Context, q envelope.Envelope, patient bool) (hostReply, error) {
	body := envelope.AppendRequest(nil, nil, &q)
	for failedTries, pendingReplies := 0, 0; ; {
		a, err := r.post(ctx, r.callURLs.ask, body)
		switch {
		case isRetryPointless(err):
			return a, err
		case err == nil && a.state != statePending && !a.isInconclusive():
			return a, nil
		case !patient:
			if a.state != statePending {
				r.askError = errors.Join(err, replyError(a))
			}
			return a, ctx.Err()
		case a.state == statePending:
			if r.waitedTime >= r.c.waitLimit() {
				return a, r.unresolvedError(nil)
			}
			err = r.pause(ctx, pendingReplies)
			pendingReplies++
		default:
			r.mayHaveReached = true // an envelope that is asked for was sent
			if failedTries++; failedTries >= r.c.tries() {
				return a, r.unresolvedError(err)
			}
			err = r.pause(ctx, failedTries-1)
		}
		if err != nil {
			return a, r.unresolvedError(err)
		}
	}
}
