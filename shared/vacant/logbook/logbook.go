// Package logbook implements a vacant's signed history and the payloads of its entries (PROTOCOL
// §11). Each entry contains the hash of the previous entry.
//
// The signed bytes are built from the fields. A payload is the canonical JSON of an object. An
// entry has exactly one text form (a line of a file) and one binary form (a row in a store).
package logbook

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

const MaxPayloadBytes = 32 << 10

type Entry struct {
	Kind      string
	Time      time.Time     // UTC, whole microseconds
	Payload   []byte        // canonical JSON of an object
	Prev      identity.Hash // zero for the first entry
	Signature []byte
}

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

// GenesisPayload returns the payload of a vacant's first entry. The first entry of a child has a
// [Birth].
func GenesisPayload(name string, id identity.ID) []byte {
	return encodeObject(canon.Member{Key: "name", Value: canon.NewString(name)},
		canon.Member{Key: "vacant_id", Value: canon.NewString(id.String())})
}

func StateChangedPayload(from, to lifecycle.State) []byte {
	return encodeObject(canon.Member{Key: "from", Value: canon.NewString(string(from))},
		canon.Member{Key: "to", Value: canon.NewString(string(to))})
}

// RestoredPayload is for a restore from a backup. The vacant refuses everything that was signed at
// or before floor.
func RestoredPayload(floor time.Time) []byte {
	return encodeObject(canon.Member{Key: "signed_after", Value: canon.NewString(canon.FormatTime(floor))})
}

func CardSignedPayload(cardHash identity.Hash, endpoint string) []byte {
	return encodeObject(canon.Member{Key: "card_hash", Value: canon.NewString(cardHash.String())},
		canon.Member{Key: "endpoint", Value: canon.NewString(endpoint)})
}

type Publication struct {
	CardHash           identity.Hash
	Endpoint           string
	ActorSeq           int64 // event.Event.ActorSeq of the register event
	Visibility         lifecycle.Visibility
	FromState, ToState lifecycle.State
}

func PublishedPayload(p Publication) []byte {
	return encodeObject(canon.Member{Key: "actor_seq", Value: canon.NewInt(p.ActorSeq)},
		canon.Member{Key: "card_hash", Value: canon.NewString(p.CardHash.String())},
		canon.Member{Key: "endpoint", Value: canon.NewString(p.Endpoint)},
		canon.Member{Key: "from", Value: canon.NewString(string(p.FromState))},
		canon.Member{Key: "to", Value: canon.NewString(string(p.ToState))},
		canon.Member{Key: "visibility", Value: canon.NewString(string(p.Visibility))})
}

// UpdatedPayload is for an update that leaves the vacant's card unchanged.
func UpdatedPayload(name, substrate string) []byte {
	return encodeObject(canon.Member{Key: "name", Value: canon.NewString(name)},
		canon.Member{Key: "substrate", Value: canon.NewString(substrate)})
}

// PricedPayload is for a new price. maxCost is in micro-dollars.
func PricedPayload(version uint64, maxCost int64) []byte {
	return encodeObject(canon.Member{Key: "most", Value: canon.NewInt(maxCost)},
		canon.Member{Key: "version", Value: canon.NewInt(int64(version))})
}

// KeyExportedPayload is for an export of the key. After this entry, another party can also sign
// with the key.
func KeyExportedPayload(host string) []byte {
	return encodeObject(canon.Member{Key: "host", Value: canon.NewString(host)})
}

// DeletedPayload is for the last entry, with which the key is destroyed.
func DeletedPayload(name string, id identity.ID) []byte {
	return encodeObject(canon.Member{Key: "name", Value: canon.NewString(name)},
		canon.Member{Key: "vacant_id", Value: canon.NewString(id.String())})
}

func encodeObject(members ...canon.Member) []byte { return canon.NewObject(members...).AppendCJ(nil) }

// Next returns the unsigned entry that follows prev, or the first entry if prev is nil.
func Next(prev *Entry, kind string, now time.Time, payload []byte) Entry {
	e := Entry{Kind: kind, Time: now, Payload: payload}
	if prev != nil {
		e.Prev = prev.Hash()
	}
	return e
}

// AppendSignedBytes appends the signed bytes: kind, time, payload and prev, joined by 0x1f.
func (e *Entry) AppendSignedBytes(dst []byte) []byte {
	const separator = 0x1f
	dst = append(append(dst, e.Kind...), separator)
	dst = append(canon.AppendTime(dst, e.Time), separator)
	dst = append(append(dst, e.Payload...), separator)
	return append(dst, e.Prev[:]...)
}

func (e *Entry) Hash() identity.Hash { return identity.Sum(e.AppendSignedBytes(nil)) }

// Sign signs e with s, the owner of the logbook, and returns the hash of e. It first converts the
// time to UTC and whole microseconds (PROTOCOL §23 D6), and the payload to its canonical form.
func (e *Entry) Sign(ctx context.Context, s identity.Signer) (identity.Hash, error) {
	signedEntry := *e
	signedEntry.Time = e.Time.UTC().Truncate(time.Microsecond)
	if err := canon.CheckSignedText("kind", e.Kind); err != nil {
		return identity.Hash{}, err
	}
	if len(e.Payload) > MaxPayloadBytes {
		return identity.Hash{}, problem.New(problem.TooLarge, "payload: expected at most %d bytes, got %d", MaxPayloadBytes, len(e.Payload))
	}
	payload, err := parsePayload(e.Payload, canon.DefaultLimits())
	if err != nil {
		return identity.Hash{}, err
	}
	signedEntry.Payload = payload.AppendCJ(nil)
	if err := signedEntry.check(); err != nil {
		return identity.Hash{}, err
	}
	b := signedEntry.AppendSignedBytes(nil)
	if signedEntry.Signature, err = s.Sign(ctx, b); err != nil {
		return identity.Hash{}, err
	}
	*e = signedEntry
	return identity.Sum(b), nil
}

func (e *Entry) Verify(owner identity.ID) bool {
	return identity.Verify(owner, e.AppendSignedBytes(nil), e.Signature)
}

func (e *Entry) check() error {
	if canon.IsBlank(e.Kind) {
		return problem.Invalid("kind", "a name", "a blank string")
	}
	if year := e.Time.Year(); year < 1 || year > 9999 {
		return problem.Invalid("ts", "a time in the years 1 to 9999", "another year")
	}
	return nil
}

func parsePayload(b []byte, l canon.Limits) (canon.Value, error) {
	// ParseLine has the same limit for a line, which contains the payload one level deeper.
	l.Depth--
	v, err := canon.Parse(b, l)
	if err != nil {
		return canon.Value{}, problem.New(problem.Malformed, "payload: %s", problem.AsError(err).Text())
	}
	if v.Kind() != canon.Object {
		return canon.Value{}, problem.Invalid("payload", canon.Object.String(), v.Kind().String())
	}
	return v, nil
}

// Verifier verifies a logbook entry by entry. After a failure it continues, so that it also finds
// later damage.
type Verifier struct {
	Owner     identity.ID
	nextIndex int
	lastHash  identity.Hash
}

// Verify returns a *ChainError if the next entry is wrong.
func (v *Verifier) Verify(e *Entry) error {
	chainErr := &ChainError{Index: v.nextIndex, Want: v.lastHash, Got: e.Prev}
	b := e.AppendSignedBytes(nil)
	v.nextIndex, v.lastHash = v.nextIndex+1, identity.Sum(b)
	if chainErr.Got != chainErr.Want {
		return chainErr
	}
	if !identity.Verify(v.Owner, b, e.Signature) {
		return chainErr
	}
	return nil
}

// VerifyChain returns a *ChainError for the first wrong entry.
func VerifyChain(owner identity.ID, entries []Entry) error {
	v := Verifier{Owner: owner}
	for i := range entries {
		if err := v.Verify(&entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// ChainError is the error about a wrong entry. If Want and Got are equal, its signature is wrong.
type ChainError struct {
	Index     int
	Want, Got identity.Hash
}

func (e *ChainError) IsLinkWrong() bool { return e.Want != e.Got }

func (e *ChainError) Error() string { return e.problem().Text() }

func (e *ChainError) Unwrap() error { return e.problem() }

func (e *ChainError) problem() *problem.Error {
	if e.IsLinkWrong() {
		return problem.New(problem.Untrusted, "Logbook entry %d prev_hash mismatch: expected %s, got %s", e.Index, e.Want, e.Got)
	}
	return problem.New(problem.Untrusted, "Logbook entry %d signature invalid", e.Index)
}
