//go:build unix

package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/receipt"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/stripemock"
)

// searchARN is the ARN of search in the functions' environment.
const searchARN = "arn:aws:lambda:us-east-1:123456789012:function:vacancy-test-search"

// shop is a host with a vacant that has a price, an account with ten dollars, and the
// functions that serve them.
type shop struct {
	*awshost.Host
	t       *testing.T
	admin   *Function
	gateway *Function
	message *Function
	vacant  identity.ID
	caller  *caller.Caller
	account string
	key     string // of the account, for everything
}

// ask sends a request to a function, with a key if it is not empty.
func (s *shop) ask(f *Function, method, path, key, body string, headers ...string) (status int, answer object) {
	s.t.Helper()
	e := NewEvent(path, []byte(body))
	e.RequestContext.HTTP.Method = method
	if key != "" {
		e.Headers["authorization"] = "Bearer " + key
	}
	e.Headers["user-agent"] = "vacancy"
	for i := 0; i < len(headers); i += 2 {
		e.Headers[headers[i]] = headers[i+1]
	}
	r, err := f.Send(s.t.Context(), e.Encode())
	if err != nil {
		s.t.Fatalf("%s %s = %v\n%s", method, path, err, f.Log())
	}
	_ = json.Unmarshal([]byte(r.Body), &answer)
	return r.Status, answer
}

// must asks for what has to succeed.
func (s *shop) must(f *Function, method, path, key, body string, headers ...string) object {
	s.t.Helper()
	status, answer := s.ask(f, method, path, key, body, headers...)
	if status/100 != 2 {
		s.t.Fatalf("%s %s = %d %v\n%s", method, path, status, answer, f.Log())
	}
	return answer
}

// newShop opens a shop. more is the environment of gateway.
func newShop(t *testing.T, more ...string) *shop {
	t.Helper()
	host := operated(t)
	s := &shop{Host: host, t: t, admin: run(t, "admin", host, "VACANCY_FEE=1000"), message: run(t, "message", host)}
	s.gateway = run(t, "gateway", host, append([]string{"VACANCY_SEARCH=" + searchARN}, more...)...)
	s.invoke(run(t, "checkpointer", host)) // makes the key that signs receipts and bookings
	s.vacant = identityOf(t, s.must(s.admin, "POST", "/v1/admin/vacants", sampleOperator, `{"name":"seller","capability":"sells echoes"}`)["vacant_id"])
	s.must(s.admin, "PUT", "/v1/admin/vacants/seller/price", sampleOperator, `{"flat":2000}`)
	s.account = s.must(s.admin, "POST", "/v1/admin/accounts", sampleOperator, `{"tenant":"acme"}`)["account"].(string)
	s.must(s.admin, "POST", "/v1/admin/accounts/acme/credit", sampleOperator, `{"amount":10000000,"note":"first"}`, "idempotency-key", "one")
	s.key = s.must(s.admin, "POST", "/v1/admin/accounts/acme/keys", sampleOperator, `{"tier":"pro","scopes":["call","agp","read","manage"]}`)["secret"].(string)
	s.caller = caller.New(t, s.vacant)
	self := identityOf(t, s.must(s.gateway, "GET", "/v1/account/host", "", "")["host_id"])
	one := claim.Claim{Host: self, Account: s.account}
	if err := one.Sign(t.Context(), s.caller.Key, time.Now()); err != nil {
		t.Fatal(err)
	}
	s.must(s.gateway, "POST", "/v1/account/links", s.key, fmt.Sprintf(`{"claim":%q}`, one.String()))
	return s
}

func identityOf(t *testing.T, text any) identity.ID {
	t.Helper()
	id, err := identity.ParseID(fmt.Sprint(text))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// balance returns the amount that the account can spend, in micro-dollars.
func (s *shop) balance() float64 {
	s.t.Helper()
	return s.must(s.gateway, "GET", "/v1/account", s.key, "")["balance"].(float64)
}

// invoke starts a job as its schedule does.
func (s *shop) invoke(f *Function) {
	s.t.Helper()
	if _, err := f.Invoke(s.t.Context(), sample(s.t, "meter-schedule.json")); err != nil {
		s.t.Fatalf("Invoke() = %v\n%s", err, f.Log())
	}
}

func TestTheGatewayAnswersTheSampleEvents(t *testing.T) {
	host := operated(t)
	host.Create(t, "sole", sampleVacant)
	f := run(t, "gateway", host, "VACANCY_SEARCH="+searchARN)
	replay(t, f, []step{
		{"gateway-status.json", 200, `"network_version":"1.0"`},
		{"gateway-ping.json", 401, `"code":"invalid_key"`},
		{"gateway-no-key.json", 401, `"code":"missing_key"`},
		{"gateway-account.json", 401, `"code":"unauthorized"`},
		{"gateway-host.json", 200, `"host_id":"`},
		{"gateway-stripe.json", 404, "this host takes no payments by card"},
		{"gateway-admin.json", 404, `"code":"not_found"`},
		{"gateway-elsewhere.json", 404, `"code":"not_found"`},
	})
	if all := lines(t, f); len(all) != 8 {
		t.Errorf("%d lines for 8 requests:\n%s", len(all), f.Log())
	}
}

func TestACallIsChargedSweptAndMetered(t *testing.T) {
	s := newShop(t)
	kept, blobs := bucket(t)
	meter := run(t, "meter", s.Host, append(blobs, "VACANCY_ROWS_STREAM="+s.Stream(t))...)
	sweeper := run(t, "sweeper", s.Host)
	if stranger := caller.New(t, s.vacant); send(t, s.message, caller.SendPath, stranger.Call("hi", time.Now())).Status != 402 {
		t.Error("a stranger's call is not refused with 402")
	}
	// A call of the day before, which is exported once it is folded.
	past := func() time.Time { return time.Now().Add(-24*time.Hour - 15*time.Minute) }
	first := s.caller.Call("yesterday", past())
	if out := s.Open(t, s.Store(s.Endpoint), past, nil).Calls.Send(t.Context(), s.vacant, first); out.Problem != nil {
		t.Fatal(out.Problem)
	}
	s.caller.Accepted(first)
	var last identity.Hash
	for range 3 {
		e := s.caller.Call("hello", time.Now())
		if a := send(t, s.message, caller.SendPath, e); a.Status != 200 {
			t.Fatalf("call = %+v\n%s", a, s.message.Log())
		}
		s.caller.Accepted(e)
		last = e.Hash()
	}
	if got := s.balance(); got != 10_000_000-4*2000 {
		t.Errorf("balance %v after four calls of 0.002", got)
	}
	// A receipt, for the payer.
	r := s.must(s.gateway, "GET", fmt.Sprintf("/v1/account/receipts/%s/%s/last", s.caller.Key.ID(), s.vacant), s.key, "")
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := receipt.Parse(b); err != nil || got.Verify() != nil || got.Request != last || got.Host.String() != s.must(s.gateway, "GET", "/v1/account/host", "", "")["host_id"] {
		t.Errorf("receipt %s, %v, Verify() = %v; want one of call %s", b, err, got.Verify(), last)
	}
	if status, _ := s.ask(s.gateway, "GET", fmt.Sprintf("/v1/account/receipts/%s/%s/last", s.caller.Key.ID(), s.vacant), "", ""); status/100 == 2 {
		t.Errorf("a stranger gets the receipt: %d", status)
	}

	// Two folds, of which the second finds nothing. A run before them was killed between the two files of the day.
	day := "usage/" + past().UTC().Format(time.DateOnly) + "/" + s.account
	kept.kept[day+".csv"] = object3{body: []byte("written before"), at: time.Now()}
	s.invoke(meter)
	s.invoke(meter)
	used := s.must(s.gateway, "GET", "/v1/usage?by=vacant", s.key, "")
	for _, want := range []string{"answers:4", "charge:8000", s.vacant.String()} {
		if text := strings.ReplaceAll(fmt.Sprint(used), "+0", ""); !strings.Contains(text, want) {
			t.Errorf("usage %v, want %s", used, want)
		}
	}
	owned := s.must(s.admin, "GET", "/v1/admin/usage?by=vacant", sampleOperator, "")
	if !strings.Contains(fmt.Sprint(owned), "fee:800") {
		t.Errorf("usage of the operator's vacants %v, want its fee of 10 %%", owned)
	}

	if diff := cmp.Diff([]string{day + ".csv", day + ".jsonl"}, kept.keys()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	// A call whose answer was never decided is voided when it is overdue, and given back.
	s.undecided(4 * time.Minute)
	if got := s.balance(); got != 10_000_000-5*2000 {
		t.Errorf("balance %v while a call is undecided", got)
	}
	for range 2 {
		s.invoke(sweeper)
	}
	if got := s.balance(); got != 10_000_000-4*2000 {
		t.Errorf("balance %v after the sweep, want the call given back once", got)
	}
	if diff := cmp.Diff([][]any{{1., 0.}, {0., 0.}}, pick(lines(t, sweeper), "done", "decided", "waiting")); diff != "" {
		t.Errorf("calls that are done with, and waiting (-want +got):\n%s", diff)
	}
	s.invoke(meter)
	if used = s.must(s.gateway, "GET", "/v1/usage?by=vacant", s.key, ""); !strings.Contains(fmt.Sprint(used), "voids:1") {
		t.Errorf("usage %v, want a void", used)
	}
	if all := pick(lines(t, meter), "done", "verdict", "rows"); len(all) != 3 || all[0][1].(float64) < 8 || all[1][1] != 0. {
		t.Errorf("rows folded: %v, want all of them, none, and the void", all)
	}
}

// Rows that the stream dropped before they were folded are counted by the metric of the alarm,
// once, and the remaining rows are folded.
func TestTheMeterTellsOfRowsThatAreGone(t *testing.T) {
	s := newShop(t)
	_, blobs := bucket(t)
	meter := run(t, "meter", s.Host, append(blobs, "VACANCY_ROWS_STREAM="+s.Stream(t))...)
	if err := s.Store(s.Endpoint).Commit(t.Context(), store.Put{Key: store.Key{Partition: "meter", Sort: "shardId-gone"}, WriteID: store.WriteID{1}, Data: []byte("7")}); err != nil {
		t.Fatal(err)
	}
	e := s.caller.Call("hello", time.Now())
	if a := send(t, s.message, caller.SendPath, e); a.Status != 200 {
		t.Fatalf("call = %+v", a)
	}
	s.invoke(meter)
	s.invoke(meter)
	if used := s.must(s.gateway, "GET", "/v1/usage?by=vacant", s.key, ""); !strings.Contains(fmt.Sprint(used), "answers:1") {
		t.Errorf("usage %v, want the call", used)
	}
	all := lines(t, meter)
	if got := pick(all, "the stream dropped rows before they were folded into usage", "trimmed", "level"); len(got) != 1 || got[0][0] != 1. || got[0][1] != "ERROR" {
		t.Errorf("lines of lost rows: %v, want one that counts 1", got)
	}
	for _, one := range all {
		if one["trimmed"] != nil && one["_aws"] == nil {
			t.Errorf("a line without its metric: %v", one)
		}
	}
}

// deaf is a store that stops after a commit: the process that decides a call is gone.
type deaf struct{ store.Store }

func (d deaf) Commit(ctx context.Context, writes ...store.Write) error {
	for _, w := range writes {
		if a, ok := w.(store.Append); !ok || a.Stream.Kind() != store.KindResponse {
			continue
		}
		return store.NotApplied(errors.New("gone"))
	}
	return d.Store.Commit(ctx, writes...)
}

// undecided makes a call, some time ago, that is accepted and never answered.
func (s *shop) undecided(ago time.Duration) {
	s.t.Helper()
	then := func() time.Time { return time.Now().Add(-ago) }
	host := s.Open(s.t, deaf{s.Store(s.Endpoint)}, then, nil)
	out := host.Calls.Send(s.t.Context(), s.vacant, s.caller.Call("and then", then()))
	if out.Problem == nil {
		s.t.Fatal("a call without a decision has an answer")
	}
}

// AGP on AWS: venues are found by search, and bookings dispatched by worker.
func TestAVenueIsFoundAndBookedThroughTheGateway(t *testing.T) {
	var search *Function
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.HasSuffix(strings.ReplaceAll(r.URL.Path, "%3A", ":"), "/functions/"+searchARN+"/invocations") {
			http.NotFound(w, r)
			return
		}
		reply, err := search.Invoke(context.WithoutCancel(r.Context()), body)
		if err != nil {
			w.Header().Set("X-Amz-Function-Error", "Unhandled")
			reply = []byte(`{"errorType":"Runtime.ExitError"}`)
		}
		_, _ = w.Write(reply)
	}))
	t.Cleanup(cloud.Close)
	s := newShop(t, "AWS_ENDPOINT_URL_LAMBDA="+cloud.URL)
	_, blobs := bucket(t)
	search = run(t, "search", s.Host, blobs...)
	worker := run(t, "worker", s.Host)
	s.must(s.admin, "POST", "/v1/admin/vacants", sampleOperator, `{"name":"bistro","capability":"serves dinner"}`)
	s.must(s.admin, "POST", "/v1/admin/vacants/bistro/publish", sampleOperator, `{"venue":{"slug":"bistro","name":"Bistro","category":"dining","location":"Brooklyn","bookable":true}}`)

	envelope := func(intent, payload string) string {
		return fmt.Sprintf(`{"from":"nemoclaw:hello","intent":%q,"payload":%s}`, intent, payload)
	}
	if ping := s.must(s.gateway, "POST", "/a2a/v1", s.key, envelope("network.ping", "{}")); ping["venues"] != 1. {
		t.Errorf("ping = %v, want one venue", ping)
	}
	if status, refused := s.ask(s.gateway, "POST", "/a2a/v1", "agnt_live_nobody", envelope("network.ping", "{}")); status != 401 {
		t.Errorf("a wrong key = %d %v", status, refused)
	}
	found := s.must(s.gateway, "POST", "/a2a/v1", s.key, envelope("booking.search", `{"query":"dinner","location":"Brooklyn"}`))
	if !strings.Contains(fmt.Sprint(found["venues"]), "slug:bistro") {
		t.Errorf("search = %v, want the bistro\n%s", found, search.Log())
	}
	if status, refused := s.ask(s.gateway, "POST", "/a2a/v1", s.key, envelope("venue.list", `{"cursor":"x"}`)); status != 422 {
		t.Errorf("a wrong cursor = %d %v", status, refused)
	}

	before := s.balance()
	made := s.must(s.gateway, "POST", "/a2a/v1", s.key, envelope("booking.confirm", `{"venue_slug":"bistro","party_size":2}`), "prefer", "respond-async")
	id := made["booking_id"].(string)
	if want := "https://" + domain + "/v1/bookings/" + id; made["status_url"] != want { // gateway's own: there is no edge
		t.Errorf("status_url = %v, want %s", made["status_url"], want)
	}
	if got := before - s.balance(); got != 250_000 {
		t.Errorf("a booking cost %v, want 0.25", got)
	}
	deliver(t, worker, s.Host, "tasks", 2) // also twice
	shown := s.must(s.gateway, "GET", "/v1/bookings/"+id, s.key, "")
	if shown["envelope_status"] != "completed" && shown["envelope_status"] != "accepted" {
		t.Errorf("booking = %v\n%s", shown, worker.Log())
	}
	if got := before - s.balance(); got != 250_000 {
		t.Errorf("%v are gone after the dispatch, want 0.25", got)
	}
	// The operator sees it, and its counters.
	if metrics := s.must(s.admin, "GET", "/v1/admin/bookings/"+id, sampleOperator, ""); metrics["booking_id"] != id {
		t.Errorf("the operator sees %v", metrics)
	}
	// A failing search is told as such, and nothing of it to the caller.
	search.Kill()
	if status, refused := s.ask(s.gateway, "POST", "/a2a/v1", s.key, envelope("booking.search", `{"query":"lunch"}`)); status != 503 || strings.Contains(fmt.Sprint(refused), "Runtime") {
		t.Errorf("a search without its function = %d %v", status, refused)
	}
}

// A booking that nobody has dispatched is sent again by the sweeper.
func TestTheSweeperSendsWhatNobodyDispatched(t *testing.T) {
	s := newShop(t)
	worker, sweeper := run(t, "worker", s.Host), run(t, "sweeper", s.Host)
	then := func() time.Time { return time.Now().Add(-3 * time.Minute) }
	host := s.Open(t, s.Store(s.Endpoint), then, nil)
	s.must(s.admin, "POST", "/v1/admin/vacants/seller/publish", sampleOperator, `{"venue":{"slug":"seller"}}`)
	k, err := host.Billing.Authenticate(t.Context(), s.key)
	if err != nil {
		t.Fatal(err)
	}
	made, err := host.OpenBookings(lost{}, nil).Confirm(t.Context(), &k, booking.Request{From: "a:b", Agent: "b", Venue: "seller", Party: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.invoke(sweeper)
	if n := len(s.Queues.Waiting("tasks")); n != 1 {
		t.Fatalf("%d messages after the sweep, want one\n%s", n, sweeper.Log())
	}
	deliver(t, worker, s.Host, "tasks", 1)
	shown := s.must(s.gateway, "GET", "/v1/bookings/"+made.Booking.ID, s.key, "")
	if shown["envelope_status"] != "completed" {
		t.Errorf("booking = %v\n%s", shown, worker.Log())
	}
	s.invoke(sweeper)
	if n := len(s.Queues.Waiting("tasks")); n != 0 {
		t.Errorf("%d messages after another sweep, want none", n)
	}
}

// lost is a queue that loses its messages.
type lost struct{}

func (lost) Send(context.Context, string, task.Sender) (func(context.Context, bool), error) {
	return func(context.Context, bool) {}, nil
}

// A tenant manages its own vacants at admin, by a key of its account: with the operator's key
// the function has other routes.
func TestATenantManagesItsVacantsAtAdmin(t *testing.T) {
	s := newShop(t)
	key := s.must(s.admin, "POST", "/v1/admin/accounts/acme/keys", sampleOperator, `{"scopes":["vacants"]}`)["secret"].(string)
	made := s.must(s.admin, "POST", "/v1/admin/vacants", key, `{"name":"clerk","capability":"answers letters"}`)
	if made["tenant"] != "acme" {
		t.Errorf("the vacant of a tenant's key is of %v", made["tenant"])
	}
	if all := s.must(s.admin, "GET", "/v1/admin/vacants", key, "")["vacants"].([]any); len(all) != 1 {
		t.Errorf("a tenant lists %d vacants, want its own", len(all))
	}
	for path, want := range map[string]int{"/v1/admin/vacants/clerk": 200, "/v1/admin/vacants/seller": 404, "/v1/admin/accounts": 403, "/v1/admin/host": 403} {
		if status, answer := s.ask(s.admin, "GET", path, key, ""); status != want {
			t.Errorf("GET %s = %d %v, want %d", path, status, answer, want)
		}
	}
	if status, answer := s.ask(s.admin, "POST", "/v1/admin/vacants/clerk/export", key, ""); status != 403 {
		t.Errorf("a tenant exports its vacant's key: %d %v, want 403", status, answer)
	}
	for path, of := range map[string]string{"/v1/admin/vacants": s.key, "/v1/admin/vacants/clerk": s.key} {
		if status, answer := s.ask(s.admin, "GET", path, of, ""); status != 403 || answer["code"] != "scope_required" {
			t.Errorf("GET %s without the scope = %d %v", path, status, answer)
		}
	}
}

// Payments by card: both keys are set by admin, and only gateway opens them. The request to
// Stripe goes by the safe client, which reaches nothing of this machine.
func TestAPaymentByCardIsCredited(t *testing.T) {
	s := newShop(t)
	self := fmt.Sprint(s.must(s.gateway, "GET", "/v1/account/host", "", "")["host_id"])
	webhook := func(body, key string) (int, object) {
		return s.ask(s.gateway, "POST", "/v1/account/stripe", "", body, "stripe-signature", stripemock.Sign(body, key, time.Now()))
	}
	paid := stripemock.Paid("pi_1", self, s.account, 2500)
	if status, answer := webhook(paid, stripemock.Signing); status != 404 {
		t.Errorf("a webhook before there are keys = %d %v, want 404", status, answer)
	}
	s.must(s.admin, "PUT", "/v1/admin/payments/stripe", sampleOperator, fmt.Sprintf(`{"value":%q,"hosts":["127.0.0.1:1"]}`, stripemock.Key))
	s.must(s.admin, "PUT", "/v1/admin/payments/stripe-webhook", sampleOperator, fmt.Sprintf(`{"value":%q}`, stripemock.Signing))
	for key, want := range map[string]int{"whsec_of_somebody": 400, stripemock.Signing: 200} {
		if status, answer := webhook(paid, key); status != want {
			t.Errorf("a webhook signed by %s = %d %v, want %d", key, status, answer, want)
		}
	}
	if status, _ := webhook(paid, stripemock.Signing); status != 200 || s.balance() != 35_000_000 {
		t.Errorf("the same again = %d, balance %v", status, s.balance())
	}
	if status, _ := webhook(stripemock.Refunded("pi_1", 500), stripemock.Signing); status != 200 || s.balance() != 30_000_000 {
		t.Errorf("a refund = %d, balance %v", status, s.balance())
	}
	if status, answer := s.ask(s.gateway, "POST", "/v1/account/checkout", s.key, `{"amount":25000000}`); status != 403 || answer["code"] != "forbidden" {
		t.Errorf("a page at loopback = %d %v, want 403", status, answer)
	}
	for _, f := range []*Function{s.admin, s.gateway} {
		for _, secret := range []string{stripemock.Key, stripemock.Signing} {
			if strings.Contains(f.Log(), secret) {
				t.Error("a log has a key of payments")
			}
		}
	}
}
