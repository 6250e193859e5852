package operator

import (
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// KeyDocs has the hash of the operator's key.
var KeyDocs = store.Kind[stored]{
	Shape: store.Shape{Name: "hash of the operator key", Partition: "host", Sort: "operator", Verify: store.Unread},
	Codec: store.JSON[stored](1),
	Valid: func(_ store.Doc, s stored) error {
		if s.Hash.IsZero() {
			return errors.New("it has no SHA-256")
		}
		return nil
	},
}

// Key is the key of the document with the hash.
func Key() store.Key { return KeyDocs.Key() }

// stored is the document. A key has 256 random bits, so its plain hash reveals
// nothing.
type stored struct {
	Hash identity.Hash `json:"sha256"` // of the key's text
	Made time.Time     `json:"made"`
}
