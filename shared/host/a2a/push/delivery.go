package push

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/network/jws"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// claimTime is how long a process has exclusive use of a configuration after the start of an
// attempt.
const claimTime = timeout + 5*time.Second

// delivery is a request to a receiver. It contains the encoded bodies but not the task, so that
// waiting deliveries use little memory.
type delivery struct {
	through int  // number of the last event that it reports
	piece   bool // whether it contains a piece of an artifact
	end     bool // whether it reports the end of the task
	bytes   int  // limit in bytes of all deliveries of the task, including this one

	media string
	body  []byte // nil if it is larger than maxBody
	bare  []byte // body without texts
}

// nextDelivery returns the next delivery of a configuration, or nil if no events remain. A repeated
// delivery contains the same events.
func nextDelivery(push *task.Push, b *task.Backlog) *delivery {
	if push.Through > 0 {
		if d := findDelivery(push, b, b.Events[:min(push.Through, len(b.Events))]); d != nil {
			return d
		}
		push.Through, push.Try = 0, 0 // the artifacts among its events were withdrawn
	}
	return findDelivery(push, b, b.Events)
}

func findDelivery(push *task.Push, b *task.Backlog, events []task.Numbered) *delivery {
	if push.Whole {
		return pack(push, b, task.Event{Task: b.At(len(events))}, len(events))
	}
	for i := push.Delivered; i < len(events); i++ {
		e := events[i].Event
		last := b.State.Terminal() && i == len(b.Events)-1
		state := task.Working // state for a piece of an artifact
		switch {
		case e.Task != nil:
			state = e.Task.Status.State
		case e.Status != nil:
			state = e.Status.State
		}
		switch {
		case last:
		case e.IsEmpty(), push.Quiet && state.Active(), e.Artifact != nil && push.Count >= MaxDeliveries-1:
			continue
		case e.Artifact != nil:
			joined := *e.Artifact
			for i+1 < len(events) && canJoin(&joined, events[i+1].Event) {
				i++
				joined.Join(events[i].Artifact)
			}
			if push.Count >= maxLive && push.Through == 0 && i == len(b.Events)-1 {
				return nil // the artifact waits for the next status event
			}
			e = task.Event{Artifact: &joined}
		}
		return pack(push, b, e, i+1)
	}
	return nil
}

func canJoin(c *task.Chunk, e task.Event) bool {
	return e.Artifact != nil && e.Artifact.Artifact.ID == c.Artifact.ID && c.Size()+e.Artifact.Size() <= maxJoined
}

func pack(push *task.Push, b *task.Backlog, e task.Event, through int) *delivery {
	d := &delivery{through: through, piece: e.Artifact != nil, end: b.State.Terminal() && through == len(b.Events), bytes: MaxTaskBytes(b.Size)}
	if !d.end {
		d.bytes /= 2
	}
	c := &push.Config
	// Version 0.3 delivers the task, and version 1.0 delivers the event.
	if dialect := a2awire.Dialect(c.Dialect); dialect == a2awire.V03 {
		d.media = "application/json"
		now := b.At(through)
		shown := now.View(nil, c.Extension)
		d.body, d.bare = a2awire.EncodeTask(dialect, &shown), a2awire.EncodeTask(dialect, withoutTexts(now))
	} else {
		d.media = "application/a2a+json"
		first := b.Events[0].Task // all events have the same ids
		d.body = a2awire.StreamResult(dialect, first, e.View(nil, c.Extension))
		if e.Task != nil {
			e.Task = withoutTexts(e.Task)
		} else if e.Status != nil {
			e.Status = &task.Status{State: e.Status.State, Time: e.Status.Time}
		}
		d.bare = a2awire.StreamResult(dialect, first, e)
	}
	if len(d.body) > maxBody {
		d.body = nil // do not keep it in memory while the delivery waits for its receiver
	}
	return d
}

func withoutTexts(t *task.Task) *task.Task {
	return &task.Task{ID: t.ID, Context: t.Context, Status: task.Status{State: t.Status.State, Time: t.Status.Time}}
}

// errGivenUp means that no more deliveries follow for a configuration.
var errGivenUp = errors.New("the deliveries have ended")

// attempt sends a delivery once and stores the result. If the delivery failed, after is the time until
// the next attempt. The error is errGivenUp or an error of task.Engine.SaveProgress.
func (p *Pusher) attempt(ctx context.Context, push *task.Push, d *delivery) (after time.Duration, err error) {
	push.Busy, push.Through = p.Now().Add(claimTime), d.through
	body, why := d.body, error(nil)
	spend := task.Spend{Bytes: len(d.body), OfTask: d.bytes, OfSender: addressBytes}
	if _, ok := push.Task.Owner.Account(); ok {
		spend.OfSender = accountBytes
	}
	if d.body == nil {
		why = problem.New(problem.TooLarge, "a delivery of more than %d bytes", maxBody)
	} else if err := p.Tasks.SaveProgress(ctx, push, spend); errors.Is(err, task.ErrSpent) {
		why = err
	} else if err != nil {
		return 0, err
	}
	switch {
	case why != nil && d.piece: // the receiver can read the artifact from the task
		if errors.Is(why, task.ErrSpent) {
			push.Count = max(push.Count, maxLive)
		}
		p.markDelivered(push, d)
		return 0, p.Tasks.SaveProgress(ctx, push, task.Spend{})
	case why != nil:
		body = d.bare
		if err := p.Tasks.SaveProgress(ctx, push, task.Spend{}); err != nil {
			return 0, err
		}
	}
	retryAfter, failed := p.send(ctx, push, body, d.media)
	switch {
	case failed == nil:
		push.Count++
		push.Quiet = false
		p.markDelivered(push, d)
		return 0, nil
	case problem.Is(failed, problem.Forbidden), problem.Is(failed, problem.Gone):
		p.logEnd(ctx, push, failed)
		return 0, errGivenUp
	case push.Try < len(backoff):
		after = max(backoff[push.Try], retryAfter)
		push.Try++
		push.Busy = p.Now().Add(after)
		return after, p.Tasks.SaveProgress(ctx, push, task.Spend{})
	}
	p.logEnd(ctx, push, failed)
	if d.end {
		return 0, errGivenUp
	}
	push.Quiet = true
	p.markDelivered(push, d)
	return 0, p.Tasks.SaveProgress(ctx, push, task.Spend{})
}

func (p *Pusher) markDelivered(push *task.Push, d *delivery) {
	push.Delivered, push.Through, push.Try, push.Whole, push.Busy = d.through, 0, 0, false, time.Time{}
}

func (p *Pusher) logEnd(ctx context.Context, push *task.Push, why error) {
	p.Log.LogAttrs(ctx, slog.LevelWarn, "push notifications end", slog.String("task", push.Task.ID), slog.String("cause", why.Error()))
}

func (p *Pusher) send(ctx context.Context, push *task.Push, body []byte, media string) (retryAfter time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := &push.Config
	header := http.Header{"Content-Type": {media}}
	if c.Credentials != "" {
		header.Set("Authorization", c.Scheme+" "+c.Credentials)
	}
	if c.Token != "" {
		header.Set("A2A-Notification-Token", c.Token)
		header.Set("X-A2A-Notification-Token", c.Token) // name of the header in version 0.3
	}
	err = p.Sign(ctx, push.Task.Vacant, func(s identity.Signer) error {
		protected, signature, err := jws.Sign(ctx, s, body,
			canon.Member{Key: "url", Value: canon.NewString(push.Config.URL)}, canon.Member{Key: "iat", Value: canon.NewInt(p.Now().Unix())})
		header.Set(SignatureHeader, protected+".."+signature)
		return err
	})
	if err != nil {
		return 0, err
	}
	reply, err := p.Client.Do(ctx, outbound.VacantActor(push.Task.Vacant, outbound.Stranger), outbound.Request{Method: http.MethodPost, URL: c.URL, Header: header, Body: body, MaxReply: maxReply})
	switch {
	case problem.Is(err, problem.TooLarge): // the status was 2xx, and the body is not used
		return 0, nil
	case err != nil:
		return 0, err
	case reply.Status == http.StatusGone:
		return 0, problem.New(problem.Gone, "%s answered with status 410 (gone)", hostOf(c.URL))
	case reply.Status < 200 || reply.Status > 299:
		return p.retryAfter(reply.Header), problem.New(problem.Unavailable, "%s answered %d", hostOf(c.URL), reply.Status)
	}
	return 0, nil
}

// retryAfter returns the wait in the Retry-After header, limited to maxRetryAfter, or zero if the
// header is missing or invalid.
func (p *Pusher) retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	var wait time.Duration
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if retryTime, err := http.ParseTime(value); err == nil {
		wait = retryTime.Sub(p.Now())
	}
	return min(max(wait, 0), maxRetryAfter)
}

func hostOf(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}
