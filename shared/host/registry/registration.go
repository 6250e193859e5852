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

// Status is the state of a key in the protocol's words.
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

// StaleAge is the duration of hibernation after which a vacant is STALE.
const StaleAge = 30 * 24 * time.Hour

// Registration is the registry's document of one vacant.
//
// Card, Visibility, FirstSeq, LastSeq and ActorSeq follow from signed events. A proven Parent,
// Closed, and a Listing of source signed are also signed. DeclaredCapabilities, Family, Owner,
// BaseModel, Version, an unproven Parent, and the State of a vacant on another host are claims of
// the publisher.
type Registration struct {
	ID       identity.ID
	Card     []byte // the signed card's canonical blob
	CardHash identity.Hash
	// Visibility is the visibility of the last event, or Hidden while Closed is set.
	Visibility lifecycle.Visibility
	// SignedVisibility is the visibility in the last register event.
	SignedVisibility lifecycle.Visibility
	State            lifecycle.State // published state; see EffectiveState
	StateSince       time.Time       // start of State
	Status           Status
	Hosted           bool // whether the endpoint is on this host
	// AwaitsProbe means that the card is public, and its endpoint on another host has not answered
	// yet.
	AwaitsProbe bool
	// Name is the name that this host gave to a vacant that it runs, or "" for other vacants. It is
	// not signed.
	Name                 string
	DeclaredCapabilities []string // not empty; the default is the card's capability text
	Family               string
	Owner                string
	// BaseModel is "" if the publisher did not claim one.
	BaseModel    string
	Version      string
	Parent       *identity.ID
	ParentProven bool // whether a manifest with both signatures proves Parent
	// Closed means that the manifest is closed and no graduation is recorded.
	Closed        bool
	Listing       *listing.Listing
	ListingSource string            // SourceSigned or SourceOperator
	Reputation    *reputation.State // nil if no review was counted
	FirstSeq      uint64            // seq of the first event
	LastSeq       uint64            // seq of the last event
	ActorSeq      int64             // actor's sequence number of the last event
	ChangedAt     time.Time         // time of the last change, including changes without an event
	ChangeKey     string            // position in the feed of changes
	DocVersion    uint64            // version of the stored document

	isReachable    bool                                                        // whether the card's endpoint has answered or is hosted
	listingVersion int64                                                       // highest version of a signed listing
	wasListed      bool                                                        // result of IsListed when the document was read
	storedSlug     string                                                      // slug when the document was read
	mayReuseSlug   func(ctx context.Context, former identity.ID) (bool, error) // Publication.MayReuseSlug
}

func (g *Registration) EffectiveState(now time.Time) lifecycle.State {
	if g.State == lifecycle.Hibernating && now.Sub(g.StateSince) >= StaleAge {
		return lifecycle.Stale
	}
	return g.State
}

// IsListed reports whether searches show g by default: it must be public and active, and must be
// neither revoked nor waiting for a probe.
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

// HasReleasedSlug reports whether g no longer uses a slug that it claimed: its listing has another
// slug, its key is revoked, or it is a hosted vacant that is sunk or archived.
func (g *Registration) HasReleasedSlug(slug string) bool {
	return g.slug() != slug || g.Status == StatusRevoked || g.Hosted && g.State.IsRetired()
}

// IsVisibleTo reports whether caller, whose id must be proved, may see g. A nil caller is
// anonymous. A hidden g is visible only to the vacant itself and its proven parent. View
// additionally lets siblings see a closed child.
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
