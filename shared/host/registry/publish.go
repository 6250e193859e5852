package registry

import (
	"context"
	"math"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// Publish registers what a vacant has signed, in one transaction. The same sent
// again returns the receipt of then and changes nothing, not even what is
// claimed beside the signatures. It waits for its place while others publish,
// until ctx's deadline.
//
// The refusals, in the order in which they are looked for: Schema for a member
// that is wrong in itself; Malformed or TooLarge for a card that is none or does
// not verify; BadSignature for the event; Idempotency for a key that was used
// for something else; Revoked; Sequence; Clock; Malformed for a parent that was
// another; Equivocation, with an *EquivocationError in the chain; Forbidden for
// a closed child; Malformed for an endpoint; Conflict for the state of a vacant
// that this host runs and knows better; Malformed for a listing. Unavailable is no
// refusal: the same may be sent again.
func (r *Registry) Publish(ctx context.Context, p Publication) (Receipt, error) {
	var reached string
	return r.run(ctx, func(ctx context.Context) (*decision, error) { return r.publish(ctx, &p, &reached, false) })
}

// Plan decides as Publish does, for the host itself, and leaves the commit to
// the caller, who has more to change in it: the state, for one. Refused with *store.TakenError or *store.ConflictError,
// it is planned again. See Turn.
func (r *Registry) Plan(ctx context.Context, p Publication) (Plan, error) {
	var reached string
	d, err := r.publish(ctx, &p, &reached, true)
	if err != nil {
		return Plan{}, fault(err)
	}
	plan, err := r.place(ctx, d)
	return plan, fault(err)
}

// NextActorSeq is the count that id's next event has to carry.
func (r *Registry) NextActorSeq(ctx context.Context, id identity.ID) (int64, error) {
	tip, err := r.Store.Tip(ctx, ActorStream(id))
	if err != nil {
		return 0, fault(err)
	}
	if tip.Position >= math.MaxInt64 {
		return 0, problem.New(problem.Damaged, "events of %s: there is none after %d", id.Short(), tip.Position)
	}
	return int64(tip.Position) + 1, nil
}

// PlanState is what a change of id's state changes in its registration, for the
// commit that changes the state itself: nothing if id is not registered or is
// in that state already.
func (r *Registry) PlanState(ctx context.Context, id identity.ID, state lifecycle.State) ([]store.Write, error) {
	g, err := r.registration(ctx, id)
	if err != nil || g.Joined == 0 || g.State == state {
		return nil, fault(err)
	}
	now := r.now()
	g.State, g.Since = state, now
	g.change(now)
	attempt, err := r.attempt()
	if err != nil {
		return nil, err
	}
	put, err := g.put(attempt)
	if err != nil {
		return nil, err
	}
	return []store.Write{put}, nil
}
