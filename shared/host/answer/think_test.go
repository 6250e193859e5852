package answer_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/substrate/think"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// sealOnly is the vault of a process that opens no secret.
type sealOnly struct{ custody.Vault }

func (v sealOnly) Open(ctx context.Context, bound string, box []byte) ([]byte, error) {
	if strings.HasPrefix(bound, "secret:") {
		return nil, problem.New(problem.Forbidden, "no secret is opened here")
	}
	return v.Vault.Open(ctx, bound, box)
}

// parted is a host in two processes: front answers calls, and lets back ask models.
type parted struct {
	front, back *vacants.Directory
	told        *[]string // secrets that back's models were sent
	requests    [][]byte  // of front to back
}

func newParted(t *testing.T) *parted {
	t.Helper()
	s, va := memory.New(), vault(t)
	p := &parted{front: host(t, s, sealOnly{va}), back: host(t, s, va), told: new([]string)}
	for v, va := range map[*vacants.Directory]custody.Vault{p.front: sealOnly{va}, p.back: va} {
		v.Resources.Secrets = secrets.New(definition.SecretKind, s, va, now, rand.Reader)
		v.Resources.Budgets, v.Resources.Models = spend.New(store.Updater{Store: s, Rand: rand.Reader}, now, spend.DefaultHostBudget), models.NewTables(s, now, rand.Reader)
		v.Resources.Functions = resources.Functions{"acme": {answers}, "": {own}}
	}
	kinds := []string{substrate.KindAnthropic, substrate.KindBedrock, substrate.KindLambda, substrate.KindHTTP}
	for _, kind := range kinds {
		p.back.Resources.Substrates[kind] = func(string) (substrate.Substrate, error) { return &noting{p.told}, nil }
	}
	p.back.Resources.Substrates[substrate.KindMock] = mock.Kinds()[substrate.KindMock]
	p.front.Resources.ThinkService = think.NewClient(func(ctx context.Context, request []byte) ([]byte, error) {
		p.requests = append(p.requests, request)
		return io.ReadAll(think.Serve(ctx, answering(p.back).ThinkService(), request, func(context.Context, think.Report) {}))
	})
	for kind, make := range think.Kinds(p.front.Resources.ThinkService, append(kinds[:3], substrate.KindMock)...) {
		p.front.Resources.Substrates[kind] = make
	}
	p.front.Resources.Substrates[substrate.KindHTTP] = func(string) (substrate.Substrate, error) { return &noting{new([]string)}, nil }
	return p
}

const (
	answers = "arn:aws:lambda:us-east-1:123456789012:function:answers"
	own     = "arn:aws:lambda:us-east-1:123456789012:function:own"
)

func (p *parted) create(t *testing.T, s vacants.CreateSpec) vacants.Record {
	t.Helper()
	s.Name, s.Capability = "sage", "knows"
	r, err := p.front.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ask asks a vacant in front.
func (p *parted) ask(t *testing.T, r *vacants.Record, text string) (string, error) {
	t.Helper()
	held, _, err := answering(p.front).Vacant(t.Context(), r.ID, true)
	if err != nil {
		t.Fatal(err)
	}
	m, err := held.Behaviour(t.Context(), new(call.Host), envelope.Envelope{To: r.ID, Payload: envelope.Message{Parts: []string{text}}})
	return strings.Join(m.Parts, "|"), err
}

func TestFrontAsksModelsThroughBack(t *testing.T) {
	p := newParted(t)
	keep(t, p.front, "", "anthropic", "canary-of-a-key")
	agent := claude()
	agent.System = "You are a secret sage"
	r := p.create(t, vacants.CreateSpec{Agent: agent})
	if text, err := p.ask(t, &r, "hi"); text != "yes" || err != nil {
		t.Fatalf("the answer = %q, %v", text, err)
	}
	if !slices.Equal(*p.told, []string{"canary-of-a-key"}) {
		t.Errorf("the model was told %q, want the secret", *p.told)
	}
	// What decides where a secret goes is not in the request.
	for _, word := range []string{"canary", "secret sage", "claude", "anthropic", "http"} {
		if bytes.Contains(p.requests[0], []byte(word)) {
			t.Errorf("the request names %q: %s", word, p.requests[0])
		}
	}
	// One turn is counted, and settled by what it used.
	if b, err := p.back.Resources.Budgets.Budget(t.Context(), ""); err != nil || b.Spent != 7500 {
		t.Errorf("%s is spent, %v; want $0.0075", b.Spent, err)
	}
}

// overloaded is a model that answers with its name, unless it is busy.
type overloaded struct {
	model string
	busy  map[string]int // number of times that a model is busy
}

func (o overloaded) Infer(context.Context, substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		if o.busy[o.model] > 0 {
			o.busy[o.model]--
			yield(nil, &call.AgentError{Status: 529, Err: problem.New(problem.SubstrateBusy, "overloaded")})
			return
		}
		_ = yield(substrate.Usage{InputTokens: 1000, OutputTokens: 100}, nil) && yield(substrate.Text(o.model), nil) && yield(substrate.FinishStop, nil)
	}
}

// A busy model is replaced by the fallback model, or else asked once more, by one process and by two. Only the turn that
// is answered costs anything.
func TestAFallbackModelAnswersForABusyModel(t *testing.T) {
	const model, fallback = "claude-opus-4-6", "claude-haiku-4-5"
	for _, isParted := range []bool{false, true} {
		for _, tt := range []struct {
			busy     map[string]int
			fallback string
			want     string // "" if the call fails
			spent    money.Amount
		}{
			{nil, fallback, model, 7500},
			{map[string]int{fallback: 9}, fallback, model, 7500},
			{map[string]int{model: 9}, fallback, fallback, 1500},
			{map[string]int{model: 9, fallback: 9}, fallback, "", 0},
			{map[string]int{model: 1}, "", model, 7500},
			{map[string]int{model: 2}, "", "", 0},
		} {
			p := newParted(t)
			p.back.Resources.Substrates[substrate.KindAnthropic] = func(argument string) (substrate.Substrate, error) {
				return overloaded{argument, tt.busy}, nil
			}
			if !isParted {
				p.front = p.back
			}
			keep(t, p.front, "", "anthropic", "canary-of-a-key")
			name := fmt.Sprintf("parted %t, busy %v, fallback %q", isParted, tt.busy, tt.fallback)
			r := p.create(t, vacants.CreateSpec{Agent: &definition.Agent{Provider: substrate.KindAnthropic, Model: model, FallbackModel: tt.fallback}})
			text, err := p.ask(t, &r, "hi")
			if text != tt.want || tt.want == "" && !problem.Is(err, problem.SubstrateBusy) || tt.want != "" && err != nil {
				t.Errorf("%s: the answer = %q, %v, want %q", name, text, err, tt.want)
			}
			if b, err := p.back.Resources.Budgets.Budget(t.Context(), ""); err != nil || b.Spent != tt.spent {
				t.Errorf("%s: %s is spent, %v, want %s", name, b.Spent, err, tt.spent)
			}
		}
	}
}

// The logbook entry of an answer names the model that answered.
func TestTheLogbookNamesTheModelThatAnswered(t *testing.T) {
	for busy, want := range map[string]string{"none": "m", "m": "n"} {
		c := hosttest.New(t, memory.New()).Caller()
		c.Vacants.Resources.Substrates[substrate.KindMock] = func(argument string) (substrate.Substrate, error) {
			return overloaded{argument, map[string]int{busy: 9}}, nil
		}
		_, err := c.Vacants.Update(c.Ctx, c.Demo.ID, vacants.Changes{Agent: &definition.Agent{Provider: substrate.KindMock, Model: "m", FallbackModel: "n"}})
		c.Must(err)
		c.Call("hi")
		row, err := c.Store.Tip(c.Ctx, store.StreamOf(store.KindLogbook, c.Demo.ID))
		c.Must(err)
		var last logbook.Entry
		c.Must(last.UnmarshalBinary(row.Data))
		i, err := logbook.ParseInference(last.Payload)
		if err != nil || i.Model != want || i.ResponseHash != identity.Sum([]byte(want)) {
			t.Errorf("while %s is busy, the entry is %s, %v, want the model %s", busy, last.Payload, err, want)
		}
	}
}

// A script of tools, thoughts and usage is answered alike by one process and by two.
func TestTwoProcessesAnswerLikeOne(t *testing.T) {
	script := "```mock\nthought: hm\ncall: vacant {\"message\":\"x\"}\ncall: mcp__notes__look {\"for\":\"a\"}\nusage: 10 5\n---\ntext: it gave {result}\nusage: 20 7\n```"
	agent := &definition.Agent{Provider: "mock", System: script, Price: &models.Price{InputPrice: money.Dollar, OutputPrice: money.Dollar}, MCPServers: []definition.Server{{Name: "notes", URL: "https://notes.example/mcp"}, {Name: "not", URL: "https://not.example/mcp"}}}
	servers := func(_ context.Context, _ identity.ID, _ outbound.URLChooser, servers []definition.Server) (offer loop.Offer, done func(), err error) {
		for _, s := range servers {
			offer.Tools = append(offer.Tools, loop.Tool{Tool: substrate.Tool{Name: "mcp__" + s.Name + "__look", Schema: json.RawMessage(`{"type":"object"}`)},
				Run: func(_ context.Context, _ *substrate.Request, arguments json.RawMessage) (string, error) {
					return s.Name + " " + string(arguments), nil
				}})
		}
		return offer, func() {}, nil
	}
	var texts []string
	var spent []money.Amount
	for _, one := range []bool{true, false} {
		p := newParted(t)
		p.back.Resources.Servers = servers
		if one {
			p.front.Resources.ThinkService, p.front.Resources.Servers = nil, servers
			p.front.Resources.Substrates[substrate.KindMock] = mock.Kinds()[substrate.KindMock]
		}
		r := p.create(t, vacants.CreateSpec{Agent: agent})
		text, err := p.ask(t, &r, "hi")
		if err != nil {
			t.Fatal(err)
		}
		b, err := p.back.Resources.Budgets.Budget(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		texts, spent = append(texts, text), append(spent, b.Spent)
		if !one && len(p.requests) != 4 { // the tools, two turns, and the tool that is there
			t.Errorf("%d requests, want 4: %s", len(p.requests), p.requests)
		}
	}
	if texts[0] != texts[1] || !strings.Contains(texts[0], `notes {"for":"a"}`) || strings.Contains(texts[0], "not {") {
		t.Errorf("answers %q, want the same", texts)
	}
	if spent[0] != spent[1] || spent[0] != 42 {
		t.Errorf("spent %v, want 42 micro-dollars by both", spent)
	}
}

// The model reads why a tool failed if its server ends between the list and the use of the tool.
func TestAServerThatEndsFailsItsToolOnly(t *testing.T) {
	p := newParted(t)
	lists := 0
	p.back.Resources.Servers = func(context.Context, identity.ID, outbound.URLChooser, []definition.Server) (offer loop.Offer, done func(), err error) {
		if lists++; lists == 1 {
			offer.Tools = append(offer.Tools, loop.Tool{Tool: substrate.Tool{Name: "mcp__notes__look", Schema: json.RawMessage(`{"type":"object"}`)}})
		} else {
			offer.OmittedTools.Add(call.OmittedTool{Name: "mcp__notes__*", Reason: "mcp server notes: the agent gave no answer"})
		}
		return offer, func() {}, nil
	}
	r := p.create(t, vacants.CreateSpec{Agent: &definition.Agent{Provider: "mock", System: "```mock\ncall: mcp__notes__look {}\n---\ntext: {result}\n```", MCPServers: []definition.Server{{Name: "notes", URL: "https://notes.example/mcp"}}}})
	if text, err := p.ask(t, &r, "hi"); err != nil || text != "mcp server notes: the agent gave no answer" {
		t.Errorf("the answer is %q, %v", text, err)
	}
}

// A call's budget counts the turns that other processes settled.
func TestABudgetOfACallHoldsOverTurns(t *testing.T) {
	p := newParted(t)
	agent := &definition.Agent{Provider: "mock", System: "```mock\ncall: none {}\nusage: 900 100\n```", MaxTokens: 200,
		Price: &models.Price{InputPrice: money.Dollar, OutputPrice: money.Dollar}, Budget: new(money.Amount(3500))}
	r := p.create(t, vacants.CreateSpec{Agent: agent})
	_, err := p.ask(t, &r, "hi")
	// A turn reserves 1,024 tokens and the conversation, and costs 1,000 micro-dollars.
	if !problem.Is(err, problem.BudgetExceeded) || len(p.requests) != 4 {
		t.Errorf("the answer = %v after %d requests, want budget_exceeded at the fourth", err, len(p.requests))
	}
	if b, err := p.back.Resources.Budgets.Budget(t.Context(), ""); err != nil || b.Spent != 3000 {
		t.Errorf("%s is spent, %v; want $0.003", b.Spent, err)
	}
}

func turn(t *testing.T, s think.Service, of think.AgentVersion) (substrate.Answer, error) {
	t.Helper()
	return substrate.ReadAnswer(s.RunTurn(t.Context(), think.Turn{Agent: of, Request: substrate.NewTextRequest(identity.ID{1}, of.Vacant, "hi")}))
}

func TestACallEndsByTheVersionWithWhichItBegan(t *testing.T) {
	p := newParted(t)
	said := func(text string) *definition.Agent {
		return &definition.Agent{Provider: "mock", System: "```mock\ntext: " + text + "\n```"}
	}
	r := p.create(t, vacants.CreateSpec{Agent: said("one")})
	if _, err := p.front.Update(t.Context(), r.ID, vacants.Changes{Agent: said("two")}); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[int]string{1: "one", 2: "two"} {
		if a, err := turn(t, p.front.Resources.ThinkService, think.AgentVersion{Vacant: r.ID, Version: version}); a.Text != want || err != nil {
			t.Errorf("version %d = %q, %v; want %q", version, a.Text, err, want)
		}
	}
	for what, of := range map[string]think.AgentVersion{
		"version 0": {Vacant: r.ID}, "version 3": {Vacant: r.ID, Version: 3}, "nobody": {Vacant: identity.ID{9}, Version: 1},
	} {
		_, err := turn(t, p.front.Resources.ThinkService, of)
		wantKind(t, what, err, problem.SubstrateMisconfigured)
	}
	if _, err := p.front.Sink(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := p.front.Archive(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := p.front.Delete(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	_, err := turn(t, p.front.Resources.ThinkService, think.AgentVersion{Vacant: r.ID, Version: 2})
	wantKind(t, "a deleted vacant", err, problem.SubstrateMisconfigured)
}

// A secret is not sent for an agent that may not have it any more, whatever front says.
func TestASecretGoesWhereItIsBoundTo(t *testing.T) {
	p := newParted(t)
	keep(t, p.front, "", "key", "k", "agents.example")
	r := p.create(t, vacants.CreateSpec{Agent: &definition.Agent{Provider: "http", BaseURL: "https://agents.example/a", Secret: "key"}})
	if text, err := p.ask(t, &r, "hi"); text != "yes" || err != nil || len(*p.told) != 1 {
		t.Fatalf("the answer = %q, %v; %d were told", text, err, len(*p.told))
	}
	keep(t, p.back, "", "key", "k", "other.example")
	_, err := p.ask(t, &r, "hi")
	wantKind(t, "a secret bound elsewhere", err, problem.SubstrateMisconfigured)
	if len(*p.told) != 1 {
		t.Errorf("the secret was told again: %q", *p.told)
	}
	// A program without a secret is asked by front itself.
	n := len(p.requests)
	if _, err := p.front.Update(t.Context(), r.ID, vacants.Changes{Agent: &definition.Agent{Provider: "http", BaseURL: "https://agents.example/a"}}); err != nil {
		t.Fatal(err)
	}
	if text, err := p.ask(t, &r, "hi"); text != "yes" || err != nil || len(p.requests) != n {
		t.Errorf("the answer = %q, %v, %d requests more; want none", text, err, len(p.requests)-n)
	}
}

func TestALambdaFunctionIsItsTenantsAlone(t *testing.T) {
	for _, tt := range []struct {
		tenant, arn string
		ok          bool
	}{
		{"acme", answers, true}, {"", own, true}, {"", answers, false}, {"other", answers, false}, {"acme", own, false}, {"acme", answers + ":live", false},
	} {
		p := newParted(t)
		s := vacants.CreateSpec{Name: "sage", Capability: "knows", Tenant: tt.tenant, Substrate: "lambda:" + tt.arn}
		r, err := p.front.Create(t.Context(), s)
		if !tt.ok {
			wantKind(t, tt.tenant+" with "+tt.arn, err, problem.Forbidden)
			continue
		}
		if err != nil {
			t.Fatalf("%q with %s: %v", tt.tenant, tt.arn, err)
		}
		if text, err := p.ask(t, &r, "hi"); text != "yes" || err != nil {
			t.Errorf("%q with %s: %q, %v", tt.tenant, tt.arn, text, err)
		}
		p.back.Resources.Functions = nil // a grant that was taken back
		_, err = p.ask(t, &r, "hi")
		wantKind(t, "a function that was taken back", err, problem.SubstrateMisconfigured)
	}
}

// What Bedrock costs is the operator's, whoever the tenant is.
func TestBedrockCountsForTenantAndHost(t *testing.T) {
	p := newParted(t)
	r := p.create(t, vacants.CreateSpec{Tenant: "acme", Substrate: "bedrock:eu.anthropic.claude-opus-4-6-v1"})
	if text, err := p.ask(t, &r, "hi"); text != "yes" || err != nil {
		t.Fatalf("the answer = %q, %v", text, err)
	}
	for _, owner := range []string{"", "acme"} {
		if b, err := p.back.Resources.Budgets.Budget(t.Context(), owner); err != nil || b.Spent != 7500 {
			t.Errorf("%q has spent %s, %v; want $0.0075", owner, b.Spent, err)
		}
	}
}

func TestTheCombinerOfAPlanIsAskedThroughBack(t *testing.T) {
	p := newParted(t)
	r := p.create(t, vacants.CreateSpec{Substrate: "echo"})
	if _, _, err := p.front.Spawn(t.Context(), vacants.SpawnSpec{Parent: r.ID, Path: "D2", Name: "clerk"}); err != nil {
		t.Fatal(err)
	}
	set := func(combiner string) error {
		pl, err := plan.Parse([]byte(`{"version":1,"delegate":[{"child":"clerk","task":"read {input}"}],"aggregate":{"how":"substrate","substrate":"` + combiner + `"}}`))
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = p.front.SetPlan(t.Context(), vacants.OperatorAsker(), r.ID, pl)
		return err
	}
	for _, combiner := range []string{"bedrock:amazon.nova-lite-v1:0", "anthropic:claude-opus-4-6", "lambda:" + own} {
		wantKind(t, combiner, set(combiner), problem.Malformed)
	}
	if err := set("mock"); err != nil {
		t.Fatal(err)
	}
	if a, err := turn(t, p.front.Resources.ThinkService, think.AgentVersion{Vacant: r.ID}); a.Text != "hi" || err != nil {
		t.Errorf("the combiner = %q, %v; want the mock's echo", a.Text, err)
	}
}
