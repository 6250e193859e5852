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
	// Slot selects the configuration. Zero means all that are open.
	Slot int
	// Idle counts the looks that found nothing new.
	Idle int
	// Events is the least number of events that the task has once the notice's commit is
	// done.
	Events int
	// SetAt must equal the SetAt of the configuration's Progress. Zero accepts every
	// configuration.
	SetAt uint64
}

func (n Notice) String() string {
	return fmt.Sprintf("%s#%d#%d#%d#%d", n.Task.message(), n.Slot, n.Idle, n.Events, n.SetAt)
}

// ParseNotice parses what String returns.
func ParseNotice(s string) (n Notice, err error) {
	wrong := problem.New(problem.Damaged, "no notice of a task: %.20q", s)
	parts := strings.Split(s, "#")
	if len(parts) == 6 { // of a release without SetAt
		parts = append(parts, "0")
	}
	if len(parts) != 7 {
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
	if n.SetAt, err = strconv.ParseUint(parts[6], 10, 64); err != nil {
		return n, wrong
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
	return e.notify(context.WithoutCancel(ctx), Notice{Task: t.Ref, Events: 1}, SenderOf(t.Owner, t.Push.From))
}

// notifyOf sends a notice of event n, with which a turn begins or ends, if anything is
// pushed.
func (e *Engine) notifyOf(ctx context.Context, r Ref, n int) error {
	if e.Notices == nil {
		return nil
	}
	open, err := e.OpenPushesOf(ctx, r, 0)
	if err != nil || len(open) == 0 {
		return err
	}
	return e.notify(ctx, Notice{Task: r, Events: n}, open[0].Sender())
}

// Backlog is a task as far as its notifications concern.
type Backlog struct {
	Events []Numbered
	Size   int // bytes of the events as they are stored
	State  State
	Open   []Push // configurations whose deliveries have not ended
}

// At returns the task as it was after event n.
func (b *Backlog) At(n int) *Task {
	var t Task
	for _, e := range b.Events[:n] {
		t.Apply(e.Event)
	}
	return &t
}

// Backlog reads the events that a notice announces. The error is ErrAgain if the
// notice's commit is not done.
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
	b.Events, b.Size, b.State = l.events, l.size, l.head.State
	b.Open, err = e.OpenPushesOf(ctx, n.Task, n.Slot)
	return b, err
}

// OpenPushesOf returns the configurations of a task whose deliveries have not ended: the one
// in a slot, or all for slot 0.
func (e *Engine) OpenPushesOf(ctx context.Context, r Ref, slot int) (open []Push, err error) {
	docs, err := e.pushDocs(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		if d.Index == (store.Key{}) || slot > 0 && d.Key != r.pushKey(slot) {
			continue
		}
		if p, ok := e.openPush(ctx, d, r); ok {
			open = append(open, p)
		}
	}
	return open, nil
}
