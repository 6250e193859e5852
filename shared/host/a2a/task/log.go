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

const (
	MaxLogEvents        = 10_000
	maxLogBytes         = 4 << 20
	maxLogDocEvents     = 20       // at most 200 KiB, because an event has at most 10 KiB
	maxWrittenPathBytes = 32 << 10 // the log contains all paths
)

type LogType string

const (
	LogRead      LogType = "read_text_file"
	LogWrite     LogType = "write_text_file"
	LogBlocked   LogType = "write_blocked"
	LogUpdate    LogType = "session_update" // a tool call has ended
	LogTruncated LogType = "truncated"      // the log is full; the task continues
)

// LogEvent never contains the content of a file.
type LogEvent struct {
	N    int       `json:"n"` // position in the log, starting at 1
	Time time.Time `json:"timestamp"`
	Type LogType   `json:"type"`
	Data LogData   `json:"data"`
}

type LogData struct {
	Path    string           `json:"path,omitempty"`
	Size    *int64           `json:"size,omitempty"`
	Hash    string           `json:"sha256,omitempty"`
	Reason  string           `json:"reason,omitempty"`
	Tool    string           `json:"tool,omitempty"`
	Outcome call.ToolOutcome `json:"outcome,omitempty"`
}

type turnLog struct {
	pending      []LogEvent
	eventCount   int // in all turns
	byteCount    int
	isFull       bool
	writtenPaths []string
}

// ReadLog returns the events whose numbers are greater than after. The caller must check who may
// read them.
func (e *Engine) ReadLog(ctx context.Context, r Ref, after int) ([]LogEvent, error) {
	docs := LogDocs.Range(r.encode())
	docs.Start = logKey(r, after+1).Sort
	events, err := readEntries[LogEvent](ctx, e, docs)
	return slices.DeleteFunc(events, func(e LogEvent) bool {
		// A runner that lost the result of a write repeats its events in the next document.
		isRepeated := e.N <= after
		after = max(after, e.N)
		return isRepeated
	}), err
}

func logKey(r Ref, last int) store.Key { return LogDocs.Key(r.encode(), fmt.Sprintf("%06d", last)) }

// loadLogCounts counts the events of earlier turns. If it fails, the turn is not logged, because
// its events would have the numbers of earlier events.
func (r *runner) loadLogCounts(ctx context.Context) {
	entries, err := r.engine.ReadLog(ctx, r.ref, 0)
	l := &r.log
	l.isFull = err != nil
	for _, e := range entries {
		b, _ := json.Marshal(e) // cannot fail, because e was decoded from JSON
		l.byteCount, l.eventCount, l.isFull = l.byteCount+len(b), e.N, l.isFull || e.Type == LogTruncated
	}
}

func (r *runner) logEvent(t LogType, data LogData) {
	l := &r.log
	// Only the owner of the vacant may see the log.
	if r.dispatch == nil || !r.dispatch.IsOwn || l.isFull {
		return
	}
	e := LogEvent{l.eventCount + 1, r.engine.Now().UTC().Truncate(time.Microsecond), t, data}
	b, err := json.Marshal(e)
	if err != nil {
		return
	}
	if e.N >= MaxLogEvents || l.byteCount+len(b) > maxLogBytes {
		e.Type, e.Data, l.isFull = LogTruncated, LogData{}, true
	}
	l.eventCount, l.byteCount = e.N, l.byteCount+len(b)
	l.pending = append(l.pending, e)
}

func (r *runner) storeLog(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.log
	ctx, cancel := context.WithTimeout(ctx, maxFlushTime)
	defer cancel()
	for len(l.pending) > 0 {
		n := min(len(l.pending), maxLogDocEvents)
		err := r.putEntries(ctx, logKey(r.ref, l.pending[n-1].N), l.pending[:n])
		if err != nil && !store.IsConflict(err) { // a conflict means that an earlier attempt stored the events
			return
		}
		l.pending = l.pending[n:]
	}
}

type WorkerTurn struct {
	Ref Ref
	*Dispatch
	runner *runner
}

// WorkerTurnOf returns the turn of a dispatched task that a worker runs in ctx. It returns nil if
// the owner of the task does not own the vacant.
func WorkerTurnOf(ctx context.Context) *WorkerTurn {
	t, _ := ctx.Value(turnKey{}).(turnContext)
	if t.runner == nil || t.dispatch == nil || !t.dispatch.IsOwn {
		return nil
	}
	return &WorkerTurn{t.ref, t.dispatch, t.runner}
}

func (w *WorkerTurn) Log(t LogType, data LogData) {
	r := w.runner
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logEvent(t, data)
	if t == LogWrite {
		r.log.writtenPaths = mergePaths(r.log.writtenPaths, []string{data.Path})
	}
}

func mergePaths(paths, newPaths []string) []string {
	paths = slices.Concat(paths, newPaths)
	slices.Sort(paths)
	paths = slices.Compact(paths)
	size := 0
	for i, path := range paths {
		if size += len(path); size > maxWrittenPathBytes {
			return paths[:i]
		}
	}
	return paths
}

// IsUnfinished reports whether a task has not ended. An abandoned task counts as ended.
func IsUnfinished(ctx context.Context, reader store.Reader, r Ref, now time.Time) (bool, error) {
	h, d, err := HeadDocs.Get(ctx, reader, r.headKey())
	return err == nil && d.Version > 0 && !d.IsExpired(now) && !h.State.IsTerminal() && !h.isAbandoned(now), store.AsProblem(err)
}
