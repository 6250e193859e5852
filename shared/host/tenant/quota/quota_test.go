package quota_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/tenant/quota"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestQuotasAreOfAllTenantsOrOfOne(t *testing.T) {
	q, err := quota.Parse("vacants=500,acme/vacants=5000,acme/keys=0,")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		tenant string
		name   quota.Name
		want   int64
	}{
		{"acme", quota.Vacants, 5000}, {"acme", quota.Keys, 0}, {"acme", quota.Links, 1000},
		{"other", quota.Vacants, 500}, {"other", quota.Keys, 1000}, {"other", quota.Versions, 10_000},
	} {
		if got := q.Limit(tt.tenant, tt.name); got != tt.want {
			t.Errorf("Of(%s, %s) = %d, want %d", tt.tenant, tt.name, got, tt.want)
		}
	}
	if again, err := quota.Parse(q.String()); err != nil || again.String() != q.String() {
		t.Errorf("Parse(%q) = %v, %v", q, again, err)
	}
	if got := quota.Quotas(nil).Limit("acme", quota.Vacants); got != quota.Defaults()["vacants"] {
		t.Errorf("without quotas, Of() = %d", got)
	}
	if err := q.Check("", quota.Keys, 1e9); err != nil {
		t.Errorf("the operator has a quota: %v", err)
	}
	if err := q.Check("acme", quota.Keys, 1); !problem.Is(err, problem.QuotaReached) {
		t.Errorf("a key above the quota = %v", err)
	}
}

func TestTextsThatAreNoQuotas(t *testing.T) {
	for _, text := range []string{"vacants", "vacants=", "vacants=-1", "vacants=1e3", "vacants=1000000001", "cats=1", "/vacants=1", "a b/vacants=1", "a/b/vacants=1", "=1"} {
		_, err := quota.Parse(text)
		if !problem.Is(err, problem.Malformed) || !strings.Contains(problem.AsError(err).Text(), "acme/vacants=5000") {
			t.Errorf("Parse(%q) = %v", text, err)
		}
	}
}

func FuzzQuotasAreParsedAsTheyAreWritten(f *testing.F) {
	f.Add("vacants=500,acme/vacants=5000")
	f.Add("keys=0,,links=1000000000")
	f.Fuzz(func(t *testing.T, text string) {
		q, err := quota.Parse(text)
		if err != nil {
			return
		}
		again, err := quota.Parse(q.String())
		if err != nil || !maps.Equal(q, again) {
			t.Errorf("Parse(%q) = %v, %v", q, again, err)
		}
	})
}
