package mcpserver_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// Tools at a vacant's address, as listed.
const (
	strangersTools = "ask get_task stop_task vacant_call vacant_describe"
	ownersTools    = "vacant_caller_review vacant_list_children vacant_spawn"
	delegateTools  = "vacant_delegate vacant_delegate_a2a"
)

// operatorKey is the operator's key of a host.
type operatorKey string

// Check implements admin.KeyChecker.
func (o operatorKey) Check(_ context.Context, key string) error {
	if key != string(o) {
		return problem.New(problem.Unauthorized, "another key")
	}
	return nil
}

// tools returns the names of the listed tools, or the status of a refusal.
func (w *world) tools(path, key string) string {
	w.Helper()
	got := w.rpc(path, "tools/list", `{}`, authorized(key))
	var r struct {
		Result struct{ Tools []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(got.body), &r); err != nil || got.status != 200 {
		return fmt.Sprint(got.status)
	}
	var names []string
	for _, one := range r.Result.Tools {
		names = append(names, one.Name)
	}
	return strings.Join(names, " ")
}

// authorized returns the header of a request with a key, or a header without meaning.
func authorized(key string) string {
	if key == "" {
		return "X: y"
	}
	return "Authorization: Bearer " + key
}

func scopes(all ...billing.Scope) billing.KeyOptions { return billing.KeyOptions{Scopes: all} }

// owned is a host with a vacant of the tenant acme, boss, and a key that may use all tools of its owner.
func owned(t *testing.T, changes ...func(*serve.Config)) (w *world, key string) {
	w = newWorld(t, changes...)
	key = w.key("acme", scopes(billing.ScopeCall, billing.ScopeVacants, billing.ScopeAgents))
	w.create(vacants.CreateSpec{Name: "boss", Substrate: "echo", Tenant: "acme"})
	return w, key
}

// childOf spawns a child of boss.
func (w *world) childOf(path, name string) vacants.Record {
	w.Helper()
	boss, err := w.Vacants.GetByName(w.Context(), vacants.OperatorAsker(), "boss")
	w.Must(err)
	s := vacants.SpawnSpec{Asker: vacants.TenantAsker("acme"), Parent: boss.ID, Path: "D2", Name: name}
	if path == "D1" {
		s.Path, s.Rule = "D1", "be brief"
	}
	r, _, err := w.Vacants.Spawn(w.Context(), s)
	w.Must(err)
	return r
}

// Only the operator and live keys of the vacant's tenant with the scopes see the owner's tools, and only they can
// call them.
func TestOnlyTheOwnerSeesTheOwnersTools(t *testing.T) {
	const operator = "the operator's key"
	w, owner := owned(t, func(c *serve.Config) { c.Operator = operatorKey("the-operators-key") })
	w.childOf("D2", "closed")
	test := scopes(billing.ScopeCall, billing.ScopeVacants, billing.ScopeAgents)
	test.Test = true
	all := strangersTools + " " + delegateTools + " " + ownersTools
	for name, tt := range map[string]struct{ key, tools string }{
		"a stranger":               {"", strangersTools},
		"another tenant":           {w.key("other", scopes(billing.ScopeCall, billing.ScopeVacants, billing.ScopeAgents)), strangersTools},
		"without a scope":          {w.key("acme", billing.KeyOptions{}), strangersTools},
		"with agents only":         {w.key("acme", scopes(billing.ScopeCall, billing.ScopeAgents)), strangersTools},
		"a test key":               {w.key("acme", test), strangersTools},
		"with vacants only":        {w.key("acme", scopes(billing.ScopeCall, billing.ScopeVacants)), strangersTools + " " + ownersTools},
		"with both":                {owner, all},
		"without call":             {w.key("acme", scopes(billing.ScopeVacants, billing.ScopeAgents)), "vacant_describe " + delegateTools + " " + ownersTools},
		"that only reads":          {w.key("acme", scopes(billing.ScopeRead)), "403"},
		"another's without call":   {w.key("other", scopes(billing.ScopeVacants)), "403"},
		operator:                   {"the-operators-key", "vacant_describe " + delegateTools + " " + ownersTools},
		"a wrong key of operators": {"another-key", "401"},
	} {
		got := w.tools("/v/boss/mcp", tt.key)
		if !sameWords(got, tt.tools) {
			t.Errorf("%s sees %s, want %s", name, got, tt.tools)
		}
		if hidden := w.tools("/v/closed/mcp", tt.key); hidden != "404" && hidden != tt.tools {
			t.Errorf("%s sees the tools of a closed child: %s", name, hidden)
		}
		for _, tool := range strings.Fields(all) {
			arguments := `{"child_name":"closed","task":"hi","policy_mutation":"be kind"}`
			if strings.Contains(" "+got+" ", " "+tool+" ") || len(got) == len("403") {
				continue
			}
			if answer := w.rpc("/v/boss/mcp", "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments), authorized(tt.key)); !strings.Contains(answer.body, fmt.Sprintf(`unknown tool \"%s\"`, tool)) {
				t.Errorf("%s calls %s: %d %s", name, tool, answer.status, answer.body)
			}
		}
	}
	if got := w.tools("/v/echo/mcp", owner); got != strangersTools {
		t.Errorf("at a vacant without a tenant, a tenant sees %s", got)
	}
	if got := w.call("/v/boss/mcp", "vacant_delegate", `{"child_name":"closed","task":"hi"}`, authorized("the-operators-key")); !strings.HasSuffix(fmt.Sprint(got.Data["answer"]), ": hi") {
		t.Errorf("the operator delegates: %s", got.text())
	}
	if got := w.call("/v/boss/mcp", "vacant_spawn", `{"policy_mutation":"be kind"}`, authorized("the-operators-key")); got.Data["ok"] != true {
		t.Errorf("the operator spawns: %s", got.text())
	}
	a, err := w.Billing.FindAccount(t.Context(), "acme")
	w.Must(err)
	keys, err := w.Billing.Keys(t.Context(), a.ID)
	w.Must(err)
	for _, one := range keys {
		if strings.HasPrefix(owner, one.Prefix) {
			_, err := w.Billing.RevokeKey(t.Context(), nil, a.ID, one.ID)
			w.Must(err)
		}
	}
	for _, method := range []string{"tools/list", "tools/call"} {
		if got := w.rpc("/v/boss/mcp", method, `{"name":"vacant_list_children"}`, authorized(owner)); got.status != 401 {
			t.Errorf("%s with a revoked key: %d %s", method, got.status, got.body)
		}
	}
}

func sameWords(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	for _, word := range x {
		if !strings.Contains(" "+b+" ", " "+word+" ") {
			return false
		}
	}
	return len(x) == len(y)
}

// The owner's vacant reviews the answer that another tenant's vacant gave it, and logs that. The vacants of its owner
// and its relatives are not reviewed.
func TestTheOwnerReviewsAsTheVacant(t *testing.T) {
	w, owner := owned(t)
	key := authorized(owner)
	boss, err := w.Vacants.GetByName(t.Context(), vacants.OperatorAsker(), "boss")
	w.Must(err)
	target := w.create(vacants.CreateSpec{Name: "theirs", Substrate: "echo", Tenant: "other"})
	mine := w.create(vacants.CreateSpec{Name: "mine", Substrate: "echo", Tenant: "acme"})
	ask := func(to identity.ID) {
		e := envelope.Envelope{From: boss.ID, To: to, Seq: 1, Time: w.now(), IdempotencyKey: "k", Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hi"}}}
		w.Must(w.Vacants.WithSigner(t.Context(), boss.ID, func(s identity.Signer) error { _, err := e.Sign(t.Context(), s); return err }))
		if out := w.Calls.Send(t.Context(), identity.ID{}, &e); out.Problem != nil {
			t.Fatal(out.Problem)
		}
	}
	review := func(target identity.ID, more string) called {
		return w.call("/v/boss/mcp", "vacant_caller_review", fmt.Sprintf(`{"target_vacant_id_hex":%q,"factual":1,"logical":0.5,"relevance":1%s}`, target, more), key)
	}
	if got := review(target.ID, ""); got.Is || !strings.Contains(fmt.Sprint(got.Data["error"]), "has no answer of") {
		t.Errorf("a review without a call: %s", got.text())
	}
	ask(target.ID)
	ask(mine.ID)
	for more, want := range map[string]string{
		`,"honesty":2`: "honesty", `,"call_envelope_id_hex":"x"`: "call_envelope_id_hex", fmt.Sprintf(`,"call_envelope_id_hex":"%064d"`, 7): "expected the hash of an answered call",
	} {
		if got := review(target.ID, more); !strings.Contains(got.text(), want) || got.Data["ok"] != nil {
			t.Errorf("a review with %s: %s, want %s", more, got.text(), want)
		}
	}
	if got := review(mine.ID, ""); !strings.Contains(fmt.Sprint(got.Data["error"]), "reviewer and vacant have the same owner") {
		t.Errorf("a review of a vacant of the same owner: %s", got.text())
	}
	got := review(target.ID, `,"honesty":0.5,"claim":"echoes well"`)
	if got.Data["ok"] != true || got.Data["reviewer_vacant_id_hex"] != boss.ID.String() || got.Data["target_vacant_id_hex"] != target.ID.String() || got.Data["delivered_locally"] != true {
		t.Fatalf("the review: %s", got.text())
	}
	if again := review(target.ID, ""); !strings.Contains(fmt.Sprint(again.Data["error"]), "was reviewed before") {
		t.Errorf("another review of the same answer: %s", again.text())
	}
	r, err := w.Reviews.Reputation(t.Context(), target.ID)
	w.Must(err)
	if r.Rows != 1 || math.Abs(r.States[r.CurrentSubstrate].Factual.Evidence-0.18) > 1e-9 {
		t.Errorf("the reputation is %+v, want one review in full", r)
	}
	entries, err := w.Vacants.Logbook(t.Context(), boss.ID, 1, 10)
	w.Must(err)
	if last := entries[len(entries)-1].Entry; last.Kind != logbook.KindReviewIssued || !strings.Contains(string(last.Payload), target.ID.String()) || strings.Contains(string(last.Payload), "echoes well") {
		t.Errorf("the logbook ends with %s %s", last.Kind, last.Payload)
	}
}

// The owner creates children with one more rule, and lists them with their rules.
func TestTheOwnerSpawnsAndListsChildren(t *testing.T) {
	w, owner := owned(t)
	key := authorized(owner)
	boss, err := w.Vacants.GetByName(t.Context(), vacants.OperatorAsker(), "boss")
	w.Must(err)
	if got := w.call("/v/boss/mcp", "vacant_list_children", `{}`, key); got.text() != fmt.Sprintf(`{"children":[],"parent_vacant_id_hex":%q}`, boss.ID) {
		t.Errorf("the list without children is %s", got.text())
	}
	made := w.call("/v/boss/mcp", "vacant_spawn", `{"policy_mutation":"be brief","child_name_hint":"clerk"}`, key)
	id, _ := made.Data["child_vacant_id_hex"].(string)
	if want := fmt.Sprintf(`{"child_name":"clerk","child_vacant_id_hex":%q,"ok":true,"parent_vacant_id_hex":%q,"path":"D1","policy_mutation":"be brief"}`, id, boss.ID); made.text() != want || len(id) != 64 {
		t.Errorf("the child is %s, want %s", made.text(), want)
	}
	if again := w.call("/v/boss/mcp", "vacant_spawn", `{"policy_mutation":"be brief","child_name_hint":"clerk"}`, key); again.text() != made.text() {
		t.Errorf("the same request again: %s", again.text())
	}
	unnamed := w.call("/v/boss/mcp", "vacant_spawn", `{"policy_mutation":"be kind"}`, key)
	again := w.call("/v/boss/mcp", "vacant_spawn", `{"policy_mutation":"be kind"}`, key)
	other := w.call("/v/boss/mcp", "vacant_spawn", `{"policy_mutation":"be late"}`, key)
	if name, _ := unnamed.Data["child_name"].(string); !strings.HasPrefix(name, "boss-") || again.text() != unnamed.text() || other.Data["child_name"] == name {
		t.Errorf("unnamed children: %s, again %s, another %s", unnamed.text(), again.text(), other.text())
	}
	for arguments, want := range map[string]string{
		`{"policy_mutation":"be kind","child_name_hint":"echo"}`: "the name echo is in use",
		`{"policy_mutation":"be kind","child_name_hint":"a b"}`:  "name: expected",
	} {
		if got := w.call("/v/boss/mcp", "vacant_spawn", arguments, key); got.Is || !strings.Contains(fmt.Sprint(got.Data["error"]), want) || got.Data["ok"] != nil {
			t.Errorf("spawn %s: %s, want %s", arguments, got.text(), want)
		}
	}
	w.childOf("D2", "closed")
	w.call("/v/boss/mcp", "vacant_delegate", `{"child_name":"clerk","task":"hi"}`, key)
	listed := w.call("/v/boss/mcp", "vacant_list_children", `{}`, key)
	rules, counts := map[any]any{}, map[any]any{}
	for _, one := range listed.Data["children"].([]any) {
		child := one.(map[string]any)
		rules[child["name"]], counts[child["name"]] = child["policy_mutation"], child["inference_count"]
		if reputation, ok := child["reputation_5d"]; !ok || reputation != nil || child["capability_text"] != "Repeats" || child["review_count"] != 0.0 || child["last_heartbeat_at"] != nil {
			t.Errorf("the child %v", child)
		}
	}
	if len(rules) != 4 || rules["clerk"] != "be brief" || rules[unnamed.Data["child_name"]] != "be kind" || rules["closed"] != "" || counts["clerk"] != 1.0 || counts["closed"] != 0.0 {
		t.Errorf("the children have the rules %v and the calls %v", rules, counts)
	}
	if got := w.call("/v/boss/mcp", "vacant_list_children", `{"cursor":"x"}`, key); !strings.Contains(fmt.Sprint(got.Data["error"]), "cursor") {
		t.Errorf("a wrong cursor: %s", got.text())
	}
}

// The owner delegates tasks to children, as the vacant. A failure is a result with the member error.
func TestTheOwnerDelegatesToChildren(t *testing.T) {
	w, owner := owned(t)
	key := authorized(owner)
	clerk := w.childOf("D1", "clerk")
	closed := w.childOf("D2", "closed")
	w.create(vacants.CreateSpec{Name: "secret", Substrate: "echo", Tenant: "other"})
	got := w.call("/v/boss/mcp", "vacant_delegate", `{"child_name":"clerk","task":"hi"}`, key)
	request, _ := got.Data["request_envelope_id_hex"].(string)
	reply, _ := got.Data["response_envelope_id_hex"].(string)
	if want := fmt.Sprintf(`{"answer":"echo from %s: hi","child_name":"clerk","child_vacant_id_hex":%q,"model_hint":"client-default","ok":true,"request_envelope_id_hex":%q,"response_envelope_id_hex":%q,"substrate":"echo"}`, clerk.ID.Short(), clerk.ID, request, reply); got.text() != want || len(request) != 64 || len(reply) != 64 || request == reply {
		t.Errorf("the answer is %s, want %s", got.text(), want)
	}
	got = w.call("/v/boss/mcp", "vacant_delegate_a2a", `{"child_name":"closed","task":"ho","timeout_s":60.0}`, key)
	if at, _ := got.Data["child_endpoint"].(string); !strings.HasSuffix(fmt.Sprint(got.Data["answer"]), ": ho") || got.Data["transport"] != "a2a-http" || !strings.Contains(at, "/v/"+closed.ID.String()) || got.Data["substrate"] != nil {
		t.Errorf("the answer is %s", got.text())
	}
	boss, err := w.Vacants.GetByName(t.Context(), vacants.OperatorAsker(), "boss")
	w.Must(err)
	book, err := w.Vacants.Logbook(t.Context(), boss.ID, 1, 100)
	w.Must(err)
	var kinds []string
	for _, one := range book {
		kinds = append(kinds, one.Entry.Kind)
	}
	if n := strings.Count(strings.Join(kinds, " "), "COMPOSITE_DELEGATE"); n != 2 {
		t.Errorf("the logbook of boss has %v", kinds)
	}
	_, err = w.Vacants.Pause(t.Context(), clerk.ID)
	w.Must(err)
	w.skip.Add(int64(2 * time.Second))
	for _, tt := range []struct{ tool, arguments, want string }{
		{"vacant_delegate", `{"child_name":"clerk","task":"hi"}`, "child " + clerk.ID.Short() + ": it is HIBERNATING"},
		{"vacant_delegate_a2a", `{"child_name":"clerk","task":"hi"}`, "a2a_http_status: 423 child " + clerk.ID.Short() + ": it is HIBERNATING"},
		{"vacant_delegate", `{"child_name":"boss","task":"hi"}`, `"boss" is not a direct descendant of vacant ` + boss.ID.Short()},
		{"vacant_delegate", `{"child_name":"secret","task":"hi"}`, `"secret" is not a direct descendant of vacant ` + boss.ID.Short()},
		{"vacant_delegate", `{"child_name":"nobody","task":"hi"}`, `"nobody" is not a direct descendant of vacant ` + boss.ID.Short()},
		{"vacant_delegate_a2a", `{"child_name":"a b","task":"hi"}`, `"a b" is not a direct descendant of vacant ` + boss.ID.Short()},
	} {
		got := w.call("/v/boss/mcp", tt.tool, tt.arguments, key)
		if want, _ := json.Marshal(map[string]string{"error": tt.want}); got.Is || got.text() != string(want) {
			t.Errorf("%s %s: %s, want %s", tt.tool, tt.arguments, got.text(), want)
		}
	}
	for arguments, want := range map[string]string{
		`{"child_name":"closed"}`:                             "task",
		`{"child_name":"closed","task":""}`:                   "task",
		`{"child_name":"closed","task":"hi","timeout_s":"x"}`: "timeout_s",
		`{"child_name":"closed","task":"hi","mood":"good"}`:   "mood",
	} {
		if got := w.call("/v/boss/mcp", "vacant_delegate_a2a", arguments, key); !got.Is || got.Data["code"] != "malformed" || !strings.Contains(got.text(), want) {
			t.Errorf("%s: %s", arguments, got.text())
		}
	}
	_, err = w.Vacants.Pause(t.Context(), boss.ID)
	w.Must(err)
	w.skip.Add(int64(2 * time.Second))
	if got := w.call("/v/boss/mcp", "vacant_delegate", `{"child_name":"closed","task":"hi"}`, key); got.text() != `{"error":"vacant HIBERNATING; not accepting calls"}` {
		t.Errorf("a paused vacant delegates: %s", got.text())
	}
}

// A child that does not answer in time is refused within the time.
func TestADelegatedTaskHasATime(t *testing.T) {
	w := newWorld(t)
	key := authorized(w.key("acme", scopes(billing.ScopeVacants, billing.ScopeAgents)))
	w.create(vacants.CreateSpec{Name: "boss", Substrate: "slow", Tenant: "acme"})
	w.childOf("D1", "late")
	for _, seconds := range []string{"0.2", "0"} {
		began := time.Now()
		got := w.call("/v/boss/mcp", "vacant_delegate_a2a", `{"child_name":"late","task":"hi","timeout_s":`+seconds+`}`, key)
		if text := fmt.Sprint(got.Data["error"]); !strings.HasPrefix(text, "a2a_http_failed: ") || time.Since(began) > 5*time.Second {
			t.Errorf("after %s: %s", time.Since(began), got.text())
		}
	}
}

// shopper asks the vacant that is its tool, if it has one.
type shopper struct{ sales *atomic.Int64 }

// Infer implements substrate.Substrate.
func (s shopper) Infer(_ context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		switch last := &r.Turns[len(r.Turns)-1]; {
		case last.Role == substrate.RoleTools:
			_ = yield(substrate.Text(last.Results[0].Text), nil) && yield(substrate.FinishStop, nil)
		case len(r.Tools) > 0:
			_ = yield(substrate.ToolCall{ID: "1", Name: r.Tools[0].Name, Arguments: `{"message":"hi"}`}, nil) && yield(substrate.FinishToolUse, nil)
		default:
			s.sales.Add(1)
			_ = yield(substrate.Text("sold"), nil) && yield(substrate.FinishStop, nil)
		}
	}
}

// The limits of the key bound what its account pays for all calls that answer a delegated task.
func TestTheKeyBoundsTheCostOfADelegatedTask(t *testing.T) {
	var sales atomic.Int64
	w := newWorld(t, func(c *serve.Config) {
		c.Substrates[substrate.KindMock] = func(string) (substrate.Substrate, error) { return shopper{&sales}, nil }
	})
	shop := w.create(vacants.CreateSpec{Name: "shop", Agent: &definition.Agent{Provider: substrate.KindMock}, Tenant: "seller"})
	_, err := w.Vacants.SetPrice(t.Context(), shop.ID, price.Price{Flat: flat})
	w.Must(err)
	w.publish(shop)
	balance := func() money.Amount {
		a, err := w.Billing.FindAccount(t.Context(), "acme")
		w.Must(err)
		m, err := w.Billing.Balance(t.Context(), &a)
		w.Must(err)
		return m
	}
	all := func(o billing.KeyOptions) string {
		o.Scopes = []billing.Scope{billing.ScopeVacants, billing.ScopeAgents}
		return authorized(w.key("acme", o))
	}
	tight, capped, exact := all(billing.KeyOptions{MaxPrice: flat - 1}), all(billing.KeyOptions{DailyCap: flat - 1}), all(billing.KeyOptions{MaxPrice: flat, DailyCap: flat})
	w.create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "boss", Agent: &definition.Agent{Provider: substrate.KindMock, Vacants: []string{"shop"}}, Tenant: "acme"})
	clerk := w.childOf("D1", "clerk")
	w.link("acme", clerk.ID)
	w.skip.Add(int64(2 * time.Second))
	before := balance()
	for name, tt := range map[string]struct{ key, want string }{
		"the limit per call": {tight, "a call that the key allows"},
		"the cap":            {capped, "cap"},
	} {
		for _, tool := range strings.Fields(delegateTools) {
			got := w.call("/v/boss/mcp", tool, `{"child_name":"clerk","task":"buy"}`, tt.key)
			if text := fmt.Sprint(got.Data["answer"], got.Data["error"]); !strings.Contains(text, tt.want) {
				t.Errorf("%s above %s: %s", tool, name, got.text())
			}
		}
	}
	if n := sales.Load(); n != 0 || balance() != before {
		t.Fatalf("%d sales, %s paid, want none", n, before-balance())
	}
	if got := w.call("/v/boss/mcp", "vacant_delegate", `{"child_name":"clerk","task":"buy"}`, exact); got.Data["answer"] != "sold" || before-balance() != flat {
		t.Errorf("within the limits: %s, %s paid", got.text(), before-balance())
	}
	if got := w.call("/v/boss/mcp", "vacant_delegate", `{"child_name":"clerk","task":"buy"}`, exact); got.Data["answer"] == "sold" || before-balance() != flat {
		t.Errorf("above the cap of the day: %s, %s paid", got.text(), before-balance())
	}
}

// link lets the account of a tenant pay for a vacant.
func (w *world) link(tenant string, vacant identity.ID) {
	w.Helper()
	a, err := w.Billing.FindAccount(w.Context(), tenant)
	w.Must(err)
	self, err := w.Vacants.HostID(w.Context())
	w.Must(err)
	w.Must(w.Vacants.WithSigner(w.Context(), vacant, func(s identity.Signer) error {
		c := claim.PaymentClaim{Host: self, Account: a.ID}
		if err := c.Sign(w.Context(), s, w.now()); err != nil {
			return err
		}
		_, err := w.Billing.Link(w.Context(), a.ID, c.String())
		return err
	}))
}

// The tools of AGP are listed for keys that may send envelopes, and answer as AGP does.
func TestAGPOverMCP(t *testing.T) {
	w := newWorld(t)
	const tools = "agnt.confirm_booking agnt.list_venues agnt.ping agnt.search_venues"
	const strangers = "ask_agent describe_agent get_task search_agents stop_task"
	free, pro := w.key("acme", billing.KeyOptions{Tier: billing.Free}), w.key("acme", billing.KeyOptions{Tier: billing.Pro, Test: true, AgentIDs: []string{"ann"}})
	for name, tt := range map[string]struct{ key, tools string }{
		"a stranger": {"", strangers},
		"a caller":   {w.key("acme", billing.KeyOptions{}), strangers},
		"both":       {w.key("acme", billing.KeyOptions{Tier: billing.Free, Scopes: []billing.Scope{billing.ScopeCall, billing.ScopeAGP}}), strangers + " " + tools},
		"agp only":   {free, "describe_agent search_agents " + tools},
		"a reader":   {w.key("acme", scopes(billing.ScopeRead)), "403"},
	} {
		if got := w.tools("/mcp", tt.key); !sameWords(got, tt.tools) {
			t.Errorf("%s sees %s, want %s", name, got, tt.tools)
		}
		if got := w.tools("/v/echo/mcp", tt.key); strings.Contains(got, "agnt") {
			t.Errorf("%s sees tools of AGP at a vacant: %s", name, got)
		}
	}
	if got := w.rpc("/mcp", "tools/call", `{"name":"agnt.ping"}`); !strings.Contains(got.body, "unknown tool") {
		t.Errorf("a stranger pings: %s", got.body)
	}
	for _, name := range []string{"agnt.ping", "agnt_ping"} {
		if got := w.call("/mcp", name, `{}`, authorized(free)); got.Is || got.Data["status"] != "connected" || got.Data["tier"] != "free" {
			t.Errorf("%s: %s", name, got.text())
		}
	}
	if got := w.call("/mcp", "agnt.search_venues", `{"query":"dinner","limit":3,"location":null}`, authorized(free)); got.Is || got.Data["query"] != "dinner" || got.Data["venues"] == nil {
		t.Errorf("search: %s", got.text())
	}
	if got := w.call("/mcp", "agnt.list_venues", `{}`, authorized(free)); got.Is || got.Data["count"] != 0.0 {
		t.Errorf("list: %s", got.text())
	}
	for _, tt := range []struct{ tool, arguments, key, code, text string }{
		{"agnt.confirm_booking", `{"venue_slug":"shop"}`, free, "tier_required", "needs a key of tier pro or enterprise"},
		{"agnt.confirm_booking", `{"venue_slug":"nobody"}`, pro, "venue_not_found", "a test key can book only venue:test"},
		{"agnt.search_venues", `{"limit":"many"}`, free, "invalid_request", "limit"},
		{"agnt.ping", `{"from":"bob"}`, pro, "sender_mismatch", "from: expected an agent of the key"},
		{"agnt.ping", `{"mood":"good"}`, free, "", "mood: not supported"},
		{"agnt.ping", `{"from":7}`, free, "", "from: expected a string"},
	} {
		got := w.call("/mcp", tt.tool, tt.arguments, authorized(tt.key))
		refused, _ := got.Data["error"].(map[string]any)
		if code, _ := refused["code"].(string); !got.Is || code != tt.code || !strings.Contains(got.text(), tt.text) {
			t.Errorf("%s %s: %s %v", tt.tool, tt.arguments, got.text(), got.Data)
		}
	}
	meta := `{"io.github.vacancy-host/idempotency-key":"k1"}`
	booked := w.callMeta("/mcp", "agnt.confirm_booking", `{"venue_slug":"test","party_size":2}`, meta, authorized(pro))
	again := w.callMeta("/mcp", "agnt.confirm_booking", `{"venue_slug":"test","party_size":2}`, meta, authorized(pro))
	if booked.Is || booked.Data["booking_id"] == nil || again.Data["booking_id"] != booked.Data["booking_id"] {
		t.Errorf("booked %s, again %s", booked.text(), again.text())
	}
	direct := w.do("POST", "/a2a/v1", `{"from":"mcp","intent":"network.ping"}`, authorized(free))
	if got := w.call("/mcp", "agnt.ping", `{}`, authorized(free)); strings.TrimSpace(direct.body) != got.text() {
		t.Errorf("by AGP %s, by MCP %s", cmp.Or(direct.body, fmt.Sprint(direct.status)), got.text())
	}
}
