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
	maxLogDoc    = 20       // events per document; an event has at most 10 KiB
	maxWritten   = 32 << 10 // bytes of the written paths that a task lists; its log contains all paths
)

type LogType string

// Types of events.
const (
	LogRead      LogType = "read_text_file"
	LogWrite     LogType = "write_text_file"
	LogBlocked   LogType = "write_blocked"
	LogUpdate    LogType = "session_update" // a tool call has ended
	LogTruncated LogType = "truncated"      // the log is full; the task continues
)

// LogEvent is an event in the log of a dispatched task. It contains paths, sizes and hashes, but
// never the content of a file.
type LogEvent struct {
	N    int       `json:"n"` // position in the log, starting at 1
	Time time.Time `json:"timestamp"`
	Type LogType   `json:"type"`
	Data LogData   `json:"data"`
}

// LogData describes an event. Members that do not apply are omitted.
type LogData struct {
	Path    string           `json:"path,omitempty"`
	Size    *int64           `json:"size,omitempty"`
	Hash    string           `json:"sha256,omitempty"`
	Reason  string           `json:"reason,omitempty"`
	Tool    string           `json:"tool,omitempty"`
	Outcome call.ToolOutcome `json:"outcome,omitempty"`
}

// sessionLog is the log of a task during a turn.
type sessionLog struct {
	waiting []LogEvent // events that are not stored yet
	count   int        // number of events in all turns
	size    int        // bytes of all events
	full    bool       // no more events are added
	written []string   // files that the turn has written
}

// ReadLog returns the events in the log of a dispatched task whose numbers are greater than after.
// The caller must check who may read them.
func (e *Engine) ReadLog(ctx context.Context, r Ref, after int) ([]LogEvent, error) {
	docs := LogDocs.Range(r.message())
	docs.First = logKey(r, after+1).Sort
	events, err := readEntries[LogEvent](ctx, e, docs)
	return slices.DeleteFunc(events, func(e LogEvent) bool {
		// A document may repeat events of the previous document, if the runner did not learn that
		// they were stored.
		isRead := e.N <= after
		after = max(after, e.N)
		return isRead
	}), err
}

func logKey(r Ref, last int) store.Key { return LogDocs.Key(r.message(), fmt.Sprintf("%06d", last)) }

// continueLog counts the events of earlier turns. If they cannot be read, the turn is not logged,
// because its events would replace the earlier ones.
func (r *runner) continueLog(ctx context.Context) {
	entries, err := r.engine.ReadLog(ctx, r.ref, 0)
	l := &r.log
	l.full = err != nil
	for _, e := range entries {
		b, _ := json.Marshal(e) // cannot fail, because e was decoded from JSON
		l.size, l.count, l.full = l.size+len(b), e.N, l.full || e.Type == LogTruncated
	}
}

func (r *runner) logEvent(t LogType, data LogData) {
	l := &r.log
	// Only the owner of the vacant may see the log.
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

func (r *runner) storeLog(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.log
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	for len(l.waiting) > 0 {
		n := min(len(l.waiting), maxLogDoc)
		err := r.putEntries(ctx, logKey(r.ref, l.waiting[n-1].N), l.waiting[:n])
		if err != nil && !store.IsConflict(err) { // a conflict means that an earlier attempt stored the events
			return
		}
		l.waiting = l.waiting[n:]
	}
}

// Work is a turn of a dispatched task while a worker runs the turn.
type Work struct {
	Ref Ref
	*Dispatch
	runner *runner
}

// WorkOf returns the turn of a dispatched task that a worker runs in ctx. The contexts of the calls
// that vacants make to answer the turn belong to the same turn. WorkOf returns nil outside such
// turns, and if the owner of the task does not own the vacant.
func WorkOf(ctx context.Context) *Work {
	t, _ := ctx.Value(turnKey{}).(turnContext)
	if t.worker == nil || t.dispatch == nil || !t.dispatch.IsOwn {
		return nil
	}
	return &Work{t.ref, t.dispatch, t.worker}
}

func (w *Work) Log(t LogType, data LogData) {
	r := w.runner
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logEvent(t, data)
	if t == LogWrite { // a written file becomes an artifact of the task
		r.log.written = mergePaths(r.log.written, []string{data.Path})
	}
}

func mergePaths(paths, more []string) []string {
	paths = slices.Concat(paths, more)
	slices.Sort(paths)
	paths = slices.Compact(paths)
	size := 0
	for i, path := range paths {
		if size += len(path); size > maxWritten {
			return paths[:i]
		}
	}
	return paths
}

// IsUnfinished reports whether a task has not ended. A task that its next reader will fail, for
// example because its deadline has passed, counts as ended.
func IsUnfinished(ctx context.Context, from store.Reader, r Ref, now time.Time) (bool, error) {
	h, d, err := HeadDocs.Get(ctx, from, r.headKey())
	return err == nil && d.Version > 0 && !d.IsExpired(now) && !h.State.Terminal() && !h.isAbandoned(now), store.AsProblem(err)
}
