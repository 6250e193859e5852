package push

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/call/task"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// look is when a task whose turn runs is looked at again.
const look = 2 * time.Second

// Handle delivers the events that a notice tells of, for a process that runs only while
// it handles a message. It neither waits for events nor sleeps between tries: it sends
// itself another notice by Later. The error is task.ErrAgain or one of the store if the
// notice is to come again.
func (p *Pusher) Handle(ctx context.Context, notice string) error {
	n, err := task.ParseNotice(notice)
	if err != nil {
		p.Log.LogAttrs(ctx, slog.LevelError, "push notifications", slog.String("cause", err.Error()))
		return nil
	}
	b, err := p.Tasks.Backlog(ctx, n)
	switch {
	case errors.Is(err, task.ErrAgain) && n.Slot > 0:
		return nil // the task was there before: it has expired
	case err != nil:
		return err
	}
	var g errgroup.Group // what fails with one configuration stops no other
	for i := range b.Open {
		g.Go(func() error {
			err := p.catchUp(ctx, &b.Open[i], &b, n.Try)
			if store.IsConflict(err) {
				return nil // it was removed, replaced or served by another process
			}
			return err
		})
	}
	return g.Wait()
}

// catchUp delivers what one configuration has not got.
func (p *Pusher) catchUp(ctx context.Context, one *task.Push, b *task.Backlog, try int) error {
	later := func(try int, after time.Duration) error {
		return p.Later(ctx, task.Notice{Task: one.Task, Slot: one.Slot(), Try: try}.String(), after)
	}
	var now task.Task
	for _, n := range b.Events {
		now.Apply(n.Event)
		if n.N <= one.Delivered {
			continue
		}
		if one.Delivered >= MaxDeliveries {
			return p.end(ctx, one, problem.New(problem.TooMany, "%d deliveries are all that a configuration has", MaxDeliveries))
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < 2*timeout {
			return later(try, 0)
		}
		body, media := render(&one.Config, n.Event, &now)
		if err := p.send(ctx, one, body, media); err != nil {
			if try >= len(backoff) || problem.Is(err, problem.Forbidden) {
				return p.end(ctx, one, err)
			}
			return later(try+1, backoff[try])
		}
		try = 0
		if err := p.Tasks.Note(ctx, one, n.N, false); err != nil {
			return err
		}
	}
	switch {
	case b.State.Terminal():
		return p.Tasks.Note(ctx, one, one.Delivered, true)
	case b.State == task.InputRequired || b.State == task.AuthRequired:
		return nil // the next turn brings a notice
	}
	return later(0, look)
}

// end ends the deliveries of a configuration before its task.
func (p *Pusher) end(ctx context.Context, one *task.Push, why error) error {
	p.logEnd(ctx, one, why)
	return p.Tasks.Note(ctx, one, one.Delivered, true)
}
