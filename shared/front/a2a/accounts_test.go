package a2a_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// paying is a host with the accounts acme and other, each with a key.
type paying struct {
	*world
	acme, other string // headers
}

func known(t *testing.T) *paying {
	t.Helper()
	w := &paying{world: openWorld(t, true, func(c *serve.Config) { c.HasAccounts = true }).runs()}
	for tenant, to := range map[string]*string{"acme": &w.acme, "other": &w.other} {
		*to = "Authorization: Bearer " + w.key(tenant, false)
	}
	return w
}

// key is a key of a tenant, whose account is opened unless it has one.
func (w *world) key(tenant string, test bool, scopes ...billing.Scope) string {
	w.t.Helper()
	a, err := w.server.Billing.FindAccount(w.t.Context(), tenant)
	if problem.Is(err, problem.NotFound) {
		a, err = w.server.Billing.OpenAccount(w.t.Context(), tenant, 1)
	}
	must(w.t, err)
	_, secret, err := w.server.Billing.MakeKey(w.t.Context(), a.ID, billing.KeyOptions{Test: test, Scopes: scopes})
	must(w.t, err)
	return secret
}

func withID(id, text, more string) string {
	return fmt.Sprintf(`{"message":{"messageId":%q,"role":"ROLE_USER","parts":[{"text":%q}]%s}`, id, text, more)
}

func TestAKeyOfNobodyIsRefused(t *testing.T) {
	for hosts, w := range map[string]*world{"with accounts": known(t).world, "without": newWorld(t)} {
		for name, got := range map[string]answer{
			"a key":  w.rpc("/v/echo", "SendMessage", message("hi", ""), "Authorization: Bearer vac_live_"+strings.Repeat("a", 32)),
			"a text": w.rpc("/v/echo", "SendMessage", message("hi", ""), "Authorization: Bearer abc"),
			"Basic":  w.do("GET", "/v/echo/tasks", "", "Authorization: Basic YTpi"),
		} {
			if got.status != http.StatusUnauthorized || !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer ") || got.header.Get("Cache-Control") != "no-store" || at(t, got.body, "code") != "unauthorized" {
				t.Errorf("%s at a host %s: %d %v %s, want 401", name, hosts, got.status, got.header, got.body)
			}
		}
		if got := w.do("GET", "/v/echo", "", "Authorization: Bearer abc"); got.status != 200 {
			t.Errorf("the card at a host %s is %d", hosts, got.status)
		}
	}
}

func TestCardsDeclareKeys(t *testing.T) {
	w := known(t)
	w.create("sut", "conformance")
	for version, want := range map[string][]string{
		"1.0": {`"securitySchemes":{"bearer":{"httpAuthSecurityScheme":{"scheme":"bearer"}}}`},
		"": {`"stateTransitionHistory":true`, `"securitySchemes":{"bearer":{"httpAuthSecurityScheme":{"scheme":"bearer"},"scheme":"bearer","type":"http"}}`,
			`"security":[{"bearer":[]},{}]`},
	} {
		vacant := map[string]string{"1.0": "sut", "": "echo"}[version] // only the agent under test has a card of just 1.0
		got := w.do("GET", "/v/"+vacant, "", "A2A-Version: "+version)
		for _, part := range want {
			if !strings.Contains(got.body, part) {
				t.Errorf("the card of version %q lacks %s: %s", version, part, got.body)
			}
		}
		if strings.Contains(strings.ToLower(got.body), "extendedagentcard") {
			t.Errorf("the card of version %q, of a vacant that takes guests, has an extended card: %s", version, got.body)
		}
	}
	for method, code := range map[string]string{"GetExtendedAgentCard": "-32004", "agent/getAuthenticatedExtendedCard": "-32007"} {
		for who, headers := range map[string][]string{"acme": {w.acme}, "a guest": nil} {
			if got := w.rpc("/v/echo", method, "{}", headers...); at(t, got.body, "error", "code") != code {
				t.Errorf("%s of a vacant that takes guests by %s: %d %s, want code %s", method, who, got.status, got.body, code)
			}
		}
	}
	if got := w.do("GET", "/v/echo/extendedAgentCard", "", w.acme); got.status != 400 || at(t, got.body, "error", "details", 0, "reason") != "UNSUPPORTED_OPERATION" {
		t.Errorf("by REST: %d %s", got.status, got.body)
	}
	// Who has to pay needs a key.
	_, err := w.server.Vacants.SetPrice(t.Context(), w.echo.ID, price.Price{Flat: money.Dollar})
	must(t, err)
	if got := w.do("GET", "/v/echo", ""); !strings.Contains(got.body, `"security":[{"bearer":[]}]`) {
		t.Errorf("the card of a vacant with a price: %s", got.body)
	}
	if got := w.do("GET", "/v/echo", ""); !strings.Contains(got.body, `"extendedAgentCard":true`) || !strings.Contains(got.body, `"supportsAuthenticatedExtendedCard":true`) {
		t.Errorf("the card of a vacant with a price has no extended card: %s", got.body)
	}
	for method, member := range map[string]string{"GetExtendedAgentCard": "supportedInterfaces", "agent/getAuthenticatedExtendedCard": "preferredTransport"} {
		got := w.rpc("/v/echo", method, "{}", w.acme)
		if at(t, got.body, "result", "name") != "echo" || at(t, got.body, "result", member) == "" || at(t, got.body, "result", "signatures", 0, "signature") == "" {
			t.Errorf("%s by a key: %d %s", method, got.status, got.body)
		}
	}
	if got := w.do("GET", "/v/echo/extendedAgentCard", "", w.acme); got.status != 200 || at(t, got.body, "name") != "echo" {
		t.Errorf("by REST: %d %s", got.status, got.body)
	}
	if got := w.rpc("/v/echo", "GetExtendedAgentCard", "{}"); got.status != http.StatusUnauthorized || got.header.Get("WWW-Authenticate") == "" {
		t.Errorf("its extended card for a guest: %d %s", got.status, got.body)
	}
	// A vacant that takes none.
	w.setPlain(w.echo, vacants.KeylessOff)
	if got := w.do("GET", "/v/echo", ""); strings.Contains(got.body, "ecurity") || strings.Contains(strings.ToLower(got.body), "extendedagentcard") {
		t.Errorf("the card of a vacant without keys: %s", got.body)
	}
	for method, code := range map[string]string{"GetExtendedAgentCard": "-32004", "agent/getAuthenticatedExtendedCard": "-32007"} {
		if got := w.rpc("/v/echo", method, "{}"); at(t, got.body, "error", "code") != code {
			t.Errorf("%s of a vacant without keys: %s", method, got.body)
		}
	}
}

// An answer with a price names its receipt to whom it is shown: as a task, in a stream, later, with an envelope or without.
func TestAnAnswerWithAPriceNamesItsReceipt(t *testing.T) {
	w := known(t)
	w.credit("acme", 20_000)
	mind := w.mind("mind")
	path := "/v/" + mind.Name
	const member = "urn:vacant:receipt:v1"
	if got := w.rpc(path, "SendMessage", withID("m0", "hi", "}"), w.acme); strings.Contains(got.body, member) {
		t.Errorf("an answer without a price: %s", got.body)
	}
	_, err := w.server.Vacants.SetPrice(t.Context(), mind.ID, price.Price{Flat: 2000, FreePerSigner: 9, FreePerAddress: 9, FreeTotal: 99})
	must(t, err)
	sent := w.rpc(path, "SendMessage", withID("m1", "hi", "}"), w.acme)
	receipt := at(t, sent.body, "result", "task", "status", "message", "metadata", member)
	if !strings.HasPrefix(receipt, call.ReceiptsPrefix) || !strings.HasSuffix(receipt, "/"+mind.ID.String()+"/1") {
		t.Errorf("the answer is %s, want it to name a receipt", sent.body)
	}
	if got := w.rpc(path, "GetTask", fmt.Sprintf(`{"id":%q}`, at(t, sent.body, "result", "task", "id")), w.acme); at(t, got.body, "result", "status", "message", "metadata", member) != receipt {
		t.Errorf("the task is %s, want it to name %s", got.body, receipt)
	}
	stream := frames(w.rpc(path, "SendStreamingMessage", withID("m2", "hi", "}"), w.acme).body)
	if last := stream[len(stream)-1]; !strings.Contains(last, member) {
		t.Errorf("the stream ends with %s", last)
	}
	s := w.signer()
	got := w.rpc(path, "SendMessage", params1(s.envelope(mind.ID, 1, identity.Hash{}, "hi", "", ""), ""), "A2A-Extensions: "+a2awire.Extension)
	metadata := at(t, got.body, "result", "task", "status", "message", "metadata")
	if !strings.Contains(metadata, a2awire.Extension) || !strings.Contains(metadata, call.ReceiptPath(call.Pair{Caller: s.key.ID(), Vacant: mind.ID}, 1)) {
		t.Errorf("the signed answer is %s", got.body)
	}
}

func TestAnAccountsMessageIsOneTaskHoweverOftenItComes(t *testing.T) {
	w := known(t)
	mind := w.mind("mind")
	path := "/v/" + mind.Name
	first := w.rpc(path, "SendMessage", withID("m1", "hi", "}"), w.acme)
	id := at(t, first.body, "result", "task", "id")
	if at(t, first.body, "result", "task", "status", "state") != "TASK_STATE_COMPLETED" {
		t.Fatalf("the first: %s", first.body)
	}
	for name, again := range map[string]answer{
		"unary": w.rpc(path, "SendMessage", withID("m1", "hi", "}"), w.acme), "in the background": w.rpc(path, "SendMessage", withID("m1", "hi", `},"configuration":{"returnImmediately":true}`), w.acme),
		"by REST": w.do("POST", path+"/message:send", withID("m1", "hi", "}")+"", w.acme),
	} {
		if !strings.Contains(again.body, id) || !strings.Contains(again.body, "TASK_STATE_COMPLETED") {
			t.Errorf("again, %s: %s", name, again.body)
		}
	}
	stream := frames(w.rpc(path, "SendStreamingMessage", withID("m1", "hi", "}"), w.acme).body)
	if len(stream) == 0 || !strings.Contains(stream[0], id) || !strings.Contains(stream[len(stream)-1], "TASK_STATE_COMPLETED") {
		t.Errorf("again, as a stream: %v", stream)
	}
	for _, other := range []string{withID("m1", "ho", "}"), withID("m1", "hi", `,"contextId":"c"}`)} {
		if got := w.rpc(path, "SendMessage", other, w.acme); at(t, got.body, "error", "code") != "-32602" || !strings.Contains(got.body, "messageId") {
			t.Errorf("another message with the same id: %s", got.body)
		}
	}
	if n := w.turns.Load(); n != 1 {
		t.Errorf("the agent ran %d times", n)
	}
}

// What the operator makes an agent forget, it is not told again.
func TestAForgottenConversationIsNotTold(t *testing.T) {
	w := known(t)
	mind := w.mind("mind")
	say := func(text string) string {
		w.skip.Add(int64(time.Minute))
		got := w.rpc("/v/mind", "SendMessage", withID("", text, `,"contextId":"ours"}`), w.acme)
		return at(t, got.body, "result", "task", "status", "message", "parts", 0, "text")
	}
	if say("one"); say("two") != "one+two" {
		t.Fatal("the agent does not remember")
	}
	w.skip.Add(int64(time.Minute))
	_, err := w.server.Vacants.ForgetAnswers(t.Context(), mind.ID, nil, nil)
	must(t, err)
	if got := say("three"); got != "three" {
		t.Errorf("the agent is told %q", got)
	}
	if got := say("four"); got != "three+four" {
		t.Errorf("the agent is told %q of what came after", got)
	}
}

func TestAnAccountGoesOnWithItsTask(t *testing.T) {
	w := known(t)
	w.create("sut", "conformance")
	first := w.rpc("/v/sut", "SendMessage", withID("tck-input-required-1", "one", "}"), w.acme)
	id := at(t, first.body, "result", "task", "id")
	more := withID("m2", "two", fmt.Sprintf(`,"taskId":%q}`, id))
	for range 2 { // the second message, too, is one however often it comes
		if got := w.rpc("/v/sut", "SendMessage", more, w.acme); at(t, got.body, "result", "task", "status", "state") != "TASK_STATE_COMPLETED" || at(t, got.body, "result", "task", "id") != id {
			t.Errorf("the next turn: %s", got.body)
		}
	}
}
