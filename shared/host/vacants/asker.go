package vacants

import (
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Asker is the party for which vacants are looked up. A vacant that the Asker may not know looks
// like a vacant that does not exist. The zero Asker knows no vacants.
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

func (a Asker) unknownError(nameOrID string, err error) error {
	// A tenant gets the same error in all cases, so that the error does not reveal other vacants.
	if a.kind == kindTenant {
		return problem.New(problem.NotFound, "%s has no vacant %s here", a.tenant, quoteTruncated(nameOrID))
	}
	return err
}

// Each tenant has its own partition of the index, so a forged cursor can only select another
// position among the tenant's names. '~' sorts after all characters of a name.
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
