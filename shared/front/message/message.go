// Package message serves signed calls: message/send, chain/reset, message/ask, and the card and
// health pages (PROTOCOL §6, §9). Malformed input gets a 4xx status with a detail, never a 500.
// Neither secrets nor message texts are logged.
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
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Path suffixes. Any prefix is accepted, because reference callers append the suffix to an endpoint
// without checking its path (PROTOCOL §23 C4).
const (
	SendPath  = "/a2a/message/send"
	ResetPath = "/a2a/chain/reset"
	AskPath   = "/a2a/message/ask"
)

func IsPath(path string) bool {
	_, rest, _ := SplitPath(path)
	return strings.HasSuffix(path, SendPath) || strings.HasSuffix(path, ResetPath) || strings.HasSuffix(path, AskPath) ||
		rest == cardPage || rest == healthPage
}

const DefaultBodyTimeout = 10 * time.Second

// Config contains the handler's dependencies. If Directory is nil, there are no card and health
// pages.
type Config struct {
	Host        *call.Host
	Directory   Directory
	Log         *slog.Logger
	Now         func() time.Time
	BodyTimeout time.Duration
	// If Send and *Send are not nil, *Send runs calls instead of Host. Unlike *Send, Host waits for
	// a slow vacant without a limit.
	Send *SendFunc
}

// SendFunc runs a signed call. route is the vacant that the path names, or zero.
type SendFunc func(ctx context.Context, route identity.ID, e *envelope.Envelope, by call.Credential, from string) call.Outcome

// NewPairLimit limits calls and resets that start or restart the chain of a pair (a caller and a
// vacant).
type NewPairLimit func(h http.Header) error

type newPairLimitKey struct{}

func WithNewPairLimit(ctx context.Context, limit NewPairLimit) context.Context {
	return context.WithValue(ctx, newPairLimitKey{}, limit)
}

// CheckNewPair checks the limit in ctx. If the limit is reached, it sets Retry-After.
func CheckNewPair(ctx context.Context, h http.Header) error {
	if limit, ok := ctx.Value(newPairLimitKey{}).(NewPairLimit); ok {
		return limit(h)
	}
	return nil
}

func Handler(c Config) http.Handler {
	if c.BodyTimeout == 0 {
		c.BodyTimeout = DefaultBodyTimeout
	}
	return &api{c}
}

type api struct{ Config }

// ServeHTTP routes by path suffix. http.ServeMux would redirect paths such as //a2a/message/send,
// and a redirected POST loses its body (PROTOCOL §23 B6, C4).
func (d *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		// In Lambda, a panic would end the process and its other requests.
		if cause := recover(); cause != nil {
			d.failInternal(w, r, problem.Wrap(problem.Internal, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()), ""))
		}
	}()
	var post func(http.ResponseWriter, *http.Request, identity.ID)
	var get http.HandlerFunc
	switch path := r.URL.Path; {
	case path == "/" || strings.HasSuffix(path, SendPath):
		post = d.serveSend
	case strings.HasSuffix(path, ResetPath):
		post = d.serveReset
	case strings.HasSuffix(path, AskPath):
		post = d.serveAsk
	default:
		get = d.pageHandler(path)
	}
	switch {
	case post != nil && r.Method == http.MethodPost:
		post(w, r, vacantInPath(r.URL.Path))
	case post != nil:
		refuseMethod(w, r, http.MethodPost)
	case get == nil:
		sendRefusal(w, problem.New(problem.NotFound, "no such path; a call is POST …%s", SendPath))
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		get(w, r)
	default:
		refuseMethod(w, r, http.MethodGet)
	}
}

func refuseMethod(w http.ResponseWriter, r *http.Request, allowed string) {
	w.Header().Set("Allow", allowed)
	sendRefusal(w, problem.New(problem.MethodNotAllowed, "%s is not allowed here; use %s", r.Method, allowed))
}

// failInternal answers with an internal error. The details are only logged.
func (d *api) failInternal(w http.ResponseWriter, r *http.Request, err error) {
	p := problem.AsError(err)
	sendRefusal(w, p)
	d.Log.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelError, "fault", slog.String("path", httpapi.TruncatePath(r.URL.Path)),
		slog.String(obs.AttrVerdict, p.Kind.String()), slog.Int(obs.AttrStatus, p.Kind.Forms().HTTPStatus), slog.String("cause", p.Error()))
}

func vacantInPath(path string) identity.ID {
	name, _, _ := SplitPath(path)
	id, err := identity.ParseID(name)
	if err != nil {
		return identity.ID{}
	}
	return id
}

func (d *api) serveSend(w http.ResponseWriter, r *http.Request, pathVacant identity.ID) {
	startTime := d.Now()
	req, err := d.readRequest(w, r)
	if err != nil {
		d.refuseRequest(w, r, startTime, err)
		return
	}
	if req.Envelope.Seq == 1 {
		if err := CheckNewPair(r.Context(), w.Header()); err != nil {
			httpapi.Fail(w, err)
			return
		}
	}
	credential, err := caller.ParseCredential(r)
	if err != nil {
		d.refuseRequest(w, r, startTime, err)
		return
	}
	var o call.Outcome
	if d.Send != nil && *d.Send != nil {
		o = (*d.Send)(r.Context(), pathVacant, &req.Envelope, credential, caller.RateLimitPrefix(r.RemoteAddr).String())
	} else {
		o = d.Host.SendWith(r.Context(), pathVacant, &req.Envelope, call.Options{Credential: credential})
	}
	if o.Problem == nil && o.Price != nil || o.HasReceipt {
		w.Header().Set(caller.ReceiptHeader, call.ReceiptPath(call.Pair{Caller: req.Envelope.From, Vacant: req.Envelope.To}, o.Position))
	}
	if o.Problem == nil {
		httpapi.Send(w, http.StatusOK, encodeAnswer(req.ID, &o))
	} else {
		if o.Problem.Kind == problem.BudgetSpent {
			w.Header().Set("Retry-After", strconv.Itoa(SecondsUntilMidnightUTC(d.Now())))
		}
		sendOutcome(w, &o, beginRefusal(detailPrefix, o.Problem))
	}
	d.logOutcome(r, obs.CallMessage, startTime, &req.Envelope, &o)
}

func (d *api) serveAsk(w http.ResponseWriter, r *http.Request, pathVacant identity.ID) {
	startTime := d.Now()
	req, err := d.readRequest(w, r)
	if err != nil {
		d.refuseRequest(w, r, startTime, err)
		return
	}
	o := d.Host.Ask(r.Context(), pathVacant, &req.Envelope)
	if o.Problem == nil {
		sendOutcome(w, &o, nil)
	} else {
		sendOutcome(w, &o, beginRefusal(detailPrefix, o.Problem))
	}
	d.logOutcome(r, "ask", startTime, &req.Envelope, &o)
}

func (d *api) serveReset(w http.ResponseWriter, r *http.Request, pathVacant identity.ID) {
	if err := CheckNewPair(r.Context(), w.Header()); err != nil {
		httpapi.Fail(w, err)
		return
	}
	startTime := d.Now()
	var req envelope.Request
	body, err := d.readBody(w, r) // any media type is accepted (PROTOCOL §9)
	if err == nil {
		req, err = envelope.DecodeResetRequest(body)
	}
	var credential call.Credential
	if err == nil {
		credential, err = caller.ParseCredential(r)
	}
	if err != nil {
		p := problem.AsError(err)
		if p.Kind == problem.Malformed || p.Kind == problem.NotJSON {
			p = problem.Wrap(problem.Malformed, p.Err, "bad_envelope: %s", p.Text())
		}
		httpapi.Send(w, p.Kind.Forms().HTTPStatus, append(beginRefusal(resetErrorPrefix, p), '}'))
		d.logLine(r, "reset", startTime, p.Kind.Forms().HTTPStatus, p)
		return
	}
	o := d.Host.ResetWith(r.Context(), pathVacant, &req.Envelope, credential)
	if o.Problem == nil {
		b := append([]byte(`{"ok":true,"reset_for_peer":"`), req.Envelope.From.String()...)
		b = append(b, `","reset_at":"`...)
		b = append(canon.AppendTime(b, o.ResetAt), `"}`...)
		httpapi.Send(w, http.StatusOK, b)
	} else {
		sendOutcome(w, &o, beginRefusal(resetErrorPrefix, o.Problem))
	}
	d.logOutcome(r, "reset", startTime, &req.Envelope, &o)
}

func (d *api) refuseRequest(w http.ResponseWriter, r *http.Request, startTime time.Time, err error) {
	p := problem.AsError(err)
	sendRefusal(w, p)
	var pairAttrs []slog.Attr
	if to := vacantInPath(r.URL.Path); !to.IsZero() {
		pairAttrs = append(pairAttrs, slog.String(obs.AttrPair, ">"+to.Short()))
		d.Host.Log.CountUnaccepted(p.Kind.Outcome())
	}
	d.logLine(r, "refused", startTime, p.Kind.Forms().HTTPStatus, p, pairAttrs...)
}

func (d *api) readRequest(w http.ResponseWriter, r *http.Request) (envelope.Request, error) {
	contentType := r.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(contentType); media != "application/json" || err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return envelope.Request{}, unsupportedError("content-type", contentType, "application/json")
	}
	body, err := d.readBody(w, r)
	if err != nil {
		return envelope.Request{}, err
	}
	return envelope.DecodeRequest(body)
}

func unsupportedError(header, got, want string) error {
	return problem.New(problem.UnsupportedMedia, "unsupported %s '%.80s'; expected %s", header, strings.ToValidUTF8(got, "\uFFFD"), want)
}

// maxInitialBody limits the initial size of a buffer, so that a client that only announces 256 KiB
// does not occupy that much memory.
const maxInitialBody = 16 << 10

func (d *api) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limit := canon.DefaultLimits().Bytes
	tooLargeErr := problem.New(problem.TooLarge, "body: expected at most %d bytes", limit)
	if contentEncoding := r.Header.Get("Content-Encoding"); contentEncoding != "" && contentEncoding != "identity" {
		return nil, unsupportedError("content-encoding", contentEncoding, "none")
	}
	if r.ContentLength > int64(limit) {
		return nil, tooLargeErr
	}
	// The deadline limits how long a slow client occupies its connection. In Lambda, setting a
	// deadline fails.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(d.BodyTimeout))
	body := make([]byte, 0, min(max(r.ContentLength, 512), maxInitialBody)+1)
	body, err := appendAll(body, http.MaxBytesReader(w, r.Body, int64(limit)))
	var maxBytesErr *http.MaxBytesError
	switch {
	case errors.As(err, &maxBytesErr):
		return nil, tooLargeErr
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, problem.New(problem.SlowBody, "the body was not received within %v", d.BodyTimeout)
	case err != nil:
		return nil, problem.Wrap(problem.Malformed, err, "There was an error parsing the body")
	}
	return body, nil
}

func appendAll(b []byte, r io.Reader) ([]byte, error) {
	for {
		if len(b) == cap(b) {
			// Appending a byte makes room in a full buffer.
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

// logOutcome logs accepted calls only with obs.QuietLevel and does not count them, because package
// call logs and counts a call when the call ends.
func (d *api) logOutcome(r *http.Request, operation string, startTime time.Time, e *envelope.Envelope, o *call.Outcome) {
	attrs := []slog.Attr{slog.String(obs.AttrPair, e.From.Short()+">"+e.To.Short()), slog.Int64(obs.AttrSeq, e.Seq)}
	if o.State != "" {
		attrs = append(attrs, slog.String("state", string(o.State)))
	}
	status := http.StatusOK
	if o.Problem != nil {
		status = o.Problem.Kind.Forms().HTTPStatus
	}
	isCall, hasRow := operation == obs.CallMessage, o.HasEnded || o.State != ""
	switch {
	case isCall && (o.Problem == nil || hasRow), operation == "ask" && status < http.StatusInternalServerError:
		ctx := context.WithoutCancel(r.Context())
		d.Log.LogAttrs(ctx, obs.QuietLevel(ctx), operation, append(attrs, slog.String(obs.AttrVerdict, problem.VerdictResent), slog.Int(obs.AttrStatus, status), obs.DurationAttr(d.Now().Sub(startTime)))...)
		return
	case isCall:
		d.Host.Log.CountUnaccepted(o.Problem.Kind.Outcome())
	}
	if !o.RestoredAt.IsZero() {
		attrs = append(attrs, slog.Time(obs.AttrRestored, o.RestoredAt))
		if o.Problem.Kind == problem.BelowFloor { // otherwise RestoredAt belongs to the chain
			attrs = append(attrs, slog.Time(obs.AttrFloor, o.Floor))
		}
	}
	d.logLine(r, operation, startTime, status, o.Problem, attrs...)
}

func (d *api) logLine(r *http.Request, operation string, startTime time.Time, status int, p *problem.Error, attrs ...slog.Attr) {
	verdict := problem.VerdictOK
	level := slog.LevelInfo
	if p != nil {
		verdict = p.Kind.String()
		isFailure := p.Kind.Outcome() == problem.Failed
		if isFailure {
			level = slog.LevelError
		}
		if isFailure || p.Kind == problem.BudgetSpent { // operators need the cause
			attrs = append(attrs, slog.String("cause", p.Error()))
		}
	}
	attrs = append(attrs, slog.String(obs.AttrVerdict, verdict), slog.Int(obs.AttrStatus, status), obs.DurationAttr(d.Now().Sub(startTime)))
	d.Log.LogAttrs(context.WithoutCancel(r.Context()), level, operation, attrs...)
}
