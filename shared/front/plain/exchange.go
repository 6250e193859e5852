package plain

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/problem"
)

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
	// Amend completes a refusal in the form of the protocol. It may be nil.
	Amend func(error) error
}

// Serve serves a request by route, and refuses it if route returns an error or panics.
func (s *Service) Serve(w http.ResponseWriter, r *http.Request, route func(*Exchange) error) {
	_, rest, _ := message.Split(r.URL.Path)
	x := &Exchange{
		ResponseWriter: w, Request: r, Rest: strings.TrimSuffix(rest, "/"),
		Caller: Caller{s: s, Sender: Sender{Address: caller.Origin(r.RemoteAddr)}},
		Line:   Line{Method: r.Method, Path: r.URL.Path, Began: s.Now()},
	}
	defer func() {
		if cause := recover(); cause != nil {
			x.Fail(problem.Wrap(problem.Internal, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()), ""))
		}
	}()
	if err := route(x); err != nil {
		x.Fail(err)
	}
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

// Identify sets the account of the request's credential.
func (x *Exchange) Identify() (err error) {
	x.Payer, err = x.s.Payer(x.Request)
	return err
}

// NotAllowed returns the refusal of the request's method.
func (x *Exchange) NotAllowed(allowed string) error {
	x.ResponseWriter.Header().Set("Allow", allowed)
	return problem.New(problem.MethodNotAllowed, "%.20s is not allowed here; use %s", x.Method, allowed)
}

// Admit completes a turn with the request's payer, address and highest price. It refuses an address
// that begins too many conversations.
func (x *Exchange) Admit(t *task.Turn) error {
	by, err := caller.Payment(x.Request)
	if err != nil {
		return err
	}
	return x.Caller.Admit(x.Context(), t, by, &x.Line)
}

// Run runs a turn to its end, or returns the task of a slow turn in its state after the service's Hold.
func (x *Exchange) Run(t *task.Turn) (task.Task, error) {
	// The limit for an answer began with the request, which a turn of minutes outlasts.
	if x.IsSlow() {
		defer x.ExtendWrite()
	}
	return x.Caller.Run(x.Context(), t, Wait{})
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
	x.Caller.Log(x.Context(), &x.Line, verdict, status, cause)
}

// Fail answers with an error: its HTTP status, with a body in the form of the request's address.
func (x *Exchange) Fail(err error) {
	if !x.Signed {
		err = x.OrLogin(x.Context(), err)
	}
	p := problem.Of(err)
	h := x.ResponseWriter.Header()
	httpapi.Challenge(x.ResponseWriter, x.Request, err, string(billing.ScopeCall))
	if p.Kind == problem.BudgetSpent {
		h.Set("Retry-After", strconv.Itoa(message.SecondsUntilMidnightUTC(x.s.Now())))
	}
	SetRetryAfter(h, err)
	if x.Amend != nil {
		err = x.Amend(err)
	}
	message.Refuse(x.ResponseWriter, x.Request, err)
	x.Log(p.Kind.String(), p.Kind.Row().Status, p)
}
