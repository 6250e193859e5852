package vacants_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/tenant/quota"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

func spec(tenant, name string) vacants.CreateSpec {
	return vacants.CreateSpec{Asker: vacants.TenantAsker(tenant), Tenant: tenant, Name: name, Capability: "says what it hears", Substrate: "echo"}
}

func wantQuota(t *testing.T, what string, err error, n quota.Name, helps string) {
	t.Helper()
	wantKind(t, what, err, problem.QuotaReached)
	if text := problem.AsError(err).Text(); !strings.HasPrefix(text, "quota "+string(n)+": tenant acme may have at most ") || !strings.Contains(text, helps) {
		t.Errorf("%s says %q", what, text)
	}
}

func TestATenantHasAtMostItsQuotaOfVacants(t *testing.T) {
	s := memory.New()
	v := host(t, s, vault(t), newClock().now, hostURL)
	v.Quotas = quota.Quotas{"vacants": 2, "big/vacants": 3}
	make := func(tenant, name string) (vacants.Record, error) { return v.Create(t.Context(), spec(tenant, name)) }
	first, err := make("acme", "one")
	must(t, err)
	child := vacants.SpawnSpec{Asker: vacants.TenantAsker("acme"), Parent: first.ID, Path: "D3", Name: "child", Capability: "other"}
	kid, _, err := v.Spawn(t.Context(), child)
	must(t, err)
	_, err = make("acme", "three")
	wantQuota(t, "the third vacant", err, quota.Vacants, "delete unused vacants")
	child.Name = "sister"
	_, _, err = v.Spawn(t.Context(), child)
	wantQuota(t, "the third vacant, a child", err, quota.Vacants, "delete unused vacants")
	if _, err := v.Pause(t.Context(), first.ID); err != nil {
		t.Errorf("a tenant that has all its vacants cannot pause one: %v", err)
	}

	// A deletion returns one, once, for the name that it reserves.
	do(t, v, kid.ID, "sink", "archive", "delete", "delete")
	_, err = make("acme", "three")
	wantQuota(t, "a new name beside a reserved one", err, quota.Vacants, "reuse their names")
	if _, err := make("acme", "child"); err != nil {
		t.Errorf("after a deletion: %v", err)
	}
	_, err = make("acme", "four")
	wantQuota(t, "one more", err, quota.Vacants, "delete unused vacants")

	// A host of an earlier program counted nothing: the vacants are counted when the next is made.
	d, err := s.Doc(t.Context(), quota.UsageDocs.Key("acme", "vacants"))
	if err != nil || d.Number != 2 {
		t.Fatalf("the count is %d, %v, want 2", d.Number, err)
	}
	forget := func() {
		must(t, s.Commit(t.Context(), store.Delete{Key: d.Key, IfVersion: d.Version}))
	}
	forget()
	_, err = make("acme", "four")
	wantQuota(t, "one more of a tenant without a count", err, quota.Vacants, "delete unused vacants")
	do(t, v, first.ID, "sink", "archive", "delete", "delete")
	if _, err := make("acme", "one"); err != nil {
		t.Errorf("after a deletion without a count: %v", err)
	}
	_, err = make("acme", "four")
	wantQuota(t, "one more", err, quota.Vacants, "delete unused vacants")

	// One tenant may have another quota, and the operator has none.
	for i := range 3 {
		if _, err := make("big", fmt.Sprintf("big-%d", i)); err != nil {
			t.Errorf("big-%d: %v", i, err)
		}
		create(t, v, fmt.Sprintf("own-%d", i))
	}
	_, err = make("big", "big-3")
	wantKind(t, "the fourth of a tenant with 3", err, problem.QuotaReached)
}

func TestNoTwoProcessesExceedAQuota(t *testing.T) {
	const limit, each = 5, 8
	s, keys := memory.New(), vault(t)
	var made, refused atomic.Int64
	var all sync.WaitGroup
	for process := range 3 {
		v := host(t, s, keys, newClock().now, hostURL)
		v.Quotas = quota.Quotas{"vacants": limit}
		for i := range each {
			all.Go(func() {
				_, err := v.Create(t.Context(), spec("acme", fmt.Sprintf("v-%d-%d", process, i)))
				switch {
				case err == nil:
					made.Add(1)
				case problem.Is(err, problem.QuotaReached):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if made.Load() != limit || refused.Load() != 3*each-limit {
		t.Errorf("%d made, %d refused; want %d made", made.Load(), refused.Load(), limit)
	}
}

func TestVersionsAndTheirBytesHaveQuotas(t *testing.T) {
	v := fresh(t)
	v.Quotas = quota.Quotas{"versions": 2, "megabytes": 1}
	agent := func(i int) *definition.Agent {
		return &definition.Agent{Provider: "echo", System: fmt.Sprintf("%d %s", i, strings.Repeat("x", 30<<10))}
	}
	made := []vacants.Record{}
	var refused error
	for i := 0; refused == nil && i < 100; i++ {
		s := spec("acme", fmt.Sprintf("v-%d", i))
		s.Substrate, s.Agent = "", agent(1)
		r, err := v.Create(t.Context(), s)
		if refused = err; err == nil {
			made = append(made, r)
		}
	}
	wantQuota(t, "a vacant above the megabytes", refused, quota.Megabytes, "delete unused vacants")
	if len(made) < 30 || len(made) > 35 {
		t.Errorf("%d agents of 30 KB fit 1 MB", len(made))
	}
	_, err := v.Update(t.Context(), made[0].ID, vacants.Changes{Asker: vacants.TenantAsker("acme"), Agent: agent(2)})
	wantQuota(t, "a version above the megabytes", err, quota.Megabytes, "delete unused vacants")
	do(t, v, made[1].ID, "sink", "archive", "delete", "delete")
	if _, err = v.Update(t.Context(), made[0].ID, vacants.Changes{Asker: vacants.TenantAsker("acme"), Agent: agent(2)}); err != nil {
		t.Errorf("a version after a deletion: %v", err)
	}
	do(t, v, made[2].ID, "sink", "archive", "delete", "delete")
	_, err = v.Update(t.Context(), made[0].ID, vacants.Changes{Asker: vacants.TenantAsker("acme"), Agent: agent(3)})
	wantQuota(t, "the third version", err, quota.Versions, "another vacant")
	for flat := money.Amount(1); flat <= 2; flat++ {
		must(t, errorOf(v.SetPrice(t.Context(), made[0].ID, price.Price{Flat: flat})))
	}
	_, err = v.SetPrice(t.Context(), made[0].ID, price.Price{Flat: 3})
	wantQuota(t, "the third price", err, quota.Versions, "another vacant")
}
