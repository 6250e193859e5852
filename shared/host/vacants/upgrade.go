package vacants

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/sealed"
	"github.com/vacancy-host/vacancy/shared/host/tenant/quota"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The functions in this file convert documents of earlier programs for package upgrade.

func UpgradeHostIdentity(ctx context.Context, tx *store.Tx, v custody.Vault) error {
	// An earlier program sealed the host's identity like the seed of a vacant.
	s, d, err := HostIdentityDocs.Get(ctx, tx, HostIdentityKey())
	if err != nil || d.Version == 0 {
		return err
	}
	if err := checkKey(ctx, sealed.Host, v, s.ID, s.SealedSeed); !problem.Is(err, problem.Damaged) {
		return err
	}
	key, err := sealed.Vacant.Open(ctx, v, s.ID, s.SealedSeed)
	if problem.Is(err, problem.Damaged) {
		return problem.Wrap(problem.Damaged, err, "the data belong to another host: the key next to them does not open the host's identity; restore the files that belong together")
	}
	if err != nil {
		return err
	}
	defer key.Wipe()
	if s.SealedSeed, err = sealed.Host.Seal(ctx, v, key); err != nil {
		return err
	}
	HostIdentityDocs.Put(tx, store.Doc{Key: d.Key}, s)
	return nil
}

// UpgradeRecord stores the record of a vacant in the current format. It also adds bytes to the
// tenant's quota that earlier programs did not count.
func UpgradeRecord(ctx context.Context, s store.Lister, tx *store.Tx, id identity.ID) error {
	d, err := tx.Doc(ctx, RecordKey(id))
	if err != nil || d.Version == 0 {
		return err
	}
	oldFormat, err := convertFormat(&d)
	if err != nil {
		return err
	}
	r, err := RecordDocs.Parse(d)
	if err != nil {
		return err
	}
	var byteCount int64
	if r.Tenant != "" && !r.IsDeleted() && r.StoredBytes == 0 {
		for _, docRange := range []store.Range{AgentDocs.Range(id.String()), ChainDocs.Range(id.String())} {
			for d, err := range store.Documents(ctx, s, docRange) {
				if err != nil {
					return err
				}
				byteCount += int64(len(d.Data))
			}
		}
	}
	if oldFormat == currentFormat && d.Index == r.openIndexKey() && byteCount == 0 {
		return nil
	}
	r.StoredBytes += byteCount
	RecordDocs.Put(tx, store.Doc{Key: d.Key, Index: r.openIndexKey()}, r)
	if byteCount > 0 {
		tx.AddWrites(store.Add{Key: quota.UsageDocs.Key(r.Tenant, string(quota.Megabytes)), Delta: byteCount, Min: math.MinInt64, Max: math.MaxInt64})
	}
	return nil
}

func HasOldRecordFormat(ctx context.Context, reader store.Reader, id identity.ID) (bool, error) {
	d, err := reader.Doc(ctx, RecordKey(id))
	if err != nil || d.Version == 0 {
		return false, err
	}
	oldFormat, err := convertFormat(&d)
	return oldFormat < currentFormat, err
}

func convertFormat(d *store.Doc) (oldFormat int, err error) {
	// The current format has all members of formats 2 to 4, so only the number changes.
	var members map[string]json.RawMessage
	if json.Unmarshal(d.Data, &members) != nil || json.Unmarshal(members["format"], &oldFormat) != nil || oldFormat < 1 || oldFormat >= currentFormat {
		return oldFormat, nil // RecordDocs.Parse reports the error of a damaged document
	}
	if oldFormat == 1 { // programs of format 1 did not know these members
		for _, name := range []string{"agent", "plain", "price"} {
			delete(members, name)
		}
	}
	members["format"] = strconv.AppendInt(nil, currentFormat, 10)
	d.Data, err = json.Marshal(members)
	return oldFormat, err
}

// UpgradeName adds the document of a name to its tenant's index and moves a name with capitals to
// NameKey, unless another spelling has this key.
func UpgradeName(ctx context.Context, tx *store.Tx, k store.Key) error {
	d, err := tx.Doc(ctx, k)
	if err != nil || d.Version == 0 {
		return err
	}
	id, err := NameDocs.Parse(d)
	if err != nil {
		return err
	}
	r, recordDoc, err := RecordDocs.Get(ctx, tx, RecordKey(id))
	if err != nil || recordDoc.Version == 0 || !NamelessTombstoneDocs.Matches(k) && NameKey(r.Name) != k && exactNameKey(r.Name) != k {
		return err // verify reports a name that leads to no vacant
	}
	indexSort, otherSpellings := r.Name, []string(nil)
	switch holder, err := tx.Doc(ctx, NameKey(r.Name)); {
	case err != nil:
		return err
	case NamelessTombstoneDocs.Matches(k):
		indexSort = tombstoneSortPrefix + id.String()
	case holder.Version == 0:
		tx.Delete(k)
		d = holder
	case holder.Key != k:
		otherSpellings = []string{r.Name}
	}
	if indexKey := nameIndexKey(&r, indexSort); d.Index != indexKey {
		NameDocs.Put(tx, store.Doc{Key: d.Key, Index: indexKey}, id)
	}
	if NamelessTombstoneDocs.Matches(k) {
		return nil
	}
	owner, d, err := NameOwnerDocs.Get(ctx, tx, NameOwnerKey(r.Name))
	if err != nil || d.Version > 0 && (otherSpellings == nil || slices.Contains(owner.OtherSpellings, r.Name)) {
		return err
	}
	if d.Version == 0 {
		owner = nameOwner{Name: r.Name, Tenant: r.Tenant}
	}
	owner.OtherSpellings = append(owner.OtherSpellings, otherSpellings...)
	NameOwnerDocs.Put(tx, store.Doc{Key: d.Key, Index: d.Index}, owner)
	return nil
}

// UpgradeSpellings works like UpgradeName, for names that differ only by case. The name of the
// oldest vacant that is not deleted gets NameKey.
func UpgradeSpellings(ctx context.Context, u store.Updater, keys []store.Key) error {
	var records []Record
	for _, k := range keys {
		id, _, err := NameDocs.Get(ctx, u.Store, k)
		var r Record
		if err == nil {
			r, _, err = RecordDocs.Get(ctx, u.Store, RecordKey(id))
		}
		switch {
		case problem.Is(err, problem.Damaged): // reported with the vacant
		case err != nil:
			return err
		case exactNameKey(r.Name) == k:
			records = append(records, r)
		}
	}
	slices.SortFunc(records, func(a, b Record) int {
		return cmp.Or(a.DeletedAt.Compare(b.DeletedAt), a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	for _, r := range records {
		err := u.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return UpgradeName(ctx, tx, exactNameKey(r.Name)) })
		if err != nil {
			return err
		}
	}
	return nil
}
