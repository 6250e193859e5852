package integration

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/localstack/server"
	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/stripemock"
)

// tenant is an account of the stage with money, and its key.
type tenant struct {
	*deployed
	t       *testing.T
	name    string
	account string
	key     string
}

// tenant opens an account with ten dollars, and makes a key for everything, as the operator
// does.
func (s *deployed) tenant(t *testing.T, name string) *tenant {
	t.Helper()
	a := &tenant{deployed: s, t: t, name: name}
	var opened struct{ Account string }
	var made struct{ Secret string }
	a.read(&opened, "account", "open", name, "--json")
	a.read(nil, "credit", name, "10", "--key", "first", "--json")
	a.read(&made, "keys", "create", name, "--tier", "pro", "--scope", "call,agp,read,manage,vacants", "--json")
	if a.account, a.key = opened.Account, made.Secret; a.account == "" || a.key == "" {
		t.Fatalf("account %q, key of %d characters", a.account, len(a.key))
	}
	return a
}

// read runs vacancy on the stage and decodes what it prints.
func (a *tenant) read(into any, args ...string) {
	a.t.Helper()
	args = append(args, "--host", "aws")
	out, exit := a.vacancy(a.t, args...)
	if exit != 0 {
		a.t.Fatalf("vacancy %s: exit %d", strings.Join(args, " "), exit)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(out, into); err != nil {
		a.t.Fatalf("vacancy %s: %v in %s", strings.Join(args, " "), err, out)
	}
}

// ask sends a request to gateway.
func (a *tenant) ask(method, path, body string, headers ...string) (status int, answer object) {
	a.t.Helper()
	return a.askAt(a.GatewayURL, method, path, body, headers...)
}

// askAt sends a request to a function by its URL.
func (a *tenant) askAt(base, method, path, body string, headers ...string) (status int, answer object) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), method, base+path, bytes.NewReader([]byte(body)))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+a.key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	reply, err := web(a.t, a.aws, "").Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(reply.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	_ = json.Unmarshal(b, &answer)
	return reply.StatusCode, answer
}

// must asks for what has to succeed.
func (a *tenant) must(method, path, body string, headers ...string) object {
	a.t.Helper()
	status, answer := a.ask(method, path, body, headers...)
	if status/100 != 2 {
		a.t.Fatalf("%s %s = %d %v", method, path, status, answer)
	}
	return answer
}

// agp sends an envelope.
func (a *tenant) agp(intent, payload string, headers ...string) object {
	a.t.Helper()
	return a.must("POST", "/a2a/v1", fmt.Sprintf(`{"from":"tester:agent","intent":%q,"payload":%s}`, intent, payload), headers...)
}

func (a *tenant) balance() float64 {
	a.t.Helper()
	return a.must("GET", "/v1/account", "")["balance"].(float64)
}

// link lets the account pay for a caller.
func (a *tenant) link(p *pair) {
	a.t.Helper()
	self, err := identity.ParseID(fmt.Sprint(a.must("GET", "/v1/account/host", "")["host_id"]))
	if err != nil {
		a.t.Fatal(err)
	}
	one := claim.PaymentClaim{Host: self, Account: a.account, DailyCap: 1_000_000}
	if err := one.Sign(a.t.Context(), p.Key, time.Now()); err != nil {
		a.t.Fatal(err)
	}
	a.must("POST", "/v1/account/links", fmt.Sprintf(`{"claim":%q}`, one.String()))
}

// undecided makes a call that is charged and never answered: the process that would dies
// after the commit that accepts it. It returns when the call is due.
func (a *tenant) undecided(p *pair) (due time.Time) {
	a.t.Helper()
	if _, err := a.aws.Kill(a.t.Context(), a.function("message"), server.AfterCall(1).ForOperation("dynamodb", "TransactWriteItems")); err != nil {
		a.t.Fatal(err)
	}
	p.post(caller.SendPath, p.Call("is lost", time.Now()))
	a.faultless(a.t)
	_, s := a.tables(a.t)
	pair := call.Pair{Caller: p.Key.ID(), Vacant: p.To}
	tip, err := s.Tip(a.t.Context(), pair.Requests())
	if err != nil {
		a.t.Fatal(err)
	}
	row, err := call.DecodeRequest(tip)
	if err != nil {
		a.t.Fatal(err)
	}
	// A reminder as its own, in a minute that is over: else it is followed minutes later.
	data := append(append([]byte{}, pair.Caller[:]...), pair.Vacant[:]...)
	if err := s.Commit(a.t.Context(), store.Put{Key: store.Key{Partition: fmt.Sprintf("due#%d#0", time.Now().Unix()/60-3), Sort: "early"},
		WriteID: store.WriteID{9}, Number: int64(tip.Position), Data: data}); err != nil {
		a.t.Fatal(err)
	}
	return row.Due
}

// charged makes every function that moves money do all that it ever does, and returns what
// the account has paid.
func (s *deployed) charged(t *testing.T) {
	t.Helper()
	a := s.tenant(t, "payer"+word(t))
	shop, venue := "shop"+word(t), "venue"+word(t)
	id := s.named(t, shop)
	a.read(nil, "price", shop, "0.002")
	p := s.pair(t, id)
	if refused := p.send(p.Call("for nothing", time.Now())); refused.Status != http.StatusPaymentRequired {
		t.Errorf("a call without an account = %d", refused.Status)
	}
	a.link(p)
	s.forget()
	p.say("for money")

	// By agent, and by worker, with a key.
	for i, configuration := range []string{"", `"returnImmediately":true`} {
		answer := a.rpcWith(id, "SendMessage", another(i, message("by key", configuration)))
		task, _ := stateOf(t, answer)
		a.awaitAnswer(id, task)
	}
	// An agent that fails costs nothing, in either.
	bad := "bad" + word(t)
	failing := s.agent(t, bad, "", object{"provider": "mock", "system": "```mock\nfail: refused\n```"})
	a.read(nil, "price", bad, "0.01")
	before := a.balance()
	fails := s.pair(t, failing)
	a.link(fails)
	s.forget()
	fails.send(fails.Call("and fails", time.Now()))
	for i, configuration := range []string{"", `"returnImmediately":true`} {
		a.rpcWith(failing, "SendMessage", another(i, message("and fails", configuration)))
	}
	await.Until(t, "failed calls cost nothing", func() bool { return a.balance() == before }) // the worker has one

	// Tenants' routes.
	made := a.must("POST", "/v1/keys", `{"scopes":["read"]}`)
	a.must("GET", "/v1/keys", "")
	a.must("DELETE", "/v1/keys/"+fmt.Sprint(made["id"]), "")
	a.must("GET", "/v1/account/changes", "")
	a.must("GET", "/v1/account/statement?month="+time.Now().UTC().Format("2006-01"), "")
	receipt := fmt.Sprintf("/v1/account/receipts/%s/%s/last", p.Key.ID(), id)
	await.Until(t, "the host has its key for receipts", func() bool {
		status, _ := a.ask("GET", receipt, "")
		return status != http.StatusServiceUnavailable
	})
	a.must("GET", receipt, "")
	a.must("DELETE", "/v1/account/links/"+fails.Key.ID().String(), "")

	// The same by the command, which finds gateway.
	for _, args := range [][]string{{"account", "show"}, {"usage"}, {"keys", "list"}, {"agp", "ping"}, {"agp", "status"}} {
		cmd, err := command(t.Context(), s.aws, root(t), s.dataHome, append(args, "--host", "aws")...)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, "VACANCY_STAGE="+s.Stage, "VACANCY_KEY="+a.key)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("vacancy %s with a key = %v\n%s", strings.Join(args, " "), err, out)
		}
	}

	a.paidByCard()

	// AGP.
	hired, err := admin.CreateVacant.Call(t.Context(), s.admin(t), op.NewBody(admin.Creation{Name: venue, Capability: "echoes", Substrate: "echo", Tenant: a.name}))
	if err != nil {
		t.Fatal(err)
	}
	booked := hired.ID
	if status, own := a.askAt(a.AdminURL, "GET", "/v1/admin/vacants", ""); status != http.StatusOK || !strings.Contains(fmt.Sprint(own), booked.String()) || strings.Contains(fmt.Sprint(own), id.String()) {
		t.Errorf("the account's own vacants = %d %v, want %s only", status, own, booked)
	}
	a.read(nil, "publish", venue)
	a.read(nil, "listing", "set", venue, "--slug", venue, "--name", "The "+venue, "--category", "office", "--location", "zurich", "--capacity", "9")
	if ping := a.agp("network.ping", "{}"); ping["status"] != "connected" {
		t.Errorf("ping = %v", ping)
	}
	a.agp("booking.search", fmt.Sprintf(`{"query":%q}`, venue))
	a.agp("venue.list", "{}")
	before = a.balance()
	at := time.Now().Add(48 * time.Hour).UTC().Format(time.RFC3339)
	confirmed := a.agp("booking.confirm", fmt.Sprintf(`{"venue_slug":%q,"starts_at":%q,"party_size":2}`, venue, at), "Idempotency-Key", "once"+venue)
	one := fmt.Sprint(confirmed["booking_id"])
	a.must("GET", "/v1/bookings", "")
	if want := strings.TrimSuffix(a.GatewayURL, "/") + "/v1/bookings/" + one; confirmed["status_url"] != want {
		t.Errorf("status_url = %v, want %s", confirmed["status_url"], want)
	}
	a.must("GET", "/v1/bookings/"+one, "")
	if cost := before - a.balance(); cost != 250_000 {
		t.Errorf("a booking cost %v", cost)
	}
	await.Until(t, "the venue accepts the booking", func() bool {
		shown := a.must("GET", "/v1/bookings/"+one, "")
		return shown["envelope_status"] == "accepted" || shown["envelope_status"] == "completed"
	})
	a.read(nil, "bookings", "list", "--venue", booked.String(), "--json")
	a.read(nil, "bookings", "show", one, "--json")
	a.must("GET", "/v1/bookings?venue="+booked.String(), "")
	full := fmt.Sprintf(`{"venue_slug":%q,"starts_at":%q,"party_size":8}`, venue, at)
	if status, refused := a.ask("POST", "/a2a/v1", `{"from":"tester:agent","intent":"booking.confirm","payload":`+full+`}`); status != http.StatusConflict {
		t.Errorf("a booking of a full slot = %d %v", status, refused)
	}
	a.must("POST", "/v1/bookings/"+one+"/cancel", "{}")

	lost := "voids:0"
	if s.aws != nil { // the sweep, once a lost call is due; the schedule of sweeper may be first
		due := a.undecided(p)
		// Fold the request now. The later fold of the decision then reads the request from the table.
		s.invoke(t, "meter-schedule")
		lost, before = "voids:1", a.balance()
		time.Sleep(time.Until(due) + time.Second)
		await.Until(t, "the sweeper gives the lost call back", func() bool {
			s.invoke(t, "sweeper-schedule")
			return a.balance() != before
		})
		if got := a.balance() - before; got != 2000 {
			t.Errorf("%v given back for the call that was lost, want 2000", got)
		}
	}
	s.invoke(t, "meter-schedule")
	used := a.must("GET", "/v1/usage?by=vacant", "")
	for of, want := range map[identity.ID]string{id: "answers:3 charge:6000 ", failing: "answers:0 charge:0 "} {
		voids := map[identity.ID]string{id: lost, failing: "voids:3"}[of]
		if text := fmt.Sprint(used); !strings.Contains(text, want) || !strings.Contains(text, "vacant:"+of.String()+" "+voids) {
			t.Errorf("usage %v, want %s and %s of %s", used, want, voids, of)
		}
	}
}

// paidByCard sends the webhooks of a payment that is refunded, as Stripe does. Nothing here
// reaches Stripe itself.
func (a *tenant) paidByCard() {
	a.t.Helper()
	for name, value := range map[string]string{"stripe": stripemock.Key, "stripe-webhook": stripemock.Signing} {
		if _, err := admin.PaymentKeys.Set.Call(a.t.Context(), a.admin(a.t), admin.SetSecretRequest{SecretRef: admin.SecretRef{Name: name}, Body: admin.SecretSetting{Value: value, Hosts: []string{"nobody.invalid"}}}); err != nil {
			a.t.Fatal(err)
		}
	}
	before, payment := a.balance(), "pi_"+a.name
	host := fmt.Sprint(a.must("GET", "/v1/account/host", "")["host_id"])
	for _, body := range []string{stripemock.Paid(payment, host, a.account, 1000), stripemock.Refunded(payment, 400), stripemock.Paid(payment, host, a.account, 1000)} {
		a.must("POST", "/v1/account/stripe", body, "Stripe-Signature", stripemock.Sign(body, stripemock.Signing, time.Now()))
	}
	if got := a.balance() - before; got != 6_000_000 {
		a.t.Errorf("a payment of $10 with $4 refunded adds %v", got)
	}
	if status, answer := a.ask("POST", "/v1/account/checkout", `{"amount":5000000}`); status != http.StatusServiceUnavailable {
		a.t.Errorf("a page at a host that is not there = %d %v, want 503", status, answer)
	}
}

// another gives a message an id of its own: the same caller's same message is one task.
func another(i int, params string) string {
	return strings.Replace(params, `"messageId":"m"`, fmt.Sprintf(`"messageId":"m%d"`, i), 1)
}

// rpcWith calls a method of A2A with the key of the account.
func (a *tenant) rpcWith(to identity.ID, method, params string) object {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.URL+"/v/"+to.String(), strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+a.key)
	r.Header.Set("Content-Type", "application/json")
	reply, err := web(a.t, a.aws, "").Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(reply.Body)
	var answer struct{ Result, Error object }
	if err != nil || json.Unmarshal(b, &answer) != nil || answer.Error != nil {
		a.t.Fatalf("%s = %d %s, %v", method, reply.StatusCode, b, err)
	}
	return answer.Result
}

// awaitAnswer waits until a task of the account has ended, and requires that it was answered.
func (a *tenant) awaitAnswer(vacant identity.ID, task string) {
	a.t.Helper()
	var state string
	await.Until(a.t, "task "+task+" has ended", func() bool {
		_, state = stateOf(a.t, a.rpcWith(vacant, "GetTask", fmt.Sprintf(`{"id":%q}`, task)))
		return state != "TASK_STATE_SUBMITTED" && state != "TASK_STATE_WORKING"
	})
	if state != "TASK_STATE_COMPLETED" {
		a.t.Errorf("task %s is %s, want it completed", task, state)
	}
}

// The stage charges the sum of its rows, to the micro-dollar.
func TestCallsAreChargedAndRecountedOnTheStage(t *testing.T) {
	s := shared(t)
	s.charged(t)
	s.invoke(t, "meter-schedule")
	s.recount(t)
	s.whole(t)
}

// recount corrects usage that no row of the stage says, over its tables.
func (s *deployed) recount(t *testing.T) {
	t.Helper()
	_, docs := s.tables(t)
	extra := store.Key{Partition: "use#owned#", Sort: "2026-01-02T03#" + s.vacant(t).String()}
	id, err := store.Updater{Store: docs, Rand: rand.Reader}.NewWriteID()
	if err == nil {
		err = docs.Commit(t.Context(), store.Put{Key: extra, WriteID: id, Data: []byte(`{"format":1,"answers":7,"charge":9}`), Number: 9})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []usage.RecountResult{{Corrected: 1}, {}} {
		var got usage.RecountResult
		out, exit := s.vacancy(t, "usage", "--recount", "--host", "aws", "--json")
		if err := json.Unmarshal(out, &got); err != nil || exit != 0 || got != want {
			t.Fatalf("usage --recount: exit %d, %v, %s, want %+v", exit, err, out, want)
		}
	}
	if d, err := docs.Doc(t.Context(), extra); err != nil || d.Version != 2 || d.Number != 0 {
		t.Errorf("corrected to %+v, %v, want nothing of the hour", d, err)
	}
}
