// Package message is the door of signed calls: message/send, chain/reset,
// message/ask, and the card and health pages beside them (wire §6, §9).
//
// It translates HTTP to host/call and back and decides nothing itself. The
// invariants: a body is read at most once and at most 256 KiB of it; whatever
// is malformed is a 4xx with a detail, never a 500; no secret and no text of a
// message reaches the log.
package message

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The paths that end a call, a reset and an ask. Anything may stand before
// them: reference callers append them to whatever an endpoint says (wire §23
// C4).
const (
	SendPath  = "/a2a/message/send"
	ResetPath = "/a2a/chain/reset"
	AskPath   = "/a2a/message/ask"
)

// DefaultBodyTimeout is how long a client may take to send a body.
const DefaultBodyTimeout = 10 * time.Second

// Config is what the door needs. Without a Directory there are no card and
// health pages.
type Config struct {
	Host      *call.Host
	Directory Directory
	Log       *slog.Logger
	Now       func() time.Time
	// BodyTimeout bounds a slow body; 0 means DefaultBodyTimeout.
	BodyTimeout time.Duration
}

// Handler returns the door. Every path that is not its own is 404.
func Handler(c Config) http.Handler {
	if c.BodyTimeout == 0 {
		c.BodyTimeout = DefaultBodyTimeout
	}
	d := &door{c}
	mux := http.NewServeMux()
	if c.Directory != nil {
		mux.HandleFunc("GET /card", d.sole(d.card))
		mux.HandleFunc("GET /health", d.sole(d.health))
		mux.HandleFunc("GET /v/{id}/card", d.named(d.card))
		mux.HandleFunc("GET /v/{id}/health", d.named(d.health))
	}
	mux.HandleFunc("/", d.post)
	return mux
}

type door struct{ Config }

// post routes by the end of the path; what stands before it matters only if it
// is /v/{id}.
func (d *door) post(w http.ResponseWriter, r *http.Request) {
	var serve func(http.ResponseWriter, *http.Request, identity.ID)
	switch path := r.URL.Path; {
	case path == "/" || strings.HasSuffix(path, SendPath):
		serve = d.send
	case strings.HasSuffix(path, ResetPath):
		serve = d.reset
	case strings.HasSuffix(path, AskPath):
		serve = d.ask
	default:
		fail(w, problem.New(problem.NotFound, "no such path; a call is POST …%s", SendPath))
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		fail(w, problem.New(problem.MethodNotAllowed, "%s is not allowed here; use POST", r.Method))
		return
	}
	serve(w, r, route(r.URL.Path))
}

// route is the vacant that the path names, zero for the host route.
func route(path string) identity.ID {
	rest, ok := strings.CutPrefix(path, "/v/")
	if !ok {
		return identity.ID{}
	}
	name, _, _ := strings.Cut(rest, "/")
	id, err := identity.ParseID(name)
	if err != nil {
		return identity.ID{}
	}
	return id
}

func (d *door) send(w http.ResponseWriter, r *http.Request, route identity.ID) {
	began := d.Now()
	req, err := d.read(w, r, envelope.DecodeRequest)
	if err != nil {
		d.refuse(w, r, began, err)
		return
	}
	o := d.Host.Send(r.Context(), route, &req.Envelope)
	if o.Problem == nil {
		write(w, http.StatusOK, envelope.AppendResponse(nil, req.ID, o.Reply))
	} else {
		outcome(w, &o, appendDetail(nil, o.Problem))
	}
	d.log(r, "send", began, &req.Envelope, &o)
}

func (d *door) ask(w http.ResponseWriter, r *http.Request, route identity.ID) {
	began := d.Now()
	req, err := d.read(w, r, envelope.DecodeRequest)
	if err != nil {
		d.refuse(w, r, began, err)
		return
	}
	o := d.Host.Ask(r.Context(), route, &req.Envelope)
	if o.Problem == nil {
		outcome(w, &o, nil)
	} else {
		outcome(w, &o, appendDetail(nil, o.Problem))
	}
	d.log(r, "ask", began, &req.Envelope, &o)
}

func (d *door) reset(w http.ResponseWriter, r *http.Request, route identity.ID) {
	began := d.Now()
	req, err := d.read(w, r, envelope.DecodeResetRequest)
	if err != nil {
		p := problem.Of(err)
		if p.Kind == problem.Malformed || p.Kind == problem.NotJSON {
			p = problem.Wrap(problem.Malformed, p.Err, "bad_envelope: %s", p.Text())
		}
		write(w, p.Kind.Row().Status, append(appendResetError(nil, p), '}'))
		d.line(r, "reset", began, p.Kind.Row().Status, p)
		return
	}
	o := d.Host.Reset(r.Context(), route, &req.Envelope)
	if o.Problem == nil {
		b := append([]byte(`{"ok":true,"reset_for_peer":"`), req.Envelope.From.String()...)
		b = append(b, `","reset_at":"`...)
		b = append(canon.AppendTime(b, o.ResetAt), `"}`...)
		write(w, http.StatusOK, b)
	} else {
		outcome(w, &o, appendResetError(nil, o.Problem))
	}
	d.log(r, "reset", began, &req.Envelope, &o)
}

func (d *door) refuse(w http.ResponseWriter, r *http.Request, began time.Time, err error) {
	p := problem.Of(err)
	fail(w, p)
	d.line(r, "refused", began, p.Kind.Row().Status, p)
}

// read takes the body in, checks what is said of it, and decodes it.
func (d *door) read(w http.ResponseWriter, r *http.Request, decode func([]byte) (envelope.Request, error)) (envelope.Request, error) {
	limit := canon.DefaultLimits().Bytes
	if ct := r.Header.Get("Content-Type"); !isJSON(ct) {
		return envelope.Request{}, problem.New(problem.UnsupportedMedia, "unsupported content-type '%.80s'; expected application/json", ct)
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return envelope.Request{}, problem.New(problem.UnsupportedMedia, "unsupported content-encoding '%.80s'; expected none", enc)
	}
	if r.ContentLength > int64(limit) {
		return envelope.Request{}, tooLarge(limit)
	}
	// A slow body holds one connection, not for longer than this. In Lambda the
	// body is whole before the handler runs, and there is no deadline to set.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(d.BodyTimeout))
	body := make([]byte, 0, max(r.ContentLength, 512)+1)
	body, err := appendAll(body, http.MaxBytesReader(w, r.Body, int64(limit)))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return envelope.Request{}, tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return envelope.Request{}, problem.New(problem.SlowBody, "the body did not come within %v", d.BodyTimeout)
	case err != nil:
		return envelope.Request{}, problem.Wrap(problem.Malformed, err, "There was an error parsing the body")
	}
	return decode(body)
}

// appendAll reads r to its end without growing when the size was told.
func appendAll(b []byte, r io.Reader) ([]byte, error) {
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

func isJSON(contentType string) bool {
	if contentType == "application/json" { // what nearly everybody sends
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter)) && media == "application/json"
}

func tooLarge(limit int) error {
	return problem.New(problem.TooLarge, "body: expected at most %d bytes", limit)
}

// log writes the one line of a call: who, where in the chain, what came of it.
func (d *door) log(r *http.Request, what string, began time.Time, e *envelope.Envelope, o *call.Outcome) {
	status := http.StatusOK
	if o.Problem != nil {
		status = o.Problem.Kind.Row().Status
	}
	attrs := []slog.Attr{slog.String("pair", e.From.Short()+">"+e.To.Short()), slog.Int64("seq", e.Seq)}
	if o.State != "" {
		attrs = append(attrs, slog.String("state", string(o.State)))
	}
	d.line(r, what, began, status, o.Problem, attrs...)
}

func (d *door) line(r *http.Request, what string, began time.Time, status int, p *problem.Error, more ...slog.Attr) {
	verdict := "ok"
	level := slog.LevelInfo
	if p != nil {
		verdict = p.Kind.String()
		if status >= 500 {
			level = slog.LevelError
			more = append(more, slog.String("cause", p.Error()))
		}
	}
	more = append(more, slog.String("verdict", verdict), slog.Int("status", status),
		slog.String("ms", fmt.Sprintf("%.2f", float64(d.Now().Sub(began).Microseconds())/1000)))
	d.Log.LogAttrs(context.WithoutCancel(r.Context()), level, what, more...)
}
