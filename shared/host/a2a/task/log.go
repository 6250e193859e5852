package task

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Limits of the log of a task.
const (
	MaxLogEvents = 10_000
	maxLogBytes  = 4 << 20
	maxLogDoc    = 20       // events of a document, which have at most 10 KiB each
	maxWritten   = 32 << 10 // bytes of the paths of written files that a task lists; its log has all
)

// LogType is the type of an event of a log.
type LogType string

// The types of events.
const (
	LogRead      LogType = "read_text_file"
	LogWrite     LogType = "write_text_file"
	LogBlocked   LogType = "write_blocked"
	LogUpdate    LogType = "session_update" // a call of a tool has ended
	LogTruncated LogType = "truncated"      // the log is full; the task goes on
)

// LogEvent is an event in the log of a dispatched task. It has paths, sizes and hashes, and never the content of a file.
type LogEvent struct {
	N    int       `json:"n"` // position in the log, from 1
	Time time.Time `json:"timestamp"`
	Type LogType   `json:"type"`
	Data LogData   `json:"data"`
}

// LogData describes an event. Members that do not apply are absent.
type LogData struct {
	Path    string           `json:"path,omitempty"`
	Size    *int64           `json:"size,omitempty"`
	Hash    string           `json:"sha256,omitempty"`
	Reason  string           `json:"reason,omitempty"`
	Tool    string           `json:"tool,omitempty"`
	Outcome call.ToolOutcome `json:"outcome,omitempty"`
}

// sessionLog is the log of a task while a turn of the task runs.
type sessionLog struct {
	waiting []LogEvent // events that are not stored
	count   int        // events of all turns
	size    int        // bytes of all events
	full    bool
	written []string // files that the turn has written
}

// ReadLog returns the events of the log of a dispatched task after the event with the number after. The caller checks who
// may read them.
func (e *Engine) ReadLog(ctx context.Context, r Ref, after int) ([]LogEvent, error) {
	docs := LogDocs.All(r.message())
	docs.First = logKey(r, after+1).Sort
	events, err := readEntries[LogEvent](ctx, e, docs)
	return slices.DeleteFunc(events, func(e LogEvent) bool {
		// A document may repeat events of the one before it, if the runner did not learn that these were stored.
		isRead := e.N <= after
		after = max(after, e.N)
		return isRead
	}), err
}

// logKey returns the key of the document whose last event has a number.
func logKey(r Ref, last int) store.Key { return LogDocs.Key(r.message(), fmt.Sprintf("%06d", last)) }

// continueLog counts the events of earlier turns. If they cannot be read, the turn is not logged, because its events
// would replace theirs.
func (r *runner) continueLog(ctx context.Context) {
	all, err := r.engine.ReadLog(ctx, r.ref, 0)
	l := &r.log
	l.full = err != nil
	for _, e := range all {
		b, _ := json.Marshal(e) // it was decoded
		l.size, l.count, l.full = l.size+len(b), e.N, l.full || e.Type == LogTruncated
	}
}

// logEvent adds an event, if the owner of the task owns the vacant. r.mu is held.
func (r *runner) logEvent(t LogType, data LogData) {
	l := &r.log
	if r.dispatch == nil || !r.dispatch.IsOwn || l.full {
		return
	}
	e := LogEvent{l.count + 1, r.engine.Now().UTC().Truncate(time.Microsecond), t, data}
	b, err := json.Marshal(e)
	if err != nil {
		return
	}
	if e.N >= MaxLogEvents || l.size+len(b) > maxLogBytes {
		e.Type, e.Data, l.full = LogTruncated, LogData{}, true
	}
	l.count, l.size = e.N, l.size+len(b)
	l.waiting = append(l.waiting, e)
}

// storeLog stores the events that are not stored yet. Events that cannot be stored wait for the next time.
func (r *runner) storeLog(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.log
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	for len(l.waiting) > 0 {
		n := min(len(l.waiting), maxLogDoc)
		err := r.putEntries(ctx, logKey(r.ref, l.waiting[n-1].N), l.waiting[:n])
		if err != nil && !store.IsConflict(err) { // after a conflict the events are stored: an earlier attempt was applied
			return
		}
		l.waiting = l.waiting[n:]
	}
}

// Work is the turn of a dispatched task that a worker runs.
type Work struct {
	Ref Ref
	*Dispatch
	runner *runner
}

// WorkOf returns the dispatched task whose turn a worker runs in ctx, also for the calls that answer the turn. It returns
// nil outside of such turns, and if the owner of the task does not own the vacant.
func WorkOf(ctx context.Context) *Work {
	t, _ := ctx.Value(turnKey{}).(turnContext)
	if t.worker == nil || t.dispatch == nil || !t.dispatch.IsOwn {
		return nil
	}
	return &Work{t.ref, t.dispatch, t.worker}
}

// Log adds an event to the log of the task. A written file becomes an artifact of the task.
func (w *Work) Log(t LogType, data LogData) {
	r := w.runner
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logEvent(t, data)
	if t == LogWrite {
		r.log.written = mergePaths(r.log.written, []string{data.Path})
	}
}

// mergePaths returns two lists of paths as one, sorted and cut at maxWritten bytes.
func mergePaths(all, more []string) []string {
	all = slices.Concat(all, more)
	slices.Sort(all)
	all = slices.Compact(all)
	size := 0
	for i, path := range all {
		if size += len(path); size > maxWritten {
			return all[:i]
		}
	}
	return all
}

// IsUnfinished reports whether a dispatched task has not ended, and is not to be failed by its next reader.
func IsUnfinished(ctx context.Context, from store.Reader, r Ref, now time.Time) (bool, error) {
	h, d, err := HeadDocs.Get(ctx, from, r.headKey())
	return err == nil && d.Version > 0 && !d.Expired(now) && !h.State.Terminal() && !h.abandoned(now), store.Problem(err)
}
