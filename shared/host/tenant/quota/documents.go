package quota

import "github.com/vacancy-host/vacancy/shared/store"

// UsageDocs contains a tenant's number of vacants or bytes.
var UsageDocs = store.DocKind[int64]{
	Shape: store.Shape{Name: "use of a quota", Partition: "quotaof#*", Sort: "*", Owner: store.OwnedByTenant, Verify: store.VerifySkip},
	Codec: store.CountCodec(),
}
