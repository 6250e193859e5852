// Package push delivers the events of tasks to the URLs that callers gave.
//
// The invariants: the events of a configuration are delivered in their order, the next after
// the one before, each at least once unless a bound is reached; the end of a task is always
// told, if need be without its texts. No try begins after its configuration was removed or
// replaced. What a caller's URL does delays no other sender's deliveries: waits between tries take no
// slot, and slots are shared by sender and by host of the URL. A delivery goes where the vacant
// itself may go, and follows no redirect.
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

// Limits of deliveries.
const (
	// MaxDeliveries bounds the deliveries of a configuration, statuses not counted. The
	// last one is reserved for the end of the task.
	MaxDeliveries = 100
	// maxLive is the number of deliveries after which pieces of an artifact wait for the
	// next status instead of being delivered as they come.
	maxLive = MaxDeliveries / 2
	// maxJoined ends a delivery of joined pieces, in bytes.
	maxJoined = 256 << 10
	// maxBody is the size of a delivery in bytes. A larger one is sent without its texts.
	maxBody = 1 << 20

	// All deliveries of a task together may send taskBytes, and taskTimes the size of its
	// events. Failed tries count. Half of the sum is reserved for the end of the task.
	taskBytes = 64 << 10
	taskTimes = task.MaxPushConfigs
	// Bytes that all tasks of a sender together may send in an hour.
	addressBytes = 64 << 20
	accountBytes = 1 << 30

	timeout   = 10 * time.Second
	maxReply  = 4 << 10
	maxHeader = 2 << 10 // bytes of token and credentials
	maxURL    = 2 << 10
)

// BytesOfTask returns the number of bytes that the deliveries of a task may send, given
// the stored size of its events. Statuses without texts are not counted.
func BytesOfTask(size int) int { return taskBytes + taskTimes*size }

// maxRetryAfter limits the wait that a receiver may ask for.
const maxRetryAfter = time.Hour

// backoff are the times before the tries after the first, unless the receiver asks for more.
var backoff = []time.Duration{time.Second, 5 * time.Second, 25 * time.Second, 125 * time.Second}

// SignatureHeader carries the vacant's signature: a JWS without its payload, which is
// the body. Its protected header names the URL and the time.
const SignatureHeader = "Vacancy-Notification"

// Client sends requests: an *outbound.Client.
type Client interface {
	Permit(ctx context.Context, as outbound.Actor, url string) error
	Do(ctx context.Context, as outbound.Actor, r outbound.Request) (outbound.Reply, error)
}

// Config holds the dependencies of a Pusher.
type Config struct {
	Tasks  *task.Engine
	Client Client
	// Sign calls fn with the signer of a vacant.
	Sign func(ctx context.Context, id identity.ID, fn func(identity.Signer) error) error
	// AllowLoopback allows http URLs of this machine.
	AllowLoopback bool
	Log           *slog.Logger
	Now           func() time.Time
	// Notices takes notices that Handle gets after a while. With nil, Run delivers
	// instead.
	Notices task.Notices
}

// Pusher delivers, by Run or by Handle.
type Pusher struct {
	Config
	schedule
}

// New returns a Pusher. In a process that runs it, Tasks tells it of configurations.
func New(c Config) *Pusher {
	p := &Pusher{Config: c, schedule: newSchedule()}
	if c.Notices == nil {
		c.Tasks.OnPush(p.look)
	}
	return p
}

// Check returns why a configuration for a task of a vacant is refused.
func (p *Pusher) Check(ctx context.Context, vacant identity.ID, c *task.PushConfig) error {
	if len(c.URL) > maxURL {
		return problem.Invalid("url", "at most 2048 bytes", "more")
	}
	u, err := outbound.ParseURL(c.URL)
	if err != nil {
		return problem.Wrap(problem.Malformed, err, "url: %s", problem.Of(err).Text())
	}
	here := outbound.IsThisMachine(u.Hostname())
	switch reason := outbound.RefusedAddress(u.Hostname()); {
	case here && p.AllowLoopback:
	case u.Scheme != "https":
		return problem.Invalid("url", "an https URL", u.Scheme)
	case here, reason != "": // names are resolved when they are dialled, and refused then
		return problem.Invalid("url", "a public address", "another")
	}
	for field, text := range map[string]string{"token": c.Token, "authentication.scheme": c.Scheme, "authentication.credentials": c.Credentials} {
		if len(text) > maxHeader || strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
			return problem.Invalid(field, "at most 2048 printable ASCII characters", "others")
		}
	}
	if strings.Contains(c.Scheme, " ") || c.Scheme == "" && c.Credentials != "" {
		return problem.Invalid("authentication.scheme", "one word", "another")
	}
	return p.Client.Permit(ctx, outbound.Vacant(vacant, outbound.Stranger), c.URL)
}
