package op_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// request has a field of every kind that requests may have.
type request struct {
	Name  string      `path:"name"`
	ID    identity.ID `path:"id"`
	Limit uint64      `query:"limit"`
	All   bool        `query:"all"`
	Of    *string     `query:"of"`
	Some  []string    `query:"some"`
	Once  string      `header:"Idempotency-Key"`
	Body  note        `body:"json"`
}

type note struct {
	Text string `json:"text"`
}

// heard is a request as the function got it.
type heard struct{ Request request }

func (h *heard) SetHeaders(header http.Header) int {
	header.Set("X-Text", h.Request.Body.Text)
	if h.Request.Body.Text == "new" {
		return http.StatusCreated
	}
	return 0
}

var errUnsound = problem.New(problem.Untrusted, "no host answers so")

func (h *heard) Validate() error {
	if h.Request.Body.Text == "unsound" {
		return errUnsound
	}
	return nil
}

var everything = op.Op[request, heard]{Method: "POST", Path: "/things/{name}/of/{id}", Doc: "takes everything"}

// client asks a handler in this process.
type client struct {
	http.Handler
	status int
	header http.Header
}

func (c *client) Call(ctx context.Context, method, path string, header http.Header, body []byte, into any) error {
	r := httptest.NewRequest(method, path, bytes.NewReader(body)).WithContext(ctx)
	maps.Copy(r.Header, header)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	c.status, c.header = w.Code, w.Result().Header
	if w.Code >= http.StatusBadRequest {
		var refusal httpapi.Refusal
		if err := json.Unmarshal(w.Body.Bytes(), &refusal); err != nil {
			return err
		}
		return refusal.Problem()
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(w.Body.Bytes(), into)
}

func serve(routes ...op.Route) *client {
	return &client{Handler: httpapi.API{Name: "test"}.Mux(op.RoutesByPath(routes...))}
}

func echo(_ context.Context, in request) (heard, error) { return heard{in}, nil }

// The function gets the request of the client unchanged, whatever its texts are.
func TestARequestArrivesAsItWasSent(t *testing.T) {
	c := serve(op.NewRoute(op.Server{OperatorOnly: true}, everything, echo))
	check := func(in request) bool {
		in.Limit &= 1<<62 - 1
		in.Name = strings.ToValidUTF8(in.Name, "")
		in.Body.Text = strings.ToValidUTF8(in.Body.Text, "")
		in.Once = strings.Map(printable, in.Once)
		if len(in.Some) == 0 {
			in.Some = nil
		}
		if strings.Trim(in.Name, ".") == "" {
			in.Name += "name"
		}
		out, err := everything.Call(t.Context(), c, in)
		if in.Body.Text == "unsound" {
			return err != nil
		}
		if err != nil || !reflect.DeepEqual(out.Request, in) {
			t.Logf("sent %+v, heard %+v, %v", in, out.Request, err)
			return false
		}
		return true
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
	type maybe struct {
		ID *string `path:"id"`
	}
	if path, err := (op.Op[maybe, op.None]{Path: "/{id}"}).PathFor(maybe{}); err == nil {
		t.Errorf("a path without its variable is %s", path)
	}
	empty := ""
	for _, in := range []request{
		{Name: "a/b", Of: &empty}, {Name: "../..", Some: []string{"", "&x=y", "z"}}, {Name: "{id}", All: true, Limit: 1<<63 - 1},
		{Name: "?limit=0#", Once: "a key"}, {Name: "%2e%2e"}, {Name: "a\nb"},
	} {
		if !check(in) {
			t.Errorf("%+v did not arrive as it was sent", in)
		}
	}
}

// printable keeps what a header may have.
func printable(r rune) rune {
	if r <= ' ' || r > '~' {
		return -1
	}
	return r
}

// A segment that consists of dots would change the path.
func TestASegmentOfDotsIsNoWayUp(t *testing.T) {
	for _, name := range []string{"", ".", "..", "..."} {
		path, err := everything.PathFor(request{Name: name})
		if err != nil || strings.Contains(path, "/"+name+"/") {
			t.Errorf("PathFor(%q) = %s, %v", name, path, err)
		}
	}
}

func TestAWrongRequestIsToldByItsField(t *testing.T) {
	none := op.Op[op.None, op.None]{Method: "POST", Path: "/none"}
	ignored := op.Op[struct {
		Body string `body:"ignored"`
	}, op.None]{Method: "POST", Path: "/ignored"}
	c := serve(
		op.NewRoute(op.Server{OperatorOnly: true}, everything, echo),
		op.NewRoute(op.Server{OperatorOnly: true}, none, func(context.Context, op.None) (o op.None, err error) { return }),
		op.NewRoute(op.Server{OperatorOnly: true}, ignored, func(context.Context, struct {
			Body string `body:"ignored"`
		}) (o op.None, err error) {
			return
		}),
	)
	id := identity.ID{1}.String()
	for _, x := range []struct {
		name, path, body string
		status           int
		field            string
	}{
		{"all right", "/things/a/of/" + id, `{"text":"b"}`, 200, ""},
		{"created", "/things/a/of/" + id, `{"text":"new"}`, 201, ""},
		{"no id", "/things/a/of/b", `{"text":"b"}`, 400, "id"},
		{"no number", "/things/a/of/" + id + "?limit=many", `{"text":"b"}`, 400, "limit"},
		{"zero", "/things/a/of/" + id + "?limit=0", `{"text":"b"}`, 400, "limit"},
		{"too large", "/things/a/of/" + id + "?limit=9223372036854775808", `{"text":"b"}`, 400, "limit"},
		{"no bool", "/things/a/of/" + id + "?all=1", `{"text":"b"}`, 400, "all"},
		{"no JSON", "/things/a/of/" + id, `{`, 422, ""},
		{"nothing", "/things/a/of/" + id, ``, 422, ""},
		{"another member", "/things/a/of/" + id, `{"text":"b","more":1}`, 400, "more"},
		{"a body that nobody reads", "/none", `{}`, 400, "body"},
		{"no body", "/none", ``, 204, ""},
		{"a body that may come", "/ignored", `anything`, 204, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			err := c.Call(t.Context(), "POST", x.path, nil, []byte(x.body), nil)
			if c.status != x.status {
				t.Fatalf("status %d (%v), want %d", c.status, err, x.status)
			}
			if x.field != "" && problem.AsError(err).Field != x.field {
				t.Errorf("the field is %q, want %q: %v", problem.AsError(err).Field, x.field, err)
			}
		})
	}
}

func TestAClientChecksAnswersThatCanBeUnsound(t *testing.T) {
	c := serve(op.NewRoute(op.Server{OperatorOnly: true}, everything, echo))
	out, err := everything.Call(t.Context(), c, request{Name: "a", Body: note{"unsound"}})
	if !problem.Is(err, problem.Untrusted) || out.Request.Name != "" {
		t.Errorf("Call() = %+v, %v, want nothing but an error", out, err)
	}
}

// Raw documents are sent as they are, and those with secrets are wiped.
func TestRawAnswersAreSentAsTheyAre(t *testing.T) {
	secret := op.Op[op.Body[op.Raw[note]], op.Raw[note]]{Method: "PUT", Path: "/raw", Wipe: true}
	var got, sent op.Raw[note]
	c := serve(op.NewRoute(op.Server{OperatorOnly: true}, secret, func(_ context.Context, in op.Body[op.Raw[note]]) (op.Raw[note], error) {
		got, sent = in.Body, bytes.Clone(in.Body)
		return sent, nil
	}))
	out, err := secret.Call(t.Context(), c, op.NewBody(op.Raw[note](`{ "text" : "s" }`)))
	if err != nil || string(out) != `{ "text" : "s" }` {
		t.Errorf("Call() = %s, %v, want the bytes that were sent", out, err)
	}
	if len(got) == 0 || strings.Trim(string(got)+string(sent), "\x00") != "" {
		t.Errorf("after the answer %q and %q are left of the secret", got, sent)
	}
	if cached := c.header.Get("Cache-Control"); cached != "no-store" {
		t.Errorf("Cache-Control: %s, want no-store", cached)
	}
}

// billingOf is billing with one account.
func billingOf(t *testing.T) (*billing.Billing, billing.Account) {
	t.Helper()
	now := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	b := billing.New(billing.Config{
		Store: memory.New(), Now: func() time.Time { return now }, Rand: rand.Reader,
		MAC:  func(context.Context, []byte) (sum [32]byte, err error) { return sum, nil },
		Self: func(context.Context) (identity.ID, error) { return identity.ID{1}, nil },
	})
	account, err := b.OpenAccount(t.Context(), "acme", 1)
	if err != nil {
		t.Fatal(err)
	}
	return b, account
}

// Each rung of the ladder, from below: what is refused, and how.
func TestTheLadderOfAccess(t *testing.T) {
	b, account := billingOf(t)
	keyOf := func(o billing.KeyOptions) string {
		_, key, err := b.MakeKey(t.Context(), account.ID, o)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	reader := keyOf(billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeRead}})
	manager := keyOf(billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeManage}})
	forTests := keyOf(billing.KeyOptions{Test: true, Scopes: []billing.Scope{billing.ScopeManage}})
	ask := func(s op.Server, a op.Access, key string) (status int, challenge string, by op.Caller) {
		o := op.Op[op.None, op.None]{Method: "POST", Path: "/do", Access: a}
		c := serve(op.NewRoute(s, o, func(ctx context.Context, _ op.None) (none op.None, err error) {
			by = op.CallerOf(ctx)
			return none, nil
		}))
		header := http.Header{}
		if key != "" {
			header.Set("Authorization", "Bearer "+key)
		}
		_ = c.Call(t.Context(), "POST", "/do", header, nil, nil)
		return c.status, c.header.Get("WWW-Authenticate"), by
	}
	keys := op.Server{Keys: b}
	demand := op.Access{Key: billing.KeyRequirement{Scope: billing.ScopeManage}}
	tests := op.Access{Key: billing.KeyRequirement{Scope: billing.ScopeManage, AllowsTest: true}}
	active := op.Access{Key: billing.KeyRequirement{Scope: billing.ScopeManage, RequiresActive: true}}
	for _, x := range []struct {
		name      string
		server    op.Server
		access    op.Access
		key       string
		status    int
		suspended bool
	}{
		{"the operator", op.Server{OperatorOnly: true}, op.Access{}, "", 204, false},
		{"an account, what is the operator's", keys, op.Access{}, manager, 403, false},
		{"nobody, what is the operator's", keys, op.Access{}, "", 401, false},
		{"no host's key, what is the operator's", keys, op.Access{}, "vac_live_nobody", 401, false},
		{"anybody", keys, op.Access{Anybody: true}, "", 204, false},
		{"no key", keys, demand, "", 401, false},
		{"no host's key", keys, demand, "vac_live_nobody", 401, false},
		{"another scope", keys, demand, reader, 403, false},
		{"the scope", keys, demand, manager, 204, false},
		{"a test key", keys, demand, forTests, 403, false},
		{"a test key where it is admitted", keys, tests, forTests, 204, false},
		{"a live key where a test key is admitted", keys, tests, manager, 204, false},
		{"a test key, what is the operator's", keys, op.Access{}, forTests, 403, false},
		{"a suspended account where an active one is needed", keys, active, manager, 403, true},
		{"a suspended account", keys, demand, manager, 204, true},
		{"a host without accounts", op.Server{}, demand, manager, 403, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			if _, err := b.SetSuspended(t.Context(), account.ID, x.suspended, ""); err != nil {
				t.Fatal(err)
			}
			status, challenge, by := ask(x.server, x.access, x.key)
			want := ""
			switch {
			case x.name == "another scope":
				want = `Bearer realm="vacancy", error="insufficient_scope", scope="manage"`
			case x.status == 401:
				want = `Bearer realm="vacancy"`
				if x.key != "" {
					want += `, error="invalid_token"`
				}
				if x.access.Key.Scope != "" {
					want += `, scope="manage"`
				}
			}
			if status != x.status || challenge != want {
				t.Fatalf("%d, challenge %s, want %d, %s", status, challenge, x.status, want)
			}
			if status == 204 && by.IsOperator != x.server.OperatorOnly {
				t.Errorf("the caller is %+v", by)
			}
			if wants := x.access.Key.Scope != "" && status == 204; wants != (by.Key != nil) {
				t.Errorf("the caller's key is %v", by.Key)
			}
		})
	}
}

// A vacant signs the body, too, so the function gets what was signed.
func TestAVacantIsKnownByItsSignatureOfTheBody(t *testing.T) {
	b, account := billingOf(t)
	_, key, err := b.MakeKey(t.Context(), account.ID, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	vacant := identity.ID{7}
	s := op.Server{Keys: b, IdentifyVacant: func(r *http.Request, body []byte) (*identity.ID, error) {
		switch r.Header.Get("Signed") {
		case "":
			return nil, nil
		case string(body):
			return &vacant, nil
		}
		return nil, problem.New(problem.Forbidden, "another body was signed")
	}}
	o := op.Op[op.Body[note], op.None]{Method: "POST", Path: "/do", Access: op.Access{Vacant: true, Key: billing.KeyRequirement{Scope: billing.ScopeRead}}}
	var by op.Caller
	var got note
	c := serve(op.NewRoute(s, o, func(ctx context.Context, in op.Body[note]) (none op.None, err error) {
		by, got = op.CallerOf(ctx), in.Body
		return none, nil
	}))
	for _, x := range []struct {
		signed, key string
		status      int
	}{{"", "", 401}, {"", key, 204}, {`{"text":"a"}`, "", 204}, {`{"text":"b"}`, key, 403}} {
		header := http.Header{}
		if x.signed != "" {
			header.Set("Signed", x.signed)
		}
		if x.key != "" {
			header.Set("Authorization", "Bearer "+x.key)
		}
		_ = c.Call(t.Context(), "POST", "/do", header, []byte(`{"text":"a"}`), nil)
		if c.status != x.status {
			t.Errorf("signed %q, with a key %t: status %d, want %d", x.signed, x.key != "", c.status, x.status)
		}
		if c.status == 204 && (got.Text != "a" || (by.Vacant != nil) != (x.signed != "") || (by.Key != nil) != (x.key != "")) {
			t.Errorf("signed %q, with a key %t: heard %+v of %+v", x.signed, x.key != "", got, by)
		}
	}
}

// An operation for anybody may demand a key of some requests.
func TestSomeRequestsOfAnybodyNeedAKey(t *testing.T) {
	b, account := billingOf(t)
	_, key, err := b.MakeKey(t.Context(), account.ID, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeManage}})
	if err != nil {
		t.Fatal(err)
	}
	o := op.Op[op.None, op.None]{Method: "POST", Path: "/do", Access: op.Access{Anybody: true, Key: billing.KeyRequirement{Scope: billing.ScopeManage}}}
	var by op.Caller
	f := func(ctx context.Context, _ op.None) (none op.None, err error) {
		if op.CallerOf(ctx).Key != nil {
			t.Error("a key is looked at before it is demanded")
		}
		ctx, err = op.RequireKey(ctx)
		by = op.CallerOf(ctx)
		return none, err
	}
	for _, x := range []struct {
		name   string
		server op.Server
		key    string
		status int
	}{{"no key", op.Server{Keys: b}, "", 401}, {"a key", op.Server{Keys: b}, key, 204}, {"the operator", op.Server{OperatorOnly: true}, "", 204}, {"a host without accounts", op.Server{}, key, 403}} {
		c := serve(op.NewRoute(x.server, o, f))
		header := http.Header{}
		if x.key != "" {
			header.Set("Authorization", "Bearer "+x.key)
		}
		_ = c.Call(t.Context(), "POST", "/do", header, nil, nil)
		if c.status != x.status || c.status == 204 && (by.Key == nil) != x.server.OperatorOnly {
			t.Errorf("%s: status %d by %+v, want %d", x.name, c.status, by, x.status)
		}
	}
}

func TestWhatAHostHasNotIsNotFound(t *testing.T) {
	o := op.Op[op.None, op.None]{Method: "POST", Path: "/do"}
	f := func(context.Context, op.None) (none op.None, err error) { return none, nil }
	c := serve(op.RoutesIf(false, "this host does nothing", op.NewRoute(op.Server{}, o, f))...)
	if _ = c.Call(t.Context(), "POST", "/do", nil, nil, nil); c.status != 403 {
		t.Errorf("who may not use what a host has not gets %d, want 403", c.status)
	}
	for there, want := range map[bool]int{true: 204, false: 404} {
		c := serve(op.RoutesIf(there, "this host does nothing", op.NewRoute(op.Server{OperatorOnly: true}, o, f))...)
		err := c.Call(t.Context(), "POST", "/do", nil, nil, nil)
		if c.status != want || !there && !strings.Contains(err.Error(), "this host does nothing") {
			t.Errorf("If(%v): status %d, %v, want %d", there, c.status, err, want)
		}
	}
}

// Whoever declares an operation wrongly learns of it from the first test.
func TestAWrongDeclarationPanics(t *testing.T) {
	nothing := func(context.Context, struct {
		A int `query:"a"`
	}) (o op.None, err error) {
		return
	}
	for name, f := range map[string]func(){
		"a variable without a field": func() { op.NewRoute(op.Server{}, op.Op[op.None, op.None]{Path: "/{id}"}, nil) },
		"a number that is no text": func() {
			op.NewRoute(op.Server{}, op.Op[struct {
				A int `query:"a"`
			}, op.None]{Path: "/"}, nothing)
		},
		"a variable that is read elsewhere": func() {
			op.NewRoute(op.Server{}, op.Op[struct {
				A string `query:"a"`
			}, op.None]{Path: "/{a}"}, nil)
		},
		"a variable for several segments within a path": func() {
			op.NewRoute(op.Server{}, op.Op[struct {
				A string `path:"a"`
			}, op.None]{Path: "/{a...}/b"}, nil)
		},
		"two at one route": func() {
			o := op.NewRoute(op.Server{}, op.Op[op.None, op.None]{Method: "GET", Path: "/"}, nil)
			op.RoutesByPath(o, o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("nothing is said")
				}
			}()
			f()
		})
	}
}

// Whatever comes is answered, and never as a fault of the host.
func FuzzRequest(f *testing.F) {
	c := serve(op.NewRoute(op.Server{OperatorOnly: true}, everything, echo))
	f.Add("a", identity.ID{1}.String(), "limit=1&all=true&some=a&some=b", "once", `{"text":"b"}`)
	f.Add("..", "", "limit=-1&all", "", `{"text":null}`)
	f.Add("%2f", "00", "of=&limit=%zz", "\x00", ``)
	f.Fuzz(func(t *testing.T, name, id, query, once, body string) {
		r := httptest.NewRequest("POST", "/things/a/of/b", strings.NewReader(body))
		r.URL.Path, r.URL.RawPath, r.URL.RawQuery = "/things/"+name+"/of/"+id, "", query
		r.Header.Set("Idempotency-Key", once)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	})
}
