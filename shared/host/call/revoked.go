package call

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// bar reads whether the keys of both ends are good. A caller whose key is
// revoked is refused; like a bad signature that tells nothing else, since who
// holds such a key may be anybody. A vacant whose key is revoked is closed,
// whatever its record says: the registry may not be the one that writes it.
//
// Nothing of it is remembered from call to call, so that a key is refused from
// the first call on that begins after its revocation, on every instance.
func (h *Host) bar(ctx context.Context, r *request) error {
	if h.Revoked == nil {
		r.checked = true
		return nil
	}
	revoked, err := h.Revoked(ctx, r.pair.Caller, r.pair.Vacant)
	if err != nil {
		return h.fault(err)
	}
	r.checked, r.barred, r.closed = true, nil, revoked[1]
	if revoked[0] {
		r.barred = problem.New(problem.Revoked, "the key of sender %s was revoked; it can call nobody here", r.pair.Caller.Short())
	}
	return nil
}

// doubt forgets the pair if a key of it is revoked: the next call is judged
// before it is accepted.
func (h *Host) doubt(r *request) {
	if r.barred != nil || r.closed {
		h.views.forget(r.pair)
	}
}

// claim takes the position after v's tip. Where nothing was read for the call
// yet, whether the keys are good is read beside the write of its row, so that a
// warm call waits no longer for it; a call whose key turns out to be revoked is
// void before its behaviour runs. Neither row nor error: the position went to
// somebody else.
func (h *Host) claim(ctx context.Context, r *request, v *view) (*RequestRow, error) {
	if r.checked || h.Revoked == nil {
		return h.take(ctx, r, v)
	}
	checked := make(chan error, 1)
	go func() { checked <- h.barSurely(ctx, r) }()
	row, err := h.take(ctx, r, v)
	unknown := <-checked
	defer h.doubt(r)
	switch {
	case unknown == nil && r.barred == nil && !r.closed:
		return row, err
	case row != nil:
		if _, err := h.void(ctx, r.pair, row); err != nil {
			return nil, err
		}
	}
	switch {
	case unknown != nil:
		return nil, unknown
	case r.barred != nil:
		r.out = Outcome{Hash: r.hash}
		if r.hidden() {
			return nil, h.notHere(ctx, r.env.To)
		}
		return nil, r.barred
	case row != nil:
		r.out = r.out.at(*row)
		r.out.State = Unanswered
		return nil, awake(r.state())
	}
	return nil, err // the position is another's, or out of reach
}

// barSurely is bar for a call that may be accepted by now: it is worth more
// than one try.
func (h *Host) barSurely(ctx context.Context, r *request) error {
	for try := 1; ; try++ {
		err := h.bar(ctx, r)
		if err == nil || try == tries || h.Wait(ctx, time.Duration(try*try)*5*time.Millisecond) != nil {
			return err
		}
	}
}

// state is the vacant's: SUNK if its key is revoked and its record does not say
// that it is closed.
func (r *request) state() lifecycle.State {
	if r.closed && !r.vacant.State.Closed() {
		return lifecycle.Sunk
	}
	return r.vacant.State
}
