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

const (
	// handleTime bounds the work on one notice: what is left is done by the next one. Slow
	// receivers keep no others waiting for longer.
	handleTime = 45 * time.Second
	// A task whose turn runs is looked at again after FirstLook, and ever more seldom
	// while nothing happens. The begin and the end of a turn bring notices of their own.
	FirstLook, lastLook = 5 * time.Second, 30 * time.Second
	// claimed is for how long one delivery keeps other processes away.
	claimed = timeout + 5*time.Second
)

// Handle delivers the events that a notice tells of, for a process that runs only while
// it handles a message. It neither waits for events nor sleeps between tries: it sends
// itself another notice. The error is task.ErrAgain or one of the store if the
// notice is to come again.
func (p *Pusher) Handle(ctx context.Context, notice string) error {
	ctx, cancel := context.WithTimeout(ctx, handleTime)
	defer cancel()
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
		one := &b.Open[i]
		next := task.Notice{Task: n.Task, Slot: one.Slot(), Idle: n.Idle}
		g.Go(func() error {
			err := p.catchUp(ctx, one, &b, next)
			if store.IsConflict(err) {
				// It was removed, or another process delivers.
				return p.later(ctx, one, next, FirstLook)
			}
			return err
		})
	}
	return g.Wait()
}

func (p *Pusher) later(ctx context.Context, one *task.Push, n task.Notice, after time.Duration) error {
	return p.Notices.SendAfter(ctx, n.String(), one.Sender(), after)
}

// catchUp delivers what one configuration has not got.
func (p *Pusher) catchUp(ctx context.Context, one *task.Push, b *task.Backlog, next task.Notice) error {
	if one.Delivered < len(b.Events) {
		if wait := one.Busy.Sub(p.Now()); wait > 0 {
			return p.later(ctx, one, next, wait+time.Second)
		}
		next.Idle = 0
		if handled, err := p.deliverAll(ctx, one, b.Events, next); err != nil || handled {
			return err
		}
	}
	if b.State.Terminal() {
		return p.Tasks.Note(ctx, one, one.Delivered, true)
	}
	if !one.Busy.IsZero() {
		one.Busy = time.Time{}
		if err := p.Tasks.Keep(ctx, one); err != nil {
			return err
		}
	}
	if b.State != task.Working {
		return nil // the next turn brings a notice
	}
	after := min(FirstLook<<min(next.Idle, 8), lastLook)
	next.Idle++
	return p.later(ctx, one, next, after)
}

// deliverAll sends the events after those that were delivered. handled reports that the
// rest is up to a later notice, or that the deliveries have ended.
func (p *Pusher) deliverAll(ctx context.Context, one *task.Push, events []task.Numbered, next task.Notice) (handled bool, err error) {
	end := func(why error) (bool, error) {
		p.logEnd(ctx, one, why)
		return true, p.Tasks.Note(ctx, one, one.Delivered, true)
	}
	// wait leaves the rest to a later notice. Nobody else delivers before it.
	wait := func(after time.Duration) (bool, error) {
		one.Busy = p.Now().Add(after)
		if err := p.Tasks.Keep(ctx, one); err != nil {
			return true, err
		}
		return true, p.later(ctx, one, next, after)
	}
	// Before the first delivery, and with the count of each: a claim.
	claim := func() error {
		one.Busy = p.Now().Add(claimed)
		return p.Tasks.Keep(ctx, one)
	}
	if err := claim(); err != nil {
		return true, err
	}
	var now task.Task
	for _, n := range events {
		now.Apply(n.Event)
		if n.N <= one.Delivered || n.IsWithdrawn() || skips(n) {
			continue
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < 2*timeout {
			return wait(0)
		}
		body, media := render(&one.Config, n.Event, &now)
		if err := p.send(ctx, one, body, media); err != nil {
			if one.Try >= len(backoff) || problem.Is(err, problem.Forbidden) {
				return end(err)
			}
			one.Try++
			return wait(backoff[one.Try-1])
		}
		one.Try, one.Delivered = 0, n.N
		if err := claim(); err != nil {
			return true, err
		}
	}
	return false, nil
}
