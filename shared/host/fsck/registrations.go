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

func (r *run) registration(ctx context.Context, id identity.ID, history *published) error {
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
		err = r.reportDamage(k, Document, "a registration of "+id.String(), err)
	} else {
		err = r.checkRegistered(ctx, k, &g, history)
	}
	if err != nil {
		return err
	}
	return r.revocation(ctx, id, history)
}

func (r *run) checkRegistered(ctx context.Context, k store.Key, g *registry.Registration, history *published) error {
	if g.FirstSeq == 0 {
		if history.listed {
			r.addFinding(inDocument(k, Registration, "a registration, because the vacant has events", "none"))
		}
		return r.manifest(ctx, k, g)
	}
	r.result.Registered++
	if history.whole {
		r.lastEvent(k, g, history)
	}
	r.registeredCard(k, g)
	if g.ListingSource == registry.SourceSigned && (g.Listing == nil || !g.Listing.Verify()) {
		r.addFinding(inDocument(k, Signature, "a listing signed by "+g.ID.String(), "an invalid signature"))
	}
	if g.IsListed() {
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
	if _, no := identity.ParseID(string(d.Data)); no != nil || !g.HasReleasedSlug(slug) {
		r.addFinding(inDocument(k, Registration, "the claim of "+g.ID.String()+", whose listing has the slug", fmt.Sprintf("%.80q", d.Data)))
	}
	return nil
}

func (r *run) countVenues(ctx context.Context) error {
	// Other findings could explain a difference, so the count is compared only if the check has
	// none.
	if err := r.flush(); err != nil {
		return err
	}
	k := registry.VenueCountKey()
	d, err := r.document(ctx, k)
	if err != nil || r.result.Findings > 0 || d.Number == r.venues {
		return err
	}
	r.addFindingAt(d.Version, inDocument(k, Registration, fmt.Sprintf("%d, the number of listed vacants", r.venues), fmt.Sprint(d.Number)))
	return nil
}

func (r *run) lastEvent(k store.Key, g *registry.Registration, history *published) {
	status := registry.StatusActive
	if history.last == event.Revoke {
		status = registry.StatusRevoked
	}
	for _, held := range []struct {
		what      string
		want, got any
	}{
		{"last event", history.position, uint64(g.ActorSeq)},
		{"place of the last event", history.seq, g.LastSeq},
		{"place of the first event", history.joined, g.FirstSeq},
		{"card", history.card.Card, g.CardHash},
		{"visibility", history.card.Visibility, g.SignedVisibility},
		{"status", status, g.Status},
	} {
		if held.want != held.got {
			r.addFinding(inDocument(k, Registration, fmt.Sprintf("%s %v, according to its events", held.what, held.want), fmt.Sprint(held.got)))
			return
		}
	}
}

func (r *run) registeredCard(k store.Key, g *registry.Registration) {
	c, err := card.Parse(g.Card)
	switch {
	case err != nil:
		r.addFinding(inDocument(k, Card, "a capability card", problem.AsError(err).Text()))
	case c.VacantID != g.ID:
		r.addFinding(inDocument(k, Card, "the card of "+g.ID.String(), "the card of "+c.VacantID.String()))
	case !c.Verify():
		r.addFinding(inDocument(k, Card, "a card signed by "+g.ID.String(), "an invalid signature"))
	case c.Hash() != g.CardHash:
		r.addFinding(inDocument(k, Card, "the card "+g.CardHash.String(), c.Hash().String()))
	}
}

func (r *run) revocation(ctx context.Context, id identity.ID, history *published) error {
	k := registry.RevokedKey(id)
	d, err := r.document(ctx, k)
	if err != nil {
		return err
	}
	revoked := history.last == event.Revoke
	if revoked {
		if err := r.listedRevoked(ctx, id); err != nil {
			return err
		}
	}
	if d.Version == 0 {
		if revoked {
			r.addFinding(inDocument(k, Revocation, "a revocation, because the last event is one", "none"))
		}
		return nil
	}
	v, err := registry.RevokedDocs.Parse(d)
	switch {
	case err != nil:
		return r.reportDamage(k, Revocation, "a revocation of "+id.String(), err)
	case !history.whole:
	case !revoked:
		r.addFinding(inDocument(k, Revocation, "no revocation, because no event records one", fmt.Sprintf("one by event %d", v.ActorSeq)))
	case v.Hash != history.hash || v.Seq != history.seq || uint64(v.ActorSeq) != history.position || v.Reason != history.reason:
		r.addFinding(inDocument(k, Revocation, fmt.Sprintf("the revocation of event %d, for %.80q", history.position, history.reason),
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
			return r.reportDamage(k, Document, "a list of revocations", err)
		}
	}
	if !list.Has(id) {
		r.addFinding(inDocument(k, Revocation, "the beginning of "+id.String()+", whose key was revoked", "none"))
	}
	return nil
}

func (r *run) eventsWithoutRegistration(ctx context.Context) error {
	err := r.each(ctx, registry.RegistrationDocs.IndexRange(), func(d store.Doc) error {
		_, id, _ := strings.Cut(d.Key.Partition, "#")
		return r.registeredWithoutEvents(ctx, d.Key, id)
	})
	if err != nil {
		return err
	}
	return r.each(ctx, registry.RevokedDocs.Range(), func(d store.Doc) error {
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
		r.addFinding(inDocument(k, Document, "the key of a vacant", "another"))
		return nil
	}
	some, err := r.hasRows(ctx, registry.ActorStream(id))
	if err == nil && !some {
		r.addFinding(inDocument(k, Event, "an event of this vacant", "none"))
	}
	return err
}
