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

// Notice says that a task has events to push. It carries no text.
type Notice struct {
	Task Ref
	// Slot is the configuration; 0: all that are open.
	Slot int
	// Idle is how often nothing new was there.
	Idle int
	// Events is how many events the task has at least, once the notice's commit is done.
	Events int
}

func (n Notice) String() string {
	return fmt.Sprintf("%s#%d#%d#%d", n.Task.message(), n.Slot, n.Idle, n.Events)
}

// ParseNotice parses what String returns.
func ParseNotice(s string) (n Notice, err error) {
	wrong := problem.New(problem.Damaged, "no notice of a task: %.20q", s)
	parts := strings.Split(s, "#")
	if len(parts) != 6 {
		return n, wrong
	}
	if n.Task, err = ParseMessage(strings.Join(parts[:3], "#")); err != nil {
		return n, err
	}
	for i, to := range []*int{&n.Slot, &n.Idle, &n.Events} {
		v, err := strconv.Atoi(parts[3+i])
		if err != nil || v < 0 || v > 2*MaxEvents {
			return n, wrong
		}
		*to = v
	}
	return n, nil
}

// notify sends a notice. It comes before the commit of its events, so that no stored event
// is without one.
func (e *Engine) notify(ctx context.Context, n Notice, of Sender) error {
	if e.Notices == nil {
		return nil
	}
	if err := e.Notices.SendAfter(ctx, n.String(), of, 0); err != nil {
		return problem.Wrap(problem.Unavailable, err, "notifications cannot be queued now; the same request may be sent again")
	}
	return nil
}

// notifyFirst sends the notice of the events of a task that begins with a configuration.
func (e *Engine) notifyFirst(ctx context.Context, t *Turn) error {
	if t.Push == nil {
		return nil
	}
	return e.notify(context.WithoutCancel(ctx), Notice{Task: t.Ref, Events: 1}, t.Push.sender(t.Ref))
}

// notifyOf sends a notice of event n, with which a turn begins or ends, if anything is
// pushed.
func (e *Engine) notifyOf(ctx context.Context, r Ref, n int) error {
	if e.Notices == nil {
		return nil
	}
	docs, err := e.pushDocs(ctx, r)
	if err != nil {
		return err
	}
	for _, d := range docs {
		if p, ok := e.openPush(ctx, d, r); ok && d.Index != (store.Key{}) {
			return e.notify(ctx, Notice{Task: r, Events: n}, p.Sender())
		}
	}
	return nil
}

// Backlog is a task as far as its notifications concern.
type Backlog struct {
	Events []Numbered
	State  State
	Open   []Push // configurations whose deliveries have not ended
}

// Backlog reads what a notice tells of. The error is ErrAgain if its commit is not done.
func (e *Engine) Backlog(ctx context.Context, n Notice) (b Backlog, err error) {
	l, err := e.current(ctx, n.Task)
	switch {
	case errors.Is(err, ErrNotFound):
		return b, ErrAgain
	case err != nil:
		return b, err
	case len(l.events) < n.Events && !l.head.State.Terminal():
		return b, ErrAgain
	}
	docs, err := e.pushDocs(ctx, n.Task)
	if err != nil {
		return b, err
	}
	b.Events, b.State = l.events, l.head.State
	for _, d := range docs {
		if d.Index == (store.Key{}) || n.Slot > 0 && d.Key != n.Task.pushKey(n.Slot) {
			continue
		}
		if p, ok := e.openPush(ctx, d, n.Task); ok {
			b.Open = append(b.Open, p)
		}
	}
	return b, nil
}
