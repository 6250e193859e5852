package task

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	MaxUnfinished          = 100
	MaxUnfinishedPerVacant = maxAccountBackground
	DefaultRunTime         = 6 * time.Hour
	MaxRunTime             = 20 * time.Hour
	maxScannedEntries      = 200
)

type Dispatch struct {
	Agent    string    `json:"agent"` // name of the vacant, or its id if it has no name
	Deadline time.Time `json:"deadline"`
	Mode     string    `json:"mode"`
	// AgentModel is set only if IsOwn is true.
	AgentModel string `json:"answers,omitempty"`
	// The following settings override the agent's settings unless they are empty.
	Model        string   `json:"model,omitempty"`
	MaxTurns     int      `json:"max_turns,omitempty"`
	Effort       string   `json:"effort,omitempty"`
	OutputFormat string   `json:"output_format,omitempty"`
	Servers      []Server `json:"servers,omitempty"`
	// If Budget is nil, the cost is not limited.
	Budget *money.Amount `json:"budget,omitempty"`
	Cost   money.Amount  `json:"spent,omitempty"`
	// IsOwn reports whether the task's owner owns the vacant.
	IsOwn       bool     `json:"own,omitempty"`
	Files       *Files   `json:"files,omitempty"`
	RequestHash string   `json:"request,omitempty"`
	Warnings    []string `json:"warnings,omitempty"`
}

// Server is an MCP server. The names of its tools begin with its name.
type Server struct {
	Name     string `json:"name" canon:"required"`
	URL      string `json:"url" canon:"required"`
	Required bool   `json:"required,omitempty"`
}

type Files struct {
	Owner        string   `json:"owner"`
	Workspace    string   `json:"workspace"`
	LockPaths    []string `json:"lock,omitempty"`
	WrittenPaths []string `json:"written,omitempty"`
}

type Locks interface {
	// Acquire adds to tx the writes that lock the paths of a task, or that queue the task for the
	// lock.
	Acquire(ctx context.Context, tx *store.Tx, r Ref, d *Dispatch) (warnings []string, isWaiting bool, err error)
}

func (e *Engine) acquireLock(ctx context.Context, tx *store.Tx, r Ref, d *Dispatch) (isWaiting bool, err error) {
	if e.Locks == nil || d.Files == nil || len(d.Files.LockPaths) == 0 {
		return false, nil
	}
	warnings, isWaiting, err := e.Locks.Acquire(ctx, tx, r, d)
	d.Warnings = append(slices.Clip(d.Warnings), warnings...)
	return isWaiting, err
}

func (d *Dispatch) RemainingBudget() *money.Amount {
	if d.Budget == nil {
		return nil
	}
	remaining := max(*d.Budget-d.Cost, 0)
	return &remaining
}

type DispatchedTask struct {
	Ref  Ref
	Task Task
	Dispatch
	StartedAt time.Time
}

type dispatchedEntry struct {
	Vacant   identity.ID `json:"vacant"`
	Agent    string      `json:"agent"`
	Deadline time.Time   `json:"deadline"`
}

func accountOrOwner(o call.Owner) string {
	if account, ok := o.Account(); ok {
		return account.String()
	}
	return o.String()
}

// checkUnfinishedLimit does not see concurrent dispatches, which may exceed the limits.
func (e *Engine) checkUnfinishedLimit(ctx context.Context, r Ref) error {
	total, atVacant := 0, 0
	for d, err := range store.Documents(ctx, e.Store, UnfinishedDocs.Range(accountOrOwner(r.Owner))) {
		if err != nil {
			return store.AsProblem(err)
		}
		entry, err := UnfinishedDocs.Parse(d)
		if err != nil {
			return err
		}
		if !e.Now().Before(entry.Deadline) {
			continue
		}
		if total++; entry.Vacant == r.Vacant {
			atVacant++
		}
	}
	switch {
	case total >= MaxUnfinished:
		return problem.New(problem.TooManyRequests, "the limit of %d unfinished tasks is reached; cancel a task, or wait until one ends", MaxUnfinished)
	case atVacant >= MaxUnfinishedPerVacant:
		return problem.New(problem.TooManyRequests, "the limit of %d unfinished tasks at this agent is reached; cancel a task, or wait until one ends", MaxUnfinishedPerVacant)
	}
	return nil
}

func (r Ref) unfinishedKey() store.Key { return UnfinishedDocs.Key(accountOrOwner(r.Owner), r.ID) }

func DispatchID(owner call.Owner, key string) string {
	sum := sha256.Sum256([]byte("vacancy dispatch v1\x1f" + owner.String() + "\x1f" + key))
	return hex.EncodeToString(sum[:16])
}

var errAlreadyDispatched = problem.New(problem.Conflict, "the task was dispatched before")

// Dispatch stores a task and queues its first turn. The call is accepted only when the turn begins,
// so a waiting task holds no money.
func (e *Engine) Dispatch(ctx context.Context, t Turn, d Dispatch) (DispatchedTask, error) {
	if e.Queue == nil {
		return DispatchedTask{}, problem.New(problem.Internal, "this process has no queue for tasks")
	}
	if err := e.checkUnfinishedLimit(ctx, t.Ref); err != nil {
		return DispatchedTask{}, err
	}
	startTime := e.Now().UTC().Truncate(time.Microsecond)
	switch latestDeadline := startTime.Add(MaxRunTime); {
	case d.Deadline.IsZero():
		d.Deadline = startTime.Add(DefaultRunTime)
	case d.Deadline.After(latestDeadline):
		d.Deadline = latestDeadline
	}
	task := t.submittedTask(startTime)
	sender := SenderOf(t.Owner, t.ClientAddress)
	h := t.newHead(startTime)
	h.Sender, h.Dispatch = sender, &d
	entry, err := DispatchedDocs.Encode(dispatchedEntry{t.Vacant, d.Agent, d.Deadline})
	if err != nil {
		return DispatchedTask{}, problem.Wrap(problem.Internal, err, "task %s", t.ID)
	}
	owner, expires, warnings := t.Owner.String(), startTime.Add(MaxAge+Retention).Truncate(time.Second), d.Warnings
	settle, err := e.Queue.Send(ctx, t.encode(), sender)
	if err != nil {
		return DispatchedTask{}, problem.Wrap(problem.Unavailable, err, "the task cannot be queued now; send the same request again")
	}
	err = e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if head, err := tx.Doc(ctx, t.headKey()); err != nil || head.Version > 0 {
			return cmp.Or[error](err, errAlreadyDispatched)
		}
		d.Warnings = warnings
		if _, err := e.acquireLock(ctx, tx, t.Ref, &d); err != nil {
			return err
		}
		writes, err := e.newTaskWrites(ctx, &t, h, &task)
		if err != nil {
			return err
		}
		tx.AddWrites(append(writes,
			store.Put{Key: t.unfinishedKey(), WriteID: tx.ID, Data: entry, Expires: expires},
			store.Put{
				Key: DispatchedDocs.Key(owner, t.ID), WriteID: tx.ID, Data: entry, Expires: expires,
				Index: DispatchedDocs.IndexKey(newestFirstKey(startTime)+"#"+t.ID, owner),
			})...)
		return nil
	})
	settle(ctx, err == nil || problem.Is(store.AsProblem(err), problem.Unavailable)) // if the store is unavailable, the task may be stored
	switch {
	case err == nil:
		return DispatchedTask{t.Ref, task, d, startTime}, nil
	case errors.Is(err, errAlreadyDispatched) || store.IsConflict(err): // the same request arrived concurrently
		if found, foundErr := e.FindDispatched(ctx, t.Owner, t.ID); !errors.Is(foundErr, ErrNotFound) {
			return found, foundErr
		}
	case errors.Is(err, store.ErrTooLarge):
		return DispatchedTask{}, problem.Wrap(problem.TooLarge, err, "the task is too large to store")
	}
	return DispatchedTask{}, store.AsProblem(err)
}

func (e *Engine) FindDispatched(ctx context.Context, owner call.Owner, id string) (d DispatchedTask, err error) {
	if !isID(id) {
		return d, ErrNotFound
	}
	entry, doc, err := DispatchedDocs.Get(ctx, e.Store, DispatchedDocs.Key(owner.String(), id))
	switch {
	case err != nil:
		return d, store.AsProblem(err)
	case doc.Version == 0:
		return d, ErrNotFound
	}
	return e.loadDispatched(ctx, Ref{entry.Vacant, owner, id})
}

func (e *Engine) loadDispatched(ctx context.Context, r Ref) (d DispatchedTask, err error) {
	l, err := e.loadCurrentTask(ctx, r)
	if err == nil && l.head.Dispatch == nil {
		err = ErrNotFound
	}
	if err != nil {
		return d, err
	}
	return DispatchedTask{r, l.task, *l.head.Dispatch, l.head.StartedAt}, nil
}

// ListDispatched returns a page of the owner's matching tasks, newest first. It calls matches with
// a task that has no texts and, if the result is true, with the complete task. An empty page may
// have a next page.
func (e *Engine) ListDispatched(ctx context.Context, owner call.Owner, cursor string, size int, matches func(*DispatchedTask) bool) (tasks []DispatchedTask, next string, err error) {
	afterKey, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, "", problem.Invalid("cursor", "next of an earlier answer", truncate(cursor))
	}
	r := DispatchedDocs.IndexRange(owner.String())
	r.Start = cmp.Or(string(afterKey), r.Start)
	scannedEntries, pageBytes := 0, 0
	for doc, err := range store.Flatten(store.Pages(ctx, e.Store, r, maxScannedEntries)) {
		switch {
		case err != nil:
			return nil, "", store.AsProblem(err)
		case doc.Index.Sort == string(afterKey) || doc.IsExpired(e.Now()):
			continue
		case len(tasks) == size || scannedEntries == maxScannedEntries || pageBytes > MaxPageBytes:
			return tasks, next, nil
		}
		scannedEntries, next = scannedEntries+1, base64.RawURLEncoding.EncodeToString([]byte(doc.Index.Sort))
		entry, err := DispatchedDocs.Parse(doc)
		if err != nil {
			return nil, "", err
		}
		d, err := e.loadMatching(ctx, Ref{entry.Vacant, owner, doc.Key.Sort}, matches)
		switch {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return nil, "", err
		default:
			tasks, pageBytes = append(tasks, d), pageBytes+d.Task.size()
		}
	}
	return tasks, "", nil
}

func (e *Engine) loadMatching(ctx context.Context, r Ref, matches func(*DispatchedTask) bool) (d DispatchedTask, err error) {
	h, doc, err := HeadDocs.Get(ctx, e.Store, r.headKey())
	switch {
	case err != nil:
		return d, store.AsProblem(err)
	case doc.Version == 0 || doc.IsExpired(e.Now()) || h.Dispatch == nil:
		return d, ErrNotFound
	}
	d = DispatchedTask{r, Task{ID: r.ID, Status: Status{State: h.State, Time: h.StatusTime}}, *h.Dispatch, h.StartedAt}
	// Loading an abandoned task changes its state.
	if !h.isAbandoned(e.Now()) && !matches(&d) {
		return d, ErrNotFound
	}
	if err := e.listMemory.Acquire(ctx, MaxBytes); err != nil {
		return d, problem.Wrap(problem.TooManyRequests, err, "the host has no memory to list more tasks now; send the same request again")
	}
	defer e.listMemory.Release(MaxBytes)
	if d, err = e.loadDispatched(ctx, r); err == nil && !matches(&d) {
		err = ErrNotFound
	}
	return d, err
}

// leaseFirstTurn accepts the first call of a task and leases the turn to r in one commit. If the
// call is refused permanently, it fails the task instead.
func (e *Engine) leaseFirstTurn(ctx context.Context, r *runner, l *loadedTask) error {
	isWaiting, warnings := false, l.head.Dispatch.Warnings
	err := e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		l.head.Dispatch.Warnings = slices.Clip(warnings)
		isWaiting, err = e.acquireLock(ctx, tx, l.ref, l.head.Dispatch)
		return err
	})
	if err != nil || isWaiting {
		return errors.Join(ErrWaiting, err)
	}
	startTime := e.Now().UTC().Truncate(time.Microsecond)
	takeWrites, shares, err := e.takeShareWrites(ctx, l.ref, l.head.Sender, startTime)
	if err != nil {
		return errors.Join(ErrWaiting, err)
	}
	t := Turn{Ref: l.ref, Credential: *l.lastTurn.credential}
	t.applyDispatch(l.head.Dispatch)
	if err = e.refreshTaskPayer(ctx, &t); err == nil {
		err = e.PrepareSigning(ctx, &t, l.task.Context, *l.task.lastUserMessage(), "")
	}
	h := l.head
	if err == nil {
		opts := e.callOptions(&t)
		opts.CallTimeout, opts.Streamed = MaxTurnTime, true
		opts.AcceptWrites = func(row *call.RequestRow) ([]store.Write, error) {
			n := len(l.events) + 1
			h.State, h.Caller, h.Position, h.Background, h.StatusTime = Working, t.Caller, row.Position, true, startTime
			h.LeaseEnd, h.Runner, h.Shares, h.EventCount = e.Now().Add(leaseDuration).UTC(), r.id, shares, n
			id, err := e.updater().NewWriteID()
			if err != nil {
				return nil, err
			}
			event, err := e.newEventPut(ctx, l.ref, n, storedEvent{Event: Event{Status: &Status{State: Working, Time: startTime}}}, h.expires(), id)
			if err != nil {
				return nil, err
			}
			h.EventBytes = l.eventBytes + len(event.Data)
			put, err := h.newPut(l.ref, l.version, id)
			return append([]store.Write{put, event, t.backgroundCountWrite(h.Sender)}, takeWrites...), err
		}
		_, err = e.acceptCall(ctx, &t, func(env *envelope.Envelope) (call.Outcome, bool) {
			out := e.Calls.AcceptForResume(ctx, t.Vacant, env, opts)
			return out, out.Problem == nil
		})
	}
	switch p := problem.AsError(err); {
	case err == nil:
		l.head, l.task.Status.Time = h, startTime
		r.nextEvent = h.EventCount
		return nil
	case p.Kind == problem.Unavailable:
		return err
	case p.Kind == problem.Conflict:
		return errors.Join(ErrWaiting, ErrRetryLater) // another worker may have begun the turn, or the task was canceled
	case p.Kind == problem.TooManyRequests:
		return ErrWaiting
	default:
		return e.failTurn(ctx, l, p)
	}
}

func (e *Engine) failTurn(ctx context.Context, l *loadedTask, p *problem.Error) error {
	voidCall := func(o call.Options) (call.State, error) { return e.Calls.Void(ctx, l.pair(), l.head.Position, p, o) }
	return e.decideAndEnd(ctx, l, voidCall, func(*call.Decision) turnEnd {
		return turnEnd{status: Status{State: Failed, Message: l.task.hostMessage(p.Text()), Time: e.Now().UTC().Truncate(time.Microsecond), FailureKind: p.Kind.String()}}
	})
}

func (t *Turn) applyDispatch(d *Dispatch) {
	if d == nil {
		return
	}
	if remaining := d.RemainingBudget(); remaining != nil && (t.MaxPrice == nil || *remaining < *t.MaxPrice) {
		t.MaxPrice = remaining
	}
	t.dispatch, t.IsTaskTurn, t.IsOwnVacant = d, true, d.IsOwn
}

func (t *Turn) hasCurrentSettings(d *Dispatch) bool {
	// Cost differs if another turn has ended since t got its settings.
	return d == nil || t.dispatch != nil && t.dispatch.Cost == d.Cost
}

func (e *Engine) refreshTaskPayer(ctx context.Context, t *Turn) error {
	if t.dispatch == nil || t.Payer == nil || e.RefreshPayer == nil {
		return nil
	}
	return e.RefreshPayer(ctx, t.Payer)
}

func (e *Engine) refreshPayerFunc(t *Turn) func(context.Context, *call.Payer) error {
	if t.dispatch == nil {
		return nil
	}
	return e.RefreshPayer
}

func (e *Engine) applyTaskSettings(ctx context.Context, t *Turn) error {
	if !t.Continue || t.Owner.SignsMessages() {
		return nil
	}
	h, _, err := HeadDocs.Get(ctx, e.Store, t.headKey())
	if err != nil {
		return store.AsProblem(err)
	}
	t.applyDispatch(h.Dispatch)
	return e.refreshTaskPayer(ctx, t)
}

// PrepareSigning sets t.SignEnvelope, which signs m with a key that the host derives from the owner
// and the context.
func (e *Engine) PrepareSigning(ctx context.Context, t *Turn, contextID string, m Message, idempotencyKey string) error {
	signer, err := e.Guests.DeriveOwnerKey(ctx, t.Vacant, t.Owner.String(), contextID)
	if err != nil {
		return err
	}
	t.Message, t.Caller = m, signer.ID()
	t.SignEnvelope = func(ctx context.Context, next call.ExpectedEnvelope) (*envelope.Envelope, error) {
		env := &envelope.Envelope{From: t.Caller, To: t.Vacant, Seq: next.Seq, Prev: next.Prev, Time: e.Now().UTC().Truncate(time.Microsecond), IdempotencyKey: idempotencyKey}
		if !env.Time.After(next.Floor) {
			env.Time = next.Floor.Add(time.Microsecond)
		}
		env.Payload = envelope.Message{Role: envelope.RoleUser, MessageID: &m.ID, ContextID: &m.Context}
		for i := range m.Parts {
			env.Payload.Parts = append(env.Payload.Parts, m.Parts[i].SignedText())
		}
		if err := env.Payload.Check(); err != nil {
			return nil, err
		}
		_, err := env.Sign(ctx, signer)
		return env, err
	}
	return nil
}

type turnContext struct {
	ref      Ref
	dispatch *Dispatch
	runner   *runner
}

type turnKey struct{}

func withTurn(ctx context.Context, r Ref, d *Dispatch, worker *runner) context.Context {
	return context.WithValue(ctx, turnKey{}, turnContext{r, d, worker})
}

// TurnNameOf returns the name of the turn in ctx for WatchTurn, or "" if ctx has no turn.
func TurnNameOf(ctx context.Context) string {
	if t, ok := ctx.Value(turnKey{}).(turnContext); ok {
		return t.ref.encode()
	}
	return ""
}

// DispatchOf returns the settings of the dispatched task whose turn the vacant runs in ctx, or nil.
func DispatchOf(ctx context.Context, vacant identity.ID) *Dispatch {
	t, _ := ctx.Value(turnKey{}).(turnContext)
	if t.ref.Vacant != vacant {
		return nil
	}
	return t.dispatch
}

func IsDispatched(ctx context.Context) bool {
	t, _ := ctx.Value(turnKey{}).(turnContext)
	return t.dispatch != nil
}
