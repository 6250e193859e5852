package vacants

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// Record is a hosted vacant's record.
type Record struct {
	ID         identity.ID
	Name       string
	State      lifecycle.State
	Capability string
	Substrate  string           // a substrate.Spec in its text form
	By         outbound.Chooser // who set Substrate and Agent
	// Agent is the version of the definition.Agent that answers by Substrate. Zero
	// means an agent of defaults. It is not in force while the vacant answers by a
	// plan.
	Agent   int
	Card    []byte // the signed card's canonical blob
	Created time.Time
	Changed time.Time // when the record was last written
	// Floor refuses calls and resets signed at or before it; zero for a vacant
	// whose whole history is here. An imported vacant, or one restored from a
	// backup, does not know what it accepted meanwhile; without the floor such
	// an envelope could be sent and run again.
	Floor time.Time
	// Restored is the time of the last restore from a backup that raised Floor, or the
	// zero time.
	Restored time.Time
	// Tenant is the tenant that the vacant is hosted for; "" means the
	// operator.
	Tenant string
	// Parent, Closed, Reach and Outbound repeat the manifest in the registry,
	// which changes in the same commit. Parent is nil unless the vacant is a
	// child. Closed means that only parent and siblings may call it, until it
	// graduates. Reach and Outbound are the signed values of a v2 manifest, or
	// "".
	Parent   *identity.ID
	Closed   bool
	Reach    composite.Reachability
	Outbound composite.Outbound
	// Kin reports whether the vacant has a parent, or ever had children.
	Kin bool
	// Plain is the setting for callers without a key.
	Plain Plain
	// Price is the price of a call, or nil if none was ever set. A price of 0 keeps
	// the number of the last version.
	Price *price.Price
	// Work bounds a call. Zero means the host's bound.
	Work time.Duration
	// Input are the media types of the files that the vacant's agent takes beside text
	// (definition.Agent).
	Input []string
	// Memory reports whether the vacant's agent remembers the calls of a thread. In records of earlier programs it is
	// false until the agent's next version.
	Memory bool
	// Stored is the number of bytes that the tenant's quota counts for the vacant: versions of its
	// agent, and chains that it was imported with. Versions that an earlier program stored do not
	// count.
	Stored int64
	// Deleted is the time of the vacant's deletion, or the zero time. The
	// record of a deleted vacant is a tombstone: id, name, kin, times and the
	// state ARCHIVED.
	Deleted time.Time

	seed    []byte            // sealed
	next    *definition.Agent // set by the next change of the record
	version uint64            // version of the document that was read
}

// Format prints name and short id for every verb, so not even the sealed seed
// gets into a log line.
func (r Record) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "vacant "+r.Name+" ("+r.ID.Short()+")")
}

// nameFor is r's name for the tenant of other.
func (r *Record) nameFor(other *Record) string {
	if r.Tenant != other.Tenant {
		return "one of another tenant"
	}
	return r.Name
}

// IsDeleted reports whether r is a tombstone.
func (r *Record) IsDeleted() bool { return !r.Deleted.IsZero() }

// HasKey reports whether r holds a sealed seed; a tombstone must not.
func (r *Record) HasKey() bool { return len(r.seed) > 0 }

// Plain is the setting for callers without a key. The zero Plain is PlainOpen.
type Plain string

// The values of Plain.
const (
	PlainOpen   Plain = ""       // each is a guest; it finds its tasks by their ids
	PlainOff    Plain = "off"    // nothing
	PlainShared Plain = "shared" // all are one guest, for tests
)

// ParsePlain parses open, off or shared.
func ParsePlain(s string) (Plain, error) {
	switch p := Plain(s); p {
	case "open":
		return PlainOpen, nil
	case PlainOff, PlainShared:
		return p, nil
	}
	return "", problem.Invalid("plain", "open, off or shared", clip(s))
}

func (p Plain) String() string {
	if p == PlainOpen {
		return "open"
	}
	return string(p)
}

// CheckWork refuses a bound of calls that no vacant can have.
func CheckWork(d time.Duration) error {
	if d < call.MinWork || d > call.MaxWork {
		return problem.Invalid("work", "1s to 14m", d.String())
	}
	return nil
}

// ParseWork parses the bound of a vacant's calls, such as 5m. The empty text means the host's
// bound.
func ParseWork(s string) (d time.Duration, err error) {
	if s == "" {
		return 0, nil
	}
	if d, err = time.ParseDuration(s); err != nil {
		return 0, problem.Invalid("work", "1s to 14m", clip(s))
	}
	return d, CheckWork(d)
}

// stored is the stored form of a record.
type stored struct {
	ID         identity.ID     `json:"id"`
	Name       string          `json:"name"`
	State      lifecycle.State `json:"state"`
	Capability string          `json:"capability"`
	Substrate  string          `json:"substrate"`
	Agent      int             `json:"agent,omitempty"`
	Card       []byte          `json:"card"`
	Created    time.Time       `json:"created"`
	Changed    time.Time       `json:"changed"`
	Seed       []byte          `json:"seed"`
	Floor      time.Time       `json:"floor,omitzero"`
	Restored   time.Time       `json:"restored,omitzero"`
	Deleted    time.Time       `json:"deleted,omitzero"`

	Tenant   string                 `json:"tenant,omitempty"`
	Parent   *identity.ID           `json:"parent,omitempty"`
	Closed   bool                   `json:"closed,omitempty"`
	Reach    composite.Reachability `json:"reach,omitempty"`
	Outbound composite.Outbound     `json:"outbound,omitempty"`
	Kin      bool                   `json:"kin,omitempty"`
	Plain    Plain                  `json:"plain,omitempty"`
	// ByOperator is of vacants with a tenant.
	ByOperator bool `json:"by_operator,omitempty"`

	Price *price.Price  `json:"price,omitempty"`
	Work  time.Duration `json:"work,omitempty"`
	Input []string      `json:"input,omitempty"`
	// Memory is absent from records of earlier programs, and means false.
	Memory bool `json:"memory,omitempty"`
	// Stored is absent from records of earlier programs, and means 0.
	Stored int64 `json:"stored,omitempty"`
}

// format is the format of records. UpgradeRecord reads formats 1 to 4.
const format = 5

var record = store.JSON[stored](format)

// encodeRecord writes of a deleted vacant the tombstone only, so nothing destroyed can be
// written back. The tombstone keeps the kin, because a deleted closed child stays concealed
// from unrelated callers.
func encodeRecord(r Record) ([]byte, error) {
	s := stored{
		ID: r.ID, Name: r.Name, State: r.State, Created: r.Created, Changed: r.Changed, Deleted: r.Deleted,
		Tenant: r.Tenant, Parent: r.Parent, Closed: r.Closed, Reach: r.Reach, Outbound: r.Outbound, Kin: r.Kin,
	}
	if !r.IsDeleted() {
		s.Capability, s.Substrate, s.Agent, s.Card, s.Seed = r.Capability, r.Substrate, r.Agent, r.Card, r.seed
		s.Floor, s.Restored = r.Floor, r.Restored
		s.Plain, s.Price, s.Work, s.Input, s.Memory, s.Stored = r.Plain, r.Price, r.Work, r.Input, r.Memory, r.Stored
		s.ByOperator = r.Tenant != "" && r.By == outbound.Operator
	}
	return record.Encode(s)
}

func decodeRecord(d store.Doc) (Record, error) {
	s, err := record.Decode(d)
	if err != nil {
		return Record{}, err
	}
	state, err := lifecycle.ParseState(string(s.State))
	switch {
	case err != nil:
		return Record{}, err
	case s.Closed && s.Parent == nil || s.Parent != nil && !s.Kin:
		return Record{}, problem.New(problem.Damaged, "it has kin and none")
	case s.Agent < 0:
		return Record{}, problem.New(problem.Damaged, "it has version %d of an agent", s.Agent)
	case s.Plain != PlainOpen && s.Plain != PlainOff && s.Plain != PlainShared:
		return Record{}, problem.New(problem.Damaged, "its callers without a key may do %.80q", string(s.Plain))
	case s.Work != 0 && CheckWork(s.Work) != nil:
		return Record{}, problem.New(problem.Damaged, "its calls may take %s", s.Work)
	case s.Stored < 0:
		return Record{}, problem.New(problem.Damaged, "it has %d bytes", s.Stored)
	case s.Price != nil && (s.Price.Version == 0 || s.Price.Check() != nil):
		return Record{}, problem.New(problem.Damaged, "its price is none")
	}
	by := outbound.Tenant
	if s.ByOperator {
		by = outbound.Operator
	}
	return Record{
		ID: s.ID, Name: s.Name, State: state, By: ChooserOf(s.Tenant, by), Capability: s.Capability, Substrate: s.Substrate, Agent: s.Agent, Card: s.Card,
		Created: s.Created, Changed: s.Changed, Floor: s.Floor, Restored: s.Restored, Deleted: s.Deleted,
		Tenant: s.Tenant, Parent: s.Parent, Closed: s.Closed, Reach: s.Reach, Outbound: s.Outbound, Kin: s.Kin, Plain: s.Plain, Price: s.Price, Work: s.Work, Input: s.Input, Memory: s.Memory, Stored: s.Stored,
		seed: s.Seed, version: d.Version,
	}, nil
}

// ChooserOf returns who counts as the chooser of what answers for a tenant's vacant that by has
// set. Without a tenant it is the operator, because only the operator's key makes and changes
// such a vacant.
func ChooserOf(tenant string, by outbound.Chooser) outbound.Chooser {
	if tenant == "" {
		return outbound.Operator
	}
	return by
}

// TenantOf returns the tenant of a vacant from its record or tombstone: "" for a vacant of the
// operator, and where the record is missing or damaged, which verify reports.
func TenantOf(ctx context.Context, docs store.Reader, id identity.ID) (string, error) {
	r, _, err := RecordDocs.Get(ctx, docs, RecordKey(id))
	if problem.Is(err, problem.Damaged) {
		return "", nil
	}
	return r.Tenant, store.Problem(err)
}

// RecordKey is the key of id's record.
func RecordKey(id identity.ID) store.Key { return RecordDocs.Key(id.String()) }

// isOpen reports whether r is in service for everybody: neither terminal nor a
// closed child.
func (r *Record) isOpen() bool { return !r.State.Closed() && !r.Closed }

// place is the record's place in the sparse index; zero for none.
func (r *Record) place() store.Key {
	if !r.isOpen() {
		return store.Key{}
	}
	return RecordDocs.Listed(r.Name)
}

// Limits of a new vacant.
const (
	MaxCapability = 16 << 10 // bytes; the whole card has at most card.MaxBlob
)

func checkCapability(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return problem.Invalid("capability", "a text that says what the vacant can do", "none")
	case len(text) > MaxCapability:
		return problem.Invalid("capability", fmt.Sprintf("at most %d bytes", MaxCapability), fmt.Sprint(len(text)))
	}
	return nil // the card refuses control characters and invalid UTF-8
}

// sign signs r's card for the host's base URL.
func sign(ctx context.Context, r *Record, base string, allowed []string, s identity.Signer) (card.Card, error) {
	c, err := card.New(r.ID, r.Capability, allowed, endpoint(base, r.ID))
	if err == nil {
		err = c.Sign(ctx, s)
	}
	if err != nil {
		return c, err
	}
	r.Card = c.Blob()
	return c, nil
}

// clip shortens foreign text for an error.
func clip(s string) string { return fmt.Sprintf("%.80q", s) }
