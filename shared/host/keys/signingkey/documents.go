package signingkey

import "github.com/vacancy-host/vacancy/shared/store"

var KeyDocs = store.DocKind[keySet]{
	Shape: store.Shape{Name: "set of signing keys", Partition: "signkey", Sort: "keys", Verify: store.VerifyWithRows},
	Codec: store.JSONCodec[keySet](1),
}
