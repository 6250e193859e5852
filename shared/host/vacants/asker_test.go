package vacants_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// listed are the names that by is shown, page by page, and what the cursors say.
func listed(t *testing.T, v *vacants.Directory, by vacants.Asker, n int) (names, cursors string) {
	t.Helper()
	var all []string
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := v.ListAll(t.Context(), by, cursor, n)
		must(t, err)
		for _, r := range page {
			all = append(all, r.Name)
		}
		at, err := store.ParseCursor(next)
		must(t, err)
		cursors += fmt.Sprint(at)
		cursor = next
	}
	return strings.Join(all, " "), cursors
}

// deleteNamed deletes a vacant by its name.
func deleteNamed(t *testing.T, v *vacants.Directory, name string) {
	t.Helper()
	do(t, v, namedVacant(t, v, name).ID, "sink", "archive", "delete")
}

func TestATenantIsShownItsOwnVacantsByPagesThatTellOfNoOthers(t *testing.T) {
	s, va, at := memory.New(), vault(t), newClock()
	v := host(t, s, va, at.now, hostURL)
	add := func(tenant, name string) vacants.Record {
		t.Helper()
		r, err := v.Create(t.Context(), vacants.CreateSpec{Name: name, Capability: "c", Substrate: "echo", Tenant: tenant})
		must(t, err)
		return r
	}
	first := add("acme", "b")
	add("acme", "d")
	add("acme", "f")
	acme := vacants.TenantAsker("acme")
	alone, cursors := listed(t, v, acme, 1)
	for _, name := range []string{"a", "c", "e", "g"} {
		add("other", name)
	}
	add("", "h")
	with, with1 := listed(t, v, acme, 1)
	if want := "b d f"; alone != want || with != want || cursors != with1 {
		t.Errorf("alone %q with cursors %s, with others %q with %s; want %q both times, and the same cursors", alone, cursors, with, with1, want)
	}
	// The operator gives the name of a deleted vacant to another tenant.
	deleteNamed(t, v, "d")
	must(t, errorOf(v.Create(t.Context(), vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "d", Capability: "c", Substrate: "echo", Tenant: "other"})))
	renamed, err := v.Update(t.Context(), first.ID, vacants.Changes{Name: pointer("z")})
	must(t, err)
	for by, want := range map[vacants.Asker]string{acme: "f z d", vacants.TenantAsker("other"): "a c d e g", vacants.TenantAsker(""): "h", {}: "", vacants.OperatorAsker(): "a c d e f g h z d"} {
		if got, _ := listed(t, v, by, 2); got != want {
			t.Errorf("%v lists %q, want %q", by, got, want)
		}
	}
	if r, err := v.Find(t.Context(), acme, renamed.ID.String()[:6]); err != nil || r.ID != renamed.ID {
		t.Errorf("Find() of the prefix of an id = %v, %v", r, err)
	}
}

func TestWhatAnAskerDoesNotKnowIsRefusedAsWhatDoesNotExist(t *testing.T) {
	v := host(t, memory.New(), vault(t), newClock().now, hostURL)
	r, err := v.Create(t.Context(), vacants.CreateSpec{Name: "theirs", Capability: "c", Substrate: "echo", Tenant: "other"})
	must(t, err)
	missing := identity.ID{9}
	for _, by := range []vacants.Asker{{}, vacants.TenantAsker("acme"), vacants.TenantAsker("")} {
		for what, none := range map[string]string{"theirs": "nobody", r.ID.String(): missing.String(), r.ID.Short(): missing.Short(), r.ID.String()[:5]: missing.String()[:5]} {
			_, err := v.Find(t.Context(), by, what)
			_, want := v.Find(t.Context(), by, none)
			got := strings.ReplaceAll(strings.ReplaceAll(fmt.Sprint(err), what, none), r.ID.Short(), missing.Short())
			if !problem.Is(err, problem.NotFound) || got != want.Error() {
				t.Errorf("Find(%s) by %v = %v, want %v", what, by, err, want)
			}
		}
	}
	for what, by := range map[string]vacants.Asker{"its tenant": vacants.TenantAsker("other"), "the operator": vacants.OperatorAsker()} {
		if got, err := v.Find(t.Context(), by, "theirs"); err != nil || got.ID != r.ID {
			t.Errorf("Find() by %s = %v, %v", what, got, err)
		}
	}
}

// A name is taken for everybody; the refusal is the same for every vacant that has it,
// and for a reserved word.
func TestTheRefusalOfANameTellsNothingOfItsVacant(t *testing.T) {
	v := host(t, memory.New(), vault(t), newClock().now, hostURL)
	parent := create(t, v, "parent")
	must(t, errorOf2(v.Spawn(t.Context(), vacants.SpawnSpec{Parent: parent.ID, Path: "D2", Name: "closed"})))
	mine := create(t, v, "mine")
	refusals := map[string]bool{}
	for _, name := range []string{"parent", "closed", "health"} {
		_, created := v.Create(t.Context(), vacants.CreateSpec{Name: name, Capability: "c", Substrate: "echo", Tenant: "acme"})
		_, updated := v.Update(t.Context(), mine.ID, vacants.Changes{Name: &name})
		_, _, spawned := v.Spawn(t.Context(), vacants.SpawnSpec{Parent: mine.ID, Path: "D2", Name: name})
		for _, err := range []error{created, updated, spawned} {
			refusals[strings.ReplaceAll(fmt.Sprintf("%s %v", problem.AsError(err).Kind, err), name, "NAME")] = true
		}
	}
	if diff := cmp.Diff(map[string]bool{"conflict the name NAME is in use or reserved on this host; choose another": true}, refusals); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

// Who has the key of another tenant's vacant may not have it shown, nor its name.
func TestAnImportOfAnotherTenantsVacantTellsNothing(t *testing.T) {
	v := host(t, memory.New(), vault(t), newClock().now, hostURL)
	key := newKey(t)
	spec := vacants.CreateSpec{Name: "theirs", Capability: "c", Substrate: "echo", Key: key, Tenant: "other"}
	must(t, errorOf(v.Create(t.Context(), spec)))
	if _, err := v.Create(t.Context(), spec); err != nil {
		t.Errorf("the same import again = %v", err)
	}
	spec.Tenant = "acme"
	r, err := v.Create(t.Context(), spec)
	if !problem.Is(err, problem.Conflict) || !r.ID.IsZero() || strings.Contains(err.Error(), "theirs") {
		t.Errorf("Create() = %v, %v, want a conflict that does not name it", r, err)
	}
}
