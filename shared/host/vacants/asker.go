package vacants

import (
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Asker is the party for which vacants are looked up. Every lookup by name, by id
// or by page takes an Asker, and answers about a vacant that the Asker does not know
// exactly as about one that does not exist. The zero Asker knows no vacant.
type Asker struct {
	who    who
	tenant string
}

type who byte

const (
	nobody who = iota
	operator
	ofTenant
)

// Operator returns the Asker that knows every vacant: the operator, or the host
// itself.
func Operator() Asker { return Asker{who: operator} }

// Tenant returns the Asker that knows the vacants of a tenant.
func Tenant(name string) Asker { return Asker{ofTenant, name} }

// OfTenant returns the tenant that a is; ok is false if a is none.
func (a Asker) OfTenant() (tenant string, ok bool) { return a.tenant, a.who == ofTenant }

// Knows reports whether a may learn that r exists.
func (a Asker) Knows(r *Record) bool {
	return a.who == operator || a.who == ofTenant && r.Tenant == a.tenant
}

// chooser is a as the origin of the URLs that it sets.
func (a Asker) chooser() outbound.Chooser {
	switch a.who {
	case operator:
		return outbound.Operator
	case ofTenant:
		return outbound.Tenant
	}
	return outbound.Stranger
}

// unknown refuses what, for which nothing was found that a knows. A tenant's
// refusal depends on nothing else, not even on the form of what. Others get err.
func (a Asker) unknown(what string, err error) error {
	if a.who == ofTenant {
		return problem.New(problem.NotFound, "%s has no vacant %s here", a.tenant, clip(what))
	}
	return err
}

// Every document of a name is in the sparse index, in a partition of its tenant. Tombstones
// without a name come behind the names, because '~' sorts after every letter of a name, and
// names that were given up by a rename behind the tombstones. A page of a tenant's vacants
// therefore reads only the documents that it shows, and its cursor contains only the last
// document of the page, which is the tenant's own. So cursors need no key of the host: a
// forged cursor is another position among the same vacants.
const (
	afterNames = "~"
	reserved   = "~~"
)

// indexed returns the place of a document in the list of r's tenant.
func indexed(r *Record, sort string) store.Key {
	return NameDocs.Listed(sort, r.Tenant)
}

// names returns the range of the documents of the names that a knows. A tenant's
// is in the sparse index, which may lag.
func (a Asker) names() store.Range {
	switch a.who {
	case operator:
		return NameDocs.All()
	case ofTenant:
		r := NameDocs.Indexed(a.tenant)
		r.Last = afterNames
		return r
	}
	return store.Range{}
}

// renamed returns the range of the names that a tenant has given up by a rename.
func renamed(tenant string) store.Range {
	r := NameOwnerDocs.Indexed(tenant)
	r.First = reserved
	return r
}
