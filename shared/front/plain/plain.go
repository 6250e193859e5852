// Package plain serves the protocols in which clients need not sign their messages. The callers are
// guests, and accounts that are identified by their keys or tokens. A protocol's handler opens the
// vacant that a request names, builds the turn of a message, and runs it. A2A's handler also runs
// the turns of signed messages (Exchange.Signed).
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

// Directory gives access to the hosted vacants. Safe for concurrent use.
type Directory interface {
	message.Directory
	// Root returns the vacant at the host's own address. ok is false without such a
	// vacant.
	Root(ctx context.Context) (id identity.ID, ok bool, err error)
	// Base returns the host's base URL, or "" while the host has no URL.
	Base(ctx context.Context) (string, error)
}

// Config holds the dependencies of a Service.
type Config struct {
	Tasks     *task.Engine
	Guests    *guests.Keys
	Directory Directory
	// Identify returns the account that a request's credential belongs to, or nil for a
	// request without a credential. An unknown credential is Unauthorized. Identify is nil
	// on a host without accounts.
	Identify func(ctx context.Context, r *http.Request) (*call.Payer, error)
	// Issuers returns the URLs of the issuers whose tokens a vacant accepts, in order. If Issuers is
	// nil, vacants accept no tokens.
	Issuers func(ctx context.Context, v *vacants.Record) ([]string, error)
	Log     *slog.Logger
	Now     func() time.Time
	// Hold bounds the wait of a slow vacant's client, in a process that serves one request at a
	// time: there a stream runs its turn itself. Zero means that a client waits as long as it
	// stays.
	Hold time.Duration
}

// Service serves guests and accounts. It is safe for concurrent use.
type Service struct {
	Config
	// Streams, Answers and Lists bound the requests under way.
	Streams, Answers, Lists *Held
}

// New returns a Service.
func New(c Config) *Service {
	return &Service{Config: c, Streams: newHeld(streams), Answers: newHeld(answers), Lists: newHeld(lists)}
}

// Sender sends requests.
type Sender struct {
	Address netip.Prefix // caller.Origin of the request
	Payer   *call.Payer  // account of the request's credential, or nil
	// HasTasks says that the sender's protocol has operations on tasks, which refusals may recommend.
	HasTasks bool
}

// Caller is a sender at one vacant. It is safe for concurrent use.
type Caller struct {
	Sender
	Vacant vacants.Record
	// Options come from the vacant's substrate.
	Options conformance.Options

	s *Service
}

// Open returns the caller that sender is at the vacant with a name or an id. The error is NotFound
// for a vacant that no unrelated caller may know of.
func (s *Service) Open(ctx context.Context, sender Sender, name string) (*Caller, error) {
	c := &Caller{Sender: sender, s: s}
	ok := false
	id, err := identity.ParseID(name)
	if err == nil {
		c.Vacant, ok, err = s.Directory.Show(ctx, id)
	} else {
		c.Vacant, ok, err = s.Directory.ShowNamed(ctx, name)
	}
	// A request without an envelope cannot prove kinship; relatives use the signed
	// path.
	if err == nil && (!ok || c.Vacant.Closed || c.Vacant.IsDeleted()) {
		err = NotFound()
	}
	c.Options = conformance.OptionsOf(c.Vacant.Substrate)
	return c, err
}

// NotFound returns the refusal for everything that this host does not serve.
func NotFound() error {
	return problem.New(problem.NotFound, "no such vacant or path; a card is GET /v/ID, a message is POST /v/ID")
}

// Base returns the host's base URL: the configured one, else the URL of the request. Without a CDN a
// function cannot be told its own URL. On AWS requests come by TLS, which Lambda reports in a header.
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

// TakesKeys reports whether a vacant answers keys of accounts.
func (s *Service) TakesKeys(v *vacants.Record) bool {
	return s.Identify != nil && v.Plain != vacants.PlainOff
}

// Plain returns the vacant's setting for callers that do not sign.
func (c *Caller) Plain() vacants.Plain {
	if c.Options.SharesTasks && c.Vacant.Plain == vacants.PlainOpen {
		return vacants.PlainShared
	}
	return c.Vacant.Plain
}

// CheckPlain returns an error if the vacant answers only signed calls.
func (c *Caller) CheckPlain() error {
	if c.Plain() == vacants.PlainOff {
		return problem.New(problem.Forbidden, "this vacant answers only signed calls; send one with vacancy call")
	}
	return nil
}

// Owner returns the owner of the caller's tasks.
func (c *Caller) Owner() call.Owner {
	switch {
	case c.Payer != nil:
		return c.Payer.Owner()
	case c.Plain() == vacants.PlainShared:
		return call.SharedOwner
	}
	return call.GuestOwner
}

// IsSlow reports whether turns of the vacant run in the background, because they may take longer than
// a request.
func (c *Caller) IsSlow() bool { return c.s.Tasks.Calls.IsSlow(c.Vacant.Work) }

// OrLogin returns Unauthorized instead of PaymentRequired if the caller has no credential and a token
// would help: clients begin a login only after a 401.
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
	return problem.Wrap(problem.Unauthorized, err, "%s; or log in at %s", problem.Of(err).Text(), strings.Join(issuers, " or "))
}

// Line has the attributes of a request's line in the log.
type Line struct {
	Protocol     string // message of the line
	Method, Path string
	Began        time.Time
	What         string // operation, in the protocol's words
	IsCall       bool   // the request is a call, even if it is refused before its message is read
	Pair         string // pair of the message
	Accepted     bool   // the call was accepted, now or before, so the pipeline logs it
	IsAside      bool   // calls of the request have lines of their own
	Cut          call.Cut
}

// Limits for strings in log lines, in bytes of JSON.
const (
	maxPath  = 90
	maxCause = 180
)

// Log writes the line of a request. The pipeline writes the row of a call that it accepts, so a
// request whose call was accepted, now or before, has no row of its own.
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
		attrs = append(attrs, slog.String(obs.Operation, l.What))
	}
	if isRow || l.Pair != "" {
		attrs = append(attrs, slog.String(obs.Pair, cmp.Or(l.Pair, ">"+c.Vacant.ID.Short())))
	}
	if l.Cut != "" {
		attrs = append(attrs, slog.String(obs.Cut, string(l.Cut)))
	}
	if level == slog.LevelError {
		attrs = append(attrs, slog.String("cause", obs.Clip(cause.Error(), maxCause)))
	}
	attrs = append(attrs, slog.String(obs.Verdict, verdict), slog.Int(obs.Status, status), obs.Took(c.s.Now().Sub(l.Began)))
	c.s.Log.LogAttrs(ctx, level, l.Protocol, attrs...)
}
