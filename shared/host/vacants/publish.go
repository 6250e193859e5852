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

// PublishOptions are the changes of a publish. Nil fields are left unchanged.
type PublishOptions struct {
	// By publishes the vacant. Only the operator may give it a slug that a vacant of another tenant
	// gave up.
	By         Asker
	Capability *string // a new capability makes a new card
	// Visibility defaults to PUBLIC if the vacant is not published or hidden.
	Visibility *lifecycle.Visibility
	Listing    *ListingOptions
	// Venue changes the venue in the vacant's listing.
	Venue func(*listing.Venue) error

	allowed []string // substrates, for the card; nil keeps the card's
}

// ListingOptions replace the whole listing, but a nil Venue leaves the venue unchanged.
// Package listing defines the fields and their limits.
type ListingOptions struct {
	Tags, Skills           []string
	Summary, Family, Owner string
	Price                  int64 // the vacant's, in micro-dollars, or 0
	Venue                  *listing.Venue
}

// Publish lists a vacant in this host's registry. Card, register event and
// listing are signed by the vacant and committed together with its record and
// logbook entry. A LOCAL vacant that becomes visible becomes ACTIVE. Repeating
// the same publication has no effect.
func (v *Directory) Publish(ctx context.Context, id identity.ID, w PublishOptions) (Record, registry.Receipt, error) {
	if w.Capability != nil {
		if err := checkCapability(*w.Capability); err != nil {
			return Record{}, registry.Receipt{}, err
		}
	}
	return v.publish(ctx, id, "published", func(g *registry.Registration) (PublishOptions, error) {
		if w.Visibility == nil {
			as := lifecycle.Public
			if g.Joined > 0 && g.Signed != lifecycle.Hidden {
				as = g.Signed
			}
			return PublishOptions{By: w.By, Capability: w.Capability, Visibility: &as, Listing: w.Listing, Venue: w.Venue}, nil
		}
		return w, nil
	})
}

// Unpublish removes a vacant from search results. Callers that know its id can
// still call it.
func (v *Directory) Unpublish(ctx context.Context, id identity.ID) (Record, registry.Receipt, error) {
	return v.publish(ctx, id, "unpublished", func(g *registry.Registration) (PublishOptions, error) {
		if g.Joined == 0 {
			return PublishOptions{}, problem.New(problem.Conflict, "vacant %s was never published", id.Short())
		}
		hidden := lifecycle.Hidden
		return PublishOptions{Visibility: &hidden}, nil
	})
}

// republish publishes id with unchanged options and a card for the host's
// current URL, and reports whether the card changed. A child that was closed
// meanwhile is hidden.
func (v *Directory) republish(ctx context.Context, id identity.ID) (changed bool, err error) {
	_, receipt, err := v.publish(ctx, id, "published", func(g *registry.Registration) (PublishOptions, error) {
		as := g.Signed
		if g.Closed {
			as = lifecycle.Hidden
		}
		return PublishOptions{Visibility: &as}, nil
	})
	if problem.Is(err, problem.Conflict) {
		if r, readErr := v.get(ctx, id); readErr == nil && r.State.Closed() {
			return false, nil // terminal since: the vacant keeps its card
		}
	}
	return err == nil && !receipt.Replayed, err
}

// published reports whether id is registered and its key not revoked.
func (v *Directory) published(ctx context.Context, id identity.ID) (bool, error) {
	if v.Registry == nil {
		return false, nil
	}
	g, ok, err := v.Registry.Get(ctx, id)
	return ok && g.Status == registry.StatusActive, err
}

// wished returns the options of a publication, given the current registration.
type wished func(*registry.Registration) (PublishOptions, error)

// publish publishes with the options of w, and retries conflicts until ctx
// ends. verb names the operation in errors.
func (v *Directory) publish(ctx context.Context, id identity.ID, verb string, w wished) (Record, registry.Receipt, error) {
	none := registry.Receipt{}
	if v.Registry == nil {
		return Record{}, none, problem.New(problem.Conflict, "this host keeps no registry")
	}
	if err := v.ready(ctx, id); err != nil {
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

// late turns the refusal of event seq into a conflict if another event of id
// took that position: the event must then be signed again for the next one.
func (v *Directory) late(ctx context.Context, id identity.ID, seq int64, err error) error {
	switch problem.Of(err).Kind {
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

// ready opens id's key before the registry's turn is taken, because opening may
// be slow.
func (v *Directory) ready(ctx context.Context, id identity.ID) error {
	r, err := v.GetExisting(ctx, id)
	if err != nil {
		return err
	}
	return v.signers.Key(id, r.seed).Ready(ctx)
}

// publishOnce adds to tx a publication of r, whose name and substrate may have
// changes that are committed with it.
func (v *Directory) publishOnce(ctx context.Context, tx *store.Tx, r Record, verb string, w wished) (Record, registry.Receipt, error) {
	id := r.ID
	a, err := v.announce(ctx, r, verb, w)
	if err != nil {
		return Record{}, registry.Receipt{}, err
	}
	if !a.news() {
		// A registration of an older Vacancy has no name.
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
	if err == nil && receipt.Replayed { // another writer published the same
		err = problem.New(problem.Sequence, "event %d of vacant %s is there already", p.ActorSeq, id.Short())
	}
	if err != nil {
		return Record{}, registry.Receipt{}, v.late(ctx, id, p.ActorSeq, err)
	}
	e := &entry{logbook.KindPublished, logbook.Published(logbook.Publication{
		Card: a.card.Hash(), Endpoint: a.card.Endpoint, ActorSeq: p.ActorSeq, Visibility: p.State.Effective(p.Visibility), From: a.from, To: a.record.State,
	})}
	return a.record, receipt, v.addChange(ctx, tx, &a.record, e)
}

// lockAll locks the logbooks of ids and takes the registry's turn. The returned
// function releases both.
func (v *Directory) lockAll(ctx context.Context, ids ...identity.ID) (done func(), err error) {
	written, err := v.logs.Lock(ctx, ids...)
	if err != nil {
		return nil, err
	}
	placed, err := v.Registry.Turn(ctx)
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
	reg        registry.Registration // as it is stored
	visibility lifecycle.Visibility
	listing    *listing.Listing // unsigned; nil if unchanged
}

// announce decides the content of a vacant's next publication.
func (v *Directory) announce(ctx context.Context, record Record, verb string, w wished) (a announcement, err error) {
	a.record = record
	r := &a.record
	a.from = r.State
	if r.IsDeleted() {
		return a, deleted(r)
	}
	if r.State.Closed() {
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
		r.State = lifecycle.Active // LOCAL would hide the vacant
	}
	options, err := wishes.listing(&a.reg, r)
	if err != nil {
		return a, err
	}
	a.listing = options.listing(&a.reg, r.ID, v.now())
	return a, nil
}

// ListedPrice returns the price in r's listings: the most that a call costs, in
// micro-dollars. given is a price that the client wants to list; zero leaves it to the
// host.
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

// listing returns the listing's options with the price of r. They are nil if nothing
// changes the listing.
func (w *PublishOptions) listing(g *registry.Registration, r *Record) (*ListingOptions, error) {
	var given int64
	options := ListingOptions{}
	l := g.Listing
	switch {
	case w.Listing != nil:
		options, given = *w.Listing, w.Listing.Price
	case l != nil:
		options = ListingOptions{Tags: l.Tags, Skills: l.Skills, Summary: l.Summary, Family: l.Family, Owner: l.Owner}
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

// listing returns the next listing of id, or nil if nothing changes. Versions
// follow the clock, so that a version replaced by an operator's listing is not
// used again.
func (w *ListingOptions) listing(g *registry.Registration, id identity.ID, now time.Time) *listing.Listing {
	if w == nil {
		return nil
	}
	l := listing.New(id, max(now.UnixMicro(), 1))
	l.Tags, l.Skills, l.Summary, l.Family, l.Owner, l.Price = w.Tags, w.Skills, w.Summary, w.Family, w.Owner, w.Price
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

// news reports whether the announcement changes anything.
func (a *announcement) news() bool {
	g := &a.reg
	return g.Joined == 0 || g.Status != registry.StatusActive || g.CardHash != a.card.Hash() || g.Signed != a.visibility ||
		g.State != a.record.State || a.record.State != a.from || a.listing != nil
}

// sign signs the announcement.
func (a *announcement) sign(ctx context.Context, v *Directory) (registry.Publication, error) {
	id := a.record.ID
	signer, err := v.signers.Signer(ctx, id, a.record.seed)
	if err != nil {
		return registry.Publication{}, err
	}
	// Use the count of the registration that was decided on: a fresh read could
	// count an event that the decision does not know.
	seq := a.reg.ActorSeq + 1
	e := event.Event{
		Type: event.Register, Actor: id, Time: v.now().UnixMilli(), ActorSeq: seq, Key: fmt.Sprintf("publish:%d", seq),
		Payload: event.RegisterPayload(a.card.Hash(), a.card.HaloVersion, id, a.record.State.Effective(a.visibility)),
	}
	if known := a.reg.CardHash; a.reg.Joined > 0 && known != a.card.Hash() {
		e.Key = event.ReplacesKeyAt(known, seq)
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
