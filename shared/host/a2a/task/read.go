package task

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

var ErrNotFound = problem.New(problem.NotFound, "task not found: it does not exist, or it belongs to another caller")

type NumberedEvent struct {
	Number int
	Event
}

type loadedTask struct {
	ref        Ref
	head       head
	version    uint64 // version of the head
	task       Task
	events     []NumberedEvent
	eventBytes int
	lastTurn   lastTurn
}

type lastTurn struct {
	firstEvent       int
	earlierArtifacts []Artifact
	answerText       string // text of the stored pieces
	usage            *call.Usage
	credential       *call.Credential
}

func (e *Engine) loadTask(ctx context.Context, r Ref) (*loadedTask, error) {
	l := &loadedTask{ref: r}
	return l, e.loadNewEvents(ctx, l)
}

func (e *Engine) loadNewEvents(ctx context.Context, l *loadedTask) error {
	if !isID(l.ref.ID) {
		return ErrNotFound
	}
	hasHead := false
	var damageErr error
	r := store.Range{Partition: l.ref.partition(), Start: l.ref.eventKey(len(l.events) + 1).Sort, End: HeadDocs.Sort + "\x00"}
	for d, err := range store.Documents(ctx, e.Store, r) {
		if err != nil {
			return store.AsProblem(err)
		}
		switch {
		case d.Key.Sort != HeadDocs.Sort && damageErr == nil:
			damageErr = e.addEventDoc(ctx, l, d)
		case d.Key.Sort == HeadDocs.Sort && d.IsExpired(e.Now()):
			return ErrNotFound
		case d.Key.Sort == HeadDocs.Sort:
			hasHead, l.version = true, d.Version
			if l.head, err = HeadDocs.Parse(d); err != nil {
				return err
			}
		}
	}
	switch {
	case !hasHead:
		return ErrNotFound // events may outlive the head
	case damageErr != nil:
		return damageErr
	case len(l.events) == 0:
		return problem.New(problem.Damaged, "task %s has no events", l.ref.ID)
	}
	return nil
}

func isID(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == len(store.WriteID{})
}

func (e *Engine) addEventDoc(ctx context.Context, l *loadedTask, d store.Doc) error {
	if l.task.Status.State.IsTerminal() {
		// The runner that wrote the event did not know yet that the task had ended.
		return nil
	}
	n, ok := eventNumber(d.Key)
	if !ok || n != len(l.events)+1 {
		return problem.New(problem.Damaged, "task %s: event %d is missing", l.ref.ID, len(l.events)+1)
	}
	if l.eventBytes += len(d.Data); l.eventBytes > 2*MaxBytes {
		return problem.New(problem.TooLarge, "task %s is too large to read", l.ref.ID)
	}
	event, err := e.openEvent(ctx, d)
	if errors.Is(err, textkeys.ErrDestroyed) {
		return ErrNotFound
	}
	if err != nil {
		return err
	}
	switch {
	case event.Task != nil, event.NextMessage != nil:
		l.lastTurn = lastTurn{firstEvent: n, earlierArtifacts: l.task.Artifacts, credential: event.Credential}
	case event.Artifact != nil && event.Artifact.Artifact.ID == ResponseArtifact:
		if !event.Artifact.Append {
			l.lastTurn.answerText = ""
		}
		for _, p := range event.Artifact.Artifact.Parts {
			l.lastTurn.answerText += p.Text
		}
	}
	if event.Usage != nil {
		l.lastTurn.usage = event.Usage
	}
	if event.Void {
		l.task.Artifacts = l.lastTurn.earlierArtifacts
		for i := l.lastTurn.firstEvent; i < len(l.events); i++ {
			if l.events[i].Artifact != nil {
				l.events[i].Event = Event{}
			}
		}
	}
	l.task.Apply(event.Event)
	restoreRepeatedText(&l.task, &event)
	if event.Task != nil {
		snapshot := l.task
		event.Task = &snapshot
	}
	l.events = append(l.events, NumberedEvent{n, event.Event})
	return nil
}

func (e *Engine) Get(ctx context.Context, r Ref) (Task, error) {
	l, err := e.loadCurrentTask(ctx, r)
	if err != nil {
		return Task{}, err
	}
	return l.task, nil
}

// loadCurrentTask loads a task, and fails it if its runner has died.
func (e *Engine) loadCurrentTask(ctx context.Context, r Ref) (*loadedTask, error) {
	l := &loadedTask{ref: r}
	return l, e.refreshTask(ctx, l)
}

type ListRequest struct {
	Ref          Ref // the ID is ignored
	ListOwner    call.Owner
	Context      string
	State        State
	UpdatedAfter time.Time
	PageSize     int    // 1 to 100
	PageToken    string // Page.Next of the previous page
}

// Page is a page of tasks, most recent status first.
type Page struct {
	Tasks []Task
	Next  string
	Total int // -1 if more than MaxListed tasks match
}

// List passes a page of tasks to consume. It waits while other pages use all of MaxListingBytes.
func (e *Engine) List(ctx context.Context, q ListRequest, consume func(*Page)) error {
	afterKey, err := base64.RawURLEncoding.DecodeString(q.PageToken)
	if err != nil {
		return problem.Invalid("pageToken", "nextPageToken of an earlier answer", truncate(q.PageToken))
	}
	heads, total, err := e.listHeads(ctx, &q, string(afterKey))
	if err != nil {
		return err
	}
	// A running task may grow up to MaxBytes. If a page has one, its tasks are read one at a time.
	n, reservedBytes, concurrency := 0, 0, 8
	for ; n < min(len(heads), q.PageSize) && (n == 0 || reservedBytes+heads[n].EventBytes <= MaxPageBytes); n++ {
		reservedBytes += heads[n].EventBytes
		if heads[n].State == Working || heads[n].EventBytes == 0 { // earlier versions did not set EventBytes
			concurrency = 1
		}
	}
	if concurrency == 1 {
		reservedBytes = max(reservedBytes, MaxPageBytes) + MaxBytes
	}
	reservedBytes = min(reservedBytes, MaxListingBytes)
	if err := e.listMemory.Acquire(ctx, int64(reservedBytes)); err != nil {
		return problem.Wrap(problem.TooManyRequests, err, "the host has no memory to list more tasks now; send the same request again")
	}
	defer func() { e.listMemory.Release(int64(reservedBytes)) }()
	tasks := make([]*loadedTask, n)
	var readBytes atomic.Int64
	errs := make([]error, n)
	var g errgroup.Group
	g.SetLimit(concurrency)
	for i := range tasks {
		r := q.Ref
		r.ID = heads[i].sortKey[min(17, len(heads[i].sortKey)):] // follows the 16 digits of newestFirstKey and "#"
		g.Go(func() error {
			if concurrency == 1 && readBytes.Load() > MaxPageBytes {
				return nil
			}
			l, err := e.loadCurrentTask(ctx, r)
			switch {
			case errors.Is(err, ErrNotFound): // the index may be outdated
			case err != nil:
				errs[i] = err
			default:
				readBytes.Add(int64(l.eventBytes))
				tasks[i] = l
			}
			return nil
		})
	}
	_ = g.Wait() // errs contains the errors in the order of the tasks
	if err := cmp.Or(errs...); err != nil {
		return err
	}
	p := Page{Total: -1}
	if total <= MaxListed {
		p.Total = total
	}
	size := 0
	for i, l := range tasks {
		if size > MaxPageBytes || l != nil && len(p.Tasks) > 0 && size+l.eventBytes > MaxPageBytes {
			n = i
			break
		}
		if l != nil {
			size += l.eventBytes
			p.Tasks = append(p.Tasks, l.task)
		}
	}
	if n < len(heads) {
		p.Next = base64.RawURLEncoding.EncodeToString([]byte(heads[n-1].sortKey))
	}
	usedBytes := min(size, reservedBytes)
	e.listMemory.Release(int64(reservedBytes - usedBytes))
	reservedBytes = usedBytes
	consume(&p)
	return nil
}

type listedHead struct {
	head
	sortKey string
}

// listHeads returns at most q.PageSize+1 heads after a sort key, and the number of all matching
// heads.
func (e *Engine) listHeads(ctx context.Context, q *ListRequest, afterKey string) (matching []listedHead, total int, err error) {
	r := HeadDocs.IndexRange(q.Ref.Vacant.String(), q.ListOwner.String())
	lastKey := ""
	for cursor := ""; ; {
		page, next, err := e.Store.Docs(ctx, r, store.MaxPage, cursor)
		if err != nil {
			return nil, 0, store.AsProblem(err)
		}
		for _, d := range page {
			h, err := HeadDocs.Parse(d)
			if err != nil {
				return nil, 0, err
			}
			lastKey = d.Index.Sort
			if d.IsExpired(e.Now()) || q.Context != "" && h.ContextHash != hashContextID(q.Context) || q.State != "" && h.State != q.State ||
				!q.UpdatedAfter.IsZero() && !h.StatusTime.After(q.UpdatedAfter) {
				continue
			}
			total++
			if lastKey > afterKey && len(matching) <= q.PageSize {
				matching = append(matching, listedHead{h, lastKey})
			}
		}
		isOverMaxListed := total > MaxListed
		switch cursor = next; {
		case cursor == "" || isOverMaxListed && len(matching) > q.PageSize:
			return matching, total, nil
		case isOverMaxListed && lastKey < afterKey: // the rest need not be counted
			r.Start, cursor, lastKey = afterKey, "", afterKey
		}
	}
}

func truncate(s string) string { return s[:min(len(s), 80)] }

// Follow calls emit with each event whose number is greater than after, until the task or ctx ends
// or emit returns false.
func (e *Engine) Follow(ctx context.Context, r Ref, after int, emit func(NumberedEvent) bool) error {
	return e.followUntil(ctx, r, after, State.IsTerminal, emit)
}

func (e *Engine) FollowTurn(ctx context.Context, r Ref, after int, emit func(NumberedEvent) bool) error {
	return e.followUntil(ctx, r, after, func(s State) bool { return s.IsTerminal() || s.AwaitsMessage() }, emit)
}

func (e *Engine) followUntil(ctx context.Context, r Ref, after int, isDone func(State) bool, emit func(NumberedEvent) bool) error {
	l := &loadedTask{ref: r}
	for idleRounds := 0; ; idleRounds++ {
		changed, unsubscribe := e.hub.subscribe(r.partition())
		err := e.refreshTask(ctx, l)
		for _, event := range l.events[min(after, len(l.events)):] {
			if err == nil && !event.IsEmpty() && !emit(event) {
				unsubscribe()
				return nil
			}
			after, idleRounds = event.Number, 0
		}
		if err != nil || isDone(l.task.Status.State) {
			unsubscribe()
			return err
		}
		poll := e.PollInterval
		switch {
		case poll > 0:
		case idleRounds < 4:
			poll = 250 * time.Millisecond
		default:
			poll = time.Second
		}
		timer := time.NewTimer(poll)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		unsubscribe()
		if ctx.Err() != nil {
			return nil
		}
	}
}

func (e *Engine) refreshTask(ctx context.Context, l *loadedTask) error {
	err := e.loadNewEvents(ctx, l)
	if err != nil || !l.head.isAbandoned(e.Now()) {
		return err
	}
	if err := e.failAbandoned(ctx, l); err != nil && !errors.Is(err, errNewEvents) {
		return err
	}
	return e.loadNewEvents(ctx, l)
}

func (e *Engine) Snapshot(ctx context.Context, r Ref) (Task, int, error) {
	l, err := e.loadCurrentTask(ctx, r)
	if err != nil {
		return Task{}, 0, err
	}
	return l.task, len(l.events), nil
}

// TurnSnapshot returns a task as it was when its last turn began.
func (e *Engine) TurnSnapshot(ctx context.Context, r Ref) (t Task, n int, err error) {
	l, err := e.loadCurrentTask(ctx, r)
	if err != nil {
		return Task{}, 0, err
	}
	n = 1
	for _, event := range l.events {
		if event.NextMessage != nil {
			n = event.Number
		}
	}
	for _, event := range l.events[:n] {
		t.Apply(event.Event)
	}
	return t, n, nil
}

type hub struct {
	mu      sync.Mutex
	topics  map[string]*topic // keyed by partition
	runners sync.Map          // *runner by partition
}

type topic struct {
	changed     chan struct{}
	waiterCount int
}

func (h *hub) subscribe(partition string) (changed <-chan struct{}, unsubscribe func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.topics == nil {
		h.topics = map[string]*topic{}
	}
	t := h.topics[partition]
	if t == nil {
		t = &topic{changed: make(chan struct{})}
		h.topics[partition] = t
	}
	t.waiterCount++
	return t.changed, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if t.waiterCount--; t.waiterCount == 0 && h.topics[partition] == t {
			delete(h.topics, partition)
		}
	}
}

func (h *hub) wake(partition string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[partition]; t != nil {
		close(t.changed)
		delete(h.topics, partition)
	}
}

func (e *Engine) LastCall(ctx context.Context, r Ref) (pair call.Pair, request call.RequestRow, response *call.ResponseRow, err error) {
	h, d, err := HeadDocs.Get(ctx, e.Store, r.headKey())
	switch {
	case err != nil:
		return pair, request, nil, store.AsProblem(err)
	case d.Version == 0 || d.IsExpired(e.Now()):
		return pair, request, nil, ErrNotFound
	}
	pair = call.Pair{Caller: h.Caller, Vacant: r.Vacant}
	request, response, err = e.Calls.LoadCallAndAnswer(ctx, pair, h.Position)
	return pair, request, response, err
}

// Subscribe returns a channel that is closed when this process writes an event of the task. The
// caller must call unsubscribe.
func (e *Engine) Subscribe(r Ref) (changed <-chan struct{}, unsubscribe func()) {
	return e.hub.subscribe(r.partition())
}

func (e *Engine) IsActive(ctx context.Context, r Ref) (bool, error) {
	h, d, err := HeadDocs.Get(ctx, e.Store, r.headKey())
	return err == nil && d.Version > 0 && h.State.IsActive(), store.AsProblem(err)
}

func (l *loadedTask) pair() call.Pair { return call.Pair{Caller: l.head.Caller, Vacant: l.ref.Vacant} }
