// Package push delivers the events of tasks to URLs of callers.
//
// The events of a configuration are delivered in order, each at least once unless a limit is
// reached. Each attempt needs a slot. The slots are limited in total, per sender and per host of
// the URL, so that a slow URL of one sender does not delay other senders. A delivery goes only to
// addresses to which the vacant itself may connect, and follows no redirects.
package push

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	// After MaxDeliveries-1 deliveries, artifacts are not delivered any more.
	MaxDeliveries = 100
	// After maxLiveDeliveries deliveries, artifacts wait for the next status event.
	maxLiveDeliveries = MaxDeliveries / 2
	maxJoinedBytes    = 256 << 10
	// A delivery larger than maxBodyBytes is sent without its texts, or skipped if it is an
	// artifact.
	maxBodyBytes = 1 << 20

	// All attempts of a task may send baseTaskBytes plus taskSizeFactor times the size of its events.
	// Half of these bytes are reserved for the end of the task.
	baseTaskBytes  = 64 << 10
	taskSizeFactor = task.MaxPushConfigs
	// maxHourlyAddressBytes and maxHourlyAccountBytes limit the bytes that a sender's deliveries have per hour.
	maxHourlyAddressBytes = 64 << 20
	maxHourlyAccountBytes = 1 << 30

	requestTimeout = 10 * time.Second
	maxReplyBytes  = 4 << 10
	maxHeaderBytes = 2 << 10 // for each of token, scheme and credentials
	maxURLBytes    = 2 << 10
)

// MaxTaskBytes returns the byte limit of all deliveries of a task whose events have the given size.
func MaxTaskBytes(size int) int { return baseTaskBytes + taskSizeFactor*size }

const maxRetryAfter = time.Hour

var backoff = []time.Duration{time.Second, 5 * time.Second, 25 * time.Second, 125 * time.Second}

// SignatureHeader carries the vacant's signature of the body, a detached JWS.
const SignatureHeader = "Vacancy-Notification"

type Client interface {
	CheckPermission(ctx context.Context, as outbound.Actor, url string) error
	Do(ctx context.Context, as outbound.Actor, r outbound.Request) (outbound.Reply, error)
}

type Config struct {
	Tasks         *task.Engine
	Client        Client
	WithSigner    func(ctx context.Context, id identity.ID, fn func(identity.Signer) error) error
	AllowLoopback bool
	Log           *slog.Logger
	Now           func() time.Time
	// If Notices is nil, Run delivers the events.
	Notices task.Notices
}

type Pusher struct {
	Config
	schedule
}

// New returns a Pusher. If Notices is nil, the caller must call Run.
func New(c Config) *Pusher {
	p := &Pusher{Config: c, schedule: newSchedule()}
	if c.Notices == nil {
		c.Tasks.OnPushWork(p.markPending)
	}
	return p
}

// CheckConfig returns an error unless a configuration is acceptable for a vacant.
func (p *Pusher) CheckConfig(ctx context.Context, vacant identity.ID, c *task.PushConfig) error {
	if len(c.URL) > maxURLBytes {
		return problem.Invalid("url", "at most 2048 bytes", "more")
	}
	u, err := outbound.ParseURL(c.URL)
	if err != nil {
		return problem.Wrap(problem.Malformed, err, "url: %s", problem.AsError(err).Text())
	}
	isThisMachine := outbound.IsThisMachine(u.Hostname())
	switch reason := outbound.AddressRefusal(u.Hostname()); {
	case isThisMachine && p.AllowLoopback:
	case u.Scheme != "https":
		return problem.Invalid("url", "an https URL", u.Scheme)
	case isThisMachine, reason != "": // host names are resolved and checked when a delivery connects
		return problem.Invalid("url", "a public address", "a private address")
	}
	for field, text := range map[string]string{"token": c.Token, "authentication.scheme": c.Scheme, "authentication.credentials": c.Credentials} {
		if len(text) > maxHeaderBytes || strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
			return problem.Invalid(field, "at most 2048 printable ASCII characters", "a longer text or other characters")
		}
	}
	if strings.Contains(c.Scheme, " ") || c.Scheme == "" && c.Credentials != "" {
		return problem.Invalid("authentication.scheme", "one word", "none or several")
	}
	return p.Client.CheckPermission(ctx, outbound.VacantActor(vacant, outbound.Stranger), c.URL)
}
