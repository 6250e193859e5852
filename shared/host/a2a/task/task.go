// Package task stores the tasks of callers. A task is work that outlives a request and whose
// history can be read, followed and canceled from any instance. The package is independent of
// protocols.
//
// A task is computed from its events, which are numbered 1, 2, 3 and so on, and never change. The
// head of a task is the document with its current state. A change of state is one commit of the
// head, an event and, at the end of a turn, the row (the stored record) that decides the call.
// Tasks and rows therefore always agree on an answer. If a task is canceled after a piece of an
// answer was stored, the stored pieces become the answer. A turn without an answer withdraws its
// pieces. A turn runs at most once: if its runner dies, the turn fails. Only the owner of a task
// can find it.
//
// A turn is one request of package call. Run stores a task once, together with its answer. Begin
// stores the task before the turn runs, so that other requests can follow it. Enqueue lets a worker
// run the turn.
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

// Limits of a task.
const (
	MaxEvents = 1000
	MaxBytes  = 8 << 20 // bytes of all events
	// MaxBackground limits the turns of a vacant that wait or run in the background.
	MaxBackground = 32
	// maxAccountBackground replaces MaxBackground for an account, so that accounts still find places
	// when strangers use MaxBackground places.
	maxAccountBackground = MaxBackground + 8
	// MaxTurnTime limits the time of a turn that runs in the background or is followed.
	MaxTurnTime = call.MaxCallTimeout
	// MaxListed is the number up to which the tasks of an owner are counted.
	MaxListed = 1000
	// MaxPageBytes limits the stored size of the tasks in a page. A page that reaches the limit may
	// have fewer tasks than requested.
	MaxPageBytes = 1 << 20
	// MaxListing limits the stored size of the tasks that an Engine lists concurrently. It
	// corresponds to 64 MiB of memory, because each task is in memory in its stored form, as a
	// value and as an answer.
	MaxListing = 16 << 20
	// leaseDuration is the time after which a silent runner is considered dead.
	leaseDuration = 60 * time.Second
	// maxChunkBytes is the size in bytes at which a chunk is stored early.
	maxChunkBytes = 8 << 10
)

// Config contains the dependencies of an Engine.
type Config struct {
	Store store.Store
	Calls *call.Host
	Texts call.Texts
	// Queue passes background turns to workers. If Queue is nil, Enqueue and Dispatch fail, and Send
	// runs each turn in this process.
	Queue Queue
	// Guests provides the keys with which the host signs for callers that do not sign.
	Guests *guests.Keys
	// RefreshPayer updates the caps of a payer. It returns an error if the credential of a dispatched
	// task is no longer accepted or its account is suspended. It is called when a turn begins, and
	// when a call begins that the turn causes. If RefreshPayer is nil, the host has no accounts.
	RefreshPayer func(context.Context, *call.Payer) error
	// Locks locks files for dispatched tasks. If Locks is nil, tasks have no files.
	Locks Locks
	// MaxRunningTurns limits the background turns that all processes of the host run concurrently. The
	// store counts the turns of each Share. If MaxRunningTurns is 0, Queue limits the turns.
	MaxRunningTurns int
	// Notices receives notices of events to push. It is for processes that run only while they
	// answer a request. If Notices is nil, OnPushWork announces the events.
	Notices Notices
	// ChunkInterval is the time during which pieces of a streamed answer are joined into one event.
	// The default is 500 ms.
	ChunkInterval time.Duration
	// ChunkRamp is the number of events over which the joining time grows from 0 to ChunkInterval
	// while a client follows the turn. A short answer is then streamed without delay, and a long
	// answer has few events. If ChunkRamp is 0, the joining time is always ChunkInterval.
	ChunkRamp int
	// PollInterval is the interval at which a follower checks for events of other instances. The
	// default is 250 ms for the first checks, and then one second.
	PollInterval time.Duration
	Log          *slog.Logger
	Now          func() time.Time
	Rand         io.Reader // safe for concurrent use
}

// Queue passes turns to workers at least once. Its messages are keys without text.
type Queue interface {
	// Send stores a message. The sender must call settle with true if the message's task is stored
	// or may be stored, and otherwise with false. If settle is not called, the message is delivered
	// late and dropped after a while. The queue distributes its capacity among the senders.
	Send(ctx context.Context, message string, sender Sender) (settle func(ctx context.Context, stored bool), err error)
}

// Notices passes notices to processes that push, at least once. It is fair between senders: if one
// sender keeps the processes busy, the notices of other senders are delivered first.
type Notices interface {
	// SendAfter stores a notice that is delivered after a delay.
	SendAfter(ctx context.Context, notice string, sender Sender, delay time.Duration) error
}

// Engine runs turns and stores tasks. It is safe for concurrent use. Several engines may share a
// store.
type Engine struct {
	Config
	hub                hub
	running            sync.WaitGroup
	listMemory         *semaphore.Weighted // counts bytes up to MaxListing
	onPush             func(Ref)
	claimedUndelivered sync.Map // ids of undelivered turns that a request of this process repeats
}

func New(c Config) *Engine {
	c.ChunkInterval = cmp.Or(c.ChunkInterval, 500*time.Millisecond)
	return &Engine{Config: c, listMemory: semaphore.NewWeighted(MaxListing)}
}

func (e *Engine) updater() store.Updater { return store.Updater{Store: e.Store, Rand: e.Rand} }

func (e *Engine) Wait() { e.running.Wait() }

func (e *Engine) NewID() (string, error) {
	id, err := e.updater().NewWriteID()
	return hex.EncodeToString(id[:]), err
}

// Turn is a message to a vacant that begins a task or continues one.
type Turn struct {
	Ref
	ListOwner call.Owner // owner in the list of tasks; zero if the task is not listed
	Message   Message
	// SignEnvelope signs the message as the next message of its pair (a caller and a vacant). If another
	// message was faster, Envelope is called again, unless Signed is set.
	SignEnvelope func(context.Context, call.ExpectedEnvelope) (*envelope.Envelope, error)
	// Signed marks an envelope that the caller signed. The host accepts or refuses it without
	// signing again.
	Signed bool
	// ContainsEnvelope reports whether a message contains the envelope of a Signed turn.
	ContainsEnvelope func(*Message) bool
	// IsFirstCall is set by a handler that knows that the pair has no call yet. The pair's last call
	// is then not read from the store.
	IsFirstCall bool
	// Caller is the signer of the message.
	Caller identity.ID
	// ClientAddress is the address of the client, or "" if unknown.
	ClientAddress string
	// CallTimeout limits the time of a turn that this process runs. If CallTimeout is zero, Begin uses
	// MaxTurnTime, and Run uses the limit of the vacant or the host. A worker always uses MaxTurnTime.
	CallTimeout time.Duration
	// StoresAtEnd stores the pieces of the answer only at the end, because no client reads them
	// earlier.
	StoresAtEnd bool
	// OnEnd is called at the end of a turn that this process has run and decided. It may be nil.
	OnEnd func(*EndedTurn)
	// OnAccept is called when the call is accepted, or when a repeated call is found to have been
	// accepted earlier. In both cases, package call logs the call. OnAccept may be nil.
	OnAccept func()
	// Operation is the protocol's name for the client's request. It is logged.
	Operation string
	// Continue makes the message the next message of a task that waits for it.
	Continue bool
	// Idempotent marks a message whose id was chosen by its owner and determines the task's id. A
	// repeated message finds the existing task and does not run again.
	Idempotent bool
	// NewMessageError is the error for an idempotent message that did not arrive earlier. If
	// NewMessageError is nil, the message is accepted. A repeated message gets its stored answer even
	// if the vacant would refuse the message now.
	NewMessageError error
	// ReportedMessages contains the earlier messages that the caller reports, for a turn that this
	// process runs. If ReportedMessages is nil, the turn uses the vacant's memory. The messages are
	// not stored, but Message or its envelope contains their hash.
	ReportedMessages []ReportedMessage
	// Recent records the turn for clients that repeat a message without an id. It is nil for other
	// clients.
	Recent *RecentTurns
	call.Credential
	// Push is the configuration with which the task begins, or nil.
	Push *PushConfig

	dispatch *Dispatch // settings of a dispatched task
}

// Refusal is the error of a call that was not accepted.
type Refusal struct{ call.Outcome }

func (r *Refusal) Error() string { return r.Problem.Error() }

func (r *Refusal) Unwrap() error { return r.Problem }

// maxSignTries limits the attempts to sign a message when other messages are faster.
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
		// Another message of the pair was faster, or the message was not signed after the floor,
		// the time until which the vacant accepts no signatures.
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

// Run runs a turn to its end and stores the task with its answer. If the turn fails, the task is
// failed. If the call was not accepted, the error is a *Refusal.
func (e *Engine) Run(ctx context.Context, t Turn) (Task, error) {
	if found, ok, err := e.findByMessageID(ctx, &t); ok || err != nil {
		return found, err
	}
	// A message with files and its answer may not fit into one document.
	if t.Continue || t.Idempotent || slices.ContainsFunc(t.Message.Parts, func(p Part) bool { return p.Kind != Text }) {
		// Such a turn has little time. If pieces were readable, the caller could read them on
		// another connection without paying for an answer that arrives too late.
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

// findByMessageID finds the task of an idempotent message that arrived earlier. If there is no such
// task, the error is t.NewMessageError, which may be nil.
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

// EndedTurn describes a turn that was run and decided.
type EndedTurn struct {
	StartedAt time.Time
	Pair      call.Pair
	Position  uint64 // position of the call
	Status    *Status
}

// detailCollector collects the chunks and the end request of a turn that Run stores once.
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

// findByEnvelope finds the task of a signed message that arrived earlier: the task that the message
// began, or the task t.Ref that the message continued. The signature does not cover the task's id,
// so a task that does not contain the message is treated as a missing task.
func (e *Engine) findByEnvelope(ctx context.Context, t *Turn, err error) (Task, error) {
	refusal, ok := err.(*Refusal)
	// If an idempotent message arrives twice within a microsecond, both copies are signed as the
	// same bytes, and the host refuses the second as a resend.
	if ok && t.Idempotent && (refusal.Problem.Kind == problem.Conflict || refusal.State != "") {
		if found, ok, err := e.findByMessageID(ctx, t); ok || err != nil {
			return found, err
		}
	}
	if !ok || !t.Signed || refusal.State == "" || refusal.State == call.Unknown {
		return Task{}, err
	}
	begunRef := t.Ref
	begunRef.ID = EnvelopeTaskID(refusal.Hash)
	found, getErr := e.Get(ctx, begunRef)
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
		replyIDs(t.ID, t.Message.Context)(m) // the context of a continued task is known only when the call is accepted
	}}
}

func MessageTaskID(vacant identity.ID, owner call.Owner, messageID string) string {
	sum := sha256.Sum256([]byte("vacancy message v1\x1f" + vacant.String() + "\x1f" + owner.String() + "\x1f" + messageID))
	return hex.EncodeToString(sum[:16])
}

func EnvelopeTaskID(hash identity.Hash) string { return hash.String()[:32] }

// MessageOf returns the message of the turn that ctx belongs to, including parts that no signature
// covers. It returns nil outside turns.
func MessageOf(ctx context.Context) *Message {
	m, _ := ctx.Value(messagesKey{}).(turnMessages)
	return m.current
}

func (m *turnMessages) belongsTo(e *envelope.Envelope) bool {
	// Calls that the vacant makes during the turn have the same context, but random message ids.
	return m.current != nil && e.Payload.MessageID != nil && *e.Payload.MessageID == m.current.ID
}

// NonTextPartsOf returns the parts of the message of e's turn that the host signed as notes
// (Part.SignedText), in their order.
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

// WatchTurn returns a context that ends within two seconds after the end of the turn named by
// TurnNameOf. It is for a process that works for the runner of that turn. The context has the
// settings of a dispatched task. If the settings cannot be read, the context is already canceled,
// because the work could otherwise exceed the budget of the task. Later store errors do not end the
// context.
func WatchTurn(ctx context.Context, s store.Store, name string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() { cancel(context.Canceled) }
	r, err := ParseRef(name)
	if err != nil {
		return ctx, stop
	}
	h, d, err := HeadDocs.Get(ctx, s, r.headKey())
	if err == nil && d.Version == 0 {
		err = errEnded
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
				cancel(errEnded)
				return
			}
		}
	}()
	return ctx, stop
}

// replyIDs returns a function that gives an answer the ids that it has as a message of its task, so
// that the signature covers them.
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

// finalStatus returns the status at the end of a turn. isClientWaiting reports whether a client
// request waits for the turn. If the turn reached the time limit of such requests, the status
// message recommends a stream.
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
		text += fmt.Sprintf("; as a stream, or with returnImmediately, it has %.0f minutes", MaxTurnTime.Minutes())
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

// maxSnapshotBytes limits the size of the texts of a task that is stored as one event together with
// its answer.
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
