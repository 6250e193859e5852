package call

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/chain"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"golang.org/x/sync/errgroup"
)

// Send takes a call: steps 3 to 10 of the walk in the package's doc. route is
// the id in the request's path, zero on the host route.
func (h *Host) Send(ctx context.Context, route identity.ID, e *envelope.Envelope) Outcome {
	ctx, cancel := h.detach(ctx)
	defer cancel()
	r, v := request{pair: Pair{Caller: e.From, Vacant: e.To}, env: e, answer: true}, view{}
	fresh, err := h.open(ctx, route, &r, &v, true)
	if err != nil {
		return r.out.refuse(err)
	}
	if err := h.admissible(&r, false); err != nil {
		if !fresh { // what is told beside the refusal must be true now
			if err := h.reread(ctx, &r, &v); err != nil {
				return r.out.refuse(err)
			}
		}
		return r.out.at(v.req).refuse(err)
	}
	row, err := h.accept(ctx, &r, &v, fresh)
	if err != nil {
		return r.out.refuse(err)
	}
	return h.execute(ctx, &r, row, v.rsp)
}

// accept finds the position that e takes and takes it, or says why not. On
// return v is what the decision rests on.
func (h *Host) accept(ctx context.Context, r *request, v *view, fresh bool) (*RequestRow, error) {
	for {
		fit := v.req.Tip().Fit(r.env)
		refusal := h.refusal(r, fit)
		if refusal == nil {
			row, err := h.claim(ctx, r, v)
			if row != nil || err != nil {
				return row, err
			}
		} else if fresh {
			r.out = r.out.at(v.req)
			if refusal == fit || problem.Is(refusal, problem.Floor) {
				r.out.Floor = r.floor(v.req)
			}
			if fit != nil {
				if err := h.resend(ctx, r, v); err != nil {
					return nil, err
				}
			}
			return nil, refusal
		}
		// Either another instance was quicker, or what was remembered is too old
		// to refuse by: read again, and decide again.
		if err := h.reread(ctx, r, v); err != nil {
			return nil, err
		}
		fresh = true
	}
}

// refusal is why the call may not be accepted, in the order of steps 4 to 7;
// nil if it may.
func (h *Host) refusal(r *request, fit error) error {
	if err := r.outsider(); err != nil {
		return err
	}
	if err := awake(r.state()); err != nil {
		return err
	}
	if r.unpaid != nil {
		return r.unpaid
	}
	if fit == nil && r.env.IsReset() {
		// A reset of a fresh pair would fit here too: diverted to this route it
		// must not run, and be charged, as a call.
		return problem.Invalid("parts", "a reset at …/a2a/chain/reset", envelope.ResetText)
	}
	if floor := r.vacant.Floor; fit == nil && !floor.IsZero() && !r.env.Time.After(floor) {
		return chain.Tip{Floor: floor}.BelowFloor(r.env)
	}
	return fit
}

// floor is the time that a reset, or the first call after one, must be signed
// after: the chain's own, or the vacant's if that is later.
func (r *request) floor(tip RequestRow) time.Time {
	if r.vacant.Floor.After(tip.Floor) {
		return r.vacant.Floor
	}
	return tip.Floor
}

func (h *Host) reread(ctx context.Context, r *request, v *view) error {
	g, gctx := errgroup.WithContext(ctx)
	hosted := true
	g.Go(func() (err error) { *v, err = h.read(gctx, r.pair); return err })
	g.Go(func() (err error) {
		hosted, err = h.vacant(gctx, r, true)
		return err
	})
	if !r.checked {
		g.Go(func() error { return h.bar(gctx, r) })
	}
	if h.Ledger != nil {
		g.Go(func() error { return h.quote(gctx, r) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	h.doubt(r)
	if !hosted || r.hidden() {
		return h.notHere(ctx, r.env.To)
	}
	return r.barred
}

// take writes the request row at the position after v's tip. Neither row nor
// error: the position went to somebody else.
func (h *Host) take(ctx context.Context, r *request, v *view) (*RequestRow, error) {
	if r.unready != nil {
		return nil, h.fault(r.unready)
	}
	attempt, err := h.attempt()
	if err != nil {
		return nil, err
	}
	now := h.Now()
	allowed := h.allowed(ctx, now)
	if allowed == 0 {
		// Accepted now it could only be voided. Refused, it may be sent again.
		return nil, problem.New(problem.Unavailable, "too little time is left for an answer; the same request may be sent again")
	}
	tip := &v.req
	row := &RequestRow{
		Position: tip.Position + 1, Attempt: attempt, Kind: RowCall,
		Seq: r.env.Seq, Prev: r.env.Prev, Time: r.env.Time, Signature: r.env.Signature,
		Hash: r.hash, Epoch: tip.Epoch, Epos: tip.Epos, Back: tip.Back, Floor: tip.Tip().Next(r.env, r.hash).Floor,
		Seen: v.rsp.Position, Due: now.Add(allowed + Grace), Price: r.charge.Price, Shard: r.charge.Shard,
	}
	s := r.pair.Requests()
	if row.Text, err = h.Texts.Seal(ctx, sealedTo(s, r.hash), encodePayload(&r.env.Payload, r.env.IdempotencyKey)); err != nil {
		return nil, h.fault(err)
	}
	writes := []store.Write{store.Append{Stream: s, Position: row.Position, Attempt: attempt, Data: row.encode()}}
	if row.Price > 0 {
		writes = append(writes, h.Ledger.Debit(r.pair, row)...)
	}
	if err = h.settle(ctx, writes...); err == nil {
		h.views.learn(r.pair, view{req: *row, rsp: v.rsp})
		return row, nil
	}
	var taken *store.TakenError
	var bounds *store.BoundsError
	switch {
	case errors.As(err, &taken):
		return nil, nil
	case errors.As(err, &bounds):
		r.out = r.out.at(v.req)
		return nil, problem.New(problem.PaymentRequired, "balance does not cover the price of %d micro-units", row.Price)
	case errors.Is(err, store.ErrTooLarge):
		r.out = r.out.at(v.req)
		return nil, problem.Wrap(problem.TooLarge, err, "message is too large to keep")
	}
	return nil, h.fault(err)
}

// settle commits, and asks again with the same bytes and attempts while the
// outcome is unknown: at the same position, never at a new tip, or one request
// could be written twice. What is still unknown after all tries stays so; the
// row may be there, nothing has run, and a resend finds out.
func (h *Host) settle(ctx context.Context, writes ...store.Write) error {
	for try := 1; ; try++ {
		err := h.Store.Commit(ctx, writes...)
		if !errors.Is(err, store.ErrUnavailable) || try == tries {
			return err
		}
		if h.Wait(ctx, time.Duration(try*try)*5*time.Millisecond) != nil {
			return err
		}
	}
}

func (h *Host) attempt() (a store.Attempt, err error) {
	if _, err := io.ReadFull(h.Rand, a[:]); err != nil {
		return a, problem.Wrap(problem.Unavailable, err, "no randomness")
	}
	return a, nil
}

// allowed is how long a behaviour may take from now on: Work, or what the
// deadline leaves after the margin.
func (h *Host) allowed(ctx context.Context, now time.Time) time.Duration {
	d := h.Work
	if deadline, ok := ctx.Deadline(); ok {
		d = min(d, time.Until(deadline)-h.Margin)
	}
	return max(d, 0)
}

// Reset takes a chain reset (wire §9): a row like any other, which competes
// for the next position and begins a new epoch.
func (h *Host) Reset(ctx context.Context, route identity.ID, e *envelope.Envelope) Outcome {
	ctx, cancel := h.detach(ctx)
	defer cancel()
	r := request{pair: Pair{Caller: e.From, Vacant: e.To}, env: e}
	if err := h.resettable(&r, route); err != nil {
		if problem.Is(err, problem.BadSignature) || problem.Is(err, problem.NotAddressed) {
			return r.out.refuse(err)
		}
		return h.refuseReset(ctx, &r, err)
	}
	for {
		g, gctx := errgroup.WithContext(ctx)
		hosted := false
		var tip RequestRow
		g.Go(func() (err error) {
			hosted, err = h.vacant(gctx, &r, true)
			return err
		})
		g.Go(func() (err error) { tip, err = h.requestTip(gctx, r.pair); return err })
		g.Go(func() error { return h.fault(h.Texts.Warm(gctx)) })
		g.Go(func() error { return h.bar(gctx, &r) })
		if err := g.Wait(); err != nil {
			return r.out.refuse(err)
		}
		if !hosted || r.hidden() {
			return r.out.refuse(notAddressed())
		}
		if r.barred != nil {
			return r.out.refuse(r.barred)
		}
		out := r.out.at(tip)
		if err := r.outsider(); err != nil {
			return out.refuse(err)
		}
		if r.state().Closed() {
			return out.refuse(awake(r.state()))
		}
		if floor := r.floor(tip); tip.Position > 0 || !r.vacant.Floor.IsZero() {
			if err := (chain.Tip{Floor: floor}).FitReset(e); err != nil {
				out.Floor = floor
				return out.refuse(err)
			}
		}
		done, err := h.begin(ctx, &r, tip)
		if err != nil {
			return out.refuse(err)
		}
		if done {
			r.out.ResetAt = h.Now().UTC()
			r.out.Position = tip.Position + 1
			return r.out
		}
	}
}

// refuseReset refuses what is no good reset and is signed. Whoever signed it may
// know where the chain stands, if the key is good and the vacant there for them.
func (h *Host) refuseReset(ctx context.Context, r *request, refusal error) Outcome {
	g, ctx := errgroup.WithContext(ctx)
	hosted := false
	var tip RequestRow
	g.Go(func() (err error) { tip, err = h.requestTip(ctx, r.pair); return err })
	g.Go(func() (err error) {
		hosted, err = h.vacant(ctx, r, false)
		return err
	})
	g.Go(func() error { return h.bar(ctx, r) })
	if err := g.Wait(); err != nil {
		return r.out.refuse(err)
	}
	if !hosted || r.hidden() {
		// One that was here once is not told apart from one that never was.
		tip = RequestRow{}
	}
	if r.barred != nil {
		return r.out.refuse(r.barred)
	}
	return r.out.at(tip).refuse(refusal)
}

// resettable does the checks of wire §9 that need no store, in its order.
func (h *Host) resettable(r *request, route identity.ID) error {
	e := r.env
	var signed bool
	if r.hash, signed = e.Verify(); !signed {
		return problem.New(problem.BadSignature, "signature_invalid: %s", badSignature(e.From))
	}
	r.out.Hash = r.hash
	if !e.IsReset() {
		return problem.New(problem.Malformed, "payload_not_reset_chain")
	}
	now := h.Now()
	if age := now.Sub(e.Time); age.Abs() > MaxSkew {
		r.out.Now = now.UTC().Truncate(time.Microsecond)
		return problem.New(problem.Clock, "stale_reset_request: age=%.0fs", age.Abs().Seconds())
	}
	if !route.IsZero() && route != e.To {
		return notAddressed()
	}
	return addressable(e)
}

func notAddressed() error { return problem.New(problem.NotAddressed, "not_addressed_to_self") }

// begin writes the reset row after tip. Neither done nor error: the position
// went to somebody else.
func (h *Host) begin(ctx context.Context, r *request, tip RequestRow) (done bool, err error) {
	attempt, err := h.attempt()
	if err != nil {
		return false, err
	}
	t := tip.Tip().Reset(r.env)
	row := &RequestRow{
		Position: tip.Position + 1, Attempt: attempt, Kind: RowReset,
		Seq: r.env.Seq, Prev: r.env.Prev, Time: r.env.Time, Signature: r.env.Signature,
		Hash: r.hash, Epoch: t.Epoch, Epos: tip.Position + 1, Back: tip.Epos, Floor: t.Floor,
	}
	s := r.pair.Requests()
	if row.Text, err = h.Texts.Seal(ctx, sealedTo(s, r.hash), encodePayload(&r.env.Payload, r.env.IdempotencyKey)); err != nil {
		return false, h.fault(err)
	}
	err = h.settle(ctx, store.Append{Stream: s, Position: row.Position, Attempt: attempt, Data: row.encode()})
	var taken *store.TakenError
	switch {
	case err == nil:
		h.views.forget(r.pair) // the response tip beside it was not read
		return true, nil
	case errors.As(err, &taken):
		return false, nil
	case errors.Is(err, store.ErrTooLarge):
		return false, problem.Wrap(problem.TooLarge, err, "message is too large to keep")
	}
	return false, h.fault(err)
}
