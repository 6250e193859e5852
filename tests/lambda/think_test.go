//go:build unix

package lambda

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/estimates"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
)

// ARNs in the functions' environment.
const (
	thinkARN   = "arn:aws:lambda:us-east-1:123456789012:function:vacancy-test-think"
	answersARN = "arn:aws:lambda:us-east-1:123456789012:function:answers"
)

// cloud is Lambda's API and Bedrock for the functions of a host: one instance of think,
// and a tenant's function.
type cloud struct {
	*httptest.Server
	think *Function

	mu       sync.Mutex
	busy     bool
	throttle int             // refuses so many invocations of think
	ended    []time.Duration // how long each invocation of think took
	thoughts func(http.ResponseWriter)
}

// newCloud starts think over a host's tables at an endpoint.
func newCloud(t *testing.T, host *awshost.Host, endpoint string, o Options) *cloud {
	t.Helper()
	c := &cloud{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch path := strings.Replace(r.URL.Path, "%3A", ":", -1); {
		case strings.HasSuffix(path, "/functions/"+thinkARN+"/invocations"):
			c.invoke(w, r, body)
		case strings.HasSuffix(path, "/functions/"+answersARN+"/invocations"):
			var q struct{ Message string }
			_ = json.Unmarshal(body, &q)
			fmt.Fprintf(w, `{"text":%q,"usage":{"input_tokens":3,"output_tokens":2}}`, "the function heard "+q.Message)
		case strings.HasSuffix(path, "/converse-stream"):
			c.thoughts(w)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(c.Close)
	o.Env = append(host.Env(endpoint), "VACANCY_MOCK=true", "VACANCY_TENANT_FUNCTIONS=acme="+answersARN, "AWS_ENDPOINT_URL_LAMBDA="+c.URL, "AWS_ENDPOINT_URL_BEDROCK_RUNTIME="+c.URL)
	c.think = Start(t, bootstrap(t, "think"), o)
	return c
}

// killed kills think once it is invoked.
func (c *cloud) killed() {
	for busy := false; !busy; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		busy = c.busy
		c.mu.Unlock()
	}
	c.think.Kill()
}

// invoke runs think as Lambda's API does, with a reserved concurrency of one.
func (c *cloud) invoke(w http.ResponseWriter, r *http.Request, event []byte) {
	c.mu.Lock()
	refused := c.busy || c.throttle > 0
	c.throttle, c.busy = max(c.throttle-1, 0), c.busy || !refused
	c.mu.Unlock()
	if refused {
		w.Header().Set("X-Amzn-ErrorType", "TooManyRequestsException")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"Reason":"ReservedFunctionConcurrentInvocationLimitExceeded","message":"Rate Exceeded."}`)
		return
	}
	began := time.Now()
	// Lambda runs the function to its end, whether the client waits or not.
	reply, err := c.think.Invoke(context.WithoutCancel(r.Context()), event)
	c.mu.Lock()
	c.busy = false
	c.ended = append(c.ended, time.Since(began))
	c.mu.Unlock()
	if err != nil {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		reply = []byte(`{"errorType":"Runtime.ExitError"}`)
	}
	_, _ = w.Write(reply)
}

// env is the environment of the functions that ask think.
func (c *cloud) env() []string {
	return []string{"VACANCY_MOCK=true", "VACANCY_THINK=" + thinkARN, "AWS_ENDPOINT_URL_LAMBDA=" + c.URL}
}

// create creates a vacant with an agent through admin, as an operator does.
func (c *cloud) create(t *testing.T, host *awshost.Host, body string) identity.ID {
	t.Helper()
	admin := run(t, "admin", host, append(c.env(), "VACANCY_TENANT_FUNCTIONS=acme="+answersARN)...)
	r, err := admin.Send(t.Context(), keyed("POST", "/v1/admin/vacants", []byte(body)).Encode())
	var made struct {
		Vacant identity.ID `json:"vacant_id"`
	}
	if err != nil || r.Status != 201 || json.Unmarshal([]byte(r.Body), &made) != nil {
		t.Fatalf("create = %d %s, %v\n%s", r.Status, r.Body, err, admin.Log())
	}
	return made.Vacant
}

// mocked is the body that creates a vacant with a script of the mock, and other members
// of its agent.
func mocked(script, more string) string {
	return fmt.Sprintf(`{"name":"sage","capability":"knows","agent":{"provider":"mock","system":%q%s}}`, "```mock\n"+script+"\n```", more)
}

func TestAModelAnswersThroughThink(t *testing.T) {
	host := operated(t)
	proxy := faultproxy.Start(t, host.Endpoint)
	c := newCloud(t, host, proxy.URL, Options{Freeze: true})
	id := c.create(t, host, mocked("call: none {}\nusage: 100 10\n---\ntext: you wrote {input}\nusage: 200 20", `,"price":{"input":1000000,"output":2000000}`))
	f := Start(t, bootstrap(t, "message"), Options{Env: append(host.Env(proxy.URL), c.env()...), Freeze: true})
	from := caller.New(t, id)
	for i := range 3 {
		e := from.Call(fmt.Sprint("question ", i), time.Now())
		a := send(t, f, caller.SendPath, e)
		if a.Status != 200 || a.Reply == nil || a.Reply.Payload.Text() != fmt.Sprint("you wrote question ", i) {
			t.Fatalf("call %d = %+v\n%s\n%s", i, a, f.Log(), c.think.Log())
		}
		from.Accepted(e)
		proxy.Cut() // what a long sleep does to connections
		c.CloseClientConnections()
	}
	sound(t, host, call.Pair{Caller: from.Key.ID(), Vacant: id})
	// message writes two rows and the vacant's entry; think a reservation and its
	// settlement in two totals for each turn.
	want := [][]any{}
	for range 3 {
		want = append(want, []any{"turn", "ok", 100., 10., 120., 8.}, []any{"turn", "ok", 200., 20., 240., 8.})
	}
	told := lines(t, c.think)
	if diff := cmp.Diff(want, pick(told, "think", "op", "verdict", "in", "out", "cost", "wcu")); diff != "" {
		t.Errorf("op, verdict, in, out, cost, wcu of think (-want +got):\n%s\n%s", diff, c.think.Log())
	}
	// The estimate for a call of one turn equals the units that this call takes
	// beyond an echo's.
	model, echo := estimates.Turn, cost.DefaultModel()
	calls, turns := pick(lines(t, f), "send", "wcu", "rcu"), pick(told, "think", "rcu")
	last := calls[len(calls)-1]
	if writes := last[0].(float64) + 8 - echo.WriteUnits; writes != model.WriteUnits {
		t.Errorf("a turn writes %v units beyond an echo, the estimate is %v", writes, model.WriteUnits)
	}
	if reads := last[1].(float64) + turns[len(turns)-1][0].(float64) - 1; reads > model.ReadUnits || reads < model.ReadUnits/2 { // a warm echo reads one
		t.Errorf("a turn reads %v units beyond an echo, the estimate is %v", reads, model.ReadUnits)
	}
}

func TestThinkThatFailsIsAskedOnceAndTheCallIsVoid(t *testing.T) {
	for _, tt := range []struct {
		what, script, more string
		during             func(*cloud)
		status             int
		code               string
		invoked            int
	}{
		{"killed", "wait: 20s", "", (*cloud).killed, 500, "substrate_unavailable", 1},
		{"out of time", "wait: 20s", `,"timeout":1`, nil, 504, "deadline", 1},
		{"busy", "fail: busy", "", nil, 500, "substrate_busy", 2}, // the loop asks a busy model once more
		{"refused", "fail: refused", "", nil, 500, "substrate_refused", 1},
		{"throttled once", "text: ok", "", func(c *cloud) {}, 200, "", 1},
	} {
		t.Run(tt.what, func(t *testing.T) {
			host := operated(t)
			c := newCloud(t, host, host.Endpoint, Options{})
			id := c.create(t, host, mocked(tt.script, tt.more))
			f := run(t, "message", host, c.env()...)
			if tt.what == "throttled once" {
				c.throttle = 1
			} else if tt.during != nil {
				go tt.during(c)
			}
			from := caller.New(t, id)
			e := from.Call("hi", time.Now())
			a := send(t, f, caller.SendPath, e)
			if a.Status != tt.status || a.Code != tt.code {
				t.Errorf("the call = %+v, want %d %s\n%s", a, tt.status, tt.code, f.Log())
			}
			c.mu.Lock()
			invoked := len(c.ended)
			c.mu.Unlock()
			if invoked != tt.invoked {
				t.Errorf("think ended %d invocations, want %d", invoked, tt.invoked)
			}
			// A resend says the same and asks nobody.
			if again := send(t, f, caller.SendPath, e); tt.status != 200 && again.State != "unanswered" {
				t.Errorf("a resend = %+v, want it unanswered", again)
			}
			sound(t, host, call.Pair{Caller: from.Key.ID(), Vacant: id})
		})
	}
}

func TestWhenAllOfThinkIsBusyCallersComeLater(t *testing.T) {
	host := operated(t)
	c := newCloud(t, host, host.Endpoint, Options{})
	id := c.create(t, host, mocked("text: ok", ""))
	f := run(t, "message", host, c.env()...)
	c.throttle = 2
	e := caller.New(t, id).Call("hi", time.Now())
	r, err := f.Send(t.Context(), NewEvent(caller.SendPath, caller.Body(e)).Encode())
	if err != nil || r.Status != 500 || !strings.Contains(r.Body, `"code":"substrate_busy"`) || r.Headers["Retry-After"] == "" {
		t.Errorf("the call = %d %s %v, %v; want substrate_busy with Retry-After", r.Status, r.Body, r.Headers, err)
	}
	if len(c.ended) != 0 {
		t.Errorf("think ran %d times", len(c.ended))
	}
}

// frame is a message of Bedrock's stream.
func frame(event string, members map[string]any) []byte {
	payload, _ := json.Marshal(members)
	m := eventstream.Message{Payload: payload}
	m.Headers.Set(":message-type", eventstream.StringValue("event"))
	m.Headers.Set(":event-type", eventstream.StringValue(event))
	m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	var b bytes.Buffer
	_ = eventstream.NewEncoder().Encode(&b, m)
	return b.Bytes()
}

func TestBedrockAndATenantsFunctionAnswer(t *testing.T) {
	host := operated(t)
	c := newCloud(t, host, host.Endpoint, Options{})
	c.thoughts = func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		for _, f := range [][]byte{
			frame("messageStart", map[string]any{"role": "assistant"}), frame("contentBlockDelta", map[string]any{"contentBlockIndex": 0, "delta": map[string]any{"text": "from Bedrock"}}),
			frame("messageStop", map[string]any{"stopReason": "end_turn"}), frame("metadata", map[string]any{"usage": map[string]any{"inputTokens": 1000, "outputTokens": 100, "totalTokens": 1100}}),
		} {
			_, _ = w.Write(f)
		}
	}
	f := run(t, "message", host, c.env()...)
	for body, want := range map[string]string{
		`{"name":"rock","capability":"knows","substrate":"bedrock:amazon.nova-lite-v1:0"}`:                   "from Bedrock",
		`{"name":"fun","capability":"answers","tenant":"acme","substrate":"lambda:` + answersARN + `"}`:      "the function heard hi",
		`{"name":"own","capability":"answers","tenant":"acme","agent":{"provider":"mock","allow":["mock"]}}`: "hi",
	} {
		from := caller.New(t, c.create(t, host, body))
		e := from.Call("hi", time.Now())
		if a := send(t, f, caller.SendPath, e); a.Status != 200 || a.Reply == nil || a.Reply.Payload.Text() != want {
			t.Errorf("%s = %+v, want %q\n%s", body, a, want, c.think.Log())
		}
	}
	if want := [][]any{{84.}}; len(pick(lines(t, c.think), "think", "cost")) != 3 || !strings.Contains(c.think.Log(), `"cost":84`) {
		t.Errorf("think told no cost of %v:\n%s", want, c.think.Log())
	}
}

// The operator sets secrets, budgets and prices through admin, which opens no secret.
func TestAdminSetsWhatModelsNeed(t *testing.T) {
	host := operated(t)
	c := newCloud(t, host, host.Endpoint, Options{})
	f := run(t, "admin", host, c.env()...)
	const canary = "canary-0123456789-of-a-key"
	for _, tt := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", "/v1/admin/vacants", `{"name":"sage","capability":"knows","substrate":"anthropic:claude-opus-4-6"}`, 400, `the host has no secret \"anthropic\"`},
		{"PUT", "/v1/admin/secrets/anthropic", `{"value":"` + canary + `"}`, 200, `"hosts":["api.anthropic.com"]`},
		{"GET", "/v1/admin/secrets", "", 200, `"name":"anthropic"`},
		{"POST", "/v1/admin/vacants", `{"name":"sage","capability":"knows","substrate":"anthropic:claude-opus-4-6"}`, 201, `"name":"sage"`},
		{"POST", "/v1/admin/vacants", `{"name":"rock","capability":"knows","substrate":"bedrock:claude"}`, 400, "the id of a model or inference profile at Bedrock"},
		{"POST", "/v1/admin/vacants", `{"name":"fun","capability":"knows","substrate":"lambda:` + answersARN + `"}`, 403, "tenantFunctions"},
		{"POST", "/v1/admin/vacants", `{"name":"llama","capability":"knows","substrate":"ollama:llama3.2"}`, 400, "substrate: expected one of anthropic, bedrock, echo, gemini, http, lambda, mcp, mistral, mock, openai"},
		{"GET", "/v1/admin/models", "", 200, `"provider":"bedrock"`},
		{"PUT", "/v1/admin/budgets?tenant=acme", `{"daily":1000000}`, 200, `"daily":1000000`},
		{"GET", "/v1/admin/budgets", "", 200, `"daily":5000000`},
	} {
		var body []byte
		if tt.body != "" {
			body = []byte(tt.body)
		}
		r, err := f.Send(t.Context(), keyed(tt.method, tt.path, body).Encode())
		if err != nil || r.Status != tt.status || !strings.Contains(r.Body, tt.says) || strings.Contains(r.Body, canary) {
			t.Errorf("%s %s %s = %d %s, %v; want %d with %q", tt.method, tt.path, tt.body, r.Status, r.Body, err, tt.status, tt.says)
		}
	}
	if strings.Contains(f.Log()+c.think.Log(), canary) {
		t.Errorf("a log shows the secret:\n%s\n%s", f.Log(), c.think.Log())
	}
}

func TestThinkAnswersTheSampleEvents(t *testing.T) {
	host := operated(t)
	c := newCloud(t, host, host.Endpoint, Options{})
	spec := vacants.CreateSpec{Name: "sample", Capability: "knows", Agent: &definition.Agent{Provider: "mock"}, Key: sampleVacant}
	must(t, errorOf(host.Open(t, host.Store(host.Endpoint), time.Now, mock.Kinds()).Vacants.Create(t.Context(), spec)))
	for file, want := range map[string]string{
		"think-turn.json":  `{"text":"hello"}` + "\n" + `{"done":"stop"}` + "\n",
		"think-tools.json": `{"tools":[]}` + "\n" + `{"done":"stop"}` + "\n",
		"think-use.json":   `{"error":{"kind":"not_found","text":"the tool \"mcp__notes__look\" no longer exists"}}` + "\n",
		"think-wrong.json": `{"error":{"kind":"malformed","text":"event: expected a request from this host, got something else","cause":"json: unknown field \"url\""}}` + "\n",
	} {
		reply, err := c.think.Invoke(t.Context(), sample(t, file))
		lines := strings.SplitAfter(string(reply), "\n")
		var got string
		for _, line := range lines {
			if !strings.HasPrefix(line, `{"usage"`) {
				got += line
			}
		}
		if err != nil || got != want {
			t.Errorf("%s = %s, %v; want %s", file, reply, err, want)
		}
	}
}
