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

// PublishOptions contains the changes of a publication. Nil fields are left unchanged.
type PublishOptions struct {
	// By is the party that publishes the vacant. Only the operator may give the vacant a slug that a
	// vacant of another tenant has given up.
	By         Asker
	Capability *string // a new capability requires a new card
	// Visibility defaults to PUBLIC if the vacant is hidden or not published.
	Visibility *lifecycle.Visibility
	Listing    *ListingOptions
	// Venue changes the venue in the vacant's listing.
	Venue func(*listing.Venue) error

	// allowed contains the substrates for the card. If it is nil, the card's substrates do not
	// change.
	allowed []string
}

// ListingOptions replaces the complete listing, but a nil Venue leaves the venue unchanged. Package
// listing defines the fields and their limits.
type ListingOptions struct {
	Tags, Skills           []string
	Summary, Family, Owner string
	Price                  int64 // the vacant's price in micro-dollars, or 0
	Venue                  *listing.Venue
}

// Publish lists a vacant in this host's registry. The vacant signs the card, the register event and
// the listing, which are committed together with its record and a logbook entry. A LOCAL vacant
// that becomes visible becomes ACTIVE. Repeating the same publication has no effect.
func (v *Directory) Publish(ctx context.Context, id identity.ID, w PublishOptions) (Record, registry.Receipt, error) {
	if w.Capability != nil {
		if err := checkCapability(*w.Capability); err != nil {
			return Record{}, registry.Receipt{}, err
		}
	}
	return v.publish(ctx, id, "published", func(g *registry.Registration) (PublishOptions, error) {
		if w.Visibility == nil {
			as := lifecycle.Public
			if g.FirstSeq > 0 && g.SignedVisibility != lifecycle.Hidden {
				as = g.SignedVisibility
			}
			return PublishOptions{By: w.By, Capability: w.Capability, Visibility: &as, Listing: w.Listing, Venue: w.Venue}, nil
		}
		return w, nil
	})
}

// Unpublish removes a vacant from search results. Callers that know its id can still call it.
func (v *Directory) Unpublish(ctx context.Context, id identity.ID) (Record, registry.Receipt, error) {
	return v.publish(ctx, id, "unpublished", func(g *registry.Registration) (PublishOptions, error) {
		if g.FirstSeq == 0 {
			return PublishOptions{}, problem.New(problem.Conflict, "vacant %s was never published", id.Short())
		}
		hidden := lifecycle.Hidden
		return PublishOptions{Visibility: &hidden}, nil
	})
}

// republish publishes id with unchanged options and a card for the host's current URL. It reports
// whether the card has changed. If the vacant has become a closed child since then, it is hidden.
func (v *Directory) republish(ctx context.Context, id identity.ID) (changed bool, err error) {
	_, receipt, err := v.publish(ctx, id, "published", func(g *registry.Registration) (PublishOptions, error) {
		as := g.SignedVisibility
		if g.Closed {
			as = lifecycle.Hidden
		}
		return PublishOptions{Visibility: &as}, nil
	})
	if problem.Is(err, problem.Conflict) {
		if r, readErr := v.get(ctx, id); readErr == nil && r.State.IsClosed() {
			return false, nil // the vacant has become terminal and keeps its card
		}
	}
	return err == nil && !receipt.Replayed, err
}

func (v *Directory) isPublished(ctx context.Context, id identity.ID) (bool, error) {
	if v.Registry == nil {
		return false, nil
	}
	g, ok, err := v.Registry.Get(ctx, id)
	return ok && g.Status == registry.StatusActive, err
}

// publishOptionsFunc returns the options of a publication for the current registration.
type publishOptionsFunc func(*registry.Registration) (PublishOptions, error)

func (v *Directory) publish(ctx context.Context, id identity.ID, verb string, w publishOptionsFunc) (Record, registry.Receipt, error) {
	none := registry.Receipt{}
	if v.Registry == nil {
		return Record{}, none, problem.New(problem.Conflict, "this host has no registry")
	}
	if err := v.openKey(ctx, id); err != nil {
		return Record{}, none, err
	}
	var r Record
	var receipt registry.Receipt
	ctx, cancel := store.WithPatience(ctx)
	defer cancel()
	done, err := v.lockAll(ctx, id)
	if err != nil {
		return Record{}, none, err
	}
	defer done()
	err = v.update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if r, err = v.get(ctx, id); err == nil {
			r, receipt, err = v.publishOnce(ctx, tx, r, verb, w)
		}
		return err
	})
	if err != nil {
		return Record{}, none, err
	}
	return r, receipt, nil
}

// asConflict converts err to a conflict if another event of id has position seq. The event must
// then be signed again for the next position.
func (v *Directory) asConflict(ctx context.Context, id identity.ID, seq int64, err error) error {
	switch problem.AsError(err).Kind {
	case problem.Sequence, problem.Idempotency, problem.Equivocation:
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

// openKey opens id's key before the registry's turn is taken, because opening may be slow.
func (v *Directory) openKey(ctx context.Context, id identity.ID) error {
	r, err := v.GetExisting(ctx, id)
	if err != nil {
		return err
	}
	return v.signers.Key(id, r.seed).Ready(ctx)
}

func (v *Directory) publishOnce(ctx context.Context, tx *store.Tx, r Record, verb string, w publishOptionsFunc) (Record, registry.Receipt, error) {
	id := r.ID
	a, err := v.announce(ctx, r, verb, w)
	if err != nil {
		return Record{}, registry.Receipt{}, err
	}
	if !a.hasChanges() {
		// The registration of an older release may have no name.
		if err := v.Registry.SetName(ctx, tx, id, r.Name); err != nil {
			return Record{}, registry.Receipt{}, err
		}
		return a.record, registry.Receipt{ID: id, Visibility: a.reg.Visibility, Seq: a.reg.LastSeq, CardHash: a.reg.CardHash, Replayed: true}, nil
	}
	p, err := a.sign(ctx, v)
	if err != nil {
		return Record{}, registry.Receipt{}, err
	}
	receipt, err := v.Registry.PublishHosted(ctx, tx, p)
	if err == nil && receipt.Replayed { // another writer has published the same
		err = problem.New(problem.Sequence, "event %d of vacant %s exists already", p.ActorSeq, id.Short())
	}
	if err != nil {
		return Record{}, registry.Receipt{}, v.asConflict(ctx, id, p.ActorSeq, err)
	}
	e := &entry{logbook.KindPublished, logbook.PublishedPayload(logbook.Publication{
		Card: a.card.Hash(), Endpoint: a.card.Endpoint, ActorSeq: p.ActorSeq, Visibility: p.State.EffectiveVisibility(p.Visibility), From: a.from, To: a.record.State,
	})}
	return a.record, receipt, v.addChange(ctx, tx, &a.record, e)
}

// lockAll locks the logbooks of ids and takes the registry's turn (its lock for appending events).
// It returns a function that releases all these locks.
func (v *Directory) lockAll(ctx context.Context, ids ...identity.ID) (done func(), err error) {
	written, err := v.logs.Lock(ctx, ids...)
	if err != nil {
		return nil, err
	}
	placed, err := v.Registry.AcquireTurn(ctx)
	if err != nil {
		written()
		return nil, err
	}
	return func() { placed(); written() }, nil
}

// announcement is a publication that is being prepared.
type announcement struct {
	by         Asker
	record     Record
	from       lifecycle.State
	card       card.Card
	reg        registry.Registration // stored registration
	visibility lifecycle.Visibility
	listing    *listing.Listing // unsigned, or nil if unchanged
}

func (v *Directory) announce(ctx context.Context, record Record, verb string, w publishOptionsFunc) (a announcement, err error) {
	a.record = record
	r := &a.record
	a.from = r.State
	if r.IsDeleted() {
		return a, deletedError(r)
	}
	if r.State.IsClosed() {
		return a, problem.New(problem.Conflict, "vacant %s is %s; it cannot be %s", r.Name, r.State, verb)
	}
	if a.reg, _, err = v.Registry.Get(ctx, r.ID); err != nil {
		return a, err
	}
	wishes, err := w(&a.reg)
	if err != nil {
		return a, err
	}
	base, err := v.base(ctx)
	if err != nil {
		return a, err
	}
	capability := r.Capability
	if wishes.Capability != nil {
		capability = *wishes.Capability
	}
	if a.card, _, err = v.current(ctx, r, base, capability, wishes.allowed); err != nil {
		return a, err
	}
	a.by = wishes.By
	a.visibility = *wishes.Visibility
	if r.State == lifecycle.Local && a.visibility != lifecycle.Hidden {
		r.State = lifecycle.Active // a LOCAL vacant is hidden
	}
	options, err := wishes.listing(&a.reg, r)
	if err != nil {
		return a, err
	}
	a.listing = options.listing(&a.reg, r.ID, v.now())
	return a, nil
}

// ListedPrice returns the price in r's listings, which is the maximum price of a call in
// micro-dollars. given is the price in the client's listing, or zero if the client specified none.
func (r *Record) ListedPrice(given int64) (int64, error) {
	var hold int64
	if r.Price != nil {
		hold = int64(r.Price.Hold())
	}
	if given != 0 && given != hold {
		return 0, problem.Invalid("listing.price", fmt.Sprintf("%d micro-dollars, the vacant's price, or none; vacancy price sets it", hold), strconv.FormatInt(given, 10))
	}
	return hold, nil
}

// listing returns the options for the next listing, with the price of r, or nil if the listing does not
// change.
func (w *PublishOptions) listing(g *registry.Registration, r *Record) (*ListingOptions, error) {
	var given int64
	options := ListingOptions{}
	l := g.Listing
	switch {
	case w.Listing != nil:
		options, given = *w.Listing, w.Listing.Price
	case l != nil:
		options = ListingOptions{Tags: l.Tags, Skills: l.Skills, Summary: l.Summary, Family: l.ModelFamily, Owner: l.Owner}
	}
	var err error
	if options.Price, err = r.ListedPrice(given); err != nil {
		return nil, err
	}
	if options.Venue == nil && l != nil {
		options.Venue = l.Venue
	}
	if w.Venue != nil {
		v := listing.DefaultVenue()
		if options.Venue != nil {
			v = *options.Venue
		}
		if err := w.Venue(&v); err != nil {
			return nil, err
		}
		options.Venue = &v
	}
	if w.Listing == nil && w.Venue == nil && (l == nil && options.Price == 0 || l != nil && l.Price == options.Price) {
		return nil, nil
	}
	return &options, nil
}

func (w *ListingOptions) listing(g *registry.Registration, id identity.ID, now time.Time) *listing.Listing {
	if w == nil {
		return nil
	}
	// The version is the time, so that no version is used again after an operator's listing has replaced
	// it.
	l := listing.New(id, max(now.UnixMicro(), 1))
	l.Tags, l.Skills, l.Summary, l.ModelFamily, l.Owner, l.Price = w.Tags, w.Skills, w.Summary, w.Family, w.Owner, w.Price
	l.Venue = w.Venue
	if g.Listing == nil {
		return &l
	}
	if g.ListingSource == registry.SourceSigned && g.Listing.Equal(&l) {
		return nil
	}
	l.Version = max(l.Version, g.Listing.Version+1)
	return &l
}

func (a *announcement) hasChanges() bool {
	g := &a.reg
	return g.FirstSeq == 0 || g.Status != registry.StatusActive || g.CardHash != a.card.Hash() || g.SignedVisibility != a.visibility ||
		g.State != a.record.State || a.record.State != a.from || a.listing != nil
}

func (a *announcement) sign(ctx context.Context, v *Directory) (registry.Publication, error) {
	id := a.record.ID
	signer, err := v.signers.Signer(ctx, id, a.record.seed)
	if err != nil {
		return registry.Publication{}, err
	}
	// seq follows the registration that announce has read. The current registration may include a later
	// event, which announce did not take into account.
	seq := a.reg.ActorSeq + 1
	e := event.Event{
		Type: event.Register, Actor: id, Time: v.now().UnixMilli(), ActorSeq: seq, Key: fmt.Sprintf("publish:%d", seq),
		Payload: event.RegisterPayload(a.card.Hash(), a.card.HaloVersion, id, a.record.State.EffectiveVisibility(a.visibility)),
	}
	if currentHash := a.reg.CardHash; a.reg.FirstSeq > 0 && currentHash != a.card.Hash() {
		e.Key = event.ReplacesKeyAt(currentHash, seq)
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
		Time: e.Time, ActorSeq: seq, Key: e.Key, Signature: e.Signature,
		MayFollow: func(ctx context.Context, former identity.ID) (bool, error) {
			if a.by == Operator() {
				return true, nil
			}
			before, ok, err := v.read(ctx, former)
			return ok && before.Tenant == a.record.Tenant, err
		},
	}, nil
}
