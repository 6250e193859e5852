package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcprelay"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// program is a relay, as the client that started it has it.
type program struct {
	t      *testing.T
	in     *io.PipeWriter
	out    *bufio.Scanner
	ended  chan error
	signal context.CancelFunc // ends it as SIGTERM does
}

func relayTo(t *testing.T, url, key string) *program {
	t.Helper()
	in, writer := io.Pipe()
	reader, out := io.Pipe()
	ctx, signal := context.WithCancel(t.Context())
	p := &program{t, writer, bufio.NewScanner(reader), make(chan error, 1), signal}
	p.out.Buffer(nil, 1<<20)
	r := &mcprelay.Relay{URL: url, Key: key, Transport: dispatch.NewHTTP(dispatch.HTTPOptions{}), StopTasks: true, Logf: t.Logf}
	go func() {
		err := r.Serve(ctx, in, out)
		out.Close()
		p.ended <- err
	}()
	t.Cleanup(func() { signal(); writer.Close(); reader.Close() })
	return p
}

func (p *program) send(line string) {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Error(err)
	}
}

// said is a message of the program.
type said struct {
	ID     json.RawMessage
	Method string
	Params struct{ Message string }
	Result struct {
		Is              bool           `json:"isError"`
		Data            map[string]any `json:"structuredContent"`
		ProtocolVersion string
		Tools           []struct{ Name string }
	}
	Error *struct {
		Code    int
		Message string
	}
}

func (p *program) next() (m said) {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("the output ends: %v", p.out.Err())
	}
	if err := json.Unmarshal(p.out.Bytes(), &m); err != nil {
		p.t.Fatalf("%q is not a message: %v", p.out.Bytes(), err)
	}
	return m
}

// end waits for the end of the program, which says nothing more.
func (p *program) end() {
	p.t.Helper()
	if p.out.Scan() {
		p.t.Errorf("the program says %q", p.out.Bytes())
	}
	if err := <-p.ended; err != nil {
		p.t.Error(err)
	}
}

func TestTheRelayServesAClientByItsLines(t *testing.T) {
	w := newWorld(t)
	p := relayTo(t, w.http.URL+"/v/echo/mcp", "")
	p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if got := p.next(); got.Result.ProtocolVersion != "2025-06-18" || string(got.ID) != "0" {
		t.Errorf("initialize: %+v", got)
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	p.send("")
	p.send(`{"jsonrpc":"2.0","id":"a","method":"tools/list"}`)
	if got := p.next(); string(got.ID) != `"a"` || len(got.Result.Tools) != 5 {
		t.Errorf("tools/list: %+v", got)
	}
	p.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"message":"hi"}}}`)
	if got := p.next(); got.Result.Is || !strings.HasSuffix(got.Result.Data["text"].(string), ": hi") {
		t.Errorf("ask: %+v", got)
	}
	// The headers of the newest revision are made of the message.
	p.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ask","arguments":{"message":"new"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	if got := p.next(); got.Error != nil || !strings.HasSuffix(got.Result.Data["text"].(string), ": new") {
		t.Errorf("ask of the newest revision: %+v", got)
	}
	p.in.Close()
	p.end()
}

func TestTheRelayPassesProgressOnOnlyIfAsked(t *testing.T) {
	w := newWorld(t)
	w.create(vacants.CreateSpec{Name: "slow", Substrate: "slow"})
	p := relayTo(t, w.http.URL+"/v/slow/mcp", "")
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"message":"hi"},"_meta":{"progressToken":7}}}`)
	w.gate <- "one "
	if got := p.next(); got.Method != "notifications/progress" || got.Params.Message != "one " {
		t.Errorf("the first message is %+v, want the piece", got)
	}
	w.gate <- "two"
	close(w.gate)
	if got := p.next(); got.Params.Message != "two" {
		t.Errorf("the second message is %+v", got)
	}
	if got := p.next(); got.Result.Data["text"] != "one two" {
		t.Errorf("the answer is %+v", got)
	}
	p.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"message":"hi"}}}`)
	if got := p.next(); string(got.ID) != "2" {
		t.Errorf("without a token: %+v, want only the answer", got)
	}
	p.in.Close()
	p.end()
}

// A question that nobody waits for any more is stopped at the host: the client cancels it, the input ends
// and time is over, or the program is ended.
func TestTheRelayStopsWhatNobodyWaitsFor(t *testing.T) {
	for name, leave := range map[string]func(*program){
		"canceled": func(p *program) {
			p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		},
		"ended by a signal": func(p *program) { p.signal() },
		"ended by a signal after the input": func(p *program) {
			p.in.Close()
			p.signal()
		},
	} {
		for _, at := range []string{"slow", ""} {
			t.Run(name+" at "+at, func(t *testing.T) {
				w := newWorld(t, func(c *serve.Config) { c.CallTimeout = 5 * time.Minute })
				w.publish(w.create(vacants.CreateSpec{Name: "slow", Substrate: "slow"}))
				key := w.key("acme", billing.KeyOptions{})
				url, call := w.http.URL+"/v/slow/mcp", `{"name":"ask","arguments":{"message":"hi"}}`
				if at == "" {
					url, call = w.http.URL+"/mcp", `{"name":"ask_agent","arguments":{"agent":"slow","message":"hi"}}`
				}
				p := relayTo(t, url, key)
				p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + call + `}`)
				w.gate <- "a part" // the turn runs
				leave(p)
				await.Until(t, "the task is canceled", func() bool {
					got := w.do("GET", "/v/slow/tasks", "", "A2A-Version: 1.0", "Authorization: Bearer "+key)
					return strings.Contains(got.body, "TASK_STATE_CANCELED") || strings.Contains(got.body, `"cut":"canceled"`)
				})
				p.in.Close()
				p.end()
			})
		}
	}
}

func TestTheRelayAnswersBadInputAndBadHosts(t *testing.T) {
	w := newWorld(t)
	paid := w.create(vacants.CreateSpec{Name: "paid", Substrate: "echo"})
	_, err := w.Vacants.SetPrice(t.Context(), paid.ID, price.Price{Flat: 2000})
	w.Must(err)
	for _, tt := range []struct{ name, url, key, line, id, want string }{
		{"no JSON", "/v/echo/mcp", "", `{"jsonrpc":`, "", "the message cannot be decoded"},
		{"a member twice", "/v/echo/mcp", "", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, "", "id: expected the key once"},
		{"other JSON", "/v/echo/mcp", "", `7`, "", "expected a message of JSON-RPC"},
		{"a long line", "/v/echo/mcp", "", `"` + strings.Repeat("x", 512<<10) + `"`, "", "at most 524288 bytes"},
		{"an id of another type", "/v/echo/mcp", "", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, "", "id: expected a text or a number"},
		{"an unknown method", "/v/echo/mcp", "", `{"jsonrpc":"2.0","id":1,"method":"make/tea"}`, "1", `make/tea`},
		{"a name that no header takes", "/v/echo/mcp", "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ü","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, "1", `params: unknown name "ü"`},
		{"an unknown vacant", "/v/nobody/mcp", "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "1", "no such server"},
		{"a bad key", "/v/echo/mcp", "nobody", `{"jsonrpc":"2.0","id":"x","method":"tools/list"}`, `"x"`, "Authorization: expected Bearer"},
		{"not a server of MCP", "/v/echo/jwks.json", "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "1", "without a message of MCP"},
	} {
		p := relayTo(t, w.http.URL+tt.url, tt.key)
		p.send(tt.line)
		got := p.next()
		if got.Error == nil || !strings.Contains(got.Error.Message, tt.want) || string(got.ID) != tt.id && (tt.id != "" || string(got.ID) != "null") {
			t.Errorf("%s: %+v %s, want %q", tt.name, got.Error, got.ID, tt.want)
		}
		p.in.Close()
		p.end()
	}
	p := relayTo(t, w.http.URL+"/v/paid/mcp", "")
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"message":"hi"}}}`)
	if got := p.next(); !got.Result.Is || got.Result.Data["code"] != "payment_required" || got.Result.Data["pay"] == nil {
		t.Errorf("a price: %+v", got)
	}
	p.send(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`)
	if !p.out.Scan() || !strings.HasPrefix(p.out.Text(), "[") || strings.Count(p.out.Text(), `"result"`) != 2 {
		t.Errorf("a batch: %s", p.out.Text())
	}
	p.in.Close()
	p.end()
	gone := relayTo(t, "http://127.0.0.1:1/mcp", "")
	gone.send(`{"jsonrpc":"2.0","id":9,"method":"tools/list"}`)
	if got := gone.next(); got.Error == nil || string(got.ID) != "9" || !strings.Contains(got.Error.Message, "127.0.0.1:1 cannot be reached") {
		t.Errorf("nobody listens: %+v", got.Error)
	}
	gone.in.Close()
	gone.end()
}

// Requests of one client are answered as they end, each once.
func TestTheRelayServesRequestsAtOnce(t *testing.T) {
	w := newWorld(t)
	w.create(vacants.CreateSpec{Name: "slow", Substrate: "slow"})
	p := relayTo(t, w.http.URL+"/v/slow/mcp", "")
	p.send(`{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"ask","arguments":{"message":"hi"}}}`)
	p.send(`{"jsonrpc":"2.0","id":0,"method":"ping"}`)
	if got := p.next(); got.Error == nil || !strings.Contains(got.Error.Message, "no pending request") {
		t.Errorf("an id that is under way: %+v", got)
	}
	for i := 1; i <= 20; i++ {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, i))
	}
	seen := map[string]bool{}
	for range 20 {
		seen[string(p.next().ID)] = true
	}
	w.gate <- "done"
	close(w.gate)
	if got := p.next(); len(seen) != 20 || string(got.ID) != "0" || got.Result.Data["text"] != "done" {
		t.Errorf("%d lists before the slow answer %+v", len(seen), got)
	}
	p.in.Close()
	p.end()
}
