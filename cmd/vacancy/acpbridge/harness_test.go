package acpbridge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

// talker is a substrate that does what the last message says.
type talker struct{ stopped chan bool }

func (a talker) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		text := r.Text()
		last := text[strings.LastIndexByte(text, '\n')+1:]
		switch {
		case last == "think":
			if !yield(substrate.Thought("hm"), nil) {
				return
			}
			for _, s := range []call.ToolStep{{ID: "a", Name: "Grep", Arguments: "{}"}, {ID: "a", Name: "Grep", Outcome: call.ToolOK}} {
				call.Report(ctx, call.ProvisionalEvent{Detail: s})
			}
			if yield(substrate.Text("so be it"), nil) {
				yield(substrate.FinishStop, nil)
			}
			return
		case last == "fail":
			yield(nil, problem.New(problem.SubstrateUnavailable, "it is down"))
			return
		case last == "sleep":
			if yield(substrate.Text("zzz "), nil) {
				<-ctx.Done()
				a.stopped <- true
				yield(nil, ctx.Err())
			}
			return
		case last == "ask":
			if yield(substrate.Question{}, nil) && yield(substrate.Text("which color?"), nil) {
				yield(substrate.FinishStop, nil)
			}
			return
		}
		for _, piece := range []string{"you said ", last, fmt.Sprintf(" (%d bytes)", len(text))} {
			if !yield(substrate.Text(piece), nil) {
				return
			}
		}
		yield(substrate.FinishStop, nil)
	}
}

// fixture is a host with the vacant fox of the tenant acme, and acme's account.
type fixture struct {
	*memhost.Host
	url     string
	agent   string // agent's name in config
	acme    billing.Account
	fox     vacants.Record
	key     string // with the scopes call, agents and read
	stopped chan bool
	ahead   atomic.Int64 // nanoseconds by which the host's clock is ahead
}

func openFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{agent: "fox", stopped: make(chan bool, 8)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.Public.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	f.url = server.URL
	f.Host = memhost.Open(t, func(c *serve.Config) {
		c.URL, c.Now = server.URL, func() time.Time { return time.Now().Add(time.Duration(f.ahead.Load())) }
		c.Substrates = substrate.Kinds{"talker": func(string) (substrate.Substrate, error) { return talker{f.stopped}, nil }, substrate.KindMock: mock.Kinds()[substrate.KindMock]}
	})
	f.Serve()
	f.Work()
	f.acme = f.Account("acme", money.Dollar)
	f.fox = f.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "fox", Capability: "talks", Substrate: "talker", Tenant: "acme"})
	f.key = f.Key(f.acme, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeCall, billing.ScopeAgents, billing.ScopeRead}})
	return f
}

// config returns the configuration of a caller: a guest if key is "".
func (f *fixture) config(key string, own bool) Config {
	f.Helper()
	web := dispatch.NewHTTP(dispatch.HTTPOptions{})
	card, err := agents.FetchCard(f.Context(), web, f.url+"/v/"+f.agent)
	f.Must(err)
	agent, err := agents.NewAgent(web, card)
	f.Must(err)
	agent.BearerToken = key
	c := Config{Version: "test", Agent: agent, Sender: UnsignedSender{agent}, IsGuest: key == "", WorkDir: "/work", Now: time.Now, Logf: f.Logf}
	if own {
		client := admin.Client{HTTP: &http.Client{Transport: bearer(key)}, URL: f.url}
		details, err := teamapi.ShowAgent.Key.Call(f.Context(), client, teamapi.AgentRef{Agent: f.agent})
		f.Must(err)
		c.OwnedAgent, c.Sender = &details, Dispatcher{client, f.agent, f.Logf}
	}
	return c
}

// bearer sends a key with each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// editor is a client of a bridge.
type editor struct {
	t      *testing.T
	in     *io.PipeWriter
	served chan error
	dir    string

	mu      sync.Mutex
	changed *sync.Cond
	answers map[int]message
	updates []message
	next    int
}

// message is a message of the bridge.
type message struct {
	ID     *int            `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Params struct {
		SessionID string         `json:"sessionId"`
		Update    map[string]any `json:"update"`
	} `json:"params"`
}

func connect(t *testing.T, c Config) *editor {
	t.Helper()
	fromEditor, in := io.Pipe()
	out, fromBridge := io.Pipe()
	e := &editor{t: t, in: in, served: make(chan error, 1), dir: t.TempDir(), answers: map[int]message{}}
	e.changed = sync.NewCond(&e.mu)
	go func() { e.served <- Serve(context.Background(), c, fromEditor, fromBridge); fromBridge.Close() }()
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			var m message
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				t.Errorf("the bridge wrote %q", lines.Bytes())
			}
			e.mu.Lock()
			if m.ID != nil {
				e.answers[*m.ID] = m
			} else {
				e.updates = append(e.updates, m)
			}
			e.mu.Unlock()
			e.changed.Broadcast()
		}
	}()
	t.Cleanup(func() { in.Close(); <-e.served })
	return e
}

// send sends a request and returns its number.
func (e *editor) send(method string, params any) int {
	e.t.Helper()
	e.mu.Lock()
	e.next++
	n := e.next
	e.mu.Unlock()
	e.write(map[string]any{"jsonrpc": "2.0", "id": n, "method": method, "params": params})
	return n
}

func (e *editor) write(m any) {
	e.t.Helper()
	b, err := json.Marshal(m)
	if err == nil {
		_, err = e.in.Write(append(b, '\n'))
	}
	if err != nil {
		e.t.Error(err)
	}
}

// await waits until a condition holds.
func (e *editor) await(what string, is func() bool) {
	e.t.Helper()
	timer := time.AfterFunc(20*time.Second, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.updates = append(e.updates, message{Method: "late"})
		e.changed.Broadcast()
	})
	defer timer.Stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	for !is() {
		if n := len(e.updates); n > 0 && e.updates[n-1].Method == "late" {
			e.t.Fatalf("%s does not come; updates %v", what, e.updates)
		}
		e.changed.Wait()
	}
}

func (e *editor) answer(n int) message {
	e.t.Helper()
	e.await(fmt.Sprintf("answer %d", n), func() bool { _, ok := e.answers[n]; return ok })
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.answers[n]
}

// ask sends a request and decodes its result.
func (e *editor) ask(method string, params any) map[string]any {
	e.t.Helper()
	m := e.answer(e.send(method, params))
	var result map[string]any
	if m.Error != nil || json.Unmarshal(m.Result, &result) != nil {
		e.t.Fatalf("%s = %s, %+v", method, m.Result, m.Error)
	}
	return result
}

// refused sends a request and returns the code and text of its refusal.
func (e *editor) refused(method string, params any) (int, string) {
	e.t.Helper()
	m := e.answer(e.send(method, params))
	if m.Error == nil {
		e.t.Fatalf("%s = %s, want an error", method, m.Result)
	}
	return m.Error.Code, m.Error.Message
}

func (e *editor) open() string {
	e.t.Helper()
	return e.ask("session/new", map[string]any{"cwd": e.dir, "mcpServers": []any{}})["sessionId"].(string)
}

func promptOf(session, text string) map[string]any {
	return map[string]any{"sessionId": session, "prompt": []any{map[string]any{"type": "text", "text": text}}}
}

// prompt sends a prompt, and returns the stop reason and the texts of each kind of chunk since the last prompt.
func (e *editor) prompt(session, text string) (reason string, said map[string]string) {
	e.t.Helper()
	e.forget()
	reason, _ = e.ask("session/prompt", promptOf(session, text))["stopReason"].(string)
	return reason, e.said(session)
}

func (e *editor) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updates = nil
}

// said joins the texts of the updates of a session by kind.
func (e *editor) said(session string) map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[string]string{}
	for _, m := range e.updates {
		if m.Params.SessionID != session {
			continue
		}
		content, _ := m.Params.Update["content"].(map[string]any)
		text, _ := content["text"].(string)
		all[m.Params.Update["sessionUpdate"].(string)] += text
	}
	return all
}

// kinds lists the kinds of the updates of a session, without repetitions in a row.
func (e *editor) kinds(session string) (all []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.updates {
		kind, _ := m.Params.Update["sessionUpdate"].(string)
		if m.Params.SessionID == session && (len(all) == 0 || all[len(all)-1] != kind) {
			all = append(all, kind)
		}
	}
	return all
}

// refusing is an agents.HTTP that fails while it is away.
type refusing struct {
	agents.HTTP
	mu   sync.Mutex
	away int // requests that fail
}

func (r *refusing) fail() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away == 0 {
		return nil
	}
	r.away--
	return problem.New(problem.Unavailable, "the host is away")
}

func (r *refusing) Do(ctx context.Context, q outbound.Request) (outbound.Reply, error) {
	if err := r.fail(); err != nil {
		return outbound.Reply{}, err
	}
	return r.HTTP.Do(ctx, q)
}

func (r *refusing) Open(ctx context.Context, q outbound.Request) (*http.Response, error) {
	if err := r.fail(); err != nil {
		return nil, err
	}
	return r.HTTP.Open(ctx, q)
}

// cutting ends the streams of messages after a number of events.
type cutting struct {
	agents.HTTP
	after int
}

// cutBody is the body of a stream that ends after some events.
type cutBody struct {
	io.Closer
	lines *bufio.Reader
	left  int
	rest  []byte
}

func (c *cutBody) Read(p []byte) (n int, err error) {
	if len(c.rest) == 0 && c.left > 0 {
		if c.rest, err = c.lines.ReadBytes('\n'); string(c.rest) == "\n" {
			c.left--
		}
	}
	n = copy(p, c.rest)
	if c.rest = c.rest[n:]; n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func (c *cutting) Open(ctx context.Context, q outbound.Request) (*http.Response, error) {
	r, err := c.HTTP.Open(ctx, q)
	if err == nil && bytes.Contains(q.Body, []byte(`"SendStreamingMessage"`)) {
		r.Body = &cutBody{Closer: r.Body, lines: bufio.NewReader(r.Body), left: c.after}
	}
	return r, err
}
