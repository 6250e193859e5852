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

const (
	originPrefix  = "vacancy/"
	witnessPrefix = "vacant/"
)

const (
	keyTypeEd25519     = 1
	keyTypeCosignature = 4 // cosignature/v1: Ed25519 with a time
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

// ParseCheckpoint parses the text of a checkpoint. It accepts only the canonical form.
func ParseCheckpoint(text string) (c Checkpoint, err error) {
	var raw log.Checkpoint
	if rest, err := raw.Unmarshal([]byte(text)); err != nil || len(rest) > 0 {
		return c, problem.Invalid("checkpoint", "three lines: origin, size, root", strconv.Quote(truncate(text)))
	}
	id, ok := strings.CutPrefix(raw.Origin, originPrefix)
	if c.Host, err = identity.ParseID(id); !ok || err != nil {
		return c, problem.Invalid("checkpoint origin", originPrefix+"<64 hex digits>", strconv.Quote(truncate(raw.Origin)))
	}
	if len(raw.Hash) != len(c.Root) {
		return c, problem.Invalid("checkpoint root", "32 bytes", strconv.Itoa(len(raw.Hash)))
	}
	c.Size, c.Root = raw.Size, [sha256.Size]byte(raw.Hash)
	if c.Text() != text {
		return c, problem.Invalid("checkpoint", "the canonical form of a checkpoint", strconv.Quote(truncate(text)))
	}
	return c, nil
}

func truncate(s string) string { return s[:min(len(s), 120)] }

func (c Checkpoint) sign(ctx context.Context, host identity.Signer) ([]byte, error) {
	text := c.Text()
	sig, err := host.Sign(ctx, []byte(text))
	if err != nil {
		return nil, err
	}
	return note.Sign(&note.Note{Text: text}, fixedSigner{hostVerifier(c.Host), sig})
}

type Cosignature struct {
	Name string
	// Witness is the id of a witness that is a vacant, or zero for a configured witness.
	Witness identity.ID
	// Time is the signing time that the witness claims, in Unix seconds.
	Time int64
}

// VerifyCheckpoint parses a checkpoint from an untrusted sender. The host that the text names must
// have signed it. It returns the cosignatures of vacants, and rejects the note if one of them is
// invalid. Errors have kind Untrusted.
func VerifyCheckpoint(msg []byte) (Checkpoint, []Cosignature, error) {
	c, n, err := openNote(msg, nil)
	if err != nil {
		reason := err.Error() // contains only key names from the note
		var problemErr *problem.Error
		if errors.As(err, &problemErr) {
			reason = problemErr.Text()
		}
		return c, nil, problem.Wrap(problem.Untrusted, err, "the checkpoint does not verify: %s", reason)
	}
	var cosignatures []Cosignature
	isHostSigned := false
	for _, s := range n.Sigs {
		if s.Name == Origin(c.Host) {
			isHostSigned = true
			continue
		}
		if cosignature, err := parseCosignature(s); err == nil {
			cosignatures = append(cosignatures, cosignature)
		}
	}
	if !isHostSigned {
		return c, nil, problem.New(problem.Untrusted, "the checkpoint is not signed by the host that it names, %s", c.Host)
	}
	return c, cosignatures, nil
}

func openNote(msg []byte, configured map[string]note.Verifier) (Checkpoint, *note.Note, error) {
	if len(msg) > MaxNoteBytes {
		return Checkpoint{}, nil, problem.Invalid("checkpoint", fmt.Sprintf("at most %d bytes", MaxNoteBytes), strconv.Itoa(len(msg)))
	}
	text, _, ok := strings.Cut(string(msg), "\n\n")
	// Errors show names from the note, so all characters must be printable.
	if !ok || strings.ContainsFunc(string(msg), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		return Checkpoint{}, nil, problem.Invalid("checkpoint", "a signed note", strconv.Quote(truncate(string(msg))))
	}
	c, err := ParseCheckpoint(text + "\n")
	if err != nil {
		return c, nil, err
	}
	n, err := note.Open(msg, verifierSet{c.Host, configured})
	if err != nil {
		return c, nil, err
	}
	if n.Text != c.Text() {
		return c, nil, errors.New("the note's text is not a checkpoint")
	}
	return c, n, nil
}

type verifierSet struct {
	host       identity.ID
	configured map[string]note.Verifier
}

func (v verifierSet) Verifier(name string, hash uint32) (note.Verifier, error) {
	if hostKey := hostVerifier(v.host); name == hostKey.name && hash == hostKey.hash {
		return hostKey, nil
	}
	if id, ok := parseWitnessName(name); ok {
		if w := cosignatureVerifier(name, id); w.hash == hash {
			return w, nil
		}
	}
	if w, ok := v.configured[nameAndHash(name, hash)]; ok {
		return w, nil
	}
	return nil, &note.UnknownVerifierError{Name: name, KeyHash: hash}
}

func parseWitnessName(name string) (identity.ID, bool) {
	text, ok := strings.CutPrefix(name, witnessPrefix)
	id, err := identity.ParseID(text)
	return id, ok && err == nil && id.String() == text
}

type verifier struct {
	name   string
	hash   uint32
	verify func(msg, sig []byte) bool
}

func (v verifier) Name() string                { return v.name }
func (v verifier) KeyHash() uint32             { return v.hash }
func (v verifier) Verify(msg, sig []byte) bool { return v.verify(msg, sig) }

// fixedSigner is a note.Signer that returns a precomputed signature.
type fixedSigner struct {
	verifier
	sig []byte
}

func (s fixedSigner) Sign([]byte) ([]byte, error) { return s.sig, nil }

func hostVerifier(host identity.ID) verifier {
	name := Origin(host)
	return verifier{name, keyHash(name, keyTypeEd25519, host), func(msg, sig []byte) bool { return identity.Verify(host, msg, sig) }}
}

// VerifierKey returns the host's public key in the verifier-key form of signed notes.
func VerifierKey(host identity.ID) string { return encodeKey(Origin(host), keyTypeEd25519, host) }

func WitnessKey(id identity.ID) string {
	return encodeKey(witnessPrefix+id.String(), keyTypeCosignature, id)
}

func encodeKey(name string, keyType byte, id identity.ID) string {
	return fmt.Sprintf("%s+%08x+%s", name, keyHash(name, keyType, id), base64.StdEncoding.EncodeToString(append([]byte{keyType}, id[:]...)))
}

func keyHash(name string, keyType byte, id identity.ID) uint32 {
	h := sha256.New()
	h.Write([]byte(name))
	h.Write([]byte{'\n', keyType})
	h.Write(id[:])
	return binary.BigEndian.Uint32(h.Sum(nil))
}

func verifierID(v note.Verifier) string { return nameAndHash(v.Name(), v.KeyHash()) }

func nameAndHash(name string, hash uint32) string { return fmt.Sprintf("%s+%08x", name, hash) }
