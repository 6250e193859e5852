package fsck_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// ended is a story whose demo vacant was restored, exported, closed and deleted, together with its
// record before the deletion.
func ended(t *testing.T) (*caller, store.Doc) {
	t.Helper()
	a := story(t, memory.New())
	_, err := a.Vacants.RaiseFloors(a.Ctx)
	a.Must(err)
	_, _, err = a.Vacants.Export(a.Ctx, a.Demo.ID)
	a.Must(err)
	_, err = a.Vacants.Sink(a.Ctx, a.Demo.ID)
	a.Must(err)
	_, err = a.Vacants.Archive(a.Ctx, a.Demo.ID)
	a.Must(err)
	before, err := a.Store.Doc(a.Ctx, vacants.RecordKey(a.Demo.ID))
	a.Must(err)
	_, err = a.Vacants.Delete(a.Ctx, a.Demo.ID)
	a.Must(err)
	return a, before
}

func TestDeletedVacantPassesTheCheck(t *testing.T) {
	a, _ := ended(t)
	res, found := a.check(a.Store)
	if len(found) > 0 || res.Vacants != 2 {
		t.Errorf("Run() = %d vacants, %v, want both whole", res.Vacants, found)
	}
}

func TestNamesAndSlugsThatPassedOnPassTheCheck(t *testing.T) {
	a := story(t, memory.New())
	by := vacants.OperatorAsker()
	slug := func(v *listing.Venue) error { v.Slug = "shop"; return nil }
	make := func(name string) vacants.Record {
		r, err := a.Vacants.Create(a.Ctx, vacants.CreateSpec{Asker: by, Name: name, Capability: "c", Substrate: "echo"})
		a.Must(err)
		_, _, err = a.Vacants.Publish(a.Ctx, r.ID, vacants.PublishOptions{Asker: by, EditVenue: slug})
		a.Must(err)
		return r
	}
	remove := func(r vacants.Record) {
		_, err := a.Vacants.Sink(a.Ctx, r.ID)
		a.Must(err)
		_, err = a.Vacants.Archive(a.Ctx, r.ID)
		a.Must(err)
		_, err = a.Vacants.Delete(a.Ctx, r.ID)
		a.Must(err)
	}
	remove(make("shop"))
	remove(make("Shop"))
	r := make("third")
	for _, name := range []string{"fourth", "fifth"} {
		_, err := a.Vacants.Update(a.Ctx, r.ID, vacants.Changes{Asker: by, Name: &name})
		a.Must(err)
	}
	for _, name := range []string{"shop", "third"} {
		_, err := a.Vacants.ReleaseName(a.Ctx, name)
		a.Must(err)
	}
	if _, found := a.check(a.Store); len(found) > 0 {
		t.Errorf("Run() = %v, want nothing wrong", found)
	}
}

func TestEachDamageOfADeletedVacantIsNamed(t *testing.T) {
	a, before := ended(t)
	record, log := vacants.RecordKey(a.Demo.ID), store.StreamOf(store.KindLogbook, a.Demo.ID)
	other, err := a.Vacants.GetByName(a.Ctx, vacants.OperatorAsker(), "other")
	a.Must(err)
	type docs = map[store.Key]func(store.Doc) store.Doc
	type rows = map[store.Stream]func([]store.Row) []store.Row
	for damage, tc := range map[string]struct {
		home altered
		want []string
	}{
		"record back from a backup": {altered{docs: docs{record: func(d store.Doc) store.Doc { d.Data = before.Data; return d }}}, []string{"record: state"}},
		"key in the tombstone":      {altered{docs: docs{record: member("seed", to([]byte("a box")))}}, []string{"record: state"}},
		"state that is another":     {altered{docs: docs{record: member("state", to("ACTIVE"))}}, []string{"record: state"}},
		"deletion without an entry": {altered{rows: rows{log: func(r []store.Row) []store.Row { return r[:len(r)-1] }}}, []string{"record: state"}},
		"name that another got": {altered{docs: docs{vacants.NameKey("demo"): func(d store.Doc) store.Doc {
			d.Data = append([]byte{1}, other.ID[:]...)
			return d
		}}}, []string{"name/demo: name", "record: name"}},
		"tombstone gone": {altered{docs: docs{record: gone}}, []string{"name/demo: name"}},
	} {
		t.Run(damage, func(t *testing.T) {
			tc.home.Store = a.Store
			_, found := a.check(&tc.home)
			if diff := cmp.Diff(tc.want, short(a, found)); diff != "" {
				t.Errorf("Run() (-want +got):\n%s\n%v", diff, found)
			}
		})
	}
}

// An attacker who copied the key before it was destroyed can still sign, but new entries are
// invalid.
func TestAnEntryAfterTheDeletionIsNamed(t *testing.T) {
	a := story(t, memory.New())
	key, err := identity.KeyFromSeed(make([]byte, 32))
	a.Must(err)
	var prev *logbook.Entry
	for i, e := range []logbook.Entry{
		{Kind: logbook.KindGenesis, Payload: logbook.GenesisPayload("ghost", key.ID())},
		{Kind: logbook.KindStateChanged, Payload: logbook.StateChangedPayload(lifecycle.Sunk, lifecycle.Archived)},
		{Kind: logbook.KindDeleted, Payload: logbook.DeletedPayload("ghost", key.ID())},
		{Kind: logbook.KindRestored, Payload: logbook.RestoredPayload(a.Time)},
	} {
		next := logbook.Next(prev, e.Kind, a.Time, e.Payload)
		_, err := next.Sign(a.Ctx, key)
		a.Must(err)
		data, err := next.MarshalBinary()
		a.Must(err)
		a.Must(a.Store.Commit(a.Ctx, store.Append{Stream: store.StreamOf(store.KindLogbook, key.ID()), Position: uint64(i) + 1, WriteID: store.WriteID{byte(i) + 1}, Data: data}))
		prev = &next
	}
	_, found := a.check(a.Store)
	if len(found) != 1 || found[0].Position != 4 || found[0].Check != "state" {
		t.Errorf("Run() finds %v, want the entry after the deletion", found)
	}
}
