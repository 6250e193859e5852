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

// After a rename or a deletion, a name stays reserved for its tenant until the operator releases
// it. Otherwise, another tenant could take the name and receive the vacant's calls, because tokens
// and callers without a signature identify a vacant only by its name.

// minSortKey sorts before every id in hex and before every name.
const minSortKey = "!"

func NamelessTombstoneKey(id identity.ID) store.Key { return NamelessTombstoneDocs.Key(id.String()) }

// NameKey returns the key of the document that maps a name to its vacant. The key contains the name
// in lower case. Names that an earlier program stored may have exactNameKey instead.
func NameKey(name string) store.Key { return NameDocs.Key(strings.ToLower(name)) }

func exactNameKey(name string) store.Key { return NameDocs.Key(name) }

// ReadNameDoc reads the document that maps a name, in exactly this spelling, to its vacant. It
// always reads both possible keys, so that the duration does not reveal which names exist.
func ReadNameDoc(ctx context.Context, reader store.Reader, name string) (store.Doc, error) {
	d, err := reader.Doc(ctx, NameKey(name))
	if k := exactNameKey(name); err == nil && k != d.Key {
		exact, exactErr := reader.Doc(ctx, k)
		if exactErr != nil || exact.Version > 0 {
			return exact, exactErr
		}
	}
	if sort := d.Index.Sort; sort != "" && sort != name { // an export has no index
		d = store.Doc{Key: d.Key}
	}
	return d, err
}

type nameOwner struct {
	Name   string `json:"name"`
	Tenant string `json:"tenant,omitempty"` // "" means the operator
	// OtherSpellings lists the spellings that other vacants have or had.
	OtherSpellings []string `json:"also,omitempty"`
}

func NameOwnerKey(name string) store.Key { return NameOwnerDocs.Key(strings.ToLower(name)) }

type namedTombstone struct {
	doc       store.Doc
	tombstone Record
}

// checkNameAvailable returns an error unless r may get the name. It also returns the tombstones
// that have a spelling of the name.
func (v *Directory) checkNameAvailable(ctx context.Context, reader store.Reader, asker Asker, name string, r *Record) ([]namedTombstone, error) {
	owner, d, err := NameOwnerDocs.Get(ctx, reader, NameOwnerKey(name))
	if err != nil {
		return nil, err
	}
	isForeign := d.Version > 0 && owner.Tenant != r.Tenant
	keys := []store.Key{NameKey(name)}
	for _, other := range owner.OtherSpellings {
		keys = append(keys, exactNameKey(other))
	}
	var tombstones []namedTombstone
	for _, k := range keys {
		id, d, err := NameDocs.Get(ctx, reader, k)
		if err != nil {
			return nil, store.AsProblem(err)
		}
		if d.Version == 0 || id == r.ID {
			continue
		}
		holder, ok, err := v.readRecord(ctx, id)
		if err != nil {
			return nil, err
		}
		if !ok || !holder.IsDeleted() {
			return nil, registry.NameTakenError(name)
		}
		isForeign = isForeign || holder.Tenant != r.Tenant
		tombstones = append(tombstones, namedTombstone{d, holder})
	}
	if isForeign && asker != OperatorAsker() {
		return nil, registry.NameTakenError(name)
	}
	return tombstones, nil
}

func (v *Directory) claimName(ctx context.Context, tx *store.Tx, asker Asker, name string, r *Record) error {
	tombstones, err := v.checkNameAvailable(ctx, tx, asker, name, r)
	if err != nil {
		return err
	}
	if err := v.checkNameQuota(ctx, tx, name, r.Tenant); err != nil {
		return err
	}
	for _, s := range tombstones {
		s.detachName(tx)
		if s.doc.Key != NameKey(name) {
			tx.Delete(s.doc.Key)
		}
	}
	NameDocs.Put(tx, store.Doc{Key: NameKey(name), Index: nameIndexKey(r, name)}, r.ID)
	NameOwnerDocs.Put(tx, store.Doc{Key: NameOwnerKey(name)}, nameOwner{Name: name, Tenant: r.Tenant})
	return nil
}

func (s *namedTombstone) detachName(tx *store.Tx) {
	id := s.tombstone.ID
	NamelessTombstoneDocs.Put(tx, store.Doc{Key: NamelessTombstoneKey(id), Index: nameIndexKey(&s.tombstone, tombstoneSortPrefix+id.String())}, id)
}

func (r *Record) reserveOldName(ctx context.Context, tx *store.Tx, k store.Key) error {
	owner, d, err := NameOwnerDocs.Get(ctx, tx, NameOwnerKey(r.Name))
	if err != nil {
		return err
	}
	if d.Version == 0 {
		owner.Tenant = r.Tenant
	}
	if owner.Tenant != r.Tenant {
		owner.Tenant = "" // spellings of the name belong to two tenants, so only the operator may use it
	}
	indexKey := store.Key{}
	if k == NameKey(r.Name) || d.Index != indexKey {
		owner.Name, indexKey = r.Name, NameOwnerDocs.IndexKey(reservedSortPrefix+d.Key.Sort, owner.Tenant)
	}
	NameOwnerDocs.Put(tx, store.Doc{Key: d.Key, Index: indexKey}, owner)
	return nil
}

// ReservedName is a name that belongs to a tenant but that no vacant has.
type ReservedName struct {
	Name   string
	Tenant string
	// DeletedID is the deleted vacant that has the name, or zero after a rename.
	DeletedID identity.ID
}

// ReservedNames returns a page of a tenant's reserved names. If tenant is "", the names belong to
// the operator. The pages are as in List.
func (v *Directory) ReservedNames(ctx context.Context, tenant, cursor string, n int) ([]ReservedName, string, error) {
	start, err := store.ParseCursor(cursor)
	if err == nil && start.Key.Partition != NameOwnerDocs.Partition {
		// The names of deleted vacants come first, then the names that were given up by a rename.
		records, next, err := v.listRange(ctx, TenantAsker(tenant), TenantAsker(tenant).nameRange(), cursor, n, (*Record).IsDeleted)
		if err == nil && next == "" {
			next = store.Cursor{IndexSort: reservedSortPrefix, Key: NameOwnerDocs.Key(minSortKey)}.String()
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
	docs, next, err := v.Store.Docs(ctx, reservedNameRange(tenant), n, cursor)
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

// CountNames returns the number of names that belong to a tenant, including reserved names, but at
// most limit.
func (v *Directory) CountNames(ctx context.Context, tenant string, limit int) (count int, err error) {
	for _, docRange := range []store.Range{TenantAsker(tenant).nameRange(), reservedNameRange(tenant)} {
		for _, err := range store.Documents(ctx, v.Store, docRange) {
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

// checkNameQuota returns an error if a tenant would have more names than its quota of vacants.
// Concurrent changes may exceed this quota, but addQuotaUse still limits the number of vacants.
func (v *Directory) checkNameQuota(ctx context.Context, tx *store.Tx, name, tenant string) error {
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

// ReleaseName allows all tenants to use a reserved name, in any spelling.
func (v *Directory) ReleaseName(ctx context.Context, name string) (ReservedName, error) {
	var released ReservedName
	if err := registry.CheckName(name); err != nil {
		return released, err
	}
	err := v.commitTx(ctx, func(ctx context.Context, tx *store.Tx) error {
		owner, d, err := NameOwnerDocs.Get(ctx, tx, NameOwnerKey(name))
		if err != nil {
			return err
		}
		tombstones, err := v.checkNameAvailable(ctx, tx, OperatorAsker(), name, &Record{})
		switch {
		case problem.Is(err, problem.Conflict):
			return problem.New(problem.Conflict, "a vacant has the name %s; only a reserved name can be released", name)
		case err != nil:
			return err
		case d.Version == 0 && len(tombstones) == 0:
			return problem.New(problem.NotFound, "the name %s is not reserved", name)
		}
		released = ReservedName{Name: owner.Name, Tenant: owner.Tenant}
		for _, s := range tombstones {
			released = ReservedName{s.tombstone.Name, s.tombstone.Tenant, s.tombstone.ID}
			s.detachName(tx)
			tx.Delete(s.doc.Key)
		}
		tx.Delete(d.Key)
		return nil
	})
	return released, err
}
