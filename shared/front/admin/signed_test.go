package admin_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/family/spawning"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// family is a host with a parent whose key the test has, and a handler of
// signed requests.
type family struct {
	*testServer
	key     *identity.Key
	signed  http.Handler
	vacants *vacants.Directory
	clock   func() time.Time
}

func newFamily(t testing.TB) *family {
	t.Helper()
	var v *vacants.Directory
	h := newTestServer(t, func(c *admin.Config) { v = c.Vacants })
	key, err := identity.KeyFromSeed(bytes.Repeat([]byte{3}, identity.Size))
	must(t, err)
	if _, err := v.Create(t.Context(), vacants.CreateSpec{Name: "parent", Capability: "leads", Substrate: "echo", Key: key}); err != nil {
		t.Fatal(err)
	}
	// Creating a child does not overwrite the key, which is the caller's.
	if key, err = identity.KeyFromSeed(bytes.Repeat([]byte{3}, identity.Size)); err != nil {
		t.Fatal(err)
	}
	f := &family{testServer: h, key: key, vacants: v, clock: func() time.Time { return at }}
	asked := &spawning.Requests{Store: h.store, Now: func() time.Time { return f.clock() }, Rand: rand.Reader}
	f.signed = admin.SignedChildrenHandler(admin.Config{Vacants: v, Log: slog.New(slog.DiscardHandler)}, asked)
	return f
}

// spawnRequest is a parent's request; change changes it before it is signed.
func (f *family) spawnRequest(t testing.TB, nonce int, change func(*composite.SpawnRequest)) composite.SpawnRequest {
	t.Helper()
	r := composite.SpawnRequest{ParentID: f.key.ID(), BirthPath: "D2", Name: "child", Nonce: fmt.Sprintf("%032x", nonce), Time: at}
	if change != nil {
		change(&r)
	}
	key := f.key
	if r.ParentID != key.ID() {
		key = otherKey(t)
	}
	must(t, r.Sign(t.Context(), key))
	return r
}

func otherKey(t testing.TB) *identity.Key {
	t.Helper()
	key, err := identity.KeyFromSeed(bytes.Repeat([]byte{4}, identity.Size))
	must(t, err)
	return key
}

func (f *family) ask(parent identity.ID, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "http://host.example/v1/admin/vacants/"+parent.String()+"/children", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.signed.ServeHTTP(w, r)
	return w
}

func TestAParentHasAChildByItsOwnSignature(t *testing.T) {
	f := newFamily(t)
	r := f.spawnRequest(t, 1, nil)
	first := f.ask(f.key.ID(), string(r.Blob()))
	if first.Code != http.StatusCreated {
		t.Fatalf("POST children = %d %s, want 201", first.Code, first.Body)
	}
	made := decode[admin.Spawned](t, first)
	m, err := made.Manifest.Open()
	if err != nil || m.ParentID != f.key.ID() || !m.ClosedByDefault {
		t.Errorf("manifest %s: %v, want one of the parent that closes", made.Manifest.Manifest, err)
	}
	if again := f.ask(f.key.ID(), string(r.Blob())); again.Body.String() != first.Body.String() {
		t.Errorf("the same bytes again = %d %s, want the same child", again.Code, again.Body)
	}
}

func TestSpawnRequestNeedsTheParentsSignature(t *testing.T) {
	f := newFamily(t)
	own := f.key.ID()
	forged := f.spawnRequest(t, 1, nil)
	forged.Name = "another"
	other := otherKey(t).ID()
	used := f.spawnRequest(t, 9, nil)
	if w := f.ask(own, string(used.Blob())); w.Code != http.StatusCreated {
		t.Fatalf("POST children = %d %s", w.Code, w.Body)
	}
	// Only the operator may give another vacant such a name.
	_, err := f.vacants.Create(t.Context(), vacants.CreateSpec{Name: "taken-" + own.Short(), Capability: "is here", Substrate: "echo"})
	must(t, err)
	signed := func(nonce int, change func(*composite.SpawnRequest)) string {
		r := f.spawnRequest(t, nonce, change)
		return string(r.Blob())
	}
	for name, c := range map[string]struct {
		parent identity.ID
		body   string
		want   problem.Kind
	}{
		"changed after it":        {own, string(forged.Blob()), problem.BadSignature},
		"of a stranger":           {other, signed(2, func(r *composite.SpawnRequest) { r.ParentID = other }), problem.NotFound},
		"to another's address":    {other, signed(2, nil), problem.Malformed},
		"of yesterday":            {own, signed(2, func(r *composite.SpawnRequest) { r.Time = at.Add(-24 * time.Hour) }), problem.ClockSkew},
		"a nonce for two":         {own, signed(9, func(r *composite.SpawnRequest) { r.Name = "second" }), problem.Replay},
		"for another parent, too": {own, signed(2, func(r *composite.SpawnRequest) { r.BirthPath, r.SecondParentID = "D4", &other }), problem.Forbidden},
		"a name that is taken":    {own, signed(3, func(r *composite.SpawnRequest) { r.Name = "taken" }), problem.Conflict},
		"a child that is another": {own, signed(4, func(r *composite.SpawnRequest) { r.BirthPath, r.Rule = "D1", "be kind" }), problem.Conflict},
		"a name that is too long": {own, signed(5, func(r *composite.SpawnRequest) { r.Name = strings.Repeat("x", 52) }), problem.Malformed},
		"no name":                 {own, signed(5, func(r *composite.SpawnRequest) { r.Name = "" }), problem.Malformed},
		"a path that is none":     {own, `{"intent":"vacancy:spawn:v1","name":"x","nonce":"` + strings.Repeat("0", 32) + `","parent_id":"` + own.String() + `","path":"D9","ts":"2026-05-06T00:00:00+00:00"}`, problem.Malformed},
		"no request":              {own, `{"name":"x","path":"D2"}`, problem.Malformed},
		"too much":                {own, `{"name":"` + strings.Repeat("x", composite.MaxRequestBytes) + `"}`, problem.TooLarge},
	} {
		w := f.ask(c.parent, c.body)
		if got := decode[httpapi.Refusal](t, w); got.Code != c.want.String() {
			t.Errorf("%s: POST children = %d %+v, want %v", name, w.Code, got, c.want)
		}
	}
}

// The host probes an endpoint from its own network, which may be private.
func TestAParentChoosesNoEndpointForItsChild(t *testing.T) {
	f := newFamily(t)
	own, grown := f.key.ID(), otherKey(t)
	const inside, model = "http://127.0.0.1:9/inside", "http:https://model.example/a"
	// A parent may choose the substrates of its children.
	m := composite.Manifest{ParentID: grown.ID(), ChildID: own, BirthPath: "D1", AddedTools: []string{inside},
		Reachability: composite.PublicA2A, OutboundPolicy: composite.Unrestricted, SchemaVersion: composite.SchemaV2}
	for _, err := range []error{m.SignParent(t.Context(), grown), m.SignChild(t.Context(), f.key), f.vacants.AddManifest(t.Context(), m)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, thinks := range []string{"http:" + inside, inside, model, "composite", "oracle", "echo:x"} {
		r := f.spawnRequest(t, i, func(r *composite.SpawnRequest) { r.Substrate = thinks })
		w := f.ask(own, string(r.Blob()))
		if got := decode[httpapi.Refusal](t, w); w.Code != http.StatusForbidden || !strings.Contains(got.Detail, "substrate: expected none") || !strings.Contains(got.Detail, "only the operator") {
			t.Errorf("POST children that think by %s = %d %+v, want 403", thinks, w.Code, got)
		}
	}
	r := f.spawnRequest(t, 20, func(r *composite.SpawnRequest) { r.Substrate = "echo" })
	if w := f.ask(own, string(r.Blob())); w.Code != http.StatusCreated {
		t.Errorf("POST children that echo = %d %s, want 201", w.Code, w.Body)
	}
}

// The parent's own substrate was chosen by its host's operator.
func TestAChildThinksAsItsParentDoes(t *testing.T) {
	f := newFamily(t)
	const model = "http:https://model.example/a"
	f.vacants.Resources.Substrates[substrate.KindHTTP] = func(string) (substrate.Substrate, error) { return echo.New("") }
	key := otherKey(t)
	if _, err := f.vacants.Create(t.Context(), vacants.CreateSpec{Name: "thinker", Capability: "thinks", Substrate: model, Key: otherKey(t)}); err != nil {
		t.Fatal(err)
	}
	for i, thinks := range []string{"", model, strings.TrimPrefix(model, "http:")} {
		r := f.spawnRequest(t, i, func(r *composite.SpawnRequest) {
			r.ParentID, r.Substrate, r.Name = key.ID(), thinks, fmt.Sprint("child", i)
		})
		w := f.ask(key.ID(), string(r.Blob()))
		if w.Code != http.StatusCreated {
			t.Fatalf("POST children that think by %q = %d %s, want 201", thinks, w.Code, w.Body)
		}
		made := decode[admin.Spawned](t, w)
		if want := fmt.Sprintf("child%d-%s", i, key.ID().Short()); made.Vacant.Substrate != model || made.Vacant.Name != want {
			t.Errorf("the child is %s, %s, want %s, %s", made.Vacant.Name, made.Vacant.Substrate, want, model)
		}
	}
}

// The hundredth child is the last until one is deleted.
func TestAParentAsksForAHundredChildren(t *testing.T) {
	f := newFamily(t)
	now := at
	f.clock = func() time.Time { return now }
	for i := range spawning.MaxChildren {
		if i%spawning.MaxRequests == 0 {
			now = now.Add(spawning.Window)
		}
		r := f.spawnRequest(t, i, func(r *composite.SpawnRequest) { r.Name, r.Time = fmt.Sprint("child", i), now })
		if w := f.ask(f.key.ID(), string(r.Blob())); w.Code != http.StatusCreated {
			t.Fatalf("POST of child %d = %d %s, want 201", i, w.Code, w.Body)
		}
	}
	now = now.Add(spawning.Window)
	more := func(nonce int) *httptest.ResponseRecorder {
		r := f.spawnRequest(t, nonce, func(r *composite.SpawnRequest) { r.Name, r.Time = "more", now })
		return f.ask(f.key.ID(), string(r.Blob()))
	}
	if w := more(200); w.Code != http.StatusTooManyRequests {
		t.Errorf("POST of one too many = %d %s, want 429", w.Code, w.Body)
	}
	gone, err := f.vacants.GetByName(t.Context(), vacants.OperatorAsker(), "child7-"+f.key.ID().Short())
	must(t, err)
	for _, step := range []func(context.Context, identity.ID) (vacants.Record, error){f.vacants.Sink, f.vacants.Archive, f.vacants.Delete} {
		if _, err := step(t.Context(), gone.ID); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(spawning.RecountInterval)
	if w := more(201); w.Code != http.StatusCreated {
		t.Errorf("POST in the place of one that was deleted = %d %s, want 201", w.Code, w.Body)
	}
}

func TestTheHandlerForParentsHasNothingElse(t *testing.T) {
	f := newFamily(t)
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/v1/admin/vacants/parent/children", 405}, {"DELETE", "/v1/admin/vacants/parent/children", 405},
		{"GET", "/v1/admin/vacants", 404}, {"POST", "/v1/admin/vacants/parent/publish", 404}, {"POST", "/v1/admin/vacants/parent/children/x", 404},
	} {
		w := httptest.NewRecorder()
		f.signed.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if w.Code != c.want {
			t.Errorf("%s %s = %d, want %d", c.method, c.path, w.Code, c.want)
		}
	}
	r := httptest.NewRequest("POST", "/v1/admin/vacants/parent/children", strings.NewReader("{}"))
	r.Header.Set("Origin", "https://page.example")
	w := httptest.NewRecorder()
	if f.signed.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("POST of a page in a browser = %d, want 403", w.Code)
	}
	for path, want := range map[string]bool{
		"/v1/admin/vacants/ab/children": true, "/v1/admin/vacants/ab/children/": false, "/v1/admin/vacants/ab/children/x": false,
		"/v1/admin/vacants//children": false, "/v1/admin/vacants/children": false, "/v1/admin/vacants": false, "/v1/admin/vacants/ab/manifest": false,
	} {
		if got := admin.IsChildrenPath(path); got != want {
			t.Errorf("IsChildrenPath(%s) = %t, want %t", path, got, want)
		}
	}
}

// down is a store that refuses all writes.
type down struct{ store.Store }

func (down) Commit(context.Context, ...store.Write) error { return store.ErrUnavailable }

// The host fails between recording a request and creating the child. The same
// bytes, sent again, continue it, and count once against the hourly limit.
func TestARequestThatBrokeOffGoesOn(t *testing.T) {
	f := newFamily(t)
	r := f.spawnRequest(t, 1, nil)
	whole := f.vacants.Store
	f.vacants.Store, f.vacants.Wait = down{whole}, func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	if w := f.ask(f.key.ID(), string(r.Blob())); w.Code != http.StatusServiceUnavailable {
		t.Fatalf("POST children of a host that is down = %d %s, want 503", w.Code, w.Body)
	}
	f.vacants.Store = whole
	if w := f.ask(f.key.ID(), string(r.Blob())); w.Code != http.StatusCreated {
		t.Fatalf("POST of the same = %d %s, want 201", w.Code, w.Body)
	}
	for i := 1; i <= spawning.MaxRequests; i++ {
		next := f.spawnRequest(t, 1+i, func(r *composite.SpawnRequest) { r.Name = fmt.Sprint("child", i) })
		want := http.StatusCreated
		if i == spawning.MaxRequests {
			want = http.StatusTooManyRequests
		}
		if w := f.ask(f.key.ID(), string(next.Blob())); w.Code != want {
			t.Errorf("POST of request %d = %d %s, want %d", 1+i, w.Code, w.Body, want)
		}
	}
}
