package vacants

import (
	"context"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/tenant/quota"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// A name belongs to the tenant of the vacant that had it first. After a rename or a deletion, only
// this tenant and the operator may use the name again, in any spelling, until the operator releases
// it. The reason is that callers without a signature, and tokens, identify a vacant only by its
// name.

// beforeIDs sorts before every id in hex and before every name.
const beforeIDs = "!"

func FormerKey(id identity.ID) store.Key { return FormerDocs.Key(id.String()) }

// NameKey returns the key of the document that maps a name to its vacant. The key contains the name in
// lower case, so that the second of two commits with spellings of the same name fails. An earlier
// program allowed names that differ only by case. One of their vacants has this key, and the others
// have exactKey.
func NameKey(name string) store.Key { return NameDocs.Key(strings.ToLower(name)) }

func exactKey(name string) store.Key { return NameDocs.Key(name) }

// NameDoc reads the document that maps a name, in exactly this spelling, to its vacant. If it does
// not exist, Version is 0. For every name with two possible keys NameDoc reads both, so that the
// duration does not reveal which names exist.
func NameDoc(ctx context.Context, from store.Reader, name string) (store.Doc, error) {
	d, err := from.Doc(ctx, NameKey(name))
	if k := exactKey(name); err == nil && k != d.Key {
		exact, exactErr := from.Doc(ctx, k)
		if exactErr != nil || exact.Version > 0 {
			return exact, exactErr
		}
	}
	if sort := d.Index.Sort; sort != "" && sort != name { // an export has no index
		d = store.Doc{Key: d.Key}
	}
	return d, err
}

// nameOwner is the tenant to which a name belongs.
type nameOwner struct {
	Name   string `json:"name"`             // spelling that was used last
	Tenant string `json:"tenant,omitempty"` // "" means the operator
	// Also lists the spellings that other vacants have or had.
	Also []string `json:"also,omitempty"`
}

func NameOwnerKey(name string) store.Key { return NameOwnerDocs.Key(strings.ToLower(name)) }

// spelling is a tombstone and the document of its name.
type spelling struct {
	doc       store.Doc
	tombstone Record
}

// checkName returns an error unless r may get a name. The error is registry.NameTakenError if a
// vacant other than r has a spelling of the name, or if the name belongs to another tenant and the
// Asker is not the operator. Otherwise, checkName returns the tombstones that have spellings of the
// name.
func (v *Directory) checkName(ctx context.Context, from store.Reader, by Asker, name string, r *Record) ([]spelling, error) {
	owner, d, err := NameOwnerDocs.Get(ctx, from, NameOwnerKey(name))
	if err != nil {
		return nil, err
	}
	foreign := d.Version > 0 && owner.Tenant != r.Tenant
	keys := []store.Key{NameKey(name)}
	for _, other := range owner.Also {
		keys = append(keys, exactKey(other))
	}
	var former []spelling
	for _, k := range keys {
		id, d, err := NameDocs.Get(ctx, from, k)
		if err != nil {
			return nil, store.AsProblem(err)
		}
		if d.Version == 0 || id == r.ID {
			continue
		}
		holder, ok, err := v.read(ctx, id)
		if err != nil {
			return nil, err
		}
		if !ok || !holder.IsDeleted() {
			return nil, registry.NameTakenError(name)
		}
		foreign = foreign || holder.Tenant != r.Tenant
		former = append(former, spelling{d, holder})
	}
	if foreign && by != Operator() {
		return nil, registry.NameTakenError(name)
	}
	return former, nil
}

func (v *Directory) claim(ctx context.Context, tx *store.Tx, by Asker, name string, r *Record) error {
	former, err := v.checkName(ctx, tx, by, name, r)
	if err != nil {
		return err
	}
	if err := v.roomForName(ctx, tx, name, r.Tenant); err != nil {
		return err
	}
	for _, s := range former {
		s.leave(tx)
		if s.doc.Key != NameKey(name) {
			tx.Delete(s.doc.Key)
		}
	}
	NameDocs.Put(tx, store.Doc{Key: NameKey(name), Index: nameIndex(r, name)}, r.ID)
	NameOwnerDocs.Put(tx, store.Doc{Key: NameOwnerKey(name)}, nameOwner{Name: name, Tenant: r.Tenant})
	return nil
}

// leave adds to tx the write that moves a tombstone to FormerDocs, before its name is used or released.
func (s *spelling) leave(tx *store.Tx) {
	id := s.tombstone.ID
	FormerDocs.Put(tx, store.Doc{Key: FormerKey(id), Index: nameIndex(&s.tombstone, afterNames+id.String())}, id)
}

// giveUp adds to tx the write that reserves the old name of r for r's tenant. k is the key of the
// name's document. If spellings of the name belong to two tenants, the name is reserved for the
// operator.
func (r *Record) giveUp(ctx context.Context, tx *store.Tx, k store.Key) error {
	owner, d, err := NameOwnerDocs.Get(ctx, tx, NameOwnerKey(r.Name))
	if err != nil {
		return err
	}
	if d.Version == 0 {
		owner.Tenant = r.Tenant
	}
	if owner.Tenant != r.Tenant {
		owner.Tenant = ""
	}
	indexKey := store.Key{} // zero if the vacant with NameKey still has the name
	if k == NameKey(r.Name) || d.Index != indexKey {
		owner.Name, indexKey = r.Name, NameOwnerDocs.IndexKey(reserved+d.Key.Sort, owner.Tenant)
	}
	NameOwnerDocs.Put(tx, store.Doc{Key: d.Key, Index: indexKey}, owner)
	return nil
}

// ReservedName is a name that belongs to a tenant but that no vacant has.
type ReservedName struct {
	Name   string
	Tenant string
	// Deleted is the id of the deleted vacant that has the name, or zero after a rename.
	Deleted identity.ID
}

// ReservedNames returns a page of the reserved names of a tenant, or of the operator if tenant is
// "", and the cursor of the next page, or "" after the last page. A page may be short or empty
// although more pages follow. It may lack names that were given up within the last second.
func (v *Directory) ReservedNames(ctx context.Context, tenant, cursor string, n int) ([]ReservedName, string, error) {
	start, err := store.ParseCursor(cursor)
	if err == nil && start.Key.Partition != NameOwnerDocs.Partition {
		// The names of deleted vacants come first. After their last page, the cursor leads to the
		// names that were given up by a rename.
		records, next, err := v.list(ctx, Tenant(tenant), Tenant(tenant).names(), cursor, n, (*Record).IsDeleted)
		if err == nil && next == "" {
			next = store.Cursor{Sort: reserved, Key: NameOwnerDocs.Key(beforeIDs)}.String()
		}
		names := make([]ReservedName, len(records))
		for i, r := range records {
			names[i] = ReservedName{r.Name, r.Tenant, r.ID}
		}
		return names, next, err
	}
	if err := checkPage(cursor, n); err != nil {
		return nil, "", err
	}
	docs, next, err := v.Store.Docs(ctx, reservedRange(tenant), n, cursor)
	if err != nil {
		return nil, "", store.AsProblem(err)
	}
	names := make([]ReservedName, len(docs))
	for i, d := range docs {
		owner, err := NameOwnerDocs.Parse(d)
		if err != nil {
			return nil, "", err
		}
		names[i] = ReservedName{Name: owner.Name, Tenant: owner.Tenant}
	}
	return names, next, nil
}

// CountNames returns the number of names that belong to a tenant, which are the names of its
// vacants and its reserved names. It stops counting at limit. The result may be a second old.
func (v *Directory) CountNames(ctx context.Context, tenant string, limit int) (count int, err error) {
	for _, within := range []store.Range{Tenant(tenant).names(), reservedRange(tenant)} {
		for _, err := range store.Documents(ctx, v.Store, within) {
			if err != nil {
				return count, store.AsProblem(err)
			}
			if count++; count >= limit {
				return count, nil
			}
		}
	}
	return count, nil
}

// roomForName returns an error if a tenant would have more names than its quota of vacants.
// Reserved names are counted, because only the tenant may use them. A reserved name that is used
// again is not counted twice. The count of vacants (useQuotas) limits concurrent changes.
func (v *Directory) roomForName(ctx context.Context, tx *store.Tx, name, tenant string) error {
	if tenant == "" {
		return nil
	}
	owner, d, err := NameOwnerDocs.Get(ctx, tx, NameOwnerKey(name))
	if err != nil || d.Version > 0 && owner.Tenant == tenant {
		return err
	}
	count, err := v.CountNames(ctx, tenant, int(v.Quotas.Limit(tenant, quota.Vacants)))
	if err != nil {
		return err
	}
	return v.Quotas.Check(tenant, quota.Vacants, int64(count+1))
}

// ReleaseName allows all tenants to use a reserved name, in any spelling. If a vacant has the name,
// the error is Conflict. If the name is not reserved, the error is NotFound.
func (v *Directory) ReleaseName(ctx context.Context, name string) (ReservedName, error) {
	var released ReservedName
	if err := registry.CheckName(name); err != nil {
		return released, err
	}
	err := v.update(ctx, func(ctx context.Context, tx *store.Tx) error {
		owner, d, err := NameOwnerDocs.Get(ctx, tx, NameOwnerKey(name))
		if err != nil {
			return err
		}
		former, err := v.checkName(ctx, tx, Operator(), name, &Record{})
		switch {
		case problem.Is(err, problem.Conflict):
			return problem.New(problem.Conflict, "a vacant has the name %s; only a reserved name can be released", name)
		case err != nil:
			return err
		case d.Version == 0 && len(former) == 0:
			return problem.New(problem.NotFound, "the name %s is not reserved", name)
		}
		released = ReservedName{Name: owner.Name, Tenant: owner.Tenant}
		for _, s := range former {
			released = ReservedName{s.tombstone.Name, s.tombstone.Tenant, s.tombstone.ID}
			s.leave(tx)
			tx.Delete(s.doc.Key)
		}
		tx.Delete(d.Key)
		return nil
	})
	return released, err
}
