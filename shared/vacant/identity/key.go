package identity

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
)

const SignatureSize = ed25519.SignatureSize

// Signer signs with an Ed25519 key. It is safe for concurrent use.
//
// Envelopes, cards and logbook entries have no domain tags (PROTOCOL §23 D8), so bytes that another
// party chose could be one of them. A caller must therefore sign only bytes that it built itself.
type Signer interface {
	ID() ID
	Sign(ctx context.Context, msg []byte) ([]byte, error)
}

type Key struct {
	id         ID
	privateKey ed25519.PrivateKey
}

// NewKey creates a key from rand, which must be crypto/rand.Reader outside tests.
func NewKey(rand io.Reader) (*Key, error) {
	seed := make([]byte, Size)
	if _, err := io.ReadFull(rand, seed); err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "no randomness for a new key")
	}
	return KeyFromSeed(seed)
}

func KeyFromSeed(seed []byte) (*Key, error) {
	if len(seed) != Size {
		return nil, &problem.Error{Kind: problem.Malformed, Detail: "expected a seed of 32 bytes"}
	}
	k := &Key{privateKey: ed25519.NewKeyFromSeed(seed)}
	copy(k.id[:], k.privateKey[Size:])
	return k, nil
}

func (k *Key) ID() ID { return k.id }

func (k *Key) Sign(_ context.Context, msg []byte) ([]byte, error) {
	return ed25519.Sign(k.privateKey, msg), nil
}

func (k *Key) Seed() []byte { return bytes.Clone(k.privateKey.Seed()) }

func (k *Key) Wipe() { clear(k.privateKey) }

func (k *Key) String() string { return "key of " + k.id.Short() }

// Format hides the secret of a logged key.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// Verify reports whether sig is id's signature of msg by the rules of libsodium: sig has 64 bytes,
// its S is below the group order, the key is canonical, and neither the key nor the point R has
// small order. crypto/ed25519 accepts points of small order, for which anyone could sign (PROTOCOL
// §1).
func Verify(id ID, msg, sig []byte) bool {
	return len(sig) == SignatureSize && id.Check() == nil && !ID(sig[:Size]).isSmallOrder() && ed25519.Verify(id[:], msg, sig)
}

func (id ID) Check() error {
	y := id
	y[31] &= 0x7f // clears the sign bit of x
	// y must be below p = 2^255 - 19.
	if y[31] == 0x7f && y[0] >= 0xed {
		restIsFF := true
		for _, b := range y[1:31] {
			restIsFF = restIsFF && b == 0xff
		}
		if restIsFF {
			return problem.New(problem.Malformed, "id %s is not a canonical Ed25519 key", id.Short())
		}
	}
	if id.isSmallOrder() {
		return problem.New(problem.Malformed, "id %s is an Ed25519 key of small order", id.Short())
	}
	return nil
}

func (id ID) isSmallOrder() bool {
	id[31] &= 0x7f
	return slices.Contains(smallOrderPoints[:], id)
}

var smallOrderPoints = [...]ID{
	{},
	{0x01},
	{0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
	{0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
		0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05},
	{0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f,
		0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a},
}

// DIDKey returns the did:key identifier of id. The bytes 0xed 0x01 mark an Ed25519 public key.
func (id ID) DIDKey() string {
	return "did:key:z" + encodeBase58(append([]byte{0xed, 0x01}, id[:]...))
}

func encodeBase58(b []byte) string {
	const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	digits := []byte{}
	for _, c := range b {
		carry := int(c)
		for i := range digits {
			carry += int(digits[i]) << 8
			digits[i] = byte(carry % 58)
			carry /= 58
		}
		for ; carry > 0; carry /= 58 {
			digits = append(digits, byte(carry%58))
		}
	}
	out := make([]byte, 0, len(digits)+2)
	for i := 0; i < len(b) && b[i] == 0; i++ {
		out = append(out, alphabet[0])
	}
	for i := len(digits) - 1; i >= 0; i-- {
		out = append(out, alphabet[digits[i]])
	}
	return string(out)
}
