package fsck_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// unsaid removes a member from a document.
func unsaid(name string) func(store.Doc) store.Doc {
	return func(d store.Doc) store.Doc {
		var m map[string]any
		if err := json.Unmarshal(d.Data, &m); err != nil {
			panic(err)
		}
		delete(m, name)
		d.Data, _ = json.Marshal(m)
		return d
	}
}

// A parent's edge is correct only if the child has signed it in its current manifest or in the
// closed manifest that the current one replaced.
func TestAnEdgeThatNoManifestMadeIsNamed(t *testing.T) {
	st := memory.New()
	l := story(t, st)
	reg := l.Vacants.Registry
	made, parent, child := registrytest.Key(1), registrytest.Key(2), registrytest.Key(3)
	for _, m := range []struct {
		parent *identity.Key
		closed bool
	}{{made, false}, {parent, true}} {
		for _, k := range []*identity.Key{m.parent, child} {
			if _, ok, err := reg.Get(l.Ctx, k.ID()); ok || err != nil {
				l.Must(err)
				continue
			}
			_, err := reg.Publish(l.Ctx, registrytest.NewPublication(t, k, registrytest.Draft{SignedAt: l.Time}))
			l.Must(err)
		}
		l.Must(l.Vacants.AddManifest(l.Ctx, registrytest.NewManifest(t, m.parent, child, m.closed)))
	}
	if _, found := l.check(l.Store); len(found) > 0 {
		t.Errorf("Run() finds %v in a whole host", found)
	}
	if _, found := l.checkWith(l.Store, narrow); len(found) > 0 {
		t.Errorf("Run() with small pages finds %v in a whole host", found)
	}

	proof, card := registry.ManifestKey(child.ID()), registry.RegistrationKey(child.ID())
	old, kin := registry.ChildEdgeKey(made.ID(), child.ID()), registry.ChildEdgeKey(parent.ID(), child.ID())
	name := strings.NewReplacer(proof.String(), "proof", card.String(), "child", old.String(), "old", kin.String(), "kin")
	for _, tc := range []struct {
		damage string
		docs   map[store.Key]func(store.Doc) store.Doc
		want   []string
	}{
		{"nothing is said of what was replaced", map[store.Key]func(store.Doc) store.Doc{proof: unsaid("replaced")}, []string{"old"}},
		{"what was replaced was not signed", map[store.Key]func(store.Doc) store.Doc{proof: member("replaced", func(v any) any {
			v.(map[string]any)["birth_path"] = "D2"
			return v
		})}, []string{"proof"}},
		{"the old edge is missing", map[store.Key]func(store.Doc) store.Doc{old: gone}, []string{"old"}},
		{"the edge is missing", map[store.Key]func(store.Doc) store.Doc{kin: gone}, []string{"kin"}},
		{"the manifest is missing", map[store.Key]func(store.Doc) store.Doc{proof: gone}, []string{"child", "kin", "old"}},
		{"the child goes by the old one", map[store.Key]func(store.Doc) store.Doc{card: member("parent", to(made.ID().String()))}, []string{"child"}},
		{"the child is open", map[store.Key]func(store.Doc) store.Doc{card: member("closed", to(false))}, []string{"child"}},
	} {
		_, found := l.check(&altered{Store: l.Store, docs: tc.docs})
		got := map[string]bool{}
		for _, f := range found {
			got[name.Replace(f.Location)] = true
			if f.Check != "manifest" {
				t.Errorf("%s: Run() finds %v", tc.damage, f)
			}
		}
		want := map[string]bool{}
		for _, w := range tc.want {
			want[w] = true
		}
		if diff := cmp.Diff(want, got); diff != "" || len(found) != len(want) {
			t.Errorf("%s: Run() (-want +got):\n%s\n%v", tc.damage, diff, found)
		}
	}

	for want, k := range map[string]store.Key{
		"one without a manifest": registry.ChildEdgeKey(parent.ID(), registrytest.Key(9).ID()),
		"another":                {Partition: registry.ChildEdgeDocs.Range(made.ID().String()).Partition, Sort: "x"},
		"one to a child of " + parent.ID().String(): registry.ChildEdgeKey(child.ID(), child.ID()),
	} {
		l.Must(st.Commit(l.Ctx, store.Put{Key: k, WriteID: store.WriteID{1}, Data: []byte{1}}))
		_, found := l.check(l.Store)
		if len(found) != 1 || found[0].Location != k.String() || found[0].Got != want {
			t.Errorf("an edge that nobody signed: Run() finds %v, want %s", found, want)
		}
		l.Must(st.Commit(l.Ctx, store.Delete{Key: k, IfVersion: 1}))
	}
}
