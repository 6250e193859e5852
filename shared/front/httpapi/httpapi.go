// Package httpapi has the common parts of a host's JSON APIs: routes by method,
// bodies, errors, and the access log.
//
// The invariants: every error is rendered in one form from the table of package
// problem; a handler that panics fails one request and not the process; no query
// of a request reaches the log. The handler of signed calls does not use the
// routes: it serves any path with the right ending (PROTOCOL §6.1).
package httpapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Rendered is an error whose handler has sent its answer, in a form of its own. It is
// logged like others.
type Rendered struct{ Err error }

func (r Rendered) Error() string { return r.Err.Error() }

// Unwrap returns the error.
func (r Rendered) Unwrap() error { return r.Err }

// Handler serves a request, or returns why not.
type Handler func(http.ResponseWriter, *http.Request) error

// Methods are the handlers of one path, by HTTP method. HEAD is served by GET.
type Methods map[string]Handler

// API routes requests and writes one log line for each.
type API struct {
	Name string // message of the log line
	Log  *slog.Logger
	Now  func() time.Time // with nil, the line has no duration
	// ReadLevel is the level of successful GET requests. The zero value is Info.
	ReadLevel slog.Level
}

type metadataKey struct{}

// WithLogin lets Challenge lead clients to a login. metadata returns the URL of the metadata of the
// resource that a request calls (RFC 9728), or "" if the resource accepts no tokens.
func WithLogin(next http.Handler, metadata func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), metadataKey{}, metadata)))
	})
}

// Challenge tells the client of a refused request, in WWW-Authenticate (RFC 6750), which credential
// helps: after a 401, and after a 403 of a credential without a scope. scope is the scope that the
// request needs, or "". All refusals of requests that a key or a token may authorize go through
// Challenge.
func Challenge(w http.ResponseWriter, r *http.Request, err error, scope string) {
	p, challenge := problem.Of(err), `Bearer realm="vacancy"`
	switch {
	case p.Kind == problem.Scope:
		challenge += `, error="insufficient_scope"`
	case p.Kind.Row().Status != http.StatusUnauthorized:
		return
	case r.Header["Authorization"] != nil:
		challenge += `, error="invalid_token"`
	}
	if scope != "" {
		challenge += `, scope="` + scope + `"`
	}
	if metadata, ok := r.Context().Value(metadataKey{}).(func(*http.Request) string); ok {
		if at := metadata(r); at != "" {
			challenge += `, resource_metadata="` + at + `"`
		}
	}
	w.Header().Set("WWW-Authenticate", challenge)
}

// RequestHeader names a request in its answer. The lines of the request in the log have the same id.
const RequestHeader = "X-Request-Id"

// WithRequestIDs gives each request an id, unless it has one in its context.
func WithRequestIDs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := obs.RequestOf(r.Context())
		if id == "" {
			id = rand.Text()
			r = r.WithContext(obs.WithRequest(r.Context(), id))
		}
		w.Header().Set(RequestHeader, id)
		next.ServeHTTP(w, r)
	})
}

type tokensKey struct{}

// WithTokens returns a context with take, which takes tokens of the rate limit of a request's sender.
func WithTokens(ctx context.Context, take func(h http.Header, tokens int) error) context.Context {
	return context.WithValue(ctx, tokensKey{}, take)
}

// TakeTokens takes tokens of the rate limit of a request's sender, besides those that the request
// itself costs. A handler calls it before it runs more than one thing for a request.
func TakeTokens(w http.ResponseWriter, r *http.Request, tokens int) error {
	if take, ok := r.Context().Value(tokensKey{}).(func(http.Header, int) error); ok && tokens > 0 {
		return take(w.Header(), tokens)
	}
	return nil
}

// Mux returns the handler of routes, in the patterns of http.ServeMux. Other
// paths are 404, other methods 405 with Allow.
func (a API) Mux(routes map[string]Methods) http.Handler {
	mux := http.NewServeMux()
	for path, m := range routes {
		mux.HandleFunc(path, a.route(m))
	}
	mux.HandleFunc("/", a.route(nil))
	return mux
}

func (a API) route(m Methods) http.HandlerFunc {
	allowed := make([]string, 0, len(m))
	for name := range m {
		allowed = append(allowed, name)
	}
	slices.Sort(allowed)
	return func(w http.ResponseWriter, r *http.Request) {
		var began time.Time
		if a.Now != nil {
			began = a.Now()
		}
		err := serve(m, allowed, w, r)
		if err != nil && !errors.As(err, new(Rendered)) {
			Fail(w, err)
		}
		a.line(r, began, err)
	}
}

// serve picks the handler by method. In Lambda a panic would end the process,
// and with it the requests of others.
func serve(m Methods, allowed []string, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = problem.Wrap(problem.Internal, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()), "")
		}
	}()
	method := r.Method
	if _, ok := m[method]; !ok && method == http.MethodHead {
		method = http.MethodGet // net/http drops the body
	}
	h, ok := m[method]
	switch {
	case ok:
		return h(w, r)
	case len(m) == 0:
		return problem.New(problem.NotFound, "no such path")
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return problem.New(problem.MethodNotAllowed, "%.20s is not allowed here; use %s", r.Method, strings.Join(allowed, " or "))
}

func (a API) line(r *http.Request, began time.Time, err error) {
	if a.Log == nil {
		return
	}
	verdict, level := "ok", slog.LevelInfo
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		level = a.ReadLevel
	}
	attrs := []slog.Attr{slog.String("method", r.Method[:min(len(r.Method), maxMethod)]), slog.String("path", ClipPath(r.URL.Path))}
	if err != nil {
		p := problem.Of(err)
		verdict = p.Kind.String()
		if status := p.Kind.Row().Status; status >= http.StatusInternalServerError {
			level = slog.LevelError
			attrs = append(attrs, slog.Int(obs.Status, status), slog.String("cause", p.Error()))
		}
	}
	attrs = append(attrs, slog.String(obs.Verdict, verdict))
	if a.Now != nil {
		attrs = append(attrs, obs.Took(a.Now().Sub(began)))
	}
	a.Log.LogAttrs(context.WithoutCancel(r.Context()), level, a.Name, attrs...)
}

// These bound what a client writes into the log, which is billed by the byte. All
// methods fit, and all routes with an id.
const (
	maxPath   = 120
	maxMethod = 10
)

// ClipPath shortens a path that a client sent, for the log.
func ClipPath(path string) string { return obs.Clip(path, maxPath) }

// Refusal is the body of every error.
type Refusal struct {
	Detail string `json:"detail"`
	Code   string `json:"code"`            // word of the problem's kind
	Field  string `json:"field,omitempty"` // the wrong input, if it is one
}

// RefusalOf returns the body of an error.
func RefusalOf(err error) Refusal {
	p := problem.Of(err)
	return Refusal{Detail: p.Text(), Code: p.Kind.String(), Field: p.Field}
}

// Problem returns the error that was rendered as r.
func (r *Refusal) Problem() error {
	p := &problem.Error{Kind: problem.Internal, Field: r.Field, Detail: r.Detail} // a later host may have other codes
	for _, k := range problem.Kinds() {
		if k.String() == r.Code {
			p.Kind = k
		}
	}
	return p
}

// members is implemented by errors that add the members of an object to their body.
type members interface{ Members() any }

// Fail renders an error: the status of its kind, and a Refusal with the members
// that the error adds. It sets Retry-After unless the caller did.
func Fail(w http.ResponseWriter, err error) {
	p := problem.Of(err)
	body, encErr := Encode(RefusalOf(err))
	var more members
	if encErr == nil && errors.As(err, &more) {
		var extra []byte
		if extra, encErr = Encode(more.Members()); encErr == nil {
			body = append(append(bytes.TrimSuffix(body, []byte("}\n")), ','), extra[1:]...)
		}
	}
	if encErr != nil {
		body = []byte(`{"detail":"internal error","code":"internal"}` + "\n")
	}
	Refusing(w.Header(), p)
	Send(w, p.Kind.Row().Status, body)
}

// FailLine renders an error like Fail, as one line of text.
func FailLine(w http.ResponseWriter, err error) {
	p := problem.Of(err)
	Refusing(w.Header(), p)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	line := strings.Join(strings.FieldsFunc(p.Text(), unicode.IsControl), " ")
	Send(w, p.Kind.Row().Status, []byte(line+"\n"))
}

// FailRPC renders an error like Fail, as an error of JSON-RPC, because clients of MCP show nothing
// of another body. A nil id is null. An error may have a code and data of its own, by a method
// RPC.
func FailRPC(w http.ResponseWriter, id json.RawMessage, err error) {
	p := problem.Of(err)
	Refusing(w.Header(), p)
	refusal := RPCRefusalOf(id, p)
	var own interface{ RPC() (code int, data any) }
	if errors.As(err, &own) {
		refusal.Error.Code, refusal.Error.Data = own.RPC()
	}
	body, encErr := Encode(refusal)
	if encErr != nil {
		body = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}` + "\n")
	}
	Send(w, p.Kind.Row().Status, body)
}

// RPCRefusal is an error of JSON-RPC.
type RPCRefusal struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   RPCError        `json:"error"`
}

// RPCError is the member error of an RPCRefusal.
type RPCError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// RPCRefusalOf returns the error of JSON-RPC for p. Its data are the Refusal of p.
func RPCRefusalOf(id json.RawMessage, p *problem.Error) RPCRefusal {
	if id == nil {
		id = json.RawMessage("null")
	}
	return RPCRefusal{"2.0", id, RPCError{RPCCode(p.Kind), p.Text(), RefusalOf(p)}}
}

// RPCCode returns the code of JSON-RPC for an error of HTTP. It is -32000 for errors for which
// JSON-RPC has no code.
func RPCCode(k problem.Kind) int {
	switch k.Row().Status {
	case http.StatusInternalServerError, http.StatusGatewayTimeout:
		return -32603
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return -32600
	}
	return -32000
}

// Refusing sets the headers that every refusal has.
func Refusing(h http.Header, p *problem.Error) {
	if (p.Kind == problem.Unavailable || p.Kind == problem.TooMany) && h.Get("Retry-After") == "" {
		h.Set("Retry-After", "1")
	}
	h.Set("Cache-Control", "no-store")
}

// Encode writes JSON with a final newline. Angle brackets and U+2028 are not
// escaped, because no browser reads the answer as a page.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, problem.Wrap(problem.Internal, err, "")
	}
	return b.Bytes(), nil
}

// Send writes a whole body, as JSON unless Content-Type is set.
func Send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}

// Answer sends v as JSON that no cache keeps.
func Answer(w http.ResponseWriter, status int, v any) error {
	b, err := Encode(v)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	Send(w, status, b)
	return nil
}

// Recorder is a ResponseWriter that stores an answer.
type Recorder struct {
	Status int
	Body   bytes.Buffer
	// TooLarge reports that the body was longer than the limit.
	TooLarge bool
	header   http.Header
	limit    int64
	begun    bool
}

// NewRecorder returns a Recorder for a body of at most limit bytes.
func NewRecorder(limit int64) *Recorder {
	return &Recorder{Status: http.StatusOK, header: http.Header{}, limit: limit}
}

// Header implements http.ResponseWriter.
func (r *Recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *Recorder) WriteHeader(status int) {
	if !r.begun {
		r.begun, r.Status = true, status
	}
}

// Write implements http.ResponseWriter.
func (r *Recorder) Write(b []byte) (int, error) {
	r.begun = true
	if r.TooLarge = r.TooLarge || int64(r.Body.Len()+len(b)) > r.limit; r.TooLarge {
		return 0, fmt.Errorf("more than %d bytes", r.limit)
	}
	return r.Body.Write(b)
}

// bodyTimeout is the time that a client has to send a body.
const bodyTimeout = 10 * time.Second

// Body reads a JSON body of at most limit bytes. It checks the media type, which is
// application/json or one of others, and refuses encoded bodies.
func Body(w http.ResponseWriter, r *http.Request, limit int, others ...string) ([]byte, error) {
	ct := r.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(ct); err != nil || media != "application/json" && !slices.Contains(others, media) {
		return nil, problem.New(problem.UnsupportedMedia, "unsupported content-type %s; expected %s", Clip(ct), strings.Join(append([]string{"application/json"}, others...), " or "))
	}
	return readBody(w, r, limit)
}

// Text reads a body of at most limit bytes as it came, and refuses it unless it is a text in
// UTF-8. A form's media type is a text too, because curl -d names it for every body; it is not
// decoded.
func Text(w http.ResponseWriter, r *http.Request, limit int) (string, error) {
	if ct := r.Header.Get("Content-Type"); ct != "" {
		media, params, err := mime.ParseMediaType(ct)
		isText := strings.HasPrefix(media, "text/") || media == "application/x-www-form-urlencoded" || media == "application/json"
		if charset := strings.ToLower(params["charset"]); err != nil || !isText || charset != "" && charset != "utf-8" && charset != "us-ascii" {
			return "", problem.New(problem.UnsupportedMedia, "unsupported content-type %s; expected text/plain in UTF-8, or what curl -d sends", Clip(ct))
		}
	}
	b, err := readBody(w, r, limit)
	if err != nil {
		return "", err
	}
	text := string(b)
	for at, c := range text {
		if _, size := utf8.DecodeRuneInString(text[at:]); c == utf8.RuneError && size == 1 {
			return "", problem.Invalid("body", "a text in UTF-8", fmt.Sprintf("other bytes at byte %d", at))
		}
	}
	if text == "" {
		return "", problem.Invalid("body", "a text", "none")
	}
	return text, nil
}

// Bytes reads a body of at most limit bytes as it came, whatever its media type.
func Bytes(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	return readBody(w, r, limit)
}

func readBody(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, problem.New(problem.UnsupportedMedia, "unsupported content-encoding %s; expected none", Clip(enc))
	}
	// A slow body holds one connection, not for longer than this. In Lambda the
	// body is complete before the handler runs, and no deadline can be set.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit)))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, problem.New(problem.TooLarge, "body: expected at most %d bytes", large.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, problem.New(problem.SlowBody, "the body did not come within %v", bodyTimeout)
	case err != nil:
		return nil, problem.Wrap(problem.Malformed, err, "the body could not be read")
	}
	return body, nil
}

// Read reads a JSON body of at most limit bytes into v, which canon.Unmarshal takes.
func Read(w http.ResponseWriter, r *http.Request, limit int, v any) error {
	body, err := Body(w, r, limit)
	if err != nil {
		return err
	}
	return canon.Unmarshal(body, v, Limits(limit))
}

// Limits returns the limits of a body of at most some bytes.
func Limits(bytes int) canon.Limits { return canon.Limits{Bytes: bytes, Depth: 32, Keys: 4096} }

// ProtocolLimits returns Limits for a body in a protocol of others, whose details are read
// leniently. In the host's own APIs null may be meant as a change, so it is refused.
func ProtocolLimits(bytes int) canon.Limits {
	l := Limits(bytes)
	l.Lenient = true
	return l
}

// Clip quotes untrusted text for an error, 80 characters at most.
func Clip(s string) string { return fmt.Sprintf("%.80q", strings.ToValidUTF8(s, "\uFFFD")) }
