package answer_test

import (
	"context"
	"crypto/rand"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/problem"
	"path/filepath"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/answer"
	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
)

func now() time.Time { return time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC) }

func vault(t testing.TB) custody.Vault {
	t.Helper()
	v, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// host is a directory that offers echo, with a registry.
func host(t testing.TB, s store.Store, v custody.Vault) *vacants.Directory {
	t.Helper()
	return hosttest.NewVacants(t, s, now, "http://127.0.0.1:8080", vacants.Config{
		Vault: v, Resources: &resources.Resources{Substrates: substrate.Kinds{echo.Kind: echo.New}},
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
}

// answering answers calls to the vacants of v.
func answering(v *vacants.Directory) *answer.Answerer { return answer.New(answer.Config{Vacants: v}) }

// asking is a plan that asks children, each once.
func asking(children ...string) plan.Plan {
	p := plan.Plan{OnFailure: plan.Abort, Aggregate: plan.Aggregate{Method: plan.List}}
	for _, child := range children {
		p.Delegations = append(p.Delegations, plan.Delegation{Child: child, Task: "{input}"})
	}
	return p
}

func wantKind(t testing.TB, what string, err error, want problem.Kind) {
	t.Helper()
	if got := problem.AsError(err); got == nil || got.Kind != want {
		t.Errorf("%s = %v, want kind %v", what, err, want)
	}
}
