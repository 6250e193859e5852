package textkeys

import (
	"errors"

	"github.com/vacancy-host/vacancy/shared/store"
)

// partition has the keys, sorted by the day, YYYY-MM-DD. It also begins what the vault
// binds their boxes to.
const partition = "textkey"

// KeyDocs are the keys of days, and the tombstones of those that are destroyed.
var KeyDocs = store.Kind[sealedKey]{
	Shape: store.Shape{Name: "text key", Partition: partition, Sort: "*", Verify: store.Joined},
	Codec: store.Codec[sealedKey]{
		Decode: func(d store.Doc) (sealedKey, error) {
			if len(d.Data) < 2 || d.Data[1] != live && d.Data[1] != destroyed {
				return sealedKey{}, errors.New("it has neither a key nor says that it is destroyed")
			}
			return sealedKey{destroyed: d.Data[1] == destroyed, box: d.Data[2:]}, store.CheckFormat(format, int(d.Data[0]))
		},
		Encode: func(k sealedKey) ([]byte, error) {
			if k.destroyed {
				return []byte{format, destroyed}, nil
			}
			return append([]byte{format, live}, k.box...), nil
		},
	},
}

// A document is the format, one of the states, and the vault's box of a live key.
const (
	format    = 1
	live      = 1
	destroyed = 2
)

type sealedKey struct {
	destroyed bool
	box       []byte
}

// Key is the key of a day's document.
func Key(day uint32) store.Key { return KeyDocs.Key(sortOf(day)) }
