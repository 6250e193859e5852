package admin_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/keys/operator"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
)

func operatorOf(s store.Store) operator.Keys {
	return operator.Keys{Store: s, Rand: rand.Reader, Now: func() time.Time { return at }}
}

func mint(t *testing.T, s store.Store) string {
	t.Helper()
	key, err := operatorOf(s).Rotate(t.Context())
	must(t, err)
	return key
}

func TestOnlyTheOperatorsKeyOpensTheHandler(t *testing.T) {
	h := newTestServer(t, func(c *admin.Config) { c.AllowedHost = "" })
	revoked := mint(t, h.store)
	key, foreign := mint(t, h.store), mint(t, memory.New())
	h.handler = admin.RequireKey(operatorOf(h.store), h.handler)
	bearer := func(values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header["Authorization"] = values }
	}
	const plain, invalid = `Bearer realm="vacancy"`, `Bearer realm="vacancy", error="invalid_token"`
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   string // the challenge; "" if admitted
	}{
		"the key":                  {bearer("Bearer " + key), ""},
		"the key, scheme in lower": {bearer("bearer " + key), ""},
		"the key after blanks":     {bearer("Bearer   " + key), ""},
		"no key":                   {func(*http.Request) {}, plain},
		"an empty header":          {bearer(""), invalid},
		"a scheme alone":           {bearer("Bearer"), invalid},
		"a scheme and a blank":     {bearer("Bearer "), invalid},
		"another scheme":           {bearer("Basic " + key), invalid},
		"the key alone":            {bearer(key), invalid},
		"two keys":                 {bearer("Bearer "+key, "Bearer "+key), invalid},
		"more after the key":       {bearer("Bearer " + key + " x"), invalid},
		"a list":                   {bearer("Bearer " + key + ",Bearer " + key), invalid},
		"a cut key":                {bearer("Bearer " + key[:40]), invalid},
		"a wrong key":              {bearer("Bearer vop_" + strings.Repeat("A", 43)), invalid},
		"a revoked key":            {bearer("Bearer " + revoked), invalid},
		"another host's key":       {bearer("Bearer " + foreign), invalid},
		"the key in the query":     {func(r *http.Request) { r.URL.RawQuery = "key=" + key }, plain},
		"the key in a cookie":      {func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "key", Value: key}) }, plain},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"/v1/admin/vacants", "/v1/admin/host", "/v1/nowhere"} {
				w := h.ask("GET", path, "", c.change)
				if got := w.Header().Get("WWW-Authenticate"); got != c.want {
					t.Errorf("%s: WWW-Authenticate = %q, want %q", path, got, c.want)
				}
				if c.want == "" && w.Code == http.StatusUnauthorized {
					t.Errorf("%s: the key was refused: %s", path, w.Body)
				}
				if c.want != "" {
					wantRefusal(t, w, problem.Unauthorized, "")
				}
				if strings.Contains(w.Body.String(), key) {
					t.Errorf("%s: the answer repeats the key: %s", path, w.Body)
				}
			}
		})
	}
}

func TestAKeyThatCannotBeCheckedIsNoWrongKey(t *testing.T) {
	h := newTestServer(t, func(c *admin.Config) { c.AllowedHost = "" })
	key := mint(t, h.store)
	away := &storetest.Lossy{Store: h.store, ChooseFault: func(string, []store.Write) storetest.Fault { return storetest.Lost }}
	h.handler = admin.RequireKey(operatorOf(away), h.handler)
	w := h.ask("GET", "/v1/admin/vacants", "", header("Authorization", "Bearer "+key))
	wantRefusal(t, w, problem.Unavailable, "")
	if got := w.Header().Get("WWW-Authenticate"); got != "" {
		t.Errorf("WWW-Authenticate = %q, want none", got)
	}
	wantRefusal(t, h.ask("GET", "/v1/admin/vacants", "", header("Authorization", "Bearer x")), problem.Unauthorized, "")
}

func TestAPageInABrowserGetsNothingEvenWithTheKey(t *testing.T) {
	h := newTestServer(t, func(c *admin.Config) { c.AllowedHost = "" })
	key := mint(t, h.store)
	h.handler = admin.RequireKey(operatorOf(h.store), h.handler)
	w := h.ask("GET", "/v1/admin/vacants", "", header("Authorization", "Bearer "+key), header("Origin", "https://x.example"))
	wantRefusal(t, w, problem.Forbidden, "")
}

func TestAClientSendsItsKeyAndNeverPrintsIt(t *testing.T) {
	h := newTestServer(t, func(c *admin.Config) { c.AllowedHost = "" })
	key := mint(t, h.store)
	srv := httptest.NewServer(admin.RequireKey(operatorOf(h.store), h.handler))
	defer srv.Close()
	c := admin.Client{HTTP: srv.Client(), URL: srv.URL, Key: key}
	if _, err := admin.GetHost.Call(t.Context(), c, admin.HostRequest{}); err != nil {
		t.Errorf("Host() with the key = %v", err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, x := range []any{c, &c, struct{ C admin.Client }{c}} {
			if got := fmt.Sprintf(verb, x); strings.Contains(got, key[4:]) || strings.Contains(got, fmt.Sprintf("%x", key[4:])) {
				t.Errorf("%s of a %T shows the key: %s", verb, x, got)
			}
		}
	}
	c.Key = "vop_" + strings.Repeat("A", 43)
	_, err := admin.ListVacants.Call(context.Background(), c, admin.ListVacantsRequest{Cursor: "", All: false})
	if !problem.Is(err, problem.Unauthorized) || strings.Contains(err.Error(), c.Key) {
		t.Errorf("List() with a wrong key = %v, want unauthorized without the key", err)
	}
}

// only is a checker that accepts one key.
type only string

func (o only) Check(_ context.Context, key string) error {
	if key != string(o) {
		return problem.New(problem.Unauthorized, "another")
	}
	return nil
}

func FuzzOnlyAHeaderWithTheKeyLetsIn(f *testing.F) {
	const key = "vop_key"
	f.Add("Bearer vop_key")
	f.Add("bearer  vop_key")
	f.Add("Bearer")
	f.Fuzz(func(t *testing.T, header string) {
		in := false
		handler := admin.RequireKey(only(key), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { in = true }))
		r := httptest.NewRequest("GET", "/v1/admin/vacants", nil)
		r.Header["Authorization"] = []string{header}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if named := strings.HasSuffix(header, " "+key) && strings.EqualFold(strings.TrimRight(strings.TrimSuffix(header, key), " "), "bearer"); in != named {
			t.Errorf("%q is let in: %t", header, in)
		}
		if !in && w.Code != http.StatusUnauthorized {
			t.Errorf("%q = %d, want 401", header, w.Code)
		}
	})
}
