package vacants

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// PublishOptions contains the changes of a publication. Nil fields except Visibility are left
// unchanged.
type PublishOptions struct {
	// Asker is the party that publishes the vacant. Only the operator may reuse a slug of another
	// tenant's vacant.
	Asker      Asker
	Capability *string
	// If Visibility is nil, a hidden or unpublished vacant becomes PUBLIC.
	Visibility *lifecycle.Visibility
	Listing    *ListingOptions
	EditVenue  func(*listing.Venue) error

	cardSubstrates []string
}

// ListingOptions replaces the complete listing, but a nil Venue leaves the venue unchanged.
type ListingOptions struct {
	Tags, Skills           []string
	Summary, Family, Owner string
	Price                  int64 // the vacant's price in micro-dollars, or 0
	Venue                  *listing.Venue
}

// Publish lists a vacant in this host's registry. A LOCAL vacant that becomes visible becomes
// ACTIVE. Repeating the same publication has no effect.
func (v *Directory) Publish(ctx context.Context, id identity.ID, options PublishOptions) (Record, registry.Receipt, error) {
	if options.Capability != nil {
		if err := checkCapability(*options.Capability); err != nil {
			return Record{}, registry.Receipt{}, err
		}
	}
	return v.commitPublication(ctx, id, "published", func(registration *registry.Registration) (PublishOptions, error) {
		if options.Visibility == nil {
			visibility := lifecycle.Public
			if registration.FirstSeq > 0 && registration.SignedVisibility != lifecycle.Hidden {
				visibility = registration.SignedVisibility
			}
			return PublishOptions{Asker: options.Asker, Capability: options.Capability, Visibility: &visibility, Listing: options.Listing, EditVenue: options.EditVenue}, nil
		}
		return options, nil
	})
}

// Unpublish removes a vacant from search results. Callers that know its id can still call it.
func (v *Directory) Unpublish(ctx context.Context, id identity.ID) (Record, registry.Receipt, error) {
	return v.commitPublication(ctx, id, "unpublished", func(registration *registry.Registration) (PublishOptions, error) {
		if registration.FirstSeq == 0 {
			return PublishOptions{}, problem.New(problem.Conflict, "vacant %s was never published", id.Short())
		}
		hidden := lifecycle.Hidden
		return PublishOptions{Visibility: &hidden}, nil
	})
}

// republish publishes id with unchanged options and a card for the host's current URL. It reports
// whether the card has changed. A vacant that has become a closed child is hidden.
func (v *Directory) republish(ctx context.Context, id identity.ID) (changed bool, err error) {
	_, receipt, err := v.commitPublication(ctx, id, "published", func(registration *registry.Registration) (PublishOptions, error) {
		visibility := registration.SignedVisibility
		if registration.Closed {
			visibility = lifecycle.Hidden
		}
		return PublishOptions{Visibility: &visibility}, nil
	})
	if problem.Is(err, problem.Conflict) {
		if r, readErr := v.getAsOperator(ctx, id); readErr == nil && r.State.IsRetired() {
			return false, nil // the vacant has become terminal and keeps its card
		}
	}
	return err == nil && !receipt.Replayed, err
}

func (v *Directory) isPublished(ctx context.Context, id identity.ID) (bool, error) {
	if v.Registry == nil {
		return false, nil
	}
	registration, ok, err := v.Registry.Get(ctx, id)
	return ok && registration.Status == registry.StatusActive, err
}

type publishOptionsFunc func(*registry.Registration) (PublishOptions, error)

func (v *Directory) commitPublication(ctx context.Context, id identity.ID, participle string, optionsFor publishOptionsFunc) (Record, registry.Receipt, error) {
	noReceipt := registry.Receipt{}
	if v.Registry == nil {
		return Record{}, noReceipt, problem.New(problem.Conflict, "this host has no registry")
	}
	if err := v.preloadKey(ctx, id); err != nil {
		return Record{}, noReceipt, err
	}
	var r Record
	var receipt registry.Receipt
	ctx, cancel := store.WithDefaultTimeout(ctx)
	defer cancel()
	unlock, err := v.lockWithTurn(ctx, id)
	if err != nil {
		return Record{}, noReceipt, err
	}
	defer unlock()
	err = v.commitTx(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if r, err = v.getAsOperator(ctx, id); err == nil {
			r, receipt, err = v.publishOnce(ctx, tx, r, participle, optionsFor)
		}
		return err
	})
	if err != nil {
		return Record{}, noReceipt, err
	}
	return r, receipt, nil
}

// convertSequenceError converts err to a conflict if another event of id has taken position seq. A
// retry then signs the event for the next position.
func (v *Directory) convertSequenceError(ctx context.Context, id identity.ID, seq int64, err error) error {
	switch problem.AsError(err).Kind {
	case problem.OutOfSequence, problem.IdempotencyConflict, problem.Equivocation:
		next, readErr := v.Registry.NextActorSeq(ctx, id)
		if readErr != nil {
			return readErr
		}
		if next != seq {
			return &store.TakenError{Stream: registry.ActorStream(id), Position: uint64(seq)}
		}
	}
	return err
}

func (v *Directory) preloadKey(ctx context.Context, id identity.ID) error {
	// The key is opened before the registry's turn is taken, because opening may be slow.
	r, err := v.GetExisting(ctx, id)
	if err != nil {
		return err
	}
	return v.signers.Key(id, r.sealedSeed).Ready(ctx)
}

func (v *Directory) publishOnce(ctx context.Context, tx *store.Tx, r Record, participle string, optionsFor publishOptionsFunc) (Record, registry.Receipt, error) {
	id := r.ID
	pending, err := v.preparePublication(ctx, r, participle, optionsFor)
	if err != nil {
		return Record{}, registry.Receipt{}, err
	}
	if !pending.hasChanges() {
		// The registration of an older release may have no name.
		if err := v.Registry.SetName(ctx, tx, id, r.Name); err != nil {
			return Record{}, registry.Receipt{}, err
		}
		return pending.record, registry.Receipt{ID: id, Visibility: pending.registration.Visibility, Seq: pending.registration.LastSeq, CardHash: pending.registration.CardHash, Replayed: true}, nil
	}
	publication, err := pending.sign(ctx, v)
	if err != nil {
		return Record{}, registry.Receipt{}, err
	}
	receipt, err := v.Registry.PublishHosted(ctx, tx, publication)
	if err == nil && receipt.Replayed {
		err = problem.New(problem.OutOfSequence, "event %d of vacant %s exists already", publication.ActorSeq, id.Short())
	}
	if err != nil {
		return Record{}, registry.Receipt{}, v.convertSequenceError(ctx, id, publication.ActorSeq, err)
	}
	e := &entry{logbook.KindPublished, logbook.PublishedPayload(logbook.Publication{
		CardHash: pending.card.Hash(), Endpoint: pending.card.Endpoint, ActorSeq: publication.ActorSeq, Visibility: publication.State.EffectiveVisibility(publication.Visibility), FromState: pending.oldState, ToState: pending.record.State,
	})}
	return pending.record, receipt, v.addChange(ctx, tx, &pending.record, e)
}

func (v *Directory) lockWithTurn(ctx context.Context, ids ...identity.ID) (unlock func(), err error) {
	// The turn is the registry's lock for appending events.
	unlockLogbooks, err := v.logbookLocks.Lock(ctx, ids...)
	if err != nil {
		return nil, err
	}
	releaseTurn, err := v.Registry.AcquireTurn(ctx)
	if err != nil {
		unlockLogbooks()
		return nil, err
	}
	return func() { releaseTurn(); unlockLogbooks() }, nil
}

type pendingPublication struct {
	asker        Asker
	record       Record
	oldState     lifecycle.State
	card         card.Card
	registration registry.Registration
	visibility   lifecycle.Visibility
	listing      *listing.Listing
}

func (v *Directory) preparePublication(ctx context.Context, record Record, participle string, optionsFor publishOptionsFunc) (pending pendingPublication, err error) {
	pending.record = record
	r := &pending.record
	pending.oldState = r.State
	if r.IsDeleted() {
		return pending, deletedError(r)
	}
	if r.State.IsRetired() {
		return pending, problem.New(problem.Conflict, "vacant %s is %s; it cannot be %s", r.Name, r.State, participle)
	}
	if pending.registration, _, err = v.Registry.Get(ctx, r.ID); err != nil {
		return pending, err
	}
	changes, err := optionsFor(&pending.registration)
	if err != nil {
		return pending, err
	}
	base, err := v.requireBaseURL(ctx)
	if err != nil {
		return pending, err
	}
	capability := r.Capability
	if changes.Capability != nil {
		capability = *changes.Capability
	}
	if pending.card, _, err = v.getOrSignCard(ctx, r, base, capability, changes.cardSubstrates); err != nil {
		return pending, err
	}
	pending.asker = changes.Asker
	pending.visibility = *changes.Visibility
	if r.State == lifecycle.Local && pending.visibility != lifecycle.Hidden {
		r.State = lifecycle.Active // a LOCAL vacant is hidden
	}
	options, err := changes.nextListing(&pending.registration, r)
	if err != nil {
		return pending, err
	}
	pending.listing = options.newListing(&pending.registration, r.ID, v.now())
	return pending, nil
}

// ListedPrice returns the maximum price of a call in micro-dollars, for r's listings. If givenPrice
// is neither zero nor this price, the error is Malformed.
func (r *Record) ListedPrice(givenPrice int64) (int64, error) {
	var hold int64
	if r.Price != nil {
		hold = int64(r.Price.Hold())
	}
	if givenPrice != 0 && givenPrice != hold {
		return 0, problem.Invalid("listing.price", fmt.Sprintf("%d micro-dollars, the vacant's price, or none; set it with vacancy price", hold), strconv.FormatInt(givenPrice, 10))
	}
	return hold, nil
}

func (w *PublishOptions) nextListing(registration *registry.Registration, r *Record) (*ListingOptions, error) {
	var givenPrice int64
	options := ListingOptions{}
	l := registration.Listing
	switch {
	case w.Listing != nil:
		options, givenPrice = *w.Listing, w.Listing.Price
	case l != nil:
		options = ListingOptions{Tags: l.Tags, Skills: l.Skills, Summary: l.Summary, Family: l.ModelFamily, Owner: l.Owner}
	}
	var err error
	if options.Price, err = r.ListedPrice(givenPrice); err != nil {
		return nil, err
	}
	if options.Venue == nil && l != nil {
		options.Venue = l.Venue
	}
	if w.EditVenue != nil {
		v := listing.DefaultVenue()
		if options.Venue != nil {
			v = *options.Venue
		}
		if err := w.EditVenue(&v); err != nil {
			return nil, err
		}
		options.Venue = &v
	}
	if w.Listing == nil && w.EditVenue == nil && (l == nil && options.Price == 0 || l != nil && l.Price == options.Price) {
		return nil, nil
	}
	return &options, nil
}

func (w *ListingOptions) newListing(registration *registry.Registration, id identity.ID, now time.Time) *listing.Listing {
	if w == nil {
		return nil
	}
	// The version is the time, so it is never used twice, even if an operator's listing replaces
	// this listing.
	l := listing.New(id, max(now.UnixMicro(), 1))
	l.Tags, l.Skills, l.Summary, l.ModelFamily, l.Owner, l.Price = w.Tags, w.Skills, w.Summary, w.Family, w.Owner, w.Price
	l.Venue = w.Venue
	if registration.Listing == nil {
		return &l
	}
	if registration.ListingSource == registry.SourceSigned && registration.Listing.Equal(&l) {
		return nil
	}
	l.Version = max(l.Version, registration.Listing.Version+1)
	return &l
}

func (a *pendingPublication) hasChanges() bool {
	registration := &a.registration
	return registration.FirstSeq == 0 || registration.Status != registry.StatusActive || registration.CardHash != a.card.Hash() || registration.SignedVisibility != a.visibility ||
		registration.State != a.record.State || a.record.State != a.oldState || a.listing != nil
}

func (a *pendingPublication) sign(ctx context.Context, v *Directory) (registry.Publication, error) {
	id := a.record.ID
	signer, err := v.signers.Signer(ctx, id, a.record.sealedSeed)
	if err != nil {
		return registry.Publication{}, err
	}
	// If another event was added since the registration was read, the registry rejects seq.
	seq := a.registration.ActorSeq + 1
	e := event.Event{
		Type: event.Register, Actor: id, Time: v.now().UnixMilli(), ActorSeq: seq, IdempotencyKey: fmt.Sprintf("publish:%d", seq),
		Payload: event.RegisterPayload(a.card.Hash(), a.card.HaloVersion, id, a.record.State.EffectiveVisibility(a.visibility)),
	}
	if currentHash := a.registration.CardHash; a.registration.FirstSeq > 0 && currentHash != a.card.Hash() {
		e.IdempotencyKey = event.ReplacesKeyAt(currentHash, seq)
	}
	if err := e.Sign(ctx, signer); err != nil {
		return registry.Publication{}, err
	}
	if a.listing != nil {
		if err := a.listing.Sign(ctx, signer); err != nil {
			return registry.Publication{}, err
		}
	}
	return registry.Publication{
		Name: a.record.Name, Card: a.record.Card, State: a.record.State, Visibility: a.visibility, Listing: a.listing,
		Time: e.Time, ActorSeq: seq, IdempotencyKey: e.IdempotencyKey, Signature: e.Signature,
		MayReuseSlug: func(ctx context.Context, former identity.ID) (bool, error) {
			if a.asker == OperatorAsker() {
				return true, nil
			}
			formerRecord, ok, err := v.readRecord(ctx, former)
			return ok && formerRecord.Tenant == a.record.Tenant, err
		},
	}, nil
}
