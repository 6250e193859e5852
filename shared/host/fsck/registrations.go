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

func (r *run) checkRegistration(ctx context.Context, id identity.ID, history *actorHistory) error {
	k := registry.RegistrationKey(id)
	d, err := r.readDocument(ctx, k)
	if err != nil {
		return err
	}
	reg, err := registry.RegistrationDocs.Parse(d)
	if d.Version == 0 {
		reg, err = registry.Registration{ID: id}, nil
	}
	if err != nil {
		err = r.reportDamage(k, Document, "a registration of "+id.String(), err)
	} else {
		err = r.checkRegistered(ctx, k, &reg, history)
	}
	if err != nil {
		return err
	}
	return r.checkRevocation(ctx, id, history)
}

func (r *run) checkRegistered(ctx context.Context, k store.Key, reg *registry.Registration, history *actorHistory) error {
	if reg.FirstSeq == 0 {
		if history.hasRegistered {
			r.addFinding(newDocumentFinding(k, Registration, "a registration, because the vacant has events", "none"))
		}
		return r.checkRegisteredManifest(ctx, k, reg)
	}
	r.result.Registered++
	if history.isComplete {
		r.checkLastEvent(k, reg, history)
	}
	r.checkRegisteredCard(k, reg)
	if reg.ListingSource == registry.SourceSigned && (reg.Listing == nil || !reg.Listing.Verify()) {
		r.addFinding(newDocumentFinding(k, Signature, "a listing signed by "+reg.ID.String(), "an invalid signature"))
	}
	if reg.IsListed() {
		r.venueCount++
	}
	if err := r.checkSlug(ctx, reg); err != nil {
		return err
	}
	if err := r.checkRegisteredManifest(ctx, k, reg); err != nil {
		return err
	}
	return r.checkEdges(ctx, reg.ID)
}

func (r *run) checkSlug(ctx context.Context, reg *registry.Registration) error {
	if reg.Listing == nil || reg.Listing.Venue == nil || reg.Listing.Venue.Slug == "" {
		return nil
	}
	slug := reg.Listing.Venue.Slug
	k := registry.SlugKey(slug)
	d, err := r.readDocument(ctx, k)
	if err != nil || string(d.Data) == reg.ID.String() {
		return err
	}
	if _, parseErr := identity.ParseID(string(d.Data)); parseErr != nil || !reg.HasReleasedSlug(slug) {
		r.addFinding(newDocumentFinding(k, Registration, "the claim of "+reg.ID.String()+", whose listing has the slug", fmt.Sprintf("%.80q", d.Data)))
	}
	return nil
}

func (r *run) checkVenueCount(ctx context.Context) error {
	// Other findings could explain a difference, so the count is compared only if the check has
	// none.
	if err := r.flush(); err != nil {
		return err
	}
	k := registry.ListedCountKey()
	d, err := r.readDocument(ctx, k)
	if err != nil || r.result.Findings > 0 || d.Number == r.venueCount {
		return err
	}
	r.addFindingAt(d.Version, newDocumentFinding(k, Registration, fmt.Sprintf("%d, the number of listed vacants", r.venueCount), fmt.Sprint(d.Number)))
	return nil
}

func (r *run) checkLastEvent(k store.Key, reg *registry.Registration, history *actorHistory) {
	status := registry.StatusActive
	if history.lastType == event.Revoke {
		status = registry.StatusRevoked
	}
	for _, field := range []struct {
		what      string
		want, got any
	}{
		{"last event", history.lastPosition, uint64(reg.ActorSeq)},
		{"place of the last event", history.lastSeq, reg.LastSeq},
		{"place of the first event", history.firstSeq, reg.FirstSeq},
		{"card", history.registration.CardHash, reg.CardHash},
		{"visibility", history.registration.Visibility, reg.SignedVisibility},
		{"status", status, reg.Status},
	} {
		if field.want != field.got {
			r.addFinding(newDocumentFinding(k, Registration, fmt.Sprintf("%s %v, according to its events", field.what, field.want), fmt.Sprint(field.got)))
			return
		}
	}
}

func (r *run) checkRegisteredCard(k store.Key, reg *registry.Registration) {
	c, err := card.Parse(reg.Card)
	switch {
	case err != nil:
		r.addFinding(newDocumentFinding(k, Card, "a capability card", problem.AsError(err).Text()))
	case c.VacantID != reg.ID:
		r.addFinding(newDocumentFinding(k, Card, "the card of "+reg.ID.String(), "the card of "+c.VacantID.String()))
	case !c.Verify():
		r.addFinding(newDocumentFinding(k, Card, "a card signed by "+reg.ID.String(), "an invalid signature"))
	case c.Hash() != reg.CardHash:
		r.addFinding(newDocumentFinding(k, Card, "the card "+reg.CardHash.String(), c.Hash().String()))
	}
}

func (r *run) checkRevocation(ctx context.Context, id identity.ID, history *actorHistory) error {
	k := registry.RevokedKey(id)
	d, err := r.readDocument(ctx, k)
	if err != nil {
		return err
	}
	isRevoked := history.lastType == event.Revoke
	if isRevoked {
		if err := r.checkRevokedList(ctx, id); err != nil {
			return err
		}
	}
	if d.Version == 0 {
		if isRevoked {
			r.addFinding(newDocumentFinding(k, Revocation, "a revocation, because the last event is one", "none"))
		}
		return nil
	}
	v, err := registry.RevokedDocs.Parse(d)
	switch {
	case err != nil:
		return r.reportDamage(k, Revocation, "a revocation of "+id.String(), err)
	case !history.isComplete:
	case !isRevoked:
		r.addFinding(newDocumentFinding(k, Revocation, "no revocation, because no event records one", fmt.Sprintf("one by event %d", v.ActorSeq)))
	case v.Hash != history.lastHash || v.Seq != history.lastSeq || uint64(v.ActorSeq) != history.lastPosition || v.Reason != history.revocationReason:
		r.addFinding(newDocumentFinding(k, Revocation, fmt.Sprintf("the revocation of event %d, for %.80q", history.lastPosition, history.revocationReason),
			fmt.Sprintf("the revocation of event %d, for %.80q", v.ActorSeq, v.Reason)))
	}
	return nil
}

// checkRevokedList reports a list of revocations that rules out the revoked id.
func (r *run) checkRevokedList(ctx context.Context, id identity.ID) error {
	k := registry.RevokedListKey()
	d, err := r.readDocument(ctx, k)
	if err != nil {
		return err
	}
	var list registry.RevokedList // a missing list rules out all ids
	if d.Version > 0 {
		if list, err = registry.RevokedListDocs.Parse(d); err != nil {
			return r.reportDamage(k, Document, "a list of revocations", err)
		}
	}
	if !list.MayContain(id) {
		r.addFinding(newDocumentFinding(k, Revocation, "the prefix of "+id.String()+", whose key was revoked", "none"))
	}
	return nil
}

func (r *run) checkRegisteredHaveEvents(ctx context.Context) error {
	err := r.eachDocument(ctx, registry.RegistrationDocs.IndexRange(), func(d store.Doc) error {
		_, id, _ := strings.Cut(d.Key.Partition, "#")
		return r.checkHasEvents(ctx, d.Key, id)
	})
	if err != nil {
		return err
	}
	return r.eachDocument(ctx, registry.RevokedDocs.Range(), func(d store.Doc) error {
		if d.Key == registry.RevokedListKey() {
			return nil
		}
		return r.checkHasEvents(ctx, d.Key, d.Key.Sort)
	})
}

func (r *run) checkHasEvents(ctx context.Context, k store.Key, text string) error {
	if err := r.flushIfFull(); err != nil {
		return err
	}
	id, err := identity.ParseID(text)
	if err != nil {
		r.addFinding(newDocumentFinding(k, Document, "the key of a vacant", "another"))
		return nil
	}
	hasRows, err := r.hasRows(ctx, registry.ActorStream(id))
	if err == nil && !hasRows {
		r.addFinding(newDocumentFinding(k, Event, "an event of this vacant", "none"))
	}
	return err
}
