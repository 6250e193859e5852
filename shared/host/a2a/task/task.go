// Package task stores the tasks of callers. A task is work that outlives a request and can be read,
// followed and canceled from any instance.
//
// A task is computed from its events, which are numbered from 1 and never change. The head of a
// task is the document with its current state. A turn ends with one commit of the head, an event
// and the row that decides the call, so tasks and rows always agree on an answer. A turn runs at
// most once: if its runner dies, the turn fails.
//
// Run stores a task together with its answer. Begin stores the task before the turn runs, so that
// other requests can follow the task. Enqueue lets a worker run the turn.
package task

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/guests"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	MaxEvents = 1000
	MaxBytes  = 8 << 20 // bytes of all events
	// MaxBackground limits the waiting and running background turns of a vacant.
	MaxBackground = 32
	// maxAccountBackground leaves places for accounts when strangers use all MaxBackground places.
	maxAccountBackground = MaxBackground + 8
	MaxTurnTime          = call.MaxCallTimeout
	MaxListed            = 1000
	MaxPageBytes         = 1 << 20
	// MaxListingBytes limits the event bytes of concurrently listed tasks. The tasks use about four
	// times as much memory.
	MaxListingBytes = 16 << 20
	leaseDuration   = 60 * time.Second
	maxChunkBytes   = 8 << 10
)

type Config struct {
	Store store.Store
	Calls *call.Host
	Texts call.Texts
	// If Queue is nil, Enqueue and Dispatch fail.
	Queue Queue
	// Guests provides the keys of callers that do not sign.
	Guests *guests.Keys
	// RefreshPayer updates the caps of a payer. It returns an error if the credential is no longer
	// accepted or the account is suspended.
	RefreshPayer func(context.Context, *call.Payer) error
	// If Locks is nil, tasks have no files.
	Locks Locks
	// MaxRunningTurns limits the background turns of all processes. If it is 0, only Queue limits
	// the turns.
	MaxRunningTurns int
	// If Notices is nil, OnPushWork announces the events.
	Notices Notices
	// ChunkInterval is how long pieces of an answer are joined into one event.
	ChunkInterval time.Duration
	// ChunkRamp is the number of events over which the joining time grows to ChunkInterval, so that
	// a short answer is not delayed.
	ChunkRamp int
	// PollInterval is the interval at which events of other instances are read.
	PollInterval time.Duration
	Log          *slog.Logger
	Now          func() time.Time
	Rand         io.Reader // safe for concurrent use
}

// Queue passes turns to workers at least once.
type Queue interface {
	// Send stores a message. The caller must call settle with false if the message's task is
	// certainly not stored, and otherwise with true.
	Send(ctx context.Context, message string, sender Sender) (settle func(ctx context.Context, stored bool), err error)
}

// Notices passes notices to processes that push, at least once.
type Notices interface {
	SendAfter(ctx context.Context, notice string, sender Sender, delay time.Duration) error
}

// Engine runs turns and stores tasks. It is safe for concurrent use.
type Engine struct {
	Config
	hub                hub
	running            sync.WaitGroup
	listMemory         *semaphore.Weighted
	onPush             func(Ref)
	claimedUndelivered sync.Map // ids of turns
}

func New(c Config) *Engine {
	c.ChunkInterval = cmp.Or(c.ChunkInterval, 500*time.Millisecond)
	return &Engine{Config: c, listMemory: semaphore.NewWeighted(MaxListingBytes)}
}

func (e *Engine) updater() store.Updater { return store.Updater{Store: e.Store, Rand: e.Rand} }

func (e *Engine) Wait() { e.running.Wait() }

func (e *Engine) NewID() (string, error) {
	id, err := e.updater().NewWriteID()
	return hex.EncodeToString(id[:]), err
}

type Turn struct {
	Ref
	ListOwner call.Owner // zero if the task is not listed
	Message   Message
	// SignEnvelope signs the message as the next message of its pair. It may be called again if
	// another message was faster.
	SignEnvelope     func(context.Context, call.ExpectedEnvelope) (*envelope.Envelope, error)
	Signed           bool
	ContainsEnvelope func(*Message) bool
	// IsFirstCall marks the first call of a pair, which needs no read of the chain.
	IsFirstCall   bool
	Caller        identity.ID
	ClientAddress string
	// CallTimeout does not apply to workers.
	CallTimeout time.Duration
	// If StoresAtEnd is true, clients cannot read pieces before the end of the turn.
	StoresAtEnd bool
	// OnEnd may be nil. It is called for turns that this process has decided.
	OnEnd func(*EndedTurn)
	// OnAccept may be nil. It is also called if the call was accepted earlier.
	OnAccept  func()
	Operation string
	Continue  bool
	// Idempotent marks a message whose id determines the task's id, so that a repeated message does
	// not run again.
	Idempotent bool
	// NewMessageError is the error for an idempotent message that did not arrive earlier, or nil.
	NewMessageError error
	// If ReportedMessages is nil, the turn uses the vacant's memory.
	ReportedMessages []ReportedMessage
	// Recent is set for clients that repeat a message without an id.
	Recent *RecentTurns
	call.Credential
	Push *PushConfig

	dispatch *Dispatch
}

type Refusal struct{ call.Outcome }

func (r *Refusal) Error() string { return r.Problem.Error() }

func (r *Refusal) Unwrap() error { return r.Problem }

const maxSignTries = 8

func (e *Engine) acceptCall(ctx context.Context, t *Turn, begin func(*envelope.Envelope) (call.Outcome, bool)) (call.Outcome, error) {
	next := call.ExpectedEnvelope{Seq: 1}
	if !t.Signed && !t.IsFirstCall {
		var err error
		if next, err = e.Calls.ExpectedEnvelope(ctx, call.Pair{Caller: t.Caller, Vacant: t.Vacant}); err != nil {
			return call.Outcome{}, err
		}
	}
	for try := 1; ; try++ {
		env, err := t.SignEnvelope(ctx, next)
		if err != nil {
			return call.Outcome{}, err
		}
		out, ok := begin(env)
		if ok || out.HasEnded {
			t.reportAccepted()
		}
		if ok {
			return out, nil
		}
		// Another message was faster, or the vacant does not accept the signed time.
		shouldRetry := !t.Signed && out.State == "" && out.HasChain && try < maxSignTries &&
			slices.Contains([]problem.Kind{problem.Replay, problem.Gap, problem.Fork, problem.BelowFloor}, out.Problem.Kind)
		if !shouldRetry {
			return out, &Refusal{out}
		}
		next = call.ExpectedEnvelope{Seq: out.ExpectedSeq, Prev: out.ChainTip, Floor: out.Floor}
	}
}

func (t *Turn) reportAccepted() {
	if t.OnAccept != nil {
		t.OnAccept()
	}
}

// Run runs a turn and stores the task with its answer. If the call was not accepted, the error is a
// *Refusal.
func (e *Engine) Run(ctx context.Context, t Turn) (Task, error) {
	if found, ok, err := e.findByMessageID(ctx, &t); ok || err != nil {
		return found, err
	}
	// A message with files and its answer may not fit into one document.
	if t.Continue || t.Idempotent || slices.ContainsFunc(t.Message.Parts, func(p Part) bool { return p.Kind != Text }) {
		// If pieces were readable, the caller could read them on another connection without paying
		// for an answer that arrives too late.
		t.StoresAtEnd = true
		ref, done, err := e.Begin(ctx, t)
		if err != nil {
			return Task{}, err
		}
		<-done
		return e.Get(ctx, ref)
	}
	startTime := e.Now().UTC().Truncate(time.Microsecond)
	var task Task
	var output detailCollector
	opts := e.callOptions(&t)
	opts.CallTimeout, opts.Sink = t.CallTimeout, output.handleProgress
	opts.AcceptWrites = func(*call.RequestRow) ([]store.Write, error) { return nil, e.notifyFirstEvent(ctx, &t) }
	opts.DecideWrites = func(ctx context.Context, d call.Decision) ([]store.Write, error) {
		task = t.submittedTask(startTime)
		chunks, endRequest := output.result()
		for i := range chunks {
			if d.Reply != nil {
				task.addChunk(&chunks[i])
			}
		}
		e.applyDecision(&task, d, endRequest, t.CallTimeout == 0)
		h := t.newHead(startTime)
		h.State, h.StatusTime = task.Status.State, task.Status.Time
		return e.newTaskWrites(ctx, &t, h, &task)
	}
	var acceptedCall *call.AcceptedCall
	_, err := e.acceptCall(ctx, &t, func(env *envelope.Envelope) (out call.Outcome, ok bool) {
		acceptedCall, out = e.Calls.AcceptForRun(ctx, t.Vacant, env, opts)
		return out, acceptedCall != nil
	})
	if err != nil {
		return e.findByEnvelope(ctx, &t, err)
	}
	e.running.Add(1)
	defer e.running.Done()
	out := e.Calls.Run(withMessages(ctx, turnMessages{&t.Message, &t.Message, t.ReportedMessages}), acceptedCall)
	e.announceTurn(&t)
	if out.Reply == nil && out.State != call.Unanswered {
		return Task{}, out.Problem
	}
	if task.Status.State == "" || task.Status.State == Failed != (out.Reply == nil) {
		return Task{}, out.Problem // another process decided the call
	}
	return task, nil
}

func (e *Engine) findByMessageID(ctx context.Context, t *Turn) (found Task, ok bool, err error) {
	if !t.Idempotent {
		return found, false, nil
	}
	found, err = e.Get(ctx, t.Ref)
	if errors.Is(err, ErrNotFound) {
		return found, false, t.NewMessageError
	}
	index := slices.IndexFunc(found.History, func(m Message) bool { return m.Role == User && m.ID == t.Message.ID })
	switch {
	case err != nil:
		return found, false, err
	case index < 0:
		return found, false, t.NewMessageError
	}
	stored, received := found.History[index], t.Message
	stored.Task, received.Task = "", ""
	storedJSON, err := json.Marshal(&stored)
	receivedJSON, receivedErr := json.Marshal(&received)
	if err != nil || receivedErr != nil || !bytes.Equal(storedJSON, receivedJSON) {
		return found, false, problem.Invalid("messageId", "a new id, or the message that had it", "another message with the same id")
	}
	t.reportAccepted()
	return found, true, nil
}

type EndedTurn struct {
	StartedAt time.Time
	Pair      call.Pair
	Position  uint64
	Status    *Status
}

type detailCollector struct {
	mu         sync.Mutex
	chunks     []Chunk
	endRequest *EndRequest
}

func (s *detailCollector) handleProgress(p call.Progress) {
	piece, ok := p.(call.ProvisionalEvent)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if piece.IsQuestion {
		s.endRequest = &EndRequest{InputRequired}
	}
	switch d := piece.Detail.(type) {
	case Chunk:
		s.chunks = append(s.chunks, d)
	case EndRequest:
		s.endRequest = &d
	}
}

func (s *detailCollector) result() ([]Chunk, *EndRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chunks, s.endRequest
}

func (e *Engine) announceTurn(t *Turn) {
	if t.Push != nil || t.Continue {
		e.announcePushWork(t.Ref)
	}
}

// findByEnvelope finds the task of a signed message that arrived earlier. The signature does not
// cover the task's id, so the task must contain the message.
func (e *Engine) findByEnvelope(ctx context.Context, t *Turn, err error) (Task, error) {
	refusal, ok := err.(*Refusal)
	// Two copies of a message within a microsecond are signed as the same bytes, and the host
	// refuses the second as a resend.
	if ok && t.Idempotent && (refusal.Problem.Kind == problem.Conflict || refusal.State != "") {
		if found, ok, err := e.findByMessageID(ctx, t); ok || err != nil {
			return found, err
		}
	}
	if !ok || !t.Signed || refusal.State == "" || refusal.State == call.Unknown {
		return Task{}, err
	}
	newTaskRef := t.Ref
	newTaskRef.ID = EnvelopeTaskID(refusal.Hash)
	found, getErr := e.Get(ctx, newTaskRef)
	if t.Continue && errors.Is(getErr, ErrNotFound) {
		found, getErr = e.Get(ctx, t.Ref)
		if getErr == nil && !slices.ContainsFunc(found.History, func(m Message) bool { return t.ContainsEnvelope(&m) }) {
			getErr = ErrNotFound
		}
	}
	switch {
	case problem.Is(getErr, problem.Unavailable):
		return Task{}, getErr
	case getErr != nil:
		return Task{}, err
	}
	t.reportAccepted()
	return found, nil
}

func (e *Engine) callOptions(t *Turn) call.Options {
	return call.Options{Guest: !t.Owner.SignsMessages(), Task: t.ID, Operation: t.Operation, Credential: t.Credential, RefreshPayer: e.refreshPayerFunc(t), CompleteReply: func(m *envelope.Message) {
		replyIDs(t.ID, t.Message.Context)(m) // the context is known only when the call is accepted
	}}
}

func MessageTaskID(vacant identity.ID, owner call.Owner, messageID string) string {
	sum := sha256.Sum256([]byte("vacancy message v1\x1f" + vacant.String() + "\x1f" + owner.String() + "\x1f" + messageID))
	return hex.EncodeToString(sum[:16])
}

func EnvelopeTaskID(hash identity.Hash) string { return hash.String()[:32] }

// MessageOf returns the message of the current turn, including parts that no signature covers.
func MessageOf(ctx context.Context) *Message {
	m, _ := ctx.Value(messagesKey{}).(turnMessages)
	return m.current
}

func (m *turnMessages) belongsTo(e *envelope.Envelope) bool {
	// Calls that the vacant makes during the turn have the same context, but random message ids.
	return m.current != nil && e.Payload.MessageID != nil && *e.Payload.MessageID == m.current.ID
}

func NonTextPartsOf(ctx context.Context, e *envelope.Envelope) (parts []Part) {
	m, _ := ctx.Value(messagesKey{}).(turnMessages)
	if !m.belongsTo(e) {
		return nil
	}
	for _, p := range m.current.Parts {
		if p.Kind != Text {
			parts = append(parts, p)
		}
	}
	return parts
}

func FirstMessageOf(ctx context.Context) *Message {
	m, _ := ctx.Value(messagesKey{}).(turnMessages)
	return m.first
}

type turnMessages struct {
	current, first *Message
	reported       []ReportedMessage
}

type messagesKey struct{}

func withMessages(ctx context.Context, m turnMessages) context.Context {
	return context.WithValue(ctx, messagesKey{}, m)
}

// WatchTurn returns a context that ends soon after the named turn. If the task's settings cannot be
// read, the context is already canceled, because the work could exceed the budget of the task.
func WatchTurn(ctx context.Context, s store.Store, name string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() { cancel(context.Canceled) }
	r, err := ParseRef(name)
	if err != nil {
		return ctx, stop
	}
	h, d, err := HeadDocs.Get(ctx, s, r.headKey())
	if err == nil && d.Version == 0 {
		err = errTurnEnded
	}
	if err != nil {
		cancel(store.AsProblem(err))
		return ctx, stop
	}
	ctx = withTurn(ctx, r, h.Dispatch, nil)
	go func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			if h, d, err := HeadDocs.Get(ctx, s, r.headKey()); err == nil && (d.Version == 0 || h.State != Working) {
				cancel(errTurnEnded)
				return
			}
		}
	}()
	return ctx, stop
}

func replyIDs(taskID, contextID string) func(*envelope.Message) {
	return func(m *envelope.Message) {
		id := "re-" + taskID
		m.MessageID, m.ContextID = &id, &contextID
	}
}

func (t *Turn) submittedTask(start time.Time) Task {
	m := t.Message
	m.Task = t.ID
	return Task{ID: t.ID, Context: m.Context, Status: Status{State: Submitted, Time: start}, History: []Message{m}}
}

func (t *Turn) newHead(startTime time.Time) head {
	return head{
		State: Submitted, StartedAt: startTime, StatusTime: startTime, Caller: t.Caller,
		ContextHash: hashContextID(t.Message.Context), ListOwner: t.ListOwner,
	}
}

func (e *Engine) applyDecision(t *Task, d call.Decision, end *EndRequest, isClientWaiting bool) {
	if _, hasArtifact := end.endState(); d.Reply != nil && hasArtifact {
		t.addChunk(&Chunk{Artifact: textArtifact(d.Reply.Payload.Text())})
	}
	t.Status = e.finalStatus(t, d, end, isClientWaiting)
}

func (e *Engine) finalStatus(t *Task, d call.Decision, end *EndRequest, isClientWaiting bool) Status {
	s := Status{Time: e.Now().UTC().Truncate(time.Microsecond)}
	if d.Reply != nil {
		s.State, _ = end.endState()
		s.Message, s.Paid = answerMessage(t, &d), d.Payment
		return s
	}
	s.State, s.FailureKind = Failed, problem.BehaviourFailed.String()
	text := "the call was closed before it was answered"
	if d.Failure != nil {
		p := problem.AsError(d.Failure)
		s.FailureKind, text = p.Kind.String(), p.Text()
	}
	var limit *call.TimeLimit
	if isClientWaiting && errors.As(d.Failure, &limit) && limit.IsWaitLimit {
		text += fmt.Sprintf("; the limit is %.0f minutes for a stream or with returnImmediately", MaxTurnTime.Minutes())
	}
	s.Message = t.hostMessage(text)
	return s
}

func (t *Task) hostMessage(text string) *Message {
	return &Message{ID: "st-" + t.ID, Context: t.Context, Task: t.ID, Role: Agent, Parts: []Part{{Kind: Text, Text: text}}}
}

func answerMessage(t *Task, d *call.Decision) *Message {
	reply := d.Reply
	m := &Message{Context: t.Context, Task: t.ID, Role: Agent, Metadata: envelope.AppendMetadata(nil, reply), CutReason: d.CutReason}
	if d.Payment != nil {
		m.Receipt = call.ReceiptPath(call.Pair{Caller: reply.To, Vacant: reply.From}, d.Payment.Position)
	}
	if reply.Payload.MessageID != nil {
		m.ID = *reply.Payload.MessageID
	}
	for _, text := range reply.Payload.Parts {
		m.Parts = append(m.Parts, Part{Kind: Text, Text: text})
	}
	return m
}

// maxSnapshotBytes limits a task that is stored as one event.
const maxSnapshotBytes = 128 << 10

func (e *Engine) newTaskWrites(ctx context.Context, t *Turn, h head, task *Task) ([]store.Write, error) {
	events := []storedEvent{omitRepeatedText(Event{Task: task}, task.answerText())}
	if task.size() > maxSnapshotBytes && task.Status.State != Submitted && task.Status.State != Working {
		first := t.submittedTask(h.StartedAt)
		events = []storedEvent{{Event: Event{Task: &first}}}
		for i := range task.Artifacts {
			events = append(events, storedEvent{Event: Event{Artifact: &Chunk{Artifact: task.Artifacts[i], Last: true}}})
		}
		events = append(events, omitRepeatedText(Event{Status: &task.Status}, task.answerText()))
	}
	if h.Background || h.Dispatch != nil {
		events[0].Credential = &t.Credential
	}
	h.EventCount = len(events)
	id, err := e.updater().NewWriteID()
	if err != nil {
		return nil, err
	}
	var eventPuts []store.Write
	for i, event := range events {
		w, err := e.newEventPut(ctx, t.Ref, i+1, event, h.expires(), id)
		if err != nil {
			return nil, err
		}
		h.EventBytes += len(w.Data)
		eventPuts = append(eventPuts, w)
	}
	put, err := h.newPut(t.Ref, 0, id)
	if err != nil {
		return nil, err
	}
	writes := []store.Write{put}
	if t.Recent != nil {
		w, err := t.Recent.newPut(t.ID, h.StartedAt, id)
		if err != nil {
			return nil, err
		}
		writes = append(writes, w)
	}
	if t.Push != nil {
		w, err := e.newPushPut(ctx, &h, pushSlot{key: t.pushKey(1)}, storedPush{PushConfig: *t.Push}, id)
		if err != nil {
			return nil, err
		}
		writes = append(writes, w)
	}
	return append(writes, eventPuts...), nil
}

func (e *Engine) newEventPut(ctx context.Context, r Ref, n int, event storedEvent, expires time.Time, id store.WriteID) (store.Put, error) {
	k := r.eventKey(n)
	plaintext, err := encodeEvent(event)
	if err != nil {
		return store.Put{}, problem.Wrap(problem.Internal, err, "event %s", k)
	}
	data, err := e.seal(ctx, k, plaintext)
	return store.Put{Key: k, WriteID: id, Data: data, Expires: expires}, err
}

func (t *Task) answerText() string {
	for _, a := range t.Artifacts {
		if a.ID == ResponseArtifact && len(a.Parts) == 1 {
			return a.Parts[0].Text
		}
	}
	return ""
}

func (t *Task) size() (n int) {
	for _, a := range t.Artifacts {
		n += partsSize(a.Parts)
	}
	for _, m := range t.History {
		n += partsSize(m.Parts) + len(m.Metadata)
	}
	return n
}

func partsSize(parts []Part) (n int) {
	for _, p := range parts {
		n += len(p.Text) + len(p.Raw)*4/3 + len(p.Data) + len(p.Metadata) + len(p.Filename) + len(p.MediaType)
	}
	return n
}
