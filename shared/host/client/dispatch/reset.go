package dispatch

import (
	"context"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Reset restarts both chains with t by a signed reset, or finishes a pending reset. It then asks
// for the fate of listed envelopes.
func (c *Caller) Reset(ctx context.Context, t Target) (Result, error) {
	return c.runLocked(ctx, t, func(ctx context.Context, r *run) error {
		if r.st.PendingReset == nil {
			if err := r.signReset(ctx, time.Time{}); err != nil {
				return err
			}
		}
		for range maxSteps {
			if r.st.PendingReset == nil {
				break
			}
			if err := r.finishReset(ctx); err != nil {
				return err
			}
		}
		if r.st.PendingReset != nil {
			return r.unconfirmedResetError(nil)
		}
		if err := r.settleOvertaken(ctx); err != nil {
			return err
		}
		return r.deliverLate()
	})
}

func (r *run) signReset(ctx context.Context, floor time.Time) error {
	key, err := r.c.newIdempotencyKey()
	if err != nil {
		return err
	}
	now := r.c.now()
	signedAt := r.st.nextSignTime(now)
	if !floor.IsZero() {
		earliest := floor.Add(time.Microsecond)
		if latest := now.Add(r.st.ClockOffset + maxResetSkew).UTC().Truncate(time.Microsecond); earliest.After(latest) {
			earliest = latest // hosts do not accept a later time
		}
		if earliest.After(signedAt) {
			signedAt = earliest
		}
	}
	e := envelope.Envelope{
		From: r.self, To: r.t.ID, Seq: 1, Time: signedAt, IdempotencyKey: key,
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{envelope.ResetText}},
	}
	if _, err := e.Sign(ctx, r.c.Signer); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the reset could not be signed")
	}
	r.st.PendingReset = &e // it may replace an unconfirmed reset, which would have had the same effect
	r.st.recordSignedTime(e.Time)
	return r.save()
}

func (r *run) finishReset(ctx context.Context) error {
	e := *r.st.PendingReset
	if age := r.c.now().Add(r.st.ClockOffset).Sub(e.Time); age > maxResetSkew {
		return r.signReset(ctx, time.Time{}) // hosts do not accept a reset of this age
	}
	body := envelope.AppendRequest(nil, nil, &e)
	for n := 0; ; n++ {
		a, err := r.post(ctx, r.callURLs.reset, body)
		switch {
		case isRetryPointless(err):
			return err
		case err == nil && !a.isInconclusive():
			return r.judgeReset(ctx, a)
		}
		if n+1 >= r.c.tries() {
			return r.unconfirmedResetError(err)
		}
		if err := r.pause(ctx, n); err != nil {
			return r.unconfirmedResetError(err)
		}
	}
}

func (r *run) judgeReset(ctx context.Context, a hostReply) error {
	r.res.Status = a.status
	switch {
	case a.status == 200 && a.resetConfirmed:
		r.st.resetChains()
		r.res.IsReset = true
		r.askedHashes = map[identity.Hash]bool{} // ask for all listed envelopes again
		return r.save()
	case a.status == 200:
		return problem.New(problem.Untrusted, "%s does not confirm the reset: %s", r.t.Name, a.safeDetail())
	case a.status == 409:
		if r.floorRetries++; r.floorRetries > r.c.tries() {
			return problem.New(problem.ClockSkew, "%s keeps asking for a later time: check the clock of this machine", r.t.Name)
		}
		if r.floorRetries > 1 { // the floor is further ahead than a reset may be signed, so wait
			if err := r.pause(ctx, r.floorRetries); err != nil {
				return r.unconfirmedResetError(err)
			}
		}
		return r.signReset(ctx, a.floor)
	case !a.hostTime.IsZero():
		if err := r.correctClock(a.hostTime); err != nil {
			return err
		}
		return r.signReset(ctx, time.Time{})
	}
	// A refusal is final for these bytes. If they stayed in the state, they would be sent before
	// every later call. If a copy is accepted nevertheless, the next call notices.
	r.st.PendingReset = nil
	if err := r.save(); err != nil {
		return err
	}
	if strings.HasPrefix(a.detail, "stale_reset_request") { // the reference does not report its time
		return problem.New(problem.ClockSkew, "%s refused the reset as signed too far off its clock (%s): set the clock of this machine, then run the same command again", r.t.Name, a.safeDetail())
	}
	if a.isRouteMissing() {
		return problem.New(problem.NotFound, "%s has no chain reset at %s", r.t.Name, r.callURLs.reset)
	}
	return problem.New(kindOf(a), "%s refused the reset (%d): %s", r.t.Name, a.status, a.safeDetail())
}

func (r *run) unconfirmedResetError(cause error) error {
	if !r.mayHaveReached {
		return problem.Wrap(problem.Unavailable, cause, "%s cannot be reached, the reset was not sent; it is stored; run the same command again to send it", r.t.Name)
	}
	return problem.Wrap(problem.Pending, cause, "%s has not confirmed the reset; it is stored; run the same command again to resume it", r.t.Name)
}
