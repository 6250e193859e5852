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

// The functions in this file convert documents of earlier programs to the current form, for package
// upgrade. They add their writes to tx. For documents in the current form, they add no writes.

func UpgradeSelf(ctx context.Context, tx *store.Tx, v custody.Vault) error {
	// An earlier program sealed the host's identity like the seed of a vacant.
	s, d, err := SelfDocs.Get(ctx, tx, SelfKey())
	if err != nil || d.Version == 0 {
		return err
	}
	if err := checkKey(ctx, sealed.Host, v, s.ID, s.Seed); !problem.Is(err, problem.Damaged) {
		return err
	}
	key, err := sealed.Vacant.Open(ctx, v, s.ID, s.Seed)
	if problem.Is(err, problem.Damaged) {
		return problem.Wrap(problem.Damaged, err, "the data belong to another host: the key next to them does not open the host's identity; restore the files that belong together")
	}
	if err != nil {
		return err
	}
	defer key.Wipe()
	if s.Seed, err = sealed.Host.Seal(ctx, v, key); err != nil {
		return err
	}
	SelfDocs.Put(tx, store.Doc{Key: d.Key}, s)
	return nil
}

// UpgradeRecord stores the record of a vacant in the current format and in the index of open
// vacants. It also adds the bytes to the tenant's quota that earlier programs did not count.
func UpgradeRecord(ctx context.Context, s store.Lister, tx *store.Tx, id identity.ID) error {
	d, err := tx.Doc(ctx, RecordKey(id))
	if err != nil || d.Version == 0 {
		return err
	}
	oldFormat, err := recordFormat(&d)
	if err != nil {
		return err
	}
	r, err := RecordDocs.Parse(d)
	if err != nil {
		return err
	}
	var count int64
	if r.Tenant != "" && !r.IsDeleted() && r.Stored == 0 {
		for _, kind := range []store.Range{AgentDocs.Range(id.String()), ChainDocs.Range(id.String())} {
			for d, err := range store.Documents(ctx, s, kind) {
				if err != nil {
					return err
				}
				count += int64(len(d.Data))
			}
		}
	}
	if oldFormat == format && d.Index == r.place() && count == 0 {
		return nil
	}
	r.Stored += count
	RecordDocs.Put(tx, store.Doc{Key: d.Key, Index: r.place()}, r)
	if count > 0 {
		tx.Add(store.Add{Key: quota.UsedDocs.Key(r.Tenant, string(quota.Megabytes)), Delta: count, Min: math.MinInt64, Max: math.MaxInt64})
	}
	return nil
}

func HasEarlierRecord(ctx context.Context, from store.Reader, id identity.ID) (bool, error) {
	d, err := from.Doc(ctx, RecordKey(id))
	if err != nil || d.Version == 0 {
		return false, err
	}
	oldFormat, err := recordFormat(&d)
	return oldFormat < format, err
}

func recordFormat(d *store.Doc) (oldFormat int, err error) {
	// The current format has all members of formats 2 to 4, so only the number changes.
	var members map[string]json.RawMessage
	if json.Unmarshal(d.Data, &members) != nil || json.Unmarshal(members["format"], &oldFormat) != nil || oldFormat < 1 || oldFormat >= format {
		return oldFormat, nil // Parse reports the error
	}
	if oldFormat == 1 { // programs of format 1 did not know these members
		for _, name := range []string{"agent", "plain", "price"} {
			delete(members, name)
		}
	}
	members["format"] = strconv.AppendInt(nil, format, 10)
	d.Data, err = json.Marshal(members)
	return oldFormat, err
}

// UpgradeName adds the document of a name, or of a tombstone without a name, to the index of its
// vacant's tenant. It moves a name with capitals to NameKey. If another vacant already has this
// key, the names differ only by case. The document then stays, so that the name still leads to the
// same vacant.
func UpgradeName(ctx context.Context, tx *store.Tx, k store.Key) error {
	d, err := tx.Doc(ctx, k)
	if err != nil || d.Version == 0 {
		return err
	}
	id, err := NameDocs.Parse(d)
	if err != nil {
		return err
	}
	r, record, err := RecordDocs.Get(ctx, tx, RecordKey(id))
	if err != nil || record.Version == 0 || !FormerDocs.Matches(k) && NameKey(r.Name) != k && exactKey(r.Name) != k {
		return err // verify reports a name that leads to no vacant
	}
	sort, also := r.Name, []string(nil)
	switch holder, err := tx.Doc(ctx, NameKey(r.Name)); {
	case err != nil:
		return err
	case FormerDocs.Matches(k):
		sort = afterNames + id.String()
	case holder.Version == 0:
		tx.Delete(k)
		d = holder
	case holder.Key != k:
		also = []string{r.Name}
	}
	if place := nameIndex(&r, sort); d.Index != place {
		NameDocs.Put(tx, store.Doc{Key: d.Key, Index: place}, id)
	}
	if FormerDocs.Matches(k) {
		return nil
	}
	owner, d, err := NameOwnerDocs.Get(ctx, tx, NameOwnerKey(r.Name))
	if err != nil || d.Version > 0 && (also == nil || slices.Contains(owner.Also, r.Name)) {
		return err
	}
	if d.Version == 0 {
		owner = nameOwner{Name: r.Name, Tenant: r.Tenant}
	}
	owner.Also = append(owner.Also, also...)
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
		case exactKey(r.Name) == k:
			records = append(records, r)
		}
	}
	slices.SortFunc(records, func(a, b Record) int {
		return cmp.Or(a.Deleted.Compare(b.Deleted), a.Created.Compare(b.Created), bytes.Compare(a.ID[:], b.ID[:]))
	})
	for _, r := range records {
		err := u.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return UpgradeName(ctx, tx, exactKey(r.Name)) })
		if err != nil {
			return err
		}
	}
	return nil
}
