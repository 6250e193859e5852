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

var ErrNotCancelable = problem.New(problem.Conflict, "the task has ended and cannot be canceled")

func (e *Engine) countNewEvents(ctx context.Context, r Ref, eventCount int) (total, newBytes int, err error) {
	newEvents := store.Range{Partition: r.partition(), Start: r.eventKey(eventCount + 1).Sort, End: HeadDocs.Sort}
	for d, err := range store.Documents(ctx, e.Store, newEvents) {
		if err != nil {
			return 0, 0, store.AsProblem(err)
		}
		eventCount++
		newBytes += len(d.Data)
	}
	return eventCount, newBytes, nil
}

type turnEnd struct {
	status                 Status
	void                   bool   // the turn has no answer, so its artifacts are withdrawn
	requiredRunner         string // "" accepts any runner
	requiredEvents         int    // zero accepts any number
	requiresUnacceptedCall bool
	cost                   money.Amount

	writtenPaths []string
}

var errNewEvents = problem.New(problem.Conflict, "the task has new events")

// prepareEnd queues the notice of a turn's end, and returns the writes that end the turn.
func (e *Engine) prepareEnd(ctx context.Context, r Ref, t *Task, end turnEnd) ([]store.Write, error) {
	h, headDoc, err := HeadDocs.Get(ctx, e.Store, r.headKey())
	if err != nil {
		return nil, store.AsProblem(err)
	}
	if headDoc.Version == 0 {
		return nil, ErrNotFound
	}
	if !h.State.canBecome(end.status.State) || end.requiredRunner != "" && h.Runner != end.requiredRunner {
		return nil, errTurnEnded
	}
	if end.requiresUnacceptedCall && !h.isUnaccepted() {
		return nil, errNewEvents
	}
	n, newBytes, err := e.countNewEvents(ctx, r, h.EventCount)
	if err != nil {
		return nil, err
	}
	if end.requiredEvents > 0 && n != end.requiredEvents {
		return nil, errNewEvents
	}
	// A runner stores its answer even if the notice fails, because pushers also check running
	// turns.
	if err := e.notifyActivePushConfigs(ctx, r, n+1); err != nil && end.requiredRunner == "" {
		return nil, err
	}
	s := end.status
	wasBackground, releaseWrites := h.Background, h.releaseShareWrites()
	h.State, h.StatusTime, h.LeaseEnd, h.Runner, h.Background, h.Shares, h.EventCount = s.State, s.Time, time.Time{}, "", false, nil, n+1
	if dispatch := h.Dispatch; dispatch != nil {
		dispatch.Cost += end.cost
		if dispatch.Files != nil {
			dispatch.Files.WrittenPaths = mergePaths(dispatch.Files.WrittenPaths, end.writtenPaths)
		}
		if s.State.IsTerminal() {
			releaseWrites = append(releaseWrites, store.Delete{Key: r.unfinishedKey(), IfVersion: 1})
		}
	}
	id, err := e.updater().NewWriteID()
	if err != nil {
		return nil, err
	}
	last := storedEvent{Event: Event{Status: &s}, Void: end.void}
	if !end.void {
		last = omitRepeatedText(last.Event, t.answerText())
	}
	event, err := e.newEventPut(ctx, r, n+1, last, h.expires(), id)
	if err != nil {
		return nil, err
	}
	h.EventBytes += newBytes + len(event.Data)
	put, err := h.newPut(r, headDoc.Version, id)
	if err != nil {
		return nil, err
	}
	writes := append([]store.Write{put, event}, releaseWrites...)
	if wasBackground {
		writes = append(writes, store.Add{Key: backgroundKey(r), Delta: -1, Min: 0, Max: maxAccountBackground})
	}
	return writes, nil
}

func backgroundKey(r Ref) store.Key { return BackgroundCountDocs.Key(r.Vacant.String()) }

const maxCancelTries = 20

// Cancel ends a task. If pieces of the answer were stored, they become the answer, which is
// charged.
func (e *Engine) Cancel(ctx context.Context, r Ref) (Task, error) {
	for try := 1; ; try++ {
		l, err := e.loadCurrentTask(ctx, r)
		if err != nil {
			return Task{}, err
		}
		if l.head.State.IsTerminal() {
			return Task{}, ErrNotCancelable
		}
		err = e.tryCancel(ctx, l)
		if errors.Is(err, errNewEvents) && try < maxCancelTries {
			continue
		}
		if errors.Is(err, errNewEvents) {
			err = problem.New(problem.Unavailable, "the answer arrives too quickly to cancel it; send the same request again")
		}
		if err != nil {
			return Task{}, err
		}
		break
	}
	l, err := e.loadTask(ctx, r)
	if err != nil {
		return Task{}, err
	}
	if l.head.State != Canceled {
		return Task{}, ErrNotCancelable // the answer was stored first
	}
	return l.task, nil
}

func (e *Engine) tryCancel(ctx context.Context, l *loadedTask) error {
	decide := func(o call.Options) (call.State, error) {
		if l.lastTurn.answerText == "" {
			canceled := problem.New(problem.Canceled, "the caller canceled the task")
			return e.Calls.Void(ctx, l.pair(), l.head.Position, canceled, o)
		}
		o.CompleteReply = replyIDs(l.ref.ID, l.task.Context)
		part := call.PartialAnswer{Text: l.lastTurn.answerText, Usage: l.lastTurn.usage, StartedAt: l.task.Status.Time}
		return e.Calls.StorePartialAnswer(ctx, l.pair(), l.head.Position, call.CutCanceled, part, o)
	}
	return e.decideAndEnd(ctx, l, decide, func(d *call.Decision) turnEnd {
		s := Status{State: Canceled, Message: l.task.hostMessage("canceled by the caller"), Time: e.Now().UTC().Truncate(time.Microsecond), FailureKind: problem.Canceled.String()}
		if d.Reply != nil {
			s.Message, s.FailureKind = answerMessage(&l.task, d), ""
		}
		return turnEnd{status: s, requiredEvents: len(l.events)}
	})
}

func (e *Engine) failAbandoned(ctx context.Context, l *loadedTask) error {
	cause, text := problem.New(problem.DeadlineExceeded, "the process that ran the turn ended"), "the turn was interrupted; send the message again"
	if l.head.State == Submitted {
		cause = problem.New(problem.DeadlineExceeded, "the turn did not begin within %.0f minutes", call.MaxQueueDuration.Minutes())
		text = cause.Text() + " because the host was busy; send the message again later"
	}
	if d := l.head.Dispatch; d != nil && l.head.isOverdue(e.Now()) {
		cause = problem.New(problem.DeadlineExceeded, "the task did not end within %s", d.Deadline.Sub(l.head.StartedAt).Round(time.Second))
		text = cause.Text()
	}
	decide := func(o call.Options) (call.State, error) {
		return e.Calls.Void(ctx, l.pair(), l.head.Position, cause, o)
	}
	return e.decideAndEnd(ctx, l, decide, func(*call.Decision) turnEnd {
		return turnEnd{status: Status{State: Failed, Message: l.task.hostMessage(text), Time: e.Now().UTC().Truncate(time.Microsecond), FailureKind: cause.Kind.String()}}
	})
}

// decideAndEnd decides the call of a task's turn and ends the task in the same commit.
func (e *Engine) decideAndEnd(ctx context.Context, l *loadedTask, decide func(call.Options) (call.State, error), newEnd func(*call.Decision) turnEnd) error {
	endWrites := func(ctx context.Context, d call.Decision, void bool) ([]store.Write, error) {
		end := newEnd(&d)
		end.void, end.requiresUnacceptedCall = void, l.head.isUnaccepted()
		return e.prepareEnd(ctx, l.ref, &l.task, end)
	}
	hasEndWrites, state := false, call.Answered
	var err error
	if l.head.Position > 0 { // otherwise, the task has no undecided call
		state, err = decide(call.Options{
			Task: l.ref.ID, Arrival: l.task.Status.Time,
			DecideWrites: func(ctx context.Context, d call.Decision) ([]store.Write, error) {
				hasEndWrites = true
				return endWrites(ctx, d, d.Reply == nil)
			},
		})
	}
	if err != nil && !errors.Is(err, errTurnEnded) {
		return err // a turn that is stopped before its call is decided fails without a charge
	}
	// A runner that began after l was read must not be stopped.
	if activeRunner, ok := e.hub.runners.Load(l.ref.partition()); ok && !l.head.isUnaccepted() {
		activeRunner.(*runner).stopTurn()
	}
	if err == nil && !hasEndWrites {
		err = e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			writes, err := endWrites(ctx, call.Decision{}, state != call.Answered)
			tx.AddWrites(writes...)
			return err
		})
	}
	if errors.Is(err, errTurnEnded) {
		return nil
	}
	e.hub.wake(l.ref.partition())
	e.announcePushWork(l.ref)
	return err
}
