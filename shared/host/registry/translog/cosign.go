package translog

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func cosignedMessage(seconds uint64, text []byte) []byte {
	return append(fmt.Appendf(nil, "cosignature/v1\ntime %d\n", seconds), text...)
}

func cosignatureVerifier(name string, id identity.ID) verifier {
	return verifier{name, keyHash(name, keyTypeCosignature, id), func(text, sig []byte) bool {
		return len(sig) == cosignatureSize && identity.Verify(id, cosignedMessage(binary.BigEndian.Uint64(sig), text), sig[8:])
	}}
}

// parseWitnessKey accepts a plain Ed25519 key as a key for cosignatures, because witnesses publish
// keys of both types.
func parseWitnessKey(key string) (verifier, error) {
	name, rest, _ := strings.Cut(key, "+")
	hash, encoded, _ := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || name == "" || strings.ContainsAny(name, " \t\r\n") || len(raw) != 1+identity.Size {
		return verifier{}, errors.New("expected name+hash+key of an Ed25519 key")
	}
	id := identity.ID(raw[1:])
	if raw[0] != keyTypeEd25519 && raw[0] != keyTypeCosignature {
		return verifier{}, errors.New("the key type does not support cosignatures")
	}
	if hash != fmt.Sprintf("%08x", keyHash(name, raw[0], id)) {
		return verifier{}, errors.New("the hash does not match the name and key")
	}
	return cosignatureVerifier(name, id), id.Check()
}

// Cosign returns a note with the text of c and the witness's signature. The caller must have
// verified c.
func Cosign(ctx context.Context, c Checkpoint, witness identity.Signer, now time.Time) ([]byte, error) {
	text, seconds := c.Text(), uint64(now.Unix())
	sig, err := witness.Sign(ctx, cosignedMessage(seconds, []byte(text)))
	if err != nil {
		return nil, err
	}
	v := cosignatureVerifier(witnessPrefix+witness.ID().String(), witness.ID())
	return note.Sign(&note.Note{Text: text}, fixedSigner{v, append(binary.BigEndian.AppendUint64(nil, seconds), sig...)})
}

func parseCosignature(s note.Signature) (Cosignature, error) {
	raw, err := base64.StdEncoding.DecodeString(s.Base64)
	if err != nil || len(raw) != 4+cosignatureSize {
		return Cosignature{}, errors.New("a cosignature has " + strconv.Itoa(4+cosignatureSize) + " bytes")
	}
	id, _ := parseWitnessName(s.Name)
	return Cosignature{Name: s.Name, Witness: id, Time: int64(binary.BigEndian.Uint64(raw[4:]))}, nil
}
