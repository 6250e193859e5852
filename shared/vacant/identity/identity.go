// Package identity implements vacant ids, which are raw Ed25519 public keys,
// strict signature verification, the BLAKE2b-256 hash, and the Signer port for
// private keys (PROTOCOL §1).
//
// Invariant: keys of small order and non-canonical keys, under which anybody
// could sign, never verify.
package identity

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"golang.org/x/crypto/blake2b"
)

// Size is the length in bytes of an id, a hash and a seed.
const Size = 32

// ID is a vacant's id: its raw 32-byte Ed25519 public key.
type ID [Size]byte

// ParseID parses hex of either case. Like the reference it skips ASCII white
// space between byte pairs and at both ends (PROTOCOL §1).
func ParseID(s string) (ID, error) {
	var id ID
	err := parseHex(id[:], s)
	return id, err
}

// String is the canonical form: 64 lowercase hex digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// AppendHex appends the canonical form to dst.
func (id ID) AppendHex(dst []byte) []byte { return hex.AppendEncode(dst, id[:]) }

// shortSize is the number of bytes in Short.
const shortSize = 6

// Short is the first 12 hex digits, for log lines, error texts and search. It does
// not identify a vacant: keys with equal short ids can be made.
func (id ID) Short() string { return hex.EncodeToString(id[:shortSize]) }

// IsShort reports whether s has the form of Short.
func IsShort(s string) bool {
	return len(s) == 2*shortSize && strings.Trim(s, "0123456789abcdef") == ""
}

// IsZero reports whether id is all zeros. No vacant has that id.
func (id ID) IsZero() bool { return id == ID{} }

// MarshalText writes the canonical form.
func (id ID) MarshalText() ([]byte, error) { return id.AppendHex(nil), nil }

// UnmarshalText is ParseID.
func (id *ID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseID(string(b))
	return err
}

// Hash is a BLAKE2b-256 digest. The zero Hash means "no previous envelope" in
// the protocol.
type Hash [Size]byte

// Sum hashes b with BLAKE2b, digest length 32 in the parameter block.
func Sum(b []byte) Hash { return blake2b.Sum256(b) }

// ParseHash parses hex as ParseID does.
func ParseHash(s string) (Hash, error) {
	var h Hash
	err := parseHex(h[:], s)
	return h, err
}

// String is 64 lowercase hex digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// AppendHex appends the 64 lowercase hex digits to dst.
func (h Hash) AppendHex(dst []byte) []byte { return hex.AppendEncode(dst, h[:]) }

// IsZero reports whether h is all zeros.
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText writes 64 lowercase hex digits.
func (h Hash) MarshalText() ([]byte, error) { return h.AppendHex(nil), nil }

// UnmarshalText is ParseHash.
func (h *Hash) UnmarshalText(b []byte) (err error) {
	*h, err = ParseHash(string(b))
	return err
}

// Signature is a signature whose text is hex, or "" if it is absent.
type Signature []byte

// UnmarshalText parses hex as ParseHex does. Empty text means nil.
func (s *Signature) UnmarshalText(b []byte) (err error) {
	if *s = nil; len(b) > 0 {
		*s, err = ParseHex(string(b))
	}
	return err
}

// ParseHex parses hex as the reference does: either case, with ASCII white
// space skipped between pairs and at both ends.
func ParseHex(s string) ([]byte, error) {
	if b, err := hex.DecodeString(s); err == nil {
		return b, nil
	}
	out := make([]byte, 0, len(s)/2)
	for i := 0; i < len(s); {
		if isSpace(s[i]) {
			i++
			continue
		}
		hi, lo := nibble(s[i]), -1
		if hi < 0 {
			return nil, hexError(s, i)
		}
		if i+1 < len(s) {
			lo = nibble(s[i+1])
		}
		if lo < 0 {
			return nil, hexError(s, i+1)
		}
		out = append(out, byte(hi<<4|lo))
		i += 2
	}
	return out, nil
}

func parseHex(dst []byte, s string) error {
	// The canonical form, which nearly every message has, needs no allocation.
	if len(s) == 2*len(dst) {
		if _, err := hex.Decode(dst, []byte(s)); err == nil {
			return nil
		}
	}
	b, err := ParseHex(s)
	if err != nil {
		clear(dst)
		return err
	}
	if len(b) != len(dst) {
		clear(dst)
		return &problem.Error{Kind: problem.Malformed, Detail: fmt.Sprintf("expected %d bytes of hex, got %d", len(dst), len(b))}
	}
	copy(dst, b)
	return nil
}

func hexError(s string, at int) error {
	return &problem.Error{Kind: problem.Malformed, Detail: fmt.Sprintf("expected hexadecimal digits, got %.20q at position %d", s[at:], at)}
}

func nibble(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
