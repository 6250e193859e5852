package admin_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/answer"
	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// testServer is a handler over a store in memory.
type testServer struct {
	handler http.Handler
	store   store.Store
	log     *bytes.Buffer
}

var at = time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)

func newTestServer(t testing.TB, change ...func(*admin.Config)) *testServer {
	t.Helper()
	vault, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	must(t, err)
	h := &testServer{store: memory.New(), log: &bytes.Buffer{}}
	v := hosttest.NewVacants(t, h.store, func() time.Time { return at }, "http://127.0.0.1:8080", vacants.Config{
		Vault:     vault,
		Resources: &resources.Resources{Substrates: substrate.Kinds{echo.Kind: echo.New}},
	})
	c := admin.Config{Vacants: v, Answers: answer.New(answer.Config{Vacants: v}), AllowedHost: admin.SocketHost, Log: slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, f := range change {
		f(&c)
	}
	h.handler = admin.Handler(c)
	return h
}

// ask sends one request as the command line does, changed by options.
func (h *testServer) ask(method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://"+admin.SocketHost+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	return w
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header[name] = []string{value} }
}

func create(t testing.TB, h *testServer, name string) admin.Vacant {
	t.Helper()
	w := h.ask("POST", "/v1/admin/vacants", `{"name":"`+name+`","capability":"says <what> it hears"}`)
	if w.Code != http.StatusCreated {
		t.Fatalf("create = %d %s", w.Code, w.Body)
	}
	return decode[admin.Vacant](t, w)
}

func decode[T any](t testing.TB, w *httptest.ResponseRecorder) (v T) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("body %s: %v", w.Body, err)
	}
	if ct := w.Header().Get("Content-Type"); ct != "application/json" {
		t.Errorf("Content-Type = %q, want application/json", ct)
	}
	return v
}

func wantRefusal(t *testing.T, w *httptest.ResponseRecorder, kind problem.Kind, field string) {
	t.Helper()
	r := decode[httpapi.Refusal](t, w)
	if w.Code != kind.Forms().HTTPStatus || r.Code != kind.String() || r.Field != field || r.Detail == "" {
		t.Errorf("answer = %d %s, want %d, code %s, field %q", w.Code, w.Body, kind.Forms().HTTPStatus, kind, field)
	}
	if w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Error("a refusal carries a CORS header")
	}
}

func TestACreationIsPrintedWithoutItsSeed(t *testing.T) {
	c := admin.Creation{Name: "me", Import: json.RawMessage(`{"seed_hex":"abab"}`)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		for _, x := range []any{c, &c, struct{ C admin.Creation }{c}} {
			if got := fmt.Sprintf(verb, x); strings.Contains(got, "abab") || strings.Contains(got, "61626162") || strings.Contains(got, "97 98") || strings.Contains(got, "0x61, 0x62") {
				t.Errorf("%s of a %T shows the import: %s", verb, x, got)
			}
		}
	}
}

func TestAVacantsLifeThroughTheHandler(t *testing.T) {
	h := newTestServer(t)
	v := create(t, h, "demo")
	c, err := card.Parse(v.Card)
	if err != nil || !c.Verify() || c.Endpoint != v.Endpoint {
		t.Errorf("card %s: %v, endpoint %s", v.Card, err, v.Endpoint)
	}
	want := admin.Vacant{
		ID: c.VacantID, Name: "demo", State: lifecycle.Local, Capability: "says <what> it hears", Substrate: "echo",
		Endpoint: "http://127.0.0.1:8080/v/" + c.VacantID.String() + "/a2a/message/send", Card: v.Card,
		CreatedAt: "2026-05-06T00:00:00+00:00", ChangedAt: "2026-05-06T00:00:00+00:00",
	}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("create (-want +got):\n%s", diff)
	}
	for _, what := range []string{"demo", v.ID.String(), v.ID.String()[:16]} {
		if diff := cmp.Diff(want, decode[admin.Vacant](t, h.ask("GET", "/v1/admin/vacants/"+what, ""))); diff != "" {
			t.Errorf("show %s (-want +got):\n%s", what, diff)
		}
	}
	for _, step := range []struct {
		command string
		want    lifecycle.State
	}{{"pause", lifecycle.Hibernating}, {"pause", lifecycle.Hibernating}, {"resume", lifecycle.Active}, {"sink", lifecycle.Sunk}, {"archive", lifecycle.Archived}} {
		w := h.ask("POST", "/v1/admin/vacants/demo/"+step.command, "")
		if got := decode[admin.Vacant](t, w); w.Code != http.StatusOK || got.State != step.want {
			t.Errorf("%s = %d %s, want %s", step.command, w.Code, got.State, step.want)
		}
	}
	wantRefusal(t, h.ask("POST", "/v1/admin/vacants/demo/resume", ""), problem.Conflict, "")

	l := decode[admin.Logbook](t, h.ask("GET", "/v1/admin/vacants/demo/logbook", ""))
	kinds := []string{}
	for i, e := range l.Entries {
		kinds = append(kinds, fmt.Sprintf("%d %s %s", e.Position, e.Kind, e.Payload))
		if i > 0 && e.Prev != l.Entries[i-1].Hash {
			t.Errorf("entry %d does not name the one before", i)
		}
	}
	wantLog := []string{
		`1 GENESIS {"name":"demo","vacant_id":"` + v.ID.String() + `"}`,
		`2 STATE_CHANGED {"from":"LOCAL","to":"HIBERNATING"}`,
		`3 STATE_CHANGED {"from":"HIBERNATING","to":"ACTIVE"}`,
		`4 STATE_CHANGED {"from":"ACTIVE","to":"SUNK"}`,
		`5 STATE_CHANGED {"from":"SUNK","to":"ARCHIVED"}`,
	}
	if diff := cmp.Diff(wantLog, kinds); diff != "" || l.Next != 6 {
		t.Errorf("logbook, next %d (-want +got):\n%s", l.Next, diff)
	}
	part := decode[admin.Logbook](t, h.ask("GET", "/v1/admin/vacants/demo/logbook?from=2&limit=1", ""))
	if len(part.Entries) != 1 || part.Entries[0].Position != 2 || part.Next != 3 {
		t.Errorf("logbook from 2, 1 entry = %+v", part)
	}
	if end := decode[admin.Logbook](t, h.ask("GET", "/v1/admin/vacants/demo/logbook?from=9", "")); len(end.Entries) != 0 || end.Next != 0 {
		t.Errorf("logbook after its end = %+v", end)
	}
}

func TestListsComeInPages(t *testing.T) {
	h := newTestServer(t)
	if got := h.ask("GET", "/v1/admin/vacants", "").Body.String(); got != `{"vacants":[],"next":""}`+"\n" {
		t.Errorf("an empty list = %s", got)
	}
	for _, name := range []string{"a", "b", "c"} {
		create(t, h, name)
	}
	first := decode[admin.VacantPage](t, h.ask("GET", "/v1/admin/vacants?limit=2", ""))
	second := decode[admin.VacantPage](t, h.ask("GET", "/v1/admin/vacants?limit=2&cursor="+first.Next, ""))
	if len(first.Vacants) != 2 || len(second.Vacants) != 1 || second.Vacants[0].Name != "c" || second.Next != "" {
		t.Errorf("pages = %v, %v", first, second)
	}
	for query, field := range map[string]string{"limit=0": "limit", "limit=-1": "limit", "limit=x": "limit", "limit=101": "limit", "cursor=x": "cursor"} {
		wantRefusal(t, h.ask("GET", "/v1/admin/vacants?"+query, ""), problem.Malformed, field)
	}
}

func TestBodiesAreStrictJSON(t *testing.T) {
	h := newTestServer(t)
	seed := strings.Repeat("ab", 32)
	for name, c := range map[string]struct {
		body  string
		kind  problem.Kind
		field string
	}{
		"empty":                 {" ", problem.NotJSON, ""},
		"an array":              {"[]", problem.NotJSON, ""},
		"broken":                {`{"name":"x"`, problem.NotJSON, ""},
		"trailing data":         {`{"name":"x","capability":"c"}{}`, problem.NotJSON, ""},
		"a BOM":                 {"\xef\xbb\xbf{}", problem.Malformed, ""},
		"no UTF-8":              {"{\"name\":\"\xff\"}", problem.Malformed, ""},
		"twice":                 {`{"name":"x","n\u0061me":"y"}`, problem.Malformed, "name"},
		"a number for the name": {`{"name":1}`, problem.Malformed, "name"},
		"null for the name":     {`{"name":null}`, problem.Malformed, "name"},
		"an unknown member":     {`{"name":"x","stat":"y"}`, problem.Malformed, "stat"},
		"nothing in it":         {`{}`, problem.Malformed, "name"},
		"a bad name":            {`{"name":"a b","capability":"c"}`, problem.Malformed, "name"},
		"no capability":         {`{"name":"x"}`, problem.Malformed, "capability"},
		"a bad substrate":       {`{"name":"x","capability":"c","substrate":"oracle"}`, problem.Malformed, "substrate"},
		"import: no seed":       {`{"name":"x","capability":"c","import":{}}`, problem.Malformed, "import.seed_hex"},
		"import: a short seed":  {`{"name":"x","capability":"c","import":{"seed_hex":"` + seed[:62] + `"}}`, problem.Malformed, "import.seed_hex"},
		"import: no hex":        {`{"name":"x","capability":"c","import":{"seed_hex":"` + seed[:63] + `g"}}`, problem.Malformed, "import.seed_hex"},
		"import: a number":      {`{"name":"x","capability":"c","import":{"seed_hex":1}}`, problem.Malformed, "import.seed_hex"},
		"import: another's id":  {`{"name":"x","capability":"c","import":{"seed_hex":"` + seed + `","id":"00"}}`, problem.Malformed, "import.id"},
		"import: an unknown":    {`{"name":"x","capability":"c","import":{"sed_hex":"` + seed + `"}}`, problem.Malformed, "import.sed_hex"},
		"import: bad logbook":   {`{"name":"x","capability":"c","import":{"seed_hex":"` + seed + `","logbook":{}}}`, problem.Malformed, "import.logbook"},
		"import: bad entry":     {`{"name":"x","capability":"c","import":{"seed_hex":"` + seed + `","logbook":[{}]}}`, problem.Malformed, "import.logbook"},
		"import: bad chains":    {`{"name":"x","capability":"c","import":{"seed_hex":"` + seed + `","chains":[]}}`, problem.Malformed, "import.chains"},
		"import: bad target":    {`{"name":"x","capability":"c","import":{"seed_hex":"` + seed + `","chains":{"x":{}}}}`, problem.Malformed, "import.chains"},
		"import: same target":   {`{"name":"x","capability":"c","import":{"seed_hex":"` + seed + `","chains":{"` + seed + `":{},"` + strings.ToUpper(seed) + `":{}}}}`, problem.Malformed, "import.chains"},
		"import: bad chain":     {`{"name":"x","capability":"c","import":{"seed_hex":"` + seed + `","chains":{"` + seed + `":1}}}`, problem.Malformed, "import.chains.abababababab"},
	} {
		t.Run(name, func(t *testing.T) {
			w := h.ask("POST", "/v1/admin/vacants", c.body)
			wantRefusal(t, w, c.kind, c.field)
			if strings.Contains(w.Body.String(), seed[:16]) && c.field != "import.chains" && c.field != "import.chains.abababababab" {
				t.Errorf("the refusal shows the seed: %s", w.Body)
			}
		})
	}
	wantRefusal(t, h.ask("POST", "/v1/admin/vacants", "{}", header("Content-Type", "text/plain")), problem.UnsupportedMedia, "")
	wantRefusal(t, h.ask("POST", "/v1/admin/vacants", "{}", header("Content-Type", "application/x-www-form-urlencoded")), problem.UnsupportedMedia, "")
	wantRefusal(t, h.ask("POST", "/v1/admin/vacants", "", header("Content-Length", "0")), problem.UnsupportedMedia, "")
	wantRefusal(t, h.ask("POST", "/v1/admin/vacants", "{}", header("Content-Encoding", "gzip")), problem.UnsupportedMedia, "")
	wantRefusal(t, h.ask("POST", "/v1/admin/vacants", `{"name":"`+strings.Repeat("x", 17<<20)+`"}`), problem.TooLarge, "")
	wantRefusal(t, h.ask("POST", "/v1/admin/vacants/demo/pause", "{}"), problem.Malformed, "body")
	if got := decode[admin.VacantPage](t, h.ask("GET", "/v1/admin/vacants", "")); len(got.Vacants) != 0 {
		t.Errorf("a refused creation left %v", got.Vacants)
	}
}

// export returns the output of `vacancy export` for a key with one log entry.
func export(t testing.TB, key *identity.Key, target identity.ID) string {
	t.Helper()
	e := logbook.Next(nil, logbook.KindGenesis, at, logbook.GenesisPayload("me", key.ID()))
	if _, err := e.Sign(context.Background(), key); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"format":"vacancy-export/1","exported":"2026-05-06T00:00:00+00:00","name":"me","id":"%s","seed_hex":"%s","card":null,"logbook":[%s],"chains":{"%s":{"seq":3}}}`,
		key.ID(), hex.EncodeToString(key.Seed()), e.AppendLine(nil), target)
}

func TestAnExportIsTakenInAndItsSeedShowsNowhere(t *testing.T) {
	h := newTestServer(t)
	key, err := identity.NewKey(rand.Reader)
	must(t, err)
	seed := hex.EncodeToString(key.Seed())
	body := `{"name":"moved","capability":"c","import":` + export(t, key, identity.ID{7}) + `}`
	shown := ""
	for range 2 { // the same command repeated
		w := h.ask("POST", "/v1/admin/vacants", body)
		if w.Code != http.StatusCreated {
			t.Fatalf("create = %d %s", w.Code, w.Body)
		}
		if v := decode[admin.Vacant](t, w); v.ID != key.ID() || v.Name != "moved" {
			t.Errorf("create = %+v, want the key's id", v)
		}
		shown += w.Body.String()
	}
	d, err := h.store.Doc(t.Context(), vacants.ChainDocs.Key(key.ID().String(), identity.ID{7}.String()))
	if err != nil || string(d.Data) != `{"seq":3}` {
		t.Errorf("chain = %s, %v", d.Data, err)
	}
	l := decode[admin.Logbook](t, h.ask("GET", "/v1/admin/vacants/moved/logbook", ""))
	if len(l.Entries) != 2 || l.Entries[0].Kind != logbook.KindGenesis || l.Entries[1].Kind != logbook.KindCardSigned {
		t.Errorf("logbook = %+v, want the old entry and the new card", l.Entries)
	}
	shown += h.ask("POST", "/v1/admin/vacants", strings.Replace(body, "moved", "other", 1)).Body.String()
	shown += h.log.String() + h.ask("GET", "/v1/admin/vacants/moved", "").Body.String()
	if strings.Contains(shown, seed) || strings.Contains(shown, seed[:20]) {
		t.Errorf("the seed shows in:\n%s", shown)
	}
}

func TestAPageInABrowserGetsNothing(t *testing.T) {
	h := newTestServer(t)
	create(t, h, "demo")
	rebound := func(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }
	for name, change := range map[string]func(*http.Request){
		"fetch of another origin":  header("Origin", "https://evil.example"),
		"origin null":              header("Origin", "null"),
		"the handler's own origin": header("Origin", "http://"+admin.SocketHost),
		"an empty origin":          header("Origin", ""),
		"an image":                 header("Sec-Fetch-Site", "cross-site"),
		"a navigation":             header("Sec-Fetch-Mode", "navigate"),
		"a rebound name":           rebound("evil.example"),
		"loopback":                 rebound("127.0.0.1:8080"),
		"localhost":                rebound("localhost"),
		"the name with a port":     rebound(admin.SocketHost + ":80"),
		"no host":                  rebound(""),
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range [][2]string{{"GET", "/v1/admin/vacants"}, {"GET", "/v1/admin/vacants/demo"}, {"POST", "/v1/admin/vacants/demo/sink"}, {"OPTIONS", "/v1/admin/vacants"}, {"GET", "/v1/admin/verify"}, {"GET", "/nothing"}} {
				wantRefusal(t, h.ask(r[0], r[1], "", change), problem.Forbidden, "")
			}
		})
	}
	if v := decode[admin.Vacant](t, h.ask("GET", "/v1/admin/vacants/demo", "")); v.State != lifecycle.Local {
		t.Errorf("the vacant is %s, want LOCAL", v.State)
	}
	keyed := newTestServer(t, func(c *admin.Config) { c.AllowedHost = "" })
	if w := keyed.ask("GET", "/v1/admin/vacants", "", rebound("abc.lambda-url.eu-central-1.on.aws")); w.Code != http.StatusOK {
		t.Errorf("where a key guards the handler any Host will do, got %d", w.Code)
	}
	wantRefusal(t, keyed.ask("GET", "/v1/admin/vacants", "", header("Origin", "https://evil.example")), problem.Forbidden, "")
}

func TestPathsAndMethodsThatAreNotThere(t *testing.T) {
	h := newTestServer(t)
	create(t, h, "demo")
	for _, r := range [][2]string{{"GET", "/"}, {"GET", "/v1"}, {"GET", "/v1/admin/vacants/"}, {"GET", "/v1/admin/vacants/nobody"}, {"POST", "/v1/admin/vacants/nobody/sink"}, {"POST", "/v1/admin/vacants/demo/explode"}, {"GET", "/v1/admin/verify"}, {"GET", "/v1/admin/chain/a/b"}, {"POST", "/a2a/message/send"}} {
		wantRefusal(t, h.ask(r[0], r[1], ""), problem.NotFound, "")
	}
	for _, r := range [][3]string{{"PUT", "/v1/admin/vacants/demo", "DELETE, GET, PATCH"}, {"PUT", "/v1/admin/vacants", "GET, POST"}, {"GET", "/v1/admin/vacants/demo/pause", "POST"}, {"POST", "/v1/admin/vacants/demo/logbook", "GET"}, {"OPTIONS", "/v1/admin/vacants", "GET, POST"}, {"POST", "/v1/admin/verify", "GET"}} {
		w := h.ask(r[0], r[1], "")
		wantRefusal(t, w, problem.MethodNotAllowed, "")
		if got := w.Header().Get("Allow"); got != r[2] {
			t.Errorf("%s %s: Allow = %q, want %q", r[0], r[1], got, r[2])
		}
	}
}

func TestStreamsAreServedByWhoCan(t *testing.T) {
	h := newTestServer(t, func(c *admin.Config) {
		c.VerifyHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "verified") })
		c.ChainHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.PathValue("from")+">"+r.PathValue("to"))
		})
	})
	for path, want := range map[string]string{"/v1/admin/verify": "verified", "/v1/admin/chain/a/b": "a>b"} {
		if got := h.ask("GET", path, "").Body.String(); got != want {
			t.Errorf("GET %s = %q, want %q", path, got, want)
		}
	}
}

func TestACommandIsOneLogLine(t *testing.T) {
	h := newTestServer(t)
	create(t, h, "demo")
	h.ask("GET", "/v1/admin/vacants/nobody", "")
	lines := strings.Split(strings.TrimSpace(h.log.String()), "\n")
	want := []string{`level=INFO msg=admin method=POST path=/v1/admin/vacants verdict=ok`, `level=DEBUG msg=admin method=GET path=/v1/admin/vacants/nobody verdict=not_found`}
	for i := range lines {
		_, lines[i], _ = strings.Cut(lines[i], " ") // the time
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestAStorageFaultIsOpaqueOutsideAndWholeInTheLog(t *testing.T) {
	h := newTestServer(t)
	must(t, h.store.Close())
	w := h.ask("GET", "/v1/admin/vacants/demo", "")
	wantRefusal(t, w, problem.Unavailable, "")
	if strings.Contains(w.Body.String(), "closed") || !strings.Contains(h.log.String(), "closed") {
		t.Errorf("answer %s, log %s: want the cause in the log alone", w.Body, h.log)
	}
}

func TestTheClientSpeaksToTheHandler(t *testing.T) {
	h := newTestServer(t, func(c *admin.Config) {
		c.AllowedHost = ""
		c.VerifyHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "verified") })
	})
	s := httptest.NewServer(h.handler)
	defer s.Close()
	c := &admin.Client{HTTP: s.Client(), URL: s.URL}
	ctx := t.Context()
	made, err := admin.CreateVacant.Call(ctx, c, op.NewBody(admin.Creation{Name: "demo", Capability: "a <b> & c", Substrate: "echo"}))
	must(t, err)
	shown, err := admin.ShowVacant.Call(ctx, c, admin.VacantRef{Vacant: "demo"})
	if diff := cmp.Diff(made, shown); err != nil || diff != "" {
		t.Errorf("Show() = %v (-made +shown):\n%s", err, diff)
	}
	if v, err := admin.PauseVacant.Call(ctx, c, admin.VacantRef{Vacant: "demo"}); err != nil || v.State != lifecycle.Hibernating {
		t.Errorf("Change() = %v, %v", v.State, err)
	}
	if p, err := admin.ListVacants.Call(ctx, c, admin.ListVacantsRequest{Cursor: "", All: false}); err != nil || len(p.Vacants) != 1 {
		t.Errorf("List() = %v, %v", p, err)
	}
	if l, err := admin.GetLogbook.Call(ctx, c, admin.LogbookRequest{VacantRef: admin.VacantRef{Vacant: "demo"}, From: 2}); err != nil || len(l.Entries) != 1 || l.Entries[0].Kind != logbook.KindStateChanged {
		t.Errorf("Logbook() = %v, %v", l, err)
	}
	body, err := c.Stream(ctx, "/v1/admin/verify")
	must(t, err)
	if b, err := io.ReadAll(body); err != nil || string(b) != "verified" {
		t.Errorf("Stream() = %q, %v", b, err)
	}
	body.Close()
	key, _ := identity.NewKey(rand.Reader)
	if v, err := admin.CreateVacant.Call(ctx, c, op.NewBody(admin.Creation{Name: "moved", Capability: "c", Import: json.RawMessage(export(t, key, identity.ID{7}))})); err != nil || v.ID != key.ID() {
		t.Errorf("Create() of an export = %v, %v", v, err)
	}
	_, err = admin.CreateVacant.Call(ctx, c, op.NewBody(admin.Creation{Name: "demo", Capability: "c"}))
	want := &problem.Error{Kind: problem.Conflict, Field: "name", Detail: "the name demo is in use or reserved on this host; choose another"}
	if diff := cmp.Diff(want, problem.AsError(err)); diff != "" {
		t.Errorf("Create() of a taken name (-want +got):\n%s", diff)
	}
	for _, what := range []string{"", ".", "..", "a/b", "a?b", "../vacants"} {
		if _, err := admin.ShowVacant.Call(ctx, c, admin.VacantRef{Vacant: what}); !problem.Is(err, problem.Malformed) {
			t.Errorf("Show(%q) = %v, want a refused name", what, err)
		}
	}
	s.Close()
	if _, err := admin.ShowVacant.Call(ctx, c, admin.VacantRef{Vacant: "demo"}); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Show() without a host = %v, want unavailable", err)
	}
}

func FuzzCreate(f *testing.F) {
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	h := newTestServer(f)
	f.Add(`{"name":"x","capability":"c"}`)
	f.Add(`{"name":"x","capability":"c","substrate":"echo","import":null}`)
	f.Add(`{"name":"x","capability":"c","import":` + export(f, key, identity.ID{7}) + `}`)
	f.Fuzz(func(t *testing.T, body string) {
		if w := h.ask("POST", "/v1/admin/vacants", body); w.Code >= 500 {
			t.Errorf("create(%q) = %d %s", body, w.Code, w.Body)
		}
	})
}

func TestAnUpdateIsMadeOnceAndOnlyByWhoSawTheLast(t *testing.T) {
	h := newTestServer(t)
	seen := create(t, h, "demo")
	c := h.client(t)
	name, capability := "scribe", "sings"
	got, err := admin.UpdateVacant.Call(t.Context(), c, admin.NewVacantRequest("demo", admin.Update{Name: &name, Capability: &capability, BasedOn: &seen.ChangedAt}))
	if err != nil || got.Name != name || got.Capability != capability || got.ID != seen.ID {
		t.Fatalf("Update() = %+v, %v", got, err)
	}
	for body, want := range map[string]struct {
		kind  problem.Kind
		field string
	}{
		`{}`:                              {problem.Malformed, "changes"},
		`{"capability":1}`:                {problem.Malformed, "capability"},
		`{"capability":null}`:             {problem.Malformed, "capability"},
		`{"colour":"red"}`:                {problem.Malformed, "colour"},
		`{"name":"a","name":"b"}`:         {problem.Malformed, "name"},
		`{"name":"a","seen":"yesterday"}`: {problem.Malformed, "seen"},
		`{"name":"a","seen":""}`:          {problem.Malformed, "seen"},
		`{"name":"a/b"}`:                  {problem.Malformed, "name"},
		`[]`:                              {problem.NotJSON, ""},
		`{"name":"late","seen":"2020-01-01T00:00:00+00:00"}`: {problem.Conflict, ""},
	} {
		wantRefusal(t, h.ask("PATCH", "/v1/admin/vacants/scribe", body), want.kind, want.field)
	}
	wantRefusal(t, h.ask("PATCH", "/v1/admin/vacants/demo", `{"name":"a"}`), problem.NotFound, "")
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
