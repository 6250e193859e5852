package operator

import (
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// KeyDocs contains the document with the hash of the operator key.
var KeyDocs = store.DocKind[keyDocument]{
	Shape: store.Shape{Name: "hash of the operator key", Partition: "host", Sort: "operator", Verify: store.VerifySkip},
	Codec: store.JSONCodec[keyDocument](1),
	CheckValue: func(_ store.Doc, s keyDocument) error {
		if s.Hash.IsZero() {
			return errors.New("it has no SHA-256")
		}
		return nil
	},
}

func DocKey() store.Key { return KeyDocs.Key() }

// keyDocument is the form of the document. A key has 256 random bits, so a hash without a salt does
// not reveal the key.
type keyDocument struct {
	Hash      identity.Hash `json:"sha256"` // hash of the key in its text form
	CreatedAt time.Time     `json:"made"`
}
