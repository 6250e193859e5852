package fsck_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/keys/signingkey"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// member changes a member of a record.
func member(name string, change func(any) any) func(store.Doc) store.Doc {
	return func(d store.Doc) store.Doc {
		var m map[string]any
		if err := json.Unmarshal(d.Data, &m); err != nil {
			panic(err)
		}
		m[name] = change(m[name])
		d.Data, _ = json.Marshal(m)
		return d
	}
}

func to(v any) func(any) any { return func(any) any { return v } }

func gone(d store.Doc) store.Doc { return store.Doc{Key: d.Key} }

func cut(d store.Doc) store.Doc {
	d.Data = d.Data[:len(d.Data)-1]
	return d
}

// damagedBase64 changes a byte of the content and keeps the base64 encoding valid.
func damagedBase64(v any) any {
	var b []byte
	text, _ := json.Marshal(v)
	if err := json.Unmarshal(text, &b); err != nil {
		panic(err)
	}
	b[len(b)/2] ^= 1
	return b
}

// oldCard returns a card with another endpoint that the demo vacant signed earlier.
func oldCard(c *caller) []byte {
	c.Helper()
	r, err := c.Vacants.Get(c.Ctx, vacants.OperatorAsker(), c.Demo.ID)
	c.Must(err)
	if bytes.Equal(r.Card, c.Demo.Card) {
		c.Fatal("the card was not signed again")
	}
	return c.Demo.Card
}

// foreignEntry returns an entry that fits the end of the demo vacant's logbook but has the
// signature of another key.
func foreignEntry(c *caller) func([]store.Row) []store.Row {
	k, err := identity.NewKey(rand.Reader)
	c.Must(err)
	return func(rows []store.Row) []store.Row {
		var before logbook.Entry
		c.Must(before.UnmarshalBinary(rows[2].Data))
		e := logbook.Next(&before, logbook.KindStateChanged, c.Time, logbook.StateChangedPayload(lifecycle.Active, lifecycle.Active))
		_, err := e.Sign(c.Ctx, k)
		c.Must(err)
		rows[3].Data, err = e.MarshalBinary()
		c.Must(err)
		return rows
	}
}

func TestEachDamageOfAHostedVacantIsFoundAndNamed(t *testing.T) {
	a := story(t, memory.New())
	log := store.StreamOf(store.KindLogbook, a.Demo.ID)
	record, name := vacants.RecordKey(a.Demo.ID), vacants.NameKey("demo")
	other, err := a.Vacants.GetByName(a.Ctx, vacants.OperatorAsker(), "other")
	a.Must(err)
	stranger, err := identity.NewKey(rand.Reader)
	a.Must(err)
	foreign, err := card.New(stranger.ID(), "says what it hears", []string{"echo"}, "http://127.0.0.1")
	a.Must(err)
	a.Must(foreign.Sign(a.Ctx, stranger))
	day := store.Key{Partition: "textkey", Sort: "2026-05-09"}
	names := func(id identity.ID) func(store.Doc) store.Doc {
		return func(d store.Doc) store.Doc {
			d.Data = append([]byte{1}, id[:]...)
			return d
		}
	}
	type docs = map[store.Key]func(store.Doc) store.Doc
	type rows = map[store.Stream]func([]store.Row) []store.Row
	for _, tc := range []struct {
		damage string
		home   altered
		want   []string
	}{
		{"flipped byte in a card", altered{docs: docs{record: member("card", damagedBase64)}}, []string{"record: card"}},
		{"card of another vacant", altered{docs: docs{record: member("card", to(foreign.Blob()))}}, []string{"record: card"}},
		{"card that was replaced since", altered{docs: docs{record: member("card", to(oldCard(a)))}}, []string{"record: card"}},
		{"card that promises other things", altered{docs: docs{record: member("capability", to("heals the sick"))}}, []string{"record: card"}},
		{"state that the logbook does not tell", altered{docs: docs{record: member("state", to("SUNK"))}}, []string{"record: state"}},
		{"state that is none", altered{docs: docs{record: member("state", to("ASLEEP"))}}, []string{"record: document"}},
		{"record of another id", altered{docs: docs{record: member("id", to(other.ID.String()))}}, []string{"record: document"}},
		{"record of a newer format", altered{docs: docs{record: member("format", to(2))}}, []string{"record: document"}},
		{"record cut short", altered{docs: docs{record: cut}}, []string{"record: document"}},
		{"flipped byte in a sealed key", altered{docs: docs{record: member("seed", damagedBase64)}}, []string{"record: key"}},
		{"flipped byte in the host's sealed key", altered{docs: docs{vacants.HostIdentityKey(): member("seed", damagedBase64)}}, []string{"host/identity: key"}},
		{"host's identity of another host", altered{docs: docs{vacants.HostIdentityKey(): member("id", to(stranger.ID().String()))}}, []string{"host/identity: key", "signkey/keys: document"}},
		{"certificate of a longer time", altered{docs: docs{signingkey.DocKey(): data(replaced(`"until":"2026-`, `"until":"2036-`))}}, []string{"signkey/keys: document"}},
		{"certified key that does not open", altered{docs: docs{signingkey.DocKey(): data(replaced(`"seed":"`, `"seed":"AAAA`))}}, []string{"signkey/keys: key"}},
		{"certified keys cut short", altered{docs: docs{signingkey.DocKey(): cut}}, []string{"signkey/keys: document"}},
		{"name in the record that is none", altered{docs: docs{record: member("name", to("../demo"))}}, []string{"name/demo: name", "record: name"}},
		{"name pointing to another vacant", altered{docs: docs{name: names(other.ID)}}, []string{"name/demo: name", "record: name"}},
		{"name pointing to nobody", altered{docs: docs{name: names(stranger.ID())}}, []string{"name/demo: name", "record: name"}},
		{"name cut short", altered{docs: docs{name: cut}}, []string{"name/demo: document", "record: name"}},
		{"missing name", altered{docs: docs{name: gone}}, []string{"record: name"}},
		{"missing record", altered{docs: docs{record: gone}}, []string{"name/demo: name"}},
		{"text key that does not open", altered{docs: docs{day: cut}}, []string{"textkey/2026-05-09: key"}},

		{"logbook entry of another key", altered{rows: rows{log: foreignEntry(a)}}, []string{"log 4: signature"}},
		{"flipped byte in an entry's signature", altered{rows: rows{log: flip(2, 60)}}, []string{"log 2: signature"}},
		{"wrong prev of an entry", altered{rows: rows{log: flip(2, 10)}}, []string{"log 2: prev", "log 2: signature", "log 3: prev"}},
		{"missing entry", altered{rows: rows{log: drop(2)}}, []string{"log 2: position"}},
		{"missing last entry", altered{rows: rows{log: func(r []store.Row) []store.Row { return r[:2] }}}, []string{"record: state"}},
		{"entry of a newer format", altered{rows: rows{log: set(2, 0, 2)}}, []string{"log 2: row"}},
		{"missing logbook", altered{rows: rows{log: func([]store.Row) []store.Row { return nil }}}, nil},

		{"stream of no kind", altered{more: []store.Stream{"zzz#what"}}, []string{`"zzz#what": stream`}},
		{"stream of half a pair", altered{more: []store.Stream{"rsq", store.StreamOf("rsp", a.Demo.ID) + "x\x00"}}, nil},
	} {
		t.Run(tc.damage, func(t *testing.T) {
			tc.home.Store = a.Store
			_, found := a.check(&tc.home)
			if tc.want == nil && len(found) > 0 {
				return
			}
			if diff := cmp.Diff(tc.want, short(a, found)); diff != "" {
				t.Errorf("Run() (-want +got):\n%s\n%v", diff, found)
			}
		})
	}
}

func TestAFloorThatIsGoneIsNamed(t *testing.T) {
	a := story(t, memory.New())
	_, err := a.Vacants.RaiseFloors(a.Ctx)
	a.Must(err)
	if _, found := a.check(a.Store); len(found) > 0 {
		t.Errorf("Run() finds %v in a whole host", found)
	}
	record := vacants.RecordKey(a.Demo.ID)
	for _, floor := range []any{nil, "2026-05-09T00:00:00Z"} {
		_, found := a.check(&altered{Store: a.Store, docs: map[store.Key]func(store.Doc) store.Doc{record: member("floor", to(floor))}})
		if diff := cmp.Diff([]string{"record: floor"}, short(a, found)); diff != "" {
			t.Errorf("Run(floor %v) (-want +got):\n%s", floor, diff)
		}
	}
}

func TestAVacantCallingItselfIsNamed(t *testing.T) {
	a := story(t, memory.New())
	self := store.StreamOf(store.KindRequest, a.Demo.ID, a.Demo.ID)
	_, found := a.check(&altered{Store: a.Store, more: []store.Stream{self}})
	if diff := cmp.Diff([]string{self.String() + ": stream"}, short(a, found)); diff != "" {
		t.Errorf("Run() (-want +got):\n%s", diff)
	}
}
