package answer_test

import (
	"context"
	"crypto/rand"
	"iter"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/answer"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/substrate/think"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// choosing is a host whose agents note who chose their URLs.
type choosing struct {
	*testing.T
	*vacants.Directory
	*answer.Answerer
	by []outbound.URLChooser
}

func newChoosing(t *testing.T) *choosing {
	c := &choosing{T: t, Directory: host(t, memory.New(), vault(t))}
	c.Answerer = answering(c.Directory)
	c.Directory.Resources.Substrates[substrate.KindHTTP] = func(string) (substrate.Substrate, error) { return c, nil }
	c.Directory.Resources.Servers = func(_ context.Context, _ identity.ID, by outbound.URLChooser, _ []definition.Server) (loop.Offer, func(), error) {
		c.by = append(c.by, by)
		return loop.Offer{}, func() {}, nil
	}
	return c
}

func (c *choosing) Infer(_ context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	c.by = append(c.by, r.Chooser)
	return func(yield func(substrate.Event, error) bool) {
		_ = yield(substrate.Text("done"), nil) && yield(substrate.FinishStop, nil)
	}
}

// wants asks a vacant's agent in every way: it must be told who chose it.
func (c *choosing) wants(when string, id identity.ID, want outbound.URLChooser) {
	c.Helper()
	c.by = nil
	r, err := c.Get(c.Context(), vacants.OperatorAsker(), id)
	if err == nil {
		err = c.CheckAgent(c.Context(), id)
	}
	thinks := c.ThinkService()
	if err == nil {
		_, err = substrate.ReadAnswer(thinks.RunTurn(c.Context(), think.Turn{Agent: think.AgentVersion{Vacant: id, Version: r.AgentVersion}, Request: substrate.NewTextRequest(id, id, "hi")}))
	}
	if err == nil {
		_, err = thinks.ListMCPTools(c.Context(), think.AgentVersion{Vacant: id, Version: r.AgentVersion})
	}
	if err != nil || len(c.by) != 3 || c.by[0] != want || c.by[1] != want || c.by[2] != want || r.Chooser != want {
		c.Errorf("%s: %v: the record says %d, the agent, its turn and its servers are told %d, want %d", when, err, r.Chooser, c.by, want)
	}
}

func TestAnAgentIsOfWhoSetItLast(t *testing.T) {
	c := newChoosing(t)
	agent := func(system string) *definition.Agent {
		return &definition.Agent{Provider: substrate.KindHTTP, BaseURL: "http://127.0.0.1:9001/", System: system}
	}
	r, err := c.Create(t.Context(), vacants.CreateSpec{Name: "clerk", Capability: "writes", Substrate: "http:http://127.0.0.1:9000/", Tenant: "acme", Asker: vacants.TenantAsker("acme")})
	if err != nil {
		t.Fatal(err)
	}
	c.wants("made by the tenant", r.ID, outbound.Tenant)
	for _, tt := range []struct {
		when string
		vacants.Changes
		want outbound.URLChooser
	}{
		{"the operator sets the same", vacants.Changes{Asker: vacants.OperatorAsker(), Substrate: &r.Substrate}, outbound.Operator},
		{"the tenant sets the same", vacants.Changes{Asker: vacants.TenantAsker("acme"), Substrate: &r.Substrate}, outbound.Operator},
		{"the tenant renames it", vacants.Changes{Asker: vacants.TenantAsker("acme"), Name: new("scribe")}, outbound.Operator},
		{"the tenant sets another", vacants.Changes{Asker: vacants.TenantAsker("acme"), Substrate: new("http:http://127.0.0.1:9001/")}, outbound.Tenant},
		{"the operator renames it", vacants.Changes{Asker: vacants.OperatorAsker(), Name: new("clerk")}, outbound.Tenant},
		{"the operator sets an agent", vacants.Changes{Asker: vacants.OperatorAsker(), Agent: agent("one")}, outbound.Operator},
		{"the tenant sets the same agent", vacants.Changes{Asker: vacants.TenantAsker("acme"), Agent: agent("one")}, outbound.Operator},
		{"the tenant sets another agent", vacants.Changes{Asker: vacants.TenantAsker("acme"), Agent: agent("two")}, outbound.Tenant},
		{"the operator sets that agent", vacants.Changes{Asker: vacants.OperatorAsker(), Agent: agent("two")}, outbound.Operator},
		{"nobody says who sets one", vacants.Changes{Agent: agent("three")}, outbound.Stranger},
	} {
		if _, err := c.Update(t.Context(), r.ID, tt.Changes); err != nil {
			t.Fatalf("%s: %v", tt.when, err)
		}
		want := tt.want
		if want == outbound.Stranger {
			want = outbound.Tenant // as it is stored: of a vacant with a tenant
		}
		c.wants(tt.when, r.ID, want)
	}
}

// The record says who set the current version only, so an earlier one is the tenant's: a call that began with it reaches
// no more than the tenant's agents do.
func TestAnEarlierVersionIsTheTenants(t *testing.T) {
	c := newChoosing(t)
	agent := func(system string) *definition.Agent {
		return &definition.Agent{Provider: substrate.KindHTTP, BaseURL: "http://127.0.0.1:9001/", System: system}
	}
	by := map[outbound.URLChooser]vacants.Asker{outbound.Operator: vacants.OperatorAsker(), outbound.Tenant: vacants.TenantAsker("acme")}
	for _, tt := range []struct {
		name        string
		first, next outbound.URLChooser
	}{{"to-operator", outbound.Tenant, outbound.Operator}, {"to-tenant", outbound.Operator, outbound.Tenant}} {
		r, err := c.Create(t.Context(), vacants.CreateSpec{Name: tt.name, Capability: "writes", Agent: agent("one"), Tenant: "acme", Asker: by[tt.first]})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Update(t.Context(), r.ID, vacants.Changes{Asker: by[tt.next], Agent: agent("two")}); err != nil {
			t.Fatal(err)
		}
		for version, want := range map[int]outbound.URLChooser{1: outbound.Tenant, 2: tt.next} {
			c.by = nil
			of := think.AgentVersion{Vacant: r.ID, Version: version}
			thinks := c.ThinkService()
			if _, err := substrate.ReadAnswer(thinks.RunTurn(t.Context(), think.Turn{Agent: of, Request: substrate.NewTextRequest(r.ID, r.ID, "hi")})); err != nil {
				t.Fatal(err)
			}
			if _, err := thinks.ListMCPTools(t.Context(), of); err != nil {
				t.Fatal(err)
			}
			if len(c.by) != 2 || c.by[0] != want || c.by[1] != want {
				t.Errorf("%s: version %d and its servers are told %d, want %d", tt.name, version, c.by, want)
			}
		}
	}
}

func TestAChildIsOfWhoChoseItsSubstrate(t *testing.T) {
	c := newChoosing(t)
	url := "http:http://127.0.0.1:9000/"
	for by, parent := range map[vacants.Asker]outbound.URLChooser{vacants.OperatorAsker(): outbound.Operator, vacants.TenantAsker("acme"): outbound.Tenant} {
		name := map[outbound.URLChooser]string{outbound.Operator: "ours", outbound.Tenant: "theirs"}[parent]
		r, err := c.Create(t.Context(), vacants.CreateSpec{Name: name, Capability: "leads", Substrate: url, Tenant: "acme", Asker: by})
		if err != nil {
			t.Fatal(err)
		}
		for kid, tt := range map[string]struct {
			vacants.SpawnSpec
			want outbound.URLChooser
		}{
			"-heir":     {vacants.SpawnSpec{Asker: vacants.TenantAsker("acme")}, parent},
			"-signed":   {vacants.SpawnSpec{}, parent},
			"-same":     {vacants.SpawnSpec{Asker: vacants.TenantAsker("acme"), Substrate: url}, parent},
			"-other":    {vacants.SpawnSpec{Asker: vacants.TenantAsker("acme"), Substrate: "http:http://127.0.0.1:9001/"}, outbound.Tenant},
			"-agent":    {vacants.SpawnSpec{Asker: vacants.TenantAsker("acme"), Agent: &definition.Agent{Provider: substrate.KindHTTP, BaseURL: "http://127.0.0.1:9000/", System: "x"}}, outbound.Tenant},
			"-operator": {vacants.SpawnSpec{Asker: vacants.OperatorAsker(), Substrate: "http:http://127.0.0.1:9001/"}, outbound.Operator},
		} {
			tt.Parent, tt.Path, tt.Name = r.ID, "D2", name+kid
			made, _, err := c.Spawn(t.Context(), tt.SpawnSpec)
			if err != nil {
				t.Fatal(err)
			}
			c.wants(tt.Name, made.ID, tt.want)
		}
	}
}

// A plan is read after the record, so the record cannot say who set that one.
func TestACombinerIsTheTenantsWhoeverSetThePlan(t *testing.T) {
	for tenant, want := range map[string]outbound.URLChooser{"": outbound.Operator, "acme": outbound.Tenant} {
		c := newChoosing(t)
		calls := call.New(call.Config{Store: c.Store, Directory: c.Answerer, Texts: textkeys.New(c.Store, c.Vault, now, rand.Reader, 0), Now: now, Rand: rand.Reader})
		r, err := c.Create(t.Context(), vacants.CreateSpec{Name: "lead", Capability: "leads", Substrate: "echo", Tenant: tenant, Asker: vacants.OperatorAsker()})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err = c.Spawn(t.Context(), vacants.SpawnSpec{Parent: r.ID, Path: "D2", Name: "kid", Substrate: "echo"}); err != nil {
			t.Fatal(err)
		}
		p := asking("kid")
		p.Aggregate = plan.Aggregate{Method: plan.BySubstrate, Substrate: "http:http://127.0.0.1:9000/"}
		if _, _, err = c.SetPlan(t.Context(), vacants.OperatorAsker(), r.ID, p); err != nil {
			t.Fatal(err)
		}
		lead, _, err := c.Vacant(t.Context(), r.ID, true)
		if err == nil {
			_, err = lead.Behaviour(t.Context(), calls, envelope.Envelope{From: r.ID, To: r.ID, Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hi"}}})
		}
		if err == nil {
			_, err = substrate.ReadAnswer(c.ThinkService().RunTurn(t.Context(), think.Turn{Agent: think.AgentVersion{Vacant: r.ID}, Request: substrate.NewTextRequest(r.ID, r.ID, "hi")}))
		}
		if err != nil || len(c.by) != 2 || c.by[0] != want || c.by[1] != want {
			t.Errorf("of tenant %q: %v: the combiner is told %d, here and in another process, want %d", tenant, err, c.by, want)
		}
	}
}

// Records of earlier versions of this program do not say who set the agent.
func TestARecordThatDoesNotSaySoIsTheTenants(t *testing.T) {
	c := newChoosing(t)
	for tenant, want := range map[string]outbound.URLChooser{"": outbound.Operator, "acme": outbound.Tenant} {
		r, err := c.Create(t.Context(), vacants.CreateSpec{Name: "of-" + tenant, Capability: "c", Substrate: "echo", Tenant: tenant, Asker: vacants.OperatorAsker()})
		if err != nil || r.Chooser != outbound.Operator {
			t.Fatalf("Create() = %d, %v", r.Chooser, err)
		}
		d, err := c.Store.Doc(t.Context(), vacants.RecordKey(r.ID))
		if err != nil {
			t.Fatal(err)
		}
		old := strings.Replace(string(d.Data), `,"by_operator":true`, "", 1)
		if (old != string(d.Data)) != (tenant != "") {
			t.Errorf("record of tenant %q: %s", tenant, d.Data)
		}
		if r, err = vacants.RecordDocs.Parse(store.Doc{Key: d.Key, Version: d.Version, Data: []byte(old)}); err != nil || r.Chooser != want {
			t.Errorf("of tenant %q = %d, %v, want %d", tenant, r.Chooser, err, want)
		}
	}
}
