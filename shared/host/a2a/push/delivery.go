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

const claimDuration = requestTimeout + 5*time.Second

// delivery is a request to a receiver. It does not contain the task, so that waiting deliveries use
// little memory.
type delivery struct {
	lastEvent     int
	hasPiece      bool
	isEnd         bool // reports the end of the task
	taskByteLimit int  // for all deliveries of the task

	mediaType        string
	body             []byte // nil if it is larger than maxBodyBytes
	bodyWithoutTexts []byte
}

// nextDelivery returns the next delivery of a configuration, or nil. A repeated delivery contains
// the same events.
func nextDelivery(push *task.ActivePushConfig, b *task.Backlog) *delivery {
	if push.AttemptedEvent > 0 {
		if d := findDelivery(push, b, b.Events[:min(push.AttemptedEvent, len(b.Events))]); d != nil {
			return d
		}
		push.AttemptedEvent, push.FailedTries = 0, 0 // the artifacts among its events were withdrawn
	}
	return findDelivery(push, b, b.Events)
}

func findDelivery(push *task.ActivePushConfig, b *task.Backlog, events []task.NumberedEvent) *delivery {
	if push.SendsTask {
		return newDelivery(push, b, task.Event{Task: b.TaskAfter(len(events))}, len(events))
	}
	for i := push.LastDelivered; i < len(events); i++ {
		e := events[i].Event
		isLast := b.State.IsTerminal() && i == len(b.Events)-1
		state := task.Working
		switch {
		case e.Task != nil:
			state = e.Task.Status.State
		case e.Status != nil:
			state = e.Status.State
		}
		switch {
		case isLast:
		case e.IsEmpty(), push.OnlyTurnEnds && state.IsActive(), e.Artifact != nil && push.DeliveryCount >= MaxDeliveries-1:
			continue
		case e.Artifact != nil:
			joined := *e.Artifact
			for i+1 < len(events) && canJoin(&joined, events[i+1].Event) {
				i++
				joined.Merge(events[i].Artifact)
			}
			if push.DeliveryCount >= maxLiveDeliveries && push.AttemptedEvent == 0 && i == len(b.Events)-1 {
				return nil // the artifact waits for the next status event
			}
			e = task.Event{Artifact: &joined}
		}
		return newDelivery(push, b, e, i+1)
	}
	return nil
}

func canJoin(c *task.Chunk, e task.Event) bool {
	return e.Artifact != nil && e.Artifact.Artifact.ID == c.Artifact.ID && c.Size()+e.Artifact.Size() <= maxJoinedBytes
}

func newDelivery(push *task.ActivePushConfig, b *task.Backlog, e task.Event, lastEvent int) *delivery {
	d := &delivery{lastEvent: lastEvent, hasPiece: e.Artifact != nil, isEnd: b.State.IsTerminal() && lastEvent == len(b.Events), taskByteLimit: MaxTaskBytes(b.EventBytes)}
	if !d.isEnd {
		d.taskByteLimit /= 2
	}
	c := &push.Config
	// Version 0.3 delivers the task, and version 1.0 delivers the event.
	if dialect := a2awire.Dialect(c.Dialect); dialect == a2awire.V03 {
		d.mediaType = "application/json"
		current := b.TaskAfter(lastEvent)
		view := current.View(nil, c.AcceptsEnvelopes)
		d.body, d.bodyWithoutTexts = a2awire.EncodeTask(dialect, &view), a2awire.EncodeTask(dialect, withoutTexts(current))
	} else {
		d.mediaType = "application/a2a+json"
		firstTask := b.Events[0].Task // all events have the same ids
		d.body = a2awire.EncodeStreamResult(dialect, firstTask, e.View(nil, c.AcceptsEnvelopes))
		if e.Task != nil {
			e.Task = withoutTexts(e.Task)
		} else if e.Status != nil {
			e.Status = &task.Status{State: e.Status.State, Time: e.Status.Time}
		}
		d.bodyWithoutTexts = a2awire.EncodeStreamResult(dialect, firstTask, e)
	}
	if len(d.body) > maxBodyBytes {
		d.body = nil // do not keep it in memory while the delivery waits for its receiver
	}
	return d
}

func withoutTexts(t *task.Task) *task.Task {
	return &task.Task{ID: t.ID, Context: t.Context, Status: task.Status{State: t.Status.State, Time: t.Status.Time}}
}

var errPushEnded = errors.New("the deliveries have ended")

// attemptDelivery sends a delivery once and stores the result. If the delivery must be repeated,
// retryIn is the time until the next attempt.
func (p *Pusher) attemptDelivery(ctx context.Context, push *task.ActivePushConfig, d *delivery) (retryIn time.Duration, err error) {
	push.LeaseEnd, push.AttemptedEvent = p.Now().Add(claimDuration), d.lastEvent
	body, refusal := d.body, error(nil)
	cost := task.DeliveryCost{Bytes: len(d.body), TaskLimit: d.taskByteLimit, SenderLimit: maxHourlyAddressBytes}
	if _, ok := push.Task.Owner.Account(); ok {
		cost.SenderLimit = maxHourlyAccountBytes
	}
	if d.body == nil {
		refusal = problem.New(problem.TooLarge, "a delivery of more than %d bytes", maxBodyBytes)
	} else if err := p.Tasks.SaveProgress(ctx, push, cost); errors.Is(err, task.ErrDeliveryLimit) {
		refusal = err
	} else if err != nil {
		return 0, err
	}
	switch {
	case refusal != nil && d.hasPiece: // the receiver can read the artifact from the task
		if errors.Is(refusal, task.ErrDeliveryLimit) {
			push.DeliveryCount = max(push.DeliveryCount, maxLiveDeliveries)
		}
		p.markDelivered(push, d)
		return 0, p.Tasks.SaveProgress(ctx, push, task.DeliveryCost{})
	case refusal != nil:
		body = d.bodyWithoutTexts
		if err := p.Tasks.SaveProgress(ctx, push, task.DeliveryCost{}); err != nil {
			return 0, err
		}
	}
	retryAfter, sendErr := p.sendRequest(ctx, push, body, d.mediaType)
	switch {
	case sendErr == nil:
		push.DeliveryCount++
		push.OnlyTurnEnds = false
		p.markDelivered(push, d)
		return 0, nil
	case problem.Is(sendErr, problem.Forbidden), problem.Is(sendErr, problem.Gone):
		p.logEnd(ctx, push, sendErr)
		return 0, errPushEnded
	case push.FailedTries < len(backoff):
		retryIn = max(backoff[push.FailedTries], retryAfter)
		push.FailedTries++
		push.LeaseEnd = p.Now().Add(retryIn)
		return retryIn, p.Tasks.SaveProgress(ctx, push, task.DeliveryCost{})
	}
	p.logEnd(ctx, push, sendErr)
	if d.isEnd {
		return 0, errPushEnded
	}
	push.OnlyTurnEnds = true
	p.markDelivered(push, d)
	return 0, p.Tasks.SaveProgress(ctx, push, task.DeliveryCost{})
}

func (p *Pusher) markDelivered(push *task.ActivePushConfig, d *delivery) {
	push.LastDelivered, push.AttemptedEvent, push.FailedTries, push.SendsTask, push.LeaseEnd = d.lastEvent, 0, 0, false, time.Time{}
}

func (p *Pusher) logEnd(ctx context.Context, push *task.ActivePushConfig, cause error) {
	p.Log.LogAttrs(ctx, slog.LevelWarn, "push notifications end", slog.String("task", push.Task.ID), slog.String("cause", cause.Error()))
}

func (p *Pusher) sendRequest(ctx context.Context, push *task.ActivePushConfig, body []byte, media string) (retryAfter time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	c := &push.Config
	header := http.Header{"Content-Type": {media}}
	if c.Credentials != "" {
		header.Set("Authorization", c.Scheme+" "+c.Credentials)
	}
	if c.Token != "" {
		header.Set("A2A-Notification-Token", c.Token)
		header.Set("X-A2A-Notification-Token", c.Token) // version 0.3
	}
	err = p.WithSigner(ctx, push.Task.Vacant, func(s identity.Signer) error {
		protected, signature, err := jws.Sign(ctx, s, body,
			canon.Member{Key: "url", Value: canon.NewString(push.Config.URL)}, canon.Member{Key: "iat", Value: canon.NewInt(p.Now().Unix())})
		header.Set(SignatureHeader, protected+".."+signature)
		return err
	})
	if err != nil {
		return 0, err
	}
	reply, err := p.Client.Do(ctx, outbound.VacantActor(push.Task.Vacant, outbound.Stranger), outbound.Request{Method: http.MethodPost, URL: c.URL, Header: header, Body: body, MaxReply: maxReplyBytes})
	switch {
	case problem.Is(err, problem.TooLarge): // the status was 2xx
		return 0, nil
	case err != nil:
		return 0, err
	case reply.Status == http.StatusGone:
		return 0, problem.New(problem.Gone, "%s answered with status 410 (gone)", hostOf(c.URL))
	case reply.Status < 200 || reply.Status > 299:
		return p.parseRetryAfter(reply.Header), problem.New(problem.Unavailable, "%s answered %d", hostOf(c.URL), reply.Status)
	}
	return 0, nil
}

func (p *Pusher) parseRetryAfter(h http.Header) time.Duration {
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
