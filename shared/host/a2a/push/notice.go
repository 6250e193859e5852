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
	// handleTimeout limits the time that a slow receiver delays other receivers.
	handleTimeout = 20 * time.Second
	// While no event arrives, the interval between checks of a running turn doubles.
	FirstCheckInterval, maxCheckInterval = 5 * time.Second, 30 * time.Second
)

func checkInterval(idle int) time.Duration {
	return min(FirstCheckInterval<<min(idle, 8), maxCheckInterval)
}

// Handle delivers the events that a notice announces. Processes that do not run continuously call
// Handle instead of Run. If it returns an error, the caller must handle the notice again.
func (p *Pusher) Handle(ctx context.Context, notice string) error {
	ctx, cancel := context.WithTimeout(ctx, handleTimeout+requestTimeout)
	defer cancel()
	n, err := task.ParseNotice(notice)
	if err != nil {
		p.Log.LogAttrs(ctx, slog.LevelError, "push notifications", slog.String("cause", err.Error()))
		return nil
	}
	b, err := p.Tasks.ReadBacklog(ctx, n)
	switch {
	case errors.Is(err, task.ErrRetryLater) && n.Slot > 0:
		return nil // the task has expired
	case err != nil:
		return err
	}
	// An error of one configuration must not stop the others, so the group has no context.
	var g errgroup.Group
	for i := range b.ActivePushConfigs {
		push := &b.ActivePushConfigs[i]
		if n.ConfigVersion != 0 && n.ConfigVersion != push.ConfigVersion {
			continue // the configuration was replaced and has its own notices
		}
		next := task.Notice{Task: n.Task, Slot: push.Slot(), IdleChecks: n.IdleChecks, ConfigVersion: push.ConfigVersion}
		g.Go(func() error {
			err := p.deliverPending(ctx, push, &b, next)
			if store.IsConflict(err) {
				// The configuration was removed, or another process delivers its events.
				return p.sendNotice(ctx, push, next, FirstCheckInterval)
			}
			return err
		})
	}
	return g.Wait()
}

func (p *Pusher) sendNotice(ctx context.Context, push *task.ActivePushConfig, n task.Notice, delay time.Duration) error {
	return p.Notices.SendAfter(ctx, n.String(), push.Sender(), delay)
}

func (p *Pusher) deliverPending(ctx context.Context, push *task.ActivePushConfig, b *task.Backlog, n task.Notice) error {
	deadline := p.Now().Add(handleTimeout - requestTimeout)
	isClaimed := !push.LeaseEnd.IsZero()
	for {
		d := nextDelivery(push, b)
		if d == nil {
			break
		}
		n.IdleChecks = 0
		if wait := push.LeaseEnd.Sub(p.Now()); wait > 0 {
			return p.sendNotice(ctx, push, n, wait+time.Second)
		}
		if p.Now().After(deadline) {
			if err := p.Tasks.SaveProgress(ctx, push, task.DeliveryCost{}); err != nil {
				return err
			}
			return p.sendNotice(ctx, push, n, 0)
		}
		isClaimed = true
		retryIn, err := p.attemptDelivery(ctx, push, d)
		switch {
		case errors.Is(err, errPushEnded):
			return p.Tasks.EndDeliveries(ctx, push)
		case err != nil:
			return err
		case retryIn > 0:
			return p.sendNotice(ctx, push, n, retryIn)
		}
	}
	if b.State.IsTerminal() {
		return p.Tasks.EndDeliveries(ctx, push)
	}
	if isClaimed {
		push.LeaseEnd = time.Time{}
		if err := p.Tasks.SaveProgress(ctx, push, task.DeliveryCost{}); err != nil {
			return err
		}
	}
	if b.State != task.Working {
		return nil // the next turn sends a notice
	}
	retryIn := checkInterval(n.IdleChecks)
	n.IdleChecks++
	return p.sendNotice(ctx, push, n, retryIn)
}
