package task

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var ErrRetryLater = errors.New("the task cannot run yet")

// Enqueue stores a task whose turn a worker will run. The queue message is sent first, so that a
// crash cannot leave a task without a message.
func (e *Engine) Enqueue(ctx context.Context, t Turn) (Task, error) {
	if e.Queue == nil {
		return Task{}, problem.New(problem.Internal, "this process has no queue for tasks")
	}
	if found, ok, err := e.findByMessageID(ctx, &t); ok || err != nil {
		return found, err
	}
	if err := e.applyTaskSettings(ctx, &t); err != nil {
		return Task{}, err
	}
	h := e.newHandoff(&t)
	opts := e.callOptions(&t)
	opts.CallTimeout, opts.Streamed = MaxTurnTime, true
	opts.AcceptWrites = h.acceptWrites(ctx)
	if _, err := e.acceptCall(ctx, &t, func(env *envelope.Envelope) (call.Outcome, bool) {
		out := e.Calls.AcceptForResume(ctx, t.Vacant, env, opts)
		return out, out.Problem == nil
	}); err != nil {
		var refusal *Refusal
		if errors.As(err, &refusal) {
			h.settleAfterRefusal(ctx, refusal.Problem)
		}
		return e.findByEnvelope(ctx, &t, err)
	}
	h.settleAndAnnounce(ctx)
	if t.Continue {
		return e.Get(ctx, t.Ref)
	}
	return h.task, nil
}

// Send sends a call that its caller signed. If the vacant is slow, the outcome is pending, and the
// caller gets the answer by sending the call again.
func (e *Engine) Send(ctx context.Context, route identity.ID, env *envelope.Envelope, credential call.Credential, address string) call.Outcome {
	if e.Queue == nil {
		return e.Calls.SendWith(ctx, route, env, call.Options{Credential: credential})
	}
	owner := call.KeyOwner(env.From)
	h := e.newHandoff(&Turn{Ref: Ref{Vacant: env.To, Owner: owner}, ListOwner: owner, Caller: env.From, ClientAddress: address, Credential: credential})
	out := e.Calls.SendWith(ctx, route, env, call.Options{Credential: credential, HandoffWrites: func(row *call.RequestRow) ([]store.Write, error) {
		h.turn.ID = EnvelopeTaskID(row.Hash)
		m := Message{ID: "m-" + h.turn.ID, Context: "c-" + h.turn.ID, Role: User, Metadata: envelope.AppendMetadata(nil, env)}
		if id := env.Payload.MessageID; id != nil {
			m.ID = *id
		}
		if contextID := env.Payload.ContextID; contextID != nil {
			m.Context = *contextID
		}
		for _, text := range env.Payload.Parts {
			m.Parts = append(m.Parts, Part{Kind: Text, Text: text})
		}
		h.turn.Message = m
		h.task = h.turn.submittedTask(h.startedAt)
		return h.acceptWrites(ctx)(row)
	}})
	switch {
	case h.settleMessage == nil:
	case out.State == call.Pending:
		h.settleAndAnnounce(ctx)
	default:
		h.settleAfterRefusal(ctx, out.Problem)
	}
	return out
}

type handoff struct {
	engine        *Engine
	turn          *Turn
	startedAt     time.Time
	task          Task
	settleMessage func(ctx context.Context, stored bool)
}

func (e *Engine) newHandoff(t *Turn) *handoff {
	startTime := e.Now().UTC().Truncate(time.Microsecond)
	return &handoff{engine: e, turn: t, startedAt: startTime, task: t.submittedTask(startTime)}
}

func (h *handoff) acceptWrites(ctx context.Context) func(*call.RequestRow) ([]store.Write, error) {
	deadline, hasDeadline := ctx.Deadline()
	ctx = context.WithoutCancel(ctx)
	return func(row *call.RequestRow) ([]store.Write, error) {
		ctx := ctx
		if hasDeadline { // an unresponsive queue must not extend the request
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, deadline)
			defer cancel()
		}
		e, t := h.engine, h.turn
		sender := t.sender(row)
		var writes []store.Write
		var err error
		if t.Continue {
			writes, err = e.continueWrites(ctx, t, nil, row)
		} else if err = e.notifyFirstEvent(ctx, t); err == nil {
			head := t.newHead(h.startedAt)
			head.Position, head.Background, head.Sender = row.Position, true, sender
			writes, err = e.newTaskWrites(ctx, t, head, &h.task)
			writes = append(writes, t.backgroundCountWrite(sender))
		}
		if err != nil {
			return nil, err
		}
		if h.settleMessage == nil { // a repeated commit must not send a second message
			if h.settleMessage, err = e.Queue.Send(ctx, t.encode(), sender); err != nil {
				return nil, problem.Wrap(problem.Unavailable, err, "the task cannot be queued now; send the same request again")
			}
		}
		return writes, nil
	}
}

func (t *Turn) backgroundCountWrite(sender Sender) store.Write {
	limit := int64(MaxBackground)
	if sender.IsAccount() {
		limit = maxAccountBackground
	}
	return store.Add{Key: backgroundKey(t.Ref), Delta: 1, Min: 0, Max: limit}
}

func (h *handoff) settleAndAnnounce(ctx context.Context) {
	if h.settleMessage != nil {
		h.settleMessage(ctx, true)
	}
	h.engine.announceTurn(h.turn)
}

func (h *handoff) settleAfterRefusal(ctx context.Context, p *problem.Error) {
	if h.settleMessage != nil {
		h.settleMessage(ctx, p.Kind == problem.Unavailable)
	}
}

func (r Ref) encode() string { return r.Vacant.String() + "#" + r.Owner.String() + "#" + r.ID }

func ParseRef(s string) (r Ref, err error) {
	parts := strings.Split(s, "#")
	if len(parts) != 3 || !isID(parts[2]) {
		return r, problem.New(problem.Damaged, "the queue message does not identify a task: %.20q", s)
	}
	r.ID = parts[2]
	if r.Owner, err = call.ParseOwner(parts[1]); err != nil {
		return r, err
	}
	r.Vacant, err = identity.ParseID(parts[0])
	return r, err
}

// RunQueued runs the turn of a queue message once. An error means that the queue should deliver the
// message again.
func (e *Engine) RunQueued(ctx context.Context, message string) error {
	ref, err := ParseRef(message)
	if err != nil {
		e.Log.ErrorContext(ctx, "queue", "cause", err.Error())
		return nil
	}
	r := e.newRunner(ref, time.Time{})
	now := e.Now()
	r.lastFlush, r.lastTraceWrite = now, now // a short turn writes its text and trace once
	l, err := e.leaseTurn(ctx, r)
	switch {
	case errors.Is(err, ErrNotFound):
		return ErrRetryLater
	case err != nil:
		return err
	case l == nil:
		return nil
	}
	// Status.Time is when the call was accepted, because the status of a waiting turn does not
	// change.
	opts := call.Options{CallTimeout: MaxTurnTime, Guest: !ref.Owner.SignsMessages(), Task: ref.ID, Arrival: l.task.Status.Time, CompleteReply: replyIDs(ref.ID, l.task.Context)}
	dispatch := l.head.Dispatch
	r.dispatch = dispatch
	if credential := l.lastTurn.credential; credential != nil {
		t := Turn{Credential: *credential}
		t.applyDispatch(dispatch)
		opts.Credential, opts.RefreshPayer = t.Credential, e.refreshPayerFunc(&t)
	}
	r.attachTo(&opts)
	ctx = obs.WithSender(ctx, obs.Sender{ID: string(l.head.Sender), Guest: !l.head.Sender.IsAccount()})
	if dispatch != nil && len(l.task.History) > 1 {
		r.loadLogCounts(ctx)
	}
	turnCtx := withTurn(withMessages(ctx, turnMessages{current: l.task.lastUserMessage(), first: &l.task.History[0]}), ref, dispatch, r)
	turnDone := make(chan struct{})
	var out call.Outcome
	e.startRunner(r, func() {
		defer close(turnDone)
		out = e.Calls.Resume(turnCtx, l.pair(), l.head.Position, opts)
	})
	<-turnDone
	r.storeLog(ctx)
	switch {
	case out.State == call.Pending:
		return ErrUndecided
	case r.hasDecided(&out):
		return nil
	}
	// Another process decided the call but did not end the task. The task would otherwise still
	// count as running.
	l, err = e.loadTask(ctx, r.ref)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil || l.head.State != Working || l.head.Runner != r.id:
		return err
	}
	return e.failAbandoned(ctx, l)
}

func (t *Task) lastUserMessage() *Message {
	for i, m := range slices.Backward(t.History) {
		if m.Role == User {
			if i == 0 {
				m.Task = ""
			}
			return &m
		}
	}
	return nil
}

// leaseTurn returns nil if the task has ended.
func (e *Engine) leaseTurn(ctx context.Context, r *runner) (*loadedTask, error) {
	l, err := e.loadCurrentTask(ctx, r.ref)
	if err != nil {
		return nil, err
	}
	switch {
	case l.head.State.IsTerminal():
		return nil, nil
	case l.head.State == Working:
		return nil, ErrRetryLater
	case l.head.isUnaccepted():
		if err := e.leaseFirstTurn(ctx, r, l); err != nil || l.head.State != Working {
			return nil, err
		}
		return e.initRunner(r, l), nil
	case l.head.Dispatch != nil && l.lastTurn.credential != nil: // an answer to the agent's question
		t := Turn{Credential: *l.lastTurn.credential}
		t.applyDispatch(l.head.Dispatch)
		if err := e.refreshTaskPayer(ctx, &t); problem.Is(err, problem.Unavailable) {
			return nil, err
		} else if err != nil {
			return nil, e.failTurn(ctx, l, problem.AsError(err))
		}
	}
	s := Status{State: Working, Time: e.Now().UTC().Truncate(time.Microsecond)}
	takeWrites, shares, err := e.takeShareWrites(ctx, r.ref, l.head.Sender, s.Time)
	if err != nil {
		return nil, err
	}
	err = e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		h, err := e.readHead(ctx, tx, r.ref)
		if err != nil {
			return err
		}
		if h.State != Submitted {
			return ErrRetryLater
		}
		r.nextEvent = h.EventCount + 1
		if err := e.notifyActivePushConfigs(ctx, r.ref, r.nextEvent); err != nil {
			return err
		}
		h.State, h.StatusTime, h.LeaseEnd, h.Runner, h.EventCount = Working, s.Time, e.Now().Add(leaseDuration).UTC(), r.id, r.nextEvent
		h.Shares = shares
		w, err := e.newEventPut(ctx, r.ref, r.nextEvent, storedEvent{Event: Event{Status: &s}}, h.expires(), tx.ID)
		if err != nil {
			return err
		}
		h.EventBytes += len(w.Data)
		tx.AddWrites(w)
		tx.AddWrites(takeWrites...)
		return r.ref.putHead(tx, h)
	})
	if errors.As(err, new(*store.BoundsError)) { // another worker was faster
		return e.leaseTurn(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	return e.initRunner(r, l), nil
}

func (e *Engine) initRunner(r *runner, l *loadedTask) *loadedTask {
	e.hub.wake(r.ref.partition())
	r.startedAt, r.task = l.head.StartedAt, l.task
	r.nextEvent++
	return l
}
