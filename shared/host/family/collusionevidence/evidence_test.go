package collusionevidence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/family/collusionevidence"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/callstats"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

func (h *fixture) collect(child, parent identity.ID) gate.Evidence {
	h.Helper()
	e, err := h.collector().Collect(h.Context(), child, parent)
	must(h, err)
	return e
}

// shown contains the parts of an observation that a test compares.
type shown struct {
	Tenant, Family string
	Closed         bool
	Active         float64 // calls in the buckets; -1: missing
	Responses      int
	Style          bool
	Why            map[gate.SignalName]string
}

func show(o *gate.Observation) shown {
	s := shown{o.Tenant, strings.Join(o.Families, " "), o.Closed, -1, o.Responses, o.Style != nil, o.MissingReasons}
	if o.Activity != nil {
		s.Active = 0
	}
	for _, n := range o.Activity {
		s.Active += n
	}
	return s
}

func TestEvidenceIsWhatTheHostHasSeen(t *testing.T) {
	h := newFixture(t)
	parent := h.create("parent", "http:https://FLORID.example:8443/a", "acme")
	child := h.spawn(parent.ID, "D2", "child", "http:https://terse.example/b")
	open := h.spawn(parent.ID, "D3", "open", "echo")
	h.visit("early", parent.ID, 1)
	h.visit("early", open, 1)
	h.time = h.time.Add(8 * 24 * time.Hour)
	h.delegate(parent.ID, child, 60)
	h.delegate(open, child, 3) // a sibling
	h.visit("a", parent.ID, 30)
	h.visit("b", parent.ID, 30)
	h.visit("a", open, 7)
	h.delegate(parent.ID, open, 5)

	e := h.collect(child, parent.ID)
	if len(e.Pairs) != 2 || e.Child != child || e.Parent != parent.ID {
		t.Fatalf("Collect() = %d pairs of %s and %s", len(e.Pairs), e.Child.Short(), e.Parent.Short())
	}
	want := []shown{
		{"acme", "http:terse.example", true, -1, 50, true, map[gate.SignalName]string{gate.Activity: "it was observed for 0 hours, want 168"}},
		{"acme", "http:florid.example", false, 60, 50, true, map[gate.SignalName]string{}},
		{"acme", "echo", false, 7, 12, true, map[gate.SignalName]string{gate.Style: "only 12 responses of the last seven days can be read, expected at least 50"}},
	}
	for i, o := range []*gate.Observation{&e.Pairs[0].Child, &e.Pairs[0].Other, &e.Pairs[1].Other} {
		if diff := cmp.Diff(want[i], show(o)); diff != "" {
			t.Errorf("observation %d (-want +got):\n%s", i, diff)
		}
	}
	for i, role := range []gate.Role{gate.RoleParent, gate.RoleSibling} {
		p := e.Pairs[i]
		if p.Role != role || p.Child.ID != child || p.Other.ID != p.OtherID || p.HasCommonAncestor {
			t.Errorf("pair %d is of %s and %s, a %s", i, p.Child.ID.Short(), p.OtherID.Short(), p.Role)
		}
	}
}

// The default detector distinguishes two generators and recognizes one generator under two names.
func TestSharedSubstrateIsFound(t *testing.T) {
	for name, tt := range map[string]struct {
		child   string
		refused string
	}{
		"another model, another manner": {"http:https://terse.example/b", ""},
		"the parent's model":            {"http:https://florid.example/b", "substrate=1.00"},
		"another model, same manner":    {"http:https://florid.other.example/b", "stylo="},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			parent := h.create("parent", "http:https://florid.example/a", "")
			child := h.spawn(parent.ID, "D2", "child", tt.child)
			h.delegate(parent.ID, child, 50)
			h.visit("a", parent.ID, 50)
			found, err := gate.ObservationDetector{}.Detect(h.collect(child, parent.ID), gate.DefaultPolicy())
			must(t, err)
			err = found.CheckCollusion()
			if tt.refused == "" && err != nil || tt.refused != "" && (!problem.Is(err, problem.CollusionFound) || !strings.Contains(err.Error(), tt.refused)) {
				t.Errorf("Judge() = %v, want %q\n%+v", err, tt.refused, found)
			}
		})
	}
}

func TestMissingEvidenceHasAReason(t *testing.T) {
	const away, gone = "it is not hosted here", "it was deleted"
	h := newFixture(t)
	parent := h.create("parent", "composite", "")
	child := h.spawn(parent.ID, "D2", "child", "echo")
	deleted := h.spawn(parent.ID, "D2", "deleted", "echo")
	h.delegate(parent.ID, deleted, 1)
	for _, end := range h.ends() {
		_, err := end(t.Context(), deleted)
		must(t, err)
	}
	if d, err := h.Doc(t.Context(), callstats.CallsKey(deleted)); err != nil || d.Version > 0 {
		t.Errorf("what was observed of a deleted vacant is at version %d, %v, want it gone", d.Version, err)
	}
	e := h.collect(child, parent.ID)
	want := []shown{
		{"", "echo", true, -1, 0, false, map[gate.SignalName]string{gate.Activity: "it was never observed", gate.Style: "only 0 responses of the last seven days can be read, expected at least 50"}},
		{"", "", false, -1, 0, false, map[gate.SignalName]string{gate.Activity: "it was never observed", gate.Substrate: "its children answer its calls", gate.Style: "it answers in its children's words"}},
		{"", "", true, -1, 0, false, map[gate.SignalName]string{gate.Activity: gone, gate.Substrate: gone, gate.Style: gone}},
	}
	for i, o := range []*gate.Observation{&e.Pairs[0].Child, &e.Pairs[0].Other, &e.Pairs[1].Other} {
		if diff := cmp.Diff(want[i], show(o)); diff != "" {
			t.Errorf("observation %d (-want +got):\n%s", i, diff)
		}
	}
	elsewhere := h.collect(child, identity.ID{7})
	if diff := cmp.Diff(shown{Active: -1, Why: map[gate.SignalName]string{gate.Activity: away, gate.Substrate: away, gate.Style: away}}, show(&elsewhere.Pairs[0].Other)); diff != "" {
		t.Errorf("a parent elsewhere (-want +got):\n%s", diff)
	}
	// Strict mode requires the missing evidence.
	strict := gate.DefaultPolicy()
	strict.Mode = gate.ModeStrict
	found, err := gate.ObservationDetector{}.Detect(e, strict)
	must(t, err)
	if err := found.CheckCollusion(); !problem.Is(err, problem.CollusionFound) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("Judge() in strict mode = %v, want a refusal for what is missing", err)
	}
}

// Evidence that is forged, stale or belongs to another vacant is not used.
func TestOnlyTheVacantsOwnReadableAnswersCount(t *testing.T) {
	for name, tt := range map[string]struct {
		with func(h *fixture, parent, child, other identity.ID)
		want int
	}{
		"as it is":                {func(*fixture, identity.ID, identity.ID, identity.ID) {}, 25},
		"a week later":            {func(h *fixture, _, _, _ identity.ID) { h.time = h.time.Add(collusionevidence.MaxEvidenceAge) }, 0},
		"texts that are gone":     {func(h *fixture, _, _, _ identity.ID) { h.time = h.time.Add(40 * 24 * time.Hour); h.sweep() }, 0},
		"references to elsewhere": {func(h *fixture, _, child, other identity.ID) { h.copyCalls(other, child) }, 20},
		"references to nothing":   {func(h *fixture, _, child, _ identity.ID) { h.forge(child, 1000) }, 20},
		"references that repeat the parent's": {func(h *fixture, parent, child, _ identity.ID) {
			h.refer(child, callstats.Reference{Caller: parent, Position: 1}, callstats.Reference{Caller: parent, Position: 2})
		}, 20},
		"references that are damaged": {func(h *fixture, _, child, _ identity.ID) { h.tear(child) }, 20},
		"another's answers in its stream": {func(h *fixture, parent, child, other identity.ID) {
			h.transplant(call.Pair{Caller: parent, Vacant: other}, call.Pair{Caller: parent, Vacant: child})
		}, 25},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			parent := h.create("parent", "echo", "")
			child, other := h.spawn(parent.ID, "D3", "child", "echo"), h.spawn(parent.ID, "D3", "other", "echo")
			h.delegate(parent.ID, child, 20)
			h.visit("a", child, 5)
			h.delegate(parent.ID, other, 30)
			h.visit("b", other, 30)
			tt.with(h, parent.ID, child, other)
			if got := h.collect(child, parent.ID).Pairs[0].Child.Responses; got != tt.want {
				t.Errorf("%d responses count, want %d", got, tt.want)
			}
		})
	}
}

// ends contains the transitions that end a vacant.
func (h *fixture) ends() []func(context.Context, identity.ID) (vacants.Record, error) {
	return []func(context.Context, identity.ID) (vacants.Record, error){h.vacants.Sink, h.vacants.Archive, h.vacants.Delete}
}

func (h *fixture) sweep() {
	if err := h.texts.Warm(h.Context()); err != nil {
		h.Fatal(err)
	}
	_, err := h.texts.Sweep(h.Context())
	must(h, err)
}

// put replaces the observations of id.
func (h *fixture) put(id identity.ID, data []byte) {
	d, err := h.Doc(h.Context(), callstats.CallsKey(id))
	must(h, err)
	must(h, h.Commit(h.Context(), store.Put{Key: callstats.CallsKey(id), IfVersion: d.Version, WriteID: store.WriteID{9}, Data: data}))
}

func (h *fixture) tear(id identity.ID) { h.put(id, []byte("torn")) }

func (h *fixture) copyCalls(from, to identity.ID) {
	d, err := h.Doc(h.Context(), callstats.CallsKey(from))
	must(h, err)
	h.put(to, d.Data)
}

// refer makes the observations of id contain refs. It passes them to an observer.
func (h *fixture) refer(id identity.ID, refs ...callstats.Reference) {
	d, err := h.Doc(h.Context(), callstats.CallsKey(id))
	must(h, err)
	must(h, h.Commit(h.Context(), store.Delete{Key: callstats.CallsKey(id), IfVersion: d.Version}))
	for i, r := range refs {
		watch := callstats.New(callstats.Config{Store: h.Store, Manifests: h.registry, Now: h.now, Rand: strings.NewReader(strings.Repeat(string(rune('a'+i)), 16))})
		watch.Observe(h.Context(), call.Observation{Pair: call.Pair{Caller: r.Caller, Vacant: id}, Position: r.Position, Time: h.time})
	}
}

func (h *fixture) forge(id identity.ID, n uint64) {
	var refs []callstats.Reference
	for i := range uint64(20) {
		refs = append(refs, callstats.Reference{Caller: identity.ID{byte(i)}, Position: n + i})
	}
	h.refer(id, refs...)
}

// transplant appends the rows of one pair's responses to another pair's stream.
func (h *fixture) transplant(from, to call.Pair) {
	rows, err := h.Store.Rows(h.Context(), from.Responses(), 1, 20, store.Ascending)
	must(h, err)
	tip, err := h.Tip(h.Context(), to.Responses())
	must(h, err)
	for i, r := range rows {
		must(h, h.Commit(h.Context(), store.Append{Stream: to.Responses(), Position: tip.Position + 1 + uint64(i), WriteID: r.WriteID, Data: r.Data}))
	}
}

func TestSiblingsAreTheGraduatedAndThenTheLatestAndReadsAreBounded(t *testing.T) {
	h := newFixture(t)
	parent := h.create("parent", "echo", "")
	child := h.spawn(parent.ID, "D2", "child", "echo")
	var siblings []identity.ID
	for i := range 20 {
		siblings = append(siblings, h.spawn(parent.ID, "D2", fmt.Sprintf("s%d", i), "echo"))
	}
	for _, i := range []int{5, 3} {
		h.time = h.time.Add(time.Minute)
		h.graduate(parent.ID, siblings[i])
	}
	for i := range 12 {
		h.visit(fmt.Sprint(i), siblings[3], 1)
		h.visit(fmt.Sprint(i), parent.ID, 1)
	}
	e := h.collect(child, parent.ID)
	want := []identity.ID{parent.ID, siblings[3], siblings[5]}
	for i := 19; len(want) < 1+collusionevidence.MaxSiblings; i-- {
		want = append(want, siblings[i])
	}
	var got []identity.ID
	for _, p := range e.Pairs {
		got = append(got, p.OtherID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Collect() compares with (-want +got):\n%s", diff)
	}
	// The reads are one page of the parent's nine children and two pages of eight of the twelve
	// callers.
	if reads, most := h.reads.Load(), int64((1+collusionevidence.MaxSiblings)+2*collusionevidence.MaxCallers); reads > most {
		t.Errorf("Collect() read %d pages of rows, want at most %d", reads, most)
	}
}

// signs is a registry whose registrations have a signed owner.
type signs struct {
	*registry.Registry
	source string
}

func (s signs) GetMany(ctx context.Context, ids []identity.ID) ([]registry.Registration, error) {
	all, err := s.Registry.GetMany(ctx, ids)
	for i := range all {
		all[i].Listing, all[i].ListingSource = &listing.Listing{Owner: "acme"}, s.source
	}
	return all, err
}

func TestOnlyAListingThatIsSignedNamesAnOwner(t *testing.T) {
	h := newFixture(t)
	parent := h.create("parent", "echo", "")
	child := h.spawn(parent.ID, "D2", "child", "echo")
	for source, want := range map[string]string{registry.SourceSigned: "acme", registry.SourceOperator: "", "": ""} {
		c := h.collector()
		c.Registry = signs{h.registry, source}
		e, err := c.Collect(t.Context(), child, parent.ID)
		must(t, err)
		if a, b := e.Pairs[0].Child.Owner, e.Pairs[0].Other.Owner; a != want || b != want {
			t.Errorf("a listing of source %q: owners %q and %q, want %q", source, a, b, want)
		}
	}
}

// faulty is a store with chosen faults.
type faulty struct {
	store.Store
	rows, docs bool
}

func (f faulty) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	if f.rows {
		return nil, store.NotAppliedError(errors.New("away"))
	}
	return f.Store.Rows(ctx, s, from, n, d)
}

func (f faulty) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	if f.docs {
		return store.Doc{}, store.NotAppliedError(errors.New("away"))
	}
	return f.Store.Doc(ctx, k)
}

// shut is a vault that opens no boxes.
type shut struct{ err error }

func (s shut) Open(context.Context, []byte, textkeys.Sealed) ([]byte, error) { return nil, s.err }

func TestAStorageOutOfReachIsNoEvidence(t *testing.T) {
	h := newFixture(t)
	parent := h.create("parent", "echo", "")
	child := h.spawn(parent.ID, "D2", "child", "echo")
	h.delegate(parent.ID, child, 2)
	for name, change := range map[string]func(*collusionevidence.Collector){
		"rows":         func(c *collusionevidence.Collector) { c.Store = faulty{Store: h.Store, rows: true} },
		"documents":    func(c *collusionevidence.Collector) { c.Store = faulty{Store: h.Store, docs: true} },
		"keys":         func(c *collusionevidence.Collector) { c.Texts = shut{store.NotAppliedError(errors.New("away"))} },
		"a key's seal": func(c *collusionevidence.Collector) { c.Texts = shut{problem.New(problem.Unavailable, "away")} },
	} {
		c := h.collector()
		change(c)
		if _, err := c.Collect(t.Context(), child, parent.ID); !problem.Is(err, problem.Unavailable) {
			t.Errorf("Collect() without %s = %v, want unavailable", name, err)
		}
	}
	for _, gone := range []error{textkeys.ErrDestroyed, textkeys.ErrNoKey, textkeys.ErrDamaged, textkeys.ErrKeyDamaged} {
		c := h.collector()
		c.Texts = shut{gone}
		e, err := c.Collect(t.Context(), child, parent.ID)
		if err != nil || e.Pairs[0].Child.Responses != 0 {
			t.Errorf("Collect() where %v = %d responses, %v, want none", gone, e.Pairs[0].Child.Responses, err)
		}
	}
}
