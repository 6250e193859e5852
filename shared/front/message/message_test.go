package message_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func seed(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

// signed is a call of a new caller, and its body.
func signed(t *testing.T, h *testServer, change func(*envelope.Envelope)) (*identity.Key, []byte) {
	t.Helper()
	k, err := identity.NewKey(rand.Reader)
	must(t, err)
	e := envelope.Envelope{From: k.ID(), To: h.sole(), Seq: 1, Time: h.clock(),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hello"}}, IdempotencyKey: "k-1"}
	if change != nil {
		change(&e)
	}
	if _, err := e.Sign(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	return k, envelope.AppendRequest(nil, nil, &e)
}

func membersOf(t *testing.T, r *http.Response) map[string]any {
	t.Helper()
	m := map[string]any{}
	b := bodyOf(t, r)
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return m
}

func TestEveryPathThatEndsLikeOneIsThatHandler(t *testing.T) {
	h := newTestServer(t, noon, seed(1))
	id := h.sole().String()
	for _, path := range []string{"/a2a/message/send", "/v/" + id + "/a2a/message/send", "/", "/some/base/a2a/message/send",
		"/a2a/message/send/a2a/message/send", "/v/" + strings.ToUpper(id) + "/a2a/message/send", "/v/not-an-id/a2a/message/send",
		"//a2a/message/send", "/v/" + id + "//a2a/message/send", "/base/./x/../a2a/message/send"} { // and no redirect, which a POST does not survive
		_, body := signed(t, h, nil)
		if res := h.post(path, "application/json", body); res.StatusCode != 200 {
			t.Errorf("POST %s = %d: %s, want 200", path, res.StatusCode, bodyOf(t, res))
		}
	}
	for path, want := range map[string]int{"/a2a/message/send/": 404, "/nothing": 404, "//nothing": 404, "//": 404, "/docs": 404, "/openapi.json": 404, "/v1/admin/vacants": 404} {
		_, body := signed(t, h, nil)
		if res := h.post(path, "application/json", body); res.StatusCode != want {
			t.Errorf("POST %s = %d, want %d", path, res.StatusCode, want)
		}
	}
}

func TestAnotherMethodIsToldWhichOneIsAllowed(t *testing.T) {
	h := newTestServer(t, noon, seed(1))
	page := "/v/" + h.sole().String() + "/card"
	for _, tt := range []struct{ method, path, allow string }{
		{"GET", message.SendPath, "POST"}, {"PUT", message.SendPath, "POST"}, {"DELETE", message.ResetPath, "POST"},
		{"HEAD", message.AskPath, "POST"}, {"OPTIONS", "/", "POST"},
		{"POST", "/card", "GET"}, {"PUT", "/health", "GET"}, {"OPTIONS", page, "GET"},
	} {
		w := httptest.NewRecorder()
		h.handler.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		if w.Code != 405 || w.Header().Get("Allow") != tt.allow {
			t.Errorf("%s %s = %d, Allow %q, want 405 and %s", tt.method, tt.path, w.Code, w.Header().Get("Allow"), tt.allow)
		}
	}
	w := httptest.NewRecorder()
	if h.handler.ServeHTTP(w, httptest.NewRequest(http.MethodHead, page, nil)); w.Code != 200 {
		t.Errorf("HEAD %s = %d, want 200", page, w.Code)
	}
}

func TestARefusedMediaTypeIsToldInUTF8(t *testing.T) {
	h := newTestServer(t, noon, seed(1))
	_, body := signed(t, h, nil)
	res := h.post(message.SendPath, "text/\xff", body)
	if b := bodyOf(t, res); res.StatusCode != 415 || !utf8.Valid(b) || !strings.Contains(string(b), "'text/\uFFFD'") {
		t.Errorf("content type of other bytes = %d %q, want 415 that is JSON", res.StatusCode, b)
	}
}

func TestAResetIsTakenWhateverItsMediaType(t *testing.T) {
	h := newTestServer(t, noon, seed(1))
	for _, media := range []string{"", "text/plain"} {
		_, body := signed(t, h, func(e *envelope.Envelope) { e.Payload.Parts = []string{envelope.ResetText} })
		if res := h.post(message.ResetPath, media, body); res.StatusCode != 200 {
			t.Errorf("reset as %q = %d: %s, want 200", media, res.StatusCode, bodyOf(t, res))
		}
	}
}

// nothing is a body that never arrives.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestABodyThatIsOnlyAnnouncedCostsNoMemory(t *testing.T) {
	h := newTestServer(t, noon, seed(1))
	const requests = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range requests {
		r := httptest.NewRequest(http.MethodPost, message.SendPath, nothing{})
		r.ContentLength = 256 << 10
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if h.handler.ServeHTTP(w, r); w.Code != 400 {
			t.Fatalf("a body that breaks off = %d, want 400", w.Code)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / requests; each > 64<<10 {
		t.Errorf("a request that announces 256 KiB and sends nothing takes %d KiB, want at most 64", each>>10)
	}
}

func TestAnIdOfTheRouteIsNamedBy421(t *testing.T) {
	h := newTestServer(t, noon, seed(1), seed(2))
	var ids []identity.ID
	for id := range h.keys {
		ids = append(ids, id)
	}
	_, body := signed(t, h, func(e *envelope.Envelope) { e.To = ids[0] })
	res := h.post("/v/"+ids[1].String()+message.SendPath, "application/json", body)
	want := fmt.Sprintf("envelope addressed to %s; this server is %s", ids[0].Short(), ids[1].Short())
	if got := membersOf(t, res); res.StatusCode != 421 || got["detail"] != want || got["code"] != "misdirected" {
		t.Errorf("wrong route = %d %v, want 421 %q", res.StatusCode, got, want)
	}
	if _, ok := membersOf(t, h.post("/v/"+ids[1].String()+message.SendPath, "application/json", body))["expected_seq"]; ok {
		t.Error("421 tells expected_seq, want it told only after the signature is verified and the vacant is found")
	}
}

func TestBodiesAreBounded(t *testing.T) {
	h := newTestServer(t, noon, seed(1))
	_, body := signed(t, h, nil)
	const limit = 256 << 10
	padded := append(bytes.Clone(body), bytes.Repeat([]byte(" "), limit-len(body))...)
	if res := h.post(message.SendPath, "application/json", padded); res.StatusCode != 200 {
		t.Errorf("a body of 256 KiB = %d, want 200", res.StatusCode)
	}
	_, body = signed(t, h, nil)
	padded = append(bytes.Clone(body), bytes.Repeat([]byte(" "), limit-len(body)+1)...)
	res := h.post(message.SendPath, "application/json", padded)
	if got := membersOf(t, res); res.StatusCode != 413 || got["code"] != "too_large" {
		t.Errorf("one byte more = %d %v, want 413 too_large", res.StatusCode, got)
	}
	r := httptest.NewRequest(http.MethodPost, message.SendPath, struct{ *bytes.Reader }{bytes.NewReader(padded)})
	r.ContentLength = -1 // chunked: the size is not told
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	if w.Code != 413 {
		t.Errorf("one byte more, chunked = %d, want 413", w.Code)
	}
	if res := h.post(message.SendPath, "application/json", body); res.StatusCode != 200 {
		t.Errorf("the honest message afterwards = %d, want 200", res.StatusCode)
	}
}

func TestHostileBodiesAre4xxAndLeaveTheChainAlone(t *testing.T) {
	h := newTestServer(t, noon, seed(1))
	_, body := signed(t, h, nil)
	keys := &strings.Builder{}
	for i := range 20_000 {
		fmt.Fprintf(keys, `"k%d":0,`, i)
	}
	insert := func(s string) string { return strings.Replace(string(body), "{", "{"+s, 1) }
	for name, raw := range map[string]string{
		"20,000 keys":                  insert(keys.String()),
		"depth 10,000":                 insert(`"x":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + ","),
		"1e400 in an ignored key":      insert(`"x":1e400,`),
		"NaN in an ignored key":        insert(`"x":NaN,`),
		"lone surrogate as a key":      insert(`"\ud800":1,`),
		"duplicate spelled by escapes": insert(`"jsonrpc":"2.0","jsonrp\u0063":"2.0",`),
		"batch":                        "[" + string(body) + "]",
		"two documents":                string(body) + string(body),
		"BOM":                          "\ufeff" + string(body),
		"vacant id a number":           strings.Replace(string(body), `"to_vacant_id":"`, `"to_vacant_id":5,"x":"`, 1),
		"contextId a list":             strings.Replace(string(body), `"contextId":null`, `"contextId":["c"]`, 1),
		"messageId an object":          strings.Replace(string(body), `"messageId":null`, `"messageId":{}`, 1),
		"idempotency key a number":     strings.Replace(string(body), `"idempotency_key":"k-1"`, `"idempotency_key":1`, 1),
		"id a lone surrogate":          insert(`"id":"\udc00",`),
	} {
		res := h.post(message.SendPath, "application/json", []byte(raw))
		if got := membersOf(t, res); res.StatusCode < 400 || res.StatusCode > 499 || got["detail"] == "" {
			t.Errorf("%s = %d %v, want a 4xx with a detail", name, res.StatusCode, got)
		}
	}
	if res := h.post(message.SendPath, "application/json", body); res.StatusCode != 200 {
		t.Errorf("the honest message afterwards = %d: %s, want 200", res.StatusCode, bodyOf(t, res))
	}
}

func TestASlowBodyEndsWith408(t *testing.T) {
	h := newTestServer(t, noon, seed(1))
	h.handler = message.Handler(message.Config{Host: h.host, Log: slog.New(slog.DiscardHandler), Now: h.clock, BodyTimeout: 50 * time.Millisecond})
	server := httptest.NewServer(h.handler)
	defer server.Close()
	slow, w := newPipe(t)
	defer w.Close()
	res, err := http.Post(server.URL+message.SendPath, "application/json", slow)
	must(t, err)
	defer res.Body.Close()
	if got := membersOf(t, res); res.StatusCode != 408 {
		t.Errorf("slow body = %d %v, want 408", res.StatusCode, got)
	}
}

func TestRefusalsTellWhereTheChainStandsOnceTheSignatureIsVerified(t *testing.T) {
	h := newTestServer(t, noon, seed(1))
	k, body := signed(t, h, nil)
	if res := h.post(message.SendPath, "application/json", body); res.StatusCode != 200 {
		t.Fatalf("first call = %d", res.StatusCode)
	}
	first, err := envelope.DecodeRequest(body)
	must(t, err)
	gap := first.Envelope
	gap.Seq = 5
	if _, err := gap.Sign(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	res := h.post(message.SendPath, "application/json", envelope.AppendRequest(nil, nil, &gap))
	got := membersOf(t, res)
	if res.StatusCode != 409 || got["code"] != "gap" || got["expected_seq"] != 2.0 || got["chain_tip"] != first.Envelope.Hash().String() || got["floor"] != "2026-06-01T12:00:00+00:00" {
		t.Errorf("gap = %d %v, want 409 with code, expected_seq 2, chain_tip and floor", res.StatusCode, got)
	}
	forged := bytes.Replace(body, []byte(`"hello"`), []byte(`"hullo"`), 1)
	res = h.post(message.SendPath, "application/json", forged)
	if got = membersOf(t, res); res.StatusCode != 401 || got["expected_seq"] != nil || got["chain_tip"] != nil {
		t.Errorf("forged = %d %v, want 401 that tells nothing of the chain", res.StatusCode, got)
	}
}

func TestAResendGetsItsAnswerBack(t *testing.T) {
	h := newTestServer(t, noon, seed(1))
	_, body := signed(t, h, nil)
	ask := func() map[string]any { return membersOf(t, h.post(message.AskPath, "application/json", body)) }
	if got := ask(); got["state"] != "unknown" || got["expected_seq"] != 1.0 {
		t.Errorf("ask before = %v, want unknown", got)
	}
	answer, err := envelope.DecodeResponse(bodyOf(t, h.post(message.SendPath, "application/json", body)))
	must(t, err)
	h.states[h.sole()] = lifecycle.Hibernating // a resend gets its outcome in every state
	res := h.post(message.SendPath, "application/json", body)
	got := membersOf(t, res)
	if res.StatusCode != 423 || got["state"] != "answered" || got["detail"] != "vacant is HIBERNATING; not accepting calls" {
		t.Errorf("resend to a sleeping vacant = %d %v, want 423 with state answered", res.StatusCode, got)
	}
	h.states[h.sole()] = lifecycle.Active
	res = h.post(message.SendPath, "application/json", body)
	got = membersOf(t, res)
	if res.StatusCode != 409 || got["detail"] != "replay/out-of-order envelope: seq 1 <= last_seen 1" || got["state"] != "answered" {
		t.Errorf("resend = %d %v, want 409 replay with state answered", res.StatusCode, got)
	}
	raw, err := json.Marshal(got["reply"])
	must(t, err)
	again, err := envelope.DecodeMessage(raw)
	must(t, err)
	if again.Hash() != answer.Hash() || !bytes.Equal(again.Signature, answer.Signature) {
		t.Error("the resend's reply differs from the first answer, want the same signed envelope")
	}
	if got := ask(); got["state"] != "answered" || got["reply"] == nil {
		t.Errorf("ask after = %v, want answered with the reply", got)
	}
}

func TestCardAndHealthAreServedForOneVacantOrByName(t *testing.T) {
	h := newTestServer(t, noon, seed(1))
	id := h.sole()
	name := "name-" + id.Short()
	for _, path := range []string{"/card", "/v/" + id.String() + "/card", "/card?vacant=" + id.String(), "/v/" + name + "/card", "/card?vacant=" + name} {
		res, body := h.get(path)
		var got struct {
			ID       string `json:"vacant_id"`
			Text     string `json:"capability_text"`
			Endpoint string `json:"endpoint"`
			Version  int    `json:"halo_version"`
			Blob     string `json:"capability_card_blob_hex"`
		}
		if err := json.Unmarshal(body, &got); err != nil || res.StatusCode != 200 {
			t.Fatalf("GET %s = %d %s", path, res.StatusCode, body)
		}
		blob, err := hex.DecodeString(got.Blob)
		must(t, err)
		c, err := card.Parse(blob)
		if err != nil || !c.Verify() || got.ID != id.String() || got.Text != "echo" || got.Version != 1 || got.Endpoint != c.Endpoint {
			t.Errorf("GET %s = %+v, want a card that verifies", path, got)
		}
		if res, _ := h.get(path, "If-None-Match", res.Header.Get("ETag")); res.StatusCode != 304 {
			t.Errorf("GET %s with its ETag = %d, want 304", path, res.StatusCode)
		}
	}
	if res, body := h.get("/health"); res.StatusCode != 200 || string(body) != fmt.Sprintf(`{"vacant_id":"%s","state":"ACTIVE","name":"name-%s"}`, id, id.Short()) {
		t.Errorf("GET /health = %d %s", res.StatusCode, body)
	}
	h.states[id] = lifecycle.Hibernating
	if res, body := h.get("/health"); res.StatusCode != 200 || !strings.Contains(string(body), `"state":"HIBERNATING"`) {
		t.Errorf("GET /health of a hibernating vacant = %d %s", res.StatusCode, body)
	}
	for _, path := range []string{"/v/zz/card", "/v/" + strings.Repeat("0", 64) + "/card", "/card?vacant=zz", "/v//card", "/v/../card", "/v/n\u00e4me/card"} {
		if res, _ := h.get(path); res.StatusCode != 404 {
			t.Errorf("GET %s = %d, want 404", path, res.StatusCode)
		}
	}
}

func TestAnETagIsFoundInAListOfThem(t *testing.T) {
	h := newTestServer(t, noon, seed(1))
	res, _ := h.get("/card")
	tag := res.Header.Get("ETag")
	for _, lines := range [][]string{{`"x", ` + tag}, {`"x"`, "W/" + tag}, {"*"}} {
		r := httptest.NewRequest(http.MethodGet, "/card", nil)
		r.Header["If-None-Match"] = lines // in Lambda each of a list is a line
		w := httptest.NewRecorder()
		if h.handler.ServeHTTP(w, r); w.Code != 304 {
			t.Errorf("If-None-Match: %q = %d, want 304", lines, w.Code)
		}
	}
}

// broken is a Directory that fails.
type broken struct{ err error }

func (b broken) FindCached(context.Context, identity.ID) (vacants.Record, bool, error) {
	if b.err == nil {
		panic("the reason")
	}
	return vacants.Record{}, false, b.err
}

func (b broken) FindCachedByName(ctx context.Context, _ string) (vacants.Record, bool, error) {
	return b.FindCached(ctx, identity.ID{})
}

func (b broken) ListOpen(context.Context, int) ([]identity.ID, error) { return nil, b.err }

func TestAFaultIsOpaqueOutsideAndWholeInTheLog(t *testing.T) {
	h := newTestServer(t, noon, seed(1))
	for _, tt := range []struct {
		path   string
		dir    broken
		status int
	}{
		{"/card", broken{problem.Wrap(problem.Unavailable, errors.New("the reason"), "storage is unavailable")}, 503},
		{"/v/" + h.sole().String() + "/health", broken{errors.New("the reason")}, 500},
		{"/v/" + h.sole().String() + "/health", broken{}, 500}, // a panic
	} {
		h.log.Reset()
		h.handler = message.Handler(message.Config{Host: h.host, Directory: tt.dir, Log: slog.New(slog.NewTextHandler(h.log, nil)), Now: h.clock})
		res, body := h.get(tt.path)
		if res.StatusCode != tt.status || !json.Valid(body) || strings.Contains(string(body), "reason") {
			t.Errorf("GET %s = %d %s, want an opaque %d", tt.path, res.StatusCode, body, tt.status)
		}
		if log := h.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "the reason") {
			t.Errorf("GET %s logs %q, want one line with the cause", tt.path, log)
		}
	}
}

func TestSeveralVacantsMustBeNamed(t *testing.T) {
	h := newTestServer(t, noon, seed(1), seed(2))
	res, body := h.get("/card")
	if res.StatusCode != 404 || !strings.Contains(string(body), "?vacant=") {
		t.Errorf("GET /card of two = %d %s, want 404 that names ?vacant=", res.StatusCode, body)
	}
	h.states[h.sole()] = lifecycle.Sunk // closed ones do not count
	if res, _ := h.get("/health"); res.StatusCode != 200 {
		t.Errorf("GET /health of one open, one sunk = %d, want 200", res.StatusCode)
	}
}

// A reader of a page has not proved that it is the parent or a sibling.
func TestAClosedChildHasNoPages(t *testing.T) {
	seeds := [][]byte{bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)}
	h := newTestServer(t, time.Now(), seeds...)
	child, err := identity.KeyFromSeed(seeds[1])
	must(t, err)
	id := child.ID()
	nobody := identity.ID{7}
	h.closed[id] = true
	for _, target := range []string{
		"/v/%s/card", "/v/%s/health", "/card?vacant=%s", "/health?vacant=%s",
		"/v/name-%.12s/card", "/v/name-%.12s/health", "/card?vacant=name-%.12s",
	} {
		res, body := h.get(fmt.Sprintf(target, id))
		want, text := h.get(fmt.Sprintf(target, nobody))
		if same := strings.ReplaceAll(string(text), nobody.Short(), id.Short()); res.StatusCode != want.StatusCode || string(body) != same {
			t.Errorf("GET "+target+" = %d %s, want %d %s", id, res.StatusCode, body, want.StatusCode, same)
		}
	}
	if res, body := h.get("/health"); res.StatusCode != 200 || strings.Contains(string(body), id.String()) {
		t.Errorf("GET /health beside a closed child = %d %s, want that of the other", res.StatusCode, body)
	}
}

func TestTheLogHasOneLinePerCallAndNoText(t *testing.T) {
	h := newTestServer(t, noon, seed(1))
	k, body := signed(t, h, func(e *envelope.Envelope) { e.Payload.Parts = []string{"my secret plan"} })
	h.post(message.SendPath, "application/json", body)
	log := h.log.String()
	if strings.Count(log, "\n") != 1 || strings.Contains(log, "secret") {
		t.Errorf("log = %q, want one line without the text", log)
	}
	for _, want := range []string{"pair=" + k.ID().Short() + ">" + h.sole().Short(), "seq=1", "verdict=ok", "status=200", "ms="} {
		if !strings.Contains(log, want) {
			t.Errorf("log = %q, want %q in it", log, want)
		}
	}
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
