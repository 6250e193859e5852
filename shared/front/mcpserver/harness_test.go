package mcpserver_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/front/handlers"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver"
	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/front/protocol"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

// world is a host with accounts and one vacant, echo, and what tests add.
type world struct {
	*memhost.Host
	store *flaky
	http  *httptest.Server
	echo  vacants.Record
	skip  atomic.Int64 // nanoseconds by which the host's clock is ahead
	turns atomic.Int64 // number of turns that the mock agent has run
	gate  chan string  // pieces of the answer of the vacant slow
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.skip.Load())) }

// flaky is a store that fails while down.
type flaky struct {
	store.Store
	down atomic.Bool
}

func (f *flaky) Commit(ctx context.Context, writes ...store.Write) error {
	if f.down.Load() {
		return store.NotAppliedError(io.ErrUnexpectedEOF)
	}
	return f.Store.Commit(ctx, writes...)
}

// Infer is an agent that answers with what it was told in its conversation, or fails as it is told.
func (w *world) Infer(_ context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		w.turns.Add(1)
		var said []string
		for _, t := range r.Turns {
			if t.Role == substrate.RoleCaller {
				said = append(said, t.Text)
			}
		}
		switch last := said[len(said)-1]; last {
		case "busy":
			yield(nil, problem.New(problem.SubstrateBusy, ""))
			return
		case "late":
			yield(nil, problem.New(problem.DeadlineExceeded, ""))
			return
		}
		_ = yield(substrate.Text(strings.Join(said, "+")), nil) && yield(substrate.FinishStop, nil)
	}
}

// slow is an agent that says the pieces of a channel.
type slow struct{ gate chan string }

func (s slow) Infer(ctx context.Context, _ substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		for {
			select {
			case piece, more := <-s.gate:
				if !more {
					yield(substrate.FinishStop, nil)
					return
				}
				if !yield(substrate.Text(piece), nil) {
					return
				}
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

func newWorld(t testing.TB, changes ...func(*serve.Config)) *world {
	return newWorldWithin(t, 0, changes...)
}

// newWorldWithin is newWorld with a time for responses.
func newWorldWithin(t testing.TB, answerTime time.Duration, changes ...func(*serve.Config)) *world {
	t.Helper()
	w := &world{store: &flaky{Store: memory.New()}, http: httptest.NewUnstartedServer(nil), gate: make(chan string)}
	w.Host = memhost.Open(t, append([]func(*serve.Config){func(c *serve.Config) {
		c.Store, c.AllowLoopback, c.OwnMachine, c.URL, c.Now = w.store, true, true, "http://"+w.http.Listener.Addr().String(), w.now
		c.Substrates = substrate.Kinds{
			substrate.KindMock: func(string) (substrate.Substrate, error) { return w, nil },
			"slow":             func(string) (substrate.Substrate, error) { return slow{w.gate}, nil },
		}
	}}, changes...)...)
	w.Serve()
	accounts := w.AccountHandler(nil)
	w.Agents.ReceiptsHandler = accounts
	w.Agents.VacantsHandler = w.TenantsHandler()
	if w.Operator() != nil {
		w.Agents.VacantsHandler = w.Admin()
	}
	protocols := handlers.NewProtocols(w.Agents)
	if answerTime != 0 {
		servers := mcpserver.Config{
			Plain: w.Agents.Plain, Card: w.Agents.A2AServer.Card, Search: w.SearchHandler(w.Agents.Find), IsPublished: w.IsPublished, Receipts: accounts, AnswerTime: answerTime,
		}
		protocols = append([]plain.Protocol{{Protocol: &protocol.MCP, Serve: mcpserver.Handler(servers)}}, protocols...)
	}
	w.http.Config.Handler = serve.Handlers{Message: w.MessageHandler(), Plain: w.Agents.Plain, Protocols: protocols, AGP: w.Agents.AGPHandler, Account: accounts, Resource: w.ResourceHandler(), MetadataURL: w.MetadataURL(), PageJudge: w.PageJudge()}.Public()
	w.http.Start()
	t.Cleanup(w.http.Close)
	w.Work()
	w.echo = w.create(vacants.CreateSpec{Name: "echo", Substrate: "echo"})
	return w
}

func (w *world) create(s vacants.CreateSpec) vacants.Record {
	w.Helper()
	s.Capability = cmp.Or(s.Capability, "Repeats")
	return w.Create(s)
}

// mind makes a vacant that remembers, and answers with everything it was told.
func (w *world) mind(name string) vacants.Record {
	return w.create(vacants.CreateSpec{Name: name, Agent: &definition.Agent{Provider: substrate.KindMock, Memory: true}})
}

// key is a key of a tenant with ten dollars.
func (w *world) key(tenant string, o billing.KeyOptions) string {
	w.Helper()
	a, err := w.Billing.FindAccount(w.Context(), tenant)
	if problem.Is(err, problem.NotFound) {
		a, err = w.Account(tenant, 10*money.Dollar), nil
	}
	w.Must(err)
	return w.Key(a, o)
}

// publish publishes a vacant, and lets caches forget it.
func (w *world) publish(r vacants.Record) {
	w.Helper()
	_, _, err := w.Vacants.Publish(w.Context(), r.ID, vacants.PublishOptions{Listing: &vacants.ListingOptions{}})
	w.Must(err)
	w.skip.Add(int64(2 * time.Second))
}

// answer is an answer of HTTP.
type answer struct {
	status int
	header http.Header
	body   string
}

const (
	accepts = "Accept: application/json, text/event-stream"
	legacy  = "Mcp-Protocol-Version: 2025-11-25"
)

// do sends a request. A header is NAME: VALUE.
func (w *world) do(method, path, body string, headers ...string) answer {
	w.Helper()
	q, err := http.NewRequestWithContext(w.Context(), method, w.http.URL+path, strings.NewReader(body))
	w.Must(err)
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			q.Host = value
		}
		q.Header.Set(name, value)
	}
	r, err := http.DefaultClient.Do(q)
	w.Must(err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	w.Must(err)
	return answer{r.StatusCode, r.Header, string(b)}
}

// rpc posts a request of the revision before the last.
func (w *world) rpc(path, method, params string, headers ...string) answer {
	w.Helper()
	return w.do("POST", path, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params), append([]string{accepts, legacy}, headers...)...)
}

// called is a result of a tool.
type called struct {
	Content []struct{ Type, Text string }
	Is      bool           `json:"isError"`
	Data    map[string]any `json:"structuredContent"`
	Meta    map[string]any `json:"_meta"`
}

func (c *called) text() string {
	if len(c.Content) == 0 {
		return ""
	}
	return c.Content[0].Text
}

// call calls a tool, whose answer must be a result.
func (w *world) call(path, tool, arguments string, headers ...string) called {
	w.Helper()
	return w.callMeta(path, tool, arguments, `{}`, headers...)
}

func (w *world) callMeta(path, tool, arguments, meta string, headers ...string) called {
	w.Helper()
	got := w.rpc(path, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":%s}`, tool, arguments, meta), headers...)
	var r struct{ Result *called }
	if err := json.Unmarshal([]byte(got.body), &r); err != nil || got.status != http.StatusOK || r.Result == nil {
		w.Fatalf("%s %s: %d %s", tool, arguments, got.status, got.body)
	}
	return *r.Result
}

// connect opens a session of the stock client of Go.
func (w *world) connect(path, key string, o *sdk.ClientOptions) *sdk.ClientSession {
	w.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o)
	s, err := c.Connect(w.Context(), &sdk.StreamableClientTransport{Endpoint: w.http.URL + path, HTTPClient: &http.Client{Transport: bearer(key)}}, nil)
	w.Must(err)
	w.Cleanup(func() { s.Close() })
	return s
}

// bearer sends a key, unless it is "".
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}
