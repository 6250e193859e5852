// Package mcpserver serves vacants and the host itself to MCP clients over Streamable HTTP without
// sessions.
//
// The package uses an MCP library, and passes questions to front/plain, as the other protocols do.
// Before it calls the library, it makes the checks that the library lacks: size, batches, versions,
// the Accept header, the site of a page, and the credential. The body of each HTTP refusal is a
// JSON-RPC error.
//
// A request for an unknown vacant and a request for a closed child (which answers only its
// relatives) get the same answer, byte for byte. Listing tools requires no credential.
package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/team"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Config struct {
	Plain *plain.Service
	// Card returns the signed agent card of a vacant.
	Card func(ctx context.Context, v *vacants.Record, base string) ([]byte, error)
	// Search serves the registry's search of vacants. If Search is nil, the host has no MCP server
	// of its own.
	Search http.Handler
	// IsPublished is required if Search is set.
	IsPublished func(context.Context, identity.ID) (bool, error)
	// Team may be nil. The host's server then has no team tools.
	Team *team.Team
	// Receipts may be nil. Vacants then have no receipt resources.
	Receipts http.Handler
	Owners   OwnerConfig
	// Version is the version of Vacancy. The default is "0".
	Version string
	// AnswerTime limits how long a question waits for its answer. The default is
	// mcptool.AskTimeout.
	AnswerTime time.Duration
}

func Handler(c Config) func(*plain.Exchange) error {
	c.AnswerTime, c.Version = cmp.Or(c.AnswerTime, mcptool.AskTimeout), cmp.Or(c.Version, "0")
	d := &api{Config: c, servers: map[mcptool.ServerConfig]*sdk.Server{}}
	d.registry = newRegistry(c.Search)
	options := sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: int64(maxBodyBytes),
		// The library would refuse requests that a proxy on the same machine forwards with another
		// Host header. A host that serves only its own machine checks Host itself.
		DisableLocalhostProtection: true,
	}
	d.jsonHandler = sdk.NewStreamableHTTPHandler(serverOf, &options)
	options.JSONResponse = false
	d.streamHandler = sdk.NewStreamableHTTPHandler(serverOf, &options)
	return d.serve
}

type api struct {
	Config
	jsonHandler, streamHandler http.Handler
	registry                   registry

	mu      sync.Mutex
	servers map[mcptool.ServerConfig]*sdk.Server
}

// request is the state of one HTTP request.
type request struct {
	*plain.Exchange
	postBody postedBody

	server *sdk.Server
	agent  mcptool.Agent // set if the request names a vacant
	host   mcptool.Host  // set if the request is for the host

	key        *billing.Key // nil for a guest or the operator
	isOperator bool

	lastError    atomic.Pointer[problem.Error]
	lastFault    atomic.Pointer[problem.Error] // last tool error that the host caused
	hasBegunCall atomic.Bool                   // a tool began a call, which has its own log line
}

type requestKey struct{}

func requestOf(ctx context.Context) *request { return ctx.Value(requestKey{}).(*request) }

// serverOf returns the server that api.serve chose for the request.
func serverOf(r *http.Request) *sdk.Server { return requestOf(r.Context()).server }

// newNotFoundError returns the same refusal for all paths and vacants that this host does not
// serve.
func newNotFoundError() error {
	return problem.New(problem.NotFound, "no such server; an agent's server is at /v/NAME%s, the host's server is at %s", message.MCPPath, message.MCPPath)
}

func (d *api) serve(x *plain.Exchange) error {
	r := &request{Exchange: x}
	x.Refuse = func(w http.ResponseWriter, err error) {
		x.Line.HasOwnCallLines = r.hasBegunCall.Load()
		httpapi.FailRPC(w, r.postBody.id(), err)
	}
	name, _, isVacant := message.SplitPath(r.URL.Path)
	isCard := r.SubPath == message.MCPPath+cardPath
	if r.SubPath != message.MCPPath && !isCard || !isVacant && d.Search == nil {
		return newNotFoundError()
	}
	if err := d.identifySender(r, isVacant); err != nil {
		return err
	}
	var config mcptool.ServerConfig
	if isVacant {
		if err := r.OpenVacant(name); problem.Is(err, problem.NotFound) {
			return newNotFoundError()
		} else if err != nil {
			return err
		}
		r.agent = &agent{&r.Caller, d, r}
		config = mcptool.ServerConfig{
			Name: r.Vacant.Name, Instructions: r.Vacant.Capability, Version: d.Version, OnlySigned: r.CheckKeylessAccess() != nil,
			InputMediaTypes: strings.Join(r.Vacant.Input, ","), VacantID: r.Vacant.ID,
		}
	} else {
		r.host = &host{api: d, req: r}
		config = mcptool.ServerConfig{Name: "vacancy", Version: d.Version, Instructions: "Finds agents that are published on this host, and asks them. Begin with search_agents, then ask an agent with ask_agent."}
	}
	if err := d.selectTools(r, &config); err != nil {
		return err
	}
	if config.HasTeamTools {
		config.Instructions += mcptool.TeamInstructions
	}
	if isCard {
		return d.serveCard(r, config)
	}
	switch r.Method {
	case http.MethodPost:
	case http.MethodOptions:
		// The answer has no CORS headers, so a page of another site cannot continue.
		r.Header().Set("Allow", "OPTIONS, POST")
		r.WriteHeader(http.StatusNoContent)
		return nil
	default:
		r.Header().Set("Allow", "OPTIONS, POST")
		return problem.New(problem.MethodNotAllowed, "%.20s is not allowed here; use POST", r.Method)
	}
	body, err := httpapi.ReadBody(r.ResponseWriter, r.Request, maxBodyBytes)
	if err != nil {
		return err
	}
	r.ClearReadDeadline()
	r.postBody, err = parsePost(r.Request.Header, body)
	if r.Line.Operation = r.postBody.logName(); err != nil {
		return err
	}
	if err := httpapi.TakeTokens(r.ResponseWriter, r.Request, len(r.postBody.messages)-1); err != nil {
		return err
	}
	body, refusals := r.postBody.splitForLibrary()
	if body == nil {
		if refusals == nil {
			r.WriteHeader(http.StatusAccepted)
			return nil
		}
		status := http.StatusOK
		switch {
		case r.postBody.version == latestVersion:
			status = http.StatusNotFound
		case r.postBody.usesStream():
			r.Header().Set("Content-Type", mediaEvents)
		}
		httpapi.Send(r.ResponseWriter, status, r.postBody.encodeErrors(refusals))
		r.Log("method_not_found", status, nil)
		return nil
	}
	r.server = d.cachedServer(config)
	body, r.postBody.originalIDs = mcptool.ReplaceIDs(body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	// The library requires both media types.
	r.Request.Header.Set("Accept", mediaJSON+", "+mediaEvents)
	w := &responseWriter{request: r, extraErrors: refusals}
	ctx := context.WithValue(r.Context(), requestKey{}, r)
	if r.postBody.usesStream() {
		ctx = mcptool.WithProgressToken(ctx, r.postBody.progressToken())
		err = d.Plain.Streams.Run(&r.Caller, func() error {
			c := http.NewResponseController(r.ResponseWriter)
			_ = c.SetWriteDeadline(time.Now().Add(d.AnswerTime + streamWriteTimeout))
			d.streamHandler.ServeHTTP(w, r.Request.WithContext(ctx))
			return nil
		})
		if err != nil {
			return err
		}
	} else {
		d.jsonHandler.ServeHTTP(w, r.Request.WithContext(ctx))
	}
	if w.credentialError != nil { // the response is still empty
		w.Header().Del("Content-Type") // the library has set the media type of a stream
		return w.credentialError
	}
	if w.isText {
		text := strings.TrimSpace(strings.ToValidUTF8(string(w.errorText), "\uFFFD"))
		// Strings always encode.
		body, _ := httpapi.Encode(httpapi.RPCRefusal{Version: "2.0", ID: w.postBody.id(), Error: httpapi.RPCError{Code: codeInvalidRequest, Message: text}})
		w.Header().Del("Content-Type")
		w.Header().Del("Content-Length")
		w.Header().Set("Cache-Control", "no-store")
		httpapi.Send(w.ResponseWriter, w.status, body)
	}
	w.Line.HasOwnCallLines = w.hasBegunCall.Load()
	if p := cmp.Or(w.lastFault.Load(), w.lastError.Load()); p != nil {
		var cause error
		if w.status >= http.StatusInternalServerError {
			cause = p
		}
		w.Log(p.Kind.String(), w.status, cause)
	}
	return nil
}

// streamWriteTimeout limits the time in which a client must read the end of a stream.
const streamWriteTimeout = 20 * time.Second

// cachedServer caches servers, because creating one takes a fifth of the time of a request.
func (d *api) cachedServer(config mcptool.ServerConfig) *sdk.Server {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.servers[config]; s != nil {
		return s
	}
	if len(d.servers) >= maxCachedServers {
		clear(d.servers)
	}
	s := d.newServer(config)
	d.servers[config] = s
	return s
}

// maxCachedServers limits the cached servers. A server takes 20 KB.
const maxCachedServers = 256

func (r *request) Header() http.Header { return r.ResponseWriter.Header() }

// responseWriter converts the library's responses: it wraps plain-text errors in JSON-RPC errors,
// and sets the HTTP status of a fault in a tool.
type responseWriter struct {
	*request
	extraErrors     []httpapi.RPCRefusal // errors to add to the library's answer
	status          int
	errorText       []byte // error that the library wrote as plain text
	isText          bool
	credentialError *problem.Error // a credential is missing; the library's answer is dropped
}

func (w *responseWriter) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	h := w.Header()
	if w.isText = status >= http.StatusBadRequest && strings.HasPrefix(h.Get("Content-Type"), "text/plain"); w.isText {
		return
	}
	if f := w.lastFault.Load(); f != nil && status == http.StatusOK && !w.postBody.isBatch {
		if f.Kind == problem.Unauthorized {
			w.credentialError = f
			return
		}
		if !w.postBody.usesStream() {
			w.status = f.Kind.Forms().HTTPStatus
			if f.Kind == problem.Unavailable {
				h.Set("Retry-After", "1")
			}
		}
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.ResponseWriter.WriteHeader(w.status)
}

func (w *responseWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.credentialError != nil {
		return len(b), nil
	}
	if w.isText {
		w.errorText = append(w.errorText, b[:min(len(b), maxErrorText-len(w.errorText))]...)
		return len(b), nil
	}
	// Each call of the library writes a complete answer or a complete event.
	prefix, data, isEvent := bytes.Cut(b, []byte("data: "))
	if !isEvent || !w.postBody.usesStream() {
		prefix, data = nil, b
	} else {
		prefix = b[:len(prefix)+len("data: ")]
	}
	message := bytes.TrimRight(data, "\n")
	output := slices.Concat(prefix, mcptool.RestoreIDs(message, w.postBody.originalIDs), data[len(message):])
	if w.extraErrors != nil && w.status == http.StatusOK {
		refusals := w.postBody.encodeErrors(w.extraErrors)
		if w.extraErrors = nil; w.postBody.usesStream() {
			output = append(refusals, output...)
		} else { // both are lists
			output = append(append(bytes.TrimSuffix(refusals, []byte("]")), ','), output[1:]...)
		}
	}
	_, err := w.ResponseWriter.Write(output)
	return len(b), err
}

const maxErrorText = 400

func (w *responseWriter) Flush() {
	if w.credentialError == nil {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// recordError records an error of a tool for the log, and returns it. A fault (mcptool.IsFault)
// also determines the HTTP status.
func (r *request) recordError(err error) error {
	if err == nil {
		return nil
	}
	p := problem.AsError(err)
	r.lastError.Store(p)
	if mcptool.IsFault(err) {
		r.lastFault.Store(p)
	}
	return err
}

var nullID = json.RawMessage("null")
