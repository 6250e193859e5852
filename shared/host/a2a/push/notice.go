package push

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/store"
)

const (
	// handleTime limits the time that is spent on one notice. The next notice continues the work. A
	// slow receiver therefore delays other receivers by at most this time.
	handleTime = 20 * time.Second
	// While a turn runs, its task is checked after FirstCheckInterval. As long as no event arrives, the
	// interval doubles up to lastLook. The start and the end of a turn send their own notices.
	FirstCheckInterval, lastLook = 5 * time.Second, 30 * time.Second
)

func checkInterval(idle int) time.Duration { return min(FirstCheckInterval<<min(idle, 8), lastLook) }

// Handle delivers the events that a notice announces. It is for a process that runs only while it
// handles a message. Instead of waiting for events or the next attempt, Handle sends another
// notice. If the error is task.ErrAgain or an error of the store, the caller must handle the notice
// again.
func (p *Pusher) Handle(ctx context.Context, notice string) error {
	ctx, cancel := context.WithTimeout(ctx, handleTime+timeout)
	defer cancel()
	n, err := task.ParseNotice(notice)
	if err != nil {
		p.Log.LogAttrs(ctx, slog.LevelError, "push notifications", slog.String("cause", err.Error()))
		return nil
	}
	b, err := p.Tasks.Backlog(ctx, n)
	switch {
	case errors.Is(err, task.ErrAgain) && n.Slot > 0:
		return nil // the task existed earlier and has expired
	case err != nil:
		return err
	}
	// An error of one configuration must not stop the others, so the group has no context.
	var g errgroup.Group
	for i := range b.Open {
		push := &b.Open[i]
		if n.SetAt != 0 && n.SetAt != push.SetAt {
			continue // the configuration was replaced and has its own notices
		}
		next := task.Notice{Task: n.Task, Slot: push.Slot(), Idle: n.Idle, SetAt: push.SetAt}
		g.Go(func() error {
			err := p.catchUp(ctx, push, &b, next)
			if store.IsConflict(err) {
				// The configuration was removed, or another process delivers its events.
				return p.later(ctx, push, next, FirstCheckInterval)
			}
			return err
		})
	}
	return g.Wait()
}

func (p *Pusher) later(ctx context.Context, push *task.Push, n task.Notice, after time.Duration) error {
	return p.Notices.SendAfter(ctx, n.String(), push.Sender(), after)
}

func (p *Pusher) catchUp(ctx context.Context, push *task.Push, b *task.Backlog, n task.Notice) error {
	until := p.Now().Add(handleTime - timeout)
	tried := !push.Busy.IsZero()
	for {
		d := nextDelivery(push, b)
		if d == nil {
			break
		}
		n.Idle = 0
		if wait := push.Busy.Sub(p.Now()); wait > 0 {
			return p.later(ctx, push, n, wait+time.Second)
		}
		if p.Now().After(until) {
			if err := p.Tasks.SaveProgress(ctx, push, task.Spend{}); err != nil {
				return err
			}
			return p.later(ctx, push, n, 0)
		}
		tried = true
		after, err := p.attempt(ctx, push, d)
		switch {
		case errors.Is(err, errGivenUp):
			return p.Tasks.EndPush(ctx, push)
		case err != nil:
			return err
		case after > 0:
			return p.later(ctx, push, n, after)
		}
	}
	if b.State.Terminal() {
		return p.Tasks.EndPush(ctx, push)
	}
	if tried {
		push.Busy = time.Time{}
		if err := p.Tasks.SaveProgress(ctx, push, task.Spend{}); err != nil {
			return err
		}
	}
	if b.State != task.Working {
		return nil // the next turn sends a notice
	}
	after := checkInterval(n.Idle)
	n.Idle++
	return p.later(ctx, push, n, after)
}
