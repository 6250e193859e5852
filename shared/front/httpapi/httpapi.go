// Package httpapi contains the common parts of a host's JSON APIs: routes by method, bodies, errors
// and the access log. Queries of requests are not logged.
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

// SentError is an error for which a handler has already sent a response.
type SentError struct{ Err error }

func (r SentError) Error() string { return r.Err.Error() }

func (r SentError) Unwrap() error { return r.Err }

// Handler serves a request, or returns an error that has not been sent.
type Handler func(http.ResponseWriter, *http.Request) error

// Methods contains handlers by HTTP method. GET also serves HEAD.
type Methods map[string]Handler

// API routes requests and logs each of them.
type API struct {
	Name string
	Log  *slog.Logger
	Now  func() time.Time
	// ReadLevel is the level of successful GET requests, or of all successful requests if Quiet is
	// true.
	ReadLevel slog.Level
	Quiet     bool
}

type metadataKey struct{}

// WithLoginMetadata makes Challenge tell clients where they can log in. metadata returns the URL of
// the resource's metadata (RFC 9728), or "".
func WithLoginMetadata(next http.Handler, metadata func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), metadataKey{}, metadata)))
	})
}

// Challenge sets WWW-Authenticate (RFC 6750) for a 401, and for a 403 because of a missing scope.
// Routes that accept keys or tokens must call Challenge for each refusal.
func Challenge(w http.ResponseWriter, r *http.Request, err error, scope string) {
	p, challenge := problem.AsError(err), `Bearer realm="vacancy"`
	switch {
	case p.Kind == problem.ScopeRequired:
		challenge += `, error="insufficient_scope"`
	case p.Kind.Forms().HTTPStatus != http.StatusUnauthorized:
		return
	case r.Header["Authorization"] != nil:
		challenge += `, error="invalid_token"`
	}
	if scope != "" {
		challenge += `, scope="` + scope + `"`
	}
	if metadata, ok := r.Context().Value(metadataKey{}).(func(*http.Request) string); ok {
		if url := metadata(r); url != "" {
			challenge += `, resource_metadata="` + url + `"`
		}
	}
	w.Header().Set("WWW-Authenticate", challenge)
}

const RequestHeader = "X-Request-Id"

func WithRequestIDs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := obs.RequestID(r.Context())
		if id == "" {
			id = rand.Text()
			r = r.WithContext(obs.WithRequestID(r.Context(), id))
		}
		w.Header().Set(RequestHeader, id)
		next.ServeHTTP(w, r)
	})
}

type takeTokensKey struct{}

func WithTokens(ctx context.Context, take func(h http.Header, tokens int) error) context.Context {
	return context.WithValue(ctx, takeTokensKey{}, take)
}

// TakeTokens charges the sender's rate limit. A handler must call TakeTokens before it runs more
// than one operation for a request.
func TakeTokens(w http.ResponseWriter, r *http.Request, tokens int) error {
	if take, ok := r.Context().Value(takeTokensKey{}).(func(http.Header, int) error); ok && tokens > 0 {
		return take(w.Header(), tokens)
	}
	return nil
}

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
		var start time.Time
		if a.Now != nil {
			start = a.Now()
		}
		err := serve(m, allowed, w, r)
		if err != nil && !errors.As(err, new(SentError)) {
			Fail(w, err)
		}
		a.logRequest(r, start, err)
	}
}

func serve(m Methods, allowed []string, w http.ResponseWriter, r *http.Request) (err error) {
	// In Lambda, a panic would end the process and its other requests.
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

func (a API) logRequest(r *http.Request, start time.Time, err error) {
	if a.Log == nil {
		return
	}
	outcome, level := "ok", slog.LevelInfo
	if a.Quiet || r.Method == http.MethodGet || r.Method == http.MethodHead {
		level = a.ReadLevel
	}
	attrs := []slog.Attr{slog.String("method", r.Method[:min(len(r.Method), maxLoggedMethod)]), slog.String("path", TruncatePath(r.URL.Path))}
	if err != nil {
		p := problem.AsError(err)
		outcome = p.Kind.String()
		if status := p.Kind.Forms().HTTPStatus; status >= http.StatusInternalServerError {
			level = slog.LevelError
			attrs = append(attrs, slog.Int(obs.AttrStatus, status), slog.String("cause", p.Error()))
		}
	}
	attrs = append(attrs, slog.String(obs.AttrVerdict, outcome))
	if a.Now != nil {
		attrs = append(attrs, obs.DurationAttr(a.Now().Sub(start)))
	}
	a.Log.LogAttrs(context.WithoutCancel(r.Context()), level, a.Name, attrs...)
}

// Limits for client data in the log, which is billed by the byte.
const (
	maxLoggedPath   = 120
	maxLoggedMethod = 10
)

func TruncatePath(path string) string { return obs.Truncate(path, maxLoggedPath) }

// Refusal is the body of every error.
type Refusal struct {
	Detail string `json:"detail"`
	Code   string `json:"code"`
	Field  string `json:"field,omitempty"`
}

func RefusalOf(err error) Refusal {
	p := problem.AsError(err)
	return Refusal{Detail: p.Text(), Code: p.Kind.String(), Field: p.Field}
}

func (r *Refusal) Problem() error {
	// A host of a later version may send unknown codes.
	p := &problem.Error{Kind: problem.Internal, Field: r.Field, Detail: r.Detail}
	for _, k := range problem.Kinds() {
		if k.String() == r.Code {
			p.Kind = k
		}
	}
	return p
}

type memberAdder interface{ Members() any }

// Fail answers with a Refusal and the members that the error adds.
func Fail(w http.ResponseWriter, err error) {
	p := problem.AsError(err)
	body, encErr := Encode(RefusalOf(err))
	var adder memberAdder
	if encErr == nil && errors.As(err, &adder) {
		var extra []byte
		if extra, encErr = Encode(adder.Members()); encErr == nil {
			body = append(append(bytes.TrimSuffix(body, []byte("}\n")), ','), extra[1:]...)
		}
	}
	if encErr != nil {
		body = []byte(`{"detail":"internal error","code":"internal"}` + "\n")
	}
	SetRefusalHeaders(w.Header(), p)
	Send(w, p.Kind.Forms().HTTPStatus, body)
}

func FailLine(w http.ResponseWriter, err error) {
	p := problem.AsError(err)
	SetRefusalHeaders(w.Header(), p)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	line := strings.Join(strings.FieldsFunc(p.Text(), unicode.IsControl), " ")
	Send(w, p.Kind.Forms().HTTPStatus, []byte(line+"\n"))
}

// FailRPC answers with a JSON-RPC error, because MCP clients do not show other bodies.
func FailRPC(w http.ResponseWriter, id json.RawMessage, err error) {
	p := problem.AsError(err)
	SetRefusalHeaders(w.Header(), p)
	refusal := RPCRefusalOf(id, p)
	var custom interface{ RPC() (code int, data any) }
	if errors.As(err, &custom) {
		refusal.Error.Code, refusal.Error.Data = custom.RPC()
	}
	body, encErr := Encode(refusal)
	if encErr != nil {
		body = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}` + "\n")
	}
	Send(w, p.Kind.Forms().HTTPStatus, body)
}

type RPCRefusal struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   RPCError        `json:"error"`
}

type RPCError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func RPCRefusalOf(id json.RawMessage, p *problem.Error) RPCRefusal {
	if id == nil {
		id = json.RawMessage("null")
	}
	return RPCRefusal{"2.0", id, RPCError{RPCCode(p.Kind), p.Text(), RefusalOf(p)}}
}

func RPCCode(k problem.Kind) int {
	switch k.Forms().HTTPStatus {
	case http.StatusInternalServerError, http.StatusGatewayTimeout:
		return -32603
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return -32600
	}
	return -32000
}

func SetRefusalHeaders(h http.Header, p *problem.Error) {
	if (p.Kind == problem.Unavailable || p.Kind == problem.TooManyRequests) && h.Get("Retry-After") == "" {
		h.Set("Retry-After", "1")
	}
	h.Set("Cache-Control", "no-store")
}

// Encode returns v as JSON with a final newline. It does not escape angle brackets, because
// browsers do not read the answer as a page.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, problem.Wrap(problem.Internal, err, "")
	}
	return b.Bytes(), nil
}

func Send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected
}

func SendJSON(w http.ResponseWriter, status int, v any) error {
	b, err := Encode(v)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	Send(w, status, b)
	return nil
}

// Recorder is a ResponseWriter that stores a response.
type Recorder struct {
	Status      int
	Body        bytes.Buffer
	TooLarge    bool
	header      http.Header
	limit       int64
	wroteHeader bool
}

func NewRecorder(limit int64) *Recorder {
	return &Recorder{Status: http.StatusOK, header: http.Header{}, limit: limit}
}

func (r *Recorder) Header() http.Header { return r.header }

func (r *Recorder) WriteHeader(status int) {
	if !r.wroteHeader {
		r.wroteHeader, r.Status = true, status
	}
}

func (r *Recorder) Write(b []byte) (int, error) {
	r.wroteHeader = true
	if r.TooLarge = r.TooLarge || int64(r.Body.Len()+len(b)) > r.limit; r.TooLarge {
		return 0, fmt.Errorf("more than %d bytes", r.limit)
	}
	return r.Body.Write(b)
}

const bodyTimeout = 10 * time.Second

// ReadBody accepts application/json and otherTypes.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int, otherTypes ...string) ([]byte, error) {
	ct := r.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(ct); err != nil || media != "application/json" && !slices.Contains(otherTypes, media) {
		return nil, problem.New(problem.UnsupportedMedia, "unsupported content-type %s; expected %s", QuoteTruncated(ct), strings.Join(append([]string{"application/json"}, otherTypes...), " or "))
	}
	return readLimited(w, r, limit)
}

// ReadText also accepts the media type of a form, which curl -d sends for every body.
func ReadText(w http.ResponseWriter, r *http.Request, limit int) (string, error) {
	if ct := r.Header.Get("Content-Type"); ct != "" {
		media, params, err := mime.ParseMediaType(ct)
		isText := strings.HasPrefix(media, "text/") || media == "application/x-www-form-urlencoded" || media == "application/json"
		if charset := strings.ToLower(params["charset"]); err != nil || !isText || charset != "" && charset != "utf-8" && charset != "us-ascii" {
			return "", problem.New(problem.UnsupportedMedia, "unsupported content-type %s; expected text/plain in UTF-8, or what curl -d sends", QuoteTruncated(ct))
		}
	}
	b, err := readLimited(w, r, limit)
	if err != nil {
		return "", err
	}
	text := string(b)
	for offset, c := range text {
		if _, size := utf8.DecodeRuneInString(text[offset:]); c == utf8.RuneError && size == 1 {
			return "", problem.Invalid("body", "a text in UTF-8", fmt.Sprintf("other bytes at byte %d", offset))
		}
	}
	if text == "" {
		return "", problem.Invalid("body", "a text", "none")
	}
	return text, nil
}

func ReadBytes(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	return readLimited(w, r, limit)
}

func readLimited(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, problem.New(problem.UnsupportedMedia, "unsupported content-encoding %s; expected none", QuoteTruncated(enc))
	}
	// The deadline limits how long a slow client occupies its connection. In Lambda, setting a
	// deadline fails.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit)))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, problem.New(problem.TooLarge, "body: expected at most %d bytes", large.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, problem.New(problem.SlowBody, "the body was not received within %v", bodyTimeout)
	case err != nil:
		return nil, problem.Wrap(problem.Malformed, err, "the body could not be read")
	}
	return body, nil
}

func ReadJSON(w http.ResponseWriter, r *http.Request, limit int, v any) error {
	body, err := ReadBody(w, r, limit)
	if err != nil {
		return err
	}
	return canon.Unmarshal(body, v, Limits(limit))
}

func Limits(bytes int) canon.Limits { return canon.Limits{Bytes: bytes, Depth: 32, Keys: 4096} }

// ProtocolLimits returns Limits for a body in a protocol that others define, for example MCP: null
// counts as an absent member.
func ProtocolLimits(bytes int) canon.Limits {
	l := Limits(bytes)
	l.Lenient = true
	return l
}

func QuoteTruncated(s string) string { return fmt.Sprintf("%.80q", strings.ToValidUTF8(s, "\uFFFD")) }
