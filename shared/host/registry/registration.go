package registry

import (
	"fmt"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// Status says whether a key is still good; its value is the word on the wire.
type Status string

// The statuses.
const (
	StatusActive  Status = "active"
	StatusRevoked Status = "revoked"
)

// Where a listing comes from.
const (
	SourceSigned   = "signed"   // by the vacant
	SourceOperator = "operator" // set by the host's operator
)

// What is claimed where nothing is said.
const (
	DefaultFamily  = "unknown"
	DefaultVersion = "0.0.1"
)

// StaleAfter is how long a vacant may be asleep before it counts as stale.
const StaleAfter = 30 * 24 * time.Hour

// Registration is what the registry stores of one vacant.
//
// Card, Visibility, Joined, LastSeq and ActorSeq follow from signed events. A
// proven Parent, Closed, and a Listing of source signed are signed too.
// Declared, Family, Owner, BaseModel, Version, an unproven Parent, and the
// State of a vacant that runs elsewhere are claims of the publisher.
type Registration struct {
	ID       identity.ID
	Card     []byte // the signed card's canonical blob
	CardHash identity.Hash
	// Visibility is that of the last event, or Hidden while Closed.
	Visibility lifecycle.Visibility
	// Signed is the visibility in its last register event.
	Signed   lifecycle.Visibility
	State    lifecycle.State // as it was told; see EffectiveState
	Since    time.Time       // when State began
	Status   Status
	Hosted   bool     // its endpoint is its address at this host
	Declared []string // never empty: the card's capability text where nothing was declared
	Family   string
	Owner    string
	// BaseModel is "" where nothing was said.
	BaseModel    string
	Version      string
	Parent       *identity.ID
	ParentProven bool // by a manifest that both have signed
	// Closed: its manifest closes it, and no graduation is recorded.
	Closed        bool
	Listing       *listing.Listing
	ListingSource string
	Reputation    *reputation.State // nil where nothing was ever counted
	Joined        uint64            // seq of its first event
	LastSeq       uint64            // seq of its last event
	ActorSeq      int64             // its own count at its last event
	Changed       time.Time
	ChangeKey     string // its place in the feed of changes
	DocVersion    uint64

	reached        bool  // the card's endpoint answered, or is hosted here
	listingVersion int64 // the highest version of a signed listing
}

// EffectiveState is g's state at a time: a vacant that has slept for StaleAfter
// is STALE.
func (g *Registration) EffectiveState(now time.Time) lifecycle.State {
	if g.State == lifecycle.Hibernating && now.Sub(g.Since) >= StaleAfter {
		return lifecycle.Stale
	}
	return g.State
}

// Listed reports whether search shows g by default: it is public, awake and
// not revoked.
func (g *Registration) Listed(now time.Time) bool {
	return g.Status == StatusActive && g.Visibility == lifecycle.Public && g.EffectiveState(now) == lifecycle.Active
}

// ReadableBy reports whether caller may see g: everybody if it is not hidden,
// otherwise only the vacant itself and its proven parent. The caller must have
// proved its id; nil is anonymous. View also lets siblings see a closed child.
func (g *Registration) ReadableBy(caller *identity.ID) bool {
	if g.Visibility != lifecycle.Hidden {
		return true
	}
	return caller != nil && (*caller == g.ID || g.ParentProven && *caller == *g.Parent)
}

// ChangeKeyAt is the place in the feed of changes of what changed at t.
func ChangeKeyAt(t time.Time) string { return fmt.Sprintf("%016x", max(t.UnixMicro(), 0)) }

// ChangeKeyBefore is the place in the feed that lies d before key: "" if that
// is before all. A reader begins there again, since what is written at the same
// time does not become visible in order.
func ChangeKeyBefore(key string, d time.Duration) string {
	at, err := strconv.ParseInt(key, 16, 64)
	if err != nil || at <= d.Microseconds() {
		return ""
	}
	return fmt.Sprintf("%016x", at-d.Microseconds())
}
