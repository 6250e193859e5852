// Package push delivers the events of tasks to URLs of callers.
//
// The events of a configuration are delivered one after the other in their order, each at least
// once unless a limit is reached. If necessary, the end of a task is delivered without texts. No
// attempt starts after its configuration was removed or replaced.
//
// Each attempt needs a slot. The slots are limited in total, per sender and per host of the URL, so
// a slow URL of one sender does not delay the deliveries of other senders. A delivery that waits
// for its next attempt holds no slot. A delivery may only go to addresses to which the vacant
// itself may connect, and it follows no redirects.
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
	// After MaxDeliveries-1 deliveries, a configuration gets only statuses and no more artifacts.
	// The last delivery is reserved for the end of the task.
	MaxDeliveries = 100
	// After maxLiveDeliveries deliveries, pieces of an artifact are no longer delivered as they
	// arrive, but together with the next status.
	maxLiveDeliveries = MaxDeliveries / 2
	// maxJoinedBytes limits the size in bytes of joined pieces in one delivery.
	maxJoinedBytes = 256 << 10
	// maxBodyBytes limits the size of a delivery in bytes. A larger delivery is sent without its
	// texts.
	maxBodyBytes = 1 << 20

	// The deliveries of a task, including failed attempts, may together send taskBytes plus
	// taskSizeFactor multiplied by the size of its events. Half of this sum is reserved for the end of
	// the task.
	taskBytes      = 64 << 10
	taskSizeFactor = task.MaxPushConfigs
	// addressBytes and accountBytes limit the bytes that all tasks of a sender may send per hour.
	addressBytes = 64 << 20
	accountBytes = 1 << 30

	requestTimeout = 10 * time.Second
	maxReplyBytes  = 4 << 10
	maxHeaderBytes = 2 << 10 // limit in bytes for each of token, scheme and credentials
	maxURLBytes    = 2 << 10
)

// MaxTaskBytes returns the number of bytes that the deliveries of a task may send, given the stored
// size of its events. Statuses without texts are not counted.
func MaxTaskBytes(size int) int { return taskBytes + taskSizeFactor*size }

// maxRetryAfter limits the wait that a receiver may request.
const maxRetryAfter = time.Hour

// backoff lists the pauses before the second and later attempts. A receiver may request a longer
// pause.
var backoff = []time.Duration{time.Second, 5 * time.Second, 25 * time.Second, 125 * time.Second}

// SignatureHeader carries the vacant's signature, a JWS whose payload is detached because it is the
// body. The protected header contains the URL and the time.
const SignatureHeader = "Vacancy-Notification"

// Client sends requests. *outbound.Client implements it.
type Client interface {
	CheckPermission(ctx context.Context, as outbound.Actor, url string) error
	Do(ctx context.Context, as outbound.Actor, r outbound.Request) (outbound.Reply, error)
}

type Config struct {
	Tasks      *task.Engine
	Client     Client
	WithSigner func(ctx context.Context, id identity.ID, fn func(identity.Signer) error) error
	// AllowLoopback allows http URLs on this machine.
	AllowLoopback bool
	Log           *slog.Logger
	Now           func() time.Time
	// Notices sends delayed notices to Handle. If it is nil, Run delivers the events.
	Notices task.Notices
}

// Pusher delivers events in Run or Handle.
type Pusher struct {
	Config
	schedule
}

// New returns a Pusher. If Notices is nil, Tasks reports new configurations to the Pusher, and the
// caller must call Run.
func New(c Config) *Pusher {
	p := &Pusher{Config: c, schedule: newSchedule()}
	if c.Notices == nil {
		c.Tasks.OnPushWork(p.markPending)
	}
	return p
}

// CheckConfig returns an error unless a configuration for a task of a vacant is acceptable.
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
		return problem.Invalid("url", "a public address", "another")
	}
	for field, text := range map[string]string{"token": c.Token, "authentication.scheme": c.Scheme, "authentication.credentials": c.Credentials} {
		if len(text) > maxHeaderBytes || strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
			return problem.Invalid(field, "at most 2048 printable ASCII characters", "others")
		}
	}
	if strings.Contains(c.Scheme, " ") || c.Scheme == "" && c.Credentials != "" {
		return problem.Invalid("authentication.scheme", "one word", "another")
	}
	return p.Client.CheckPermission(ctx, outbound.VacantActor(vacant, outbound.Stranger), c.URL)
}
