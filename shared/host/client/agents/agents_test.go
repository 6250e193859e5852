package agents

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestURLsOfAgents(t *testing.T) {
	for raw, want := range map[string]error{
		"https://agents.example": nil, "HTTPS://agents.example/v/a?x=1": nil, "http://localhost:8080/": nil, "http://127.0.0.1": nil, "http://[::1]:9": nil,
		"http://agents.example": ErrInsecureScheme, "ftp://agents.example": ErrInsecureScheme, "http://10.0.0.1": ErrInsecureScheme, "http://127.0.0.1.example": ErrInsecureScheme,
		"": ErrInvalidPeerURL, "agents.example": ErrInvalidPeerURL, "https://": ErrInvalidPeerURL, "https://a:b@agents.example": ErrInvalidPeerURL, "https://a.example/#x": ErrInvalidPeerURL, "://": ErrInvalidPeerURL,
	} {
		if _, err := ParseURL(raw); !errors.Is(err, want) {
			t.Errorf("ParseURL(%q) = %v, want %v", raw, err, want)
		}
	}
}

const card1 = `{"name":"a","version":"1","supportedInterfaces":[{"url":"https://x.example/g","protocolBinding":"GRPC","protocolVersion":"1.0"},{"url":"https://x.example/j","protocolBinding":"JSONRPC","protocolVersion":"%s"}],"skills":[{"id":"s","name":"n","tags":["t"]}],"capabilities":{"streaming":true}}`

// two is a card with two addresses for JSON-RPC. The second is https://x.example/j.
func two(version, url, second string) string {
	return fmt.Sprintf(`{"name":"a","version":"1","supportedInterfaces":[{"url":%q,"protocolBinding":"JSONRPC","protocolVersion":%q},{"url":"https://x.example/j","protocolBinding":"JSONRPC","protocolVersion":%q}]}`, url, version, second)
}

func TestCardsOfEachVersionAndSpelling(t *testing.T) {
	snake := strings.NewReplacer("supportedInterfaces", "supported_interfaces", "protocolBinding", "protocol_binding", "protocolVersion", "protocol_version").Replace(card1)
	for name, tt := range map[string]struct {
		card, url string
		d         a2awire.Dialect
		err       error
	}{
		"1.0":             {fmt.Sprintf(card1, "1.0"), "https://x.example/j", a2awire.V1, nil},
		"1.0 in snake":    {fmt.Sprintf(snake, "1.0"), "https://x.example/j", a2awire.V1, nil},
		"0.3 beside":      {fmt.Sprintf(card1, "0.3"), "https://x.example/j", a2awire.V03, nil},
		"no version":      {fmt.Sprintf(card1, ""), "https://x.example/j", a2awire.V03, nil},
		"0.3":             {`{"name":"a","version":"1","url":"https://x.example/old"}`, "https://x.example/old", a2awire.V03, nil},
		"lower case":      {strings.ReplaceAll(fmt.Sprintf(card1, "1.0"), "JSONRPC", "jsonrpc"), "https://x.example/j", a2awire.V1, nil},
		"a mark":          {"\uFEFF" + fmt.Sprintf(card1, "1.0"), "https://x.example/j", a2awire.V1, nil},
		"numbers":         {`{"name":"a","version":2,"supportedInterfaces":[{"url":"https://x.example/n","protocolBinding":"JSONRPC","protocolVersion":1.0}]}`, "https://x.example/n", a2awire.V1, nil},
		"a number of old": {`{"name":"a","version":1.5,"protocolVersion":0.3,"url":"https://x.example/old"}`, "https://x.example/old", a2awire.V03, nil},
		"no own version":  {`{"name":"a","url":"https://x.example/old"}`, "https://x.example/old", a2awire.V03, nil},
		"another host":    {`{"name":"a","version":"1","url":"https://y.example/old"}`, "", a2awire.V03, ErrPeerNotAllowed},
		"down to http":    {`{"name":"a","version":"1","url":"http://x.example/old"}`, "", a2awire.V03, ErrInsecureScheme},
		"no JSON-RPC":     {`{"name":"a","version":"1","url":"https://x.example","preferredTransport":"GRPC"}`, "", a2awire.V1, ErrNoJSONRPCInterface},
		"2.0 first":       {two("2.0", "https://x.example/two", "1.0"), "https://x.example/j", a2awire.V1, nil},
		"1.1 first":       {two("1.1", "https://x.example/two", "0.3"), "https://x.example/two", a2awire.V1, nil},
		"0.2.5 first":     {two("0.2.5", "https://x.example/two", "1.0"), "https://x.example/two", a2awire.V03, nil},
		"elsewhere first": {two("1.0", "https://y.example/two", "0.3"), "https://x.example/j", a2awire.V03, nil},
		"another port":    {two("1.0", "https://x.example:8443/two", "1.0"), "https://x.example/j", a2awire.V1, nil},
		"in clear first":  {two("1.0", "http://x.example/two", "1.0"), "https://x.example/j", a2awire.V1, nil},
		"no URL first":    {two("1.0", "", "1.0"), "https://x.example/j", a2awire.V1, nil},
		"2.0 alone":       {two("2.0", "https://x.example/two", "3.0"), "", a2awire.V1, ErrNoJSONRPCInterface},
		"elsewhere alone": {two("1.0", "https://y.example/two", "2.0"), "", a2awire.V1, ErrPeerNotAllowed},
		"0.0.0.0":         {`{"name":"a","version":"1","url":"http://0.0.0.0:9999/"}`, "", a2awire.V03, ErrPeerNotAllowed},
		"no name":         {`{"version":"1","url":"https://x.example"}`, "", a2awire.V1, ErrAgentCardSchemaInvalid},
		"no interface":    {`{"name":"a","version":"1"}`, "", a2awire.V1, ErrAgentCardSchemaInvalid},
		"a list":          {`[]`, "", a2awire.V1, ErrAgentCardSchemaInvalid},
		"no JSON":         {`<html>`, "", a2awire.V1, ErrAgentCardSchemaInvalid},
	} {
		c, err := ParseCard("https://x.example/.well-known/agent-card.json", []byte(tt.card))
		url, d := "", tt.d
		if err == nil {
			url, d, err = c.chooseInterface()
		}
		if !errors.Is(err, tt.err) || err == nil && (url != tt.url || d != tt.d) {
			t.Errorf("%s: %q, dialect %d, %v, want %q, %d, %v", name, url, d, err, tt.url, tt.d, tt.err)
		}
	}
}

func TestACardsSignatureByAKeySetIsChecked(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	point, err := key.PublicKey.Bytes()
	must(t, err)
	b64 := base64.RawURLEncoding.EncodeToString
	set := fmt.Sprintf(`{"keys":[{"kty":"EC","crv":"P-256","kid":"k1","x":%q,"y":%q}]}`, b64(point[1:33]), b64(point[33:]))
	unsigned := `{"name":"a","version":"1","supportedInterfaces":[{"protocolBinding":"JSONRPC","protocolVersion":"1.0","url":"https://x.example/j"}],"description":""}`
	parsed, err := ParseCard("https://x.example/c", []byte(unsigned))
	must(t, err)
	sign := func(header string, payload []byte) string {
		protected := b64([]byte(header))
		sum := sha256.Sum256([]byte(protected + "." + b64(payload)))
		r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
		must(t, err)
		sig := make([]byte, 64)
		r.FillBytes(sig[:32])
		s.FillBytes(sig[32:])
		return fmt.Sprintf(`{"protected":%q,"signature":%q}`, protected, b64(sig))
	}
	const header = `{"alg":"ES256","kid":"k1","typ":"JOSE","jku":"https://x.example/keys"}`
	for name, tt := range map[string]struct {
		signature string
		verified  bool
		reason    string
	}{
		"as it is":        {sign(header, parsed.signedForms()[0]), true, ""},
		"without empties": {sign(header, parsed.signedForms()[2]), true, ""},
		"another card":    {sign(header, []byte(`{}`)), false, "it does not match the card"},
		"another key":     {sign(strings.Replace(header, "k1", "k2", 1), parsed.signedForms()[0]), false, "its key is not in the key set"},
		"another host":    {sign(strings.Replace(header, "x.example", "y.example", 1), parsed.signedForms()[0]), false, "its key is at another host than the card"},
		"no algorithm":    {sign(strings.Replace(header, "ES256", "none", 1), parsed.signedForms()[0]), false, "algorithm"},
		"no key":          {sign(`{"alg":"ES256","kid":"k1"}`, parsed.signedForms()[0]), false, "it names no key"},
		"rubbish":         {`{"protected":"%","signature":"%"}`, false, "it does not decode"},
	} {
		c, err := ParseCard("https://x.example/c", []byte(strings.TrimSuffix(unsigned, "}")+`,"signatures":[`+tt.signature+`]}`))
		must(t, err)
		got := c.CheckSignatures(func(url string) ([]byte, error) {
			if url != "https://x.example/keys" {
				t.Errorf("%s: the key set at %s is asked for", name, url)
			}
			return []byte(set), nil
		})
		if len(got) != 1 || got[0].Verified != tt.verified || !strings.Contains(got[0].Reason, tt.reason) || got[0].ByVacant {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The cards of testdata are signed by stock SDKs, with ES256.
func TestSignaturesOfStockSDKsFit(t *testing.T) {
	files, err := filepath.Glob("testdata/card-*.json")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d cards, %v", len(files), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		var signed struct{ Card, Keys json.RawMessage }
		must(t, err)
		must(t, json.Unmarshal(b, &signed))
		for n, want := range map[string]bool{"7": true, "8": false} {
			changed := regexp.MustCompile(`"n": 7`).ReplaceAll(signed.Card, []byte(`"n": `+n))
			c, err := ParseCard("https://x.example/c", changed)
			must(t, err)
			got := c.CheckSignatures(func(string) ([]byte, error) { return signed.Keys, nil })
			if len(got) != 1 || got[0].Verified != want {
				t.Errorf("%s with n of %s: %+v", file, n, got)
			}
		}
	}
}

// Events that are not answers lose no answer, wherever they come in a stream, and events after the
// end are ignored.
func TestNoiseCostsNoAnswer(t *testing.T) {
	const (
		working  = `data: {"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}}` + "\n\n"
		artifact = `data: {"jsonrpc":"2.0","id":1,"result":{"artifactUpdate":{"taskId":"t","artifact":{"parts":[{"text":"hello"}]}}}}` + "\n\n"
		end      = `data: {"jsonrpc":"2.0","id":1,"result":{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_COMPLETED"}}}}` + "\n\n"
	)
	read := func(stream string) (text string, err error) {
		a := agentOf(t, "1.0", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, stream)
		})
		err = a.Stream(t.Context(), a2awire.SendRequest{}, func(one a2awire.Answer) bool {
			if one.Artifact != nil {
				text += one.Artifact.Artifact.Parts[0].Text
			}
			return true
		})
		return text, err
	}
	for _, noise := range []string{
		"data: [DONE]\n\n", "data: {}\n\n", "data: null\n\n", "data\n\n", "data: ping\n\n", "event: close\ndata: bye\n\n", "event: close\ndata: {}\n\n", ": ping\n\n", "\uFEFF\n",
		"event: heartbeat\ndata: {\"time\":1}\n\n", "data: {\"type\":\"heartbeat\"}\n\n", `data: {"jsonrpc":"2.0","id":null,"result":{}}` + "\n\n", `data: {"jsonrpc":"2.0","id":2,"result":{}}` + "\n\n", "event: ping\nid: 7\nretry: 5\n\n",
	} {
		for _, stream := range []string{noise + working + artifact + end, working + noise + artifact + end, working + artifact + noise + end, working + artifact + end + noise} {
			if text, err := read(stream); text != "hello" || err != nil {
				t.Errorf("%q: %q, %v", stream, text, err)
			}
		}
	}
	for _, after := range []string{"data: {\n\n", "event: error\ndata: no\n\n", `data: {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}` + "\n\n", "data: " + strings.Repeat("x", maxEventBytes+1)} {
		if text, err := read(working + artifact + end + after); text != "hello" || err != nil {
			t.Errorf("%.80q after the end: %q, %v", after, text, err)
		}
		if _, err := read(working + artifact + after + end); err == nil {
			t.Errorf("%.80q before the end is not noticed", after)
		}
	}
	if _, err := read(working + "data: " + strings.Repeat("x", maxEventBytes+1)); !errors.Is(err, ErrSSELineTooLong) {
		t.Errorf("an event that is too long: %v", err)
	}
	for _, id := range []string{"null", `"1"`, "1.0", "1e0"} {
		if text, err := read(strings.ReplaceAll(working+artifact+end, `"id":1,`, `"id":`+id+",")); text != "hello" || err != nil {
			t.Errorf("the id %s: %q, %v", id, text, err)
		}
	}
	if text, err := read(strings.ReplaceAll(working+artifact+end, "\n\n", "\n") + "\n"); text != "hello" || err != nil {
		t.Errorf("one newline between events: %q, %v", text, err)
	}
}

// agentOf returns an agent whose server answers requests with f.
func agentOf(t *testing.T, version string, f http.HandlerFunc) *Agent {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	c, err := ParseCard(s.URL+"/card", fmt.Appendf(nil, `{"name":"a","version":"1","supportedInterfaces":[{"url":%q,"protocolBinding":"JSONRPC","protocolVersion":%q}]}`, s.URL, version))
	must(t, err)
	a, err := NewAgent(dispatch.NewHTTP(dispatch.HTTPOptions{Timeout: 5 * time.Second}), c)
	must(t, err)
	return a
}

func TestACardIsTheURLsOwnOrNamesIt(t *testing.T) {
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/own/.well-known/agent-card.json":
			fmt.Fprint(w, `{"name":"own","version":"1","url":"https://x.example"}`)
		case "/page/.well-known/agent-card.json":
			fmt.Fprint(w, "<html>")
		case "/.well-known/agent-card.json":
			fmt.Fprintf(w, `{"name":"host","version":"1","url":"%s/named"}`, s.URL)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	web := dispatch.NewHTTP(dispatch.HTTPOptions{})
	for path, want := range map[string]string{"/own": "own", "/own/": "own", "/own/.well-known/agent-card.json": "own", "/named": "host", "/named/": "host", "": "host", "/": "host", "/other": "", "/page": "none"} {
		c, err := FetchCard(t.Context(), web, s.URL+path)
		if want == "none" {
			if !problem.Is(err, problem.Untrusted) {
				t.Errorf("%s: %v, want what is wrong with its own card", path, err)
			}
			continue
		}
		if want == "" {
			if !problem.Is(err, problem.NotFound) {
				t.Errorf("%s: %v, want none", path, err)
			}
			continue
		}
		if err != nil || c.Name != want {
			t.Errorf("%s: %v, %v, want %s", path, c, err, want)
		}
	}
}

func TestRequestsKeepEscapesAndQueryOfAURL(t *testing.T) {
	var asked []string
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.RequestURI)
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"name":"a","version":"1","url":"%s/arn%%3Aa%%2Fb/run/?q=%%2F"}`, s.URL)
			return
		}
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"t","status":{"state":"working"}}}`)
	}))
	t.Cleanup(s.Close)
	web := dispatch.NewHTTP(dispatch.HTTPOptions{})
	for _, given := range []string{"/arn%3Aa%2Fb/run/?q=%2F", "/arn%3Aa%2Fb/run/.well-known/agent-card.json?q=%2F"} {
		asked = nil
		c, err := FetchCard(t.Context(), web, s.URL+given)
		must(t, err)
		a, err := NewAgent(web, c)
		if err == nil {
			_, err = a.GetTask(t.Context(), "t")
		}
		want := []string{"/arn%3Aa%2Fb/run/.well-known/agent-card.json?q=%2F", "/arn%3Aa%2Fb/run/?q=%2F"}
		if diff := cmp.Diff(want, asked); diff != "" || err != nil {
			t.Errorf("%s: %v; requests (-want +got):\n%s", given, err, diff)
		}
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		kind   problem.Kind
	}{
		"an error":       {200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32004,"message":"no"}}`, problem.Forbidden},
		"not found":      {200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}}`, problem.NotFound},
		"not found, too": {200, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}`, problem.NotFound},
		"another id":     {200, `{"jsonrpc":"2.0","id":2,"result":{}}`, problem.Untrusted},
		"no JSON":        {200, `<html>`, problem.Untrusted},
		"a failure":      {500, `<html>`, problem.Forbidden},
		"no task":        {200, `{"jsonrpc":"2.0","id":1,"result":{"id":"t"}}`, problem.Untrusted},
		"a redirect":     {302, ``, problem.Usage},
	} {
		a := agentOf(t, "1.0", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://elsewhere.example/")
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		})
		if _, err := a.GetTask(t.Context(), "t"); !problem.Is(err, tt.kind) {
			t.Errorf("%s: %v, want %s", name, err, tt.kind)
		}
	}
}

func TestStreamsThatAreNone(t *testing.T) {
	const working = `{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}`
	for name, tt := range map[string]struct {
		media, body string
		events      int
		err         error
		kind        problem.Kind
	}{
		"wrapped":        {"text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":" + working + "}\n\n", 1, nil, 0},
		"bare":           {"text/event-stream; charset=utf-8", "data: " + working + "\n\n", 1, nil, 0},
		"an error in it": {"text/event-stream", "data: " + working + "\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,\"message\":\"no\"}}\n\n", 1, nil, problem.BehaviourFailed},
		"a later event":  {"text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"progressUpdate\":{}}}\n\ndata: " + working + "\n\n", 1, nil, 0},
		"a whole answer": {"application/json", `{"jsonrpc":"2.0","id":1,"result":` + working + `}`, 1, nil, 0},
		"another id":     {"text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":" + working + "}\n\n", 0, ErrSSEStreamMalformed, problem.Untrusted},
		"rubbish":        {"text/event-stream", "data: {\"a\":1}\n\n", 0, ErrSSEStreamMalformed, problem.Untrusted},
		"no stream":      {"application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32004,"message":"no"}}`, 0, nil, problem.Forbidden},
		"a result":       {"application/json", `{"jsonrpc":"2.0","id":1,"result":{}}`, 0, nil, problem.Untrusted},
	} {
		a := agentOf(t, "1.0", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", tt.media)
			_, _ = io.WriteString(w, tt.body)
		})
		n := 0
		err := a.Subscribe(t.Context(), "t", func(a2awire.Answer) bool { n++; return true })
		if n != tt.events || tt.err != nil && !errors.Is(err, tt.err) || (err == nil) != (tt.kind == 0) || tt.kind != 0 && !problem.Is(err, tt.kind) {
			t.Errorf("%s: %d events, %v", name, n, err)
		}
	}
}

func TestAStreamWithoutAnEndIsCutOff(t *testing.T) {
	const began = "data: {\"artifactUpdate\":{\"taskId\":\"t\",\"artifact\":{\"parts\":[{\"text\":\"x\"}]}}}\n\n"
	for end, want := range map[string]error{
		"": ErrStreamCutOff,
		"data: {\"statusUpdate\":{\"taskId\":\"t\",\"status\":{\"state\":\"TASK_STATE_WORKING\"}}}\n\n":        ErrStreamCutOff,
		"data: {\"statusUpdate\":{\"taskId\":\"t\",\"status\":{\"state\":\"TASK_STATE_COMPLETED\"}}}\n":        ErrStreamCutOff,
		"data: {\"statusUpdate\":{\"taskId\":\"t\",\"status\":{\"state\":\"TASK_STATE_COMPLETED\"}}}\n\n":      nil,
		"data: {\"statusUpdate\":{\"taskId\":\"t\",\"status\":{\"state\":\"TASK_STATE_INPUT_REQUIRED\"}}}\n\n": nil,
		"data: {\"message\":{\"parts\":[{\"text\":\"x\"}]}}\n\n":                                               nil,
	} {
		a := agentOf(t, "1.0", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, began+end)
		})
		err := a.Stream(t.Context(), a2awire.SendRequest{}, func(a2awire.Answer) bool { return true })
		if !errors.Is(err, want) || err != nil && problem.Is(err, problem.Unavailable) {
			t.Errorf("%q: %v, want %v, and no reason to call another agent", end, err, want)
		}
	}
}

func TestACallerWhoLeavesEndsTheStream(t *testing.T) {
	left := make(chan bool)
	a := agentOf(t, "0.3", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"kind\":\"task\",\"id\":\"t\",\"status\":{\"state\":\"working\"}}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(left)
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := a.Subscribe(ctx, "t", func(a2awire.Answer) bool { return false }); err != nil {
		t.Error(err)
	}
	select {
	case <-left:
	case <-time.After(await.Limit):
		t.Error("the stream goes on")
	}
}

// FuzzCard reads hostile cards.
func FuzzCard(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(card1, "1.0")))
	f.Add([]byte(`{"name":"a","version":"1","url":"https://x.example","signatures":[{"protected":"e30","signature":""}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := ParseCard("https://x.example/c", raw)
		if err != nil {
			return
		}
		_, _, _ = c.chooseInterface()
		for _, s := range c.CheckSignatures(func(string) ([]byte, error) { return raw, nil }) {
			if s.Verified {
				t.Errorf("%s is signed", raw)
			}
		}
	})
}
