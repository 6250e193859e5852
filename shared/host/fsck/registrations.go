package fsck

import (
	"context"
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (r *run) registration(ctx context.Context, id identity.ID, says *published) error {
	k := registry.RegistrationKey(id)
	d, err := r.document(ctx, k)
	if err != nil {
		return err
	}
	g, err := registry.RegistrationDocs.Parse(d)
	if d.Version == 0 {
		g, err = registry.Registration{ID: id}, nil
	}
	if err != nil {
		err = r.broken(k, Document, "a registration of "+id.String(), err)
	} else {
		err = r.registered(ctx, k, &g, says)
	}
	if err != nil {
		return err
	}
	return r.revocation(ctx, id, says)
}

func (r *run) registered(ctx context.Context, k store.Key, g *registry.Registration, says *published) error {
	if g.Joined == 0 {
		if says.listed {
			r.found(inDocument(k, Registration, "one, as there are events", "none"))
		}
		return r.manifest(ctx, k, g)
	}
	r.result.Registered++
	if says.whole {
		r.lastEvent(k, g, says)
	}
	r.registeredCard(k, g)
	if g.ListingSource == registry.SourceSigned && (g.Listing == nil || !g.Listing.Verify()) {
		r.found(inDocument(k, Signature, "a listing signed by "+g.ID.String(), "one that is not"))
	}
	if g.Listed() {
		r.venues++
	}
	if err := r.slug(ctx, g); err != nil {
		return err
	}
	if err := r.manifest(ctx, k, g); err != nil {
		return err
	}
	return r.edges(ctx, g.ID)
}

func (r *run) slug(ctx context.Context, g *registry.Registration) error {
	if g.Listing == nil || g.Listing.Venue == nil || g.Listing.Venue.Slug == "" {
		return nil
	}
	slug := g.Listing.Venue.Slug
	k := registry.SlugKey(slug)
	d, err := r.document(ctx, k)
	if err != nil || string(d.Data) == g.ID.String() {
		return err
	}
	if _, no := identity.ParseID(string(d.Data)); no != nil || !g.HasGivenUp(slug) {
		r.found(inDocument(k, Registration, "the claim of "+g.ID.String()+", whose listing has the slug", fmt.Sprintf("%.80q", d.Data)))
	}
	return nil
}

func (r *run) countVenues(ctx context.Context) error {
	// Other findings could explain a difference, so the count is compared only without them.
	if err := r.flush(); err != nil {
		return err
	}
	k := registry.VenueCountKey()
	d, err := r.document(ctx, k)
	if err != nil || r.result.Findings > 0 || d.Number == r.venues {
		return err
	}
	r.foundAt(d.Version, inDocument(k, Registration, fmt.Sprintf("%d, as many as are listed", r.venues), fmt.Sprint(d.Number)))
	return nil
}

func (r *run) lastEvent(k store.Key, g *registry.Registration, says *published) {
	status := registry.StatusActive
	if says.last == event.Revoke {
		status = registry.StatusRevoked
	}
	for _, held := range []struct {
		what      string
		want, got any
	}{
		{"last event", says.position, uint64(g.ActorSeq)},
		{"place of the last event", says.seq, g.LastSeq},
		{"place of the first event", says.joined, g.Joined},
		{"card", says.card.Card, g.CardHash},
		{"visibility", says.card.Visibility, g.Signed},
		{"status", status, g.Status},
	} {
		if held.want != held.got {
			r.found(inDocument(k, Registration, fmt.Sprintf("%s %v, as its events say", held.what, held.want), fmt.Sprint(held.got)))
			return
		}
	}
}

func (r *run) registeredCard(k store.Key, g *registry.Registration) {
	c, err := card.Parse(g.Card)
	switch {
	case err != nil:
		r.found(inDocument(k, Card, "a capability card", problem.Of(err).Text()))
	case c.VacantID != g.ID:
		r.found(inDocument(k, Card, "the card of "+g.ID.String(), "the card of "+c.VacantID.String()))
	case !c.Verify():
		r.found(inDocument(k, Card, "a card signed by "+g.ID.String(), "one that is not"))
	case c.Hash() != g.CardHash:
		r.found(inDocument(k, Card, "the card "+g.CardHash.String(), c.Hash().String()))
	}
}

func (r *run) revocation(ctx context.Context, id identity.ID, says *published) error {
	k := registry.RevokedKey(id)
	d, err := r.document(ctx, k)
	if err != nil {
		return err
	}
	revoked := says.last == event.Revoke
	if revoked {
		if err := r.listedRevoked(ctx, id); err != nil {
			return err
		}
	}
	if d.Version == 0 {
		if revoked {
			r.found(inDocument(k, Revocation, "one, as its last event says", "none"))
		}
		return nil
	}
	v, err := registry.RevokedDocs.Parse(d)
	switch {
	case err != nil:
		return r.broken(k, Revocation, "a revocation of "+id.String(), err)
	case !says.whole:
	case !revoked:
		r.found(inDocument(k, Revocation, "none, as no event says so", fmt.Sprintf("one by event %d", v.ActorSeq)))
	case v.Hash != says.hash || v.Seq != says.seq || uint64(v.ActorSeq) != says.position || v.Reason != says.reason:
		r.found(inDocument(k, Revocation, fmt.Sprintf("the revocation of event %d, for %.80q", says.position, says.reason),
			fmt.Sprintf("the revocation of event %d, for %.80q", v.ActorSeq, v.Reason)))
	}
	return nil
}

// listedRevoked checks that the list of all revocations, which is read for calls, does not rule out
// id.
func (r *run) listedRevoked(ctx context.Context, id identity.ID) error {
	k := registry.RevokedListKey()
	d, err := r.document(ctx, k)
	if err != nil {
		return err
	}
	var list registry.RevokedList // a missing list rules out all ids
	if d.Version > 0 {
		if list, err = registry.RevokedListDocs.Parse(d); err != nil {
			return r.broken(k, Document, "a list of revocations", err)
		}
	}
	if !list.Has(id) {
		r.found(inDocument(k, Revocation, "the beginning of "+id.String()+", whose key was revoked", "none"))
	}
	return nil
}

func (r *run) eventsWithoutRegistration(ctx context.Context) error {
	err := r.each(ctx, registry.RegistrationDocs.Indexed(), func(d store.Doc) error {
		_, id, _ := strings.Cut(d.Key.Partition, "#")
		return r.registeredWithoutEvents(ctx, d.Key, id)
	})
	if err != nil {
		return err
	}
	return r.each(ctx, registry.RevokedDocs.All(), func(d store.Doc) error {
		if d.Key == registry.RevokedListKey() {
			return nil
		}
		return r.registeredWithoutEvents(ctx, d.Key, d.Key.Sort)
	})
}

func (r *run) registeredWithoutEvents(ctx context.Context, k store.Key, text string) error {
	if err := r.flushIfFull(); err != nil {
		return err
	}
	id, err := identity.ParseID(text)
	if err != nil {
		r.found(inDocument(k, Document, "the key of a vacant", "another"))
		return nil
	}
	some, err := r.any(ctx, registry.ActorStream(id))
	if err == nil && !some {
		r.found(inDocument(k, Event, "an event that says so", "none"))
	}
	return err
}
