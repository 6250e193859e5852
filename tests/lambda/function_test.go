//go:build unix

package lambda

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
)

var buildDir string

// built are the functions' bootstraps by name, each built once.
var built = map[string]func() (string, error){}

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "vacancy-lambda-"); err != nil {
		panic(err)
	}
	for _, name := range functions.Names() {
		built[name] = sync.OnceValues(func() (string, error) {
			return Build(filepath.Join(buildDir, name), "github.com/vacancy-host/vacancy/functions/"+name)
		})
	}
	code := m.Run()
	if left := unusedGrants(); code == 0 && flag.Lookup("test.run").Value.String() == "" && len(left) > 0 {
		fmt.Printf("no test used the grants %q, and tests/integration relies on it\n", left)
		code = 1
	}
	os.RemoveAll(buildDir)
	os.Exit(code)
}

func bootstrap(tb testing.TB, name string) string {
	tb.Helper()
	b, err := built[name]()
	must(tb, err)
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errorOf returns the error of a call that returns a value, too.
func errorOf[T any](_ T, err error) error { return err }

// run starts a function over a host's tables, with additional environment variables.
func run(tb testing.TB, name string, host *awshost.Host, more ...string) *Function {
	tb.Helper()
	return Start(tb, bootstrap(tb, name), Options{Env: judge(tb, name, host, append(host.Env(host.Endpoint), more...)), Recursive: isRecursive(tb, name)})
}

// lines ends f and reads its log.
func lines(t *testing.T, f *Function) []map[string]any {
	t.Helper()
	f.Kill() // then its log is complete
	var all []map[string]any
	for line := range strings.Lines(f.Log()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Errorf("a line that is no JSON: %s", line)
			continue
		}
		// DynamoDB Local answers refusals with a checksum of 0, which the SDK
		// logs in a line that is not ours.
		if text, _ := m["text"].(string); !strings.Contains(text, "checksum") {
			all = append(all, m)
		}
	}
	return all
}

// pick takes members of lines with a message.
func pick(all []map[string]any, msg string, members ...string) [][]any {
	var got [][]any
	for _, m := range all {
		if m["msg"] != msg {
			continue
		}
		var one []any
		for _, name := range members {
			one = append(one, m[name])
		}
		got = append(got, one)
	}
	return got
}

// send gives f an envelope on the host route and returns its answer.
func send(t *testing.T, f *Function, path string, e *envelope.Envelope) caller.Answer {
	t.Helper()
	r, err := f.Post(t.Context(), path, caller.Body(e))
	if err != nil {
		t.Fatalf("Post(%s) = %v\n%s", path, err, f.Log())
	}
	a, err := caller.Read(e, r.Status, []byte(r.Body))
	must(t, err)
	return a
}

// invoke invokes f with a sample event of another kind than requests.
func invoke(t *testing.T, f *Function, file string) {
	t.Helper()
	if _, err := f.Invoke(t.Context(), sample(t, file)); err != nil {
		t.Fatalf("%s: %v\n%s", file, err, f.Log())
	}
}

// sound requires the rows of a pair to obey their rules.
func sound(t *testing.T, host *awshost.Host, pair call.Pair) {
	t.Helper()
	s := host.Store(host.Endpoint)
	for _, err := range calltest.CheckStreams(t.Context(), s, pair, host.Open(t, s, time.Now, nil).Texts) {
		t.Error(err)
	}
}

func TestFunctionAnswersTheSampleEvents(t *testing.T) {
	host := awshost.New(t)
	// An imported vacant answers nothing that was signed before its import, so
	// it was imported before the samples were signed.
	early := func() time.Time { return signedAt.Add(-time.Hour) }
	spec := vacants.CreateSpec{Name: "sample", Capability: "echoes", Substrate: "echo", Key: sampleVacant}
	must(t, errorOf(host.Open(t, host.Store(host.Endpoint), early, nil).Vacants.Create(t.Context(), spec)))
	f := Start(t, bootstrap(t, "message"), Options{Env: host.Env(host.Endpoint)})
	first, second, reset := signedSamples()
	id := sampleVacant.ID()
	short := id.Short()
	cased := NewEvent(caller.AskPath, caller.Body(first)) // only function URLs write header names in lower case
	delete(cased.Headers, "content-type")
	cased.Headers["CoNTeNT-tYPe"] = "Application/JSON; charset=utf-8"
	fresh := (&caller.Caller{Key: sampleCaller, To: id}).Reset(time.Now())

	for _, tt := range []struct {
		name   string
		event  []byte
		status int
		of     *envelope.Envelope // the answer is to this one
		text   string             // of the reply
		state  string
		says   string // somewhere in the body
	}{
		{"message-card.json", nil, 200, nil, "", "", `"capability_text":"echoes","endpoint":"` + awshost.URL + "/v/" + id.String() + caller.SendPath + `"`},
		{"message-health.json", nil, 200, nil, "", "", `"state":"LOCAL"`},
		{"message-send-forged.json", nil, 401, nil, "", "", "envelope signature did not verify"},
		{"message-send-text.json", nil, 415, nil, "", "", "text/plain"},
		{"message-send.json", nil, 200, first, "echo from " + short + ": hello", "", ""},
		{"message-send.json", nil, 409, first, "echo from " + short + ": hello", "answered", `"code":"replay"`},
		{"message-send-browser.json", nil, 200, second, "echo from " + short + ": grüß dich", "", ""},
		{"message-ask.json", nil, 200, first, "echo from " + short + ": hello", "answered", ""},
		{"headers of any case", cased.Encode(), 200, first, "echo from " + short + ": hello", "answered", ""},
		{"message-reset.json", nil, 400, reset, "", "", "stale_reset_request"},
		{"a reset of now", NewEvent(caller.ResetPath, caller.Body(fresh)).Encode(), 200, fresh, "", "", `"ok":true`},
		{"message-admin.json", nil, 404, nil, "", "", "no such path"},
		{"message-wrong-path.json", nil, 404, nil, "", "", "no such path"},
		{"a path that is none", NewEvent("/%zz", []byte("{}")).Encode(), 400, nil, "", "", `"code":"malformed"`},
		{"a path with a NUL", NewEvent("/a\x00b", []byte("{}")).Encode(), 400, nil, "", "", `"code":"malformed"`},
		{"what a console sends by default", []byte(`{"key1":"value1"}`), 405, nil, "", "", "use POST"},
	} {
		event := tt.event
		if event == nil {
			event = sample(t, tt.name)
		}
		r, err := f.Send(t.Context(), event)
		if err != nil {
			t.Fatalf("%s: Send() = %v\n%s", tt.name, err, f.Log())
		}
		if r.Status != tt.status || !strings.Contains(r.Body, tt.says) || r.Base64 {
			t.Errorf("%s: answer = %d (base64 %t) %s, want %d with %q", tt.name, r.Status, r.Base64, r.Body, tt.status, tt.says)
		}
		if tt.of == nil {
			continue
		}
		a, err := caller.Read(tt.of, r.Status, []byte(r.Body))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		got := ""
		if a.Reply != nil {
			got = a.Reply.Payload.Text()
		}
		if diff := cmp.Diff([]string{tt.text, tt.state}, []string{got, a.State}); diff != "" {
			t.Errorf("%s: text and state (-want +got):\n%s", tt.name, diff)
		}
	}
	sound(t, host, call.Pair{Caller: sampleCaller.ID(), Vacant: id})
}

func TestFrozenFunctionAnswersTheNextCall(t *testing.T) {
	host := awshost.New(t)
	c := caller.New(t, host.Create(t, "frozen", nil))
	proxy := faultproxy.Start(t, host.Endpoint)
	f := Start(t, bootstrap(t, "message"), Options{Env: host.Env(proxy.URL), Freeze: true})
	for i := range 4 {
		e := c.Call(fmt.Sprint("call ", i), time.Now())
		if a := send(t, f, caller.SendPath, e); a.Status != 200 {
			t.Fatalf("call %d = %v, want 200\n%s", i, a, f.Log())
		}
		c.Accepted(e)
		if !f.frozen.Load() {
			t.Fatalf("after call %d the function is not frozen", i)
		}
		wantStopped(t, f.cmd.Process.Pid)
		if i%2 == 1 {
			proxy.Cut() // the effect of a long sleep on connections
		}
	}
	sound(t, host, call.Pair{Caller: c.Key.ID(), Vacant: c.To})
}

// JSON in JSON grows most with quotation marks: two bytes of the caller's body
// are four of the function's answer.
func TestLargestAnswerIsFarBelowLambdasLimit(t *testing.T) {
	const limit, body = 6 << 20, 256 << 10
	host := awshost.New(t)
	c := caller.New(t, host.Create(t, "large", nil))
	f := Start(t, bootstrap(t, "message"), Options{Env: host.Env(host.Endpoint)})
	empty := len(caller.Body(c.Call("", time.Now())))
	e := c.Call(strings.Repeat(`"`, (body-empty)/2), time.Now())
	if n := len(caller.Body(e)); n < body-1 || n > body {
		t.Fatalf("the body has %d bytes, want %d", n, body)
	}
	event := NewEvent(caller.SendPath, caller.Body(e)).Encode()
	b, err := f.Invoke(t.Context(), event)
	must(t, err)
	var r Response
	if err := json.Unmarshal(b, &r); err != nil || r.Status != 200 {
		t.Fatalf("answer = %d %.200s, %v, want 200", r.Status, r.Body, err)
	}
	if _, err := caller.Read(e, r.Status, []byte(r.Body)); err != nil {
		t.Error(err)
	}
	t.Logf("the largest event has %d bytes, its answer %d", len(event), len(b))
	if len(event) > limit/2 || len(b) > limit/2 {
		t.Errorf("event and answer have %d and %d bytes, want less than half of %d", len(event), len(b), limit)
	}
	c.Accepted(e)
	over := c.Call(strings.Repeat(`"`, (body-empty)/2+100), time.Now())
	if a := send(t, f, caller.SendPath, over); a.Status != 413 {
		t.Errorf("a larger body = %v, want 413", a)
	}
}
