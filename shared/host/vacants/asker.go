package vacants

import (
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Asker is the party for which vacants are looked up. Every lookup by name, by id or by page
// requires an Asker. If the Asker may not know a vacant, the result is the same as for a vacant
// that does not exist. The operator and the host itself know all vacants, and the zero Asker knows
// none.
type Asker struct {
	kind   askerKind
	tenant string
}

type askerKind byte

const (
	kindNone askerKind = iota
	kindOperator
	kindTenant
)

func OperatorAsker() Asker { return Asker{kind: kindOperator} }

func TenantAsker(name string) Asker { return Asker{kindTenant, name} }

func (a Asker) AsTenant() (tenant string, ok bool) { return a.tenant, a.kind == kindTenant }

func (a Asker) MayKnow(r *Record) bool {
	return a.kind == kindOperator || a.kind == kindTenant && r.Tenant == a.tenant
}

func (a Asker) chooser() outbound.URLChooser {
	switch a.kind {
	case kindOperator:
		return outbound.Operator
	case kindTenant:
		return outbound.Tenant
	}
	return outbound.Stranger
}

// unknownError returns the error for a lookup of nameOrID if the Asker knows no such vacant. A
// tenant always gets the same error, even if nameOrID is malformed. Other askers get err.
func (a Asker) unknownError(nameOrID string, err error) error {
	if a.kind == kindTenant {
		return problem.New(problem.NotFound, "%s has no vacant %s here", a.tenant, quoteTruncated(nameOrID))
	}
	return err
}

// The index has a partition for each tenant. It lists first the names of the tenant's vacants, then
// tombstones without a name, and last the names that were given up by a rename. ('~' sorts after
// all characters of a name.) A page therefore reads only documents of the tenant. Cursors need no
// signature, because a forged cursor is only another position among these documents.
const (
	tombstoneSortPrefix = "~"
	reservedSortPrefix  = "~~"
)

func nameIndexKey(r *Record, sort string) store.Key {
	return NameDocs.IndexKey(sort, r.Tenant)
}

func (a Asker) nameRange() store.Range {
	switch a.kind {
	case kindOperator:
		return NameDocs.Range()
	case kindTenant:
		r := NameDocs.IndexRange(a.tenant)
		r.End = tombstoneSortPrefix
		return r
	}
	return store.Range{}
}

func reservedNameRange(tenant string) store.Range {
	r := NameOwnerDocs.IndexRange(tenant)
	r.Start = reservedSortPrefix
	return r
}
