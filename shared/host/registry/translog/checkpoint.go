package translog

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// These prefixes start the names of signers in notes: the log of a host, and a vacant that is a
// witness.
const (
	originPrefix  = "vacancy/"
	witnessPrefix = "vacant/"
)

const (
	keyEd25519     = 1
	keyCosignature = 4 // cosignature/v1: Ed25519 with a time
)

// cosignatureSize is the size of a time in seconds (8 bytes, big endian) and a signature.
const cosignatureSize = 8 + ed25519.SignatureSize

// Checkpoint is a host's statement about the size and the root of its log.
type Checkpoint struct {
	Host identity.ID
	Size uint64
	Root [sha256.Size]byte
}

func Origin(host identity.ID) string { return originPrefix + host.String() }

func (c Checkpoint) Text() string {
	return string(log.Checkpoint{Origin: Origin(c.Host), Size: c.Size, Hash: c.Root[:]}.Marshal())
}

// ParseText parses the text of a checkpoint. It accepts only the canonical form, so that each
// checkpoint has a single text.
func ParseText(text string) (c Checkpoint, err error) {
	var raw log.Checkpoint
	if rest, err := raw.Unmarshal([]byte(text)); err != nil || len(rest) > 0 {
		return c, problem.Invalid("checkpoint", "three lines: origin, size, root", strconv.Quote(clip(text)))
	}
	id, ok := strings.CutPrefix(raw.Origin, originPrefix)
	if c.Host, err = identity.ParseID(id); !ok || err != nil {
		return c, problem.Invalid("checkpoint origin", originPrefix+"<64 hex digits>", strconv.Quote(clip(raw.Origin)))
	}
	if len(raw.Hash) != len(c.Root) {
		return c, problem.Invalid("checkpoint root", "32 bytes", strconv.Itoa(len(raw.Hash)))
	}
	c.Size, c.Root = raw.Size, [sha256.Size]byte(raw.Hash)
	if c.Text() != text {
		return c, problem.Invalid("checkpoint", "its one canonical form", strconv.Quote(clip(text)))
	}
	return c, nil
}

func clip(s string) string { return s[:min(len(s), 120)] }

func (c Checkpoint) sign(ctx context.Context, host identity.Signer) ([]byte, error) {
	text := c.Text()
	sig, err := host.Sign(ctx, []byte(text))
	if err != nil {
		return nil, err
	}
	return note.Sign(&note.Note{Text: text}, signed{hostVerifier(c.Host), sig})
}

// Signature is a verified cosignature of a note.
type Signature struct {
	Name string
	// Witness is the id of a witness that is a vacant, or zero for a configured witness.
	Witness identity.ID
	// Time is the witness's claim of the signing time, in Unix seconds.
	Time int64
}

// Open parses a checkpoint without trusting its sender. The text must be canonical and signed by
// the host that it names. Open verifies and returns the cosignatures of vacants, and rejects the
// note if one of them is invalid. It ignores other cosignatures. The errors are of kind Untrusted.
func Open(msg []byte) (Checkpoint, []Signature, error) {
	c, n, err := open(msg, nil)
	if err != nil {
		reason := err.Error() // contains only key names from the note
		var problemErr *problem.Error
		if errors.As(err, &problemErr) {
			reason = problemErr.Text()
		}
		return c, nil, problem.Wrap(problem.Untrusted, err, "the checkpoint does not verify: %s", reason)
	}
	var cosigned []Signature
	hosted := false
	for _, s := range n.Sigs {
		if s.Name == Origin(c.Host) {
			hosted = true
			continue
		}
		if read, err := readSignature(s); err == nil {
			cosigned = append(cosigned, read)
		}
	}
	if !hosted {
		return c, nil, problem.New(problem.Untrusted, "the checkpoint is not signed by the host that it names, %s", c.Host)
	}
	return c, cosigned, nil
}

// open parses a note whose text is a checkpoint. It verifies each signature whose key is in noteVerifiers
// or in the signer's name.
func open(msg []byte, noteVerifiers map[string]note.Verifier) (Checkpoint, *note.Note, error) {
	if len(msg) > MaxNote {
		return Checkpoint{}, nil, problem.Invalid("checkpoint", fmt.Sprintf("at most %d bytes", MaxNote), strconv.Itoa(len(msg)))
	}
	text, _, ok := strings.Cut(string(msg), "\n\n")
	// An error may show the names of unknown keys, so all characters must be printable.
	if !ok || strings.ContainsFunc(string(msg), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		return Checkpoint{}, nil, problem.Invalid("checkpoint", "a signed note", strconv.Quote(clip(string(msg))))
	}
	c, err := ParseText(text + "\n")
	if err != nil {
		return c, nil, err
	}
	n, err := note.Open(msg, verifiers{c.Host, noteVerifiers})
	if err != nil {
		return c, nil, err
	}
	// A checkpoint has no blank line, so note.Open finds the same text.
	if n.Text != c.Text() {
		return c, nil, errors.New("the note's text is not a checkpoint")
	}
	return c, n, nil
}

// verifiers is a note.Verifiers that finds the host's key by its origin, a vacant's key by its
// name, and other keys in known.
type verifiers struct {
	host  identity.ID
	known map[string]note.Verifier
}

func (v verifiers) Verifier(name string, hash uint32) (note.Verifier, error) {
	if own := hostVerifier(v.host); name == own.name && hash == own.hash {
		return own, nil
	}
	if id, ok := witnessOf(name); ok {
		if w := cosigner(name, id); w.hash == hash {
			return w, nil
		}
	}
	if w, ok := v.known[nameAndHash(name, hash)]; ok {
		return w, nil
	}
	return nil, &note.UnknownVerifierError{Name: name, KeyHash: hash}
}

func witnessOf(name string) (identity.ID, bool) {
	text, ok := strings.CutPrefix(name, witnessPrefix)
	id, err := identity.ParseID(text)
	return id, ok && err == nil && id.String() == text
}

// verifier is a note.Verifier that uses the strict verification of package identity.
type verifier struct {
	name   string
	hash   uint32
	verify func(msg, sig []byte) bool
}

func (v verifier) Name() string                { return v.name }
func (v verifier) KeyHash() uint32             { return v.hash }
func (v verifier) Verify(msg, sig []byte) bool { return v.verify(msg, sig) }

// signed is a note.Signer that returns a precomputed signature. Keys cannot implement note.Signer,
// because they need a context to sign.
type signed struct {
	verifier
	sig []byte
}

func (s signed) Sign([]byte) ([]byte, error) { return s.sig, nil }

func hostVerifier(host identity.ID) verifier {
	name := Origin(host)
	return verifier{name, keyHash(name, keyEd25519, host), func(msg, sig []byte) bool { return identity.Verify(host, msg, sig) }}
}

// VerifierKey returns the host's public key in the verifier-key form of signed notes.
func VerifierKey(host identity.ID) string { return encodeKey(Origin(host), keyEd25519, host) }

func WitnessKey(id identity.ID) string {
	return encodeKey(witnessPrefix+id.String(), keyCosignature, id)
}

func encodeKey(name string, kind byte, id identity.ID) string {
	return fmt.Sprintf("%s+%08x+%s", name, keyHash(name, kind, id), base64.StdEncoding.EncodeToString(append([]byte{kind}, id[:]...)))
}

// keyHash returns the short hash that identifies a key in a signature line.
func keyHash(name string, kind byte, id identity.ID) uint32 {
	h := sha256.New()
	h.Write([]byte(name))
	h.Write([]byte{'\n', kind})
	h.Write(id[:])
	return binary.BigEndian.Uint32(h.Sum(nil))
}

func verifierLine(v note.Verifier) string { return nameAndHash(v.Name(), v.KeyHash()) }

func nameAndHash(name string, hash uint32) string { return fmt.Sprintf("%s+%08x", name, hash) }
