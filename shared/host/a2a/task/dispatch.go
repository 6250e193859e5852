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

// Limits of dispatched tasks.
const (
	// MaxUnfinished limits the unfinished tasks of an account, and MaxUnfinishedPerVacant the
	// unfinished tasks of an account at one vacant.
	MaxUnfinished          = 100
	MaxUnfinishedPerVacant = maxAccountBackground
	// DefaultRunTime is the default time after which a dispatched task fails. MaxRunTime is the
	// maximum.
	DefaultRunTime = 6 * time.Hour
	MaxRunTime     = 20 * time.Hour
	// maxScannedEntries limits the entries that a list request reads.
	maxScannedEntries = 200
)

// Dispatch contains the settings of a dispatched task, which apply to all its turns. The owner of
// the task chose them, and package team has checked them.
type Dispatch struct {
	Agent string `json:"agent"` // name of the vacant, or its id if it has no name
	// Deadline is the time at which the task fails if it has not ended. If Deadline is zero, the task
	// may run for DefaultRunTime. The Deadline is at most MaxRunTime after the dispatch.
	Deadline time.Time `json:"deadline"`
	// Mode is the definition.Mode of the agent, which limits the rights of its tools.
	Mode string `json:"mode"`
	// AgentModel is the model of the agent. It is set only if IsOwn is true.
	AgentModel string `json:"answers,omitempty"`
	// The following settings override the agent's settings unless they are empty.
	Model        string `json:"model,omitempty"`
	MaxTurns     int    `json:"max_turns,omitempty"`
	Effort       string `json:"effort,omitempty"`
	OutputFormat string `json:"output_format,omitempty"`
	// Servers are MCP servers whose tools are offered to the agent in addition to its own.
	Servers []Server `json:"servers,omitempty"`
	// Budget limits the total cost of the turns and of the calls that vacants make to answer them. If
	// Budget is nil, the cost is not limited. Cost is the total for the turns that have ended. If
	// IsOwn is true, the cost includes the cost of the vacant's models.
	Budget *money.Amount `json:"budget,omitempty"`
	Cost   money.Amount  `json:"spent,omitempty"`
	// IsOwn reports whether the owner of the task owns the vacant.
	IsOwn bool `json:"own,omitempty"`
	// Files is the task's access to files, or nil if it has no access.
	Files *Files `json:"files,omitempty"`
	// RequestHash is the hash of the request, which identifies a repeated request.
	RequestHash string   `json:"request,omitempty"`
	Warnings    []string `json:"warnings,omitempty"`
}

// Server is an MCP server at a URL. The names of its tools begin with its name.
type Server struct {
	Name string `json:"name" canon:"required"`
	URL  string `json:"url" canon:"required"`
	// Required makes the task fail if the server is not available.
	Required bool `json:"required,omitempty"`
}

// Files is the access of a dispatched task to a workspace of its owner.
type Files struct {
	Owner        string   `json:"owner"` // owner of the workspace
	Workspace    string   `json:"workspace"`
	LockPaths    []string `json:"lock,omitempty"`    // paths that the task locks
	WrittenPaths []string `json:"written,omitempty"` // sorted paths that the task's turns have written
}

// Locks gives dispatched tasks their locks in workspaces.
type Locks interface {
	// Acquire adds to tx the writes that give a task its lock, or its place in the queue for the lock.
	// isWaiting reports whether the task must still wait. A task keeps its lock until the task ends.
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

// dispatchedEntry is a dispatched task in the list of its owner.
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

// checkUnfinishedLimit returns an error if an account has reached a limit of unfinished tasks.
// Tasks that have passed their deadlines are not counted. They fail when they are next read.
// Concurrent dispatches may exceed the limits, because they do not see each other's tasks.
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

// errAlreadyDispatched means that a task with the same id exists.
var errAlreadyDispatched = problem.New(problem.Conflict, "the task was dispatched before")

// Dispatch stores a task that waits in the queue for its first turn. The call is signed and
// accepted only when that turn begins, so a waiting task holds no money and does not count against
// its vacant's turns. t.SignEnvelope is ignored. If a task with the same id exists, Dispatch returns
// that task.
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

// ListDispatched returns a page of the owner's dispatched tasks for which matches is true, newest
// first. next is the cursor of the next page, or "". A page ends after maxScannedEntries tasks or
// MaxPageBytes, so an empty page may have a next page. matches is called with the task without its
// texts and, if it returns true, again with the texts.
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

// loadMatching returns a dispatched task, or ErrNotFound if matches rejects the task. It first
// calls matches with the task's head, without the events. It reads the events if matches accepts
// the head, or if the task is abandoned: loading an abandoned task fails the task, which changes
// its state.
func (e *Engine) loadMatching(ctx context.Context, r Ref, matches func(*DispatchedTask) bool) (d DispatchedTask, err error) {
	h, doc, err := HeadDocs.Get(ctx, e.Store, r.headKey())
	switch {
	case err != nil:
		return d, store.AsProblem(err)
	case doc.Version == 0 || doc.IsExpired(e.Now()) || h.Dispatch == nil:
		return d, ErrNotFound
	}
	d = DispatchedTask{r, Task{ID: r.ID, Status: Status{State: h.State, Time: h.StatusTime}}, *h.Dispatch, h.StartedAt}
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

// leaseFirstTurn accepts the first call of a task and gives its turn to a runner, in one commit. It
// then sets l.head.State to Working. If the call is refused permanently, leaseFirstTurn fails the
// task and leaves l.head.State unchanged. If the turn cannot begin yet, the error is ErrRetryLater
// or ErrWaiting.
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

// applyTaskSettings applies the settings of a dispatched task to the turn of its next message. If
// another turn of the task ends before the commit, continueWrites returns ErrBusy.
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

// PrepareSigning sets the message of a turn to m, and t.SignEnvelope to a function that signs m later. The host
// derives the signing key for this conversation of the task's owner. idempotencyKey may be "".
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

// turnContext is the value of a context that belongs to a turn.
type turnContext struct {
	ref      Ref
	dispatch *Dispatch
	runner   *runner // set if a worker runs the turn
}

type turnKey struct{}

func withTurn(ctx context.Context, r Ref, d *Dispatch, worker *runner) context.Context {
	return context.WithValue(ctx, turnKey{}, turnContext{r, d, worker})
}

// TurnNameOf returns the name that WatchTurn accepts for the turn that ctx belongs to. It returns
// "" outside turns and in turns of Engine.Run, because only their own process can end them.
func TurnNameOf(ctx context.Context) string {
	if t, ok := ctx.Value(turnKey{}).(turnContext); ok {
		return t.ref.encode()
	}
	return ""
}

// DispatchOf returns the settings of the dispatched task whose turn a vacant runs in ctx. It
// returns nil for other turns, and for the calls that vacants make to answer a turn.
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
