package registry

import (
	"context"
	"math"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// Publish registers a publication in one transaction. Sending the same again
// returns the first receipt and changes nothing. It waits for its position
// until ctx's deadline.
//
// The refusals, in order: Schema for a malformed member; Malformed or TooLarge
// for a card that does not parse or verify; BadSignature for the event;
// Idempotency for a key used for something else; Revoked; Sequence; Clock;
// Malformed for a changed parent; Equivocation, with an *EquivocationError in
// the chain; Forbidden for a closed child; Malformed for an endpoint; Conflict
// for the state of a vacant that this host runs; Malformed for a listing.
// Unavailable is no refusal: the same may be sent again.
func (r *Registry) Publish(ctx context.Context, p Publication) (Receipt, error) {
	var reached string
	return r.run(ctx, func(ctx context.Context) (*decision, error) { return r.publish(ctx, &p, &reached, publisher{}) })
}

// Plan decides as Publish does, for the host itself, and leaves the commit to the
// caller, who has more to change in it: the state, for one. Refused with
// *store.TakenError or *store.ConflictError, it is planned again. See Turn.
func (r *Registry) Plan(ctx context.Context, p Publication) (Plan, error) {
	return r.plan(ctx, p, publisher{host: true})
}

func (r *Registry) plan(ctx context.Context, p Publication, by publisher) (Plan, error) {
	var reached string
	d, err := r.publish(ctx, &p, &reached, by)
	if err != nil {
		return Plan{}, fault(err)
	}
	plan, err := r.place(ctx, d)
	return plan, fault(err)
}

// PlanGraduation decides as Plan does, for a closed child that passed the gate:
// next, signed by both parties, replaces the closed manifest in the same commit
// as the public card. byHost means that the child runs on this host. The
// refusals are NotFound for a child without a manifest, Graduated for an open
// one, and Malformed if next changes anything that graduation does not.
func (r *Registry) PlanGraduation(ctx context.Context, p Publication, next composite.Manifest, byHost bool) (Plan, error) {
	d, err := r.Store.Doc(ctx, ManifestKey(next.ChildID))
	if err != nil {
		return Plan{}, fault(err)
	}
	if d.Version == 0 {
		return Plan{}, UnknownChild(next.ChildID)
	}
	known, err := DecodeManifest(next.ChildID, d)
	if err != nil {
		return Plan{}, err
	}
	if !known.Closed() {
		return Plan{}, problem.New(problem.Graduated, "child %s is open already", next.ChildID.Short())
	}
	if err := known.Manifest.CheckGraduated(&next); err != nil {
		return Plan{}, err
	}
	plan, err := r.plan(ctx, p, publisher{host: byHost, gate: true})
	if err != nil {
		return Plan{}, err
	}
	if len(plan.Writes) == 0 {
		return Plan{}, problem.New(problem.Sequence, "event %d of %s is there already", p.ActorSeq, next.ChildID.Short())
	}
	if plan.Registration.ID != next.ChildID {
		return Plan{}, problem.Invalid("capability card", "that of the child "+next.ChildID.String(), "that of "+plan.Registration.ID.String())
	}
	after := ManifestDocument{Manifest: next, Graduated: true, Replaced: &known.Manifest, Before: known.Replaced}
	data, err := after.Encode()
	if err != nil {
		return Plan{}, err
	}
	writeID, err := r.updater().NewWriteID()
	if err != nil {
		return Plan{}, err
	}
	plan.Writes = append(plan.Writes, store.Put{Key: d.Key, If: d.Version, WriteID: writeID, Data: data, Index: after.place(r.now())})
	return plan, nil
}

// UnknownChild is the refusal, in the words of the reference, of a child whose
// manifest is not here.
func UnknownChild(child identity.ID) error {
	return problem.New(problem.NotFound, "unknown child %s", child.Short())
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
	writeID, err := r.updater().NewWriteID()
	if err != nil {
		return nil, err
	}
	put, err := g.put(writeID)
	if err != nil {
		return nil, err
	}
	return []store.Write{put}, nil
}
