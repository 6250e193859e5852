// Package identity implements vacant ids (Ed25519 public keys), signatures, and BLAKE2b-256 hashes
// (PROTOCOL §1).
package identity

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"golang.org/x/crypto/blake2b"
)

// Size is the size of an id, a hash and a seed in bytes.
const Size = 32

// ID is a raw Ed25519 public key. Its text form has 64 lowercase hex digits.
type ID [Size]byte

func ParseID(s string) (ID, error) {
	var id ID
	err := parseHexInto(id[:], s)
	return id, err
}

func (id ID) String() string { return hex.EncodeToString(id[:]) }

func (id ID) AppendHex(dst []byte) []byte { return hex.AppendEncode(dst, id[:]) }

const shortSize = 6

// Short returns 12 hex digits of id. Anyone can generate keys with the same digits.
func (id ID) Short() string { return hex.EncodeToString(id[:shortSize]) }

func IsShort(s string) bool {
	return len(s) == 2*shortSize && strings.Trim(s, "0123456789abcdef") == ""
}

func (id ID) IsZero() bool { return id == ID{} }

func (id ID) MarshalText() ([]byte, error) { return id.AppendHex(nil), nil }

func (id *ID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseID(string(b))
	return err
}

// Hash is a BLAKE2b-256 digest. Its text form has 64 lowercase hex digits.
type Hash [Size]byte

// Sum returns the BLAKE2b-256 hash of b, which differs from the first 32 bytes of BLAKE2b-512.
func Sum(b []byte) Hash { return blake2b.Sum256(b) }

func ParseHash(s string) (Hash, error) {
	var h Hash
	err := parseHexInto(h[:], s)
	return h, err
}

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

func (h Hash) AppendHex(dst []byte) []byte { return hex.AppendEncode(dst, h[:]) }

func (h Hash) IsZero() bool { return h == Hash{} }

func (h Hash) MarshalText() ([]byte, error) { return h.AppendHex(nil), nil }

func (h *Hash) UnmarshalText(b []byte) (err error) {
	*h, err = ParseHash(string(b))
	return err
}

type Signature []byte

func (s *Signature) UnmarshalText(b []byte) (err error) {
	if *s = nil; len(b) > 0 {
		*s, err = ParseHex(string(b))
	}
	return err
}

// ParseHex parses hex of either case. It skips ASCII white space between pairs of digits and at
// both ends (PROTOCOL §1).
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
		hi, lo := hexValue(s[i]), -1
		if hi < 0 {
			return nil, hexError(s, i)
		}
		if i+1 < len(s) {
			lo = hexValue(s[i+1])
		}
		if lo < 0 {
			return nil, hexError(s, i+1)
		}
		out = append(out, byte(hi<<4|lo))
		i += 2
	}
	return out, nil
}

func parseHexInto(dst []byte, s string) error {
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

func hexError(s string, position int) error {
	return &problem.Error{Kind: problem.Malformed, Detail: fmt.Sprintf("expected hexadecimal digits, got %.20q at position %d", s[position:], position)}
}

func hexValue(c byte) int {
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
