package plain

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/protocol"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Protocol is a protocol with its handler. If Serve returns an error, it has sent nothing.
type Protocol struct {
	*protocol.Protocol
	Serve func(*Exchange) error
}

// Exchange is an HTTP request and its answer. The caller has no vacant until Find returns, or the
// handler sets the caller.
type Exchange struct {
	http.ResponseWriter
	*http.Request
	Caller
	Line Line
	Rest string // path after the vacant, without a slash at its end

	// Signed says that the message has an envelope of the client's, so a login would not help.
	Signed bool
	// Refuse answers with an error. The default is the form of the protocol.
	Refuse func(http.ResponseWriter, error)

	answer *answer
	logged bool
}

// Handler returns the handler of a protocol. The handler limits the body, tells a client without a
// credential how to log in, refuses a request whose code panics, and writes a line of the log, so that no
// protocol can forget these.
func (s *Service) Handler(p Protocol) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, rest, _ := message.Split(r.URL.Path)
		a := &answer{ResponseWriter: w, request: r}
		x := &Exchange{
			ResponseWriter: a, answer: a, Request: r.WithContext(r.Context()), Rest: strings.TrimSuffix(rest, "/"), Refuse: p.Refuse,
			Caller: Caller{s: s, Sender: Sender{Address: caller.Origin(r.RemoteAddr)}},
			Line:   Line{Protocol: p.Line, Method: r.Method, Path: r.URL.Path, Began: s.Now()},
		}
		// With w, and not with its wrapper, a body that is too large closes the connection.
		x.Body = http.MaxBytesReader(w, r.Body, int64(p.MaxBody))
		defer func() {
			if cause := recover(); cause != nil {
				x.Fail(problem.Wrap(problem.Internal, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()), ""))
			}
			verdict := problem.VerdictOK
			if a.status >= http.StatusBadRequest {
				verdict = "refused"
			}
			if !x.logged {
				x.Log(verdict, cmp.Or(a.status, http.StatusOK), nil)
			}
		}()
		if err := p.Serve(x); err != nil {
			x.Fail(err)
		}
	})
}

// answer is a response writer that adds the challenge that a refusal lacks.
type answer struct {
	http.ResponseWriter
	request *http.Request
	status  int // 0 until the answer begins
}

// Unwrap lets handlers flush their streams.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) WriteHeader(status int) {
	if a.status = status; status == http.StatusUnauthorized && a.Header().Get("WWW-Authenticate") == "" {
		httpapi.Challenge(a.ResponseWriter, a.request, problem.New(problem.Unauthorized, ""), string(billing.ScopeCall))
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.status = cmp.Or(a.status, http.StatusOK)
	return a.ResponseWriter.Write(b)
}

// HandOver lets a handler that writes its own line serve the request.
func (x *Exchange) HandOver(next http.Handler) {
	x.logged = true
	next.ServeHTTP(x.answer.ResponseWriter, x.Request)
}

// Find sets the caller at the vacant at whose address the request is.
func (x *Exchange) Find() error {
	name, _, below := message.Split(x.URL.Path)
	if !below {
		root, ok, err := x.s.Directory.Root(x.Context())
		switch {
		case err != nil:
			return err
		case !ok:
			return problem.New(problem.NotFound, "no vacant answers at this host's own address; name one with /v/NAME")
		}
		name = root.String()
	}
	return x.Open(name)
}

// Open sets the caller at the vacant with a name or an id.
func (x *Exchange) Open(name string) error {
	c, err := x.s.Open(x.Context(), x.Sender, name)
	if err == nil {
		x.Caller = *c
	}
	return err
}

// Identify sets the account of the request's credential, or none without a credential. A request with a bad
// credential is refused: it never falls back to a guest.
func (x *Exchange) Identify() (err error) {
	x.Payer = nil
	if x.s.Identify != nil {
		x.Payer, err = x.s.Identify(x.Context(), x.Request)
	} else if x.Request.Header.Get("Authorization") != "" {
		err = problem.New(problem.Unauthorized, "Authorization: this host has no accounts; send none, or an envelope")
	}
	return err
}

// NotAllowed returns the refusal of the request's method.
func (x *Exchange) NotAllowed(allowed string) error {
	x.ResponseWriter.Header().Set("Allow", allowed)
	return problem.New(problem.MethodNotAllowed, "%.20s is not allowed here; use %s", x.Method, allowed)
}

// writeTimeout is the time that a slow client has to read one event or one answer.
const writeTimeout = 20 * time.Second

// ExtendWrite gives the client time to read what is written next.
func (x *Exchange) ExtendWrite() {
	_ = http.NewResponseController(x.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
}

// EndReadDeadline lets an answer last longer than a body may take.
func (x *Exchange) EndReadDeadline() {
	_ = http.NewResponseController(x.ResponseWriter).SetReadDeadline(time.Time{})
}

// Log writes the line of the request.
func (x *Exchange) Log(verdict string, status int, cause error) {
	x.logged = true
	x.Caller.Log(x.Context(), &x.Line, verdict, status, cause)
}

// Fail answers with an error, unless an answer has begun.
func (x *Exchange) Fail(err error) {
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		err = problem.New(problem.TooLarge, "body: expected at most %d bytes", large.Limit)
	}
	if !x.Signed {
		err = x.OrLogin(x.Context(), err)
	}
	p := problem.Of(err)
	if a := x.answer; a.status == 0 {
		httpapi.Challenge(a, x.Request, err, string(billing.ScopeCall))
		if p.Kind == problem.BudgetSpent {
			a.Header().Set("Retry-After", strconv.Itoa(message.SecondsUntilMidnightUTC(x.s.Now())))
		}
		var r *retryable
		if errors.As(err, &r) {
			a.Header().Set("Retry-After", r.after)
		}
		x.Refuse(a, err)
	}
	x.Log(p.Kind.String(), p.Kind.Row().Status, p)
}
