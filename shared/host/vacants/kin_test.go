package vacants_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// kid is the child that the command "spawn" makes.
func kid(ctx context.Context, v *vacants.Directory) (vacants.Record, error) {
	return v.GetByName(ctx, vacants.OperatorAsker(), "kid")
}

// request is a graduation request of hosted vacants, signed by both.
func request(ctx context.Context, v *vacants.Directory, parent, child identity.ID, text string) (composite.GraduationRequest, error) {
	r := composite.GraduationRequest{ParentID: parent, ChildID: child, CapabilityText: text}
	if err := v.WithSigner(ctx, parent, func(s identity.Signer) error { return r.SignParent(ctx, s) }); err != nil {
		return r, err
	}
	return r, v.WithSigner(ctx, child, func(s identity.Signer) error { return r.SignChild(ctx, s) })
}

// graduate plans a graduation and commits it, like the gate.
func graduate(ctx context.Context, v *vacants.Directory, g vacants.Graduation) (made vacants.GraduationResult, err error) {
	done, err := v.LockGraduation(ctx, g.Request.ParentID, g.Request.ChildID)
	if err != nil {
		return made, err
	}
	defer done()
	err = store.Updater{Store: v.Store, Rand: v.Rand, Wait: v.Wait}.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		made, err = v.AddGraduation(ctx, tx, g)
		return err
	})
	return made, err
}

func graduateKid(ctx context.Context, v *vacants.Directory, parent identity.ID) (vacants.Record, error) {
	child, err := kid(ctx, v)
	if err != nil {
		return child, err
	}
	r, err := request(ctx, v, parent, child.ID, "reviews contracts")
	if err != nil {
		return child, err
	}
	if _, err := graduate(ctx, v, vacants.Graduation{Request: r, EventTime: v.Now()}); err != nil && !problem.Is(err, problem.AlreadyGraduated) {
		if errors.Is(err, store.ErrUnavailable) {
			err = problem.Wrap(problem.Unavailable, err, "")
		}
		return child, err
	}
	return v.Get(ctx, vacants.OperatorAsker(), child.ID)
}

func delegateToKid(ctx context.Context, v *vacants.Directory, parent identity.ID) (vacants.Record, error) {
	child, err := kid(ctx, v)
	if err != nil {
		return child, err
	}
	d := logbook.Delegation{Parent: parent, Child: child.ID, SubtaskKind: "review"}
	return child, v.AppendEntries(ctx, vacants.LogEntry{ID: parent, Kind: logbook.KindDelegate, Payload: d.DelegatePayload()},
		vacants.LogEntry{ID: child.ID, Kind: logbook.KindExecute, Payload: d.ExecutePayload()})
}

// elsewhere is the key of a parent that no host of the tests has.
func elsewhere() *identity.Key {
	k, err := identity.KeyFromSeed([]byte(strings.Repeat("e", identity.Size)))
	if err != nil {
		panic(err)
	}
	return k
}

// closing returns an unsigned manifest of a closed child.
func closing(parent, child identity.ID, schema composite.SchemaVersion) composite.Manifest {
	return composite.Manifest{ParentID: parent, ChildID: child, BirthPath: "D2", ClosedByDefault: true,
		Reachability: composite.ParentOnly, OutboundPolicy: composite.NoExternal, SchemaVersion: schema}
}

// manifestOf is a closed manifest of a hosted child.
func manifestOf(ctx context.Context, v *vacants.Directory, parent *identity.Key, child identity.ID) (composite.Manifest, error) {
	m := closing(parent.ID(), child, composite.SchemaV2)
	if err := m.SignParent(ctx, parent); err != nil {
		return m, err
	}
	return m, v.WithSigner(ctx, child, func(s identity.Signer) error { return m.SignChild(ctx, s) })
}

func importVacant(ctx context.Context, v *vacants.Directory, id identity.ID) (vacants.Record, error) {
	m, err := manifestOf(ctx, v, elsewhere(), id)
	if err != nil {
		return vacants.Record{}, err
	}
	if err := v.StoreManifest(ctx, m); err != nil {
		return vacants.Record{}, err
	}
	return v.Get(ctx, vacants.OperatorAsker(), id)
}

// family is a host with a vacant named demo and its closed child.
func family(t testing.TB, v *vacants.Directory) (parent, child vacants.Record) {
	t.Helper()
	parent = create(t, v, "demo")
	child, _, err := v.Spawn(t.Context(), vacants.SpawnSpec{Parent: parent.ID, Path: "D2", Name: "kid"})
	must(t, err)
	return parent, child
}

// axes are the reach and outbound policies in a record and a manifest.
type axes struct {
	State             lifecycle.State
	Closed            bool
	Reach             composite.Reachability
	Outbound          composite.OutboundPolicy
	Tools             []string
	Birth, Spawn      string
	Capability, Means string
}

func TestEachBirthPathMakesItsChild(t *testing.T) {
	s := memory.New()
	v := host(t, s, vault(t), newClock().now, hostURL)
	v.Resources.Substrates["http"] = func(string) (substrate.Substrate, error) { return echo.New("") }
	parent, other := create(t, v, "demo"), create(t, v, "other")
	const said = "says what it hears"
	for name, c := range map[string]struct {
		spec vacants.SpawnSpec
		want axes
	}{
		"D1": {vacants.SpawnSpec{Path: "D1", Rule: "cite sources"}, axes{lifecycle.Active, false, composite.PublicA2A, composite.Unrestricted, nil,
			`{"parent_id":"PARENT","path":"D1","policy_mutation":"cite sources"}`, `{"child_id":"CHILD","path":"D1"}`, said, "echo"}},
		"D2": {vacants.SpawnSpec{Path: "D2", Tools: []string{"search"}}, axes{lifecycle.Local, true, composite.ParentOnly, composite.NoExternal, []string{"search"},
			`{"narrowed_tools":["search"],"parent_id":"PARENT","path":"D2"}`, `{"child_id":"CHILD","closed_child":true,"path":"D2"}`, said, "echo"}},
		"D2 with a URL": {vacants.SpawnSpec{Path: "D2", Substrate: "http:https://model.example/a"}, axes{lifecycle.Local, true, composite.ParentOnly, composite.ParentPermitted,
			[]string{"https://model.example/a"}, `{"narrowed_tools":["https://model.example/a"],"parent_id":"PARENT","path":"D2"}`,
			`{"child_id":"CHILD","closed_child":true,"path":"D2"}`, said, "http:https://model.example/a"}},
		"D2 as it is told": {vacants.SpawnSpec{Path: "D2", Reachability: composite.ParentBridged, OutboundPolicy: composite.Unrestricted, Capability: "reviews"},
			axes{lifecycle.Local, true, composite.ParentBridged, composite.Unrestricted, nil, `{"narrowed_tools":[],"parent_id":"PARENT","path":"D2"}`,
				`{"child_id":"CHILD","closed_child":true,"path":"D2"}`, "reviews", "echo"}},
		"D3": {vacants.SpawnSpec{Path: "D3", Capability: "reviews contracts", Tools: []string{"search"}}, axes{lifecycle.Active, false, composite.PublicA2A, composite.Unrestricted,
			[]string{"search"}, `{"new_capability_text":"reviews contracts","parent_id":"PARENT","path":"D3"}`, `{"child_id":"CHILD","path":"D3"}`, "reviews contracts", "echo"}},
		"D4": {vacants.SpawnSpec{Path: "D4", SecondParent: &other.ID}, axes{lifecycle.Active, false, composite.PublicA2A, composite.Unrestricted, nil,
			``, `{"child_id":"CHILD","path":"D4","secondary_parent_id":"OTHER"}`, said, "echo"}},
		"D5": {vacants.SpawnSpec{Path: "D5", Substrate: "https://model.example/b", OutboundPolicy: composite.NoExternal}, axes{lifecycle.Active, false, composite.PublicA2A, composite.NoExternal, nil,
			`{"new_substrates":["http:https://model.example/b"],"old_substrates":["echo"],"parent_id":"PARENT","path":"D5"}`,
			`{"child_id":"CHILD","path":"D5"}`, said, "http:https://model.example/b"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.spec.Parent, c.spec.Name = parent.ID, strings.ReplaceAll(name, " ", "-")
			r, m, err := v.Spawn(t.Context(), c.spec)
			must(t, err)
			if err := m.Verify(); err != nil || m.ChildID != r.ID || m.ParentID != parent.ID || m.SchemaVersion != composite.SchemaV2 {
				t.Errorf("its manifest = %+v, %v", m, err)
			}
			words := strings.NewReplacer(parent.ID.String(), "PARENT", r.ID.String(), "CHILD", other.ID.String(), "OTHER")
			birthEntry, above := log(t, v, r.ID), log(t, v, parent.ID)
			if last := above[len(above)-1]; len(birthEntry) != 1 || birthEntry[0].Kind != logbook.KindBirth || last.Kind != logbook.KindSpawn {
				t.Fatalf("its logbook is %v, its parent's ends in %s", birthEntry, last.Kind)
			}
			got := axes{r.State, m.ClosedByDefault, m.Reachability, m.OutboundPolicy, m.Tools(), words.Replace(string(birthEntry[0].Payload)),
				words.Replace(string(above[len(above)-1].Payload)), r.Capability, r.Substrate}
			if name == "D4" {
				wantConsent(t, parent.ID, r.ID, other.ID, birthEntry[0].Payload)
				got.Birth = ""
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the child (-want +got):\n%s", diff)
			}
			if _, registered, err := v.Registry.Get(t.Context(), r.ID); registered || err != nil {
				t.Errorf("it is registered: %t, %v, want that it waits for its publish", registered, err)
			}
			again, _, err := v.Spawn(t.Context(), c.spec)
			if err != nil || again.ID != r.ID {
				t.Errorf("Spawn() again = %v, %v, want the same child", again, err)
			}
		})
	}
	wantWhole(t, s, v, identity.ID{})
	children, next, err := v.Children(t.Context(), vacants.OperatorAsker(), parent.ID, "", vacants.MaxPage)
	if len(children) != 7 || next != "" || err != nil {
		t.Errorf("Children() = %v, %q, %v, want all 7", children, next, err)
	}
}

// wantConsent checks that the second parent has consented to this very child.
func wantConsent(t *testing.T, parent, child, other identity.ID, payload []byte) {
	t.Helper()
	b, err := logbook.ParseBirth(payload)
	must(t, err)
	c := composite.Consent{ParentID: parent, SecondParentID: *b.SecondParent, ChildID: child, Nonce: b.ConsentNonce, ReferenceSignature: b.ReferenceConsent, Signature: b.ChildConsent}
	if err := c.Verify(); err != nil || c.SecondParentID != other {
		t.Errorf("the consent is that of %s, %v, want that of %s", c.SecondParentID.Short(), err, other.Short())
	}
}

func TestSpawnRefusals(t *testing.T) {
	v := fresh(t)
	parent := create(t, v, "demo")
	must(t, errorOf2(v.Spawn(t.Context(), vacants.SpawnSpec{Parent: parent.ID, Path: "D2", Name: "kid", Tools: []string{"a", "b"}})))
	child, err := kid(t.Context(), v)
	must(t, err)
	asleep, revoked := create(t, v, "asleep"), create(t, v, "revoked")
	for _, err := range []error{errorOf(v.Pause(t.Context(), asleep.ID)), errorOf2(v.Revoke(t.Context(), revoked.ID, "lost"))} {
		must(t, err)
	}
	planner, err := v.Create(t.Context(), vacants.CreateSpec{Name: "planner", Capability: "plans", Substrate: plan.Kind})
	must(t, err)
	for name, c := range map[string]struct {
		spec vacants.SpawnSpec
		want problem.Kind
		says string
	}{
		"as its parent, who has a plan": {vacants.SpawnSpec{Path: "D2", Parent: planner.ID}, problem.Malformed, "substrate"},
		"no path":                       {vacants.SpawnSpec{Path: "A"}, problem.Malformed, "path"},
		"no name":                       {vacants.SpawnSpec{Path: "D2", Name: "-/-"}, problem.Malformed, "name"},
		"a name that is taken":          {vacants.SpawnSpec{Path: "D2", Name: "asleep"}, problem.Conflict, "in use or reserved"},
		"another child of the name":     {vacants.SpawnSpec{Path: "D2", Name: "kid", Tools: []string{"c"}}, problem.Conflict, "in use or reserved"},
		"a child of fewer tools":        {vacants.SpawnSpec{Path: "D2", Name: "kid", Tools: []string{"a"}}, problem.Conflict, "in use or reserved"},
		"D1 without a rule":             {vacants.SpawnSpec{Path: "D1"}, problem.Malformed, "rule"},
		"D2 with a rule":                {vacants.SpawnSpec{Path: "D2", Rule: "be kind"}, problem.Malformed, "rule"},
		"D2 that is public":             {vacants.SpawnSpec{Path: "D2", Reachability: composite.PublicA2A}, problem.Malformed, "endpoint_reachability"},
		"a reach of its own":            {vacants.SpawnSpec{Path: "D2", Reachability: "all"}, problem.Malformed, "endpoint_reachability"},
		"a policy of its own":           {vacants.SpawnSpec{Path: "D2", OutboundPolicy: "all"}, problem.Malformed, "outbound_policy"},
		"D3 without a capability":       {vacants.SpawnSpec{Path: "D3"}, problem.Malformed, "capability"},
		"D3 with the same capability":   {vacants.SpawnSpec{Path: "D3", Capability: "says what it hears"}, problem.Malformed, "capability"},
		"D4 with nobody":                {vacants.SpawnSpec{Path: "D4"}, problem.Malformed, "with"},
		"D4 with itself":                {vacants.SpawnSpec{Path: "D4", SecondParent: &parent.ID}, problem.Malformed, "with"},
		"D4 with who is not here":       {vacants.SpawnSpec{Path: "D4", SecondParent: &identity.ID{1}}, problem.NotFound, "not hosted"},
		"D4 with who is asleep":         {vacants.SpawnSpec{Path: "D4", SecondParent: &asleep.ID}, problem.Conflict, "HIBERNATING"},
		"D5 without a substrate":        {vacants.SpawnSpec{Path: "D5"}, problem.Malformed, "substrate"},
		"D5 with the same substrate":    {vacants.SpawnSpec{Path: "D5", Substrate: "echo"}, problem.Malformed, "substrate"},
		"a substrate that is not here":  {vacants.SpawnSpec{Path: "D2", Substrate: "oracle"}, problem.Malformed, "substrate"},
		"a tenant of its own":           {vacants.SpawnSpec{Path: "D2", Tenant: "a b"}, problem.Malformed, "tenant"},
		"of a parent elsewhere":         {vacants.SpawnSpec{Path: "D2", Parent: identity.ID{1}}, problem.NotFound, "not hosted"},
		"of a parent that is asleep":    {vacants.SpawnSpec{Path: "D2", Parent: asleep.ID}, problem.Conflict, "HIBERNATING"},
		"of a parent that is revoked":   {vacants.SpawnSpec{Path: "D2", Parent: revoked.ID}, problem.Conflict, "SUNK"},
		"an open child of a closed one": {vacants.SpawnSpec{Path: "D1", Rule: "be kind", Parent: child.ID}, problem.Forbidden, "closed"},
		"more tools than the parent's":  {vacants.SpawnSpec{Path: "D2", Tools: []string{"a", "c"}, Parent: child.ID}, problem.Forbidden, `"c"`},
		"more freedom than the parent's": {vacants.SpawnSpec{Path: "D2", OutboundPolicy: composite.Unrestricted, Parent: child.ID}, problem.Forbidden,
			"outbound_policy"},
	} {
		if c.spec.Parent.IsZero() {
			c.spec.Parent = parent.ID
		}
		if c.spec.Name == "" {
			c.spec.Name = "newborn"
		}
		r, _, err := v.Spawn(t.Context(), c.spec)
		if !problem.Is(err, c.want) || !strings.Contains(problem.AsError(err).Text(), c.says) {
			t.Errorf("%s: Spawn() = %v, %v, want %v that speaks of %s", name, r, err, c.want, c.says)
		}
	}
	if _, err := v.GetByName(t.Context(), vacants.OperatorAsker(), "newborn"); !problem.Is(err, problem.NotFound) {
		t.Errorf("GetByName() of what was refused = %v, want not found", err)
	}
	grand, m, err := v.Spawn(t.Context(), vacants.SpawnSpec{Parent: child.ID, Path: "D2", Name: "grandkid", Tools: []string{"b"}})
	if err != nil || !grand.Closed || cmp.Diff([]string{"b"}, m.Tools()) != "" || cmp.Diff([]string{"a"}, m.RemovedTools) != "" {
		t.Errorf("Spawn() of a closed child's = %v with %v, without %v, %v", grand, m.Tools(), m.RemovedTools, err)
	}
}

func TestAVacantThatGraduatesIsPublicWithItsKeyItsLogAndItsChains(t *testing.T) {
	s := memory.New()
	v := host(t, s, vault(t), newClock().now, hostURL)
	parent, child := family(t, v)
	r, err := request(t.Context(), v, parent.ID, child.ID, "reviews contracts")
	must(t, err)
	made, err := graduate(t.Context(), v, vacants.Graduation{Request: r, EventTime: v.Now()})
	must(t, err)
	before, after := child, get(t, v, child.ID)
	if after.ID != before.ID || after.State != lifecycle.Active || after.Closed || after.Capability != "reviews contracts" ||
		after.Reachability != composite.PublicA2A || after.OutboundPolicy != before.OutboundPolicy || *after.Parent != parent.ID {
		t.Errorf("the child is %s, closed %t, %q, %s, %s", after.State, after.Closed, after.Capability, after.Reachability, after.OutboundPolicy)
	}
	g, ok, err := v.Registry.Get(t.Context(), child.ID)
	if err != nil || !ok || !g.IsListed() || g.Closed || !g.ParentProven || g.CardHash != made.Card.Hash() || g.LastSeq != made.Receipt.Seq {
		t.Errorf("it is registered: %t, %v, %+v", ok, err, g)
	}
	if !strings.HasPrefix(made.Card.Endpoint, hostURL+"/v/"+child.ID.String()) || !made.Card.Verify() {
		t.Errorf("its card names the endpoint %q", made.Card.Endpoint)
	}
	m, _, err := v.Manifest(t.Context(), child.ID)
	if err != nil || !m.Graduated || m.IsClosed() || m.PreviousManifest == nil || m.PreviousManifest.CheckGraduation(&m.Manifest) != nil {
		t.Errorf("its manifest is %+v, %v", m, err)
	}
	want := "COMPOSITE_GRADUATED " + string(logbook.Graduation{Parent: parent.ID, Child: child.ID, Capability: "reviews contracts"}.Payload())
	for _, id := range []identity.ID{parent.ID, child.ID} {
		if lines := story(t, v, id); lines[len(lines)-1] != want {
			t.Errorf("a logbook ends in %s, want %s", lines[len(lines)-1], want)
		}
	}
	wantWhole(t, s, v, identity.ID{})
	_, err = graduate(t.Context(), v, vacants.Graduation{Request: r, EventTime: v.Now()})
	wantKind(t, "graduating again", err, problem.AlreadyGraduated)
	// The closed manifest, sent again, closes nothing.
	if err := v.StoreManifest(t.Context(), *m.PreviousManifest); err != nil {
		t.Errorf("TakeManifest() of the one before = %v, want nothing", err)
	}
	if _, _, err := v.Publish(t.Context(), child.ID, vacants.PublishOptions{Capability: pointer("reviews more")}); err != nil {
		t.Errorf("Publish() afterwards = %v", err)
	}
	wantWhole(t, s, v, identity.ID{})
}

func TestOncePublicChildGraduatesWithItsLogbook(t *testing.T) {
	s := memory.New()
	v := host(t, s, vault(t), newClock().now, hostURL)
	parent, child := create(t, v, "demo"), create(t, v, "child")
	do(t, v, child.ID, "publish")
	closed := closing(parent.ID, child.ID, composite.SchemaV2)
	opened := closed
	opened.ClosedByDefault = false
	sign := func(id identity.ID, with func(context.Context, identity.Signer) error) {
		must(t, v.WithSigner(t.Context(), id, func(s identity.Signer) error { return with(t.Context(), s) }))
	}
	sign(parent.ID, opened.SignParent)
	sign(child.ID, opened.SignChild)
	sign(parent.ID, closed.SignParent)
	sign(child.ID, closed.SignChild)
	for _, m := range []composite.Manifest{opened, closed} {
		must(t, v.StoreManifest(t.Context(), m))
		wantWhole(t, s, v, identity.ID{})
	}
	if r := get(t, v, parent.ID); !r.HasKin {
		t.Error("the parent has no kin")
	}
	must(t, errorOf(graduate(t.Context(), v, vacants.Graduation{Request: signedBy(t, v, parent.ID, child.ID), EventTime: v.Now()})))
	wantWhole(t, s, v, identity.ID{})
	m, _, err := v.Manifest(t.Context(), child.ID)
	if err != nil || m.ManifestBeforePrevious == nil || m.ManifestBeforePrevious.Hash() != opened.Hash() || m.BirthManifest().Hash() != closed.Hash() {
		t.Errorf("its manifests are %+v, %v", m, err)
	}
	if g, _, err := v.Registry.Get(t.Context(), child.ID); err != nil || g.ActorSeq != 2 || !g.IsListed() {
		t.Errorf("it is registered by its event %d, listed %t, %v", g.ActorSeq, g.IsListed(), err)
	}
	wantKind(t, "TakeManifest() of the first", v.StoreManifest(t.Context(), opened), problem.Conflict)
}

func TestGraduateRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *vacants.Directory, *vacants.Graduation)
		want   problem.Kind
	}{
		"a forged request": {func(_ *testing.T, _ *vacants.Directory, g *vacants.Graduation) { g.Request.CapabilityText = "anything" }, problem.ConsentRequired},
		"a child of nobody": {func(t *testing.T, v *vacants.Directory, g *vacants.Graduation) {
			g.Request = signedBy(t, v, g.Request.ParentID, create(t, v, "nobody").ID)
		}, problem.NotFound},
		"another's child": {func(t *testing.T, v *vacants.Directory, g *vacants.Graduation) {
			g.Request = signedBy(t, v, create(t, v, "another").ID, g.Request.ChildID)
		}, problem.ConsentRequired},
		"a child that is asleep": {func(t *testing.T, v *vacants.Directory, g *vacants.Graduation) {
			do(t, v, g.Request.ChildID, "pause")
		}, problem.Conflict},
		"a child that is revoked": {func(t *testing.T, v *vacants.Directory, g *vacants.Graduation) {
			must(t, errorOf2(v.Revoke(t.Context(), g.Request.ChildID, "lost")))
		}, problem.Revoked},
		"a parent that is revoked": {func(t *testing.T, v *vacants.Directory, g *vacants.Graduation) {
			must(t, errorOf2(v.Revoke(t.Context(), g.Request.ParentID, "lost")))
		}, problem.Revoked},
		"a parent that is closed": {func(t *testing.T, v *vacants.Directory, g *vacants.Graduation) {
			do(t, v, g.Request.ParentID, "sink")
		}, problem.Conflict},
		"a closed child's own child": {func(t *testing.T, v *vacants.Directory, g *vacants.Graduation) {
			r, _, err := v.Spawn(t.Context(), vacants.SpawnSpec{Parent: g.Request.ChildID, Path: "D2", Name: "grandkid"})
			must(t, err)
			g.Request = signedBy(t, v, g.Request.ChildID, r.ID)
		}, problem.Conflict},
		"words of nothing": {func(t *testing.T, v *vacants.Directory, g *vacants.Graduation) {
			g.Request.CapabilityText = " "
			must(t, v.WithSigner(t.Context(), g.Request.ParentID, func(s identity.Signer) error { return g.Request.SignParent(t.Context(), s) }))
			must(t, v.WithSigner(t.Context(), g.Request.ChildID, func(s identity.Signer) error { return g.Request.SignChild(t.Context(), s) }))
		}, problem.Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			s := memory.New()
			v := host(t, s, vault(t), newClock().now, hostURL)
			parent, child := family(t, v)
			g := vacants.Graduation{Request: signedBy(t, v, parent.ID, child.ID), EventTime: v.Now()}
			c.change(t, v, &g)
			lines := len(log(t, v, child.ID))
			_, err := graduate(t.Context(), v, g)
			wantKind(t, "graduating", err, c.want)
			if r := get(t, v, child.ID); !r.Closed || len(log(t, v, child.ID)) != lines {
				t.Errorf("it is open: %t, with %d more entries", !r.Closed, len(log(t, v, child.ID))-lines)
			}
			wantWhole(t, s, v, identity.ID{})
		})
	}
}

func signedBy(t testing.TB, v *vacants.Directory, parent, child identity.ID) composite.GraduationRequest {
	t.Helper()
	r, err := request(t.Context(), v, parent, child, "reviews contracts")
	must(t, err)
	return r
}

func TestFiveDelegationsAtOnceLeaveTwoLogbooksThatVerify(t *testing.T) {
	s, va := memory.New(), vault(t)
	v := host(t, s, va, newClock().now, hostURL)
	parent, child := family(t, v)
	var wg sync.WaitGroup
	for range 5 {
		other := host(t, s, va, newClock().now, hostURL)
		wg.Go(func() {
			for i := range 10 {
				if _, err := delegateToKid(context.Background(), []*vacants.Directory{v, other}[i%2], parent.ID); err != nil {
					t.Errorf("AppendEntries() = %v", err)
				}
			}
		})
	}
	wg.Wait()
	if a, b := len(log(t, v, parent.ID)), len(log(t, v, child.ID)); a != 52 || b != 51 {
		t.Errorf("the logbooks have %d and %d entries, want 52 and 51", a, b)
	}
	wantWhole(t, s, v, identity.ID{})
}

func TestCommandsGetTheirPlaceInABusyLogbook(t *testing.T) {
	s, va := memory.New(), vault(t)
	v := host(t, s, va, newClock().now, hostURL)
	parent, _ := family(t, v)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		other := host(t, s, va, newClock().now, hostURL)
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = delegateToKid(ctx, other, parent.ID)
			}
		})
	}
	for _, command := range []string{"publish", "pause", "resume", "change", "revoke"} {
		if _, err := run(v, command)(t.Context(), parent.ID); err != nil {
			t.Errorf("%s = %v", command, err)
		}
	}
	cancel()
	wg.Wait()
	wantWhole(t, s, v, identity.ID{})
}

func TestOfManyWhoSpawnOneChildAllGetTheSame(t *testing.T) {
	s, va := memory.New(), vault(t)
	v := host(t, s, va, newClock().now, hostURL)
	parent := create(t, v, "demo")
	var wg sync.WaitGroup
	got := make([]identity.ID, 8)
	for i := range got {
		other := host(t, s, va, newClock().now, hostURL)
		wg.Go(func() {
			r, m, err := other.Spawn(context.Background(), vacants.SpawnSpec{Parent: parent.ID, Path: "D2", Name: "kid"})
			if got[i] = r.ID; err != nil || m.ChildID != r.ID {
				t.Errorf("Spawn() = %v, %v", r, err)
			}
		})
	}
	wg.Wait()
	if len(slices.Compact(got)) != 1 || len(log(t, v, parent.ID)) != 2 {
		t.Errorf("%d children were born, of which the parent tells in %d entries", len(slices.Compact(got)), len(log(t, v, parent.ID))-1)
	}
	wantWhole(t, s, v, identity.ID{})
}

func TestDeletionIsTheLastEntry(t *testing.T) {
	v := fresh(t)
	id := create(t, v, "demo").ID
	do(t, v, id, "sink", "archive", "delete")
	err := v.AppendEntries(t.Context(), vacants.LogEntry{ID: id, Kind: logbook.KindAggregate, Payload: logbook.Aggregation{}.Payload()}, vacants.LogEntry{})
	wantKind(t, "AppendEntries()", err, problem.Gone)
	wantKind(t, "Sign()", v.WithSigner(t.Context(), id, func(identity.Signer) error { return nil }), problem.Gone)
	wantKind(t, "Sign() of nobody", v.WithSigner(t.Context(), identity.ID{1}, func(identity.Signer) error { return nil }), problem.NotFound)
}

func TestAClosedChildFindsNoWayAroundTheGate(t *testing.T) {
	s, va := memory.New(), vault(t)
	v := host(t, s, va, newClock().now, hostURL)
	_, child := family(t, v)
	for _, as := range []*lifecycle.Visibility{nil, pointer(lifecycle.Public), pointer(lifecycle.Restricted)} {
		_, _, err := v.Publish(t.Context(), child.ID, vacants.PublishOptions{Visibility: as})
		wantKind(t, "Publish() of a closed child", err, problem.Forbidden)
	}
	must(t, errorOf2(v.Publish(t.Context(), child.ID, vacants.PublishOptions{Visibility: pointer(lifecycle.Hidden)})))
	do(t, v, child.ID, "pause", "resume")
	_, _, err := v.Publish(t.Context(), child.ID, vacants.PublishOptions{Capability: pointer("is public")})
	wantKind(t, "Publish() of another card", err, problem.Forbidden)
	// The child's own second parent signs a manifest that opens it.
	m, err := manifestOf(t.Context(), v, elsewhere(), child.ID)
	must(t, err)
	m.ClosedByDefault, m.Reachability = false, composite.PublicA2A
	must(t, m.SignParent(t.Context(), elsewhere()))
	must(t, v.WithSigner(t.Context(), child.ID, func(s identity.Signer) error { return m.SignChild(t.Context(), s) }))
	wantKind(t, "TakeManifest() that opens it", v.StoreManifest(t.Context(), m), problem.Conflict)
	moved := host(t, s, va, newClock().now, "https://vacancy.example")
	if _, err := moved.UpdateCardURLs(t.Context()); err != nil {
		t.Errorf("UpdateCardURLs() = %v", err)
	}
	r := get(t, moved, child.ID)
	g, _, err := moved.Registry.Get(t.Context(), child.ID)
	if err != nil || r.State != lifecycle.Local || !r.Closed || g.Visibility != lifecycle.Hidden || !g.Closed {
		t.Errorf("in the end it is %s, closed %t, %s, %v", r.State, r.Closed, g.Visibility, err)
	}
	if open, err := moved.ListOpen(t.Context(), 5); err != nil || len(open) != 1 || open[0] == child.ID {
		t.Errorf("ListOpen() = %v, %v, want the parent alone", open, err)
	}
	wantWhole(t, s, v, identity.ID{})
}

func TestMovedHostKeepsAClosedChildHidden(t *testing.T) {
	s, va := memory.New(), vault(t)
	v := host(t, s, va, newClock().now, hostURL)
	id := create(t, v, "demo").ID
	do(t, v, id, "publish")
	r, err := importVacant(t.Context(), v, id)
	if err != nil || !r.Closed || *r.Parent != elsewhere().ID() || r.Reachability != composite.ParentOnly {
		t.Fatalf("TakeManifest() = %v, closed %t", err, r.Closed)
	}
	if n, err := host(t, s, va, newClock().now, "https://vacancy.example").UpdateCardURLs(t.Context()); n != 1 || err != nil {
		t.Errorf("UpdateCardURLs() = %d, %v, want 1", n, err)
	}
	wantWhole(t, s, v, identity.ID{})
	if g, _, err := v.Registry.Get(t.Context(), id); err != nil || g.SignedVisibility != lifecycle.Hidden {
		t.Errorf("it is registered as %s, %v", g.SignedVisibility, err)
	}
}

func TestARegistryWithoutAVaultTakesNoManifestOfWhoIsHostedHere(t *testing.T) {
	s, c := memory.New(), newClock()
	v := host(t, s, vault(t), c.now, hostURL)
	id := create(t, v, "demo").ID
	handler := hosttest.NewVacants(t, s, c.now, hostURL, vacants.Config{Resources: &resources.Resources{Substrates: substrate.Kinds{echo.Kind: echo.New}}})
	m, err := manifestOf(t.Context(), v, elsewhere(), id)
	must(t, err)
	if err := handler.AddManifest(t.Context(), m); !problem.Is(err, problem.Conflict) || !strings.Contains(problem.AsError(err).Text(), "/v1/admin/vacants/"+id.String()+"/manifest") {
		t.Errorf("AddManifest() = %v, want a conflict that names the admin API", err)
	}
	must(t, v.StoreManifest(t.Context(), m))
	must(t, handler.AddManifest(t.Context(), m)) // it is stored
	wantWhole(t, s, v, identity.ID{})
}

func TestAParentIsDeletedAfterItsChildren(t *testing.T) {
	s := memory.New()
	v := host(t, s, vault(t), newClock().now, hostURL)
	parent, child := family(t, v)
	do(t, v, parent.ID, "sink", "archive")
	if _, err := v.Delete(t.Context(), parent.ID); !problem.Is(err, problem.Conflict) || !strings.Contains(problem.AsError(err).Text(), "children here: kid") {
		t.Errorf("Delete() of the parent = %v, want a conflict that names kid", err)
	}
	do(t, v, child.ID, "sink", "archive", "delete")
	do(t, v, parent.ID, "delete")
	if r := get(t, v, child.ID); !r.Closed || !r.IsDeleted() || *r.Parent != parent.ID {
		t.Errorf("the tombstone of the child is closed: %t", r.Closed)
	}
	wantWhole(t, s, v, identity.ID{})
}

// moved is an export as another host gets it.
func moved(t testing.TB, v *vacants.Directory, id identity.ID) vacants.CreateSpec {
	t.Helper()
	b, r, err := v.Export(t.Context(), id)
	must(t, err)
	var file struct {
		Seed     string            `json:"seed_hex"`
		Manifest json.RawMessage   `json:"manifest"`
		Logbook  []json.RawMessage `json:"logbook"`
	}
	must(t, json.Unmarshal(b, &file))
	seed, err := identity.ParseHex(file.Seed)
	must(t, err)
	s := vacants.CreateSpec{Name: r.Name, Capability: r.Capability, Substrate: r.Substrate}
	s.Key, err = identity.KeyFromSeed(seed)
	must(t, err)
	for _, line := range file.Logbook {
		e, err := logbook.ParseLine(line)
		must(t, err)
		s.Logbook = append(s.Logbook, e)
	}
	if file.Manifest != nil {
		m, err := composite.ParseManifest(file.Manifest)
		must(t, err)
		s.Manifest = &m
	}
	return s
}

func TestAChildThatMovesStaysWhoseChildItIs(t *testing.T) {
	for _, graduates := range []bool{false, true} {
		t.Run(fmt.Sprintf("graduated %t", graduates), func(t *testing.T) {
			v := fresh(t)
			parent, child := family(t, v)
			want := lifecycle.Local
			if graduates {
				must(t, errorOf(graduateKid(t.Context(), v, parent.ID)))
				want = lifecycle.Active
			}
			s := moved(t, v, child.ID)
			inner := memory.New()
			there := host(t, inner, vault(t), newClock().now, "https://vacancy.example")
			without := s
			without.Manifest = nil
			_, err := there.Create(t.Context(), without)
			wantKind(t, "Create() of a child without its manifest", err, problem.Malformed)
			for range 2 { // the command repeated
				r, err := there.Create(t.Context(), s)
				if err != nil || r.Parent == nil || *r.Parent != parent.ID || r.Closed == graduates || !r.HasKin || r.State != want {
					t.Fatalf("Create() = %s, closed %t, kin %t, %v; want %s, closed %t", r.State, r.Closed, r.HasKin, err, want, !graduates)
				}
			}
			if m, ok, err := there.Manifest(t.Context(), child.ID); !ok || err != nil || m.Manifest.Hash() != s.Manifest.Hash() {
				t.Errorf("Manifest() there = %+v, %t, %v", m, ok, err)
			}
			// The child's parent is imported after it, or was there before.
			before := memory.New()
			first := host(t, before, vault(t), newClock().now, "https://vacancy.example")
			for _, id := range []identity.ID{parent.ID, child.ID} {
				must(t, errorOf(first.Create(t.Context(), moved(t, v, id))))
			}
			if r := get(t, first, parent.ID); !r.HasKin {
				t.Error("the parent that was there has no kin")
			}
			wantWhole(t, before, first, identity.ID{})
			if _, err := there.Create(t.Context(), moved(t, v, parent.ID)); err != nil {
				t.Errorf("Create() of the parent = %v", err)
			}
			if r := get(t, there, parent.ID); !r.HasKin {
				t.Error("the parent that follows has no kin there")
			}
			wantWhole(t, inner, there, identity.ID{})
		})
	}
}

func TestAVacantThatComesHomeIsClosedIfItsManifestCameFirst(t *testing.T) {
	s := memory.New()
	v := host(t, s, vault(t), newClock().now, hostURL)
	key := newKey(t)
	m := closing(elsewhere().ID(), key.ID(), composite.SchemaV1)
	must(t, m.SignParent(t.Context(), elsewhere()))
	must(t, m.SignChild(t.Context(), key))
	must(t, v.AddManifest(t.Context(), m))
	wrong := m
	wrong.SignatureChild = nil
	other := newKey(t)
	spec := vacants.CreateSpec{Name: "demo", Capability: "c", Substrate: "echo", Key: key}
	for name, change := range map[string]func(*vacants.CreateSpec){
		"another's":            func(s *vacants.CreateSpec) { s.Key, s.Manifest = other, &m },
		"that is not signed":   func(s *vacants.CreateSpec) { s.Manifest = &wrong },
		"of a vacant to come":  func(s *vacants.CreateSpec) { s.Key, s.Manifest = nil, &m },
		"that the gate undoes": func(s *vacants.CreateSpec) { opened := m.AfterGraduation(); s.Manifest = &opened },
	} {
		s := spec
		change(&s)
		if r, err := v.Create(t.Context(), s); err == nil {
			t.Errorf("Create() with a manifest %s = %v, want a refusal", name, r)
		}
	}
	r, err := v.Create(t.Context(), spec)
	if err != nil || !r.Closed || r.Reachability != "" || *r.Parent != elsewhere().ID() {
		t.Errorf("Create() = closed %t, %v, want a closed child whose axes nobody has signed", r.Closed, err)
	}
	wantWhole(t, s, v, identity.ID{})
}

func TestAParentThatMovesWithoutItsChildrenIsKinStill(t *testing.T) {
	old := host(t, memory.New(), vault(t), newClock().now, hostURL)
	parent := newKey(t)
	must(t, errorOf(old.Create(t.Context(), vacants.CreateSpec{Name: "firm", Capability: "c", Substrate: "echo", Key: parent})))
	must(t, errorOf2(old.Spawn(t.Context(), vacants.SpawnSpec{Parent: parent.ID(), Path: "D2", Name: "clerk", Capability: "c"})))
	stateInLogbook, err := old.Logbook(t.Context(), parent.ID(), 1, vacants.MaxPage)
	must(t, err)
	var lived []logbook.Entry
	for _, p := range stateInLogbook {
		lived = append(lived, p.Entry)
	}
	s := memory.New()
	v := host(t, s, vault(t), newClock().now, hostURL)
	r, err := v.Create(t.Context(), vacants.CreateSpec{Name: "firm", Capability: "c", Substrate: "echo", Key: parent, Logbook: lived})
	if err != nil || !r.HasKin {
		t.Fatalf("Create() = kin %t, %v, want kin, because its logbook records a child", r.HasKin, err)
	}
	wantWhole(t, s, v, identity.ID{})
}

// A manifest that closes a vacant at the moment of its import is in its record,
// whichever comes first.
func TestAManifestAndAnImportAtOnceEndInOneTruth(t *testing.T) {
	for range 20 {
		s := memory.New()
		va := vault(t)
		v, handler := host(t, s, va, newClock().now, hostURL), host(t, s, va, newClock().now, hostURL)
		key := newKey(t)
		m := closing(elsewhere().ID(), key.ID(), composite.SchemaV2)
		must(t, m.SignParent(t.Context(), elsewhere()))
		must(t, m.SignChild(t.Context(), key))
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := v.Create(context.Background(), vacants.CreateSpec{Name: "demo", Capability: "c", Substrate: "echo", Key: key}); err != nil {
				t.Errorf("Create() = %v", err)
			}
		})
		wg.Go(func() {
			if err := handler.AddManifest(context.Background(), m); err != nil {
				t.Errorf("AddManifest() = %v", err)
			}
		})
		wg.Wait()
		if r := get(t, v, key.ID()); !r.Closed {
			t.Error("the record is open")
		}
		wantWhole(t, s, v, identity.ID{})
	}
}

// abroad is a graduation of a pair of which one is hosted at v and the other is
// not.
func abroad(t testing.TB, v *vacants.Directory, parent, child *identity.Key, here *identity.Key) vacants.Graduation {
	t.Helper()
	ctx := t.Context()
	m := composite.Manifest{ParentID: parent.ID(), ChildID: child.ID(), BirthPath: "D2", ClosedByDefault: true, InheritedTools: []string{"b", "a"},
		Reachability: composite.ParentOnly, OutboundPolicy: composite.NoExternal, SchemaVersion: composite.SchemaV1}
	must(t, errors.Join(m.SignParent(ctx, parent), m.SignChild(ctx, child), v.AddManifest(ctx, m)))
	must(t, errorOf(v.Create(ctx, vacants.CreateSpec{Name: "here", Capability: "c", Substrate: "echo", Key: here})))
	g := vacants.Graduation{Request: composite.GraduationRequest{ParentID: parent.ID(), ChildID: child.ID(), CapabilityText: "reviews contracts"}, EventTime: v.Now()}
	must(t, errors.Join(g.Request.SignParent(ctx, parent), g.Request.SignChild(ctx, child)))
	next := m.AfterGraduation()
	must(t, errors.Join(next.SignParent(ctx, parent), next.SignChild(ctx, child)))
	g.Artefacts.ManifestParent, g.Artefacts.ManifestChild = next.SignatureParent, next.SignatureChild
	c, err := card.New(child.ID(), g.Request.CapabilityText, []string{"echo"}, "https://elsewhere.example/a2a/message/send")
	must(t, err)
	must(t, c.Sign(ctx, child))
	e := event.Event{Type: event.Register, Actor: child.ID(), IdempotencyKey: "graduate", Time: v.Now().UnixMilli(), ActorSeq: 1,
		Payload: event.RegisterPayload(c.Hash(), c.HaloVersion, child.ID(), lifecycle.Public)}
	must(t, e.Sign(ctx, child))
	a := &g.Artefacts
	a.Card, a.Time, a.ActorSeq, a.IdempotencyKey, a.Signature = c.Blob(), e.Time, e.ActorSeq, e.IdempotencyKey, e.Signature
	return g
}

// reaching is a host that can dial every endpoint.
func reaching(t testing.TB, s store.Store) *vacants.Directory {
	t.Helper()
	return hosttest.NewVacants(t, s, newClock().now, hostURL, vacants.Config{
		Vault: vault(t), Resources: &resources.Resources{Substrates: substrate.Kinds{echo.Kind: echo.New}},
	})
}

func TestAPairOfWhichOneIsElsewhereGraduatesByWhatItHasSigned(t *testing.T) {
	parent, child := newKey(t), newKey(t)
	for name, here := range map[string]*identity.Key{"the child is elsewhere": parent, "the parent is elsewhere": child} {
		t.Run(name, func(t *testing.T) {
			s := memory.New()
			v := reaching(t, s)
			g := abroad(t, v, parent, child, here)
			lines := len(log(t, v, here.ID()))
			made, err := graduate(t.Context(), v, g)
			must(t, err)
			reg, ok, err := v.Registry.Get(t.Context(), child.ID())
			if err != nil || !ok || reg.Visibility != lifecycle.Public || reg.State != lifecycle.Active || reg.Closed || reg.Hosted != (here == child) {
				t.Errorf("the child is registered: %t, %v, %+v", ok, err, reg)
			}
			want := hostURL
			if here == parent {
				want = "https://elsewhere.example"
			}
			if !strings.HasPrefix(made.Card.Endpoint, want) {
				t.Errorf("its card names %s, want %s", made.Card.Endpoint, want)
			}
			for _, key := range []*identity.Key{parent, child} {
				if got, want := len(log(t, v, key.ID())), map[bool]int{true: lines + 1}[key == here]; got != want {
					t.Errorf("the logbook of %s has %d entries, want %d", key.ID().Short(), got, want)
				}
			}
			wantWhole(t, s, v, identity.ID{})
			_, err = graduate(t.Context(), v, g)
			wantKind(t, "graduating again", err, problem.AlreadyGraduated)
		})
	}
}

func TestGraduationNeedsTheSignatureOfAPartyElsewhere(t *testing.T) {
	parent, child := newKey(t), newKey(t)
	for name, c := range map[string]struct {
		here   *identity.Key
		change func(*vacants.Graduation)
		want   string
	}{
		"no signature of the parent":      {child, func(g *vacants.Graduation) { g.Artefacts.ManifestParent = nil }, "manifest_signature_parent"},
		"no signature of the child":       {parent, func(g *vacants.Graduation) { g.Artefacts.ManifestChild = nil }, "manifest_signature_child"},
		"the child's for the parent's":    {child, func(g *vacants.Graduation) { g.Artefacts.ManifestParent = g.Artefacts.ManifestChild }, "manifest parent signature invalid"},
		"no card":                         {parent, func(g *vacants.Graduation) { g.Artefacts.Card = nil }, "capability_card"},
		"a card of other words":           {parent, otherWords(t, child), "capability_card"},
		"a card without an endpoint":      {parent, withoutEndpoint(t, child), "endpoint"},
		"another's card":                  {parent, withoutEndpoint(t, parent), "a card that the child has signed"},
		"no event":                        {parent, func(g *vacants.Graduation) { g.Artefacts.Signature = nil }, "event signature"},
		"an event that is not the next":   {parent, func(g *vacants.Graduation) { g.Artefacts.ActorSeq = 2 }, "event signature"},
		"nobody is here, neither of them": {newKey(t), func(*vacants.Graduation) {}, "unknown child"},
		"a signature of zeros":            {child, func(g *vacants.Graduation) { g.Artefacts.ManifestParent = make([]byte, 64) }, "signature invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			s := memory.New()
			v := reaching(t, s)
			g := abroad(t, v, parent, child, c.here)
			c.change(&g)
			_, err := graduate(t.Context(), v, g)
			if problem.AsError(err) == nil || !strings.Contains(problem.AsError(err).Text(), c.want) {
				t.Errorf("graduating = %v, want a refusal of %s", err, c.want)
			}
			if m, _, err := v.Manifest(t.Context(), child.ID()); err != nil || !m.IsClosed() {
				t.Errorf("the child is open: %+v, %v", m, err)
			}
			wantWhole(t, s, v, identity.ID{})
		})
	}
}

func otherWords(t testing.TB, child *identity.Key) func(*vacants.Graduation) {
	return replaceCard(t, child, "does everything", "https://elsewhere.example/a")
}

func withoutEndpoint(t testing.TB, child *identity.Key) func(*vacants.Graduation) {
	return replaceCard(t, child, "reviews contracts", "")
}

func replaceCard(t testing.TB, child *identity.Key, text, endpoint string) func(*vacants.Graduation) {
	t.Helper()
	c, err := card.New(child.ID(), text, []string{"echo"}, endpoint)
	must(t, err)
	must(t, c.Sign(t.Context(), child))
	return func(g *vacants.Graduation) { g.Artefacts.Card = c.Blob() }
}
