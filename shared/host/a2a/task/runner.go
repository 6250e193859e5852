package task

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

var errTurnEnded = problem.New(problem.Canceled, "the task has ended")

// Begin stores a task and runs its turn in this process. done is closed when the turn has ended. If
// the call was not accepted, the error is a *Refusal.
func (e *Engine) Begin(ctx context.Context, t Turn) (ref Ref, done <-chan struct{}, err error) {
	turnDone := make(chan struct{})
	if _, ok, err := e.findByMessageID(ctx, &t); ok || err != nil {
		close(turnDone)
		return t.Ref, turnDone, err
	}
	if err := e.applyTaskSettings(ctx, &t); err != nil {
		close(turnDone)
		return t.Ref, turnDone, err
	}
	waitForUndeliveredCheck := e.startUndeliveredCheck(ctx, &t)
	startTime := e.Now().UTC().Truncate(time.Microsecond)
	r := e.newRunner(t.Ref, startTime)
	r.storesAtEnd, r.isClientWaiting, r.dispatch = t.StoresAtEnd, t.StoresAtEnd && t.CallTimeout == 0, t.dispatch
	r.chunkRamp = e.ChunkRamp
	opts := e.callOptions(&t)
	r.attachTo(&opts)
	opts.CallTimeout, opts.Streamed = MaxTurnTime, !t.StoresAtEnd
	if t.CallTimeout > 0 {
		opts.CallTimeout = t.CallTimeout
	}
	opts.AcceptWrites = func(row *call.RequestRow) ([]store.Write, error) {
		if err := waitForUndeliveredCheck(); err != nil {
			return nil, err
		}
		if t.Continue {
			return e.continueWrites(context.WithoutCancel(ctx), &t, r, row)
		}
		h := t.newHead(startTime)
		h.State, h.Position, h.LeaseEnd, h.Runner = Working, row.Position, e.Now().Add(leaseDuration).UTC(), r.id
		task := t.submittedTask(startTime)
		task.Status.State = Working
		if err := e.notifyFirstEvent(ctx, &t); err != nil {
			return nil, err
		}
		return e.newTaskWrites(context.WithoutCancel(ctx), &t, h, &task)
	}
	var acceptedCall *call.AcceptedCall
	_, err = e.acceptCall(ctx, &t, func(env *envelope.Envelope) (out call.Outcome, ok bool) {
		acceptedCall, out = e.Calls.AcceptForRun(ctx, t.Vacant, env, opts)
		return out, acceptedCall != nil
	})
	if err != nil {
		close(turnDone)
		// A paid answer is delivered even if a new call would be refused.
		if undeliveredErr := waitForUndeliveredCheck(); errors.Is(undeliveredErr, ErrUndelivered) {
			return t.Ref, turnDone, undeliveredErr
		}
		found, err := e.findByEnvelope(ctx, &t, err)
		t.ID = found.ID
		return t.Ref, turnDone, err
	}
	e.announceTurn(&t)
	if !t.Continue {
		r.task, r.nextEvent = t.submittedTask(startTime), 2
	}
	ctx = withTurn(withMessages(ctx, turnMessages{&t.Message, &r.task.History[0], t.ReportedMessages}), t.Ref, t.dispatch, nil)
	e.startRunner(r, func() {
		defer close(turnDone)
		out := e.Calls.Run(ctx, acceptedCall)
		if t.OnEnd != nil && r.hasDecided(&out) {
			t.OnEnd(&EndedTurn{startTime, acceptedCall.Pair, acceptedCall.Position, &r.status})
		}
	})
	return t.Ref, turnDone, nil
}

var ErrBusy = problem.New(problem.Conflict, "the task does not accept a message now, because its turn is running or it has ended")

// continueWrites returns the writes that begin the next turn of a task. If r is nil, a worker will
// run the turn.
func (e *Engine) continueWrites(ctx context.Context, t *Turn, r *runner, row *call.RequestRow) ([]store.Write, error) {
	l, err := e.loadTask(ctx, t.Ref)
	if err != nil {
		return nil, err
	}
	if err := l.task.CheckContext(t.Message.Context); err != nil {
		return nil, err
	}
	t.Message.Context = l.task.Context
	h := l.head
	if !h.State.AwaitsMessage() || !t.hasCurrentSettings(h.Dispatch) {
		return nil, ErrBusy
	}
	m := t.Message
	m.Task = t.ID
	event := storedEvent{Event: Event{Status: &Status{State: Working, Time: e.Now().UTC().Truncate(time.Microsecond)}, NextMessage: &m}}
	n := len(l.events) + 1
	h.State, h.StatusTime, h.Caller, h.Position, h.EventCount = Working, event.Status.Time, t.Caller, row.Position, n
	var otherWrites []store.Write
	if r == nil {
		h.State, h.Background, h.Sender, event.Status.State = Submitted, true, t.sender(row), Submitted
		event.Credential = &t.Credential
		otherWrites = append(otherWrites, t.backgroundCountWrite(h.Sender))
	} else {
		h.LeaseEnd, h.Runner, h.Background = e.Now().Add(leaseDuration).UTC(), r.id, false
	}
	id, err := e.updater().NewWriteID()
	if err != nil {
		return nil, err
	}
	w, err := e.newEventPut(ctx, t.Ref, n, event, h.expires(), id)
	if err != nil {
		return nil, err
	}
	h.EventBytes = l.eventBytes + len(w.Data)
	put, err := h.newPut(t.Ref, l.version, id)
	if err != nil {
		return nil, err
	}
	if t.Push == nil {
		if err := e.notifyActivePushConfigs(ctx, t.Ref, n); err != nil {
			return nil, err
		}
	} else {
		docs, err := e.loadPushDocs(ctx, t.Ref)
		if err != nil {
			return nil, err
		}
		slot, err := e.chooseSlot(ctx, t.Ref, docs, t.Push.ID)
		if err != nil {
			return nil, err
		}
		w, err := e.newPushPut(ctx, &h, slot, storedPush{PushConfig: *t.Push}, id)
		if err != nil {
			return nil, err
		}
		w.Number = int64(n - 1) // earlier events count as delivered
		otherWrites = append(otherWrites, w)
		if err := e.notify(ctx, Notice{Task: t.Ref, MinEvents: n}, SenderOf(t.Owner, t.Push.ClientAddress)); err != nil {
			return nil, err
		}
	}
	if r != nil {
		r.startedAt, r.task, r.nextEvent = h.StartedAt, l.task, n+1
		r.task.Apply(event.Event)
		r.storedText = r.task.answerText()
	}
	return append(otherWrites, put, w), nil
}

func (e *Engine) startRunner(r *runner, runTurn func()) {
	e.hub.runners.Store(r.ref.partition(), r)
	e.running.Go(func() {
		var housekeeping sync.WaitGroup
		finished := make(chan struct{})
		housekeeping.Go(func() {
			defer r.engine.hub.runners.CompareAndDelete(r.ref.partition(), r)
			leaseTicker := time.NewTicker(time.Second)
			defer leaseTicker.Stop()
			defer r.flushTimer.Stop()
			lastRenewal := r.engine.Now()
			for {
				select {
				case <-finished:
					return
				case <-r.flushTimer.C:
					ctx, cancel := context.WithTimeout(context.Background(), maxFlushTime)
					r.mu.Lock()
					_ = r.flushText(ctx, false)
					r.mu.Unlock()
					cancel()
				case <-leaseTicker.C:
					r.mu.Lock()
					if r.isTraceDue() {
						r.storeTrace(context.Background())
					}
					r.mu.Unlock()
					r.storeLog(context.Background())
					isRenewalDue := r.engine.Now().Sub(lastRenewal) > leaseDuration/3
					if r.checkLease(isRenewalDue) && isRenewalDue {
						lastRenewal = r.engine.Now()
					}
				}
			}
		})
		runTurn()
		close(finished)
		housekeeping.Wait()
		e.hub.wake(r.ref.partition())
	})
}

type runner struct {
	engine          *Engine
	ref             Ref
	id              string
	startedAt       time.Time
	stop            chan struct{} // closed to stop the turn
	storesAtEnd     bool
	isClientWaiting bool
	chunkRamp       int
	flushTimer      *time.Timer
	dispatch        *Dispatch

	// mu guards the fields below. Callers of logEvent, recordTrace, isTraceDue, storeTrace, flushText,
	// closeText, completeAnswer and storeEvent must hold it.
	mu            sync.Mutex
	stopped       bool
	task          Task
	nextEvent     int
	storedText    string
	pendingText   []byte
	storedBytes   int
	lastFlush     time.Time
	hasLostPieces bool // the answer must replace the artifact
	isTextClosed  bool
	endRequest    *EndRequest
	status        Status // State is "" until the turn is decided

	receivedBytes int // bytes of text and thoughts so far
	reportedUsage *call.Usage
	bytesAtReport int // receivedBytes at the last report

	pendingTrace               []TraceEntry
	traceSize, storedTraceSize int
	traceDocCount              int
	lastTraceWrite             time.Time

	log turnLog
}

func (e *Engine) newRunner(r Ref, startTime time.Time) *runner {
	id, err := e.NewID()
	if err != nil {
		id = r.ID // runner ids only distinguish runners
	}
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &runner{engine: e, ref: r, id: id, startedAt: startTime, stop: make(chan struct{}), flushTimer: timer}
}

func (r *runner) attachTo(o *call.Options) {
	o.Sink, o.DecideWrites, o.Stop = r.handleProgress, r.decisionWrites, r.stop
}

// hasDecided must be called after the turn has ended.
func (r *runner) hasDecided(out *call.Outcome) bool {
	s := r.status.State
	return (out.Reply != nil || out.State == call.Unanswered) && s != "" && (s == Failed) == (out.Reply == nil)
}

func (r *runner) stopTurn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.stopped = true
		close(r.stop)
	}
}

func (r *runner) handleProgress(p call.Progress) {
	piece, ok := p.(call.ProvisionalEvent)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), maxFlushTime)
	defer cancel()
	r.receivedBytes += len(piece.Text) + len(piece.Thought)
	if usage, previous := piece.Usage, r.reportedUsage; usage != nil {
		r.reportedUsage, r.bytesAtReport = usage, r.receivedBytes
		if previous != nil && (usage.Turns > previous.Turns || usage.ToolCalls > previous.ToolCalls) {
			// The usage is stored now, because a cancel charges the stored usage and the next piece
			// may arrive late.
			switch {
			case len(r.pendingText) > 0 && !r.storesAtEnd:
				_ = r.flushText(ctx, false)
			case r.storedText != "" && !r.hasLostPieces && r.nextEvent < MaxEvents-1:
				_ = r.storeEvent(ctx, storedEvent{Usage: r.usageSoFar()})
			}
		}
	}
	switch d := piece.Detail.(type) {
	case Chunk:
		_ = r.storeEvent(ctx, storedEvent{Event: Event{Artifact: &d}})
	case EndRequest:
		r.endRequest = &d
	case call.ToolStep:
		r.recordTrace(TraceEntry{Tool: &d})
		if d.Outcome != "" {
			r.logEvent(LogUpdate, LogData{Tool: d.Name, Outcome: d.Outcome})
		}
		return
	}
	if piece.Thought != "" {
		r.recordTrace(TraceEntry{Thought: piece.Thought})
	}
	if piece.IsQuestion {
		r.endRequest = &EndRequest{InputRequired}
	}
	if _, hasArtifact := r.endRequest.endState(); !hasArtifact {
		return
	}
	r.pendingText = append(r.pendingText, piece.Text...)
	switch wait := r.joinTime() - r.engine.Now().Sub(r.lastFlush); {
	case r.storesAtEnd:
	case piece.IsLast:
		// A later cancel charges the usage that is stored with the end of the text.
		_ = r.closeText(ctx)
	case r.lastFlush.IsZero() || len(r.pendingText) >= maxChunkBytes || wait <= 0:
		_ = r.flushText(ctx, false) // an error loses no text, because the answer contains it again
	default:
		r.flushTimer.Reset(wait)
	}
}

func (r *runner) joinTime() time.Duration {
	if r.nextEvent < r.chunkRamp {
		return r.engine.ChunkInterval * time.Duration(r.nextEvent) / time.Duration(r.chunkRamp)
	}
	return r.engine.ChunkInterval
}

func (r *runner) closeText(ctx context.Context) error {
	switch {
	case len(r.pendingText) > 0:
		return r.flushText(ctx, true)
	case r.storedText == "" || r.isTextClosed || r.hasLostPieces:
		return nil
	}
	return r.storeEvent(ctx, storedEvent{Event: Event{Artifact: &Chunk{Artifact: textArtifact(""), Append: true, Last: true}}, Usage: r.usageSoFar()})
}

func (r *runner) usageSoFar() *call.Usage {
	var u call.Usage
	if r.reportedUsage != nil {
		u = *r.reportedUsage
	} else if message := r.task.lastUserMessage(); message != nil {
		textBytes := 0
		for _, p := range message.Parts {
			if textBytes += len(p.Text) + len(p.Data); strings.HasPrefix(p.NormalizedMediaType(), "text/") || p.NormalizedMediaType() == "application/json" {
				textBytes += len(p.Raw)
			}
		}
		u.InputTokens = call.EstimateTokens(textBytes)
	}
	if unreportedBytes := r.receivedBytes - r.bytesAtReport; unreportedBytes > 0 {
		u.OutputTokens += call.EstimateTokens(unreportedBytes)
		u.UnreportedTurns = max(u.UnreportedTurns, 1)
	}
	return &u
}

// maxFlushTime is less than the time limit of a Sink.
const maxFlushTime = 900 * time.Millisecond

func (r *runner) flushText(ctx context.Context, isLast bool) error {
	if len(r.pendingText) == 0 || r.hasLostPieces || r.nextEvent >= MaxEvents-1 || r.storedBytes+len(r.pendingText) > MaxBytes {
		return nil
	}
	c := &Chunk{Artifact: textArtifact(string(r.pendingText)), Append: r.storedText != "", Last: isLast}
	if err := r.storeEvent(ctx, storedEvent{Event: Event{Artifact: c}, Usage: r.usageSoFar()}); err != nil {
		// The event may be stored. The answer will replace the artifact.
		r.hasLostPieces = true
		return err
	}
	r.storedText += string(r.pendingText)
	r.pendingText, r.lastFlush = nil, r.engine.Now()
	return nil
}

func (r *runner) storeEvent(ctx context.Context, event storedEvent) error {
	e := r.engine
	id, err := e.updater().NewWriteID()
	if err != nil {
		return err
	}
	h := head{StartedAt: r.startedAt}
	w, err := e.newEventPut(ctx, r.ref, r.nextEvent, event, h.expires(), id)
	if err != nil {
		return err
	}
	if err := e.updater().Commit(ctx, w); err != nil {
		return err
	}
	r.nextEvent++
	r.storedBytes += len(w.Data)
	if c := event.Artifact; c != nil && c.Artifact.ID == ResponseArtifact && c.Last {
		r.isTextClosed = true
	}
	r.task.Apply(event.Event)
	e.hub.wake(r.ref.partition())
	return nil
}

func (r *runner) decisionWrites(ctx context.Context, d call.Decision) ([]store.Write, error) {
	r.storeLog(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.engine
	r.storeTrace(ctx)
	if _, hasArtifact := r.endRequest.endState(); d.Reply != nil && hasArtifact {
		if err := r.completeAnswer(ctx, d.Reply.Payload.Text()); err != nil {
			return nil, err
		}
	}
	r.status = e.finalStatus(&r.task, d, r.endRequest, r.isClientWaiting)
	end := turnEnd{status: r.status, void: d.Reply == nil, requiredRunner: r.id, cost: d.Cost, writtenPaths: r.log.writtenPaths}
	return e.prepareEnd(ctx, r.ref, &r.task, end)
}

func (r *runner) completeAnswer(ctx context.Context, answer string) error {
	if r.task.answerText() == answer && len(r.pendingText) == 0 {
		// The answer is complete even without the mark of its last piece.
		_ = r.closeText(ctx)
		return nil
	}
	if r.storedText+string(r.pendingText) == answer && !r.hasLostPieces {
		if err := r.flushText(ctx, true); err == nil && len(r.pendingText) == 0 {
			return nil
		}
	}
	n, _, err := r.engine.countNewEvents(ctx, r.ref, r.nextEvent-1)
	if err != nil {
		return err
	}
	r.nextEvent, r.pendingText = n+1, nil
	return r.storeEvent(ctx, storedEvent{Event: Event{Artifact: &Chunk{Artifact: textArtifact(answer), Last: true}}, Usage: r.usageSoFar()})
}

// checkLease stops the turn if the task has ended, and reports whether r holds the lease.
func (r *runner) checkLease(isRenewalDue bool) bool {
	e := r.engine
	ctx, cancel := context.WithTimeout(context.Background(), leaseDuration/4)
	defer cancel()
	err := e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		h, err := e.readHead(ctx, tx, r.ref)
		if err != nil {
			return err
		}
		if h.State != Working || h.Runner != r.id {
			return errTurnEnded
		}
		if !isRenewalDue {
			return nil
		}
		h.LeaseEnd = e.Now().Add(leaseDuration).UTC()
		return r.ref.putHead(tx, h)
	})
	if errors.Is(err, errTurnEnded) || errors.Is(err, ErrNotFound) {
		r.stopTurn()
	}
	return err == nil
}

func (e *Engine) readHead(ctx context.Context, tx *store.Tx, r Ref) (*head, error) {
	h, d, err := HeadDocs.Get(ctx, tx, r.headKey())
	switch {
	case err != nil:
		return nil, store.AsProblem(err)
	case d.Version == 0 || d.IsExpired(e.Now()):
		return nil, ErrNotFound
	}
	return &h, nil
}

func (r Ref) putHead(tx *store.Tx, h *head) error {
	p, err := h.newPut(r, 0, tx.ID)
	tx.Put(store.Doc{Key: p.Key, Data: p.Data, Index: p.Index, Expires: p.Expires})
	return err
}
