package admin

import (
	"cmp"
	"context"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const maxNameCount = 100_000

// Name is a reserved name: no vacant has it, and only its tenant and the operator may use it again.
type Name struct {
	Name   string `json:"name"`
	Tenant string `json:"tenant,omitempty"` // "" means the operator
	// Deleted is the id of the deleted vacant that had the name, or nil if the vacant was renamed.
	Deleted *identity.ID `json:"deleted_vacant_id,omitempty"`
}

func (n *Name) Validate() error {
	// The name is printed on a terminal.
	if err := registry.CheckName(n.Name); err != nil {
		return problem.Wrap(problem.Untrusted, err, "the host's answer is not a name: %s", problem.AsError(err).Text())
	}
	return nil
}

// Names is a page of a tenant's reserved names. Count is the number of all names of the tenant.
type Names struct {
	Names []Name `json:"names"`
	Count int    `json:"count"`
	Next  string `json:"next"`
}

func (n *Names) Validate() error {
	for i := range n.Names {
		if err := n.Names[i].Validate(); err != nil {
			return err
		}
	}
	return nil
}

func (d *api) names(ctx context.Context, in NamesRequest) (Names, error) {
	count, err := d.Vacants.CountNames(ctx, in.Tenant, maxNameCount)
	if err != nil {
		return Names{}, err
	}
	list, next, err := d.Vacants.ReservedNames(ctx, in.Tenant, in.Cursor, int(cmp.Or(in.Limit, vacants.MaxPage)))
	page := Names{Names: make([]Name, len(list)), Count: count, Next: next}
	for i := range list {
		page.Names[i] = nameOf(&list[i])
	}
	return page, err
}

func nameOf(r *vacants.ReservedName) Name {
	n := Name{Name: r.Name, Tenant: r.Tenant}
	if !r.DeletedID.IsZero() {
		n.Deleted = &r.DeletedID
	}
	return n
}
