package datadir

import (
	"encoding/hex"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// keyFormat is the format of this package's key files, which the reference implementation can also
// read.
const keyFormat = "vacancy-key/1"

// Values of key_storage: the seed is in the key file, or in the keyring of the operating system.
const (
	storagePlain   = "plaintext"
	storageKeyring = "keyring"
)

func appendKeyFile(dst []byte, k *identity.Key) []byte {
	seed := k.Seed()
	defer clear(seed)
	return fmt.Appendf(dst, "{\"format\": %q, \"key_storage\": %q, \"pubkey_hex\": %q, \"seed_hex\": %q}\n",
		keyFormat, storagePlain, k.ID(), hex.EncodeToString(seed))
}

// keyDoc is a key file of this package or of the reference implementation.
type keyDoc struct {
	Format  string `json:"format"`
	Storage string `json:"key_storage"`
	Public  string `json:"pubkey_hex"`
	Seed    string `json:"seed_hex" canon:"secret"`
}

func parseKeyDoc(path string, b []byte) (keyDoc, error) {
	var k keyDoc
	limits := canon.DefaultLimits()
	limits.SkipUnknown = true
	err := canon.Unmarshal(b, &k, limits)
	if err != nil {
		return k, problem.Wrap(problem.Damaged, err, "%s is not a key file", path)
	}
	if k.Format != "" && k.Format != keyFormat {
		return k, problem.New(problem.Damaged, "%s has format %q; this version reads %q", path, k.Format, keyFormat)
	}
	return k, nil
}

func parseKeyFile(path string, b []byte) (*identity.Key, error) {
	doc, err := parseKeyDoc(path, b)
	if err != nil {
		return nil, err
	}
	if doc.Seed == "" {
		return nil, problem.New(problem.Damaged, "%s has no seed_hex", path)
	}
	return doc.identityKey(path)
}

// identityKey returns an error if the document's id differs, because a seed pasted into the wrong
// file would sign as another identity.
func (k keyDoc) identityKey(path string) (*identity.Key, error) {
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
