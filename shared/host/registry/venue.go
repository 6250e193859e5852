package registry

import (
	"context"
	"math"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The partitions of venues: slug#<slug>/venue is the vacant that has claimed a slug, and
// venues/count the number of listed vacants.
const (
	slugPrefix   = "slug#"
	venuesKey    = "venues"
	venueSort    = "venue"
	venueCounter = "count"
)

// SlugKey is the key of the claim of a slug.
func SlugKey(slug string) store.Key {
	return store.Key{Partition: slugPrefix + slug, Sort: venueSort}
}

// VenueCountKey is the key of the number of listed vacants.
func VenueCountKey() store.Key { return store.Key{Partition: venuesKey, Sort: venueCounter} }

// writes returns the writes of g, over what was read: its document, and with it the count
// of venues and the claim of its slug. The error is Conflict if another vacant has the slug.
func (r *Registry) writes(ctx context.Context, g *Registration, id store.WriteID) ([]store.Write, error) {
	put, err := g.put(id)
	if err != nil {
		return nil, err
	}
	all := []store.Write{put}
	if listed := g.Listed(); listed != g.wasListed {
		if err := r.KeepVenueCount(ctx); err != nil {
			return nil, err
		}
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
		d, err := r.Store.Doc(ctx, SlugKey(slug))
		if err != nil {
			return nil, err
		}
		if len(d.Data) > 0 && string(d.Data) != g.ID.String() {
			return nil, problem.New(problem.Conflict, "slug %s is another vacant's", slug)
		}
		all = append(all, store.Put{Key: d.Key, If: d.Version, WriteID: id, Data: []byte(g.ID.String())})
	}
	if g.heldSlug != "" {
		d, err := r.Store.Doc(ctx, SlugKey(g.heldSlug))
		if err != nil {
			return nil, err
		}
		if string(d.Data) == g.ID.String() {
			all = append(all, store.Put{Key: d.Key, If: d.Version, WriteID: id})
		}
	}
	return all, nil
}

// VenueOf returns the vacant that has claimed a slug; ok is false if none has.
func (r *Registry) VenueOf(ctx context.Context, slug string) (id identity.ID, ok bool, err error) {
	d, err := r.Store.Doc(ctx, SlugKey(slug))
	if err != nil || len(d.Data) == 0 {
		return id, false, Problem(err)
	}
	if id, err = identity.ParseID(string(d.Data)); err != nil {
		return id, false, problem.Wrap(problem.Damaged, err, "the claim of slug %s is not readable", slug)
	}
	return id, true, nil
}

// VenueCount returns the number of listed vacants. It writes nothing: not every function
// that tells the number may. A store without the number is counted.
func (r *Registry) VenueCount(ctx context.Context) (int64, error) {
	d, err := r.Store.Doc(ctx, VenueCountKey())
	if err != nil || d.Version > 0 {
		return d.Number, Problem(err)
	}
	n, err := r.countVenues(ctx)
	return n, Problem(err)
}

// KeepVenueCount writes the number of listed vacants if a store has none, before a vacant is
// listed or unlisted: it is 0 before the first event; a store of a Vacancy before the number
// is counted.
func (r *Registry) KeepVenueCount(ctx context.Context) error {
	d, err := r.Store.Doc(ctx, VenueCountKey())
	if err != nil || d.Version > 0 {
		return Problem(err)
	}
	n, err := r.countVenues(ctx)
	if err != nil {
		return Problem(err)
	}
	id, err := r.updater().NewWriteID()
	if err != nil {
		return err
	}
	err = r.updater().Commit(ctx, store.Put{Key: VenueCountKey(), WriteID: id, Number: n})
	if store.IsConflict(err) { // another process was faster
		return nil
	}
	return Problem(err)
}

// countVenues counts the listed vacants: of all that have an event, because not all
// functions may read the index of registrations.
func (r *Registry) countVenues(ctx context.Context) (n int64, err error) {
	seen := map[identity.ID]bool{}
	for from := uint64(1); ; {
		rows, err := r.Store.Rows(ctx, EventStream(), from, store.MaxPage, store.Ascending)
		if err != nil {
			return 0, err
		}
		var ids []identity.ID
		for _, row := range rows {
			l, err := DecodeEventRow(row)
			if err != nil {
				return 0, err
			}
			if !seen[l.Actor] {
				seen[l.Actor] = true
				ids = append(ids, l.Actor)
			}
		}
		all, err := r.GetMany(ctx, ids)
		if err != nil {
			return 0, err
		}
		for i := range all {
			if all[i].Listed() {
				n++
			}
		}
		if len(rows) == 0 {
			return n, nil
		}
		from = rows[len(rows)-1].Position + 1
	}
}
