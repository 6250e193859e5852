package call

import (
	"cmp"
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// checkRevoked never uses a cache, so that every process refuses all calls that begin after a
// revocation.
func (h *Host) checkRevoked(ctx context.Context, r *request) error {
	if h.AreRevoked == nil {
		r.revocationChecked = true
		return nil
	}
	revoked, err := h.AreRevoked(ctx, r.pair.Caller, r.pair.Vacant)
	if err != nil {
		return h.unavailableError(err)
	}
	r.revocationChecked, r.revokedCallerErr, r.vacantKeyRevoked = true, nil, revoked[1]
	if revoked[0] {
		// A revoked key may be in the wrong hands, so its holder gets no other information.
		r.revokedCallerErr = problem.New(problem.Revoked, "the key of sender %s was revoked; it cannot call vacants of this host", r.pair.Caller.Short())
	}
	return nil
}

func (h *Host) forgetTipsIfRevoked(r *request) {
	if r.revokedCallerErr != nil || r.vacantKeyRevoked { // the next call must be checked before its accept
		h.tipCache.forget(r.pair)
	}
}

// appendAndCheckRevocation may check revocation concurrently with the write, to save time. A call
// with a revoked key is then voided before it runs.
func (h *Host) appendAndCheckRevocation(ctx context.Context, r *request, v *tips) (*RequestRow, error) {
	if r.revocationChecked || h.AreRevoked == nil {
		return h.appendRequest(ctx, r, v)
	}
	checkDone := make(chan error, 1)
	go func() {
		for try := 1; ; try++ { // a failed read is retried, because the call may already be accepted
			err := h.checkRevoked(ctx, r)
			if err == nil || try == maxTries || h.Wait(ctx, time.Duration(try*try)*5*time.Millisecond) != nil {
				checkDone <- err
				return
			}
		}
	}()
	row, err := h.appendRequest(ctx, r, v)
	checkErr := <-checkDone
	defer h.forgetTipsIfRevoked(r)
	r.out.HasEnded = false // a previous attempt may have set it
	switch {
	case checkErr == nil && r.revokedCallerErr == nil && !r.vacantKeyRevoked:
		return row, err
	case row != nil:
		reason := r.newVoidReason()
		reason.failure = cmp.Or(r.revokedCallerErr, checkErr, checkState(r.state()))
		decision, err := h.voidCall(ctx, r.pair, row, reason)
		if err != nil {
			return nil, err
		}
		r.out.HasEnded = decision == decidedVoid
	}
	switch {
	case checkErr != nil:
		return nil, checkErr
	case r.revokedCallerErr != nil:
		r.out = Outcome{Hash: r.hash}
		if r.isConcealed() {
			return nil, h.notHostedError(ctx, r.env.To)
		}
		return nil, r.revokedCallerErr
	case row != nil:
		r.out = r.out.withTip(*row)
		r.out.State = Unanswered
		return nil, checkState(r.state())
	}
	return nil, err
}
