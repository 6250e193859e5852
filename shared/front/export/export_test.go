package export_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// handler is the admin socket of a host.
func handler(a *hosttest.Caller) http.Handler {
	at := a.Time // the test's own clock continues
	c := export.Config{Source: a.Store, Vault: a.Vault, Now: func() time.Time { return at }, Retention: hosttest.Retention}
	return admin.Handler(admin.Config{
		Vacants: a.Vacants, VerifyHandler: export.VerifyHandler(c), ChainHandler: export.ChainHandler(c), Log: slog.New(slog.DiscardHandler),
	})
}

// get returns the lines of a stream, with keys and hashes replaced by their
// form.
func get(t *testing.T, a *hosttest.Caller, path string) []string {
	t.Helper()
	client, url := serve.InProcessClient(handler(a))
	resp, err := client.Get(url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("GET %s = %d, %v: %s", path, resp.StatusCode, err, body)
	}
	names := strings.NewReplacer(a.Pair().Caller.String(), "CALLER", a.Pair().Vacant.String(), "DEMO")
	digits := regexp.MustCompile(`[0-9a-f]{64}`)
	return strings.Split(strings.TrimSuffix(digits.ReplaceAllString(names.Replace(string(body)), "HASH"), "\n"), "\n")
}

func TestAWholeHomeIsReportedWhole(t *testing.T) {
	want := []string{`{"result":{"streams":6,"rows":37,"sealed":12,"vacants":2,"broken":0}}`}
	if diff := cmp.Diff(want, get(t, hosttest.Story(t, memory.New()), "/v1/admin/verify")); diff != "" {
		t.Errorf("GET /v1/admin/verify (-want +got):\n%s", diff)
	}
}

func TestFindingsComeAsLinesBeforeTheResult(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	for p := uint64(17); p < 20; p++ {
		a.Must(a.Store.Commit(a.Ctx, store.Append{Stream: a.Pair().Requests(), Position: p, WriteID: store.WriteID{1}, Data: []byte{2, 1}}))
	}
	want := []string{
		`{"finding":{"stream":"req#CALLER#DEMO","position":17,"check":"format","want":"1","got":"2"}}`,
		`{"finding":{"stream":"req#CALLER#DEMO","position":18,"check":"format","want":"1","got":"2"}}`,
		`{"finding":{"stream":"req#CALLER#DEMO","position":19,"check":"format","want":"1","got":"2"}}`,
		`{"result":{"streams":6,"rows":40,"sealed":12,"vacants":2,"broken":3}}`,
	}
	if diff := cmp.Diff(want, get(t, a, "/v1/admin/verify")); diff != "" {
		t.Errorf("GET /v1/admin/verify (-want +got):\n%s", diff)
	}
	lines := get(t, a, "/v1/admin/chain/"+a.Pair().Caller.String()+"/demo?last=4")
	wantEnd := `{"error":{"detail":"row 17 of req#CALLER#DEMO cannot be decoded; run verify: row does not decode: format 2, this program reads 1","code":"damaged"}}`
	if got := lines[len(lines)-1]; got != wantEnd {
		t.Errorf("GET /v1/admin/chain of a damaged pair ends with %s, want %s", got, wantEnd)
	}
}

// message is a signed message of the caller, as it was sent.
func message(text string, seq int, time string) string {
	return fmt.Sprintf(`"message":{"role":"ROLE_USER","parts":[{"type":"text","text":%q}],"contextId":null,"messageId":"m1","metadata":{"urn:vacant:v1":{"from_vacant_id":"CALLER","to_vacant_id":"DEMO",`+
		`"sequence_no":%d,"timestamp":%q,"prev_envelope_hash":"HASH","idempotency_key":"k","caller_signature":"HASHHASH"}}}`, text, seq, time)
}

func TestAHistoryComesAsLines(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	got := get(t, a, "/v1/admin/chain/"+a.Pair().Caller.String()[:10]+"/demo")
	if len(got) != 18 || got[0] != `{"pair":{"from":"CALLER","to":"DEMO"}}` || got[17] != `{"end":{"entries":16}}` {
		t.Fatalf("GET /v1/admin/chain = %d lines, first %s, last %s", len(got), got[0], got[len(got)-1])
	}
	for i, want := range map[int]string{
		1: `{"entry":{"position":1,"kind":"call","epoch":0,"seq":1,"time":"2026-05-06T12:00:01+00:00","hash":"HASH","sealed":true,"fate":"answered",` +
			`"decision":{"position":1,"answer":{"seq":1,"time":"2026-05-06T12:00:01+00:00","hash":"HASH","sealed":true,"took_ms":0,"prev":"HASH"}},"prev":"HASH"}}`,
		7: `{"entry":{"position":7,"kind":"call","epoch":0,"seq":7,"time":"2026-05-09T12:00:09+00:00","hash":"HASH","text":"late","fate":"void","decision":{"position":8},"prev":"HASH",` + message("late", 7, "2026-05-09T12:00:09+00:00") + `}}`,
		9: `{"entry":{"position":9,"kind":"reset","epoch":1,"seq":0,"time":"2026-05-09T13:00:11+00:00","hash":"HASH","text":"RESET_CHAIN","prev":"HASH",` + message("RESET_CHAIN", 7, "2026-05-09T13:00:11+00:00") + `}}`,
	} {
		if diff := cmp.Diff(want, got[i]); diff != "" {
			t.Errorf("line %d (-want +got):\n%s", i, diff)
		}
	}
	if last := get(t, a, "/v1/admin/chain/"+a.Pair().Caller.String()+"/demo?last=2"); len(last) != 4 || last[1] != got[15] {
		t.Errorf("GET /v1/admin/chain?last=2 = %v", last)
	}
}

func TestChainOfAnUnknownVacantIsRefused(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	for path, want := range map[string]problem.Kind{
		"/v1/admin/chain/nobody/demo":                                                     problem.NotFound,
		"/v1/admin/chain/" + a.Pair().Caller.String() + "/other":                          problem.NotFound,
		"/v1/admin/chain/demo/demo?own=" + a.Pair().Caller.String():                       problem.Usage,
		"/v1/admin/chain/alice/demo?own=alice":                                            problem.Malformed,
		"/v1/admin/chain/" + a.Pair().Caller.String() + "/demo?last=0":                    problem.Malformed,
		"/v1/admin/chain/" + a.Pair().Caller.String() + "/demo?last=all":                  problem.Malformed,
		"/v1/admin/chain/" + a.Pair().Caller.String() + "/demo?last=99999999999999999999": problem.Malformed,
	} {
		w := httptest.NewRecorder()
		handler(a).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		var r httpapi.Refusal
		if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Code != want.Forms().HTTPStatus || r.Code != want.String() || r.Detail == "" {
			t.Errorf("GET %s = %d %s, want %v", path, w.Code, w.Body, want)
		}
	}
}

// Otherwise the store would wait for the transaction when it is closed.
func TestAReaderThatGoesEndsTheTransaction(t *testing.T) {
	s, err := bolt.Open(filepath.Join(t.TempDir(), "vacancy.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := hosttest.New(t, s).Caller()
	for range 300 {
		a.Call(strings.Repeat("a long message ", 100))
	}
	server := httptest.NewServer(handler(a))
	defer server.Close()
	ctx, cancel := context.WithCancel(a.Ctx)
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/v1/admin/chain/"+a.Pair().Caller.String()+"/demo", nil)
	a.Must(err)
	resp, err := server.Client().Do(req)
	a.Must(err)
	defer resp.Body.Close()
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	a.Call("a host goes on meanwhile")
	cancel()
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		a.Must(err)
	case <-time.After(await.Limit):
		t.Fatal("the store waits for a reader that has gone")
	}
}

// away is a host whose store cannot be walked.
type away struct{ hosttest.Store }

func (away) Walk(context.Context, func(store.View) error) error {
	return store.NotAppliedError(store.ErrClosed)
}

func TestACheckThatBreaksOffSaysSo(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	a.Store = away{a.Store}
	got := get(t, a, "/v1/admin/verify")
	if len(got) != 1 || !strings.HasPrefix(got[0], `{"error":{"detail":`) || !strings.HasSuffix(got[0], `"code":"unavailable"}}`) {
		t.Errorf("GET /v1/admin/verify = %v, want one line with the error", got)
	}
}
