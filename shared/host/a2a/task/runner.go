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

// errEnded means that another writer ended the task.
var errEnded = problem.New(problem.Canceled, "the task has ended")

// Begin stores a task and runs its turn in this process. It returns when the task can be followed.
// done is closed when the turn has ended. If the call was not accepted, the error is a *Refusal. If
// the message arrived earlier, ref is the existing task and the error is nil.
func (e *Engine) Begin(ctx context.Context, t Turn) (ref Ref, done <-chan struct{}, err error) {
	ended := make(chan struct{})
	if _, ok, err := e.findEarlier(ctx, &t); ok || err != nil {
		close(ended)
		return t.Ref, ended, err
	}
	if err := e.applyNext(ctx, &t); err != nil {
		close(ended)
		return t.Ref, ended, err
	}
	looked := e.lookForLost(ctx, &t)
	began := e.Now().UTC().Truncate(time.Microsecond)
	r := e.newRunner(t.Ref, began)
	r.quiet, r.brief, r.dispatch = t.Quiet, t.Quiet && t.Work == 0, t.dispatch
	r.ramp = e.ChunkRamp
	o := e.options(&t)
	r.join(&o)
	o.Work, o.Streamed = MaxWork, !t.Quiet
	if t.Work > 0 {
		o.Work = t.Work
	}
	o.AcceptWrites = func(row *call.RequestRow) ([]store.Write, error) {
		if err := looked(); err != nil {
			return nil, err
		}
		if t.Continue {
			return e.continueWrites(context.WithoutCancel(ctx), &t, r, row)
		}
		h := t.head(began)
		h.State, h.Position, h.Lease, h.Runner = Working, row.Position, e.Now().Add(lease).UTC(), r.id
		task := t.submittedTask(began)
		task.Status.State = Working
		if err := e.notifyFirst(ctx, &t); err != nil {
			return nil, err
		}
		return e.newTask(context.WithoutCancel(ctx), &t, h, &task)
	}
	var a *call.AcceptedCall
	_, err = e.accept(ctx, &t, func(env *envelope.Envelope) (out call.Outcome, ok bool) {
		a, out = e.Calls.Begin(ctx, t.Vacant, env, o)
		return out, a != nil
	})
	if err != nil {
		close(ended)
		// An answer that is already paid for is delivered even if a new call would be refused.
		if lost := looked(); errors.Is(lost, ErrLost) {
			return t.Ref, ended, lost
		}
		found, err := e.findResent(ctx, &t, err)
		t.ID = found.ID
		return t.Ref, ended, err
	}
	e.announce(&t)
	if !t.Continue {
		r.task, r.next = t.submittedTask(began), 2
	}
	ctx = withTurn(withMessages(ctx, messages{&t.Message, &r.task.History[0], t.Told}), t.Ref, t.dispatch, nil)
	e.run(r, func() {
		defer close(ended)
		out := e.Calls.Run(ctx, a)
		if t.Ended != nil && r.decidedBy(&out) {
			t.Ended(&Ended{began, a.Pair, a.Position, &r.status})
		}
	})
	return t.Ref, ended, nil
}

// ErrBusy means that a task does not accept a message, because its turn is running or the task has
// ended.
var ErrBusy = problem.New(problem.Conflict, "the task does not accept a message now, because its turn is running or it has ended")

// continueWrites returns the writes that begin the next turn of a task: the head, at the version that
// was read, and the message with the new status. It assigns the message to the task's context. r
// runs the turn. If r is nil, a worker will run it.
func (e *Engine) continueWrites(ctx context.Context, t *Turn, r *runner, row *call.RequestRow) ([]store.Write, error) {
	l, err := e.load(ctx, t.Ref)
	if err != nil {
		return nil, err
	}
	if err := l.task.CheckContext(t.Message.Context); err != nil {
		return nil, err
	}
	t.Message.Context = l.task.Context
	h := l.head
	if !h.State.Waits() || !t.hasSettings(h.Dispatch) {
		return nil, ErrBusy
	}
	m := t.Message
	m.Task = t.ID
	event := storedEvent{Event: Event{Status: &Status{State: Working, Time: e.Now().UTC().Truncate(time.Microsecond)}, Asked: &m}}
	n := len(l.events) + 1
	h.State, h.Changed, h.Caller, h.Position, h.Events = Working, event.Status.Time, t.Caller, row.Position, n
	var more []store.Write
	if r == nil {
		h.State, h.Background, h.Sender, event.Status.State = Submitted, true, t.sender(row), Submitted
		event.By = &t.Credential
		more = append(more, t.placeWrite(h.Sender))
	} else {
		h.Lease, h.Runner, h.Background = e.Now().Add(lease).UTC(), r.id, false
	}
	id, err := e.updater().NewWriteID()
	if err != nil {
		return nil, err
	}
	w, err := e.eventPut(ctx, t.Ref, n, event, h.expires(), id)
	if err != nil {
		return nil, err
	}
	h.Bytes = l.size + len(w.Data)
	put, err := h.put(t.Ref, l.version, id)
	if err != nil {
		return nil, err
	}
	if t.Push == nil {
		if err := e.notifyOf(ctx, t.Ref, n); err != nil {
			return nil, err
		}
	} else {
		docs, err := e.pushDocs(ctx, t.Ref)
		if err != nil {
			return nil, err
		}
		slot, err := e.slotFor(ctx, t.Ref, docs, t.Push.ID)
		if err != nil {
			return nil, err
		}
		w, err := e.pushPut(ctx, &h, slot, storedPush{PushConfig: *t.Push}, id)
		if err != nil {
			return nil, err
		}
		w.Number = int64(n - 1) // earlier events count as delivered
		more = append(more, w)
		if err := e.notify(ctx, Notice{Task: t.Ref, Events: n}, SenderOf(t.Owner, t.Push.From)); err != nil {
			return nil, err
		}
	}
	if r != nil {
		r.began, r.task, r.next = h.Began, l.task, n+1
		r.task.Apply(event.Event)
		r.said = r.task.answer()
	}
	return append(more, put, w), nil
}

func (e *Engine) run(r *runner, turn func()) {
	e.hub.runners.Store(r.ref.partition(), r)
	e.running.Go(func() {
		var beside sync.WaitGroup
		finished := make(chan struct{})
		// Store pieces that have waited long enough, renew the lease, and check whether another
		// instance has ended the task.
		beside.Go(func() {
			defer r.engine.hub.runners.CompareAndDelete(r.ref.partition(), r)
			look := time.NewTicker(time.Second)
			defer look.Stop()
			defer r.flushTimer.Stop()
			renewed := r.engine.Now()
			for {
				select {
				case <-finished:
					return
				case <-r.flushTimer.C:
					ctx, cancel := context.WithTimeout(context.Background(), flushTime)
					r.mu.Lock()
					_ = r.flush(ctx, false)
					r.mu.Unlock()
					cancel()
				case <-look.C:
					r.mu.Lock()
					if r.isTraceDue() {
						r.storeTrace(context.Background())
					}
					r.mu.Unlock()
					r.storeLog(context.Background())
					renew := r.engine.Now().Sub(renewed) > lease/3
					if r.look(renew) && renew {
						renewed = r.engine.Now()
					}
				}
			}
		})
		turn()
		close(finished)
		beside.Wait()
		e.hub.wake(r.ref.partition())
	})
}

// runner runs one turn. It stores the pieces of the answer, renews the lease, and detects that
// another writer has ended the task.
type runner struct {
	engine *Engine
	ref    Ref
	id     string
	began  time.Time
	stop   chan struct{} // closed to stop the turn
	quiet  bool          // pieces are stored only at the end
	brief  bool          // a client request waits for the turn
	ramp   int           // Config.ChunkRamp, or 0 for a background turn
	// flushTimer fires when the pending text is due to be stored.
	flushTimer *time.Timer
	// dispatch contains the settings of a dispatched task, or is nil.
	dispatch *Dispatch

	// mu guards the fields below. Callers of logEvent, record, isTraceDue, storeTrace, flush,
	// closeText, complete and put must hold it.
	mu      sync.Mutex
	stopped bool
	task    Task
	next    int       // number of the next event
	said    string    // text that is stored
	heard   []byte    // text that is not stored yet
	stored  int       // stored bytes of the events
	flushed time.Time // time at which text was last stored
	broken  bool      // pieces were lost, so the answer must replace the artifact
	closed  bool      // the last piece of the answer is stored
	ending  *Ending   // requested end, or nil
	status  Status    // final status of the turn; its State is "" until the turn is decided

	came     int         // bytes of text and thoughts so far
	reported *call.Usage // last reported usage
	counted  int         // value of came at the time of the last report

	trace                  []TraceEntry // entries that are not stored yet
	traceSize, traceStored int          // bytes of all entries, and of the stored entries
	traceDocs              int          // number of documents
	traced                 time.Time    // time of the last document

	log sessionLog
}

func (e *Engine) newRunner(r Ref, began time.Time) *runner {
	id, err := e.NewID()
	if err != nil {
		id = r.ID // runner ids only distinguish runners
	}
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &runner{engine: e, ref: r, id: id, began: began, stop: make(chan struct{}), flushTimer: timer}
}

func (r *runner) join(o *call.Options) {
	o.Sink, o.DecideWrites, o.Stop = r.take, r.decisionWrites, r.stop
}

// decidedBy reports whether r decided the turn. The turn must have ended with the outcome out, so
// that the status no longer changes.
func (r *runner) decidedBy(out *call.Outcome) bool {
	s := r.status.State
	return (out.Reply != nil || out.State == call.Unanswered) && s != "" && (s == Failed) == (out.Reply == nil)
}

func (r *runner) cancel() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.stopped = true
		close(r.stop)
	}
}

// take is the Sink of the call. It joins pieces of text. It stores the first piece immediately, and
// later pieces when they are large enough or joinTime has passed.
func (r *runner) take(p call.Progress) {
	piece, ok := p.(call.Provisional)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	r.came += len(piece.Text) + len(piece.Thought)
	if u, before := piece.Usage, r.reported; u != nil {
		r.reported, r.counted = u, r.came
		if before != nil && (u.Turns > before.Turns || u.Tools > before.Tools) {
			// Another process that cancels the task charges the usage that is stored with the
			// readable part of the answer. The next piece may be far away, because model turns and
			// tools take long, so the usage is stored now.
			switch {
			case len(r.heard) > 0 && !r.quiet:
				_ = r.flush(ctx, false)
			case r.said != "" && !r.broken && r.next < MaxEvents-1:
				_ = r.put(ctx, storedEvent{Used: r.usageSoFar()})
			}
		}
	}
	switch d := piece.Detail.(type) {
	case Chunk:
		_ = r.put(ctx, storedEvent{Event: Event{Artifact: &d}})
	case Ending:
		r.ending = &d
	case call.ToolStep:
		r.record(TraceEntry{Tool: &d})
		if d.Outcome != "" {
			r.logEvent(LogUpdate, LogData{Tool: d.Name, Outcome: d.Outcome})
		}
		return
	}
	if piece.Thought != "" {
		r.record(TraceEntry{Thought: piece.Thought})
	}
	if piece.Asks {
		r.ending = &Ending{InputRequired}
	}
	if _, artifact := r.ending.of(); !artifact {
		return // the text is only the message of the status
	}
	r.heard = append(r.heard, piece.Text...)
	switch wait := r.joinTime() - r.engine.Now().Sub(r.flushed); {
	case r.quiet:
	case piece.Last:
		// A later cancel charges the usage that is stored with the end of the text.
		_ = r.closeText(ctx)
	case r.flushed.IsZero() || len(r.heard) >= maxChunk || wait <= 0:
		_ = r.flush(ctx, false) // an error loses no text, because the answer contains it again
	default:
		r.flushTimer.Reset(wait)
	}
}

// joinTime returns how long pieces of text are joined before they are stored.
func (r *runner) joinTime() time.Duration {
	if r.next < r.ramp {
		return r.engine.Chunk * time.Duration(r.next) / time.Duration(r.ramp)
	}
	return r.engine.Chunk
}

func (r *runner) closeText(ctx context.Context) error {
	switch {
	case len(r.heard) > 0:
		return r.flush(ctx, true)
	case r.said == "" || r.closed || r.broken:
		return nil
	}
	return r.put(ctx, storedEvent{Event: Event{Artifact: &Chunk{Artifact: textArtifact(""), Append: true, Last: true}}, Used: r.usageSoFar()})
}

// usageSoFar returns the turn's usage so far: the usage that the agent reported, plus an estimate
// for the text and the thoughts after the report. If the agent has not reported usage, usageSoFar
// also estimates the request. A model's first report contains that estimate (package loop).
func (r *runner) usageSoFar() *call.Usage {
	var u call.Usage
	if r.reported != nil {
		u = *r.reported
	} else if asked := r.task.lastUserMessage(); asked != nil {
		n := 0 // bytes that a model reads as text
		for _, p := range asked.Parts {
			if n += len(p.Text) + len(p.Data); strings.HasPrefix(p.Media(), "text/") || p.Media() == "application/json" {
				n += len(p.Raw)
			}
		}
		u.In = call.EstimatedTokens(n)
	}
	if rest := r.came - r.counted; rest > 0 {
		u.Out += call.EstimatedTokens(rest)
		u.Unreported = max(u.Unreported, 1)
	}
	return &u
}

// flushTime limits the time for which storing a piece may delay the turn. It is less than the time
// that a call waits for its Sink.
const flushTime = 900 * time.Millisecond

func (r *runner) flush(ctx context.Context, last bool) error {
	if len(r.heard) == 0 || r.broken || r.next >= MaxEvents-1 || r.stored+len(r.heard) > MaxBytes {
		return nil
	}
	c := &Chunk{Artifact: textArtifact(string(r.heard)), Append: r.said != "", Last: last}
	if err := r.put(ctx, storedEvent{Event: Event{Artifact: c}, Used: r.usageSoFar()}); err != nil {
		// The event may be stored. The answer will replace the artifact.
		r.broken = true
		return err
	}
	r.said += string(r.heard)
	r.heard, r.flushed = nil, r.engine.Now()
	return nil
}

func (r *runner) put(ctx context.Context, event storedEvent) error {
	e := r.engine
	id, err := e.updater().NewWriteID()
	if err != nil {
		return err
	}
	h := head{Began: r.began}
	w, err := e.eventPut(ctx, r.ref, r.next, event, h.expires(), id)
	if err != nil {
		return err
	}
	if err := e.updater().Commit(ctx, w); err != nil {
		return err
	}
	r.next++
	r.stored += len(w.Data)
	if c := event.Artifact; c != nil && c.Artifact.ID == ResponseArtifact && c.Last {
		r.closed = true
	}
	r.task.Apply(event.Event)
	e.hub.wake(r.ref.partition())
	return nil
}

// decisionWrites returns the writes that end the task. They are committed together with the row
// that decides the turn. decisionWrites first stores the rest of the answer.
func (r *runner) decisionWrites(ctx context.Context, d call.Decision) ([]store.Write, error) {
	r.storeLog(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.engine
	r.storeTrace(ctx)
	if _, artifact := r.ending.of(); d.Reply != nil && artifact {
		if err := r.complete(ctx, d.Reply.Payload.Text()); err != nil {
			return nil, err
		}
	}
	r.status = e.finalStatus(&r.task, d, r.ending, r.brief)
	end := end{status: r.status, void: d.Reply == nil, runner: r.id, spent: d.Spent, written: r.log.written}
	return e.ends(ctx, r.ref, &r.task, end)
}

func (r *runner) complete(ctx context.Context, answer string) error {
	if r.task.answer() == answer && len(r.heard) == 0 {
		// An error must not lose the answer. The status ends the task even without the mark of the
		// last piece.
		_ = r.closeText(ctx)
		return nil
	}
	if r.said+string(r.heard) == answer && !r.broken {
		if err := r.flush(ctx, true); err == nil && len(r.heard) == 0 {
			return nil
		}
	}
	// Pieces were lost, or the agent did not stream.
	n, _, err := r.engine.lastEvent(ctx, r.ref, r.next-1)
	if err != nil {
		return err
	}
	r.next, r.heard = n+1, nil
	return r.put(ctx, storedEvent{Event: Event{Artifact: &Chunk{Artifact: textArtifact(answer), Last: true}}, Used: r.usageSoFar()})
}

// look reads the head. It renews the lease if renew is true, and stops the turn if the task has
// ended. It reports whether the lease is held.
func (r *runner) look(renew bool) bool {
	e := r.engine
	ctx, cancel := context.WithTimeout(context.Background(), lease/4)
	defer cancel()
	err := e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		h, err := e.readHead(ctx, tx, r.ref)
		if err != nil {
			return err
		}
		if h.State != Working || h.Runner != r.id {
			return errEnded
		}
		if !renew {
			return nil
		}
		h.Lease = e.Now().Add(lease).UTC()
		return r.ref.putHead(tx, h)
	})
	if errors.Is(err, errEnded) || errors.Is(err, ErrNotFound) {
		r.cancel()
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
	p, err := h.put(r, 0, tx.ID)
	tx.Put(store.Doc{Key: p.Key, Data: p.Data, Index: p.Index, Expires: p.Expires})
	return err
}
