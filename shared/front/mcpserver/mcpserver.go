// Package mcpserver serves vacants, and the host itself, to MCP clients: Streamable HTTP without sessions, of
// the revisions from 2024-11-05 to 2026-07-28 at one URL.
//
// It translates: a question goes through the pipeline as a text does (front/plain), by the library of
// MCP. The invariants: what the library does not check, this package checks before it: size,
// batches, versions, Accept, the site of a page, the credential. Each refusal by HTTP has an error of
// JSON-RPC as its body. An unknown vacant and a closed child get the same answer, byte for byte.
// Listing tools needs no credential.
package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Config holds the handler's dependencies.
type Config struct {
	Agents *plain.Service
	// Card returns the signed agent card of a vacant of the host with a base URL.
	Card func(ctx context.Context, v *vacants.Record, base string) ([]byte, error)
	// Search serves the registry's search of vacants (registryapi.Search), for the host's server. With
	// nil, there is no such server.
	Search http.Handler
	// Published reports whether a vacant is published; required with Search.
	Published func(context.Context, identity.ID) (bool, error)
	// Receipts serves receipts below call.ReceiptsPath, or is nil.
	Receipts http.Handler
	// Version is the version of Vacancy, or "".
	Version string
	// AnswerTime is the time after which a question is answered by its task. The default is
	// mcptool.AnswerTime.
	AnswerTime time.Duration
}

// Handler returns the handler of all paths of MCP (message.IsMCP).
func Handler(c Config) http.Handler {
	c.AnswerTime = cmp.Or(c.AnswerTime, mcptool.AnswerTime)
	d := &api{Config: c, servers: map[mcptool.About]*sdk.Server{}}
	d.registry = newRegistry(c.Search)
	options := sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxBody,
		// A proxy on this machine forwards other names. A host for its own machine checks Host itself.
		DisableLocalhostProtection: true,
	}
	d.whole = sdk.NewStreamableHTTPHandler(serverOf, &options)
	options.JSONResponse = false
	d.streams = sdk.NewStreamableHTTPHandler(serverOf, &options)
	return d
}

type api struct {
	Config
	whole, streams http.Handler // answers in JSON, and as server-sent events
	registry       *registry

	mu      sync.Mutex
	servers map[mcptool.About]*sdk.Server
}

// request is one request of HTTP.
type request struct {
	http.ResponseWriter
	*http.Request
	began  time.Time
	sender plain.Sender
	posted posted

	server *sdk.Server
	agent  mcptool.Agent // at a vacant's address
	host   mcptool.Host  // at the host's

	verdict atomic.Pointer[problem.Error] // of a tool, for the log
	fault   atomic.Pointer[problem.Error] // of the host, in a tool
	asked   atomic.Bool                   // a tool began a call, which has a row of its own
}

type requestKey struct{}

func requestOf(ctx context.Context) *request { return ctx.Value(requestKey{}).(*request) }

// serverOf returns the server that ServeHTTP has found. The library asks twice for each request.
func serverOf(r *http.Request) *sdk.Server { return requestOf(r.Context()).server }

// ServeHTTP serves one request.
func (d *api) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	r := &request{ResponseWriter: w, Request: hr, began: d.Agents.Now()}
	defer func() {
		if cause := recover(); cause != nil {
			d.refuse(r, problem.Wrap(problem.Internal, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()), ""))
		}
	}()
	if err := d.route(r); err != nil {
		d.refuse(r, err)
	}
}

// notFound is the answer for everything that this host does not serve by MCP.
func notFound() error {
	return problem.New(problem.NotFound, "no such server; an agent's is /v/NAME%s, the host's is %s", message.MCPPath, message.MCPPath)
}

// route finds the server of a path, and serves the request.
func (d *api) route(r *request) error {
	name, rest, below := message.Split(r.URL.Path)
	rest = strings.TrimSuffix(rest, "/")
	isCard := rest == message.MCPPath+cardPath
	if rest != message.MCPPath && !isCard || !below && d.Search == nil {
		return notFound()
	}
	payer, err := d.Agents.Payer(r.Request)
	if err != nil {
		return err
	}
	r.sender = plain.Sender{Address: caller.Origin(r.RemoteAddr), Payer: payer}
	var about mcptool.About
	if below {
		c, err := d.Agents.Open(r.Context(), r.sender, name)
		if problem.Is(err, problem.NotFound) {
			return notFound()
		}
		if err != nil {
			return err
		}
		about, r.agent = d.aboutVacant(c), &agent{c, d, r}
	} else {
		about, r.host = d.aboutHost(), &host{api: d, r: r}
	}
	if isCard {
		return d.serverCard(r, about)
	}
	return d.serve(r, about)
}

// serve serves the address of a server.
func (d *api) serve(r *request, about mcptool.About) error {
	switch r.Method {
	case http.MethodPost:
	case http.MethodOptions:
		// No header lets a page of another site go on.
		r.Header().Set("Allow", "OPTIONS, POST")
		r.WriteHeader(http.StatusNoContent)
		d.log(r, "ok", http.StatusNoContent, nil)
		return nil
	default:
		r.Header().Set("Allow", "OPTIONS, POST")
		return problem.New(problem.MethodNotAllowed, "%.20s is not allowed here; use POST", r.Method)
	}
	body, err := httpapi.Body(r.ResponseWriter, r.Request, maxBody)
	if err != nil {
		return err
	}
	_ = http.NewResponseController(r.ResponseWriter).SetReadDeadline(time.Time{}) // an answer may take longer
	if r.posted, err = parse(r.Request.Header, body); err != nil {
		return err
	}
	if err := httpapi.TakeTokens(r.ResponseWriter, r.Request, len(r.posted.messages)-1); err != nil {
		return err
	}
	body, unknown := r.posted.forLibrary()
	if body == nil {
		return d.withoutLibrary(r, unknown)
	}
	r.server = d.server(about)
	body, r.posted.ids = mcptool.ReplaceIDs(body)
	r.setBody(body)
	r.Request.Header.Set("Accept", mediaJSON+", "+mediaEvents) // the library answers no other Accept
	w := &writer{request: r, unknown: unknown}
	if !r.posted.streams() {
		ctx := context.WithValue(r.Context(), requestKey{}, r)
		d.whole.ServeHTTP(w, r.Request.WithContext(ctx))
		return d.served(w)
	}
	ctx := mcptool.WithStream(context.WithValue(r.Context(), requestKey{}, r), r.posted.token())
	// A request at the host's server has no vacant.
	of := &plain.Caller{Sender: r.sender}
	if a, ok := r.agent.(*agent); ok {
		of = a.Caller
	}
	err = d.Agents.Streams.Hold(of, func() error {
		c := http.NewResponseController(r.ResponseWriter)
		_ = c.SetWriteDeadline(time.Now().Add(d.AnswerTime + writeTime))
		d.streams.ServeHTTP(w, r.Request.WithContext(ctx))
		return nil
	})
	if err != nil {
		return err
	}
	return d.served(w)
}

// served ends a request that the library answered. The error is the lack of a credential, of which
// nothing is sent yet.
func (d *api) served(w *writer) error {
	if w.lack != nil {
		w.Header().Del("Content-Type") // of the stream that does not begin
		return w.lack
	}
	w.end()
	d.logServed(w.request, w.status)
	return nil
}

// writeTime is the time that a client has to read the end of a stream.
const writeTime = 20 * time.Second

// server returns the server for a description, which is kept: to make one takes a fifth of the time of
// a request.
func (d *api) server(about mcptool.About) *sdk.Server {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.servers[about]; s != nil {
		return s
	}
	if len(d.servers) >= maxServers {
		clear(d.servers)
	}
	s := d.newServer(about)
	d.servers[about] = s
	return s
}

// maxServers bounds the servers that are kept. One takes 20 KB.
const maxServers = 256

// refuse answers a request that reaches no tool.
func (d *api) refuse(r *request, err error) {
	p := problem.Of(err)
	httpapi.Challenge(r.ResponseWriter, r.Request, err, string(billing.ScopeCall))
	if p.Kind == problem.BudgetSpent {
		r.Header().Set("Retry-After", strconv.Itoa(message.SecondsUntilMidnightUTC(d.Agents.Now())))
	}
	plain.SetRetryAfter(r.Header(), err)
	httpapi.FailRPC(r.ResponseWriter, r.posted.id(), err)
	d.log(r, p.Kind.String(), p.Kind.Row().Status, p)
}

// Header returns the headers of the answer.
func (r *request) Header() http.Header { return r.ResponseWriter.Header() }

// withoutLibrary answers a body without a request for the library. A body without any request is
// accepted.
func (d *api) withoutLibrary(r *request, unknown []httpapi.RPCRefusal) error {
	if unknown == nil {
		r.WriteHeader(http.StatusAccepted)
		d.log(r, "ok", http.StatusAccepted, nil)
		return nil
	}
	status := http.StatusOK
	switch {
	case r.posted.version == modern:
		status = http.StatusNotFound
	case r.posted.streams():
		r.Header().Set("Content-Type", mediaEvents)
	}
	httpapi.Send(r.ResponseWriter, status, r.posted.encode(unknown))
	d.log(r, "method_not_found", status, nil)
	return nil
}

// logServed writes the line of a request that the library answered.
func (d *api) logServed(r *request, status int) {
	verdict := "ok"
	p := r.verdict.Load()
	switch {
	case p != nil:
		verdict = p.Kind.String()
	case status >= http.StatusBadRequest:
		verdict = "refused"
	}
	if f := r.fault.Load(); f != nil {
		p = f
		verdict = f.Kind.String()
	}
	d.log(r, verdict, status, p)
}

// Limits for texts in log lines, in bytes of JSON.
const (
	maxPath  = 90
	maxCause = 180
)

// log writes the line of a request.
func (d *api) log(r *request, verdict string, status int, cause *problem.Error) {
	ctx := context.WithoutCancel(r.Context())
	level := slog.LevelInfo
	switch {
	case r.asked.Load():
		level, cause = obs.QuietLevel(ctx), nil
	case r.Method != http.MethodPost && cause == nil:
		level = slog.LevelDebug
	}
	if !d.Agents.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("path", obs.Clip(r.URL.Path, maxPath))}
	if what := r.posted.what(); what != "" {
		attrs = append(attrs, slog.String(obs.Operation, what))
	}
	if status >= http.StatusInternalServerError && cause != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.String("cause", obs.Clip(cause.Error(), maxCause)))
	}
	attrs = append(attrs, slog.String(obs.Verdict, verdict), slog.Int(obs.Status, status), obs.Took(d.Agents.Now().Sub(r.began)))
	d.Agents.Log.LogAttrs(ctx, level, "mcp", attrs...)
}

// writer gives answers of the library the form of this package's: errors in text get the body of
// JSON-RPC, and a fault in a tool gets its status.
type writer struct {
	*request
	unknown []httpapi.RPCRefusal // errors that the answer of the library lacks
	status  int
	text    []byte // of an error that the library wrote in text
	isText  bool
	lack    *problem.Error // of a credential; the library's answer is dropped
}

func (w *writer) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	h := w.Header()
	if w.isText = status >= http.StatusBadRequest && strings.HasPrefix(h.Get("Content-Type"), "text/plain"); w.isText {
		return
	}
	if f := w.fault.Load(); f != nil && status == http.StatusOK && !w.posted.batch {
		if f.Kind == problem.Unauthorized { // before the first piece of a stream, too
			w.lack = f
			return
		}
		if !w.posted.streams() {
			w.status = f.Kind.Row().Status
			if f.Kind == problem.Unavailable {
				h.Set("Retry-After", "1")
			}
		}
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.ResponseWriter.WriteHeader(w.status)
}

func (w *writer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.lack != nil {
		return len(b), nil
	}
	if w.isText {
		w.text = append(w.text, b[:min(len(b), maxText-len(w.text))]...)
		return len(b), nil
	}
	// The library writes a whole answer, or a whole event.
	before, data, isEvent := bytes.Cut(b, []byte("data: "))
	if !isEvent || !w.posted.streams() {
		before, data = nil, b
	} else {
		before = b[:len(before)+len("data: ")]
	}
	message := bytes.TrimRight(data, "\n")
	whole := slices.Concat(before, mcptool.RestoreIDs(message, w.posted.ids), data[len(message):])
	if w.unknown != nil && w.status == http.StatusOK {
		first := w.posted.encode(w.unknown)
		if w.unknown = nil; w.posted.streams() {
			whole = append(first, whole...)
		} else { // two lists
			whole = append(append(bytes.TrimSuffix(first, []byte("]")), ','), whole[1:]...)
		}
	}
	_, err := w.ResponseWriter.Write(whole)
	return len(b), err
}

// maxText bounds the text of an error of the library.
const maxText = 400

// Flush implements http.Flusher, for streams.
func (w *writer) Flush() {
	if w.lack == nil {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// end sends an error that came as text.
func (w *writer) end() {
	if !w.isText {
		return
	}
	text := strings.TrimSpace(strings.ToValidUTF8(string(w.text), "\uFFFD"))
	body, _ := httpapi.Encode(httpapi.RPCRefusal{Version: "2.0", ID: w.posted.id(), Error: httpapi.RPCError{Code: codeInvalid, Message: text}}) // texts encode
	w.Header().Del("Content-Type")
	w.Header().Del("Content-Length")
	w.Header().Set("Cache-Control", "no-store")
	httpapi.Send(w.ResponseWriter, w.status, body)
}

// note keeps an error of a tool for the log, and a fault for the status.
func (r *request) note(err error) error {
	if err == nil {
		return nil
	}
	p := problem.Of(err)
	r.verdict.Store(p)
	if mcptool.IsFault(err) {
		r.fault.Store(p)
	}
	return err
}

// nullID is the id of an answer to a request without one.
var nullID = json.RawMessage("null")
