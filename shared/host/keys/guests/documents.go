package guests

import "github.com/vacancy-host/vacancy/shared/store"

// SecretDocs has the sealed secret.
var SecretDocs = store.Kind[[]byte]{
	Shape: store.Shape{Name: "secret for callers without a key", Partition: "guest", Sort: "secret", Verify: store.Unread},
	Codec: store.Bytes(),
}

// SecretKey is the key of the document with the sealed secret.
func SecretKey() store.Key { return SecretDocs.Key() }
