package vacants_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// spawned makes closed children, each a child of the one before it in path.
func spawned(t testing.TB, v *vacants.Directory, path ...string) (last vacants.Record) {
	t.Helper()
	last, err := v.GetByName(t.Context(), vacants.OperatorAsker(), path[0])
	if err != nil {
		last = create(t, v, path[0])
	}
	for _, name := range path[1:] {
		spec := vacants.SpawnSpec{Parent: last.ID, Path: "D2", Name: name, Substrate: "echo"}
		last, _, err = v.Spawn(t.Context(), spec)
		must(t, err)
	}
	return last
}

// asking is a plan that asks children, each once.
func asking(children ...string) plan.Plan {
	p := plan.Plan{OnFailure: plan.Abort, Aggregate: plan.Aggregate{Method: plan.List}}
	for _, child := range children {
		p.Delegations = append(p.Delegations, plan.Delegation{Child: child, Task: "{input}"})
	}
	return p
}

func setPlan(t testing.TB, v *vacants.Directory, name string, p plan.Plan) error {
	t.Helper()
	r := namedVacant(t, v, name)
	return errorOf2(v.SetPlan(t.Context(), vacants.OperatorAsker(), r.ID, p))
}

func TestAPlanIsKeptWithIDsAndAnEntryAndTheCardStays(t *testing.T) {
	s, va := memory.New(), vault(t)
	v := host(t, s, va, newClock().now, hostURL)
	a, b := spawned(t, v, "demo", "a"), spawned(t, v, "demo", "b")
	before := namedVacant(t, v, "demo")
	r, set, err := v.SetPlan(t.Context(), vacants.OperatorAsker(), before.ID, asking("a", b.ID.String(), "a"))
	must(t, err)
	want := asking(a.ID.String(), b.ID.String(), a.ID.String())
	if diff := cmp.Diff(want, set); diff != "" {
		t.Errorf("SetPlan() (-want +got):\n%s", diff)
	}
	kept, ok, err := v.Plan(t.Context(), r.ID)
	if diff := cmp.Diff(want, kept); err != nil || !ok || diff != "" {
		t.Errorf("Plan() = %t, %v (-want +got):\n%s", ok, err, diff)
	}
	if r.Substrate != plan.Kind || string(r.Card) != string(before.Card) {
		t.Errorf("SetPlan() leaves substrate %q and changes the card: %t, want composite and no", r.Substrate, string(r.Card) != string(before.Card))
	}
	entry := logbook.KindPlanChanged + ` {"plan_hash":"` + want.Hash().String() + `"}`
	lines := story(t, v, r.ID)
	if got := lines[len(lines)-1]; got != entry {
		t.Errorf("its last entry is %s, want %s", got, entry)
	}
	if _, _, err := v.SetPlan(t.Context(), vacants.OperatorAsker(), r.ID, want); err != nil || len(story(t, v, r.ID)) != len(lines) {
		t.Errorf("SetPlan() of the same = %v, with an entry more: %t, want nothing", err, len(story(t, v, r.ID)) != len(lines))
	}
	// A card that is signed again keeps its text.
	moved := host(t, s, va, newClock().now, "https://vacancy.example")
	must(t, errorOf(moved.UpdateCardURLs(t.Context())))
	r = get(t, moved, r.ID)
	c, err := card.Parse(r.Card)
	if diff := cmp.Diff([]string{"echo"}, c.AllowedSubstrates); err != nil || diff != "" || !strings.HasPrefix(c.Endpoint, "https://vacancy.example") {
		t.Errorf("the card says endpoint %s, %v, and of its substrate (-want +got):\n%s", c.Endpoint, err, diff)
	}
}

func TestTheCardOfACompositeNamesNone(t *testing.T) {
	v := host(t, memory.New(), vault(t), newClock().now, hostURL)
	r, err := v.Create(t.Context(), vacants.CreateSpec{Name: "demo", Capability: "c", Substrate: "composite"})
	must(t, err)
	c, err := card.Parse(r.Card)
	if diff := cmp.Diff([]string{plan.CardKind}, c.AllowedSubstrates); err != nil || diff != "" {
		t.Errorf("its card, %v, says of its substrate (-want +got):\n%s", err, diff)
	}
}

func TestAPlanOfWhoIsNotTheVacantsOwnIsRefused(t *testing.T) {
	v := host(t, memory.New(), vault(t), newClock().now, hostURL)
	spawned(t, v, "demo", "a")
	spawned(t, v, "other", "theirs")
	gone := spawned(t, v, "demo", "gone")
	do(t, v, gone.ID, "sink")
	judged := asking("a")
	judged.Aggregate = plan.Aggregate{Method: plan.BySubstrate, Substrate: "magic"}
	closed := create(t, v, "closed")
	do(t, v, closed.ID, "sink")
	for name, c := range map[string]struct {
		of   string
		plan plan.Plan
		kind problem.Kind
		text string
	}{
		"nobody":              {"demo", asking(), problem.Malformed, "delegate: expected at least one delegation"},
		"a name of nobody":    {"demo", asking("a", "nobody"), problem.NotFound, "delegate[1].child: vacant nobody is not hosted here"},
		"an id of nobody":     {"demo", asking(identity.ID{7}.String()), problem.NotFound, "delegate[0].child: vacant"},
		"another's child":     {"demo", asking("theirs"), problem.Malformed, "delegate[0].child: expected a child of demo, got theirs"},
		"a stranger":          {"demo", asking("other"), problem.Malformed, "delegate[0].child: expected a child of demo, got other"},
		"itself":              {"demo", asking("demo"), problem.Malformed, "delegate[0].child: expected a child of demo, got demo"},
		"its own parent":      {"a", asking("demo"), problem.Malformed, "delegate[0].child: expected a child of a, got demo"},
		"a child that sank":   {"demo", asking("gone"), problem.Gone, "delegate[0].child: vacant gone is SUNK"},
		"no such substrate":   {"demo", judged, problem.Malformed, "aggregate.substrate: expected one of echo, got \"magic\""},
		"a vacant that sank":  {"closed", asking("a"), problem.Gone, "vacant closed is SUNK"},
		"by another's prefix": {"demo", asking(create(t, v, "long").ID.String()[:12]), problem.Malformed, "delegate[0].child: expected a child of demo, got long"},
	} {
		t.Run(name, func(t *testing.T) {
			err := setPlan(t, v, c.of, c.plan)
			wantKind(t, "SetPlan()", err, c.kind)
			if text := problem.AsError(err).Text(); !strings.HasPrefix(text, c.text) {
				t.Errorf("SetPlan() = %q, want %q", text, c.text)
			}
		})
	}
}

func TestAPlanThatWouldAskItselfIsRefusedWithItsPath(t *testing.T) {
	v := host(t, memory.New(), vault(t), newClock().now, hostURL)
	c := spawned(t, v, "a", "b", "c")
	a := namedVacant(t, v, "a")
	// Manifests can form a circle, if all have signed them.
	m := closing(c.ID, a.ID, composite.SchemaV2)
	sign := func(id identity.ID, by func(context.Context, identity.Signer) error) {
		t.Helper()
		must(t, v.WithSigner(t.Context(), id, func(s identity.Signer) error { return by(t.Context(), s) }))
	}
	sign(c.ID, m.SignParent)
	sign(a.ID, m.SignChild)
	must(t, v.StoreManifest(t.Context(), m))
	for _, one := range [][2]string{{"a", "b"}, {"b", "c"}} {
		must(t, setPlan(t, v, one[0], asking(one[1])))
	}
	err := setPlan(t, v, "c", asking("a"))
	if text := problem.AsError(err).Text(); !problem.Is(err, problem.Malformed) || text != "plan: the vacant would call itself: c -> a -> b -> c" {
		t.Errorf("SetPlan() = %v, want a refusal with the path", err)
	}
}

func TestPlansAreRefusedThatAreTooDeepOrAskTooMuchFromAnyOfThem(t *testing.T) {
	v := host(t, memory.New(), vault(t), newClock().now, hostURL)
	path := []string{"l1", "l2", "l3", "l4", "l5", "l6"}
	spawned(t, v, path...)
	spawned(t, v, "l2", "leaf")
	// From the top, the bottom and the middle, the fifth is too many.
	for name, order := range map[string][]int{"down": {0, 1, 2, 3, 4}, "up": {4, 3, 2, 1, 0}, "from the middle": {0, 1, 3, 4, 2}} {
		t.Run(name, func(t *testing.T) {
			v := host(t, memory.New(), vault(t), newClock().now, hostURL)
			spawned(t, v, path...)
			for n, i := range order {
				err := setPlan(t, v, path[i], asking(path[i+1]))
				if last := n == len(order)-1; last != problem.Is(err, problem.Malformed) || !last && err != nil {
					t.Errorf("SetPlan(%s) as number %d = %v, want a refusal of the fifth alone", path[i], n+1, err)
				}
				if err != nil && !strings.Contains(err.Error(), "l1 -> l2 -> l3 -> l4 -> l5") {
					t.Errorf("SetPlan(%s) = %v, want the path named", path[i], err)
				}
			}
		})
	}
	many := func(n int, child string) plan.Plan { return asking(strings.Fields(strings.Repeat(child+" ", n))...) }
	for _, step := range []struct {
		of      string
		plan    plan.Plan
		refused bool
	}{
		{"l2", many(31, "leaf"), false},
		{"l1", many(5, "l2"), true},
		{"l1", many(4, "l2"), false},
		{"l2", many(32, "leaf"), true}, // seen from above: 4 + 4 x 32
		{"l2", many(30, "leaf"), false},
	} {
		err := setPlan(t, v, step.of, step.plan)
		if step.refused != problem.Is(err, problem.Malformed) || !step.refused && err != nil {
			t.Errorf("SetPlan(%s) of %d = %v, want refused %t", step.of, len(step.plan.Delegations), err, step.refused)
		}
	}
}

func TestAPlansCombinerHasNoSecret(t *testing.T) {
	v := host(t, memory.New(), vault(t), newClock().now, hostURL)
	v.Resources.Substrates[substrate.KindAnthropic] = func(string) (substrate.Substrate, error) { return echo.New("") }
	spawned(t, v, "team", "a")
	p := asking("a")
	p.Aggregate = plan.Aggregate{Method: plan.BySubstrate, Substrate: "anthropic:claude-opus-4-6"}
	if err := setPlan(t, v, "team", p); !problem.Is(err, problem.Malformed) || !strings.Contains(err.Error(), "expected a free substrate without a secret") {
		t.Errorf("SetPlan() = %v, want malformed", err)
	}
}

func TestADamagedPlanIsTold(t *testing.T) {
	p := asking(identity.ID{1}.String())
	for name, data := range map[string]string{
		"no JSON":       "plan",
		"not canonical": " " + string(p.Blob()),
		"a name":        strings.Replace(string(p.Blob()), identity.ID{1}.String(), "drafter", 1),
	} {
		if _, err := vacants.PlanDocs.Parse(store.Doc{Data: []byte(data)}); !problem.Is(err, problem.Damaged) {
			t.Errorf("PlanDocs.Parse() of %s = %v, want Damaged", name, err)
		}
	}
	if _, err := vacants.PlanDocs.Parse(store.Doc{Data: p.Blob()}); err != nil {
		t.Errorf("PlanDocs.Parse() = %v", err)
	}
}
