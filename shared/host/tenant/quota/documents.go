package quota

import "github.com/vacancy-host/vacancy/shared/store"

// UsageDocs contains a tenant's number of vacants or bytes. The key consists of the tenant and the
// quota. If the document of a tenant does not exist, the next new vacant counts the existing
// vacants. Bytes that were stored before the document was created are not counted.
var UsageDocs = store.DocKind[int64]{
	Shape: store.Shape{Name: "use of a quota", Partition: "quotaof#*", Sort: "*", Owner: store.OwnedByTenant, Verify: store.VerifySkip},
	Codec: store.CountCodec(),
}
