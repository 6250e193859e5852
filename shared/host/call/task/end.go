package task

import (
	"context"
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// ErrNotCancelable means that the task has ended.
var ErrNotCancelable = problem.New(problem.Conflict, "the task has ended and cannot be canceled")

// lastEvent returns the number of the last event of a task that has at least n.
func (e *Engine) lastEvent(ctx context.Context, r Ref, n int) (int, error) {
	rest := store.Range{Partition: r.partition(), First: r.eventKey(n + 1).Sort, Last: headSort}
	for cursor := ""; ; {
		page, next, err := e.Store.Docs(ctx, rest, store.MaxPage, cursor)
		if err != nil {
			return 0, store.Problem(err)
		}
		n += len(page)
		if cursor = next; cursor == "" {
			return n, nil
		}
	}
}

// ends returns the writes that end a task with a status: its head, the last event, and
// the turn's place among those in the background. runner is whose lease must hold; ""
// for anybody's. answer is the text that the status may repeat.
func (e *Engine) ends(ctx context.Context, r Ref, runner string, status func(*head) Status, answer string) ([]store.Write, error) {
	d, err := e.Store.Doc(ctx, r.headKey())
	if err != nil {
		return nil, store.Problem(err)
	}
	if d.Version == 0 {
		return nil, ErrNotFound
	}
	h, err := decodeHead(r, d)
	if err != nil {
		return nil, err
	}
	if h.State.Terminal() || runner != "" && h.Runner != runner {
		return nil, errEnded
	}
	n, err := e.lastEvent(ctx, r, h.Events)
	if err != nil {
		return nil, err
	}
	// A turn with a runner has had a notice, whose worker looks again; its answer is not
	// lost for another.
	if err := e.notifyOf(ctx, r, n+1); err != nil && runner == "" {
		return nil, err
	}
	s := status(&h)
	counted := h.Background
	h.State, h.Changed, h.Lease, h.Runner, h.Background, h.Events = s.State, s.Time, time.Time{}, "", false, n+1
	id, err := e.updater().NewWriteID()
	if err != nil {
		return nil, err
	}
	put, err := h.put(r, d.Version, id)
	if err != nil {
		return nil, err
	}
	event, err := e.eventPut(ctx, r, n+1, compact(Event{Status: &s}, answer), h.expires(), id)
	if err != nil {
		return nil, err
	}
	writes := []store.Write{put, event}
	if counted {
		writes = append(writes, store.Add{Key: backgroundKey(r), Delta: -1, Min: 0, Max: MaxBackground})
	}
	return writes, nil
}

// backgroundKey counts a vacant's turns in the background.
func backgroundKey(r Ref) store.Key {
	return store.Key{Partition: "turns#" + r.Vacant.String(), Sort: "background"}
}

// Cancel ends a task that has not ended, on whatever instance its turn runs.
func (e *Engine) Cancel(ctx context.Context, r Ref) (Task, error) {
	l, err := e.current(ctx, r)
	if err != nil {
		return Task{}, err
	}
	if l.head.State.Terminal() {
		return Task{}, ErrNotCancelable
	}
	canceled := problem.New(problem.Canceled, "the caller canceled the task")
	if err := e.finish(ctx, l, canceled, func() Status {
		return Status{State: Canceled, Message: l.task.notice("canceled by the caller"), Time: e.Now().UTC().Truncate(time.Microsecond)}
	}); err != nil {
		return Task{}, err
	}
	l, err = e.load(ctx, r)
	if err != nil {
		return Task{}, err
	}
	if l.head.State != Canceled {
		return Task{}, ErrNotCancelable // its answer was earlier
	}
	return l.task, nil
}

// abandon fails a task whose turn nobody runs.
func (e *Engine) abandon(ctx context.Context, l *loaded) error {
	lost := problem.New(problem.Deadline, "the process that ran the turn ended")
	return e.finish(ctx, l, lost, func() Status {
		return Status{State: Failed, Message: l.task.notice("the turn was interrupted; send the message again"), Time: e.Now().UTC().Truncate(time.Microsecond)}
	})
}

// finish voids the turn of a task and ends the task with a status, in one commit. If
// the turn is decided already, the task alone is ended, unless that came with it.
func (e *Engine) finish(ctx context.Context, l *loaded, why error, status func() Status) error {
	ends := func(ctx context.Context) ([]store.Write, error) {
		return e.ends(ctx, l.ref, "", func(*head) Status { return status() }, l.task.answer())
	}
	wrote := false
	var err error
	if l.head.Position > 0 { // a task that was stored with its answer has no turn to void
		_, err = e.Calls.Void(ctx, l.pair(), l.head.Position, why, call.Options{
			Decided: func(ctx context.Context, _ call.Decision) ([]store.Write, error) {
				wrote = true
				return ends(ctx)
			},
		})
	}
	if running, ok := e.hub.runners.Load(l.ref.partition()); ok {
		running.(*runner).cancel()
	}
	if err == nil && !wrote {
		err = e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			writes, err := ends(ctx)
			tx.Add(writes...)
			return err
		})
	}
	if errors.Is(err, errEnded) {
		return nil
	}
	e.hub.wake(l.ref.partition())
	return err
}
