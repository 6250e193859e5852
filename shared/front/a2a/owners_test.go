package a2a_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/a2a"
	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/openai"
	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/front/protocol"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/guests"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
)

// asker is a caller of a vacant: by a credential, by a key, or by neither.
type asker struct {
	name    string
	whose   string // askers with the same are one owner
	account string // "ACCOUNT SUBJECT KEY", by which Identify knows the asker; "" has no credential
	signs   *signed

	seq  int64 // of its last envelope
	prev identity.Hash
}

// request sends a request as the asker.
func (a *asker) request(w *world, method, path, body string) answer {
	var headers []string
	switch {
	case a.account != "":
		headers = append(headers, "Authorization: "+a.account)
	case a.signs != nil && !strings.Contains(body, `"role"`): // a message has an envelope
		headers = append(headers, readproof.Header+": "+a.signs.proof(method, path, body))
	}
	return w.do(method, path, body, headers...)
}

// send sends a message with the asker's name for text. more are members of the message.
func (a *asker) send(w *world, to identity.ID, messageID, contextID, more string) answer {
	path := "/v/" + to.String() + "/message:send"
	if a.signs == nil {
		if contextID != "" {
			more += fmt.Sprintf(`,"contextId":%q`, contextID)
		}
		return a.request(w, "POST", path, fmt.Sprintf(`{"message":{"messageId":%q,"role":"ROLE_USER","parts":[{"text":%q}]%s}}`, messageID, a.name, more))
	}
	e := a.signs.envelope(to, a.seq+1, a.prev, a.name, messageID, contextID)
	got := a.request(w, "POST", path, params1(e, more))
	if got.status == http.StatusOK {
		a.seq, a.prev = e.Seq, e.Hash()
	}
	return got
}

// identified is a host that takes a credential at its word. The credential of a test key begins with "test ".
func identified(t *testing.T) *world {
	var vault custody.Vault
	w := openWorld(t, true, func(c *serve.Config) { vault = c.Vault })
	agents := w.server.OpenA2A()
	callers := plain.New(plain.Config{
		Tasks: agents.Tasks, Directory: w.server.Vacants, Now: w.now, Log: slog.New(slog.DiscardHandler),
		Guests: guests.New(store.Updater{Store: w.store, Rand: rand.Reader}, vault, rand.Reader),
		Identify: func(_ context.Context, r *http.Request) (*call.Payer, error) {
			live, test := strings.CutPrefix(r.Header.Get("Authorization"), "test ")
			said := strings.Split(live, " ")
			if len(said) != 3 {
				return nil, nil
			}
			return &call.Payer{Account: said[0], Tenant: said[0], Subject: strings.Trim(said[1], "-"), Key: said[2], Test: test}, nil
		},
	})
	tasks := a2a.New(a2a.Config{
		Service: callers, Push: agents.Push,
		Callers: caller.Verifier{URL: w.server.Vacants.BaseURL, IsRevoked: w.server.Registry.IsRevoked, Now: w.now},
	})
	w.http.Config.Handler = serve.Handlers{Plain: callers, Protocols: []plain.Protocol{
		{Protocol: &protocol.OpenAI, Serve: openai.Handler(callers, nil)}, {Protocol: &protocol.A2A, Serve: tasks.Handle},
	}}.Public()
	return w
}

func (w *world) askers() []*asker {
	one, other := w.signer(), w.signer()
	return []*asker{
		{name: "key 1 of A", whose: "A", account: "aa - k1"}, {name: "key 2 of A", whose: "A", account: "aa - k2"},
		{name: "x of A", whose: "x of A", account: "aa x k3"}, {name: "y of A", whose: "y of A", account: "aa y k3"},
		{name: "key of B", whose: "B", account: "bb - k1"}, {name: "x of B", whose: "x of B", account: "bb x k1"},
		{name: "a signer", whose: "a signer", signs: &one}, {name: "another signer", whose: "another signer", signs: &other},
		{name: "a guest", whose: "a guest"},
	}
}

func TestATaskIsFoundByItsOwnerInEachLookup(t *testing.T) {
	w := identified(t)
	sut, hook := w.create("sut", "conformance").ID, newReceiver(t).URL+"/hook"
	for _, owner := range w.askers() {
		others := append(w.askers()[:6:6], w.askers()[8], owner) // accounts, their subjects, a guest and the owner
		for i, who := range others {
			begun := owner.send(w, sut, fmt.Sprintf("tck-input-required-%d-%s", i, owner.account), "", "")
			id, conversation := at(t, begun.body, "task", "id"), at(t, begun.body, "task", "contextId")
			if at(t, begun.body, "task", "status", "state") != "TASK_STATE_INPUT_REQUIRED" {
				t.Fatalf("%s begins: %d %s", owner.name, begun.status, begun.body)
			}
			task := "/v/" + sut.String() + "/tasks/" + id
			for _, lookup := range []struct {
				name string
				got  answer
				mark string // what only an answer to the owner has
			}{
				{"get", who.request(w, "GET", task, ""), `"id":"` + id},
				{"set a push", who.request(w, "POST", task+"/pushNotificationConfigs", fmt.Sprintf(`{"id":"p","url":%q}`, hook)), hook},
				{"get a push", who.request(w, "GET", task+"/pushNotificationConfigs/p", ""), hook},
				{"list pushes", who.request(w, "GET", task+"/pushNotificationConfigs", ""), hook},
				{"remove a push", who.request(w, "DELETE", task+"/pushNotificationConfigs/p", ""), `{}`},
				{"list", who.request(w, "GET", "/v/"+sut.String()+"/tasks?pageSize=100&contextId="+conversation, ""), `"id":"` + id},
				{"continue", who.send(w, sut, "tck-complete-task-"+id, "", fmt.Sprintf(`,"taskId":%q`, id)), `"id":"` + id},
				{"cancel", who.request(w, "POST", task+":cancel", "{}"), "TASK_NOT_CANCELABLE"}, // it has ended by now
				{"subscribe", who.request(w, "GET", task+":subscribe", ""), "UNSUPPORTED_OPERATION"},
			} {
				found, absent := strings.Contains(lookup.got.body, lookup.mark), strings.Contains(lookup.got.body, "TASK_NOT_FOUND")
				if want := owner.whose == who.whose; found != want || absent == want && lookup.name != "list" {
					t.Errorf("%s of a task of %s by %s: %d %s", lookup.name, owner.name, who.name, lookup.got.status, lookup.got.body)
				}
			}
		}
	}
}

// All use the same ids of messages and contexts.
func TestIDsOfMessagesAndContextsAreTheirOwners(t *testing.T) {
	w := identified(t)
	mind, askers := w.mind("mind").ID, w.askers()
	hears := func(got answer) string { return at(t, got.body, "task", "status", "message", "parts", 0, "text") }
	for _, a := range askers {
		first := a.send(w, mind, "hello", "ours", "")
		if a.name == "key 2 of A" { // key 1 said something else with this message id
			if first.status != http.StatusBadRequest || !strings.Contains(first.body, "messageId") {
				t.Errorf("the message id of %s: %d %s", a.name, first.status, first.body)
			}
			if got := hears(a.send(w, mind, "bye", "ours", "")); got != "key 1 of A+key 1 of A+"+a.name {
				t.Errorf("%s hears %q in the account's context", a.name, got)
			}
			continue
		}
		if got := hears(first); got != a.name {
			t.Errorf("the first message of %s: %d %s", a.name, first.status, first.body)
		}
		want := a.name + "+" + a.name
		if a.name == "a guest" { // anybody may know this context: each of its tasks has a guest of its own
			want = a.name
		}
		if got := hears(a.send(w, mind, "again", "ours", "")); got != want {
			t.Errorf("%s hears %q in its context, want %q", a.name, got, want)
		}
		ran := w.turns.Load()
		if again := a.send(w, mind, "again", "ours", ""); a.account != "" && (hears(again) != want || w.turns.Load() != ran) {
			t.Errorf("the message of %s again: %d turns, %s", a.name, w.turns.Load()-ran, again.body)
		}
	}
	for _, a := range askers {
		said := a.request(w, "GET", "/v/"+mind.String()+"/tasks?contextId=ours", "").body
		for _, other := range askers {
			if has := strings.Contains(said, `"text":"`+other.name); has != (other.whose == a.whose && a.name != "a guest") {
				t.Errorf("the list of %s has what %s said: %t", a.name, other.name, has)
			}
		}
	}
}

// Two callers who differ in one thing and send the same bytes, with the same Idempotency-Key or as a retry, are answered
// each by an answer of their own.
func TestCallersDoNotShareTheRepeatsOfACompletion(t *testing.T) {
	w := identified(t)
	spec := vacants.CreateSpec{Name: "shared", Capability: "Remembers", Agent: &definition.Agent{Provider: substrate.KindMock}}
	shared, err := w.server.Vacants.Create(t.Context(), spec)
	must(t, err)
	w.setPlain(shared, vacants.KeylessShared)
	spec.Name, spec.Tenant = "own", "aa"
	own, err := w.server.Vacants.Create(t.Context(), spec)
	must(t, err)
	type party struct{ address, credential string }
	for name, tt := range map[string]struct {
		vacant vacants.Record
		one    party
		other  party
	}{
		"two guests":                         {own, party{"203.0.113.1", ""}, party{"203.0.113.2", ""}},
		"two guests who share conversations": {shared, party{"203.0.113.1", ""}, party{"203.0.113.2", ""}},
		"two accounts":                       {own, party{"203.0.113.1", "aa - k1"}, party{"203.0.113.1", "bb - k1"}},
		"two subjects":                       {own, party{"203.0.113.1", "aa x k1"}, party{"203.0.113.1", "aa y k1"}},
		"an account and its subject":         {own, party{"203.0.113.1", "aa - k1"}, party{"203.0.113.1", "aa x k1"}},
		"a live key and a test key":          {own, party{"203.0.113.1", "aa - k1"}, party{"203.0.113.1", "test aa - k1"}},
		"a subject by a live and a test key": {own, party{"203.0.113.1", "aa x k1"}, party{"203.0.113.1", "test aa x k1"}},
		"a guest and an account's key":       {own, party{"203.0.113.1", ""}, party{"203.0.113.1", "aa - k1"}},
		"two networks of IPv6":               {own, party{"2001:db8:0:1::1", ""}, party{"2001:db8:0:2::1", ""}},
	} {
		for mark, header := range map[string]string{"key": "Idempotency-Key: " + name, "retry": again} {
			vacant := tt.vacant.Name
			ask := func(p party, headers ...string) string {
				t.Helper()
				got := w.post(p.address, "/v/"+vacant+completions, asking(name+mark, ""), append(headers, "Authorization: "+p.credential)...)
				return strings.TrimPrefix(at(t, got.body, "id"), "chatcmpl-")
			}
			first := ask(tt.one)
			if mark == "key" {
				first = ask(tt.one, header)
			}
			if got := ask(tt.other, header); got == "" || got == first {
				t.Errorf("%s, by a %s: the other's task is %q, the first's %q", name, mark, got, first)
			}
			if got := ask(tt.one, header); got != first {
				t.Errorf("%s, by a %s: the same caller again has task %q, want %q", name, mark, got, first)
			}
			vacant = map[string]string{"own": "shared", "shared": "own"}[vacant]
			if got := ask(tt.one, header); got == "" || got == first {
				t.Errorf("%s, by a %s: at another vacant the task is %q, at the first %q", name, mark, got, first)
			}
		}
	}
}
