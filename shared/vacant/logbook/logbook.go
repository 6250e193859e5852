// Package logbook implements a vacant's signed history: entries that each
// contain the hash of the previous entry, and the payloads of the entries that
// a host writes (PROTOCOL §11).
//
// Invariants: the signed bytes are rebuilt from the fields; a payload is
// canonical JSON of an object; an entry has one line form and one row form, and
// both decode to the same entry.
package logbook

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// MaxPayload is the largest payload in bytes that Sign accepts. ParseLine
// accepts its line even if every byte must be escaped.
const MaxPayload = 32 << 10

// Entry is one entry of a logbook.
type Entry struct {
	Kind      string        // not blank
	Time      time.Time     // UTC, whole microseconds
	Payload   []byte        // canonical JSON of an object
	Prev      identity.Hash // hash of the previous entry; zeros for the first
	Signature []byte        // 64 bytes when well formed; any length parses, and does not verify
}

// Kinds of entries that a host writes.
const (
	KindGenesis      = "GENESIS"
	KindStateChanged = "STATE_CHANGED"
	KindRestored     = "RESTORED"
	KindCardSigned   = "CARD_SIGNED"
	KindPublished    = "PUBLISHED"
	KindUpdated      = "UPDATED"
	KindPriced       = "PRICED"
	KindKeyExported  = "KEY_EXPORTED"
	KindDeleted      = "DELETED"
)

// Genesis is the payload of the first entry of a vacant.
func Genesis(name string, id identity.ID) []byte {
	return object(canon.Member{Key: "name", Value: canon.NewString(name)},
		canon.Member{Key: "vacant_id", Value: canon.NewString(id.String())})
}

// StateChanged is the payload for a state change by the owner.
func StateChanged(from, to lifecycle.State) []byte {
	return object(canon.Member{Key: "from", Value: canon.NewString(string(from))},
		canon.Member{Key: "to", Value: canon.NewString(string(to))})
}

// Restored is the payload for a vacant whose host was restored from a backup:
// it refuses everything signed at or before floor.
func Restored(floor time.Time) []byte {
	return object(canon.Member{Key: "signed_after", Value: canon.NewString(canon.FormatTime(floor))})
}

// CardSigned is the payload with a vacant's card and endpoint.
func CardSigned(card identity.Hash, endpoint string) []byte {
	return object(canon.Member{Key: "card_hash", Value: canon.NewString(card.String())},
		canon.Member{Key: "endpoint", Value: canon.NewString(endpoint)})
}

// Publication is the content of a publication entry.
type Publication struct {
	Card       identity.Hash
	Endpoint   string
	ActorSeq   int64 // of the vacant's own event in the registry
	Visibility lifecycle.Visibility
	From, To   lifecycle.State
}

// Published is the payload for a publication.
func Published(p Publication) []byte {
	return object(canon.Member{Key: "actor_seq", Value: canon.NewInt(p.ActorSeq)},
		canon.Member{Key: "card_hash", Value: canon.NewString(p.Card.String())},
		canon.Member{Key: "endpoint", Value: canon.NewString(p.Endpoint)},
		canon.Member{Key: "from", Value: canon.NewString(string(p.From))},
		canon.Member{Key: "to", Value: canon.NewString(string(p.To))},
		canon.Member{Key: "visibility", Value: canon.NewString(string(p.Visibility))})
}

// Updated is the payload for a vacant that got another name or another endpoint
// of its substrate: its name and the kind of its substrate.
func Updated(name, substrate string) []byte {
	return object(canon.Member{Key: "name", Value: canon.NewString(name)},
		canon.Member{Key: "substrate", Value: canon.NewString(substrate)})
}

// Priced is the payload for a new version of the price of calls: its number and the most
// that a call costs, in micro-dollars.
func Priced(version uint64, most int64) []byte {
	return object(canon.Member{Key: "most", Value: canon.NewInt(most)},
		canon.Member{Key: "version", Value: canon.NewInt(int64(version))})
}

// KeyExported is the payload for an export of the key and of the logbook up to
// this entry, by the host at a URL. From then on somebody else may sign too.
func KeyExported(host string) []byte {
	return object(canon.Member{Key: "host", Value: canon.NewString(host)})
}

// Deleted is the payload of the last entry: the key is destroyed with it, so no
// entry can follow.
func Deleted(name string, id identity.ID) []byte {
	return object(canon.Member{Key: "name", Value: canon.NewString(name)},
		canon.Member{Key: "vacant_id", Value: canon.NewString(id.String())})
}

func object(members ...canon.Member) []byte { return canon.NewObject(members...).AppendCJ(nil) }

// Next returns the unsigned entry after prev, or the first entry if prev is
// nil.
func Next(prev *Entry, kind string, at time.Time, payload []byte) Entry {
	e := Entry{Kind: kind, Time: at, Payload: payload}
	if prev != nil {
		e.Prev = prev.Hash()
	}
	return e
}

// AppendSigning appends the signed bytes: kind, time, payload and prev, joined
// by 0x1f.
func (e *Entry) AppendSigning(dst []byte) []byte {
	const separator = 0x1f
	dst = append(append(dst, e.Kind...), separator)
	dst = append(canon.AppendTime(dst, e.Time), separator)
	dst = append(append(dst, e.Payload...), separator)
	return append(dst, e.Prev[:]...)
}

// Hash is the hash of the signed bytes, without the signature. The next entry
// contains it.
func (e *Entry) Hash() identity.Hash { return identity.Sum(e.AppendSigning(nil)) }

// Sign signs e with s, the owner of the log, and returns its hash. It first
// converts the time to UTC and whole microseconds (PROTOCOL §23 D6) and the
// payload to its canonical form. If kind or payload is refused, e is unchanged.
func (e *Entry) Sign(ctx context.Context, s identity.Signer) (identity.Hash, error) {
	signed := *e
	signed.Time = e.Time.UTC().Truncate(time.Microsecond)
	if err := canon.CheckText("kind", e.Kind); err != nil {
		return identity.Hash{}, err
	}
	if len(e.Payload) > MaxPayload {
		return identity.Hash{}, problem.New(problem.TooLarge, "payload: expected at most %d bytes, got %d", MaxPayload, len(e.Payload))
	}
	payload, err := parsePayload(e.Payload, canon.DefaultLimits())
	if err != nil {
		return identity.Hash{}, err
	}
	signed.Payload = payload.AppendCJ(nil)
	if err := signed.check(); err != nil {
		return identity.Hash{}, err
	}
	b := signed.AppendSigning(nil)
	if signed.Signature, err = s.Sign(ctx, b); err != nil {
		return identity.Hash{}, err
	}
	*e = signed
	return identity.Sum(b), nil
}

// Verify reports whether e is signed by owner.
func (e *Entry) Verify(owner identity.ID) bool {
	return identity.Verify(owner, e.AppendSigning(nil), e.Signature)
}

// check returns nil if e has the form of an old or new entry. It does not check
// the payload.
func (e *Entry) check() error {
	if canon.IsBlank(e.Kind) {
		return problem.Invalid("kind", "a name", "a blank string")
	}
	if y := e.Time.Year(); y < 1 || y > 9999 {
		return problem.Invalid("ts", "a time in the years 1 to 9999", "another")
	}
	return nil
}

// parsePayload parses a payload, which is an object.
func parsePayload(b []byte, l canon.Limits) (canon.Value, error) {
	// The line of an entry wraps the payload in an object.
	l.Depth--
	v, err := canon.Parse(b, l)
	if err != nil {
		return canon.Value{}, problem.New(problem.Malformed, "payload: %s", problem.Of(err).Text())
	}
	if v.Kind() != canon.Object {
		return canon.Value{}, problem.Invalid("payload", canon.Object.String(), v.Kind().String())
	}
	return v, nil
}

// Verifier checks a logbook entry by entry. After a failure it continues as if
// the entry were correct, so that it finds later damage too.
type Verifier struct {
	Owner identity.ID
	next  int
	tip   identity.Hash
}

// Next checks the next entry: first its link, then its signature. A failure is
// a *ChainError.
func (v *Verifier) Next(e *Entry) error {
	err := &ChainError{Index: v.next, Want: v.tip, Got: e.Prev}
	b := e.AppendSigning(nil)
	v.next, v.tip = v.next+1, identity.Sum(b)
	if err.Got != err.Want {
		return err
	}
	if !identity.Verify(v.Owner, b, e.Signature) {
		return err
	}
	return nil
}

// VerifyChain checks a whole logbook. It returns nil, or a *ChainError for the
// first entry that fails. An empty logbook is valid.
func VerifyChain(owner identity.ID, entries []Entry) error {
	v := Verifier{Owner: owner}
	for i := range entries {
		if err := v.Next(&entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// ChainError is an entry that does not verify: because of its link if Want and
// Got differ, else because of its signature.
type ChainError struct {
	Index     int // from 0
	Want, Got identity.Hash
}

// IsLink reports whether the entry names another entry than its predecessor.
func (e *ChainError) IsLink() bool { return e.Want != e.Got }

func (e *ChainError) Error() string { return e.problem().Text() }

// Unwrap returns the problem, which has a kind.
func (e *ChainError) Unwrap() error { return e.problem() }

// problem has the reference's texts.
func (e *ChainError) problem() *problem.Error {
	if e.IsLink() {
		return problem.New(problem.Untrusted, "Logbook entry %d prev_hash mismatch: expected %s, got %s", e.Index, e.Want, e.Got)
	}
	return problem.New(problem.Untrusted, "Logbook entry %d signature invalid", e.Index)
}
