package operator

import (
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// KeyDocs contains the document with the hash of the operator key.
var KeyDocs = store.Kind[stored]{
	Shape: store.Shape{Name: "hash of the operator key", Partition: "host", Sort: "operator", Verify: store.VerifyNot},
	Codec: store.JSONCodec[stored](1),
	CheckValue: func(_ store.Doc, s stored) error {
		if s.Hash.IsZero() {
			return errors.New("it has no SHA-256")
		}
		return nil
	},
}

func Key() store.Key { return KeyDocs.Key() }

// stored is the form of the document. A key has 256 random bits, so a hash without a salt does not
// reveal the key.
type stored struct {
	Hash identity.Hash `json:"sha256"` // hash of the key in its text form
	Made time.Time     `json:"made"`
}
