// Package a2a serves vacants to A2A clients: JSON-RPC of versions 1.0 and 0.3 at one
// URL, HTTP+JSON of 1.0 below it, and the agent card; to clients of OpenAI's API, chat
// completions and Responses; and to clients of no protocol, a text for a text.
//
// It translates: every message goes through host/call, by way of host/a2a/task. The
// invariants: at one path an unknown vacant, a closed child and an unknown route get the same
// answer, byte for byte. An envelope in a message is verified on the bytes that came.
// Only its owner finds a task. A refused stream has no event but the refusal.
package a2a

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/openai"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/push"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/guests"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Directory gives access to the hosted vacants. Safe for concurrent use.
type Directory interface {
	message.Directory
	// Root returns the vacant at the host's own address. ok is false without such a
	// vacant.
	Root(ctx context.Context) (id identity.ID, ok bool, err error)
	// Base returns the host's base URL, or "" while the host has no URL.
	Base(ctx context.Context) (string, error)
	// Sign calls fn with the signer of a vacant.
	Sign(ctx context.Context, id identity.ID, fn func(identity.Signer) error) error
}

// Config holds the handler's dependencies.
type Config struct {
	Tasks     *task.Engine
	Guests    *guests.Keys
	Directory Directory
	Callers   caller.Verifier
	// Published returns vacants that search shows, by name. Each request for the host's models calls
	// it, so it caches.
	Published func(ctx context.Context) ([]vacants.Record, error)
	// Push delivers the events of tasks. With nil, the host delivers none.
	Push *push.Pusher
	// Identify returns the account that a request's credential belongs to, or nil for a
	// request without a credential. An unknown credential is Unauthorized. Identify is nil
	// on a host without accounts.
	Identify func(ctx context.Context, r *http.Request) (*call.Payer, error)
	// Issuers returns the URLs of the issuers whose tokens count at a vacant, in order. With nil
	// none does.
	Issuers func(ctx context.Context, v *vacants.Record) ([]string, error)
	// Signed handles POST / with a body in the vacant's own form.
	Signed http.Handler
	Log    *slog.Logger
	Now    func() time.Time
	// Hold bounds the wait of a slow vacant's client, in a process that serves one request at a
	// time: there a stream runs its turn itself. Zero means that a client waits as long as it
	// stays.
	Hold time.Duration
	// Follow bounds a stream that only follows a task. The default is 120 s.
	Follow time.Duration
}

// Server handles all requests of A2A clients, and asks vacants for the handlers of other protocols
// (Visit). It is safe for concurrent use.
type Server struct{ *api }

// New returns a Server.
func New(c Config) Server {
	if c.Follow == 0 {
		c.Follow = 120 * time.Second
	}
	return Server{&api{Config: c, cards: newCardCache(), streams: newHeld(streams), answers: newHeld(answers), lists: newHeld(lists)}}
}

type api struct {
	Config
	cards                   *cardCache
	streams, answers, lists *held
}

// request is a request to one vacant.
type request struct {
	http.ResponseWriter
	*http.Request
	vacant vacants.Record
	rest   string // path after the vacant, without a slash at its end
	began  time.Time

	// Set while the request is read.
	what       string // for the log
	op         a2awire.Operation
	a2a        bool     // the path is of A2A, even if the vacant or the operation is unknown
	pair       string   // of a message, for the log
	accepted   bool     // the call was accepted, now or before, so the pipeline logs it
	protocol   string   // for the log; "" means A2A
	cut        call.Cut // why the answer sent ends early, for the log
	dialect    a2awire.Dialect
	withoutRPC bool // frames of streams and results without JSON-RPC
	id         []byte
	noAnswer   bool // a notification
	extension  bool // the client lists the extension
	payer      *call.Payer
	signed     bool // the message has an envelope of the client's
	body       []byte
}

// ServeHTTP serves one request.
func (d *api) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	r := &request{ResponseWriter: w, Request: hr, began: d.Now()}
	defer func() {
		if cause := recover(); cause != nil {
			d.failHTTP(r, problem.Wrap(problem.Internal, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()), ""))
		}
	}()
	handled, err := d.route(r)
	switch {
	case err != nil:
		d.failHTTP(r, err)
	case !handled && openai.IsPath(r.rest):
		base, err := d.base(r)
		if err == nil {
			err = openai.NotFound(r.Method, r.rest, base)
		}
		d.failHTTP(r, err)
	case !handled && r.URL.Path == "/":
		d.failHTTP(r, problem.New(problem.NotFound, "this is a host of agents, which have no page: GET /v/NAME/ shows the card of the agent NAME, POST /v/NAME/text sends it a text; GET /v1/search?q=WORDS finds agents, GET /v1/openapi.json describes all operations"))
	case !handled:
		// One answer for everything that this host does not serve.
		d.failHTTP(r, problem.New(problem.NotFound, "no such vacant or path; a card is GET /v/ID, a message is POST /v/ID"))
	}
}

// route finds the vacant and serves the rest of the path.
func (d *api) route(r *request) (handled bool, err error) {
	name, rest, below := message.Split(r.URL.Path)
	if r.URL.Path == "/" && r.Method == http.MethodPost {
		own, err := d.isOwnForm(r)
		if err != nil {
			return true, err
		}
		if own {
			d.Signed.ServeHTTP(r.ResponseWriter, r.Request)
			return true, nil
		}
	}
	if r.URL.Path == "/" && r.Method != http.MethodPost {
		return false, nil // the host's own page
	}
	r.rest = strings.TrimSuffix(rest, "/")
	_, isREST := restRouteOf(r.rest)
	r.a2a = isREST && !openai.IsPath(r.rest) || r.rest == "" && r.Method == http.MethodPost
	if !below && openai.IsPath(r.rest) {
		return d.openAIHost(r)
	}
	if !below {
		root, there, err := d.Directory.Root(r.Context())
		switch {
		case err != nil:
			return false, err
		case !there:
			return false, problem.New(problem.NotFound, "no vacant answers at this host's own address; name one with /v/NAME")
		}
		name = root.String()
	}
	ok, err := d.find(r, name)
	if err != nil || !ok {
		return false, err
	}
	return d.serve(r)
}

// find reads the vacant with a name or an id. ok is false if no unrelated caller may know of it.
func (d *api) find(r *request, name string) (ok bool, err error) {
	id, parseErr := identity.ParseID(name)
	if parseErr == nil {
		r.vacant, ok, err = d.Directory.Show(r.Context(), id)
	} else {
		r.vacant, ok, err = d.Directory.ShowNamed(r.Context(), name)
	}
	// A request without an envelope cannot prove kinship; relatives use the signed
	// path.
	return ok && !r.vacant.Closed && !r.vacant.IsDeleted(), err
}

// Paths below a vacant, for anybody.
const (
	cardPath   = "/.well-known/agent-card.json"
	keySetPath = "/.well-known/jwks.json"
)

// serve serves a path below a vacant.
func (d *api) serve(r *request) (handled bool, err error) {
	get := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch r.rest {
	case "":
		switch {
		case get:
			return true, d.card(r)
		case r.Method == http.MethodPost:
			return true, d.rpc(r)
		}
		return true, notAllowed(r, "GET, POST")
	case cardPath, "/.well-known/agent.json":
		if !get {
			return true, notAllowed(r, "GET")
		}
		return true, d.card(r)
	case keySetPath, "/jwks.json":
		if !get {
			return true, notAllowed(r, "GET")
		}
		return true, d.keySet(r)
	case message.TextPath:
		return true, d.text(r)
	}
	if openai.IsPath(r.rest) {
		return d.openAI(r)
	}
	return d.rest(r)
}

func notAllowed(r *request, allowed string) error {
	r.ResponseWriter.Header().Set("Allow", allowed)
	return problem.New(problem.MethodNotAllowed, "%.20s is not allowed here; use %s", r.Method, allowed)
}

// failHTTP answers an error that A2A does not define: the error's own HTTP status,
// with detail and code, or as text.
func (d *api) failHTTP(r *request, err error) {
	err = d.orLogin(r, err)
	p := problem.Of(err)
	status := p.Kind.Row().Status
	httpapi.Challenge(r.ResponseWriter, r.Request, err, string(billing.ScopeCall))
	if p.Kind == problem.BudgetSpent {
		r.ResponseWriter.Header().Set("Retry-After", strconv.Itoa(message.SecondsUntilMidnightUTC(d.Now())))
	}
	if r.a2a {
		err = r.alsoA2A(err)
	}
	message.Refuse(r.ResponseWriter, r.Request, err)
	d.log(r, p.Kind.String(), status, p)
}

// orLogin returns Unauthorized instead of PaymentRequired if the client neither signs nor has a
// credential, and a token would help: clients begin a login only after a 401.
func (d *api) orLogin(r *request, err error) error {
	if !problem.Is(err, problem.PaymentRequired) || r.payer != nil || r.signed || d.Issuers == nil || !d.takesKeys(&r.vacant) {
		return err
	}
	issuers, no := d.Issuers(r.Context(), &r.vacant)
	switch {
	case no != nil:
		return no
	case len(issuers) == 0:
		return err
	}
	return problem.Wrap(problem.Unauthorized, err, "%s; or log in at %s", problem.Of(err).Text(), strings.Join(issuers, " or "))
}

// Limits for texts in log lines, in bytes of JSON.
const (
	maxPath  = 90
	maxCause = 180
)

// shortPath returns the path with the vacant's id shortened as in log lines.
func (r *request) shortPath() string {
	if id := r.vacant.ID.String(); strings.HasPrefix(r.URL.Path, "/v/"+id) {
		return "/v/" + r.vacant.ID.Short() + r.URL.Path[len("/v/"+id):]
	}
	return r.URL.Path
}

// isCall reports whether a request is a call, even if it is refused before its message is read.
func (r *request) isCall() bool {
	return r.pair != "" || !r.vacant.ID.IsZero() && r.Method == http.MethodPost &&
		(r.op == a2awire.Send || r.op == a2awire.Stream || r.what == textWhat || r.what == completionWhat || r.what == responseWhat)
}

// log writes the line of a request. The pipeline writes the row of a call that it accepts, so that a
// request whose call was accepted, now or before, has no row of its own.
func (d *api) log(r *request, verdict string, status int, cause error) {
	ctx := context.WithoutCancel(r.Context())
	level, outcome := slog.LevelInfo, problem.Answered
	switch {
	case r.accepted:
		level = obs.QuietLevel(ctx)
		if cause != nil {
			verdict = problem.VerdictResent
		}
	case cause != nil:
		if outcome = problem.OutcomeOf(verdict, max(status, http.StatusBadRequest)); outcome == problem.Failed {
			level = slog.LevelError
		}
	case r.Method == http.MethodGet:
		level = slog.LevelDebug
	}
	isRow := !r.accepted && cause != nil && r.isCall()
	if isRow {
		d.Tasks.Calls.Log.Count(outcome)
	}
	if !d.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("path", obs.Clip(r.shortPath(), maxPath))}
	if r.what != "" {
		attrs = append(attrs, slog.String(obs.Operation, r.what))
	}
	if isRow || r.pair != "" {
		attrs = append(attrs, slog.String(obs.Pair, cmp.Or(r.pair, ">"+r.vacant.ID.Short())))
	}
	if r.cut != "" {
		attrs = append(attrs, slog.String(obs.Cut, string(r.cut)))
	}
	if level == slog.LevelError {
		attrs = append(attrs, slog.String("cause", obs.Clip(cause.Error(), maxCause)))
	}
	attrs = append(attrs, slog.String(obs.Verdict, verdict), slog.Int(obs.Status, status), obs.Took(d.Now().Sub(r.began)))
	d.Log.LogAttrs(ctx, level, cmp.Or(r.protocol, "a2a"), attrs...)
}

// noteExtension notes whether the client lists the extension, and echoes it if so.
func (r *request) noteExtension() {
	for _, header := range []string{"A2A-Extensions", "X-A2A-Extensions"} {
		for _, value := range r.Request.Header.Values(header) {
			for uri := range strings.SplitSeq(value, ",") {
				if strings.TrimSpace(uri) == a2awire.Extension && !r.extension {
					r.extension = true
					r.ResponseWriter.Header().Set(header, a2awire.Extension)
				}
			}
		}
	}
}

// versions of A2A that are served.
const (
	version1  = "1.0"
	version03 = "0.3"
)

// asked returns the version that a client asks for, or "" without one.
func (r *request) asked() string {
	return strings.TrimSpace(cmp.Or(strings.TrimSpace(r.Request.Header.Get("A2A-Version")), r.URL.Query().Get("A2A-Version")))
}

// version returns the major and minor version that a client asks for, or "" without
// one.
func (r *request) version() (string, *fault) {
	v := r.asked()
	parts := strings.SplitN(v, ".", 3)
	if v == "" {
		return "", nil
	}
	if len(parts) >= 2 {
		if mm := parts[0] + "." + parts[1]; mm == version1 || mm == version03 {
			return mm, nil
		}
	}
	return "", &fault{kind: versionNotSupported, text: fmt.Sprintf("A2A-Version: expected %s or %s, got %.20q", version1, version03, v)}
}
