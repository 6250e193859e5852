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

type Record struct {
	ID         identity.ID
	Name       string
	State      lifecycle.State
	Capability string
	Substrate  string              // string form of a substrate.Spec
	Chooser    outbound.URLChooser // party that set Substrate and the agent
	// AgentVersion is the current version of the agent. Zero means the default agent.
	AgentVersion int
	Card         []byte
	CreatedAt    time.Time
	ChangedAt    time.Time
	// Floor is set for an imported or restored vacant. Calls signed at or before Floor are refused.
	// Otherwise, an accepted envelope that this host does not know could run again.
	Floor      time.Time
	RestoredAt time.Time
	// Tenant is "" for a vacant of the operator.
	Tenant string
	// Parent, Closed, Reachability and OutboundPolicy repeat the manifest in the registry. Closed
	// means that only the parent and siblings may call the vacant.
	Parent         *identity.ID
	Closed         bool
	Reachability   composite.Reachability
	OutboundPolicy composite.OutboundPolicy
	// HasKin reports whether the vacant has a parent or has ever had children.
	HasKin        bool
	KeylessAccess KeylessAccess
	// Price is nil if no price was ever set.
	Price *price.Price
	// CallTimeout limits the duration of a call. Zero means the host's limit.
	CallTimeout time.Duration
	// Input lists the media types of the files that the agent accepts.
	Input []string
	// Memory reports whether the agent remembers the calls of a thread.
	Memory bool
	// StoredBytes is the size of the agent versions and imported chains, which counts toward the
	// tenant's quota.
	StoredBytes int64
	// DeletedAt is the zero time unless the vacant was deleted. The record of a deleted vacant is a
	// tombstone.
	DeletedAt time.Time

	sealedSeed []byte
	nextAgent  *definition.Agent // stored with the next change of the record
	docVersion uint64
}

func (r Record) Format(f fmt.State, _ rune) {
	// Every verb prints only the name and the short id, so that logs never contain the sealed seed.
	_, _ = io.WriteString(f, "vacant "+r.Name+" ("+r.ID.Short()+")")
}

func (r *Record) nameVisibleTo(other *Record) string {
	if r.Tenant != other.Tenant {
		return "a vacant of another tenant"
	}
	return r.Name
}

func (r *Record) IsDeleted() bool { return !r.DeletedAt.IsZero() }

func (r *Record) HasKey() bool { return len(r.sealedSeed) > 0 }

// KeylessAccess is the setting for callers without a key. The zero value is KeylessOpen.
type KeylessAccess string

const (
	KeylessOpen   KeylessAccess = ""       // each caller is a separate guest
	KeylessOff    KeylessAccess = "off"    // callers without a key are refused
	KeylessShared KeylessAccess = "shared" // all callers are the same guest, for tests
)

func ParseKeylessAccess(s string) (KeylessAccess, error) {
	switch p := KeylessAccess(s); p {
	case "open":
		return KeylessOpen, nil
	case KeylessOff, KeylessShared:
		return p, nil
	}
	return "", problem.Invalid("plain", "open, off or shared", quoteTruncated(s))
}

func (p KeylessAccess) String() string {
	if p == KeylessOpen {
		return "open"
	}
	return string(p)
}

func CheckCallTimeout(d time.Duration) error {
	if d < call.MinCallTimeout || d > call.MaxCallTimeout {
		return problem.Invalid("work", "1s to 14m", d.String())
	}
	return nil
}

func ParseCallTimeout(s string) (d time.Duration, err error) {
	if s == "" {
		return 0, nil
	}
	if d, err = time.ParseDuration(s); err != nil {
		return 0, problem.Invalid("work", "1s to 14m", quoteTruncated(s))
	}
	return d, CheckCallTimeout(d)
}

type storedRecord struct {
	ID           identity.ID     `json:"id"`
	Name         string          `json:"name"`
	State        lifecycle.State `json:"state"`
	Capability   string          `json:"capability"`
	Substrate    string          `json:"substrate"`
	AgentVersion int             `json:"agent,omitempty"`
	Card         []byte          `json:"card"`
	CreatedAt    time.Time       `json:"created"`
	ChangedAt    time.Time       `json:"changed"`
	SealedSeed   []byte          `json:"seed"`
	Floor        time.Time       `json:"floor,omitzero"`
	RestoredAt   time.Time       `json:"restored,omitzero"`
	DeletedAt    time.Time       `json:"deleted,omitzero"`

	Tenant         string                   `json:"tenant,omitempty"`
	Parent         *identity.ID             `json:"parent,omitempty"`
	Closed         bool                     `json:"closed,omitempty"`
	Reachability   composite.Reachability   `json:"reach,omitempty"`
	OutboundPolicy composite.OutboundPolicy `json:"outbound,omitempty"`
	HasKin         bool                     `json:"kin,omitempty"`
	KeylessAccess  KeylessAccess            `json:"plain,omitempty"`
	// ByOperator is set only for vacants with a tenant.
	ByOperator bool `json:"by_operator,omitempty"`

	Price       *price.Price  `json:"price,omitempty"`
	CallTimeout time.Duration `json:"work,omitempty"`
	Input       []string      `json:"input,omitempty"`
	Memory      bool          `json:"memory,omitempty"`
	StoredBytes int64         `json:"stored,omitempty"`
}

// currentFormat is the format of records. UpgradeRecord reads formats 1 to 4.
const currentFormat = 5

var recordCodec = store.JSONCodec[storedRecord](currentFormat)

func encodeRecord(r Record) ([]byte, error) {
	// A tombstone contains no destroyed data, so that a later write cannot restore the data. It
	// includes the parent and HasKin, because a deleted closed child stays hidden from unrelated
	// callers.
	s := storedRecord{
		ID: r.ID, Name: r.Name, State: r.State, CreatedAt: r.CreatedAt, ChangedAt: r.ChangedAt, DeletedAt: r.DeletedAt,
		Tenant: r.Tenant, Parent: r.Parent, Closed: r.Closed, Reachability: r.Reachability, OutboundPolicy: r.OutboundPolicy, HasKin: r.HasKin,
	}
	if !r.IsDeleted() {
		s.Capability, s.Substrate, s.AgentVersion, s.Card, s.SealedSeed = r.Capability, r.Substrate, r.AgentVersion, r.Card, r.sealedSeed
		s.Floor, s.RestoredAt = r.Floor, r.RestoredAt
		s.KeylessAccess, s.Price, s.CallTimeout, s.Input, s.Memory, s.StoredBytes = r.KeylessAccess, r.Price, r.CallTimeout, r.Input, r.Memory, r.StoredBytes
		s.ByOperator = r.Tenant != "" && r.Chooser == outbound.Operator
	}
	return recordCodec.Encode(s)
}

func decodeRecord(d store.Doc) (Record, error) {
	s, err := recordCodec.Decode(d)
	if err != nil {
		return Record{}, err
	}
	state, err := lifecycle.ParseState(string(s.State))
	switch {
	case err != nil:
		return Record{}, err
	case s.Closed && s.Parent == nil || s.Parent != nil && !s.HasKin:
		return Record{}, problem.New(problem.Damaged, "its members parent, closed and kin contradict each other")
	case s.AgentVersion < 0:
		return Record{}, problem.New(problem.Damaged, "its agent version is %d", s.AgentVersion)
	case s.KeylessAccess != KeylessOpen && s.KeylessAccess != KeylessOff && s.KeylessAccess != KeylessShared:
		return Record{}, problem.New(problem.Damaged, "its access for callers without a key is %.80q", string(s.KeylessAccess))
	case s.CallTimeout != 0 && CheckCallTimeout(s.CallTimeout) != nil:
		return Record{}, problem.New(problem.Damaged, "the time limit of its calls is %s", s.CallTimeout)
	case s.StoredBytes < 0:
		return Record{}, problem.New(problem.Damaged, "its stored size is %d bytes", s.StoredBytes)
	case s.Price != nil && (s.Price.Version == 0 || s.Price.Check() != nil):
		return Record{}, problem.New(problem.Damaged, "its price is not valid")
	}
	chooser := outbound.Tenant
	if s.ByOperator {
		chooser = outbound.Operator
	}
	return Record{
		ID: s.ID, Name: s.Name, State: state, Chooser: ChooserOf(s.Tenant, chooser), Capability: s.Capability, Substrate: s.Substrate, AgentVersion: s.AgentVersion, Card: s.Card,
		CreatedAt: s.CreatedAt, ChangedAt: s.ChangedAt, Floor: s.Floor, RestoredAt: s.RestoredAt, DeletedAt: s.DeletedAt,
		Tenant: s.Tenant, Parent: s.Parent, Closed: s.Closed, Reachability: s.Reachability, OutboundPolicy: s.OutboundPolicy, HasKin: s.HasKin, KeylessAccess: s.KeylessAccess, Price: s.Price, CallTimeout: s.CallTimeout, Input: s.Input, Memory: s.Memory, StoredBytes: s.StoredBytes,
		sealedSeed: s.SealedSeed, docVersion: d.Version,
	}, nil
}

// ChooserOf returns the effective chooser of a substrate or agent. Only the operator can create or
// change a vacant without a tenant.
func ChooserOf(tenant string, chooser outbound.URLChooser) outbound.URLChooser {
	if tenant == "" {
		return outbound.Operator
	}
	return chooser
}

// TenantOf returns the tenant of a vacant, or "" for the operator and for a missing or damaged
// record.
func TenantOf(ctx context.Context, docs store.Reader, id identity.ID) (string, error) {
	r, _, err := RecordDocs.Get(ctx, docs, RecordKey(id))
	if problem.Is(err, problem.Damaged) {
		return "", nil
	}
	return r.Tenant, store.AsProblem(err)
}

func RecordKey(id identity.ID) store.Key { return RecordDocs.Key(id.String()) }

func (r *Record) isOpen() bool { return !r.State.IsRetired() && !r.Closed }

func (r *Record) openIndexKey() store.Key {
	if !r.isOpen() {
		return store.Key{}
	}
	return RecordDocs.IndexKey(r.Name)
}

const (
	MaxCapabilityBytes = 16 << 10 // less than card.MaxBlob, which limits the complete card
)

func checkCapability(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return problem.Invalid("capability", "a text that describes what the vacant can do", "none")
	case len(text) > MaxCapabilityBytes:
		return problem.Invalid("capability", fmt.Sprintf("at most %d bytes", MaxCapabilityBytes), fmt.Sprint(len(text)))
	}
	return nil // the card rejects control characters and invalid UTF-8
}

func signCard(ctx context.Context, r *Record, base string, cardSubstrates []string, s identity.Signer) (card.Card, error) {
	c, err := card.New(r.ID, r.Capability, cardSubstrates, cardEndpoint(base, r.ID))
	if err == nil {
		err = c.Sign(ctx, s)
	}
	if err != nil {
		return c, err
	}
	r.Card = c.Blob()
	return c, nil
}

func quoteTruncated(s string) string { return fmt.Sprintf("%.80q", s) }
