// Package plain serves the protocols whose clients need not sign their messages. Such a client is a
// guest, or an account that is identified by its key or token. The host signs the messages of
// guests and accounts with keys that only the host can derive.
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

type Directory interface {
	message.Directory
	Root(ctx context.Context) (id identity.ID, ok bool, err error)
	BaseURL(ctx context.Context) (string, error)
}

type Config struct {
	Tasks     *task.Engine
	Guests    *guests.Keys
	Directory Directory
	// Identify returns nil if the request has no credential. If the host has no accounts, Identify
	// is nil.
	Identify func(ctx context.Context, r *http.Request) (*call.Payer, error)
	Issuers  func(ctx context.Context, v *vacants.Record) ([]string, error)
	Log      *slog.Logger
	Now      func() time.Time
	// MaxWait limits how long a client waits for a slow vacant. Zero means that a client may wait
	// as long as the turn takes. A process that serves only one request at a time sets MaxWait, and
	// then a stream runs its turn in its own request.
	MaxWait time.Duration
}

type Service struct {
	Config
	Streams, Answers, Lists *RequestLimiter
}

func New(c Config) *Service {
	return &Service{Config: c, Streams: newRequestLimiter(streamLimit), Answers: newRequestLimiter(answerLimit), Lists: newRequestLimiter(listLimit)}
}

type Sender struct {
	Address  netip.Prefix // result of caller.RateLimitPrefix
	Payer    *call.Payer  // nil if the request has no credential
	HasTasks bool
}

// Caller is a sender together with the vacant that it calls. It is safe for concurrent use.
type Caller struct {
	Sender
	Vacant  vacants.Record
	Options conformance.Options

	service *Service
}

// NewCaller returns the sender's Caller for the vacant with a name or an id. A closed child gets
// the same NotFoundError as an unknown or deleted vacant, because the sender cannot prove that it
// is a relative.
func (s *Service) NewCaller(ctx context.Context, sender Sender, name string) (*Caller, error) {
	c := &Caller{Sender: sender, service: s}
	ok := false
	id, err := identity.ParseID(name)
	if err == nil {
		c.Vacant, ok, err = s.Directory.FindCached(ctx, id)
	} else {
		c.Vacant, ok, err = s.Directory.FindCachedByName(ctx, name)
	}
	if err == nil && (!ok || c.Vacant.Closed || c.Vacant.IsDeleted()) {
		err = NotFoundError()
	}
	c.Options = conformance.OptionsOf(c.Vacant.Substrate)
	return c, err
}

func NotFoundError() error {
	return problem.New(problem.NotFound, "no such vacant or path; a card is GET /v/ID, a message is POST /v/ID")
}

// Base returns the host's configured base URL, or otherwise the URL of the request.
func (s *Service) Base(r *http.Request) (string, error) {
	base, err := s.Directory.BaseURL(r.Context())
	if err != nil || base != "" {
		return base, err
	}
	scheme := "https"
	if r.Header.Get("X-Forwarded-Proto") == "http" {
		scheme = "http"
	}
	return scheme + "://" + r.Host, nil
}

func (s *Service) AcceptsKeys(v *vacants.Record) bool {
	return s.Identify != nil && v.KeylessAccess != vacants.KeylessOff
}

func (c *Caller) KeylessAccess() vacants.KeylessAccess {
	if c.Options.SharesTasks && c.Vacant.KeylessAccess == vacants.KeylessOpen {
		return vacants.KeylessShared
	}
	return c.Vacant.KeylessAccess
}

func (c *Caller) CheckKeylessAccess() error {
	if c.KeylessAccess() == vacants.KeylessOff {
		return problem.New(problem.Forbidden, "this vacant answers only signed calls; send one with vacancy call")
	}
	return nil
}

func (c *Caller) Owner() call.Owner {
	switch {
	case c.Payer != nil:
		return c.Payer.Owner()
	case c.KeylessAccess() == vacants.KeylessShared:
		return call.SharedOwner
	}
	return call.GuestOwner
}

func (c *Caller) IsSlow() bool { return c.service.Tasks.Calls.IsSlow(c.Vacant.CallTimeout) }

// SuggestLogin replaces PaymentRequired by Unauthorized if a token would help the caller, because
// clients begin a login only after a 401.
func (c *Caller) SuggestLogin(ctx context.Context, err error) error {
	if !problem.Is(err, problem.PaymentRequired) || c.Payer != nil || c.service.Issuers == nil || !c.service.AcceptsKeys(&c.Vacant) {
		return err
	}
	issuers, issuersErr := c.service.Issuers(ctx, &c.Vacant)
	switch {
	case issuersErr != nil:
		return issuersErr
	case len(issuers) == 0:
		return err
	}
	return problem.Wrap(problem.Unauthorized, err, "%s; or log in at %s", problem.AsError(err).Text(), strings.Join(issuers, " or "))
}

type LogLine struct {
	Message         string
	Method, Path    string
	StartedAt       time.Time
	Operation       string
	IsCall          bool // also true if the call is refused before its message is read
	Pair            string
	Accepted        bool // package call logs the accepted call
	HasOwnCallLines bool
	CutReason       call.CutReason
}

const (
	maxLoggedPath  = 90
	maxLoggedCause = 180
)

// Log writes the log line of a request. Package call logs and counts accepted calls, so their lines
// have the level obs.QuietLevel here.
func (c *Caller) Log(ctx context.Context, l *LogLine, verdict string, status int, cause error) {
	ctx = context.WithoutCancel(ctx)
	level, outcome := slog.LevelInfo, problem.Answered
	switch {
	case l.HasOwnCallLines:
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
	isRefusedCall := !l.Accepted && cause != nil && isCall
	if isRefusedCall {
		c.service.Tasks.Calls.Log.CountUnaccepted(outcome)
	}
	if !c.service.Log.Enabled(ctx, level) {
		return
	}
	path := l.Path
	if rest, ok := strings.CutPrefix(path, "/v/"+c.Vacant.ID.String()); ok {
		path = "/v/" + c.Vacant.ID.Short() + rest
	}
	attrs := []slog.Attr{slog.String("path", obs.Truncate(path, maxLoggedPath))}
	if l.Operation != "" {
		attrs = append(attrs, slog.String(obs.AttrOperation, l.Operation))
	}
	if isRefusedCall || l.Pair != "" {
		attrs = append(attrs, slog.String(obs.AttrPair, cmp.Or(l.Pair, ">"+c.Vacant.ID.Short())))
	}
	if l.CutReason != "" {
		attrs = append(attrs, slog.String(obs.AttrCut, string(l.CutReason)))
	}
	if level == slog.LevelError {
		attrs = append(attrs, slog.String("cause", obs.Truncate(cause.Error(), maxLoggedCause)))
	}
	attrs = append(attrs, slog.String(obs.AttrVerdict, verdict), slog.Int(obs.AttrStatus, status), obs.DurationAttr(c.service.Now().Sub(l.StartedAt)))
	c.service.Log.LogAttrs(ctx, level, l.Message, attrs...)
}
