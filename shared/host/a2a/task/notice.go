package task

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

type Notice struct {
	Task Ref
	// Slot selects the configuration. Zero selects all.
	Slot       int
	IdleChecks int
	// If the task has fewer than MinEvents events, the announced commit may not have happened yet.
	MinEvents int
	// ConfigVersion must equal Progress.ConfigVersion. Zero accepts any configuration.
	ConfigVersion uint64
}

func (n Notice) String() string {
	return fmt.Sprintf("%s#%d#%d#%d#%d", n.Task.encode(), n.Slot, n.IdleChecks, n.MinEvents, n.ConfigVersion)
}

func ParseNotice(s string) (n Notice, err error) {
	malformed := problem.New(problem.Damaged, "not a notice of a task: %.20q", s)
	parts := strings.Split(s, "#")
	if len(parts) == 6 { // notice of a release without ConfigVersion
		parts = append(parts, "0")
	}
	if len(parts) != 7 {
		return n, malformed
	}
	if n.Task, err = ParseRef(strings.Join(parts[:3], "#")); err != nil {
		return n, err
	}
	for i, field := range []*int{&n.Slot, &n.IdleChecks, &n.MinEvents} {
		v, err := strconv.Atoi(parts[3+i])
		if err != nil || v < 0 || v > 2*MaxEvents {
			return n, malformed
		}
		*field = v
	}
	if n.ConfigVersion, err = strconv.ParseUint(parts[6], 10, 64); err != nil {
		return n, malformed
	}
	return n, nil
}

// notify must precede the commit of the events, because a crash could otherwise leave events
// without a notice.
func (e *Engine) notify(ctx context.Context, n Notice, sender Sender) error {
	if e.Notices == nil {
		return nil
	}
	if err := e.Notices.SendAfter(ctx, n.String(), sender, 0); err != nil {
		return problem.Wrap(problem.Unavailable, err, "notifications cannot be queued now; send the same request again")
	}
	return nil
}

func (e *Engine) notifyFirstEvent(ctx context.Context, t *Turn) error {
	if t.Push == nil {
		return nil
	}
	return e.notify(context.WithoutCancel(ctx), Notice{Task: t.Ref, MinEvents: 1}, SenderOf(t.Owner, t.Push.ClientAddress))
}

func (e *Engine) notifyActivePushConfigs(ctx context.Context, r Ref, minEvents int) error {
	if e.Notices == nil {
		return nil
	}
	pushes, err := e.ListActivePushConfigsOf(ctx, r, 0)
	if err != nil || len(pushes) == 0 {
		return err
	}
	return e.notify(ctx, Notice{Task: r, MinEvents: minEvents}, pushes[0].Sender())
}

type Backlog struct {
	Events            []NumberedEvent
	EventBytes        int
	State             State
	ActivePushConfigs []ActivePushConfig
}

func (b *Backlog) TaskAfter(eventCount int) *Task {
	var t Task
	for _, e := range b.Events[:eventCount] {
		t.Apply(e.Event)
	}
	return &t
}

// ReadBacklog reads the events that a notice announces, or returns ErrRetryLater if they are not
// stored yet.
func (e *Engine) ReadBacklog(ctx context.Context, n Notice) (b Backlog, err error) {
	l, err := e.loadCurrentTask(ctx, n.Task)
	switch {
	case errors.Is(err, ErrNotFound):
		return b, ErrRetryLater
	case err != nil:
		return b, err
	case len(l.events) < n.MinEvents && !l.head.State.IsTerminal():
		return b, ErrRetryLater
	}
	b.Events, b.EventBytes, b.State = l.events, l.eventBytes, l.head.State
	b.ActivePushConfigs, err = e.ListActivePushConfigsOf(ctx, n.Task, n.Slot)
	return b, err
}

// If slot is 0, ListActivePushConfigsOf returns the active configurations of all slots.
func (e *Engine) ListActivePushConfigsOf(ctx context.Context, r Ref, slot int) (pushes []ActivePushConfig, err error) {
	docs, err := e.loadPushDocs(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		if d.Index == (store.Key{}) || slot > 0 && d.Key != r.pushKey(slot) {
			continue
		}
		if p, ok := e.decodePush(ctx, d, r); ok {
			pushes = append(pushes, p)
		}
	}
	return pushes, nil
}
