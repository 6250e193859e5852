package quota

import "github.com/vacancy-host/vacancy/shared/store"

// UsedDocs count the vacants and the bytes of a tenant: the tenant and the quota are the stars. If
// the document is absent, the next new vacant counts the vacants; bytes that were stored before the
// document was created do not count.
var UsedDocs = store.Kind[int64]{
	Shape: store.Shape{Name: "use of a quota", Partition: "quotaof#*", Sort: "*", Of: store.OfTenant, Verify: store.Unread},
	Codec: store.Count(),
}
