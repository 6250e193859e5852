package dispatch

import (
	"context"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Reset restarts both chains with t by a signed reset, or finishes a pending reset.
func (c *Caller) Reset(ctx context.Context, t Target) (Result, error) {
	return c.runLocked(ctx, t, func(ctx context.Context, r *run) error {
		if r.state.PendingReset == nil {
			if err := r.signReset(ctx, time.Time{}); err != nil {
				return err
			}
		}
		for range maxSteps {
			if r.state.PendingReset == nil {
				break
			}
			if err := r.finishReset(ctx); err != nil {
				return err
			}
		}
		if r.state.PendingReset != nil {
			return r.unconfirmedResetError(nil)
		}
		if err := r.settleOvertaken(ctx); err != nil {
			return err
		}
		return r.deliverLate()
	})
}

func (r *run) signReset(ctx context.Context, floor time.Time) error {
	key, err := r.caller.newIdempotencyKey()
	if err != nil {
		return err
	}
	now := r.caller.currentTime()
	signedAt := r.state.nextSignTime(now)
	if !floor.IsZero() {
		earliest := floor.Add(time.Microsecond)
		if latest := now.Add(r.state.ClockOffset + maxResetSkew).UTC().Truncate(time.Microsecond); earliest.After(latest) {
			earliest = latest // hosts do not accept a later time
		}
		if earliest.After(signedAt) {
			signedAt = earliest
		}
	}
	e := envelope.Envelope{
		From: r.self, To: r.target.ID, Seq: 1, Time: signedAt, IdempotencyKey: key,
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{envelope.ResetText}},
	}
	if _, err := e.Sign(ctx, r.caller.Signer); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the reset could not be signed")
	}
	r.state.PendingReset = &e // may replace an unconfirmed reset, because both have the same effect
	r.state.recordSignedTime(e.Time)
	return r.save()
}

func (r *run) finishReset(ctx context.Context) error {
	e := *r.state.PendingReset
	if age := r.caller.currentTime().Add(r.state.ClockOffset).Sub(e.Time); age > maxResetSkew {
		return r.signReset(ctx, time.Time{}) // hosts do not accept the old reset
	}
	body := envelope.AppendRequest(nil, nil, &e)
	for n := 0; ; n++ {
		reply, err := r.post(ctx, r.callURLs.reset, body)
		switch {
		case isRetryPointless(err):
			return err
		case err == nil && !reply.isInconclusive():
			return r.judgeReset(ctx, reply)
		}
		if n+1 >= r.caller.tryLimit() {
			return r.unconfirmedResetError(err)
		}
		if err := r.pause(ctx, n); err != nil {
			return r.unconfirmedResetError(err)
		}
	}
}

func (r *run) judgeReset(ctx context.Context, reply hostReply) error {
	r.result.Status = reply.status
	switch {
	case reply.status == 200 && reply.resetConfirmed:
		r.state.resetChains()
		r.result.IsReset = true
		r.askedHashes = map[identity.Hash]bool{} // ask for all envelopes again
		return r.save()
	case reply.status == 200:
		return problem.New(problem.Untrusted, "%s does not confirm the reset: %s", r.target.Name, reply.safeDetail())
	case reply.status == 409:
		if r.floorRetries++; r.floorRetries > r.caller.tryLimit() {
			return problem.New(problem.ClockSkew, "%s keeps asking for a later time: check the clock of this machine", r.target.Name)
		}
		if r.floorRetries > 1 { // the host's clock is still before the floor
			if err := r.pause(ctx, r.floorRetries); err != nil {
				return r.unconfirmedResetError(err)
			}
		}
		return r.signReset(ctx, reply.floor)
	case !reply.hostTime.IsZero():
		if err := r.correctClock(reply.hostTime); err != nil {
			return err
		}
		return r.signReset(ctx, time.Time{})
	}
	// A refused reset must not stay in the state, because it would be sent before every later call.
	r.state.PendingReset = nil
	if err := r.save(); err != nil {
		return err
	}
	if strings.HasPrefix(reply.detail, "stale_reset_request") { // the reference does not report its time
		return problem.New(problem.ClockSkew, "%s refused the reset as signed too far off its clock (%s): set the clock of this machine, then run the same command again", r.target.Name, reply.safeDetail())
	}
	if reply.isRouteMissing() {
		return problem.New(problem.NotFound, "%s has no chain reset at %s", r.target.Name, r.callURLs.reset)
	}
	return problem.New(kindOf(reply), "%s refused the reset (%d): %s", r.target.Name, reply.status, reply.safeDetail())
}

func (r *run) unconfirmedResetError(cause error) error {
	if !r.mayHaveReachedTarget {
		return problem.Wrap(problem.Unavailable, cause, "%s cannot be reached, the reset was not sent; it is stored; run the same command again to send it", r.target.Name)
	}
	return problem.Wrap(problem.Pending, cause, "%s has not confirmed the reset; it is stored; run the same command again to resume it", r.target.Name)
}
