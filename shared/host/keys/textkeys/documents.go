package textkeys

import (
	"errors"

	"github.com/vacancy-host/vacancy/shared/store"
)

// partition is also the prefix of the vault contexts.
const partition = "textkey"

// KeyDocs contains one text key per UTC day. A destroyed key leaves a tombstone.
var KeyDocs = store.DocKind[sealedKey]{
	Shape: store.Shape{Name: "text key", Partition: partition, Sort: "*", Verify: store.VerifyWithRows},
	Codec: store.Codec[sealedKey]{
		Decode: func(d store.Doc) (sealedKey, error) {
			if len(d.Data) < 2 || d.Data[1] != stateLive && d.Data[1] != stateDestroyed {
				return sealedKey{}, errors.New("it contains neither a key nor the mark of a destroyed key")
			}
			return sealedKey{destroyed: d.Data[1] == stateDestroyed, box: d.Data[2:]}, store.CheckFormat(format, int(d.Data[0]))
		},
		Encode: func(k sealedKey) ([]byte, error) {
			if k.destroyed {
				return []byte{format, stateDestroyed}, nil
			}
			return append([]byte{format, stateLive}, k.box...), nil
		},
	},
}

const (
	format         = 1
	stateLive      = 1
	stateDestroyed = 2
)

type sealedKey struct {
	destroyed bool
	box       []byte
}

func DocKey(day uint32) store.Key { return KeyDocs.Key(formatDay(day)) }
