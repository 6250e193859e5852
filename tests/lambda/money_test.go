//go:build unix

package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/caller"
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
	one := claim.PaymentClaim{Host: self, Account: s.account}
	must(t, one.Sign(t.Context(), s.caller.Key, time.Now()))
	s.must(s.gateway, "POST", "/v1/account/links", s.key, fmt.Sprintf(`{"claim":%q}`, one.String()))
	return s
}

func identityOf(t *testing.T, text any) identity.ID {
	t.Helper()
	id, err := identity.ParseID(fmt.Sprint(text))
	must(t, err)
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
	invoke(s.t, f, "meter-schedule.json")
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
		{"gateway-stripe.json", 404, "this host does not accept payments by card"},
		{"gateway-admin.json", 404, `"code":"not_found"`},
		{"gateway-elsewhere.json", 404, `"code":"not_found"`},
	})
	if all := lines(t, f); len(all) != 8 {
		t.Errorf("%d lines for 8 requests:\n%s", len(all), f.Log())
	}
}

// The meter exports a day that is over, also if a run before it was killed between the day's two files,
// and the sweeper voids an overdue call once.
func TestTheMeterExportsADayAndTheSweeperVoidsACall(t *testing.T) {
	s := newShop(t)
	kept, blobs := bucket(t)
	meter := run(t, "meter", s.Host, append(blobs, "VACANCY_ROWS_STREAM="+s.Stream(t))...)
	sweeper := run(t, "sweeper", s.Host, blobs...)
	past := func() time.Time { return time.Now().Add(-24*time.Hour - 15*time.Minute) }
	first := s.caller.Call("yesterday", past())
	if out := s.Open(t, s.Store(s.Endpoint), past, nil).Calls.Send(t.Context(), s.vacant, first); out.Problem != nil {
		t.Fatal(out.Problem)
	}
	s.caller.Accepted(first)
	day := "usage/" + past().UTC().Format(time.DateOnly) + "/" + s.account
	kept.kept[day+".csv"] = object3{body: []byte("written before"), at: time.Now()}
	s.invoke(meter)
	s.invoke(meter)
	if diff := cmp.Diff([]string{day + ".csv", day + ".jsonl"}, kept.keys()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if all := pick(lines(t, meter), "done", "verdict", "rows"); len(all) != 2 || all[0][1].(float64) < 2 || all[1][1] != 0. {
		t.Errorf("rows folded: %v, want all of them, and none", all)
	}
	owned := s.must(s.admin, "GET", "/v1/admin/usage?by=vacant&from="+past().UTC().Format(time.DateOnly), sampleOperator, "")
	if !strings.Contains(fmt.Sprint(owned), "fee:200") {
		t.Errorf("usage of the operator's vacants %v, want the host's fee of 10 %%", owned)
	}

	s.undecided(4 * time.Minute)
	if got := s.balance(); got != 10_000_000-2*2000 {
		t.Errorf("balance %v while a call is undecided", got)
	}
	for range 2 {
		s.invoke(sweeper)
	}
	if got := s.balance(); got != 10_000_000-2000 {
		t.Errorf("balance %v after the sweep, want the call refunded once", got)
	}
	if diff := cmp.Diff([][]any{{1., 0.}, {0., 0.}}, pick(lines(t, sweeper), "done", "decided", "waiting")); diff != "" {
		t.Errorf("decided and waiting calls (-want +got):\n%s", diff)
	}
}

// Rows that the stream dropped before they were folded are counted by the metric of the alarm,
// once, and the remaining rows are folded.
func TestTheMeterTellsOfRowsThatAreGone(t *testing.T) {
	s := newShop(t)
	_, blobs := bucket(t)
	meter := run(t, "meter", s.Host, append(blobs, "VACANCY_ROWS_STREAM="+s.Stream(t))...)
	must(t, s.Store(s.Endpoint).Commit(t.Context(), store.Put{Key: store.Key{Partition: "meter", Sort: "shardId-gone"}, WriteID: store.WriteID{1}, Data: []byte("7")}))
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
		return store.NotAppliedError(errors.New("gone"))
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

// A booking that nobody has dispatched is sent again by the sweeper.
func TestTheSweeperSendsWhatNobodyDispatched(t *testing.T) {
	s := newShop(t)
	_, blobs := bucket(t)
	worker, sweeper := run(t, "worker", s.Host), run(t, "sweeper", s.Host, blobs...)
	then := func() time.Time { return time.Now().Add(-3 * time.Minute) }
	host := s.Open(t, s.Store(s.Endpoint), then, nil)
	s.must(s.admin, "POST", "/v1/admin/vacants/seller/publish", sampleOperator, `{"venue":{"slug":"seller"}}`)
	k, err := host.Billing.Authenticate(t.Context(), s.key)
	must(t, err)
	made, err := host.OpenBookings(lost{}, nil).Confirm(t.Context(), &k, booking.Request{From: "a:b", Agent: "b", Venue: "seller", PartySize: 1})
	must(t, err)
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
