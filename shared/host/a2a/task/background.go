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

// ErrAgain means that the queue should deliver the message again later, because its task does not
// exist yet or another worker runs its turn.
var ErrAgain = errors.New("the task cannot run yet")

// Start stores a task whose turn a worker will run. It sends the message to the queue after the
// call is verified and before the task is stored, so every stored task has a message. A message
// without a task is redelivered for a while and then dropped.
func (e *Engine) Start(ctx context.Context, t Turn) (Task, error) {
	if e.Queue == nil {
		return Task{}, problem.New(problem.Internal, "this process has no queue for tasks")
	}
	if found, ok, err := e.findEarlier(ctx, &t); ok || err != nil {
		return found, err
	}
	if err := e.applyNext(ctx, &t); err != nil {
		return Task{}, err
	}
	h := e.handoff(&t)
	o := e.options(&t)
	o.Work, o.Streamed = MaxWork, true
	o.AcceptWrites = h.writes(ctx)
	if _, err := e.accept(ctx, &t, func(env *envelope.Envelope) (call.Outcome, bool) {
		out := e.Calls.Accept(ctx, t.Vacant, env, o)
		return out, out.Problem == nil
	}); err != nil {
		var refusal *Refusal
		if errors.As(err, &refusal) {
			h.settleRefused(ctx, refusal.Problem)
		}
		return e.findResent(ctx, &t, err)
	}
	h.settleStored(ctx)
	if t.Continue {
		return e.Get(ctx, t.Ref)
	}
	return h.task, nil
}

// Send sends a call that its caller signed, like call.Host.SendWith. from is the client's address.
// The turn of a slow vacant (call.Host.IsSlow) runs in the background as a task of the signer. Its
// outcome is pending until the turn has ended, and a resend finds the answer.
func (e *Engine) Send(ctx context.Context, route identity.ID, env *envelope.Envelope, by call.Credential, from string) call.Outcome {
	if e.Queue == nil {
		return e.Calls.SendWith(ctx, route, env, call.Options{Credential: by})
	}
	owner := call.KeyOwner(env.From)
	h := e.handoff(&Turn{Ref: Ref{Vacant: env.To, Owner: owner}, List: owner, Caller: env.From, From: from, Credential: by})
	out := e.Calls.SendWith(ctx, route, env, call.Options{Credential: by, HandoffWrites: func(row *call.RequestRow) ([]store.Write, error) {
		h.turn.ID = EnvelopeTask(row.Hash)
		m := Message{ID: "m-" + h.turn.ID, Context: "c-" + h.turn.ID, Role: User, Metadata: envelope.AppendMetadata(nil, env)}
		if id := env.Payload.MessageID; id != nil {
			m.ID = *id
		}
		if context := env.Payload.ContextID; context != nil {
			m.Context = *context
		}
		for _, text := range env.Payload.Parts {
			m.Parts = append(m.Parts, Part{Kind: Text, Text: text})
		}
		h.turn.Message = m
		h.task = h.turn.submittedTask(h.began)
		return h.writes(ctx)(row)
	}})
	switch {
	case h.settle == nil:
	case out.State == call.Pending:
		h.settleStored(ctx)
	default:
		h.settleRefused(ctx, out.Problem)
	}
	return out
}

// handoff stores a turn as a task and queues it for a worker.
type handoff struct {
	engine *Engine
	turn   *Turn
	began  time.Time
	task   Task
	settle func(ctx context.Context, stored bool) // nil until the message is sent
}

func (e *Engine) handoff(t *Turn) *handoff {
	began := e.Now().UTC().Truncate(time.Microsecond)
	return &handoff{engine: e, turn: t, began: began, task: t.submittedTask(began)}
}

// writes returns the writes for the commit of the call's row. It sends the message to the queue.
func (h *handoff) writes(ctx context.Context) func(*call.RequestRow) ([]store.Write, error) {
	deadline, limited := ctx.Deadline()
	ctx = context.WithoutCancel(ctx)
	return func(row *call.RequestRow) ([]store.Write, error) {
		ctx := ctx
		if limited { // an unresponsive queue must not extend the request
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
		} else if err = e.notifyFirst(ctx, t); err == nil {
			head := t.head(h.began)
			head.Position, head.Background, head.Sender = row.Position, true, sender
			writes, err = e.newTask(ctx, t, head, &h.task)
			writes = append(writes, t.placeWrite(sender))
		}
		if err != nil {
			return nil, err
		}
		if h.settle == nil {
			if h.settle, err = e.Queue.Send(ctx, t.message(), sender); err != nil {
				return nil, problem.Wrap(problem.Unavailable, err, "the task cannot be queued now; send the same request again")
			}
		}
		return writes, nil
	}
}

func (t *Turn) placeWrite(sender Sender) store.Write {
	limit := int64(MaxBackground)
	if sender.IsAccount() {
		limit = maxPaid
	}
	return store.Add{Key: backgroundKey(t.Ref), Delta: 1, Min: 0, Max: limit}
}

func (h *handoff) settleStored(ctx context.Context) {
	if h.settle != nil {
		h.settle(ctx, true)
	}
	h.engine.announce(h.turn)
}

func (h *handoff) settleRefused(ctx context.Context, p *problem.Error) {
	if h.settle != nil {
		h.settle(ctx, p.Kind == problem.Unavailable)
	}
}

func (r Ref) message() string { return r.Vacant.String() + "#" + r.Owner.String() + "#" + r.ID }

func ParseMessage(s string) (r Ref, err error) {
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

// Work runs the turn of a queue message, unless the turn was run before. If the queue should
// deliver the message again, the error is ErrAgain, ErrWaiting, ErrFull, ErrUndecided or a store
// error.
func (e *Engine) Work(ctx context.Context, message string) error {
	ref, err := ParseMessage(message)
	if err != nil {
		e.Log.ErrorContext(ctx, "queue", "cause", err.Error())
		return nil
	}
	r := e.newRunner(ref, time.Time{})
	now := e.Now()
	r.flushed, r.traced = now, now // a short turn writes its text and trace only once
	l, err := e.claim(ctx, r)
	switch {
	case errors.Is(err, ErrNotFound):
		return ErrAgain
	case err != nil:
		return err
	case l == nil:
		return nil
	}
	// The turn began when its message arrived, which is still the time of the status, because a
	// waiting turn does not change the status.
	o := call.Options{Work: MaxWork, Guest: !ref.Owner.SignsMessages(), Task: ref.ID, Began: l.task.Status.Time, CompleteReply: replyIDs(ref.ID, l.task.Context)}
	d := l.head.Dispatch
	r.dispatch = d
	if by := l.turn.by; by != nil {
		t := Turn{Credential: *by}
		t.applyDispatch(d)
		o.Credential, o.Recheck = t.Credential, e.recheckLater(&t)
	}
	r.join(&o)
	// The caller's log lines count towards the caller's share of the log in all processes.
	ctx = obs.WithSender(ctx, obs.Sender{ID: string(l.head.Sender), Guest: !l.head.Sender.IsAccount()})
	if d != nil && len(l.task.History) > 1 {
		r.continueLog(ctx)
	}
	turnCtx := withTurn(withMessages(ctx, messages{turn: l.task.lastUserMessage(), first: &l.task.History[0]}), ref, d, r)
	ended := make(chan struct{})
	var out call.Outcome
	e.run(r, func() {
		defer close(ended)
		out = e.Calls.Resume(turnCtx, l.pair(), l.head.Position, o)
	})
	<-ended
	r.storeLog(ctx)
	switch {
	case out.State == call.Pending:
		return ErrUndecided
	case r.decidedBy(&out):
		return nil
	}
	// Another process decided the overdue call without ending the task. The task ends now, because
	// it would otherwise count as a turn of the vacant until the next read of the task.
	l, err = e.load(ctx, r.ref)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil || l.head.State != Working || l.head.Runner != r.id:
		return err
	}
	return e.abandon(ctx, l)
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

// claim gives r the lease of a waiting turn, which is the right to run the turn for a limited time,
// and counts the turn in its shares (Share). If the task has ended, or ends now because its call is
// refused, claim returns nil.
func (e *Engine) claim(ctx context.Context, r *runner) (*loaded, error) {
	l, err := e.current(ctx, r.ref)
	if err != nil {
		return nil, err
	}
	switch {
	case l.head.State.Terminal():
		return nil, nil
	case l.head.State == Working:
		return nil, ErrAgain
	case l.head.isUnaccepted():
		if err := e.claimWaiting(ctx, r, l); err != nil || l.head.State != Working {
			return nil, err
		}
		return e.startTurn(r, l), nil
	case l.head.Dispatch != nil && l.turn.by != nil: // an answer to the agent's question
		t := Turn{Credential: *l.turn.by}
		t.applyDispatch(l.head.Dispatch)
		if err := e.recheck(ctx, &t); problem.Is(err, problem.Unavailable) {
			return nil, err
		} else if err != nil {
			return nil, e.refuseTurn(ctx, l, problem.AsError(err))
		}
	}
	s := Status{State: Working, Time: e.Now().UTC().Truncate(time.Microsecond)}
	counts, shares, err := e.countIn(ctx, r.ref, l.head.Sender, s.Time)
	if err != nil {
		return nil, err
	}
	err = e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		h, err := e.readHead(ctx, tx, r.ref)
		if err != nil {
			return err
		}
		if h.State != Submitted {
			return ErrAgain
		}
		r.next = h.Events + 1
		if err := e.notifyOf(ctx, r.ref, r.next); err != nil {
			return err
		}
		h.State, h.Changed, h.Lease, h.Runner, h.Events = Working, s.Time, e.Now().Add(lease).UTC(), r.id, r.next
		h.Shares = shares
		w, err := e.eventPut(ctx, r.ref, r.next, storedEvent{Event: Event{Status: &s}}, h.expires(), tx.ID)
		if err != nil {
			return err
		}
		h.Bytes += len(w.Data)
		tx.Add(w)
		tx.Add(counts...)
		return r.ref.putHead(tx, h)
	})
	if errors.As(err, new(*store.BoundsError)) { // another worker was faster
		return e.claim(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	return e.startTurn(r, l), nil
}

func (e *Engine) startTurn(r *runner, l *loaded) *loaded {
	e.hub.wake(r.ref.partition())
	r.began, r.task = l.head.Began, l.task
	r.next++
	return l
}
