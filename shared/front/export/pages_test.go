package export_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// pagesOf is the paged export of a host.
func pagesOf(a *hosttest.Caller) http.Handler {
	at := a.Time
	return export.PagesHandler(export.Config{Source: a.Store, Vault: a.Vault, Now: func() time.Time { return at }, Retention: hosttest.Retention})
}

// ask sends one request and reads its answer into a value.
func ask(t *testing.T, h http.Handler, method, target, body string, into any) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	h.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		t.Fatalf("%s %s = %d %s, want JSON", method, target, w.Code, w.Body)
	}
	return w
}

func b64(s store.Stream) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func TestPagesHaveWhatIsKept(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	h := pagesOf(a)
	var about export.About
	ask(t, h, "GET", "/v1/admin/export", "", &about)
	if diff := cmp.Diff(export.About{Format: export.ExportFormat, RetentionSeconds: 24 * 60 * 60}, about); diff != "" {
		t.Errorf("GET /v1/admin/export (-want +got):\n%s", diff)
	}
	var names []store.Stream
	for cursor, more := "", true; more; more = cursor != "" {
		var page export.StreamsPage
		target := "/v1/admin/export/streams?limit=2"
		if cursor != "" {
			target += "&cursor=" + cursor
		}
		ask(t, h, "GET", target, "", &page)
		for _, b := range page.Streams {
			names = append(names, store.Stream(b))
		}
		cursor = page.Next
	}
	if len(names) != 6 || !slices.Contains(names, a.Pair().Requests()) {
		t.Errorf("GET /v1/admin/export/streams = %v, want the 6 of the host", names)
	}
	var page export.RowsPage
	ask(t, h, "GET", "/v1/admin/export/rows?order=desc&from=9&limit=3&head=2&stream="+b64(a.Pair().Requests()), "", &page)
	want, err := a.Store.Rows(a.Ctx, a.Pair().Requests(), 1, 9, store.Ascending)
	a.Must(err)
	row := func(p int) export.Row {
		return export.Row{Position: uint64(p), WriteID: want[p-1].WriteID[:], Data: want[p-1].Data}
	}
	if diff := cmp.Diff(export.RowsPage{
		Rows: export.RowsPart{Rows: []export.Row{row(9), row(8), row(7)}}, Head: &export.RowsPart{Rows: []export.Row{row(1), row(2)}},
	}, page); diff != "" {
		t.Errorf("GET /v1/admin/export/rows (-want +got):\n%s", diff)
	}
	var list export.DocsPage
	ask(t, h, "GET", "/v1/admin/export/docs?partition=name&limit=1", "", &list)
	if len(list.Docs) != 1 || list.Docs[0].Sort != "demo" || list.Next == "" {
		t.Errorf("GET /v1/admin/export/docs = %+v, want the first name and a cursor", list)
	}
}

func TestAPageIsBoundedInBytes(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	big := store.Stream("log#" + strings.Repeat("x", 32))
	for p := uint64(1); p <= 20; p++ {
		a.Must(a.Store.Commit(a.Ctx, store.Append{Stream: big, Position: p, WriteID: store.WriteID{1}, Data: make([]byte, store.MaxData)}))
	}
	h := pagesOf(a)
	next := uint64(1)
	for next <= 20 {
		var page export.RowsPage
		w := ask(t, h, "GET", "/v1/admin/export/rows?limit=1000&stream="+b64(big)+"&from="+fmtUint(next), "", &page)
		if n := w.Body.Len(); n > 2<<20 || len(page.Rows.Rows) == 0 || page.Rows.Rows[0].Position != next {
			t.Fatalf("a page from %d = %d bytes with %d rows, want at most 2 MB and at least one row", next, n, len(page.Rows.Rows))
		}
		next += uint64(len(page.Rows.Rows))
	}
}

func fmtUint(n uint64) string { b, _ := json.Marshal(n); return string(b) }

func TestAQueryThatIsNotAsWrittenIsRefused(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	h := pagesOf(a)
	rows := "/v1/admin/export/rows?stream=" + b64(a.Pair().Requests())
	for target, want := range map[string]problem.Kind{
		"GET /v1/admin/export?x=1":                                        problem.Malformed,
		"GET /v1/admin/export/streams?limit=0":                            problem.Malformed,
		"GET /v1/admin/export/streams?limit=1001":                         problem.Malformed,
		"GET /v1/admin/export/streams?limit=01":                           problem.Malformed,
		"GET /v1/admin/export/streams?limit=1&limit=1":                    problem.Malformed,
		"GET /v1/admin/export/streams?Limit=1":                            problem.Malformed,
		"GET /v1/admin/export/streams?cursor=%25":                         problem.Malformed,
		"GET /v1/admin/export/streams?cursor=A":                           problem.Malformed,
		"GET /v1/admin/export/streams?cursor=" + strings.Repeat("A", 1e4): problem.Malformed,
		"GET /v1/admin/export/streams?prefix=a.b":                         problem.Malformed,
		"GET /v1/admin/export/streams?a;b":                                problem.Malformed,
		"GET /v1/admin/export/rows":                                       problem.Malformed,
		"GET " + rows + "&from=0":                                         problem.Malformed,
		"GET " + rows + "&from=9223372036854775808":                       problem.Malformed,
		"GET " + rows + "&from=-1":                                        problem.Malformed,
		"GET " + rows + "&order=up":                                       problem.Malformed,
		"GET " + rows + "&head=1001":                                      problem.Malformed,
		"GET /v1/admin/export/doc?partition=name":                         problem.Malformed,
		"GET /v1/admin/export/doc?partition=host&sort=operator":           problem.Forbidden,
		"GET /v1/admin/export/doc?partition=anything&sort=else":           problem.Forbidden,
		"GET /v1/admin/export/docs?partition=host":                        problem.Forbidden,
		"GET /v1/admin/export/docs?partition=name&cursor=zzzz":            problem.Malformed,
		"GET /v1/admin/export/nothing":                                    problem.NotFound,
		"GET /v1/admin/vacants":                                           problem.NotFound,
		"POST /v1/admin/export/rows":                                      problem.MethodNotAllowed,
		"DELETE /v1/admin/export":                                         problem.MethodNotAllowed,
		"GET /v1/admin/export/open":                                       problem.MethodNotAllowed,
	} {
		method, path, _ := strings.Cut(target, " ")
		var r httpapi.Refusal
		w := ask(t, h, method, path, "", &r)
		if w.Code != want.Forms().HTTPStatus || r.Code != want.String() || r.Detail == "" {
			t.Errorf("%.80s = %d %s, want %v", target, w.Code, w.Body, want)
		}
	}
	chain := vacants.ChainDocs.Key(a.Demo.ID.String(), a.Demo.ID.String())
	var r httpapi.Refusal
	if w := ask(t, h, "GET", "/v1/admin/export/doc?"+url.Values{"partition": {chain.Partition}, "sort": {chain.Sort}}.Encode(), "", &r); w.Code != http.StatusForbidden {
		t.Errorf("a chain's document = %d, want it refused", w.Code)
	}
}

func TestOnlyKeysOfTextsAreOpened(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	h := pagesOf(a)
	open := func(bound string, box []byte) (*httptest.ResponseRecorder, []byte) {
		body, err := json.Marshal(export.Sealed{VaultContext: bound, Box: box})
		a.Must(err)
		var s export.Secret
		return ask(t, h, "POST", "/v1/admin/export/open", string(body), &s), s.Secret
	}
	day, err := a.Store.Doc(a.Ctx, textkeys.DocKey(uint32(a.Time.Unix()/86400)))
	a.Must(err)
	bound := "textkey:" + day.Key.Sort
	if w, secret := open(bound, day.Data[2:]); w.Code != http.StatusOK || len(secret) != 32 {
		t.Errorf("open of a text key = %d %s, want its 32 bytes", w.Code, w.Body)
	}

	key, err := identity.NewKey(neverZero{})
	a.Must(err)
	seed := key.Seed()
	vacant := "vacant:" + a.Demo.ID.String()
	box, err := a.Vault.Seal(a.Ctx, vacant, seed)
	a.Must(err)
	for _, bound := range []string{vacant, "host", "", "textkey", "textkey:", "textkey:2026-02-30", "textkey:2026-5-6", "textkey:2026-05-06x", "TEXTKEY:2026-05-06", bound} {
		w, secret := open(bound, box)
		want := http.StatusForbidden
		if bound == "textkey:"+day.Key.Sort {
			want = http.StatusInternalServerError // damaged: it was not sealed for that
		}
		if w.Code != want || secret != nil || bytes.Contains(w.Body.Bytes(), []byte(base64.StdEncoding.EncodeToString(seed))) {
			t.Errorf("open of a seed's box as %q = %d %s, want %d", bound, w.Code, w.Body, want)
		}
	}
	for name, body := range map[string]string{
		"not JSON": "{", "another member": `{"bound":"` + bound + `","box":"AAAA","x":1}`, "no box": `{"bound":"` + bound + `"}`,
		"a number": `{"bound":1,"box":"AAAA"}`, "no base64": `{"bound":"` + bound + `","box":"%"}`, "twice": `{"bound":"a","bound":"` + bound + `","box":"AAAA"}`,
		"large": `{"bound":"` + bound + `","box":"` + strings.Repeat("A", 40<<10) + `"}`,
	} {
		var r httpapi.Refusal
		if w := ask(t, h, "POST", "/v1/admin/export/open", body, &r); w.Code/100 != 4 || r.Detail == "" {
			t.Errorf("open of a body with %s = %d %s, want it refused", name, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/v1/admin/export/open", strings.NewReader("{}")))
	if w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("open without a content type = %d, want 415", w.Code)
	}
}

// neverZero is a random source for one key of a test.
type neverZero struct{}

func (neverZero) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i + 1)
	}
	return len(p), nil
}

// keys accepts one key.
type keys string

func (k keys) Check(_ context.Context, key string) error {
	if key != string(k) {
		return problem.New(problem.Unauthorized, "that is not the operator's key")
	}
	return nil
}

func TestPagesNeedTheOperatorKey(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	h := admin.RequireKey(keys("vop_right"), pagesOf(a))
	for _, path := range []string{"/v1/admin/export", "/v1/admin/export/streams", "/v1/admin/export/doc?partition=name&sort=demo"} {
		for header, want := range map[string]int{"": 401, "Bearer vop_wrong": 401, "Bearer ": 401, "Basic vop_right": 401, "Bearer vop_right": 200} {
			r := httptest.NewRequest("GET", path, nil)
			if header != "" {
				r.Header.Set("Authorization", header)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want || want == 401 && w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("GET %s with %q = %d, want %d", path, header, w.Code, want)
			}
		}
	}
}

// vaultAway cannot be reached.
type vaultAway struct{ custody.Vault }

func (vaultAway) Open(context.Context, string, []byte) ([]byte, error) {
	return nil, problem.New(problem.Unavailable, "the vault is away")
}

func TestUnavailableStoreIs503WithOneLogLine(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	var log bytes.Buffer
	h := export.PagesHandler(export.Config{Source: away{a.Store}, Vault: vaultAway{}, Now: a.Now, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	var r httpapi.Refusal
	if w := ask(t, h, "GET", "/v1/admin/export/streams", "", &r); w.Code != 503 || r.Code != "unavailable" {
		t.Errorf("GET /v1/admin/export/streams of a store that is away = %d %s, want 503", w.Code, w.Body)
	}
	if w := ask(t, h, "POST", "/v1/admin/export/open", `{"bound":"textkey:2026-05-06","box":"AAAA"}`, &r); w.Code != 503 {
		t.Errorf("POST /v1/admin/export/open of a vault that is away = %d, want 503", w.Code)
	}
	if n := strings.Count(log.String(), "\n"); n != 2 || strings.Count(log.String(), `"verdict":"unavailable"`) != 2 {
		t.Errorf("the log has %d lines, want one for each request with its verdict:\n%s", n, &log)
	}
}

func FuzzPagesRefuseOrAnswer(f *testing.F) {
	a := hosttest.Story(f, memory.New())
	h := pagesOf(a)
	f.Add("/v1/admin/export/streams", "limit=2&cursor=cmVx", "")
	f.Add("/v1/admin/export/rows", "stream="+b64(a.Pair().Requests())+"&from=2&order=desc&head=3", "")
	f.Add("/v1/admin/export/doc", "partition=name&sort=demo", "")
	f.Add("/v1/admin/export/open", "", `{"bound":"textkey:2026-05-06","box":"AAAA"}`)
	f.Fuzz(func(t *testing.T, path, query, body string) {
		r, err := http.NewRequest("GET", "http://x/", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if r.URL.Path, r.URL.RawQuery = path, query; body != "" {
			r.Method = "POST"
			r.Header.Set("Content-Type", "application/json")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= 500 && !strings.Contains(w.Body.String(), `"damaged"`) {
			t.Errorf("%s %s?%s = %d %s", r.Method, path, query, w.Code, w.Body)
		}
	})
}
