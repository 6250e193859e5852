package registry

import (
	"context"
	"math"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// writes returns the writes of g, over what was read: its document, and with it the count
// of venues and the claim of its slug. The error is Conflict if another vacant has the slug.
func (r *Registry) writes(ctx context.Context, g *Registration, id store.WriteID) ([]store.Write, error) {
	put, err := g.put(id)
	if err != nil {
		return nil, err
	}
	all := []store.Write{put}
	if listed := g.Listed(); listed != g.wasListed {
		delta := int64(1)
		if !listed {
			delta = -1
		}
		all = append(all, store.Add{Key: VenueCountKey(), Delta: delta, Max: math.MaxInt64})
	}
	slug := g.slug()
	if slug == g.heldSlug {
		return all, nil
	}
	if slug != "" {
		holder, d, err := SlugDocs.Get(ctx, r.Store, SlugKey(slug))
		if err != nil {
			return nil, err
		}
		if holder != "" && holder != g.ID.String() {
			return nil, problem.New(problem.Conflict, "slug %s is another vacant's", slug)
		}
		all = append(all, store.Put{Key: d.Key, If: d.Version, WriteID: id, Data: []byte(g.ID.String())})
	}
	if g.heldSlug != "" {
		holder, d, err := SlugDocs.Get(ctx, r.Store, SlugKey(g.heldSlug))
		if err != nil {
			return nil, err
		}
		if holder == g.ID.String() {
			all = append(all, store.Put{Key: d.Key, If: d.Version, WriteID: id})
		}
	}
	return all, nil
}

// VenueOf returns the vacant that has claimed a slug; ok is false if none has.
func (r *Registry) VenueOf(ctx context.Context, slug string) (id identity.ID, ok bool, err error) {
	holder, _, err := SlugDocs.Get(ctx, r.Store, SlugKey(slug))
	if err != nil || holder == "" {
		return id, false, Problem(err)
	}
	if id, err = identity.ParseID(holder); err != nil {
		return id, false, problem.Wrap(problem.Damaged, err, "the claim of slug %s is not readable", slug)
	}
	return id, true, nil
}

// VenueCount returns the number of listed vacants.
func (r *Registry) VenueCount(ctx context.Context) (int64, error) {
	n, _, err := VenueCountDocs.Get(ctx, r.Store, VenueCountKey())
	return n, Problem(err)
}
