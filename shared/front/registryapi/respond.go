package registryapi

import (
	"bytes"
	"context"
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

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// handler serves a request or says why not.
type handler func(http.ResponseWriter, *http.Request) error

// methods are the handlers of one path.
type methods map[string]handler

// handlers routes by path, renders what is refused, and logs what failed.
type handlers struct {
	log *slog.Logger
	now func() time.Time
}

// mux makes the handler of routes. Every other path is 404: the reference has
// a dozen placeholders that take anything, keep nothing and answer 200, and
// whoever calls them should learn that nothing was kept.
func (d *handlers) mux(routes map[string]methods) http.Handler {
	mux := http.NewServeMux()
	for path, m := range routes {
		mux.HandleFunc(path, d.route(m))
	}
	mux.HandleFunc("/", d.route(nil))
	return mux
}

func (d *handlers) route(m methods) http.HandlerFunc {
	allowed := make([]string, 0, len(m))
	for name := range m {
		allowed = append(allowed, name)
	}
	slices.Sort(allowed)
	return func(w http.ResponseWriter, r *http.Request) {
		began := d.now()
		err := d.serve(m, strings.Join(allowed, ", "), w, r)
		if err != nil {
			fail(w, err)
		}
		d.line(r, began, err)
	}
}

// serve picks the handler by method. A panic is one failed request: in Lambda
// it would end the process, and with it what others wait for.
func (d *handlers) serve(m methods, allowed string, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = problem.Wrap(problem.Internal, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()), "")
		}
	}()
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet // net/http drops the body
	}
	h, ok := m[method]
	switch {
	case ok:
		return h(w, r)
	case len(m) == 0:
		return problem.New(problem.NotFound, "no such path")
	}
	w.Header().Set("Allow", allowed)
	return problem.New(problem.MethodNotAllowed, "%.20s is not allowed here; use %s", r.Method, allowed)
}

// line logs a request: changes and faults always, a look only where somebody
// looks for it. No query is logged: what people search for is theirs.
func (d *handlers) line(r *http.Request, began time.Time, err error) {
	verdict, level := "ok", slog.LevelInfo
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		level = slog.LevelDebug
	}
	attrs := []slog.Attr{slog.String("method", r.Method), slog.String("path", loggable(r.URL.Path))}
	if err != nil {
		p := problem.Of(err)
		verdict = p.Kind.String()
		if p.Kind.Row().Status >= http.StatusInternalServerError {
			level = slog.LevelError
			attrs = append(attrs, slog.String("cause", p.Error()))
		}
	}
	attrs = append(attrs, slog.String("verdict", verdict),
		slog.Float64("ms", float64(d.now().Sub(began).Microseconds()/10)/100))
	d.log.LogAttrs(context.WithoutCancel(r.Context()), level, "registry", attrs...)
}

// loggable bounds what a stranger writes into the log, where each line of the
// paths that are refused is paid for by the byte. All routes with an id fit.
func loggable(path string) string {
	if len(path) > maxLogged {
		path = strings.ToValidUTF8(path[:maxLogged], "") + "..."
	}
	return path
}

const maxLogged = 120

// fail renders a refusal: {"detail", "code"}, "field" where one input is
// wrong, and both cards of an equivocation.
func fail(w http.ResponseWriter, err error) {
	p := problem.Of(err)
	body := map[string]string{"detail": p.Text(), "code": p.Kind.String()}
	if p.Field != "" {
		body["field"] = p.Field
	}
	var two *registry.EquivocationError
	if errors.As(err, &two) {
		body["card_hash_known"], body["card_hash_sent"] = two.Known.String(), two.Sent.String()
	}
	b, err := encode(body)
	if err != nil {
		b = []byte(`{"code":"internal","detail":"internal error"}`)
	}
	if p.Kind == problem.Unavailable || p.Kind == problem.TooMany {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Cache-Control", "no-store")
	send(w, p.Kind.Row().Status, b)
}

// encode writes JSON as it is, U+2028 and angle brackets included: the answer
// is no page.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, problem.Wrap(problem.Internal, err, "")
	}
	return b.Bytes(), nil
}

func send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // who is gone asks again
}

// answer sends what is not for keeping: the answer to a change, or what only
// its reader may see.
func answer(w http.ResponseWriter, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	send(w, http.StatusOK, b)
	return nil
}

// public sends what everybody gets alike. Caches may keep it, and ask each time
// whether it still holds: a vacant that was unpublished or revoked must be
// gone, or shown as it is, from the next request on.
func public(w http.ResponseWriter, r *http.Request, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	revalidated(w, r, b)
	return nil
}

// revalidated sends bytes that caches keep and ask about each time.
func revalidated(w http.ResponseWriter, r *http.Request, b []byte) {
	etag := `"` + identity.Sum(b).String()[:32] + `"`
	w.Header().Set("ETag", etag)
	w.Header().Set("Cache-Control", "public, no-cache")
	// In Lambda a list comes as several values.
	if matches(strings.Join(r.Header.Values("If-None-Match"), ","), etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	send(w, http.StatusOK, b)
}

func matches(header, etag string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == etag || tag == "*" {
			return true
		}
	}
	return false
}

// bodyTimeout is how long a client may take to send a body.
const bodyTimeout = 10 * time.Second

// readBody takes a JSON body in.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	ct := r.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(ct); err != nil || media != "application/json" {
		return nil, problem.New(problem.UnsupportedMedia, "unsupported content-type %s; expected application/json", clip(ct))
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, problem.New(problem.UnsupportedMedia, "unsupported content-encoding %s; expected none", clip(enc))
	}
	// A slow body holds one connection, not for longer than this. In Lambda the
	// body is whole before the handler runs, and there is no deadline to set.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	limit := canon.DefaultLimits().Bytes
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit)))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, problem.New(problem.TooLarge, "body: expected at most %d bytes", limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, problem.New(problem.SlowBody, "the body did not come within %v", bodyTimeout)
	case err != nil:
		return nil, problem.Wrap(problem.Malformed, err, "the body could not be read")
	}
	return body, nil
}

func clip(s string) string { return fmt.Sprintf("%.80q", strings.ToValidUTF8(s, "\uFFFD")) }
