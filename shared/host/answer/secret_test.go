package answer_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// paid is a directory that keeps secrets and offers a model that is asked with one.
// told are the secrets that the model was sent.
func paid(t *testing.T) (v *vacants.Directory, told *[]string) {
	t.Helper()
	s, va := memory.New(), vault(t)
	v, told = host(t, s, va), new([]string)
	v.Resources.Secrets = secrets.New(definition.SecretKind, s, va, now, rand.Reader)
	v.Resources.Budgets, v.Resources.Models = spend.New(store.Updater{Store: s, Rand: rand.Reader}, now, spend.DefaultHostBudget), models.NewTables(s, now, rand.Reader)
	for _, kind := range []string{substrate.KindAnthropic, substrate.KindBedrock, substrate.KindOpenAI, substrate.KindHTTP} {
		v.Resources.Substrates[kind] = func(string) (substrate.Substrate, error) { return &noting{told}, nil }
	}
	return v, told
}

// noting is a model that notes the secret it was sent.
type noting struct{ told *[]string }

func (n *noting) Infer(_ context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		*n.told = append(*n.told, r.Secret.Reveal())
		if !yield(substrate.Usage{InputTokens: 1000, OutputTokens: 100}, nil) {
			return
		}
		if yield(substrate.Text("yes"), nil) {
			yield(substrate.FinishStop, nil)
		}
	}
}

func keep(t *testing.T, v *vacants.Directory, tenant, name, value string, hosts ...string) {
	t.Helper()
	if _, err := v.Resources.Secrets.Set(t.Context(), tenant, name, hosts, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

func claude() *definition.Agent {
	return &definition.Agent{Provider: substrate.KindAnthropic, Model: "claude-opus-4-6"}
}

func TestAnAgentMayHaveTheSecretsOfItsTenantWhereTheyAreBoundTo(t *testing.T) {
	for name, tt := range map[string]struct {
		agent  *definition.Agent
		tenant string
		kind   problem.Kind
		want   string
	}{
		"no secret yet":        {&definition.Agent{Provider: "openai", Model: "gpt-5"}, "acme", problem.Malformed, `secret: tenant acme has no secret "openai"`},
		"another tenant's":     {claude(), "other", problem.Malformed, `tenant other has no secret "anthropic"`},
		"a tenant's":           {claude(), "", problem.Malformed, `secret: the host has no secret "anthropic"`},
		"bound elsewhere":      {&definition.Agent{Provider: "anthropic", BaseURL: "https://evil.example/v1", Model: "m"}, "acme", problem.Forbidden, "is bound to api.anthropic.com, not to evil.example"},
		"a program's":          {&definition.Agent{Provider: "http", BaseURL: "https://evil.example/", Secret: "anthropic"}, "acme", problem.Forbidden, "is bound to api.anthropic.com"},
		"another kind's":       {&definition.Agent{Provider: "openai", Model: "gpt-5", Secret: "anthropic"}, "acme", problem.Forbidden, "not to api.openai.com"},
		"over http in the net": {&definition.Agent{Provider: "anthropic", BaseURL: "http://api.anthropic.com/v1", Model: "m"}, "acme", problem.Forbidden, "over https only"},
	} {
		t.Run(name, func(t *testing.T) {
			v, told := paid(t)
			keep(t, v, "acme", "anthropic", "key")
			_, err := v.Create(t.Context(), vacants.CreateSpec{Name: "sage", Capability: "knows", Tenant: tt.tenant, Agent: tt.agent})
			wantRefused := func(what string, err error) {
				t.Helper()
				if !problem.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s = %v, want %s that says %q", what, err, tt.kind, tt.want)
				}
			}
			wantRefused("Create()", err)
			r, err := v.Create(t.Context(), vacants.CreateSpec{Name: "sage", Capability: "knows", Tenant: tt.tenant, Substrate: "echo"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = v.Update(t.Context(), r.ID, vacants.Changes{Agent: tt.agent})
			wantRefused("Update()", err)
			_, _, err = v.Spawn(t.Context(), vacants.SpawnSpec{Parent: r.ID, Path: "D2", Name: "pupil", Agent: tt.agent})
			wantRefused("Spawn()", err)
			if len(*told) > 0 {
				t.Errorf("the model was asked with %q", *told)
			}
		})
	}
}

func TestAHostWithoutSecretsHasNoAgentsWithOne(t *testing.T) {
	v, _ := paid(t)
	v.Resources.Secrets = nil
	for _, substrate := range []string{"anthropic:claude-opus-4-6", "openai:gpt-5"} {
		_, err := v.Create(t.Context(), vacants.CreateSpec{Name: "sage", Capability: "knows", Substrate: substrate})
		if !problem.Is(err, problem.Malformed) || problem.AsError(err).Field != "secret" {
			t.Errorf("Create(%s) = %v, want malformed of secret", substrate, err)
		}
	}
	if _, err := v.Create(t.Context(), vacants.CreateSpec{Name: "sage", Capability: "knows", Substrate: "openai:http://127.0.0.1:8000/v1#m"}); err != nil {
		t.Errorf("Create(a server without a key) = %v", err)
	}
}

// A call is sent with the secret of its moment, and none is sent for an agent whose
// secret is gone, or not bound to its server any more.
func TestACallIsMadeWithTheSecretOfItsMoment(t *testing.T) {
	v, told := paid(t)
	keep(t, v, "", "anthropic", "one")
	r, err := v.Create(t.Context(), vacants.CreateSpec{Name: "sage", Capability: "knows", Substrate: "anthropic:claude-opus-4-6"})
	if err != nil {
		t.Fatal(err)
	}
	child, _, err := v.Spawn(t.Context(), vacants.SpawnSpec{Parent: r.ID, Path: "D2", Name: "pupil"})
	if err != nil {
		t.Fatal(err)
	}
	call := func(id identity.ID) error {
		t.Helper()
		held, _, err := answering(v).Vacant(t.Context(), id, true)
		if err != nil {
			t.Fatal(err)
		}
		_, err = held.Behaviour(t.Context(), nil, envelope.Envelope{To: id, Payload: envelope.Message{Parts: []string{"hi"}}})
		return err
	}
	for range 2 {
		if err := call(r.ID); err != nil {
			t.Fatal(err)
		}
	}
	keep(t, v, "", "anthropic", "two")
	if err := call(child.ID); err != nil {
		t.Fatal(err)
	}
	keep(t, v, "", "anthropic", "three", "proxy.example")
	wantKind(t, "a call whose secret is bound elsewhere", call(r.ID), problem.SubstrateMisconfigured)
	if err := v.Resources.Secrets.Delete(t.Context(), "", "anthropic"); err != nil {
		t.Fatal(err)
	}
	err = call(r.ID)
	wantKind(t, "a call whose secret is deleted", err, problem.SubstrateMisconfigured)
	if got := fmt.Sprint(*told); got != "[one one two]" {
		t.Errorf("the model was told %s, want [one one two]", got)
	}
}
