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

type Status string

const (
	StatusActive  Status = "active"
	StatusRevoked Status = "revoked"
)

const (
	SourceSigned   = "signed"   // signed by the vacant
	SourceOperator = "operator" // set by the host's operator
)

const (
	DefaultFamily  = "unknown"
	DefaultVersion = "0.0.1"
)

const StaleAge = 30 * 24 * time.Hour

// Registration is the registry's document of one vacant.
//
// DeclaredCapabilities, Family, Owner, BaseModel, Version, an unproven Parent, and the State of a
// vacant on another host are unsigned claims of the publisher.
type Registration struct {
	ID       identity.ID
	Card     []byte // canonical JSON, signed
	CardHash identity.Hash
	// Visibility is the visibility of the last event, or Hidden while Closed is set.
	Visibility       lifecycle.Visibility
	SignedVisibility lifecycle.Visibility
	State            lifecycle.State // published state; see EffectiveState
	StateSince       time.Time
	Status           Status
	Hosted           bool // whether the endpoint is on this host
	// AwaitsProbe means that the card is public, and its endpoint on another host has not answered
	// yet.
	AwaitsProbe bool
	// Name is the unsigned name of a vacant that this host runs, otherwise "".
	Name                 string
	DeclaredCapabilities []string
	Family               string
	Owner                string
	BaseModel            string
	Version              string
	Parent               *identity.ID
	ParentProven         bool // whether a manifest with both signatures proves Parent
	Closed               bool
	Listing              *listing.Listing
	ListingSource        string
	Reputation           *reputation.State // nil if no review was counted
	FirstSeq             uint64
	LastSeq              uint64
	ActorSeq             int64
	ChangedAt            time.Time
	ChangeKey            string // position in the feed of changes
	DocVersion           uint64

	isReachable    bool // whether the card's endpoint has answered or is hosted
	listingVersion int64
	wasListed      bool   // IsListed when the document was read
	storedSlug     string // slug when the document was read
	mayReuseSlug   func(ctx context.Context, former identity.ID) (bool, error)
}

func (g *Registration) EffectiveState(now time.Time) lifecycle.State {
	if g.State == lifecycle.Hibernating && now.Sub(g.StateSince) >= StaleAge {
		return lifecycle.Stale
	}
	return g.State
}

// IsListed reports whether searches show g.
func (g *Registration) IsListed() bool {
	return g.Status == StatusActive && !g.AwaitsProbe && g.Visibility == lifecycle.Public && g.State == lifecycle.Active
}

func (g *Registration) Venue() listing.Venue {
	v := listing.DefaultVenue()
	if g.Listing != nil && g.Listing.Venue != nil {
		v = *g.Listing.Venue
	}
	v.Slug = cmp.Or(v.Slug, listing.DefaultSlug(g.ID.Short()))
	return v
}

func (g *Registration) slug() string {
	if g.Listing == nil || g.Listing.Venue == nil {
		return ""
	}
	return g.Listing.Venue.Slug
}

// HasReleasedSlug reports whether g no longer uses a slug that it claimed.
func (g *Registration) HasReleasedSlug(slug string) bool {
	return g.slug() != slug || g.Status == StatusRevoked || g.Hosted && g.State.IsRetired()
}

// IsVisibleTo reports whether caller, whose id must be proved, may see g. A nil caller is
// anonymous. View additionally lets siblings see a closed child.
func (g *Registration) IsVisibleTo(caller *identity.ID) bool {
	// An id that was never registered is also hidden, so that the revocation of a closed child
	// looks like the revocation of an unregistered key.
	if g.FirstSeq > 0 && g.Visibility != lifecycle.Hidden {
		return true
	}
	return caller != nil && (*caller == g.ID || g.ParentProven && *caller == *g.Parent)
}

func FormatChangeKey(t time.Time) string { return fmt.Sprintf("%016x", max(t.UnixMicro(), 0)) }

// ChangeKeyBefore returns the feed position that is age before key, or "" for the start of the
// feed. Readers continue from such a position, because concurrent writes do not become visible in
// order.
func ChangeKeyBefore(key string, age time.Duration) string {
	micros, err := strconv.ParseInt(key, 16, 64)
	if err != nil || micros <= age.Microseconds() {
		return ""
	}
	return fmt.Sprintf("%016x", micros-age.Microseconds())
}
