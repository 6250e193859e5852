package a2a_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/handlers"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/conformance"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// world is a host with one open vacant, echo, and what tests add.
type world struct {
	t      testing.TB
	store  *flaky
	server *serve.Server
	http   *httptest.Server
	echo   vacants.Record
	skip   atomic.Int64 // nanoseconds by which the host's clock is ahead
	config serve.Config
	remembered
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.skip.Load())) }

// remembered is a substrate that answers with everything it is told.
type remembered struct{ turns *atomic.Int64 }

func (m remembered) Infer(_ context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		m.turns.Add(1)
		var said []string
		for _, t := range r.Turns {
			if t.Role == substrate.RoleCaller {
				said = append(said, t.Text)
			}
		}
		if yield(substrate.Text(strings.Join(said, "+")), nil) {
			yield(substrate.FinishStop, nil)
		}
	}
}

// flaky is a store that fails while down.
type flaky struct {
	store.Store
	down atomic.Bool
	lost sync.Map // data of lost turns, by key

	// armed makes the first reading of rows fail after the next row is stored, and the stages are
	// armedToFail, failsNext and zero.
	armed atomic.Int32
}

const (
	armedToFail = 1 + iota
	failsNext
)

func (f *flaky) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	if f.armed.CompareAndSwap(failsNext, 0) {
		return nil, io.ErrUnexpectedEOF
	}
	return f.Store.Rows(ctx, s, from, n, d)
}

func (f *flaky) Commit(ctx context.Context, writes ...store.Write) error {
	if f.down.Load() {
		return store.NotAppliedError(io.ErrUnexpectedEOF)
	}
	err := f.Store.Commit(ctx, writes...)
	for _, w := range writes {
		if _, ok := w.(store.Append); ok && err == nil {
			f.armed.CompareAndSwap(armedToFail, failsNext)
		}
		if put, ok := w.(store.Put); ok && err == nil && strings.HasPrefix(put.Key.Sort, "lost-") {
			f.lost.Store(put.Key, string(put.Data))
		}
	}
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return openWorld(t, true).runs()
}

// openWorld makes a host whose callers are on its machine, or elsewhere.
func openWorld(t testing.TB, own bool, changes ...func(*serve.Config)) *world {
	t.Helper()
	vault, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	must(t, err)
	w := &world{t: t, store: &flaky{Store: memory.New()}, remembered: remembered{&atomic.Int64{}}}
	w.http = httptest.NewUnstartedServer(nil)
	url := "http://" + w.http.Listener.Addr().String()
	c := serve.Config{
		Store: w.store, Vault: vault, AllowLoopback: true, OwnMachine: own, URL: url, Log: slog.New(slog.DiscardHandler), Now: w.now, Rand: rand.Reader,
		Substrates: substrate.Kinds{conformance.Kind: conformance.New, substrate.KindMock: func(string) (substrate.Substrate, error) { return w.remembered, nil }},
	}
	for _, change := range changes {
		change(&c)
	}
	w.config = c
	w.server, err = c.Open()
	must(t, err)
	w.http.Start()
	w.t.Cleanup(w.http.Close)
	w.echo = w.create("echo", "echo")
	return w
}

// runs serves A2A in one process.
func (w *world) runs() *world {
	agents := w.server.OpenA2A()
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan bool)
	go func() { defer close(ended); agents.Run(ctx) }()
	w.http.Config.Handler = serve.Handlers{Message: w.server.MessageHandler(), Plain: agents.Plain, Protocols: handlers.NewProtocols(agents), Account: w.server.AccountHandler(nil), Resource: w.server.ResourceHandler(), MetadataURL: w.server.MetadataURL(), PageJudge: w.server.PageJudge()}.Public()
	first := w.http
	w.t.Cleanup(func() { end(); <-ended; first.Close() })
	return w
}

// web returns the public handler of a process that serves only protocols.
func web(a *serve.A2A) http.Handler {
	return serve.Handlers{Plain: a.Plain, Protocols: handlers.NewProtocols(a)}.Public()
}

// another is another process of the same host.
func (w *world) another() *world {
	w.t.Helper()
	server, err := w.config.Open()
	must(w.t, err)
	other := &world{t: w.t, store: w.store, server: server, echo: w.echo, http: httptest.NewServer(nil), config: w.config}
	return other.runs()
}

func (w *world) create(name, substrate string) vacants.Record {
	w.t.Helper()
	r, err := w.server.Vacants.Create(w.t.Context(), vacants.CreateSpec{Name: name, Capability: "Repeats", Substrate: substrate})
	must(w.t, err)
	return r
}

func (w *world) setPlain(r vacants.Record, to vacants.KeylessAccess) {
	w.t.Helper()
	_, err := w.server.Vacants.Update(w.t.Context(), r.ID, vacants.Changes{KeylessAccess: &to})
	must(w.t, err)
}

// serveAs serves the same host by a server that differs.
func (w *world) serveAs(change func(*http.Server)) {
	w.t.Helper()
	s := httptest.NewUnstartedServer(w.http.Config.Handler)
	change(s.Config)
	s.Start()
	w.t.Cleanup(s.Close)
	w.http = s
}

// mind makes a vacant that remembers and answers with everything it was told.
func (w *world) mind(name string) vacants.Record {
	w.t.Helper()
	r, err := w.server.Vacants.Create(w.t.Context(), vacants.CreateSpec{Name: name, Capability: "Remembers", Agent: &definition.Agent{Provider: substrate.KindMock, Memory: true}})
	must(w.t, err)
	return r
}

// answer is an HTTP answer.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request. A header is NAME: VALUE.
func (w *world) do(method, path, body string, headers ...string) answer {
	w.t.Helper()
	q, err := http.NewRequestWithContext(w.t.Context(), method, w.http.URL+path, strings.NewReader(body))
	must(w.t, err)
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		q.Header.Set(name, value)
	}
	q.Host = q.Header.Get("Host")
	r, err := http.DefaultClient.Do(q)
	must(w.t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	must(w.t, err)
	return answer{r.StatusCode, r.Header, string(b)}
}

// post posts a body from an address. A header is NAME: VALUE.
func (w *world) post(address, path, body string, headers ...string) answer {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), "POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	r.RemoteAddr = net.JoinHostPort(address, "1")
	got := httptest.NewRecorder()
	w.http.Config.Handler.ServeHTTP(got, r)
	return answer{got.Code, got.Header(), got.Body.String()}
}

// rpc calls a method of a vacant and returns the answer.
func (w *world) rpc(path, method, params string, headers ...string) answer {
	w.t.Helper()
	got := w.do("POST", path, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params), headers...)
	got.body = refused(got.body)
	return got
}

// refused is an answer of JSON-RPC, also if it refuses a stream, whose only event it is then.
func refused(body string) string {
	if event, ok := strings.CutPrefix(body, "data: "); ok && strings.Contains(event, `"error":`) {
		return event
	}
	return body
}

// at returns the value at a path of keys and indices in a JSON document, or "" if
// the path leads nowhere.
func at(t testing.TB, body string, path ...any) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	for _, p := range path {
		switch key := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[key]
		case int:
			a, _ := v.([]any)
			if key >= len(a) {
				return ""
			}
			v = a[key]
		}
	}
	if v == nil {
		return ""
	}
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	must(t, err)
	return string(b)
}

// message are the parameters of a 1.0 message. more are members of the message.
func message(text, more string) string {
	return fmt.Sprintf(`{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":%q}]%s}}`, text, more)
}

// signed is a caller with a key.
type signed struct {
	w   *world
	key *identity.Key
}

func (w *world) signer() signed {
	key, err := identity.NewKey(rand.Reader)
	must(w.t, err)
	return signed{w, key}
}

// envelope signs a message with the ids that A2A messages have.
func (s signed) envelope(to identity.ID, seq int64, prev identity.Hash, text, messageID, contextID string) *envelope.Envelope {
	s.w.t.Helper()
	e := &envelope.Envelope{From: s.key.ID(), To: to, Seq: seq, Prev: prev, Time: time.Now().UTC().Truncate(time.Microsecond),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}}
	if messageID != "" {
		e.Payload.MessageID = &messageID
	}
	if contextID != "" {
		e.Payload.ContextID = &contextID
	}
	if _, err := e.Sign(s.w.t.Context(), s.key); err != nil {
		s.w.t.Fatal(err)
	}
	return e
}

// params1 are the parameters of a 1.0 message with an envelope.
func params1(e *envelope.Envelope, more string) string {
	return `{"message":` + message1(e, more) + `}`
}

func message1(e *envelope.Envelope, more string) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"role":"ROLE_USER","parts":[{"text":%s}]`, canon.AppendString(nil, e.Payload.Parts[0]))
	if e.Payload.MessageID != nil {
		fmt.Fprintf(&b, `,"messageId":%q`, *e.Payload.MessageID)
	}
	if e.Payload.ContextID != nil {
		fmt.Fprintf(&b, `,"contextId":%q`, *e.Payload.ContextID)
	}
	fmt.Fprintf(&b, `,"metadata":%s%s}`, envelope.AppendMetadata(nil, e), more)
	return b.String()
}

// frames are the data of the events of a stream, with their ids.
func frames(body string) (all []string) {
	id := ""
	for s := bufio.NewScanner(strings.NewReader(body)); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), "id: "); ok {
			id = v
		}
		if v, ok := strings.CutPrefix(s.Text(), "data: "); ok {
			all = append(all, id+" "+v)
		}
	}
	return all
}
