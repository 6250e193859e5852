package onlambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/obs"
)

const trace = "1-5bef4de7-ad49b0e87f6ef6c87fc2e700"

// bench is a front with a handler that the test chooses, and the lines that it
// logged.
type bench struct {
	*httpFront
	log     bytes.Buffer
	streams bool // it answers with streams
}

func newBench(s Settings, handler http.HandlerFunc) *bench { return newBenchAt(s, wallClock, handler) }

// newBenchAt uses the test's clock for limits.
func newBenchAt(s Settings, now func() time.Time, handler http.HandlerFunc) *bench {
	b := &bench{}
	b.httpFront = newHTTPFront(&Env{Settings: s, Log: slog.New(obs.NewHandler(&b.log, obs.Config{Stage: "dev", Function: "message"}))}, handler, now)
	return b
}

// send invokes with an event, as Lambda does.
func (b *bench) send(t *testing.T, event string) response {
	t.Helper()
	ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "request-1"})
	//lint:ignore SA1029 the key is the SDK's
	ctx = context.WithValue(ctx, "x-amzn-trace-id", "Root="+trace+";Parent=9a9197af755a6419;Sampled=0")
	r, err := b.answer(ctx, json.RawMessage(event))
	if err != nil {
		t.Fatalf("invoke() = %v, want an answer whatever comes", err)
	}
	return r
}

// answer returns the bytes that Lambda gets. A stream is read to its end.
func (b *bench) answer(ctx context.Context, event json.RawMessage) (response, error) {
	if !b.streams {
		return b.invoke(ctx, event)
	}
	s, err := b.invokeStream(ctx, event)
	if err != nil {
		return response{}, err
	}
	body, err := io.ReadAll(s.Body)
	return response{StatusCode: s.StatusCode, Headers: s.Headers, Cookies: s.Cookies, Body: string(body)}, err
}

// inBothModes runs a test of a function whose answers are whole, and of one that streams.
func inBothModes(t *testing.T, test func(t *testing.T, streams bool)) {
	t.Run("whole", func(t *testing.T) { test(t, false) })
	t.Run("stream", func(t *testing.T) { test(t, true) })
}

// lines reads what was logged since the last call.
func (b *bench) lines(t *testing.T) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range bytes.Lines(b.log.Bytes()) {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, m)
	}
	b.log.Reset()
	return all
}

// requiredFields returns the fields that every log line must have.
func requiredFields(m map[string]any) []any {
	return []any{m["msg"], m["verdict"], m["status"], m["_aws"] != nil, m["request"], m["trace"]}
}

func event(method, path, body string) string {
	b, err := json.Marshal(map[string]any{
		"version": "2.0", "rawPath": path, "headers": map[string]string{"content-type": "application/json"}, "body": body,
		"requestContext": map[string]any{"domainName": "x.lambda-url.us-east-1.on.aws", "http": map[string]string{"method": method, "path": path, "sourceIp": "192.0.2.1"}},
	})
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(b)
}

func TestEveryRequestIsAnsweredAndLogged(t *testing.T) { inBothModes(t, testEveryRequest) }

func testEveryRequest(t *testing.T, streams bool) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panic":
			_, _ = io.WriteString(w, "half an answer")
			panic("broken")
		case "/late":
			http.Error(w, "late", http.StatusServiceUnavailable)
		case "/missing":
			http.NotFound(w, r)
		case "/silent":
		case "/twice":
			w.WriteHeader(http.StatusTeapot)
			w.WriteHeader(http.StatusOK)
		default:
			_, _ = io.Copy(w, r.Body)
		}
	})
	for _, tt := range []struct {
		name, event string
		status      int
		body        string
		verdict     string
	}{
		{"a request", event("POST", "/x", "hello"), 200, "hello", "ok"},
		{"no answer at all", event("GET", "/silent", ""), 200, "", "ok"},
		{"two statuses", event("GET", "/twice", ""), 418, "", "refused"},
		{"not found", event("GET", "/missing", ""), 404, "404", "refused"},
		{"a fault", event("GET", "/late", ""), 503, "late", "failed"},
		{"a panic behind half an answer", event("GET", "/panic", ""), 500, `{"detail":"internal error","code":"internal"}`, "failed"},
		{"an empty object", `{}`, 200, "", "ok"},
		{"null", `null`, 200, "", "ok"},
		{"a list", `[1]`, 400, `"code":"malformed"`, "refused"},
		{"a text", `"hello"`, 400, `"code":"malformed"`, "refused"},
		{"no JSON", `{`, 400, `"code":"malformed"`, "refused"},
		{"members of other kinds", `{"rawPath":7}`, 400, `"code":"malformed"`, "refused"},
		{"headers that are a list", `{"headers":["a"]}`, 400, `"code":"malformed"`, "refused"},
		{"no path of any URL", event("GET", "/%zz", ""), 400, `"code":"malformed"`, "refused"},
		{"a path with lines", event("GET", "/a\n{\"_aws\":{}}", ""), 400, `"code":"malformed"`, "refused"},
		{"no method of any request", event("GE T", "/x", ""), 400, `"code":"malformed"`, "refused"},
		{"base64 that is none", strings.Replace(event("POST", "/x", "%%%"), `"body"`, `"isBase64Encoded":true,"body"`, 1), 400, `"code":"malformed"`, "refused"},
		{"base64", strings.Replace(event("POST", "/x", "aGVsbG8="), `"body"`, `"isBase64Encoded":true,"body"`, 1), 200, "hello", "ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(Settings{}, handler)
			b.streams = streams
			r := b.send(t, tt.event)
			if begun := strings.Contains(r.Body, "half"); streams && begun {
				r.StatusCode, r.Body = tt.status, tt.body // the status was sent before the panic
			}
			if r.StatusCode != tt.status || !strings.Contains(r.Body, tt.body) || strings.Contains(r.Body, "half") {
				t.Errorf("answer = %d %q, want %d with %q", r.StatusCode, r.Body, tt.status, tt.body)
			}
			lines := b.lines(t)
			if len(lines) != 1 {
				t.Fatalf("%d lines, want 1: %v", len(lines), lines)
			}
			want := []any{"request", tt.verdict, float64(tt.status), true, "request-1", trace}
			if diff := cmp.Diff(want, requiredFields(lines[0])); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheLineOfAHandlerIsTheOnlyOne(t *testing.T) { inBothModes(t, testOneLine) }

func testOneLine(t *testing.T, streams bool) {
	var b *bench
	b = newBench(Settings{}, func(_ http.ResponseWriter, r *http.Request) {
		b.httpFront.log.LogAttrs(r.Context(), slog.LevelInfo, "send", slog.String("verdict", "ok"), slog.Int("status", 200))
	})
	b.streams = streams
	for i, cold := range []any{true, nil} {
		b.send(t, event("GET", "/x", ""))
		lines := b.lines(t)
		if len(lines) != 1 || lines[0]["msg"] != "send" || lines[0]["cold"] != cold {
			t.Errorf("invocation %d: lines = %v, want one of the handler's, cold: %v", i, lines, cold)
		}
	}
}

func TestAPanicIsWholeInTheLogAndOpaqueOutside(t *testing.T) {
	b := newBench(Settings{}, func(http.ResponseWriter, *http.Request) { panic("secret cause") })
	if r := b.send(t, event("GET", "/x", "")); strings.Contains(r.Body, "secret") {
		t.Errorf("the answer shows the cause: %s", r.Body)
	}
	cause, _ := b.lines(t)[0]["cause"].(string)
	if !strings.Contains(cause, "secret cause") || !strings.Contains(cause, "http_test.go") {
		t.Errorf("the line's cause is %q, want the panic and its stack", cause)
	}
	b.httpFront.proxy = nil // a fault of our own before any handler
	if r := b.send(t, event("GET", "/x", "")); r.StatusCode != 500 {
		t.Errorf("answer = %d, want 500", r.StatusCode)
	}
}

func TestTheGuardComesFirstThenTheLimit(t *testing.T) { inBothModes(t, testGuard) }

func testGuard(t *testing.T, streams bool) {
	reached := 0
	b := newBench(Settings{EdgeSecrets: []string{secret}, Host: setting.Host{Rate: edge.Rate{PerSecond: 0.001, Burst: 2}}}, func(_ http.ResponseWriter, r *http.Request) {
		reached++
		if r.RemoteAddr != "198.51.100.7" {
			t.Errorf("RemoteAddr = %s, want the viewer's", r.RemoteAddr)
		}
	})
	b.streams = streams
	// Events as Lambda delivers them, and as other gateways would.
	with := func(name string) string {
		return strings.Replace(event("GET", "/x", ""), `"headers":{`, `"headers":{"`+name+`":"`+secret+`","CLOUDFRONT-viewer-ADDRESS":"198.51.100.7:1",`, 1)
	}
	var statuses []int
	for _, e := range []string{event("GET", "/x", ""), event("GET", "/x", ""), event("GET", "/x", ""), with("x-vacancy-edge"), with("X-VACANCY-EDGE"), with("x-vacancy-edge")} {
		statuses = append(statuses, b.send(t, e).StatusCode)
	}
	if diff := cmp.Diff([]int{403, 403, 403, 200, 200, 429}, statuses); diff != "" || reached != 2 {
		t.Errorf("statuses, %d reached the handler (-want +got):\n%s", reached, diff)
	}
	for _, line := range b.lines(t) {
		if text, _ := json.Marshal(line); bytes.Contains(text, []byte(secret)) {
			t.Errorf("the secret is in the log: %s", text)
		}
	}
}

func TestARequestIsTheEvents(t *testing.T) {
	var got *http.Request
	var body []byte
	b := newBench(Settings{}, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		_, _ = w.Write([]byte{0xff, 0xfe})
	})
	r := b.send(t, `{"version":"2.0","rawPath":"/v/x//y","rawQueryString":"a=1&a=2&b=%20","cookies":["s=1","t=2"],
		"headers":{"CONTENT-type":"application/json; charset=\"a,b\"","IF-none-match":"\"a\",\"b\"","x-forwarded-for":"203.0.113.9"},
		"requestContext":{"domainName":"d","http":{"method":"post","path":"/other","sourceIp":"2001:db8::1"}},"body":"AAE=","isBase64Encoded":true}`)
	want := []any{"POST", "/v/x//y", []string{"1", "2"}, " ", "s=1", `application/json; charset="a,b"`, []string{`"a"`, `"b"`}, "2001:db8::1", []byte{0, 1}}
	cookie, err := got.Cookie("s")
	if err != nil {
		t.Fatal(err)
	}
	q := got.URL.Query()
	if diff := cmp.Diff(want, []any{got.Method, got.URL.Path, q["a"], q.Get("b"), cookie.String(), got.Header.Get("Content-Type"), got.Header.Values("If-None-Match"), got.RemoteAddr, body}); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if !r.IsBase64Encoded || r.Body != "//4=" || len(r.Cookies) != 1 || r.Cookies[0] != "a=b" {
		t.Errorf("answer = %+v, want base64 and a cookie", r)
	}
}

func FuzzInvoke(f *testing.F) {
	f.Add([]byte(event("POST", "/x", "hello")))
	f.Add([]byte(`{"isBase64Encoded":true,"body":"!"}`))
	f.Add([]byte(`{"rawPath":"//[","requestContext":{"domainName":"["}}`))
	f.Fuzz(func(t *testing.T, e []byte) {
		for _, streams := range []bool{false, true} {
			b := newBench(Settings{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
			b.streams = streams
			if r := b.send(t, string(e)); r.StatusCode != 204 && r.StatusCode != 400 {
				t.Errorf("answer = %d, want 204 or 400", r.StatusCode)
			}
			if n := bytes.Count(b.log.Bytes(), []byte("\n")); n != 1 {
				t.Errorf("%d lines, want 1:\n%s", n, b.log.Bytes())
			}
		}
	})
}

func TestTheNextDaysKeyIsMadeWithinTheDeadline(t *testing.T) { inBothModes(t, testNextDaysKey) }

func testNextDaysKey(t *testing.T, streams bool) {
	b := newBench(Settings{}, func(http.ResponseWriter, *http.Request) {})
	b.streams = streams
	tried := 0
	b.createTextKey = func(ctx context.Context) error {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the key is made without a deadline")
		}
		tried++
		return errors.New("the store does not accept writes")
	}
	event := json.RawMessage(`{"rawPath":"/card","requestContext":{"http":{"method":"GET","path":"/card"}}}`)
	for _, tt := range []struct {
		left time.Duration
		want int
	}{{10 * time.Second, 1}, {time.Second, 1}} { // too little is left the second time
		ctx, cancel := context.WithTimeout(t.Context(), tt.left)
		r, err := b.answer(ctx, event)
		cancel()
		if err != nil || r.StatusCode != http.StatusOK || tried != tt.want {
			t.Errorf("with %v left: status %d, %v, tried %d times, want 200 and %d", tt.left, r.StatusCode, err, tried, tt.want)
		}
	}
	if !strings.Contains(b.log.String(), "the text key of the next day was not created yet") {
		t.Errorf("the log does not say that the key is missing: %s", b.log.String())
	}
}
