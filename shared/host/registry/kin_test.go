package registry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// graduate makes the writes of the gate for a parent and a child with low numbers.
func graduate(t *testing.T, inner store.Store, child identity.ID) {
	t.Helper()
	keys := map[identity.ID]*identity.Key{}
	for n := byte(1); n < 10; n++ {
		keys[key(n).ID()] = key(n)
	}
	d, err := inner.Doc(t.Context(), registry.ManifestKey(child))
	must(t, err)
	m, err := registry.ManifestDocs.Parse(d)
	must(t, err)
	m.Graduated = true
	if m.Manifest.ClosedByDefault {
		closed := m.Manifest
		m.Manifest, m.PreviousManifest, m.ManifestBeforePrevious = closed.AfterGraduation(), &closed, m.PreviousManifest
		must(t, errors.Join(m.Manifest.SignParent(t.Context(), keys[closed.ParentID]), m.Manifest.SignChild(t.Context(), keys[child])))
	}
	data, err := registry.ManifestDocs.Encode(m)
	must(t, err)
	must(t, inner.Commit(t.Context(), store.Put{Key: registry.ManifestKey(child), IfVersion: d.Version, WriteID: store.WriteID{7}, Data: data},
		store.Put{Key: registry.OpeningKey(child), WriteID: store.WriteID{7}, Data: fmt.Appendf(nil, `{"format":1,"manifest":%q}`, m.Manifest.Hash())}))
}

func TestAClosedChildIsFoundByNobodyUntilItHasGraduated(t *testing.T) {
	parent, child := key(1), key(2)
	for _, first := range []string{"manifest", "publish"} {
		t.Run("first the "+first, func(t *testing.T) {
			inner := memory.New()
			r := open(inner, newClock())
			m := manifest(t, parent, child, true)
			seq := int64(1)
			if first == "publish" {
				mustPublish(t, r, child, draft{})
				seq++
			}
			must(t, registrytest.AddManifest(t.Context(), r, m))
			if _, ok, err := r.Get(t.Context(), child.ID()); ok != (first == "publish") || err != nil {
				t.Errorf("Get() = %t, %v", ok, err)
			}
			for _, v := range []lifecycle.Visibility{lifecycle.Public, lifecycle.Restricted} {
				_, err := r.Publish(t.Context(), publication(t, child, draft{Seq: seq, Visibility: v}))
				if !problem.Is(err, problem.Forbidden) || !strings.Contains(err.Error(), "until it has graduated its visibility is NONE") {
					t.Errorf("Publish() as %s = %v, want forbidden", v, err)
				}
			}
			if first == "publish" {
				g := get(t, r, child.ID())
				if g.Visibility != lifecycle.Hidden || g.SignedVisibility != lifecycle.Public || g.IsListed() {
					t.Errorf("the manifest has left it %s, signed %s", g.Visibility, g.SignedVisibility)
				}
			}
			if got := mustPublish(t, r, child, draft{Seq: seq, Visibility: lifecycle.Hidden}); got.Visibility != lifecycle.Hidden {
				t.Errorf("Publish() as NONE = %s", got.Visibility)
			}
			wantWhole(t, inner)
			graduate(t, inner, child.ID())
			if got := mustPublish(t, r, child, draft{Seq: seq + 1}); got.Visibility != lifecycle.Public {
				t.Errorf("graduated, Publish() = %s, want PUBLIC", got.Visibility)
			}
			// Sending the manifest again does not close the child.
			must(t, registrytest.AddManifest(t.Context(), r, m))
			if g := get(t, r, child.ID()); !g.IsListed() || g.Closed || !g.ParentProven {
				t.Errorf("in the end: %+v", g)
			}
			wantWhole(t, inner)
		})
	}
}

// A role that may write manifests but not the documents of the gate cannot open a child. For
// example, the outbound policy of a closed child depends on its manifest.
func TestAFlagAloneOpensNoChild(t *testing.T) {
	for name, data := range map[string]string{
		"nothing of the gate's": "", "another manifest": `{"format":1,"manifest":"` + strings.Repeat("0", 64) + `"}`, "no JSON": "{", "another format": `{"format":9}`,
	} {
		t.Run(name, func(t *testing.T) {
			inner, child := memory.New(), key(2)
			r := open(inner, newClock())
			must(t, registrytest.AddManifest(t.Context(), r, manifest(t, key(1), child, true)))
			graduate(t, inner, child.ID())
			if m, ok, err := r.Manifest(t.Context(), child.ID()); err != nil || !ok || m.IsClosed() {
				t.Fatalf("Manifest() after the gate = %+v, %t, %v", m, ok, err)
			}
			writes := []store.Write{store.Delete{Key: registry.OpeningKey(child.ID()), IfVersion: 1}}
			if data != "" {
				writes[0] = store.Put{Key: registry.OpeningKey(child.ID()), IfVersion: 1, WriteID: store.WriteID{8}, Data: []byte(data)}
			}
			must(t, inner.Commit(t.Context(), writes...))
			if _, ok, err := r.Manifest(t.Context(), child.ID()); ok || !problem.Is(err, problem.Damaged) {
				t.Errorf("Manifest() = %t, %v; want Damaged", ok, err)
			}
			if _, err := r.ListChildManifests(t.Context(), key(1).ID(), 1); !problem.Is(err, problem.Damaged) {
				t.Errorf("ListChildManifests() = %v, want Damaged", err)
			}
			if _, err := r.Publish(t.Context(), publication(t, child, draft{})); !problem.Is(err, problem.Damaged) {
				t.Errorf("Publish() = %v, want Damaged", err)
			}
		})
	}
}

func TestOfTwoManifestsOnlyAClosedOneTakesThePlaceOfAnOpenOne(t *testing.T) {
	type one struct {
		parent byte
		closed bool
	}
	child := key(3)
	for _, tt := range []struct {
		name          string
		first, second one
		graduated     bool
		refused       bool // the second is refused; otherwise it replaces the first, or is the first
	}{
		{"open, the same", one{1, false}, one{1, false}, false, false},
		{"open, open of another parent", one{1, false}, one{2, false}, false, true},
		{"open, closed of the same parent", one{1, false}, one{1, true}, false, false},
		{"open, closed of another parent", one{1, false}, one{2, true}, false, false},
		{"closed, the same", one{1, true}, one{1, true}, false, false},
		{"closed, open of the same parent", one{1, true}, one{1, false}, false, true},
		{"closed, open of another parent", one{1, true}, one{2, false}, false, true},
		{"closed, closed of another parent", one{1, true}, one{2, true}, false, true},
		{"graduated, the same", one{1, true}, one{1, true}, true, false},
		{"graduated, closed of another parent", one{1, true}, one{2, true}, true, true},
		{"graduated and open, closed of another parent", one{1, false}, one{2, true}, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inner := memory.New()
			r := open(inner, newClock())
			kept := tt.first
			add := func(o one) error {
				return registrytest.AddManifest(t.Context(), r, manifest(t, key(o.parent), child, o.closed))
			}
			must(t, add(tt.first))
			if tt.graduated {
				graduate(t, inner, child.ID())
			}
			err := add(tt.second)
			if (err != nil) != tt.refused || err != nil && !problem.Is(err, problem.Conflict) {
				t.Errorf("AddManifest() of the second = %v, want a conflict: %t", err, tt.refused)
			}
			if err == nil {
				kept = tt.second
			}
			if err := add(kept); err != nil {
				t.Errorf("AddManifest() of what is kept = %v", err)
			}
			g, _, err := r.Get(t.Context(), child.ID())
			if err != nil || g.Parent == nil || *g.Parent != key(kept.parent).ID() || g.Closed != kept.closed {
				t.Errorf("Get() = a child of %v, closed: %t, %v, want of %d, %t", g.Parent, g.Closed, err, kept.parent, kept.closed)
			}
			d, err := inner.Doc(t.Context(), registry.ManifestKey(child.ID()))
			must(t, err)
			m, err := registry.ManifestDocs.Parse(d)
			if err != nil || m.Manifest.ParentID != key(kept.parent).ID() || m.Manifest.ClosedByDefault != (kept.closed && !tt.graduated) {
				t.Errorf("the manifest that is kept = %+v, %v", m, err)
			}
			if replaced := kept != tt.first || tt.graduated && kept.closed; replaced != (m.PreviousManifest != nil) || replaced && m.PreviousManifest.ParentID != key(tt.first.parent).ID() {
				t.Errorf("the manifest that was replaced = %+v", m.PreviousManifest)
			}
		})
	}
}

func TestAManifestThatBothHaveNotSignedIsRefused(t *testing.T) {
	r := open(memory.New(), newClock())
	forged := manifest(t, key(1), key(4), true)
	forged.ClosedByDefault = false
	if err := registrytest.AddManifest(t.Context(), r, forged); !problem.Is(err, problem.BadSignature) {
		t.Errorf("AddManifest() of a changed one = %v, want a bad signature", err)
	}
	forged.BirthPath = "D9"
	if err := registrytest.AddManifest(t.Context(), r, forged); !problem.Is(err, problem.Malformed) {
		t.Errorf("AddManifest() of none = %v, want malformed", err)
	}
}

// A child signs an open manifest with a parent that it controls, before the parent that closed it.
func TestAChildThatOpenedItsOwnHandlerFirstIsClosedAgain(t *testing.T) {
	inner, c := memory.New(), newClock()
	r := open(inner, c)
	made, parent, child := key(1), key(2), key(3)
	for _, k := range []*identity.Key{made, parent} {
		mustPublish(t, r, k, draft{})
	}
	openHandler, closed := manifest(t, made, child, false), manifest(t, parent, child, true)
	must(t, registrytest.AddManifest(t.Context(), r, openHandler))
	mustPublish(t, r, child, draft{})
	c.Advance(time.Second)
	if err := registrytest.AddManifest(t.Context(), r, closed); err != nil {
		t.Fatalf("AddManifest() of the closed one = %v", err)
	}
	id := child.ID()
	g := get(t, r, id)
	if g.Visibility != lifecycle.Hidden || !g.Closed || g.IsListed() || !g.ParentProven || *g.Parent != parent.ID() {
		t.Errorf("the child is %s, closed: %t, of %s; want it hidden and its parent's", g.Visibility, g.Closed, g.Parent.Short())
	}
	if g.ChangeKey != registry.FormatChangeKey(c.Now()) {
		t.Errorf("its place in the feed is %s, want that of now", g.ChangeKey)
	}
	if _, err := r.Publish(t.Context(), publication(t, child, draft{Seq: 2})); !problem.Is(err, problem.Forbidden) {
		t.Errorf("Publish() = %v, want forbidden", err)
	}
	if err := registrytest.AddManifest(t.Context(), r, openHandler); !problem.Is(err, problem.Conflict) {
		t.Errorf("AddManifest() of the open one again = %v, want a conflict", err)
	}
	for k, readable := range map[*identity.Key]bool{made: false, parent: true, child: true} {
		caller := k.ID()
		if _, err := r.View(t.Context(), id, &caller); (err == nil) != readable {
			t.Errorf("View() by %s = %v, want it readable: %t", caller.Short(), err, readable)
		}
	}
	if old, err := inner.Doc(t.Context(), registry.ChildEdgeKey(made.ID(), id)); err != nil || old.Version == 0 {
		t.Errorf("the old edge is at version %d, %v: nobody can take it away", old.Version, err)
	}
	graduate(t, inner, id)
	mustPublish(t, r, child, draft{Seq: 2})
	for k, want := range map[*identity.Key][]identity.ID{made: nil, parent: {id}} {
		got, err := r.Lineage(t.Context(), k.ID(), nil, registry.Descendants, 8)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("Lineage() down from %s = %v (-want +got):\n%s", k.ID().Short(), err, diff)
		}
	}
	if got, err := r.Lineage(t.Context(), id, nil, registry.Ancestors, 8); err != nil || len(got) != 1 || got[0] != parent.ID() {
		t.Errorf("Lineage() up = %v, %v, want the parent", got, err)
	}
	wantWhole(t, inner)
}

// The walk meets the replaced edge before the current one.
func TestAnOldEdgeHidesNoTrueOneFurtherDown(t *testing.T) {
	r := open(memory.New(), newClock())
	for n := byte(1); n <= 3; n++ {
		mustPublish(t, r, key(n), draft{})
	}
	mustPublish(t, r, key(4), draft{Visibility: lifecycle.Hidden})
	for _, m := range []struct {
		parent, child byte
		closed        bool
	}{{1, 2, false}, {2, 3, false}, {1, 4, false}, {3, 4, true}} {
		must(t, registrytest.AddManifest(t.Context(), r, manifest(t, key(m.parent), key(m.child), m.closed)))
	}
	caller := key(4).ID()
	got, err := r.Lineage(t.Context(), key(1).ID(), &caller, registry.Descendants, 8)
	if diff := cmp.Diff([]identity.ID{key(2).ID(), key(3).ID(), caller}, got); diff != "" || err != nil {
		t.Errorf("Lineage() = %v (-want +got):\n%s", err, diff)
	}
}

func TestAClaimedParentMustBeTheProvenOne(t *testing.T) {
	inner, proven, other, child := memory.New(), key(1).ID(), key(2).ID(), key(3)
	r := open(inner, newClock())
	must(t, registrytest.AddManifest(t.Context(), r, manifest(t, key(1), child, false)))
	claim := func(parent identity.ID) registry.Publication {
		return publication(t, child, draft{BeforeSign: func(p *registry.Publication) { p.Parent = &parent }})
	}
	if _, err := r.Publish(t.Context(), claim(other)); !problem.Is(err, problem.Malformed) {
		t.Errorf("Publish() with another parent = %v, want a refusal", err)
	}
	if _, err := r.Publish(t.Context(), claim(proven)); err != nil {
		t.Errorf("Publish() with the proven parent = %v", err)
	}
	if g := get(t, r, child.ID()); g.Parent == nil || *g.Parent != proven || !g.ParentProven {
		t.Errorf("Get() = parent %v, proven: %t", g.Parent, g.ParentProven)
	}
}

func TestAHiddenVacantIsReadByItselfAndItsProvenParentAlone(t *testing.T) {
	r := open(memory.New(), newClock())
	child, proven, claimed := key(1), key(2).ID(), key(3).ID()
	mustPublish(t, r, child, draft{Visibility: lifecycle.Hidden, BeforeSign: func(p *registry.Publication) { p.Parent = &claimed }})
	id := child.ID()
	view := func(caller *identity.ID) error {
		_, err := r.View(t.Context(), id, caller)
		return err
	}
	if err := view(&claimed); !problem.Is(err, problem.Forbidden) {
		t.Errorf("View() by the claimed parent = %v, want forbidden", err)
	}
	must(t, registrytest.AddManifest(t.Context(), r, manifest(t, key(2), child, false)))
	for name, tt := range map[string]struct {
		caller *identity.ID
		want   string
	}{
		"nobody":             {nil, "vacant " + id.String() + " is NONE-visibility; caller required"},
		"a stranger":         {&claimed, "vacant " + id.String() + " is NONE-visibility; caller is not owner/parent"},
		"itself":             {&id, ""},
		"its proven parent":  {&proven, ""},
		"somebody not there": {&identity.ID{1}, "vacant " + id.String() + " is NONE-visibility; caller is not owner/parent"},
	} {
		err := view(tt.caller)
		if (err == nil) != (tt.want == "") || err != nil && (!problem.Is(err, problem.Forbidden) || problem.AsError(err).Text() != tt.want) {
			t.Errorf("View() by %s = %v, want %q", name, err, tt.want)
		}
		events, err := r.Events(t.Context(), id, tt.caller, 0, 10)
		if err != nil || (len(events) == 1) != (tt.want == "") {
			t.Errorf("Events() by %s = %d, %v", name, len(events), err)
		}
		if _, err := r.Event(t.Context(), 1, tt.caller); (err == nil) != (tt.want == "") || err != nil && !problem.Is(err, problem.NotFound) {
			t.Errorf("Event() by %s = %v", name, err)
		}
	}
	if _, err := r.View(t.Context(), key(9).ID(), nil); !problem.Is(err, problem.NotFound) || problem.AsError(err).Text() != key(9).ID().String() {
		t.Errorf("View() of who is not registered = %v, want its id", err)
	}
}

func TestAClosedChildIsThereForItsTreeAlone(t *testing.T) {
	inner := memory.New()
	r := open(inner, newClock())
	child, sibling := key(2), key(3)
	mustPublish(t, r, key(1), draft{})
	mustPublish(t, r, child, draft{})
	mustPublish(t, r, sibling, draft{})
	mustPublish(t, r, key(4), draft{})
	for parent, children := range map[byte][]byte{1: {2, 3}, 9: {4}} {
		for _, n := range children {
			must(t, registrytest.AddManifest(t.Context(), r, manifest(t, key(parent), key(n), n == 2)))
		}
	}
	unknown := func(id identity.ID) string { return id.String() }
	for name, tt := range map[string]struct {
		caller byte
		may    bool
	}{
		"nobody": {0, false}, "a stranger": {5, false}, "another's child": {4, false},
		"itself": {2, true}, "its parent": {1, true}, "its sibling": {3, true},
	} {
		caller := idOf(tt.caller)
		for what, err := range map[string]error{
			"View":    errorOf(r.View(t.Context(), child.ID(), caller)),
			"Lineage": errorOf(r.Lineage(t.Context(), child.ID(), caller, registry.Ancestors, 1)),
		} {
			if tt.may != (err == nil) || !tt.may && (!problem.Is(err, problem.NotFound) || problem.AsError(err).Text() != unknown(child.ID())) {
				t.Errorf("%s() by %s = %v, want that it may: %t, else as where nothing was published", what, name, err, tt.may)
			}
		}
		below, err := r.Lineage(t.Context(), key(1).ID(), caller, registry.Descendants, 1)
		if err != nil || slices.Contains(below, child.ID()) != tt.may || !slices.Contains(below, sibling.ID()) {
			t.Errorf("Lineage() of the parent by %s = %d, %v, want the closed child: %t", name, len(below), err, tt.may)
		}
		events, err := r.Events(t.Context(), child.ID(), caller, 0, 10)
		if err != nil || (len(events) > 0) != tt.may {
			t.Errorf("Events() by %s = %d, %v", name, len(events), err)
		}
		if _, err := r.Event(t.Context(), 2, caller); (err == nil) != tt.may || err != nil && !problem.Is(err, problem.NotFound) {
			t.Errorf("Event() by %s = %v", name, err)
		}
	}
}

func TestLineageFollowsProvenEdgesPastNobodyHidden(t *testing.T) {
	// 1 is the parent of 2 and 3, 2 of 4, 4 of 5; 3 is hidden and parent of 6.
	// 7 claims to be a child of 1.
	inner := memory.New()
	r := open(inner, newClock())
	for n := byte(1); n <= 7; n++ {
		d := draft{}
		if n == 3 {
			d.Visibility = lifecycle.Hidden
		}
		if n == 7 {
			parent := key(1).ID()
			d.BeforeSign = func(p *registry.Publication) { p.Parent = &parent }
		}
		mustPublish(t, r, key(n), d)
	}
	for _, edge := range [][2]byte{{1, 2}, {1, 3}, {2, 4}, {4, 5}, {3, 6}} {
		must(t, registrytest.AddManifest(t.Context(), r, manifest(t, key(edge[0]), key(edge[1]), false)))
	}
	for _, tt := range []struct {
		name   string
		of     byte
		d      registry.Direction
		depth  int
		caller byte
		want   []byte
	}{
		{"down", 1, registry.Descendants, 8, 0, []byte{2, 4, 5}},
		{"down two steps", 1, registry.Descendants, 2, 0, []byte{2, 4}},
		{"down, asked by the parent", 1, registry.Descendants, 8, 1, []byte{2, 3, 4, 6, 5}},
		{"down, asked by the hidden one", 1, registry.Descendants, 1, 3, []byte{2, 3}},
		{"up", 5, registry.Ancestors, 8, 0, []byte{4, 2, 1}},
		{"up one step", 5, registry.Ancestors, 1, 0, []byte{4}},
		{"up to who is hidden", 6, registry.Ancestors, 8, 0, nil},
		{"up from a claim", 7, registry.Ancestors, 8, 0, nil},
		{"from the top", 1, registry.Ancestors, 8, 0, nil},
	} {
		caller := idOf(tt.caller)
		got, err := r.Lineage(t.Context(), key(tt.of).ID(), caller, tt.d, tt.depth)
		if err != nil {
			t.Errorf("%s: Lineage() = %v", tt.name, err)
		}
		// Children of one parent come in the order of their ids.
		if diff := cmp.Diff(idsOf(tt.want...), got, byID); diff != "" {
			t.Errorf("%s: Lineage() (-want +got):\n%s", tt.name, diff)
		}
	}
	hidden := key(3).ID()
	for name, tt := range map[string]struct {
		id    identity.ID
		d     registry.Direction
		depth int
		kind  problem.Kind
	}{
		"not registered": {key(9).ID(), registry.Descendants, 8, problem.NotFound},
		"hidden":         {hidden, registry.Descendants, 8, problem.Forbidden},
		"no step":        {key(1).ID(), registry.Descendants, 0, problem.InvalidMember},
		"many steps":     {key(1).ID(), registry.Descendants, 33, problem.InvalidMember},
		"sideways":       {key(1).ID(), "siblings", 8, problem.InvalidMember},
	} {
		if _, err := r.Lineage(t.Context(), tt.id, nil, tt.d, tt.depth); !problem.Is(err, tt.kind) {
			t.Errorf("%s: Lineage() = %v, want %s", name, err, tt.kind)
		}
	}
}

// counting counts the documents that are read.
type counting struct {
	store.Store
	docs atomic.Int64
}

func (c *counting) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	c.docs.Add(1)
	return c.Store.Doc(ctx, k)
}

// Hidden vacants are read too. Without a limit, a visible vacant among many hidden ones in each
// generation would make the host read all of them.
func TestLineageLooksAtSoManyWhoeverIsShown(t *testing.T) {
	home := &counting{Store: memory.New()}
	r := open(home, newClock())
	for n := byte(1); n <= 6; n++ {
		mustPublish(t, r, key(n), draft{})
		if n > 1 {
			must(t, registrytest.AddManifest(t.Context(), r, manifest(t, key(n-1), key(n), false)))
		}
		for i := range 100 {
			child := identity.ID{0xff, n, byte(i)}
			must(t, home.Commit(t.Context(), store.Put{Key: registry.ChildEdgeKey(key(n).ID(), child), WriteID: store.WriteID{1}, Data: []byte{1}}))
		}
	}
	home.docs.Store(0)
	must(t, errorOf(r.Lineage(t.Context(), key(1).ID(), nil, registry.Descendants, registry.MaxDepth)))
	if got := home.docs.Load(); got > registry.MaxLineageIDs+1 {
		t.Errorf("Lineage() read %d documents, want at most %d", got, registry.MaxLineageIDs+1)
	}
}

func TestLineageOfLargeCardsReadsFewer(t *testing.T) {
	home := &counting{Store: memory.New()}
	r := open(home, newClock())
	mustPublish(t, r, key(1), draft{})
	for n := byte(2); n <= 60; n++ {
		mustPublish(t, r, key(n), draft{Text: strings.Repeat("x", 30<<10)})
		must(t, registrytest.AddManifest(t.Context(), r, manifest(t, key(1), key(n), false)))
	}
	home.docs.Store(0)
	got, err := r.Lineage(t.Context(), key(1).ID(), nil, registry.Descendants, 1)
	if err != nil || len(got) == 0 || home.docs.Load() > 33 {
		t.Errorf("Lineage() of 59 cards of 30 KB = %d of them after %d reads, %v; want a few", len(got), home.docs.Load(), err)
	}
}

func TestLineageEndsInACircleAndAtItsBound(t *testing.T) {
	inner := memory.New()
	r := open(inner, newClock())
	for n := byte(1); n <= 3; n++ {
		mustPublish(t, r, key(n), draft{})
		must(t, registrytest.AddManifest(t.Context(), r, manifest(t, key(n), key(n%3+1), false)))
	}
	for _, d := range []registry.Direction{registry.Ancestors, registry.Descendants} {
		got, err := r.Lineage(t.Context(), key(1).ID(), nil, d, registry.MaxDepth)
		if err != nil || len(got) != 2 {
			t.Errorf("Lineage(%s) of a circle of three = %d, %v, want the other two", d, len(got), err)
		}
	}
	// Edges to vacants that are not registered: at most MaxLineageIDs of them are
	// read, and none is shown.
	for i := range registry.MaxLineageIDs + 100 {
		child := identity.ID{byte(i >> 8), byte(i), 9}
		must(t, inner.Commit(t.Context(), store.Put{Key: registry.ChildEdgeKey(key(1).ID(), child), WriteID: store.WriteID{1}, Data: []byte{1}}))
	}
	if _, err := r.Lineage(t.Context(), key(1).ID(), nil, registry.Descendants, registry.MaxDepth); err != nil {
		t.Errorf("Lineage() of a crowd = %v", err)
	}
}

// byID compares ids without their order.
var byID = cmpopts.SortSlices(func(a, b identity.ID) bool { return a.String() < b.String() })

func childrenOf(siblings []registry.ManifestDocument) (ids []identity.ID) {
	for _, m := range siblings {
		ids = append(ids, m.Manifest.ChildID)
	}
	return ids
}

// lagging is a store whose sparse index is still empty.
type lagging struct{ store.Store }

func (l lagging) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	if r.Index {
		return nil, "", nil
	}
	return l.Store.Docs(ctx, r, n, cursor)
}

func TestAChildrenIndexThatIsNotListedYetIsFoundByItsEdges(t *testing.T) {
	inner := memory.New()
	r := open(inner, newClock())
	for n := byte(2); n <= 6; n++ {
		must(t, registrytest.AddManifest(t.Context(), r, manifest(t, key(1), key(n), n != 3)))
	}
	if err := registrytest.AddManifest(t.Context(), r, manifest(t, key(9), key(3), true)); err != nil { // its edge stays
		t.Fatal(err)
	}
	for name, from := range map[string]store.Store{"a host whose index lags": lagging{inner}, "a host as it is": inner} {
		siblings, err := open(from, newClock()).ListChildManifests(t.Context(), key(1).ID(), 9)
		if diff := cmp.Diff(idsOf(2, 4, 5, 6), childrenOf(siblings), byID); diff != "" || err != nil {
			t.Errorf("ListChildManifests() of %s = %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestAChildrenIndexIsTheGraduatedAndThenTheLatest(t *testing.T) {
	inner, c := memory.New(), newClock()
	r := open(inner, c)
	parent := key(1)
	for n := byte(2); n <= 40; n++ {
		must(t, registrytest.AddManifest(t.Context(), r, manifest(t, parent, key(n), n != 10)))
		c.Advance(time.Second)
	}
	must(t, registrytest.AddManifest(t.Context(), r, manifest(t, key(50), key(51), true)))
	// Closed again by another parent: it leaves the children index.
	must(t, registrytest.AddManifest(t.Context(), r, manifest(t, key(50), key(10), true)))
	for name, tt := range map[string]struct {
		of   byte
		n    int
		want []byte
	}{
		"three of many":   {1, 3, []byte{40, 39, 38}},
		"another's":       {50, 9, []byte{10, 51}},
		"who has none":    {40, 9, nil},
		"without the one": {1, 1, []byte{40}},
	} {
		siblings, err := r.ListChildManifests(t.Context(), key(tt.of).ID(), tt.n)
		must(t, err)
		if diff := cmp.Diff(idsOf(tt.want...), childrenOf(siblings)); diff != "" {
			t.Errorf("ListChildManifests() of %s (-want +got):\n%s", name, diff)
		}
	}
}
