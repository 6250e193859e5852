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

// Record is the record of a hosted vacant.
type Record struct {
	ID         identity.ID
	Name       string
	State      lifecycle.State
	Capability string
	Substrate  string              // string form of a substrate.Spec
	Chooser    outbound.URLChooser // party that set Substrate and Agent
	// Agent is the version of the definition.Agent that answers with Substrate. Zero means the
	// default agent. Agent is not used while the vacant answers with a plan.
	Agent   int
	Card    []byte // canonical blob of the signed card
	Created time.Time
	Changed time.Time // time of the last write of the record
	// Floor is zero if the complete history of the vacant is on this host. Otherwise, calls and
	// resets signed at or before Floor are refused. An imported or restored vacant does not know
	// all envelopes that it has accepted, so without Floor such an envelope could be sent and run
	// again.
	Floor time.Time
	// Restored is the time of the last restore from a backup that raised Floor, or the zero time.
	Restored time.Time
	// Tenant is the tenant for which the vacant is hosted. "" means the operator.
	Tenant string
	// Parent, Closed, Reach and Outbound repeat the manifest in the registry, which changes in the
	// same commit. Parent is nil unless the vacant is a child. Closed means that only the parent
	// and siblings may call the vacant until it graduates. Reach and Outbound are the signed values
	// of a v2 manifest, or "".
	Parent   *identity.ID
	Closed   bool
	Reach    composite.Reachability
	Outbound composite.Outbound
	// HasKin reports whether the vacant has a parent or has ever had children.
	HasKin bool
	// KeylessAccess is the setting for callers without a key.
	KeylessAccess Plain
	// Price is the price of a call, or nil if no price was ever set. A free price keeps the number
	// of the last version.
	Price *price.Price
	// MaxCallTime limits the duration of a call. Zero means the host's limit.
	MaxCallTime time.Duration
	// Input lists the media types of the files that the vacant's agent accepts in addition to text
	// (definition.Agent).
	Input []string
	// Memory reports whether the vacant's agent remembers the calls of a thread. In records of
	// earlier programs it is false until the agent's next version.
	Memory bool
	// Stored is the number of bytes that the tenant's quota counts for the vacant, which are
	// versions of its agent and chains from its import. Versions that an earlier program stored are
	// not counted.
	Stored int64
	// Deleted is the time of the vacant's deletion, or the zero time. The record of a deleted
	// vacant is a tombstone, which contains the id, the name, the kin, the times and the state
	// ARCHIVED.
	Deleted time.Time

	seed    []byte            // sealed
	next    *definition.Agent // next version, stored with the next change of the record
	version uint64            // version of the document that was read
}

func (r Record) Format(f fmt.State, _ rune) {
	// Every verb prints only the name and the short id, so that log lines never contain the sealed
	// seed.
	_, _ = io.WriteString(f, "vacant "+r.Name+" ("+r.ID.Short()+")")
}

func (r *Record) nameFor(other *Record) string {
	if r.Tenant != other.Tenant {
		return "one of another tenant"
	}
	return r.Name
}

func (r *Record) IsDeleted() bool { return !r.Deleted.IsZero() }

func (r *Record) HasKey() bool { return len(r.seed) > 0 }

// Plain is the setting for callers without a key. The zero Plain is PlainOpen.
type Plain string

const (
	PlainOpen   Plain = ""       // each caller is a separate guest, which finds its tasks by their ids
	PlainOff    Plain = "off"    // callers without a key are refused
	PlainShared Plain = "shared" // all callers are the same guest, for tests
)

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

func CheckWork(d time.Duration) error {
	if d < call.MinWork || d > call.MaxWork {
		return problem.Invalid("work", "1s to 14m", d.String())
	}
	return nil
}

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
	// ByOperator is set only for vacants with a tenant.
	ByOperator bool `json:"by_operator,omitempty"`

	Price *price.Price  `json:"price,omitempty"`
	Work  time.Duration `json:"work,omitempty"`
	Input []string      `json:"input,omitempty"`
	// Memory is missing from records of earlier programs, which means false.
	Memory bool `json:"memory,omitempty"`
	// Stored is missing from records of earlier programs, which means 0.
	Stored int64 `json:"stored,omitempty"`
}

// format is the format of records. UpgradeRecord reads formats 1 to 4.
const format = 5

var record = store.JSONCodec[stored](format)

func encodeRecord(r Record) ([]byte, error) {
	// For a deleted vacant only the tombstone is encoded, so that destroyed data cannot be written
	// back. The tombstone includes the kin, because a deleted closed child stays hidden from unrelated
	// callers.
	s := stored{
		ID: r.ID, Name: r.Name, State: r.State, Created: r.Created, Changed: r.Changed, Deleted: r.Deleted,
		Tenant: r.Tenant, Parent: r.Parent, Closed: r.Closed, Reach: r.Reach, Outbound: r.Outbound, Kin: r.HasKin,
	}
	if !r.IsDeleted() {
		s.Capability, s.Substrate, s.Agent, s.Card, s.Seed = r.Capability, r.Substrate, r.Agent, r.Card, r.seed
		s.Floor, s.Restored = r.Floor, r.Restored
		s.Plain, s.Price, s.Work, s.Input, s.Memory, s.Stored = r.KeylessAccess, r.Price, r.MaxCallTime, r.Input, r.Memory, r.Stored
		s.ByOperator = r.Tenant != "" && r.Chooser == outbound.Operator
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
		return Record{}, problem.New(problem.Damaged, "its parent does not match its other members")
	case s.Agent < 0:
		return Record{}, problem.New(problem.Damaged, "it has version %d of an agent", s.Agent)
	case s.Plain != PlainOpen && s.Plain != PlainOff && s.Plain != PlainShared:
		return Record{}, problem.New(problem.Damaged, "its access for callers without a key is %.80q", string(s.Plain))
	case s.Work != 0 && CheckWork(s.Work) != nil:
		return Record{}, problem.New(problem.Damaged, "the time limit of its calls is %s", s.Work)
	case s.Stored < 0:
		return Record{}, problem.New(problem.Damaged, "it has %d bytes", s.Stored)
	case s.Price != nil && (s.Price.Version == 0 || s.Price.Check() != nil):
		return Record{}, problem.New(problem.Damaged, "its price is not valid")
	}
	by := outbound.Tenant
	if s.ByOperator {
		by = outbound.Operator
	}
	return Record{
		ID: s.ID, Name: s.Name, State: state, Chooser: ChooserOf(s.Tenant, by), Capability: s.Capability, Substrate: s.Substrate, Agent: s.Agent, Card: s.Card,
		Created: s.Created, Changed: s.Changed, Floor: s.Floor, Restored: s.Restored, Deleted: s.Deleted,
		Tenant: s.Tenant, Parent: s.Parent, Closed: s.Closed, Reach: s.Reach, Outbound: s.Outbound, HasKin: s.Kin, KeylessAccess: s.Plain, Price: s.Price, MaxCallTime: s.Work, Input: s.Input, Memory: s.Memory, Stored: s.Stored,
		seed: s.Seed, version: d.Version,
	}, nil
}

// ChooserOf returns the effective chooser of a substrate or agent that a party has set for a
// tenant's vacant. If tenant is "", the chooser is the operator, because only the operator's key
// creates and changes such a vacant.
func ChooserOf(tenant string, by outbound.URLChooser) outbound.URLChooser {
	if tenant == "" {
		return outbound.Operator
	}
	return by
}

// TenantOf returns the tenant of a vacant from its record or tombstone. It is "" for a vacant of
// the operator. It is also "" if the record is missing or damaged, which verify reports.
func TenantOf(ctx context.Context, docs store.Reader, id identity.ID) (string, error) {
	r, _, err := RecordDocs.Get(ctx, docs, RecordKey(id))
	if problem.Is(err, problem.Damaged) {
		return "", nil
	}
	return r.Tenant, store.AsProblem(err)
}

func RecordKey(id identity.ID) store.Key { return RecordDocs.Key(id.String()) }

func (r *Record) isOpen() bool { return !r.State.IsClosed() && !r.Closed }

func (r *Record) place() store.Key {
	if !r.isOpen() {
		return store.Key{}
	}
	return RecordDocs.IndexKey(r.Name)
}

const (
	MaxCapability = 16 << 10 // bytes, within card.MaxBlob for the complete card
)

func checkCapability(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return problem.Invalid("capability", "a text that describes what the vacant can do", "none")
	case len(text) > MaxCapability:
		return problem.Invalid("capability", fmt.Sprintf("at most %d bytes", MaxCapability), fmt.Sprint(len(text)))
	}
	return nil // the card rejects control characters and invalid UTF-8
}

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

func clip(s string) string { return fmt.Sprintf("%.80q", s) }
