package vacants_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// earlier is a store as a program used it that knew no owners of names, and stored each spelling of a
// name by itself and in no index.
type earlier struct{ store.Store }

func (e earlier) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	if vacants.NameOwnerDocs.Matches(k) {
		return store.Doc{Key: k}, nil
	}
	d, err := e.Store.Doc(ctx, k)
	if vacants.NameDocs.Matches(k) && d.Version > 0 {
		d.Index = vacants.NameDocs.IndexKey(k.Sort, "")
	}
	return d, err
}

func (e earlier) Commit(ctx context.Context, writes ...store.Write) error {
	writes = slices.Clone(writes)
	for i, w := range writes {
		if put, ok := w.(store.Put); ok && vacants.NameDocs.Matches(put.Key) {
			put.Key.Sort, put.Index = put.Index.Sort, store.Key{}
			writes[i] = put
		}
	}
	return e.Store.Commit(ctx, slices.DeleteFunc(writes, func(w store.Write) bool {
		put, ok := w.(store.Put)
		return ok && vacants.NameOwnerDocs.Matches(put.Key)
	})...)
}

// names is a host with tenants.
type names struct {
	*vacants.Directory
	t     *testing.T
	store *memory.Store
	vault custody.Vault
}

func newNames(t *testing.T) *names {
	s, va := memory.New(), vault(t)
	return &names{host(t, s, va, newClock().now, hostURL), t, s, va}
}

// earlier returns the host as an earlier program ran it.
func (n *names) earlier() *names {
	return &names{host(n.t, earlier{n.store}, n.vault, newClock().now, hostURL), n.t, n.store, n.vault}
}

// upgrade upgrades what an earlier program stored.
func (n *names) upgrade() error {
	upgraded := map[string][]store.Key{}
	for _, r := range []store.Range{vacants.NameDocs.Range(), vacants.NamelessTombstoneDocs.Range()} {
		for d, err := range store.Documents(n.t.Context(), n.store, r) {
			if err != nil {
				return err
			}
			lower := strings.ToLower(d.Key.Sort)
			if lower != d.Key.Sort {
				upgraded[lower] = append(upgraded[lower], d.Key)
				continue
			}
			err = n.updater().Update(n.t.Context(), func(ctx context.Context, tx *store.Tx) error { return vacants.UpgradeName(ctx, tx, d.Key) })
			if err != nil {
				return err
			}
		}
	}
	for _, keys := range upgraded {
		if err := vacants.UpgradeSpellings(n.t.Context(), n.updater(), keys); err != nil {
			return err
		}
	}
	return nil
}

func (n *names) updater() store.Updater { return store.Updater{Store: n.store, Rand: rand.Reader} }

func (n *names) make(by vacants.Asker, tenant, name string) (vacants.Record, error) {
	return n.Create(context.Background(), vacants.CreateSpec{Asker: by, Tenant: tenant, Name: name, Capability: "c", Substrate: "echo"})
}

func (n *names) must(tenant, name string) vacants.Record {
	n.t.Helper()
	r, err := n.make(vacants.TenantAsker(tenant), tenant, name)
	if err != nil {
		n.t.Fatal(err)
	}
	return r
}

func (n *names) rename(r vacants.Record, to string) error {
	_, err := n.Update(context.Background(), r.ID, vacants.Changes{Asker: vacants.TenantAsker(r.Tenant), Name: &to})
	return err
}

// reserved returns the names that are reserved for a tenant.
func (n *names) reserved(tenant string) string {
	n.t.Helper()
	var all []string
	for name, err := range store.Flatten(store.AllPages(func(cursor string) ([]vacants.ReservedName, string, error) {
		return n.ReservedNames(n.t.Context(), tenant, cursor, 1)
	})) {
		if err != nil {
			n.t.Fatal(err)
		}
		if name.Tenant != tenant {
			n.t.Errorf("%s is listed for %q, but belongs to %q", name.Name, tenant, name.Tenant)
		}
		all = append(all, name.Name)
	}
	return strings.Join(all, " ")
}

func TestANameStaysWithItsTenant(t *testing.T) {
	// After these, no vacant is called shop.
	givenUp := map[string]func(*names) error{
		"renamed": func(n *names) error { return n.rename(n.must("acme", "shop"), "store") },
		"renamed twice": func(n *names) error {
			r := n.must("acme", "shop")
			return errors.Join(n.rename(r, "store"), n.rename(r, "shop"), n.rename(r, "market"))
		},
		"renamed from another case": func(n *names) error {
			r := n.must("acme", "Shop")
			return errors.Join(n.rename(r, "SHOP"), n.rename(r, "market"))
		},
		"deleted": func(n *names) error {
			n.must("acme", "shop")
			deleteNamed(n.t, n.Directory, "shop")
			return nil
		},
		"deleted in another case": func(n *names) error {
			n.must("acme", "ShoP")
			deleteNamed(n.t, n.Directory, "ShoP")
			return nil
		},
		"deleted by an earlier program": func(n *names) error {
			n.earlier().must("acme", "shop")
			deleteNamed(n.t, n.earlier().Directory, "shop")
			return n.upgrade()
		},
		"made by an earlier program, in another case, and renamed": func(n *names) error {
			r := n.earlier().must("acme", "SHOP")
			return errors.Join(n.upgrade(), n.rename(r, "store"))
		},
		"a child that was deleted": func(n *names) error {
			parent := n.must("acme", "parent")
			if _, _, err := n.Spawn(n.t.Context(), vacants.SpawnSpec{Parent: parent.ID, Path: "D2", Name: "shop"}); err != nil {
				return err
			}
			deleteNamed(n.t, n.Directory, "shop")
			return nil
		},
	}
	type take struct {
		by     vacants.Asker
		tenant string
		may    bool
	}
	takers := map[string]take{
		"its tenant":                       {vacants.TenantAsker("acme"), "acme", true},
		"another tenant":                   {vacants.TenantAsker("eve"), "eve", false},
		"a tenant's signed request":        {vacants.Asker{}, "eve", false},
		"the operator":                     {vacants.OperatorAsker(), "", true},
		"the operator for another tenant":  {vacants.OperatorAsker(), "eve", true},
		"a program of the operator's host": {vacants.Asker{}, "", false},
	}
	ways := map[string]func(*names, take, string) error{
		"create": func(n *names, by take, name string) error {
			_, err := n.make(by.by, by.tenant, name)
			return err
		},
		"rename": func(n *names, by take, name string) error {
			r := n.must(by.tenant, "before")
			_, err := n.Update(n.t.Context(), r.ID, vacants.Changes{Asker: by.by, Name: &name})
			return err
		},
		"spawn": func(n *names, by take, name string) error {
			r := n.must(by.tenant, "mother")
			_, _, err := n.Spawn(n.t.Context(), vacants.SpawnSpec{Asker: by.by, Parent: r.ID, Path: "D2", Name: name})
			return err
		},
		"import": func(n *names, by take, name string) error {
			_, err := n.Create(n.t.Context(), vacants.CreateSpec{Asker: by.by, Tenant: by.tenant, Name: name, Capability: "c", Substrate: "echo", Key: newKey(n.t)})
			return err
		},
	}
	for what, giveUp := range givenUp {
		for who, taker := range takers {
			for how, use := range ways {
				for _, name := range []string{"shop", "Shop"} {
					if name == "Shop" && how != "create" {
						continue
					}
					t.Run(strings.Join([]string{what, who, how, name}, "/"), func(t *testing.T) {
						n := newNames(t)
						must(t, giveUp(n))
						if got := strings.ToLower(n.reserved("acme")); !slices.Contains(strings.Fields(got), "shop") {
							t.Errorf("reserved for acme: %q, want shop", got)
						}
						err := use(n, taker, name)
						if taker.may && err != nil || !taker.may && (!problem.Is(err, problem.Conflict) || problem.AsError(err).Text() != "the name "+name+" is in use or reserved on this host; choose another") {
							t.Fatalf("error %v, want success: %t", err, taker.may)
						}
						if !taker.may {
							return
						}
						if r, err := n.GetByName(t.Context(), vacants.OperatorAsker(), name); err != nil || r.Tenant != taker.tenant || r.IsDeleted() {
							t.Errorf("GetByName(%s) = %v of %q, %v", name, r, r.Tenant, err)
						}
						if got := strings.ToLower(n.reserved("acme")); slices.Contains(strings.Fields(got), "shop") {
							t.Errorf("reserved for acme, though in use: %q", got)
						}
						if _, err := n.make(vacants.OperatorAsker(), "", "sHop"); !problem.Is(err, problem.Conflict) {
							t.Errorf("another spelling of a name in use: %v, want a conflict", err)
						}
					})
				}
			}
		}
	}
}

func TestANewNameDiffersFromStoredNamesByMoreThanCase(t *testing.T) {
	n := newNames(t)
	n.earlier().must("acme", "SHOP")
	n.earlier().must("eve", "shop") // earlier programs allowed both
	must(t, n.upgrade())
	for _, name := range []string{"SHOP", "shop", "Shop", "shoP"} {
		for _, by := range []vacants.Asker{vacants.TenantAsker("acme"), vacants.TenantAsker("eve"), vacants.OperatorAsker()} {
			if _, err := n.make(by, "acme", name); !problem.Is(err, problem.Conflict) {
				t.Errorf("Create(%s) = %v, want a conflict", name, err)
			}
		}
	}
	for name, tenant := range map[string]string{"SHOP": "acme", "shop": "eve"} {
		r, ok, err := n.FindCachedByName(t.Context(), name)
		if err != nil || !ok || r.Name != name || r.Tenant != tenant {
			t.Errorf("FindCachedByName(%s) = %v, %t, %v", name, r, ok, err)
		}
	}
	if _, ok, err := n.FindCachedByName(t.Context(), "Shop"); ok || err != nil {
		t.Errorf("FindCachedByName(Shop) = %t, %v, want none", ok, err)
	}
	// Both tenants give it up. From then on the name is the operator's to give away.
	for name, to := range map[string]string{"SHOP": "x", "shop": "y"} {
		r, err := n.GetByName(t.Context(), vacants.OperatorAsker(), name)
		must(t, err)
		must(t, n.rename(r, to))
	}
	for _, tenant := range []string{"acme", "eve"} {
		if _, err := n.make(vacants.TenantAsker(tenant), tenant, "shop"); !problem.Is(err, problem.Conflict) {
			t.Errorf("Create(shop) by %s = %v, want a conflict", tenant, err)
		}
	}
	if got := n.reserved(""); !strings.EqualFold(got, "shop") {
		t.Errorf("reserved for the operator: %q", got)
	}
	if _, err := n.make(vacants.OperatorAsker(), "acme", "shop"); err != nil {
		t.Error(err)
	}
}

// Earlier programs gave spellings of one name to two tenants. While one of them has its vacant, and
// after both have deleted theirs, neither gets the name.
func TestASpellingOfAnotherTenantKeepsTheName(t *testing.T) {
	for what, giveUp := range map[string]func(n *names) error{
		"the older is renamed": func(n *names) error {
			if err := n.upgrade(); err != nil {
				return err
			}
			r, err := n.GetByName(n.t.Context(), vacants.OperatorAsker(), "SHOP")
			return errors.Join(err, n.rename(r, "store"))
		},
		"the older is deleted": func(n *names) error {
			err := n.upgrade()
			deleteNamed(n.t, n.Directory, "SHOP")
			return err
		},
		"both were deleted before": func(n *names) error {
			deleteNamed(n.t, n.earlier().Directory, "SHOP")
			deleteNamed(n.t, n.earlier().Directory, "shop")
			return n.upgrade()
		},
	} {
		n := newNames(t)
		n.earlier().must("acme", "SHOP")
		n.earlier().must("eve", "shop")
		if err := giveUp(n); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for _, name := range []string{"SHOP", "shop", "Shop"} {
			for _, tenant := range []string{"acme", "eve", "other"} {
				if _, err := n.make(vacants.TenantAsker(tenant), tenant, name); !problem.Is(err, problem.Conflict) {
					t.Errorf("%s: Create(%s) by %s = %v, want a conflict", what, name, tenant, err)
				}
			}
		}
	}
}

func TestAVacantIsRenamedToAnotherCaseOfItsName(t *testing.T) {
	n := newNames(t)
	r := n.must("acme", "shop")
	for _, name := range []string{"Shop", "SHOP", "shop"} {
		must(t, n.rename(r, name))
		if got, err := n.GetByName(t.Context(), vacants.OperatorAsker(), name); err != nil || got.ID != r.ID {
			t.Errorf("GetByName(%s) = %v, %v", name, got, err)
		}
	}
	if _, err := n.GetByName(t.Context(), vacants.OperatorAsker(), "Shop"); !problem.Is(err, problem.NotFound) {
		t.Errorf("GetByName(Shop) = %v, want none", err)
	}
	if got := n.reserved("acme"); got != "" {
		t.Errorf("reserved: %q", got)
	}
}

func TestAReleasedNameIsForEverybody(t *testing.T) {
	for what, prepare := range map[string]func(*names) error{
		"renamed": func(n *names) error { return n.rename(n.must("acme", "Shop"), "store") },
		"deleted": func(n *names) error {
			n.must("acme", "Shop")
			deleteNamed(n.t, n.Directory, "Shop")
			return nil
		},
		"deleted by an earlier program": func(n *names) error {
			n.earlier().must("acme", "Shop")
			deleteNamed(n.t, n.earlier().Directory, "Shop")
			must(t, n.upgrade())
			return nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			n := newNames(t)
			must(t, prepare(n))
			all, _ := listed(t, n.Directory, vacants.OperatorAsker(), 2)
			released, err := n.ReleaseName(t.Context(), "shop")
			if err != nil || released.Name != "Shop" || released.Tenant != "acme" || released.DeletedID.IsZero() != (what == "renamed") {
				t.Errorf("ReleaseName() = %+v, %v", released, err)
			}
			if after, _ := listed(t, n.Directory, vacants.OperatorAsker(), 2); after != all {
				t.Errorf("the host lists %q, before it listed %q", after, all)
			}
			if _, err := n.GetByName(t.Context(), vacants.OperatorAsker(), "Shop"); !problem.Is(err, problem.NotFound) {
				t.Errorf("GetByName() = %v, want none", err)
			}
			if _, err := n.ReleaseName(t.Context(), "shop"); !problem.Is(err, problem.NotFound) {
				t.Errorf("ReleaseName() again = %v, want not found", err)
			}
			n.must("eve", "shop")
			if _, err := n.ReleaseName(t.Context(), "SHOP"); !problem.Is(err, problem.Conflict) {
				t.Errorf("ReleaseName() of a name in use = %v, want a conflict", err)
			}
		})
	}
}

func TestCountNamesCountsVacantsAndReservedNames(t *testing.T) {
	n := newNames(t)
	n.must("eve", "other")
	r := n.must("acme", "a")
	n.must("acme", "b")
	count := func(want int) {
		t.Helper()
		if got, err := n.CountNames(t.Context(), "acme", 100); got != want || err != nil {
			t.Errorf("CountNames() = %d, %v, want %d", got, err, want)
		}
	}
	count(2)
	must(t, n.rename(r, "c"))
	count(3)
	deleteNamed(t, n.Directory, "c")
	count(3)
	n.must("acme", "a")
	n.must("acme", "c")
	count(3)
	deleteNamed(t, n.Directory, "b")
	must(t, errorOf(n.ReleaseName(t.Context(), "b")))
	count(2)
	if got, err := n.CountNames(t.Context(), "acme", 1); got != 1 || err != nil {
		t.Errorf("CountNames() up to 1 = %d, %v", got, err)
	}
}

// together runs functions at the same time and returns their errors.
func together(do ...func() error) []error {
	errs := make([]error, len(do))
	var all sync.WaitGroup
	for i := range do {
		all.Go(func() { errs[i] = do[i]() })
	}
	all.Wait()
	return errs
}

func TestOfSpellingsThatAreTakenAtTheSameTimeOneIsTaken(t *testing.T) {
	for round := range 20 {
		n := newNames(t)
		var do []func() error
		for i, name := range []string{"shop", "SHOP", "Shop", "shoP", "shop", "sHOP"} {
			tenant := fmt.Sprint("t", i%3)
			do = append(do, func() error { _, err := n.make(vacants.TenantAsker(tenant), tenant, name); return err })
		}
		won := 0
		for _, err := range together(do...) {
			if err == nil {
				won++
			} else if !problem.Is(err, problem.Conflict) {
				t.Error(err)
			}
		}
		if won != 1 {
			t.Fatalf("round %d: %d of 6 spellings are taken, want 1", round, won)
		}
	}
}

func TestARenameAndATakeOverAtTheSameTime(t *testing.T) {
	for round := range 30 {
		n := newNames(t)
		r := n.must("acme", []string{"shop", "SHOP"}[round%2])
		other := n.must("eve", "other")
		errs := together(
			func() error { return n.rename(r, "store") },
			func() error { _, err := n.make(vacants.TenantAsker("eve"), "eve", "shop"); return err },
			func() error { return n.rename(other, "Shop") },
		)
		if errs[0] != nil || !problem.Is(errs[1], problem.Conflict) || !problem.Is(errs[2], problem.Conflict) {
			t.Fatalf("round %d: rename %v, take-over %v and %v", round, errs[0], errs[1], errs[2])
		}
		if _, err := n.make(vacants.TenantAsker("acme"), "acme", "shop"); err != nil {
			t.Errorf("round %d: the name is not its tenant's: %v", round, err)
		}
	}
}

func TestADeletionAndACreationAtTheSameTimeByOneTenant(t *testing.T) {
	for range 20 {
		n := newNames(t)
		n.must("acme", "shop")
		errs := together(
			func() error { deleteNamed(t, n.Directory, "shop"); return nil },
			func() error { _, err := n.make(vacants.TenantAsker("acme"), "acme", "Shop"); return err },
		)
		if errs[1] != nil && !problem.Is(errs[1], problem.Conflict) {
			t.Error(errs[1])
		}
		if errs[1] != nil {
			n.must("acme", "shop")
		}
	}
}

func TestAReleaseAndAUseAtTheSameTime(t *testing.T) {
	for round := range 30 {
		n := newNames(t)
		r := n.must("acme", "shop")
		if round%2 == 0 {
			must(t, n.rename(r, "store"))
		} else {
			deleteNamed(t, n.Directory, "shop")
		}
		errs := together(
			func() error { _, err := n.ReleaseName(context.Background(), "shop"); return err },
			func() error { _, err := n.make(vacants.TenantAsker("acme"), "acme", "Shop"); return err },
			func() error { _, err := n.make(vacants.TenantAsker("eve"), "eve", "shop"); return err },
		)
		used := 0
		for i, err := range errs {
			if i > 0 && err == nil {
				used++
			}
			if err != nil && !problem.Is(err, problem.Conflict) {
				t.Errorf("round %d: %v", round, err)
			}
		}
		if used != 1 || errs[0] != nil && errs[1] != nil {
			t.Errorf("round %d: release %v, its tenant %v, another %v", round, errs[0], errs[1], errs[2])
		}
		got := 0
		for _, name := range []string{"shop", "Shop"} {
			if r, ok, err := n.FindCachedByName(t.Context(), name); err != nil {
				t.Error(err)
			} else if ok && !r.IsDeleted() {
				got++
			}
		}
		if got != 1 {
			t.Errorf("round %d: %d vacants have the name", round, got)
		}
	}
}

func TestANewNameDoesNotBeginWithAHyphenButAStoredOneWorks(t *testing.T) {
	n := newNames(t)
	for _, name := range []string{"-", "-x", "--help"} {
		if _, err := n.make(vacants.OperatorAsker(), "", name); !problem.Is(err, problem.Malformed) || problem.AsError(err).Field != "name" {
			t.Errorf("Create(%s) = %v, want a malformed name", name, err)
		}
	}
	r := n.must("acme", "shop")
	if err := n.rename(r, "-shop"); !problem.Is(err, problem.Malformed) {
		t.Errorf("rename = %v, want a malformed name", err)
	}
	if _, _, err := n.Spawn(t.Context(), vacants.SpawnSpec{Parent: r.ID, Path: "D2", Name: "-kid"}); !problem.Is(err, problem.Malformed) {
		t.Errorf("Spawn() = %v, want a malformed name", err)
	}
	storeAs(t, n, r, "--help")
	if got, err := n.Find(t.Context(), vacants.TenantAsker("acme"), "--help"); err != nil || got.ID != r.ID {
		t.Errorf("Find(--help) = %v, %v", got, err)
	}
	if _, err := n.Pause(t.Context(), r.ID); err != nil {
		t.Error(err)
	}
	if err := n.rename(r, "shop"); err != nil {
		t.Errorf("rename of a stored name: %v", err)
	}
	storeAs(t, n, r, "--help")
	deleteNamed(t, n.Directory, "--help")
	if _, err := n.ReleaseName(t.Context(), "--help"); err != nil {
		t.Errorf("ReleaseName(--help) = %v", err)
	}
}

// storeAs gives r a name as an earlier program stored it.
func storeAs(t *testing.T, n *names, r vacants.Record, name string) {
	t.Helper()
	record, err := n.store.Doc(t.Context(), vacants.RecordKey(r.ID))
	must(t, err)
	current, err := vacants.RecordDocs.Parse(record)
	must(t, err)
	old, err := n.store.Doc(t.Context(), vacants.NameKey(current.Name))
	must(t, err)
	data := strings.Replace(string(record.Data), `"name":"`+current.Name+`"`, `"name":"`+name+`"`, 1)
	err = n.store.Commit(t.Context(),
		store.Put{Key: record.Key, IfVersion: record.Version, Data: []byte(data), Index: record.Index, WriteID: store.WriteID{1}},
		store.Delete{Key: old.Key, IfVersion: old.Version},
		store.Put{Key: vacants.NameKey(name), Data: old.Data, Index: vacants.NameDocs.IndexKey(name, r.Tenant), WriteID: store.WriteID{1}})
	must(t, err)
}

func TestASlugStaysWithItsTenant(t *testing.T) {
	slug := func(s string) func(*listing.Venue) error {
		return func(v *listing.Venue) error { v.Slug = s; return nil }
	}
	// After these, no vacant that can be called has the slug shop.
	givenUp := map[string]func(*names) error{
		"another slug": func(n *names) error {
			return n.publish("acme", "a", slug("shop"), slug("store"))
		},
		"no slug": func(n *names) error { return n.publish("acme", "a", slug("shop"), slug("")) },
		"sunk": func(n *names) error {
			err := n.publish("acme", "a", slug("shop"))
			r, _ := n.GetByName(n.t.Context(), vacants.OperatorAsker(), "a")
			_, sunk := n.Sink(n.t.Context(), r.ID)
			return errors.Join(err, sunk)
		},
		"deleted": func(n *names) error {
			err := n.publish("acme", "a", slug("shop"))
			deleteNamed(n.t, n.Directory, "a")
			return err
		},
	}
	inUse := map[string]func(*names) error{
		"published": func(n *names) error { return n.publish("acme", "a", slug("shop")) },
		"unpublished": func(n *names) error {
			err := n.publish("acme", "a", slug("shop"))
			r, _ := n.GetByName(n.t.Context(), vacants.OperatorAsker(), "a")
			_, _, hidden := n.Unpublish(n.t.Context(), r.ID)
			return errors.Join(err, hidden)
		},
	}
	for who, taker := range map[string]struct {
		by     vacants.Asker
		tenant string
		may    bool
	}{
		"its tenant":                      {vacants.TenantAsker("acme"), "acme", true},
		"another tenant":                  {vacants.TenantAsker("eve"), "eve", false},
		"the operator":                    {vacants.OperatorAsker(), "", true},
		"the operator for another tenant": {vacants.OperatorAsker(), "eve", true},
		"another tenant without a name":   {vacants.Asker{}, "eve", false},
	} {
		for what, prepare := range givenUp {
			t.Run(what+"/"+who, func(t *testing.T) {
				n := newNames(t)
				must(t, prepare(n))
				before, _ := n.GetByName(t.Context(), vacants.OperatorAsker(), "a")
				if g, ok, err := n.Registry.FindBySlug(t.Context(), "shop"); err != nil || ok && g.ID != before.ID {
					t.Errorf("FindVenue() = %v, %t, %v", g.ID, ok, err)
				}
				other := n.must(taker.tenant, "b")
				_, _, err := n.Publish(t.Context(), other.ID, vacants.PublishOptions{Asker: taker.by, EditVenue: slug("shop")})
				if taker.may && err != nil || !taker.may && !problem.Is(err, problem.Conflict) {
					t.Fatalf("Publish() = %v, want success: %t", err, taker.may)
				}
				if g, ok, err := n.Registry.FindBySlug(t.Context(), "shop"); taker.may && (err != nil || !ok || g.ID != other.ID) {
					t.Errorf("FindVenue() = %v, %t, %v, want %v", g.ID, ok, err, other.ID)
				}
			})
		}
		for what, prepare := range inUse {
			n := newNames(t)
			must(t, prepare(n))
			other := n.must(taker.tenant, "b")
			if _, _, err := n.Publish(t.Context(), other.ID, vacants.PublishOptions{Asker: taker.by, EditVenue: slug("shop")}); !problem.Is(err, problem.Conflict) {
				t.Errorf("%s: Publish() by %s = %v, want a conflict", what, who, err)
			}
		}
	}
}

func TestASlugThatIsGivenUpAndTakenAtTheSameTimeHasOneVacant(t *testing.T) {
	slug := func(s string) func(*listing.Venue) error {
		return func(v *listing.Venue) error { v.Slug = s; return nil }
	}
	for round := range 10 {
		n := newNames(t)
		must(t, n.publish("acme", "a", slug("shop"), slug("")))
		a, _ := n.GetByName(t.Context(), vacants.OperatorAsker(), "a")
		b, c := n.must("acme", "b"), n.must("eve", "c")
		var do []func() error
		for _, r := range []vacants.Record{a, b, c} {
			do = append(do, func() error {
				v := host(t, n.store, n.vault, newClock().now, hostURL) // each in a process of its own
				_, _, err := v.Publish(context.Background(), r.ID, vacants.PublishOptions{Asker: vacants.TenantAsker(r.Tenant), EditVenue: slug("shop")})
				return err
			})
		}
		errs := together(do...)
		for i, err := range errs {
			if err != nil && !problem.Is(err, problem.Conflict) {
				t.Errorf("round %d: %d: %v", round, i, err)
			}
		}
		if (errs[0] == nil) == (errs[1] == nil) || errs[2] == nil {
			t.Errorf("round %d: its vacant %v, another of its tenant %v, another tenant %v", round, errs[0], errs[1], errs[2])
		}
	}
}

func TestANewSlugDoesNotBeginWithAHyphen(t *testing.T) {
	n := newNames(t)
	err := n.publish("acme", "a", func(v *listing.Venue) error { v.Slug = "-x"; return nil })
	if !problem.Is(err, problem.Malformed) || problem.AsError(err).Field != "slug" {
		t.Errorf("Publish() = %v, want a malformed slug", err)
	}
}

// publish makes a vacant and publishes it once for each change of its venue.
func (n *names) publish(tenant, name string, changes ...func(*listing.Venue) error) error {
	n.t.Helper()
	r := n.must(tenant, name)
	for _, change := range changes {
		if _, _, err := n.Publish(n.t.Context(), r.ID, vacants.PublishOptions{Asker: vacants.TenantAsker(tenant), EditVenue: change}); err != nil {
			return err
		}
	}
	return nil
}
