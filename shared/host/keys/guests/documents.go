package guests

import "github.com/vacancy-host/vacancy/shared/store"

var SecretDocs = store.DocKind[[]byte]{
	Shape: store.Shape{Name: "secret for callers without a key", Partition: "guest", Sort: "secret", Verify: store.VerifySkip},
	Codec: store.BytesCodec(),
}

func SecretDocKey() store.Key { return SecretDocs.Key() }
