// Package push delivers the events of tasks to the URLs that callers gave.
//
// The invariants: the events of a configuration are delivered in their order, each at
// least once, the next after the one before; what a caller's URL does reaches nobody
// else; a delivery goes where the vacant itself may go, and follows no redirect.
package push

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call/task"
	"github.com/vacancy-host/vacancy/shared/host/network/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/network/jws"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Limits of deliveries.
const (
	// MaxDeliveries is how many events of a task are delivered. Of later ones only those of
	// its status are, so that a receiver hears of the end whatever came before.
	MaxDeliveries = 100
	timeout       = 10 * time.Second
	maxReply      = 4 << 10
	maxHeader     = 2 << 10 // bytes of token and credentials
	maxURL        = 2 << 10
	// maxAtOnce is how many configurations are served at once.
	maxAtOnce = 256
	// again is when a configuration that could not be served is looked at again.
	again = time.Second
)

// backoff are the times before the tries after the first.
var backoff = []time.Duration{time.Second, 5 * time.Second, 25 * time.Second, 125 * time.Second}

// SignatureHeader carries the vacant's signature: a JWS without its payload, which is
// the body. Its protected header names the URL and the time.
const SignatureHeader = "Vacancy-Notification"

// Config holds the dependencies of a Pusher.
type Config struct {
	Tasks  *task.Engine
	Client *outbound.Client
	// Sign calls fn with the signer of a vacant.
	Sign func(ctx context.Context, id identity.ID, fn func(identity.Signer) error) error
	// AllowLoopback allows http URLs of this machine.
	AllowLoopback bool
	Log           *slog.Logger
	Now           func() time.Time
	// Wait sleeps between tries and ends early with ctx; nil: it sleeps.
	Wait func(ctx context.Context, d time.Duration) error
	// Notices takes notices that Handle is to get after a while; nil: Run delivers.
	Notices task.Notices
}

// Pusher delivers.
type Pusher struct {
	Config

	mu     sync.Mutex
	active map[string]bool // by Push.Name
	again  chan struct{}
}

// New returns a Pusher.
func New(c Config) *Pusher {
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	return &Pusher{Config: c, active: map[string]bool{}, again: make(chan struct{}, 1)}
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

// Run delivers until ctx ends, and returns when the deliveries under way have ended. It
// serves the configurations in the store, and those that this process adds.
func (p *Pusher) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		added, done := p.Tasks.Pushed()
		if err := p.begin(ctx, &running); err != nil && ctx.Err() == nil {
			p.Log.LogAttrs(ctx, slog.LevelError, "push notifications", slog.String("cause", err.Error()))
			time.AfterFunc(again, p.wake)
		}
		select {
		case <-added:
		case <-p.again:
		case <-ctx.Done():
		}
		done()
		if ctx.Err() != nil {
			return
		}
	}
}

// begin serves the configurations that nobody serves yet.
func (p *Pusher) begin(ctx context.Context, running *sync.WaitGroup) error {
	for cursor := ""; ; {
		page, next, err := p.Tasks.OpenPushes(ctx, cursor)
		if err != nil {
			return err
		}
		for i := range page {
			one := &page[i]
			if !p.take(one.Name()) {
				continue
			}
			running.Go(func() {
				name := one.Name()
				ended := p.serve(ctx, one)
				p.give(name)
				if !ended {
					time.AfterFunc(again, p.wake)
				}
			})
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

func (p *Pusher) wake() {
	select {
	case p.again <- struct{}{}:
	default: // Run will look anyway
	}
}

func (p *Pusher) take(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active[name] || len(p.active) >= maxAtOnce {
		return false
	}
	p.active[name] = true
	return true
}

func (p *Pusher) give(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.active, name)
}

// serve delivers the events of one configuration until its task ends, it fails for
// good or ctx ends. It reports whether there is nothing more to do.
func (p *Pusher) serve(ctx context.Context, one *task.Push) (ended bool) {
	var now task.Task
	var failed error
	err := p.Tasks.FollowTurn(ctx, one.Task, 0, func(n task.Numbered) bool {
		now.Apply(n.Event)
		if n.N <= one.Delivered || skips(n) {
			return true
		}
		if failed = p.deliver(ctx, one, n, &now); failed == nil {
			failed = p.Tasks.Note(ctx, one, n.N, false)
		}
		return failed == nil
	})
	switch {
	case ctx.Err() != nil, errors.Is(failed, store.ErrUnavailable):
		return false
	case store.IsConflict(failed): // removed or replaced
		return false
	case err != nil && !errors.Is(err, task.ErrNotFound):
		p.Log.LogAttrs(ctx, slog.LevelError, "push notifications", slog.String("cause", err.Error()))
		return false
	case failed != nil:
		p.logEnd(ctx, one, failed)
	case !now.Status.State.Terminal():
		return true // until the next turn
	}
	return p.Tasks.Note(ctx, one, one.Delivered, true) == nil
}

// skips reports whether an event is a piece of an answer beyond MaxDeliveries.
func skips(n task.Numbered) bool { return n.N > MaxDeliveries && n.Artifact != nil }

// logEnd logs why the deliveries of a configuration end before its task.
func (p *Pusher) logEnd(ctx context.Context, one *task.Push, why error) {
	p.Log.LogAttrs(ctx, slog.LevelWarn, "push notifications end", slog.String("task", one.Task.ID), slog.String("cause", why.Error()))
}

// deliver sends one event, and tries again as backoff says.
func (p *Pusher) deliver(ctx context.Context, one *task.Push, n task.Numbered, now *task.Task) error {
	body, media := render(&one.Config, n.Event, now)
	for try := 0; ; try++ {
		err := p.send(ctx, one, body, media)
		if err == nil || try == len(backoff) || problem.Is(err, problem.Forbidden) {
			return err
		}
		if p.Wait(ctx, backoff[try]) != nil {
			return err
		}
	}
}

// render returns the body of a delivery: in 0.3 the task, in 1.0 the event.
func render(c *task.PushConfig, e task.Event, now *task.Task) (body []byte, media string) {
	d := a2awire.Dialect(c.Dialect)
	if d == a2awire.V03 {
		shown := now.View(nil, c.Extension)
		return a2awire.Task(d, &shown), "application/json"
	}
	return a2awire.StreamResult(d, now, e.View(nil, c.Extension)), "application/a2a+json"
}

func (p *Pusher) send(ctx context.Context, one *task.Push, body []byte, media string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := &one.Config
	header := http.Header{"Content-Type": {media}}
	if c.Credentials != "" {
		header.Set("Authorization", c.Scheme+" "+c.Credentials)
	}
	if c.Token != "" {
		header.Set("A2A-Notification-Token", c.Token)
		header.Set("X-A2A-Notification-Token", c.Token) // its name in 0.3
	}
	signature, err := p.sign(ctx, one, body)
	if err != nil {
		return err
	}
	header.Set(SignatureHeader, signature)
	reply, err := p.Client.Do(ctx, outbound.Vacant(one.Task.Vacant, outbound.Stranger), outbound.Request{Method: http.MethodPost, URL: c.URL, Header: header, Body: body, MaxReply: maxReply})
	switch {
	case problem.Is(err, problem.TooLarge): // its status was good; nobody reads the rest
		return nil
	case err != nil:
		return err
	case reply.Status < 200 || reply.Status > 299:
		return problem.New(problem.Unavailable, "%s answered %d", host(c.URL), reply.Status)
	}
	return nil
}

// sign signs a delivery for its URL and the time.
func (p *Pusher) sign(ctx context.Context, one *task.Push, body []byte) (detached string, err error) {
	err = p.Sign(ctx, one.Task.Vacant, func(s identity.Signer) error {
		protected, signature, err := jws.Sign(ctx, s, body,
			canon.Member{Key: "url", Value: canon.NewString(one.Config.URL)}, canon.Member{Key: "iat", Value: canon.NewInt(p.Now().Unix())})
		detached = protected + ".." + signature
		return err
	})
	return detached, err
}

// host is what may be logged of a caller's URL.
func host(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return "the URL"
	}
	return u.Host
}
