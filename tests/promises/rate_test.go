package promises

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// oneToken lists, for each protocol, a request and the things that it runs. n makes it unlike the
// requests before.
var oneToken = map[string]struct {
	things int
	post   func(w *runs, n int) (path, key, body string)
}{
	"text": {1, func(w *runs, n int) (string, string, string) { return w.at() + "/text", w.key, fmt.Sprint("hi ", n) }},
	"a2a": {1, func(w *runs, n int) (string, string, string) {
		return w.at() + "/message:send", w.key, sayAs(n, "")
	}},
	"a2a in the background": {1, func(w *runs, n int) (string, string, string) {
		return w.at() + "/message:send", w.key, sayAs(n, `,"configuration":{"returnImmediately":true}`)
	}},
	"a2a stream": {1, func(w *runs, n int) (string, string, string) {
		return w.at() + "/message:stream", w.key, sayAs(n, "")
	}},
	"a2a 0.3": {1, func(w *runs, n int) (string, string, string) {
		return w.at(), w.key, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m%d","role":"user","parts":[{"kind":"text","text":"hi"}]}}}`, n)
	}},
	"mcp": {1, func(w *runs, n int) (string, string, string) { return w.at() + "/mcp", w.key, ask(n, "ask", "") }},
	"mcp stream": {1, func(w *runs, n int) (string, string, string) {
		return w.at() + "/mcp", w.key, ask(n, "ask", `,"_meta":{"progressToken":1}`)
	}},
	"mcp batch": {8, func(w *runs, n int) (string, string, string) { return w.at() + "/mcp", w.key, batchOf(8, n, "ask", "") }},
	"host's mcp": {1, func(w *runs, n int) (string, string, string) {
		return "/mcp", w.key, strings.Replace(ask(n, "ask_agent", ""), `{"message"`, `{"agent":"shop","message"`, 1)
	}},
	"host's mcp batch": {8, func(w *runs, n int) (string, string, string) {
		return "/mcp", w.key, strings.ReplaceAll(batchOf(8, n, "ask_agent", ""), `{"message"`, `{"agent":"shop","message"`)
	}},
	"completion": {1, func(w *runs, n int) (string, string, string) {
		return w.at() + "/v1/chat/completions", w.key, fmt.Sprintf(`{"messages":[{"role":"user","content":"hi %d"}]}`, n)
	}},
	"completion stream": {1, func(w *runs, n int) (string, string, string) {
		return "/v1/chat/completions", w.key, fmt.Sprintf(`{"model":"shop","stream":true,"messages":[{"role":"user","content":"hi %d"}]}`, n)
	}},
	"response": {1, func(w *runs, n int) (string, string, string) {
		return w.at() + "/v1/responses", w.key, fmt.Sprintf(`{"input":"hi %d"}`, n)
	}},
	"response stream": {1, func(w *runs, n int) (string, string, string) {
		return "/v1/responses", w.key, fmt.Sprintf(`{"model":"shop","stream":true,"input":"hi %d"}`, n)
	}},
	"agp": {1, func(w *runs, n int) (string, string, string) {
		return "/a2a/v1", w.agp, fmt.Sprintf(`{"from":"eve","intent":"booking.confirm","ttl_ms":%d,"payload":{"venue_id":%q}}`, 9000+n, w.shop.ID)
	}},
}

func sayAs(n int, more string) string {
	return fmt.Sprintf(`{"message":{"role":"ROLE_USER","messageId":"m%d","parts":[{"text":"hi"}]}%s}`, n, more)
}

func ask(n int, tool, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"message":"hi %d"}%s}}`, n, tool, n, more)
}

func batchOf(size, n int, tool, more string) string {
	all := make([]string, size)
	for i := range all {
		all[i] = ask(n*size+i, tool, more)
	}
	return "[" + strings.Join(all, ",") + "]"
}

// signedFirst lists the first requests of new signers.
var signedFirst = map[string]func(w *runs, n int) (path, key, body string){
	"signed": func(w *runs, _ int) (string, string, string) {
		return "/a2a/message/send", w.key, string(envelope.AppendRequest(nil, json.RawMessage(`1`), firstEnvelope(w)))
	},
	"a2a signed": func(w *runs, _ int) (string, string, string) {
		return w.at() + "/message:send", w.key, signedMessage(w)
	},
	"a2a signed stream": func(w *runs, _ int) (string, string, string) {
		return w.at() + "/message:stream", w.key, signedMessage(w)
	},
	"mcp signed": func(w *runs, n int) (string, string, string) {
		first := envelope.AppendRequest(nil, json.RawMessage(`1`), firstEnvelope(w))
		return w.at() + "/mcp", w.key, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"vacant_call","arguments":{"envelope":%s}}}`, n, first)
	},
}

// firstEnvelope is the first request of a new signer to the shop.
func firstEnvelope(w *runs) *envelope.Envelope {
	signer, err := identity.NewKey(rand.Reader)
	w.Must(err)
	id := "m1"
	e := &envelope.Envelope{From: signer.ID(), To: w.shop.ID, Seq: 1, Time: w.Clock.NowFunc(0)(), IdempotencyKey: "k", Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hi"}, MessageID: &id}}
	_, err = e.Sign(w.Context(), signer)
	w.Must(err)
	return e
}

func signedMessage(w *runs) string {
	return fmt.Sprintf(`{"message":{"role":"ROLE_USER","messageId":"m1","parts":[{"text":"hi"}],"metadata":%s}}`, envelope.AppendMetadata(nil, firstEnvelope(w)))
}

// send sends a row's request to a host.
func send(web http.Handler, path, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+key)
	if strings.HasSuffix(path, "/text") {
		r.Header.Set("Content-Type", "text/plain")
	}
	rec := httptest.NewRecorder()
	web.ServeHTTP(rec, r)
	return rec
}

// An address begins at most so many conversations, in whatever form it sends their first messages.
func TestEachNewPairTakesATokenOfThePairRate(t *testing.T) {
	const tokens = 4
	posts := maps.Clone(signedFirst)
	for name, row := range oneToken {
		if row.things == 1 && name != "agp" { // a booking is not a pair's message
			posts[name] = row.post
		}
	}
	for name, post := range posts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openRuns(t, "quota") // the signed path takes no keys
			web := edge.Limit(edge.Config{PairRate: edge.Rate{PerSecond: 0.001, Burst: tokens}, Now: w.Clock.NowFunc(0)}, w.Public)
			for n := range tokens + 1 {
				path, key, body := post(w, n)
				got := send(web, path, key, body)
				refused := got.Code == http.StatusTooManyRequests || strings.Contains(got.Body.String(), `"code":"too_many"`)
				if refused != (n == tokens) || !refused && got.Code != http.StatusOK {
					t.Errorf("conversation %d = %d %s", n+1, got.Code, got.Body)
				}
			}
		})
	}
}

// An address has so many tokens for what it lets run, in whatever form it sends it.
func TestEachThingThatRunsTakesATokenOfTheRate(t *testing.T) {
	const tokens = 16
	for name, row := range oneToken {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openRuns(t, "priced")
			web := edge.Limit(edge.Config{RequestRate: edge.Rate{PerSecond: 0.001, Burst: tokens}, Now: w.Clock.NowFunc(0)}, w.Public)
			things := 0
			for n := 0; ; n++ {
				path, key, body := row.post(w, n)
				rec := send(web, path, key, body)
				if rec.Code == http.StatusTooManyRequests {
					if rec.Header().Get("Retry-After") == "" {
						t.Errorf("429 without Retry-After: %s", rec.Body)
					}
					break
				}
				if rec.Code != http.StatusOK || strings.Contains(rec.Body.String(), `"isError":true`) {
					t.Fatalf("POST %s %s = %d %s", path, body, rec.Code, rec.Body)
				}
				if things += row.things; things > 2*tokens {
					break
				}
			}
			if things != tokens {
				t.Errorf("%d things ran for %d tokens", things, tokens)
			}
		})
	}
}
