package registry

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// Status tells whether a key is revoked; its value is the wire's term.
type Status string

// The statuses.
const (
	StatusActive  Status = "active"
	StatusRevoked Status = "revoked"
)

// Sources of a listing.
const (
	SourceSigned   = "signed"   // by the vacant
	SourceOperator = "operator" // set by the host's operator
)

// Defaults of claims.
const (
	DefaultFamily  = "unknown"
	DefaultVersion = "0.0.1"
)

// StaleAfter is the time in hibernation after which a vacant counts as STALE.
const StaleAfter = 30 * 24 * time.Hour

// Registration is the registry's document of one vacant.
//
// Card, Visibility, Joined, LastSeq and ActorSeq follow from signed events. A
// proven Parent, Closed, and a Listing of source signed are signed too.
// Declared, Family, Owner, BaseModel, Version, an unproven Parent, and the
// State of a vacant that runs elsewhere are claims of the publisher.
type Registration struct {
	ID       identity.ID
	Card     []byte // the signed card's canonical blob
	CardHash identity.Hash
	// Visibility is the last event's, or Hidden while Closed.
	Visibility lifecycle.Visibility
	// the visibility in the last register event
	Signed lifecycle.Visibility
	State  lifecycle.State // as published; see EffectiveState
	Since  time.Time       // when State began
	Status Status
	Hosted bool // the endpoint is at this host
	// Unreached: the card is public, and its endpoint elsewhere has not answered
	// yet.
	Unreached bool
	// Name is the name of a vacant that runs at this host, as the host gave it;
	// "" for others. It is not signed.
	Name     string
	Declared []string // never empty: defaults to the card's capability text
	Family   string
	Owner    string
	// BaseModel is "" if it was not claimed.
	BaseModel    string
	Version      string
	Parent       *identity.ID
	ParentProven bool // by a manifest with both signatures
	// Closed: the manifest is closed, and no graduation is recorded.
	Closed        bool
	Listing       *listing.Listing
	ListingSource string
	Reputation    *reputation.State // nil if nothing was counted
	Joined        uint64            // seq of the first event
	LastSeq       uint64            // seq of the last event
	ActorSeq      int64             // the vacant's own count at its last event
	Changed       time.Time
	ChangeKey     string // position in the feed of changes
	DocVersion    uint64

	reached        bool                                                        // the card's endpoint answered, or is hosted here
	listingVersion int64                                                       // the highest version of a signed listing
	wasListed      bool                                                        // as it was read
	heldSlug       string                                                      // as it was read
	mayFollow      func(ctx context.Context, former identity.ID) (bool, error) // Publication.MayFollow
}

// EffectiveState is g's state at a time: a vacant that has hibernated for
// StaleAfter is STALE.
func (g *Registration) EffectiveState(now time.Time) lifecycle.State {
	if g.State == lifecycle.Hibernating && now.Sub(g.Since) >= StaleAfter {
		return lifecycle.Stale
	}
	return g.State
}

// Listed reports whether search shows g by default: it is public, awake,
// reached and not revoked.
func (g *Registration) Listed() bool {
	return g.Status == StatusActive && !g.Unreached && g.Visibility == lifecycle.Public && g.State == lifecycle.Active
}

// Venue returns g as a venue: the venue in its listing, or the default.
func (g *Registration) Venue() listing.Venue {
	v := listing.DefaultVenue()
	if g.Listing != nil && g.Listing.Venue != nil {
		v = *g.Listing.Venue
	}
	v.Slug = cmp.Or(v.Slug, listing.DefaultSlug(g.ID.Short()))
	return v
}

// slug is the slug that g's listing claims; "" if it claims none.
func (g *Registration) slug() string {
	if g.Listing == nil || g.Listing.Venue == nil {
		return ""
	}
	return g.Listing.Venue.Slug
}

// HasGivenUp reports whether a slug that g claimed is not in use: g's listing has another, or g
// never answers again.
func (g *Registration) HasGivenUp(slug string) bool {
	return g.slug() != slug || g.Status == StatusRevoked || g.Hosted && g.State.Closed()
}

// ReadableBy reports whether caller may see g: everybody if it is not hidden,
// otherwise only the vacant itself and its proven parent. The caller must have
// proved its id; nil is anonymous. View also lets siblings see a closed child.
func (g *Registration) ReadableBy(caller *identity.ID) bool {
	// What was never registered is hidden too: a revocation of a closed child
	// looks like one of nobody.
	if g.Joined > 0 && g.Visibility != lifecycle.Hidden {
		return true
	}
	return caller != nil && (*caller == g.ID || g.ParentProven && *caller == *g.Parent)
}

// ChangeKeyAt is the feed position of a change at t.
func ChangeKeyAt(t time.Time) string { return fmt.Sprintf("%016x", max(t.UnixMicro(), 0)) }

// ChangeKeyBefore is the feed position that lies d before key, "" if that is
// before all. Readers start there again, because concurrent writes do not
// become visible in order.
func ChangeKeyBefore(key string, d time.Duration) string {
	at, err := strconv.ParseInt(key, 16, 64)
	if err != nil || at <= d.Microseconds() {
		return ""
	}
	return fmt.Sprintf("%016x", at-d.Microseconds())
}
