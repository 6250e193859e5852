// Package plain serves the protocols whose clients need not sign their messages. Such a client is a
// guest, or an account that is identified by its key or token. A protocol's handler finds the
// vacant that a request names, builds a turn (one run of the vacant's agent) from the message, and
// runs the turn. The A2A handler also runs turns of signed messages (Exchange.Signed).
//
// An unknown vacant and a closed child get the same refusal. The host signs the messages of guests
// and accounts with keys that only the host can derive. Concurrent requests are limited per sender
// and per vacant.
package plain

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/guests"
	"github.com/vacancy-host/vacancy/shared/host/substrate/conformance"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Directory gives access to the hosted vacants. It is safe for concurrent use.
type Directory interface {
	message.Directory
	// Root returns the vacant at the host's own address. ok is false if the host has none.
	Root(ctx context.Context) (id identity.ID, ok bool, err error)
	// Base returns the host's base URL, or "" while the host has no URL.
	Base(ctx context.Context) (string, error)
}

// Config holds the dependencies of a Service.
type Config struct {
	Tasks     *task.Engine
	Guests    *guests.Keys
	Directory Directory
	// Identify returns the account of a request's credential, or nil if the request has no
	// credential. For an unknown credential, the error is Unauthorized. On a host without accounts,
	// Identify is nil.
	Identify func(ctx context.Context, r *http.Request) (*call.Payer, error)
	// Issuers returns the URLs of the issuers whose tokens a vacant accepts, in order. If Issuers
	// is nil, vacants accept no tokens.
	Issuers func(ctx context.Context, v *vacants.Record) ([]string, error)
	Log     *slog.Logger
	Now     func() time.Time
	// Hold limits how long a client waits for a slow vacant. A process that serves only one request
	// at a time sets it; in such a process a stream runs its turn in its own request. Zero means
	// that a client may wait as long as the turn takes.
	Hold time.Duration
}

// Service serves guests and accounts. It is safe for concurrent use.
type Service struct {
	Config
	// Streams, Answers and Lists limit concurrent requests.
	Streams, Answers, Lists *RequestCounter
}

func New(c Config) *Service {
	return &Service{Config: c, Streams: newRequestCounter(streams), Answers: newRequestCounter(answers), Lists: newRequestCounter(lists)}
}

// Sender is the client of a request.
type Sender struct {
	Address netip.Prefix // caller.RateKey of the request
	Payer   *call.Payer  // account of the request's credential, or nil
	// HasTasks is true if the sender's protocol has operations on tasks. Refusals may then
	// recommend them.
	HasTasks bool
}

// Caller is a sender together with the vacant that it calls. It is safe for concurrent use.
type Caller struct {
	Sender
	Vacant  vacants.Record
	Options conformance.Options

	s *Service
}

// Open returns the sender's Caller for the vacant with a name or an id. The error is NotFound if
// the vacant does not exist, is deleted, or is closed to unrelated callers.
func (s *Service) Open(ctx context.Context, sender Sender, name string) (*Caller, error) {
	c := &Caller{Sender: sender, s: s}
	ok := false
	id, err := identity.ParseID(name)
	if err == nil {
		c.Vacant, ok, err = s.Directory.Show(ctx, id)
	} else {
		c.Vacant, ok, err = s.Directory.ShowNamed(ctx, name)
	}
	// A closed child answers only its relatives, which sign their calls. A request without an
	// envelope cannot prove that its sender is a relative.
	if err == nil && (!ok || c.Vacant.Closed || c.Vacant.IsDeleted()) {
		err = NotFound()
	}
	c.Options = conformance.OptionsOf(c.Vacant.Substrate)
	return c, err
}

func NotFound() error {
	return problem.New(problem.NotFound, "no such vacant or path; a card is GET /v/ID, a message is POST /v/ID")
}

// Base returns the host's base URL: the configured one, or otherwise the URL of the request,
// because a function without a CDN cannot be configured with its own URL. On AWS, requests arrive
// by TLS, which Lambda reports in a header.
func (s *Service) Base(r *http.Request) (string, error) {
	base, err := s.Directory.Base(r.Context())
	if err != nil || base != "" {
		return base, err
	}
	scheme := "https"
	if r.Header.Get("X-Forwarded-Proto") == "http" {
		scheme = "http"
	}
	return scheme + "://" + r.Host, nil
}

func (s *Service) TakesKeys(v *vacants.Record) bool {
	return s.Identify != nil && v.KeylessAccess != vacants.PlainOff
}

func (c *Caller) Plain() vacants.Plain {
	if c.Options.SharesTasks && c.Vacant.KeylessAccess == vacants.PlainOpen {
		return vacants.PlainShared
	}
	return c.Vacant.KeylessAccess
}

func (c *Caller) CheckPlain() error {
	if c.Plain() == vacants.PlainOff {
		return problem.New(problem.Forbidden, "this vacant answers only signed calls; send one with vacancy call")
	}
	return nil
}

// Owner returns the owner of the caller's tasks: the account or token subject that pays, one owner
// for all callers without a key if they share their tasks, or guests.
func (c *Caller) Owner() call.Owner {
	switch {
	case c.Payer != nil:
		return c.Payer.Owner()
	case c.Plain() == vacants.PlainShared:
		return call.SharedOwner
	}
	return call.GuestOwner
}

func (c *Caller) IsSlow() bool { return c.s.Tasks.Calls.IsSlow(c.Vacant.MaxCallTime) }

// OrLogin replaces PaymentRequired by Unauthorized if the caller has no credential and a token
// would help, because clients begin a login only after a 401.
func (c *Caller) OrLogin(ctx context.Context, err error) error {
	if !problem.Is(err, problem.PaymentRequired) || c.Payer != nil || c.s.Issuers == nil || !c.s.TakesKeys(&c.Vacant) {
		return err
	}
	issuers, issuersErr := c.s.Issuers(ctx, &c.Vacant)
	switch {
	case issuersErr != nil:
		return issuersErr
	case len(issuers) == 0:
		return err
	}
	return problem.Wrap(problem.Unauthorized, err, "%s; or log in at %s", problem.AsError(err).Text(), strings.Join(issuers, " or "))
}

// Line contains the attributes of a request's log line.
type Line struct {
	Message      string // message of the line
	Method, Path string
	Began        time.Time
	What         string // operation as the protocol names it
	IsCall       bool   // the request is a call, even if it is refused before its message is read
	Pair         string // pair of the message
	Accepted     bool   // the call was accepted, by this or an earlier request; package call logs it
	IsAside      bool   // the calls that the request made have log lines of their own
	Cut          call.CutReason
}

// Limits for strings in log lines, in bytes of JSON.
const (
	maxPath  = 90
	maxCause = 180
)

// Log writes the log line of a request. Package call logs and counts accepted calls itself, so the
// line of an accepted call has only obs.QuietLevel and Log does not count the call.
func (c *Caller) Log(ctx context.Context, l *Line, verdict string, status int, cause error) {
	ctx = context.WithoutCancel(ctx)
	level, outcome := slog.LevelInfo, problem.Answered
	switch {
	case l.IsAside:
		level, cause = obs.QuietLevel(ctx), nil
	case l.Accepted:
		level = obs.QuietLevel(ctx)
		if cause != nil {
			verdict = problem.VerdictResent
		}
	case cause != nil:
		if outcome = problem.OutcomeOf(verdict, max(status, http.StatusBadRequest)); outcome == problem.Failed {
			level = slog.LevelError
		}
	case l.Method == http.MethodGet, l.Method == http.MethodHead, l.Method == http.MethodOptions:
		level = slog.LevelDebug
	}
	isCall := l.Pair != "" || !c.Vacant.ID.IsZero() && l.Method == http.MethodPost && l.IsCall
	isRow := !l.Accepted && cause != nil && isCall
	if isRow {
		c.s.Tasks.Calls.Log.Count(outcome)
	}
	if !c.s.Log.Enabled(ctx, level) {
		return
	}
	path := l.Path
	if rest, ok := strings.CutPrefix(path, "/v/"+c.Vacant.ID.String()); ok {
		path = "/v/" + c.Vacant.ID.Short() + rest
	}
	attrs := []slog.Attr{slog.String("path", obs.Clip(path, maxPath))}
	if l.What != "" {
		attrs = append(attrs, slog.String(obs.AttrOperation, l.What))
	}
	if isRow || l.Pair != "" {
		attrs = append(attrs, slog.String(obs.AttrPair, cmp.Or(l.Pair, ">"+c.Vacant.ID.Short())))
	}
	if l.Cut != "" {
		attrs = append(attrs, slog.String(obs.AttrCut, string(l.Cut)))
	}
	if level == slog.LevelError {
		attrs = append(attrs, slog.String("cause", obs.Clip(cause.Error(), maxCause)))
	}
	attrs = append(attrs, slog.String(obs.AttrVerdict, verdict), slog.Int(obs.AttrStatus, status), obs.DurationAttr(c.s.Now().Sub(l.Began)))
	c.s.Log.LogAttrs(ctx, level, l.Message, attrs...)
}
