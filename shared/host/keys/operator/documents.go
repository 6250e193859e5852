package operator

import (
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

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

// keyDocument needs no salt, because a key has 256 random bits.
type keyDocument struct {
	Hash      identity.Hash `json:"sha256"`
	CreatedAt time.Time     `json:"made"`
}
