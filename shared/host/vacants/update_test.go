package vacants_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

func TestAnUpdateChangesNameCardAndRegistrationTogether(t *testing.T) {
	v := fresh(t)
	id := create(t, v, "demo").ID
	must(t, errorOf2(v.Publish(t.Context(), id, vacants.PublishOptions{})))
	before := registration(t, v, id)
	r, err := v.Update(t.Context(), id, vacants.Changes{Name: pointer("scribe"), Capability: pointer("sings")})
	must(t, err)
	g := registration(t, v, id)
	c, err := card.Parse(g.Card)
	if err != nil || !c.Verify() || c.CapabilityText != "sings" || g.Name != "scribe" || g.ActorSeq != before.ActorSeq+1 {
		t.Errorf("registered is %q as %q, event %d, %v; want what was updated, by one more event", c.CapabilityText, g.Name, g.ActorSeq, err)
	}
	if r.Name != "scribe" || r.Capability != "sings" || string(r.Card) != string(g.Card) {
		t.Errorf("record = %+v, want the same", r)
	}
	if again, err := v.Update(t.Context(), id, vacants.Changes{Name: pointer("scribe"), Capability: pointer("sings"), IfChanged: time.Unix(1, 0)}); err != nil || !again.ChangedAt.Equal(r.ChangedAt) {
		t.Errorf("the same again = %v, changed %v; want nothing done", err, again.ChangedAt)
	}
	if _, err := v.GetByName(t.Context(), vacants.OperatorAsker(), "demo"); !problem.Is(err, problem.NotFound) {
		t.Errorf("GetByName() of the old name = %v, want not found", err)
	}
	if other := create(t, v, "demo"); other.ID == id {
		t.Error("the old name still leads to the vacant")
	}
}

func TestANameAloneSignsNoCard(t *testing.T) {
	v := fresh(t)
	before := create(t, v, "demo")
	r, err := v.Update(t.Context(), before.ID, vacants.Changes{Name: pointer("scribe")})
	if err != nil || string(r.Card) != string(before.Card) {
		t.Fatalf("Update() = %v, %s; want the card that was there", err, r.Card)
	}
	want := []string{
		`GENESIS {"name":"demo","vacant_id":"` + r.ID.String() + `"}`,
		`UPDATED {"name":"scribe","substrate":"echo"}`,
	}
	if diff := cmp.Diff(want, story(t, v, r.ID)); diff != "" {
		t.Errorf("logbook (-want +got):\n%s", diff)
	}
}

func TestAnotherKindOfSubstrateSignsTheCard(t *testing.T) {
	v := fresh(t)
	v.Resources.Substrates["other"] = v.Resources.Substrates["echo"]
	r := create(t, v, "demo")
	for _, tt := range []struct{ substrate, onCard, entry string }{
		{"other", "other", logbook.KindCardSigned},
		{"echo", "echo", logbook.KindCardSigned},
	} {
		r, err := v.Update(t.Context(), r.ID, vacants.Changes{Substrate: &tt.substrate})
		must(t, err)
		c, err := card.Parse(r.Card)
		if err != nil || !c.Verify() || c.AllowedSubstrates[0] != tt.onCard || r.Substrate != tt.substrate {
			t.Errorf("the card says %v, %v, the record %s; want %s", c.AllowedSubstrates, err, r.Substrate, tt.onCard)
		}
		entries := log(t, v, r.ID)
		if last := entries[len(entries)-1].Kind; last != tt.entry {
			t.Errorf("the last entry is %s, want %s", last, tt.entry)
		}
	}
}

func TestUpdatesAreRefused(t *testing.T) {
	v := fresh(t)
	r := create(t, v, "demo")
	create(t, v, "other")
	sunk := create(t, v, "sunk")
	do(t, v, sunk.ID, "sink")
	for name, tt := range map[string]struct {
		of      vacants.Record
		changes vacants.Changes
		kind    problem.Kind
		says    string
	}{
		"nothing":                 {r, vacants.Changes{}, problem.Malformed, "changes: expected name, capability, substrate, agent, plain or work"},
		"a taken name":            {r, vacants.Changes{Name: pointer("other")}, problem.Conflict, "the name other is in use or reserved"},
		"a name with a slash":     {r, vacants.Changes{Name: pointer("a/b")}, problem.Malformed, "name"},
		"dots":                    {r, vacants.Changes{Name: pointer("..")}, problem.Malformed, "name"},
		"a twin in other letters": {r, vacants.Changes{Name: pointer("d\u0435mo")}, problem.Malformed, "name"},
		"an id":                   {r, vacants.Changes{Name: pointer(strings.Repeat("1a", 32))}, problem.Malformed, "name"},
		"the prefix of an id":     {r, vacants.Changes{Name: pointer("0123456789ab")}, problem.Malformed, "beginning of an id"},
		"a reserved word":         {r, vacants.Changes{Name: pointer("Health")}, problem.Conflict, "the name Health is in use or reserved"},
		"a long name":             {r, vacants.Changes{Name: pointer(strings.Repeat("n", 65))}, problem.Malformed, "name"},
		"an empty capability":     {r, vacants.Changes{Capability: pointer(" ")}, problem.Malformed, "capability"},
		"no substrate":            {r, vacants.Changes{Substrate: pointer("nothing")}, problem.Malformed, "substrate"},
		"one that is sunk":        {sunk, vacants.Changes{Name: pointer("again")}, problem.Conflict, "cannot be updated"},
		"an old view":             {r, vacants.Changes{Name: pointer("again"), IfChanged: r.ChangedAt.Add(-time.Second)}, problem.Conflict, "changed concurrently"},
	} {
		_, err := v.Update(t.Context(), tt.of.ID, tt.changes)
		if !problem.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("Update() of %s = %v, want %s that says %q", name, err, tt.kind, tt.says)
		}
	}
	if after, err := v.Get(t.Context(), vacants.OperatorAsker(), r.ID); err != nil || !after.ChangedAt.Equal(r.ChangedAt) || after.Name != "demo" {
		t.Errorf("after the refusals the vacant is %v, %v", after, err)
	}
}

func TestTheNameOfADeletedVacantIsFree(t *testing.T) {
	s, va, key := memory.New(), vault(t), newKey(t)
	v := host(t, s, va, newClock().now, hostURL)
	do(t, v, archived(t, v, key).ID, "delete")
	if list, _, err := v.List(t.Context(), vacants.OperatorAsker(), "", 10); err != nil || len(list) != 0 {
		t.Errorf("List() = %v, %v; want no tombstone", list, err)
	}
	r := create(t, v, "demo")
	if found, err := v.GetByName(t.Context(), vacants.OperatorAsker(), "demo"); err != nil || found.ID != r.ID || found.State != lifecycle.Local {
		t.Errorf("GetByName() = %v, %v; want the new vacant", found, err)
	}
	all, err := everyRecord(t, v)
	if err != nil || len(all) != 2 || all[0].ID != r.ID || all[1].ID != key.ID() {
		t.Errorf("ListAll() = %v, %v; want the new vacant and the tombstone", all, err)
	}
	if shown, ok, err := v.FindCachedByName(t.Context(), "demo"); err != nil || !ok || shown.ID != r.ID {
		t.Errorf("FindCachedByName() = %v, %t, %v; want the new vacant", shown, ok, err)
	}
	wantWhole(t, s, v, key.ID())
}

// A name that nobody has costs as many reads as one of a closed child.
func TestANameOfNobodyCostsAsMuchAsAnother(t *testing.T) {
	reads := &docs{Store: memory.New()}
	v := host(t, reads, vault(t), newClock().now, hostURL)
	create(t, v, "demo")
	cost := func(name string) int64 {
		before := reads.read.Load()
		must(t, errorOf2(v.FindCachedByName(t.Context(), name)))
		return reads.read.Load() - before
	}
	there, nobody := cost("demo"), cost("nobody")
	if there != nobody || there != 2 {
		t.Errorf("a name costs %d reads, one of nobody %d; want 2 each", there, nobody)
	}
	if there, nobody := cost("demo"), cost("nobody"); there != 0 || nobody != 0 {
		t.Errorf("a second later they cost %d and %d, want none", there, nobody)
	}
	if _, ok, err := v.FindCachedByName(t.Context(), "../demo"); ok || err != nil || cost("n\u00e4me") != 0 {
		t.Errorf("what is no name = %t, %v, or costs something", ok, err)
	}
}
