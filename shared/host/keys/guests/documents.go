package guests

import "github.com/vacancy-host/vacancy/shared/store"

// SecretDocs contains the document with the sealed secret.
var SecretDocs = store.Kind[[]byte]{
	Shape: store.Shape{Name: "secret for callers without a key", Partition: "guest", Sort: "secret", Verify: store.VerifyNot},
	Codec: store.Bytes(),
}

func SecretKey() store.Key { return SecretDocs.Key() }
