package call

import (
	"cmp"
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// checkRevoked reads whether the keys of both ends are revoked. A caller with a
// revoked key is refused without any other information, like one with a bad
// signature, because anybody may hold such a key. A vacant with a revoked key
// counts as SUNK whatever its record says, because the registry that revokes
// may not be the one that writes the record.
//
// Revocation is never cached: every call that begins after a revocation is
// refused, on every instance.
func (h *Host) checkRevoked(ctx context.Context, r *request) error {
	if h.Revoked == nil {
		r.revocationChecked = true
		return nil
	}
	revoked, err := h.Revoked(ctx, r.pair.Caller, r.pair.Vacant)
	if err != nil {
		return h.unavailable(err)
	}
	r.revocationChecked, r.callerRevoked, r.keyRevoked = true, nil, revoked[1]
	if revoked[0] {
		r.callerRevoked = problem.New(problem.Revoked, "the key of sender %s was revoked; it can call nobody here", r.pair.Caller.Short())
	}
	return nil
}

// invalidate drops the cached tips of a pair with a revoked key, so the next
// call checks revocation before it is accepted.
func (h *Host) invalidate(r *request) {
	if r.callerRevoked != nil || r.keyRevoked {
		h.tipCache.forget(r.pair)
	}
}

// appendChecked appends the request row after v's tip. If revocation was not
// read yet, it is read concurrently with the write, so a warm call does not
// wait for it; a call with a revoked key is voided before it runs. It returns
// neither row nor error if another writer took the position.
func (h *Host) appendChecked(ctx context.Context, r *request, v *tips) (*RequestRow, error) {
	if r.revocationChecked || h.Revoked == nil {
		return h.appendRequest(ctx, r, v)
	}
	checked := make(chan error, 1)
	go func() {
		for try := 1; ; try++ { // the call may already be accepted
			err := h.checkRevoked(ctx, r)
			if err == nil || try == maxTries || h.Wait(ctx, time.Duration(try*try)*5*time.Millisecond) != nil {
				checked <- err
				return
			}
		}
	}()
	row, err := h.appendRequest(ctx, r, v)
	unknown := <-checked
	defer h.invalidate(r)
	r.out.Ended = false // an attempt before this one may have been voided
	switch {
	case unknown == nil && r.callerRevoked == nil && !r.keyRevoked:
		return row, err
	case row != nil:
		c := r.closing()
		c.failure = cmp.Or(r.callerRevoked, unknown, checkState(r.state()))
		d, err := h.void(ctx, r.pair, row, c)
		if err != nil {
			return nil, err
		}
		r.out.Ended = d == decidedVoid
	}
	switch {
	case unknown != nil:
		return nil, unknown
	case r.callerRevoked != nil:
		r.out = Outcome{Hash: r.hash}
		if r.concealed() {
			return nil, h.notHosted(ctx, r.env.To)
		}
		return nil, r.callerRevoked
	case row != nil:
		r.out = r.out.at(*row)
		r.out.State = Unanswered
		return nil, checkState(r.state())
	}
	return nil, err // another writer took the position, or the store is unavailable
}
