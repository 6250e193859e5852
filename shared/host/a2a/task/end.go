package task

import (
	"context"
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// ErrNotCancelable means that the task has ended.
var ErrNotCancelable = problem.New(problem.Conflict, "the task has ended and cannot be canceled")

func (e *Engine) lastEvent(ctx context.Context, r Ref, n int) (last, size int, err error) {
	rest := store.Range{Partition: r.partition(), First: r.eventKey(n + 1).Sort, Last: HeadDocs.Sort}
	for d, err := range store.Documents(ctx, e.Store, rest) {
		if err != nil {
			return 0, 0, store.AsProblem(err)
		}
		n++
		size += len(d.Data)
	}
	return n, size, nil
}

// end describes how a turn ends a task.
type end struct {
	status Status
	void   bool         // the turn has no answer, so its artifacts are withdrawn
	runner string       // required holder of the lease; "" accepts any runner
	events int          // required number of events; zero accepts any number
	first  bool         // requires that the first call of the task is not accepted yet
	spent  money.Amount // cost of the turn

	written []string // files that the turn has written
}

// errMore means that a task has events that were stored after the task was read.
var errMore = problem.New(problem.Conflict, "the task has new events")

// ends returns the writes that end a task: its head, the last event, and the counts of background
// turns. t is the task before the end.
func (e *Engine) ends(ctx context.Context, r Ref, t *Task, end end) ([]store.Write, error) {
	h, d, err := HeadDocs.Get(ctx, e.Store, r.headKey())
	if err != nil {
		return nil, store.AsProblem(err)
	}
	if d.Version == 0 {
		return nil, ErrNotFound
	}
	if !h.State.canBecome(end.status.State) || end.runner != "" && h.Runner != end.runner {
		return nil, errEnded
	}
	if end.first && !h.isUnaccepted() {
		return nil, errMore
	}
	n, more, err := e.lastEvent(ctx, r, h.Events)
	if err != nil {
		return nil, err
	}
	if end.events > 0 && n != end.events {
		return nil, errMore
	}
	// A failure to send the notice must not lose the answer of a runner, so the error is ignored
	// for a turn with a runner. The process that handles the notice of the turn's start still finds
	// the end, because it checks the task repeatedly.
	if err := e.notifyOf(ctx, r, n+1); err != nil && end.runner == "" {
		return nil, err
	}
	s := end.status
	counted, counts := h.Background, h.countOut()
	h.State, h.Changed, h.Lease, h.Runner, h.Background, h.Shares, h.Events = s.State, s.Time, time.Time{}, "", false, nil, n+1
	if d := h.Dispatch; d != nil {
		d.Spent += end.spent
		if d.Files != nil {
			d.Files.Written = mergePaths(d.Files.Written, end.written)
		}
		if s.State.Terminal() {
			counts = append(counts, store.Delete{Key: r.unfinishedKey(), If: 1})
		}
	}
	id, err := e.updater().NewWriteID()
	if err != nil {
		return nil, err
	}
	last := storedEvent{Event: Event{Status: &s}, Void: end.void}
	if !end.void {
		last = compact(last.Event, t.answer())
	}
	event, err := e.eventPut(ctx, r, n+1, last, h.expires(), id)
	if err != nil {
		return nil, err
	}
	h.Bytes += more + len(event.Data)
	put, err := h.put(r, d.Version, id)
	if err != nil {
		return nil, err
	}
	writes := append([]store.Write{put, event}, counts...)
	if counted {
		writes = append(writes, store.Add{Key: backgroundKey(r), Delta: -1, Min: 0, Max: maxPaid})
	}
	return writes, nil
}

func backgroundKey(r Ref) store.Key { return TurnDocs.Key(r.Vacant.String()) }

// maxCancels limits the attempts to cancel a task while pieces of its answer arrive.
const maxCancels = 20

// Cancel ends a task that has not ended, regardless of the instance that runs its turn. If pieces of
// the turn's answer were stored, they become the answer, which is charged. Otherwise the turn is
// voided (ends without an answer).
func (e *Engine) Cancel(ctx context.Context, r Ref) (Task, error) {
	for try := 1; ; try++ {
		l, err := e.current(ctx, r)
		if err != nil {
			return Task{}, err
		}
		if l.head.State.Terminal() {
			return Task{}, ErrNotCancelable
		}
		err = e.cancel(ctx, l)
		if errors.Is(err, errMore) && try < maxCancels {
			continue
		}
		if errors.Is(err, errMore) {
			err = problem.New(problem.Unavailable, "the answer arrives too quickly to cancel it; send the same request again")
		}
		if err != nil {
			return Task{}, err
		}
		break
	}
	l, err := e.load(ctx, r)
	if err != nil {
		return Task{}, err
	}
	if l.head.State != Canceled {
		return Task{}, ErrNotCancelable // the answer was stored first
	}
	return l.task, nil
}

// cancel ends the task as it was read, with the pieces that it had. If the task has changed since,
// the error is errMore.
func (e *Engine) cancel(ctx context.Context, l *loaded) error {
	decide := func(o call.Options) (call.State, error) {
		if l.turn.said == "" {
			canceled := problem.New(problem.Canceled, "the caller canceled the task")
			return e.Calls.Void(ctx, l.pair(), l.head.Position, canceled, o)
		}
		o.CompleteReply = replyIDs(l.ref.ID, l.task.Context)
		part := call.Partial{Text: l.turn.said, Usage: l.turn.used, Began: l.task.Status.Time}
		return e.Calls.CutAnswer(ctx, l.pair(), l.head.Position, call.CutCanceled, part, o)
	}
	return e.finish(ctx, l, decide, func(d *call.Decision) end {
		s := Status{State: Canceled, Message: l.task.notice("canceled by the caller"), Time: e.Now().UTC().Truncate(time.Microsecond), Failure: problem.Canceled.String()}
		if d.Reply != nil {
			s.Message, s.Failure = answerMessage(&l.task, d), ""
		}
		return end{status: s, events: len(l.events)}
	})
}

func (e *Engine) abandon(ctx context.Context, l *loaded) error {
	lost, text := problem.New(problem.Deadline, "the process that ran the turn ended"), "the turn was interrupted; send the message again"
	if l.head.State == Submitted {
		lost = problem.New(problem.Deadline, "the turn did not begin within %.0f minutes", call.MaxQueued.Minutes())
		text = lost.Text() + " because the host was busy; send the message again later"
	}
	if d := l.head.Dispatch; d != nil && l.head.isOverdue(e.Now()) {
		lost = problem.New(problem.Deadline, "the task did not end within %s", d.Deadline.Sub(l.head.Began).Round(time.Second))
		text = lost.Text()
	}
	decide := func(o call.Options) (call.State, error) {
		return e.Calls.Void(ctx, l.pair(), l.head.Position, lost, o)
	}
	return e.finish(ctx, l, decide, func(*call.Decision) end {
		return end{status: Status{State: Failed, Message: l.task.notice(text), Time: e.Now().UTC().Truncate(time.Microsecond), Failure: lost.Kind.String()}}
	})
}

// finish stores the answer of a task's turn, or voids its call, and ends the task in the same
// commit. If the turn is already decided, finish only ends the task. If the task has also ended,
// finish has no effect.
func (e *Engine) finish(ctx context.Context, l *loaded, decide func(call.Options) (call.State, error), how func(*call.Decision) end) error {
	ends := func(ctx context.Context, d call.Decision, void bool) ([]store.Write, error) {
		end := how(&d)
		end.void, end.first = void, l.head.isUnaccepted()
		return e.ends(ctx, l.ref, &l.task, end)
	}
	wrote, state := false, call.Answered
	var err error
	if l.head.Position > 0 { // a task that was stored with its answer has no turn to decide
		state, err = decide(call.Options{
			Task: l.ref.ID, Began: l.task.Status.Time,
			DecideWrites: func(ctx context.Context, d call.Decision) ([]store.Write, error) {
				wrote = true
				return ends(ctx, d, d.Reply == nil)
			},
		})
	}
	if err != nil && !errors.Is(err, errEnded) {
		return err // do not stop the turn, which would then fail without a charge
	}
	// If the call was not accepted, its runner may have begun since l was read, and must not be
	// stopped.
	if running, ok := e.hub.runners.Load(l.ref.partition()); ok && !l.head.isUnaccepted() {
		running.(*runner).cancel()
	}
	if err == nil && !wrote {
		err = e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			writes, err := ends(ctx, call.Decision{}, state != call.Answered)
			tx.Add(writes...)
			return err
		})
	}
	if errors.Is(err, errEnded) {
		return nil
	}
	e.hub.wake(l.ref.partition())
	e.notifyPush(l.ref)
	return err
}
