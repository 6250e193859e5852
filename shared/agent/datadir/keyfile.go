package datadir

import (
	"encoding/hex"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// keyFormat names the form of our key files. They have the members of the
// reference's key.json too, so the reference can read them.
const keyFormat = "vacancy-key/1"

// Where the reference stores a seed: in the file, or elsewhere.
const (
	storagePlain   = "plaintext"
	storageKeyring = "keyring"
)

// appendKey appends k's key file.
func appendKey(dst []byte, k *identity.Key) []byte {
	seed := k.Seed()
	defer clear(seed)
	return fmt.Appendf(dst, "{\"format\": %q, \"key_storage\": %q, \"pubkey_hex\": %q, \"seed_hex\": %q}\n",
		keyFormat, storagePlain, k.ID(), hex.EncodeToString(seed))
}

// keyDoc is a key file, ours or the reference's.
type keyDoc struct {
	Format  string `json:"format"`
	Storage string `json:"key_storage"`
	Public  string `json:"pubkey_hex"`
	Seed    string `json:"seed_hex" canon:"secret"`
}

func parseKeyDoc(path string, b []byte) (keyDoc, error) {
	var k keyDoc
	limits := canon.DefaultLimits()
	limits.Open = true
	err := canon.Unmarshal(b, &k, limits)
	if err != nil {
		return k, problem.Wrap(problem.Damaged, err, "%s is not a key file", path)
	}
	if k.Format != "" && k.Format != keyFormat {
		return k, problem.New(problem.Damaged, "%s has the form %q; this version reads %q", path, k.Format, keyFormat)
	}
	return k, nil
}

// parseKey parses a key file that contains its seed.
func parseKey(path string, b []byte) (*identity.Key, error) {
	doc, err := parseKeyDoc(path, b)
	if err != nil {
		return nil, err
	}
	if doc.Seed == "" {
		return nil, problem.New(problem.Damaged, "%s has no seed_hex", path)
	}
	return doc.key(path)
}

// key makes the key of the document's seed and compares it with the document's
// id: a seed pasted into the wrong file would sign as another.
func (k keyDoc) key(path string) (*identity.Key, error) {
	seed, err := hex.DecodeString(k.Seed)
	if err != nil || len(seed) != identity.Size {
		return nil, problem.New(problem.Damaged, "%s: seed_hex: expected 64 hex digits", path)
	}
	defer clear(seed)
	key, err := identity.KeyFromSeed(seed)
	if err != nil {
		return nil, err
	}
	if k.Public != "" {
		id, err := identity.ParseID(k.Public)
		if err != nil {
			return nil, problem.Wrap(problem.Damaged, err, "%s: pubkey_hex", path)
		}
		if id != key.ID() {
			return nil, problem.New(problem.Damaged, "%s: the seed is the key of %s, the file says %s", path, key.ID().Short(), id.Short())
		}
	}
	return key, nil
}
