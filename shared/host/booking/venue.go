package booking

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

type Venue struct {
	ID identity.ID
	listing.Venue
	Summary    string
	Price      money.Amount
	Reputation float64
	IsLive     bool

	card   []byte
	hosted bool
	test   bool
}

func (v *Venue) AgentID() string { return "venue:" + v.Slug }

// VenueOf sets IsLive without reading the venue's breaker.
func VenueOf(registration *registry.Registration) Venue {
	v := Venue{ID: registration.ID, Venue: registration.Venue(), IsLive: registration.IsListed(), card: registration.Card, hosted: registration.Hosted, Reputation: registration.Reputation.EarnedScore()}
	if registration.Listing != nil {
		v.Summary, v.Price = registration.Listing.Summary, money.Amount(registration.Listing.Price)
	}
	c, err := card.Parse(registration.Card)
	if err == nil && v.Summary == "" {
		v.Summary = c.CapabilityText
	}
	v.Name = cmp.Or(v.Name, registration.Name)
	v.Name = cmp.Or(v.Name, v.Slug)
	return v
}

func TestVenue() Venue {
	v := listing.DefaultVenue()
	v.Slug, v.Name = listing.TestSlug, "Test venue"
	return Venue{Venue: v, Summary: "accepts every booking of a test key", IsLive: true, test: true}
}

// FindVenue finds a venue by its id, slug, venue:<slug> or agnt_venue_<slug>. If the venue is
// hidden or revoked, the error is NotFound.
func (s *Service) FindVenue(ctx context.Context, ref string) (Venue, error) {
	notFoundErr := problem.New(problem.NotFound, "no venue %.80q", ref)
	for _, prefix := range []string{"venue:", "agnt_venue_"} {
		if rest, ok := strings.CutPrefix(ref, prefix); ok {
			ref = rest
			break
		}
	}
	registration, ok, err := s.findRegistration(ctx, ref)
	if err != nil {
		return Venue{}, err
	}
	if !ok || !registration.IsVisibleTo(nil) || registration.Status != registry.StatusActive {
		return Venue{}, notFoundErr
	}
	v := VenueOf(&registration)
	isReachable, err := s.IsReachable(ctx, registration.ID)
	v.IsLive = v.IsLive && isReachable
	return v, err
}

func (s *Service) findRegistration(ctx context.Context, ref string) (registration registry.Registration, ok bool, err error) {
	id, err := identity.ParseID(ref)
	if err != nil {
		short, isShort := listing.ParseDefaultSlug(ref)
		switch {
		case isShort:
			if id, err = s.FindByShortID(ctx, short); err != nil || id.IsZero() {
				return registration, false, err
			}
		case listing.CheckSlug(ref) != nil:
			return registration, false, nil
		default:
			return s.Registry.FindBySlug(ctx, ref)
		}
	}
	return s.Registry.Get(ctx, id)
}

// The circuit breaker of a venue opens after five failures within ten minutes. Five minutes later,
// one dispatch is sent as a probe.
const (
	breakerFailures = 5
	breakerWindow   = 10 * time.Minute
	breakerOpenTime = 5 * time.Minute
)

type breaker struct {
	Failures   []time.Time `json:"failures,omitempty"`
	OpenUntil  time.Time   `json:"until,omitzero"`
	ProbeUntil time.Time   `json:"probe,omitzero"`
}

func breakerKey(venue identity.ID) store.Key { return BreakerDocs.Key(venue.String()) }

// reserveProbe returns the time until which a dispatch must wait, or the zero time if it may start.
func (s *Service) reserveProbe(ctx context.Context, venue identity.ID) (waitUntil time.Time, err error) {
	err = s.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		waitUntil = time.Time{}
		b, d, err := BreakerDocs.Get(ctx, tx, breakerKey(venue))
		now := s.currentMicrosecond()
		switch {
		case problem.Is(err, problem.Damaged):
			return nil
		case err != nil || b.OpenUntil.IsZero():
			return err
		case now.Before(b.OpenUntil):
			waitUntil = b.OpenUntil
			return nil
		case now.Before(b.ProbeUntil):
			waitUntil = b.ProbeUntil
			return nil
		}
		b.ProbeUntil = now.Add(answerTimeout)
		BreakerDocs.Put(tx, store.Doc{Key: d.Key, Expires: s.breakerExpiry()}, b)
		return nil
	})
	return waitUntil, store.AsProblem(err)
}

func (s *Service) recordReachability(ctx context.Context, venue identity.ID, isReachable bool) error {
	return store.AsProblem(s.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		b, d, err := BreakerDocs.Get(ctx, tx, breakerKey(venue))
		if err != nil && !problem.Is(err, problem.Damaged) {
			return err
		}
		if isReachable {
			tx.Delete(d.Key)
			return nil
		}
		now := s.currentMicrosecond()
		b.ProbeUntil = time.Time{}
		b.Failures = slices.DeleteFunc(append(b.Failures, now), func(t time.Time) bool { return now.Sub(t) > breakerWindow })
		if len(b.Failures) >= breakerFailures || !b.OpenUntil.IsZero() {
			b.OpenUntil, b.Failures = now.Add(breakerOpenTime), nil
		}
		BreakerDocs.Put(tx, store.Doc{Key: d.Key, Expires: s.breakerExpiry()}, b)
		return nil
	}))
}

func (s *Service) breakerExpiry() time.Time {
	return s.Now().UTC().Truncate(time.Second).Add(time.Hour)
}

func (s *Service) IsReachable(ctx context.Context, venue identity.ID) (bool, error) {
	b, _, err := BreakerDocs.Get(ctx, s.Store, breakerKey(venue))
	if problem.Is(err, problem.Damaged) { // a damaged breaker is replaced
		return true, nil
	}
	return err != nil || !s.Now().Before(b.OpenUntil), store.AsProblem(err)
}
