// Package logbook holds a vacant's signed history: entries that each name the
// hash of the one before, and what the entries that a host writes say (PROTOCOL
// §11).
//
// The invariants: the signed bytes are rebuilt from the fields; a payload is
// canonical JSON of an object; an entry has one line and one row form, and both
// read back to it.
package logbook

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// MaxPayload is the largest payload in bytes that Sign takes. Its line is one
// that ParseLine reads even when every byte of it must be escaped.
const MaxPayload = 32 << 10

// Entry is one entry of a logbook.
type Entry struct {
	Kind      string        // not blank
	Time      time.Time     // UTC, whole microseconds
	Payload   []byte        // canonical JSON of an object
	Prev      identity.Hash // hash of the entry before; zeros for the first
	Signature []byte        // 64 bytes when well formed; any length parses, and does not verify
}

// Kinds of entry that a host writes.
const (
	KindGenesis      = "GENESIS"
	KindStateChanged = "STATE_CHANGED"
	KindRestored     = "RESTORED"
	KindCardSigned   = "CARD_SIGNED"
	KindPublished    = "PUBLISHED"
	KindKeyExported  = "KEY_EXPORTED"
	KindDeleted      = "DELETED"
)

// Genesis is the payload of the first entry of a vacant.
func Genesis(name string, id identity.ID) []byte {
	return object(canon.Member{Key: "name", Value: canon.NewString(name)},
		canon.Member{Key: "vacant_id", Value: canon.NewString(id.String())})
}

// StateChanged is the payload of a change of state by the owner.
func StateChanged(from, to lifecycle.State) []byte {
	return object(canon.Member{Key: "from", Value: canon.NewString(string(from))},
		canon.Member{Key: "to", Value: canon.NewString(string(to))})
}

// Restored is the payload that says that a vacant answers nothing that was
// signed at or before a time: its host was put back from a backup.
func Restored(floor time.Time) []byte {
	return object(canon.Member{Key: "signed_after", Value: canon.NewString(canon.FormatTime(floor))})
}

// CardSigned is the payload that says which card a vacant stands by, and
// under which endpoint.
func CardSigned(card identity.Hash, endpoint string) []byte {
	return object(canon.Member{Key: "card_hash", Value: canon.NewString(card.String())},
		canon.Member{Key: "endpoint", Value: canon.NewString(endpoint)})
}

// Publication is what a vacant published of itself.
type Publication struct {
	Card       identity.Hash
	Endpoint   string
	ActorSeq   int64 // which of its own events in the registry says so
	Visibility lifecycle.Visibility
	From, To   lifecycle.State
}

// Published is the payload that says that a vacant published p.
func Published(p Publication) []byte {
	return object(canon.Member{Key: "actor_seq", Value: canon.NewInt(p.ActorSeq)},
		canon.Member{Key: "card_hash", Value: canon.NewString(p.Card.String())},
		canon.Member{Key: "endpoint", Value: canon.NewString(p.Endpoint)},
		canon.Member{Key: "from", Value: canon.NewString(string(p.From))},
		canon.Member{Key: "to", Value: canon.NewString(string(p.To))},
		canon.Member{Key: "visibility", Value: canon.NewString(string(p.Visibility))})
}

// KeyExported is the payload that says that the key has left the host at a URL,
// with the logbook up to this entry: from now on somebody else may sign too.
func KeyExported(host string) []byte {
	return object(canon.Member{Key: "host", Value: canon.NewString(host)})
}

// Deleted is the payload of the last entry of all: the key is destroyed with
// it, so that nothing can follow.
func Deleted(name string, id identity.ID) []byte {
	return object(canon.Member{Key: "name", Value: canon.NewString(name)},
		canon.Member{Key: "vacant_id", Value: canon.NewString(id.String())})
}

func object(members ...canon.Member) []byte { return canon.NewObject(members...).AppendCJ(nil) }

// Next is the unsigned entry that follows prev, the first one if prev is nil.
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

// Hash is what the next entry names: of the signed bytes, the signature
// excluded.
func (e *Entry) Hash() identity.Hash { return identity.Sum(e.AppendSigning(nil)) }

// Sign signs e by s, the owner of the log, and returns its hash. The time is
// first brought to UTC and whole microseconds (PROTOCOL §23 D6), the payload to
// its canonical form. A kind or payload that must not be signed is refused and
// leaves e as it was.
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

// check says whether e has a form: what every entry keeps to, old or new. It
// does not look at the payload.
func (e *Entry) check() error {
	if canon.IsBlank(e.Kind) {
		return problem.Invalid("kind", "a name", "a blank string")
	}
	if y := e.Time.Year(); y < 1 || y > 9999 {
		return problem.Invalid("ts", "a time in the years 1 to 9999", "another")
	}
	return nil
}

// parsePayload reads a payload, which is an object.
func parsePayload(b []byte, l canon.Limits) (canon.Value, error) {
	// An entry's line is an object around the payload.
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

// Verifier checks a logbook entry by entry. After a failure it goes on as if
// the entry had been right, so that each further damage is found as well.
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

// VerifyChain checks a whole logbook: nil, or a *ChainError for the first
// entry that fails. An empty one is right.
func VerifyChain(owner identity.ID, entries []Entry) error {
	v := Verifier{Owner: owner}
	for i := range entries {
		if err := v.Next(&entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// ChainError names an entry that does not verify, and why: its link if Want
// and Got differ, else its signature.
type ChainError struct {
	Index     int // from 0
	Want, Got identity.Hash
}

// IsLink reports whether the entry names another entry than the one before it.
func (e *ChainError) IsLink() bool { return e.Want != e.Got }

func (e *ChainError) Error() string { return e.problem().Text() }

// Unwrap gives the error its kind.
func (e *ChainError) Unwrap() error { return e.problem() }

// problem has the texts of the reference.
func (e *ChainError) problem() *problem.Error {
	if e.IsLink() {
		return problem.New(problem.Untrusted, "Logbook entry %d prev_hash mismatch: expected %s, got %s", e.Index, e.Want, e.Got)
	}
	return problem.New(problem.Untrusted, "Logbook entry %d signature invalid", e.Index)
}
