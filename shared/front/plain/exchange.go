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

// Protocol is a protocol with its handler. If Serve returns an error, it must not have written to
// the response.
type Protocol struct {
	*protocol.Protocol
	Serve func(*Exchange) error
}

// Exchange is an HTTP request and its response. Caller.Vacant is zero until OpenByPath or
// OpenVacant sets it.
type Exchange struct {
	http.ResponseWriter
	*http.Request
	Caller
	Line    LogLine
	SubPath string // path after the vacant, without a trailing slash

	// Signed is true if the client signed its message. Such a client is never told to log in.
	Signed bool
	Refuse func(http.ResponseWriter, error)

	writer   *responseWriter
	isLogged bool
}

// Handler returns the HTTP handler of a protocol, with a body limit, panic recovery and logging.
func (s *Service) Handler(p Protocol) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, subPath, _ := message.SplitPath(r.URL.Path)
		rw := &responseWriter{ResponseWriter: w, request: r}
		x := &Exchange{
			ResponseWriter: rw, writer: rw, Request: r.WithContext(r.Context()), SubPath: strings.TrimSuffix(subPath, "/"), Refuse: p.Refuse,
			Caller: Caller{service: s, Sender: Sender{Address: caller.RateLimitPrefix(r.RemoteAddr)}},
			Line:   LogLine{Message: p.LogMessage, Method: r.Method, Path: r.URL.Path, StartedAt: s.Now()},
		}
		// MaxBytesReader needs w instead of rw to close the connection of a client whose body is
		// too large.
		x.Body = http.MaxBytesReader(w, r.Body, int64(p.MaxBody))
		defer func() {
			if cause := recover(); cause != nil {
				x.Fail(problem.Wrap(problem.Internal, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()), ""))
			}
			verdict := problem.VerdictOK
			if rw.status >= http.StatusBadRequest {
				verdict = "refused"
			}
			if !x.isLogged {
				x.Log(verdict, cmp.Or(rw.status, http.StatusOK), nil)
			}
		}()
		if err := p.Serve(x); err != nil {
			x.Fail(err)
		}
	})
}

type responseWriter struct {
	http.ResponseWriter
	request *http.Request
	status  int
}

func (a *responseWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *responseWriter) WriteHeader(status int) {
	if a.status = status; status == http.StatusUnauthorized && a.Header().Get("WWW-Authenticate") == "" {
		httpapi.Challenge(a.ResponseWriter, a.request, problem.New(problem.Unauthorized, ""), string(billing.ScopeCall))
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *responseWriter) Write(b []byte) (int, error) {
	a.status = cmp.Or(a.status, http.StatusOK)
	return a.ResponseWriter.Write(b)
}

func (x *Exchange) HandOver(next http.Handler) {
	x.isLogged = true
	next.ServeHTTP(x.writer.ResponseWriter, x.Request)
}

func (x *Exchange) OpenByPath() error {
	name, _, isVacantPath := message.SplitPath(x.URL.Path)
	if !isVacantPath {
		root, ok, err := x.service.Directory.Root(x.Context())
		switch {
		case err != nil:
			return err
		case !ok:
			return problem.New(problem.NotFound, "no vacant answers at this host's own address; name one with /v/NAME")
		}
		name = root.String()
	}
	return x.OpenVacant(name)
}

func (x *Exchange) OpenVacant(name string) error {
	c, err := x.service.NewCaller(x.Context(), x.Sender, name)
	if err == nil {
		x.Caller = *c
	}
	return err
}

// IdentifyPayer sets Payer to the account of the request's credential, or to nil if the request has
// none. A request with a bad credential is refused, and never served as a guest's request.
func (x *Exchange) IdentifyPayer() (err error) {
	x.Payer = nil
	if x.service.Identify != nil {
		x.Payer, err = x.service.Identify(x.Context(), x.Request)
	} else if x.Request.Header.Get("Authorization") != "" {
		err = problem.New(problem.Unauthorized, "Authorization: this host has no accounts; send none, or an envelope")
	}
	return err
}

func (x *Exchange) MethodError(allowed string) error {
	x.ResponseWriter.Header().Set("Allow", allowed)
	return problem.New(problem.MethodNotAllowed, "%.20s is not allowed here; use %s", x.Method, allowed)
}

const writeTimeout = 20 * time.Second

func (x *Exchange) ExtendWriteDeadline() {
	_ = http.NewResponseController(x.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
}

func (x *Exchange) ClearReadDeadline() {
	_ = http.NewResponseController(x.ResponseWriter).SetReadDeadline(time.Time{})
}

func (x *Exchange) Log(verdict string, status int, cause error) {
	x.isLogged = true
	x.Caller.Log(x.Context(), &x.Line, verdict, status, cause)
}

func (x *Exchange) Fail(err error) {
	if maxBytesErr := new(http.MaxBytesError); errors.As(err, &maxBytesErr) {
		err = problem.New(problem.TooLarge, "body: expected at most %d bytes", maxBytesErr.Limit)
	}
	if !x.Signed {
		err = x.SuggestLogin(x.Context(), err)
	}
	p := problem.AsError(err)
	if rw := x.writer; rw.status == 0 {
		httpapi.Challenge(rw, x.Request, err, string(billing.ScopeCall))
		if p.Kind == problem.BudgetSpent {
			rw.Header().Set("Retry-After", strconv.Itoa(message.SecondsUntilMidnightUTC(x.service.Now())))
		}
		var retryErr *retryableError
		if errors.As(err, &retryErr) {
			rw.Header().Set("Retry-After", retryErr.retryAfter)
		}
		x.Refuse(rw, err)
	}
	x.Log(p.Kind.String(), p.Kind.Forms().HTTPStatus, p)
}
