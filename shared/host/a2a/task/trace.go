package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

const (
	maxTraceBytes    = 1 << 20  // per turn
	maxTraceDocBytes = 32 << 10 // size at which a document is stored early
	traceInterval    = 5 * time.Second
)

type TraceEntry struct {
	Time    time.Time      `json:"time"`
	Thought string         `json:"thought,omitempty"`
	Tool    *call.ToolStep `json:"tool,omitempty"`
}

// ReadTrace returns the trace of a dispatched task. The caller must check that the reader owns the
// vacant, because the owner of the task may be another account.
func (e *Engine) ReadTrace(ctx context.Context, r Ref) (entries []TraceEntry, err error) {
	if !isID(r.ID) {
		return nil, ErrNotFound
	}
	return readEntries[TraceEntry](ctx, e, TraceDocs.Range(r.encode()))
}

func readEntries[T any](ctx context.Context, e *Engine, docs store.Range) (items []T, err error) {
	for d, err := range store.Documents(ctx, e.Store, docs) {
		switch {
		case err != nil:
			return nil, store.AsProblem(err)
		case d.IsExpired(e.Now()):
			continue
		}
		plaintext, err := e.openDoc(ctx, d)
		switch {
		case errors.Is(err, textkeys.ErrDestroyed):
			continue
		case err != nil:
			return nil, err
		}
		var entries []T
		if err := json.Unmarshal(plaintext, &entries); err != nil {
			return nil, problem.Wrap(problem.Damaged, err, "%s does not decode", d.Key)
		}
		items = append(items, entries...)
	}
	return items, nil
}

func (r *runner) putEntries(ctx context.Context, k store.Key, entries any) error {
	plaintext, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	data, err := r.engine.seal(ctx, k, plaintext)
	if err != nil {
		return err
	}
	id, err := r.engine.updater().NewWriteID()
	if err != nil {
		return err
	}
	h := head{StartedAt: r.startedAt}
	return r.engine.updater().Commit(ctx, store.Put{Key: k, WriteID: id, Data: data, Expires: h.expires()})
}

func (r *runner) recordTrace(entry TraceEntry) {
	size := len(entry.Thought)
	if entry.Tool != nil {
		size = len(entry.Tool.ID) + len(entry.Tool.Name) + len(entry.Tool.Arguments)
	}
	if r.dispatch == nil || r.traceSize+size > maxTraceBytes {
		return
	}
	r.traceSize += size
	if n := len(r.pendingTrace); n > 0 && entry.Tool == nil && r.pendingTrace[n-1].Tool == nil {
		r.pendingTrace[n-1].Thought += entry.Thought
		return
	}
	entry.Time = r.engine.Now().UTC().Truncate(time.Microsecond)
	r.pendingTrace = append(r.pendingTrace, entry)
}

func (r *runner) isTraceDue() bool {
	return len(r.pendingTrace) > 0 && (r.engine.Now().Sub(r.lastTraceWrite) >= traceInterval || r.traceSize-r.storedTraceSize >= maxTraceDocBytes)
}

// storeTrace drops entries that it cannot store, so that the answer does not fail.
func (r *runner) storeTrace(ctx context.Context) {
	if len(r.pendingTrace) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maxFlushTime)
	defer cancel()
	entries := r.pendingTrace
	r.traceDocCount++
	r.pendingTrace, r.lastTraceWrite, r.storedTraceSize = nil, r.engine.Now(), r.traceSize
	// Documents of later turns must sort later.
	_ = r.putEntries(ctx, TraceDocs.Key(r.ref.encode(), fmt.Sprintf("%06d-%06d", r.nextEvent, r.traceDocCount)), entries)
}
