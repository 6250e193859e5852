package bolt

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Limits of one group. Further commits wait for the next group. The limits bound memory and the
// wait of the group's first commit.
const (
	groupCommits = 1024
	groupBytes   = 8 << 20
)

// request is a queued commit with its own copy of all bytes.
type request struct {
	writes []store.Write
	values [][]byte // encoded row or document of each write; nil for Delete and Add
	size   int
	state  atomic.Uint32 // waiting, taken or withdrawn
	done   chan error
}

const (
	waiting uint32 = iota
	taken
	withdrawn
)

func newRequest(writes []store.Write) *request {
	r := &request{writes: make([]store.Write, len(writes)), values: make([][]byte, len(writes)), done: make(chan error, 1)}
	for i, w := range writes {
		switch w := w.(type) {
		case store.Append:
			r.values[i] = newRecord(w)
			w.Data = nil
			r.writes[i] = w
		case store.Put:
			r.values[i] = newDocument(store.Doc{Version: w.IfVersion + 1, WriteID: w.WriteID, Number: w.Number, Index: w.Index, Expires: w.Expires, Data: w.Data})
			w.Data = nil
			r.writes[i] = w
		default:
			r.writes[i] = w
		}
		r.size += len(r.values[i])
	}
	return r
}

// queue holds the commits that the committer has not taken yet.
type queue struct {
	mu     sync.Mutex
	filled *sync.Cond
	list   []*request
	closed bool
}

func (q *queue) init() { q.filled = sync.NewCond(&q.mu) }

func (q *queue) put(r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return store.NotApplied(store.ErrClosed)
	}
	q.list = append(q.list, r)
	q.filled.Signal()
	return nil
}

// take waits for commits and appends the commits of one group to group, except withdrawn ones. If
// the queue is closed and empty, take returns group unchanged.
func (q *queue) take(group []*request) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(q.list) == 0 && !q.closed {
			q.filled.Wait()
		}
		n, size := 0, 0
		for ; n < len(q.list) && len(group) < groupCommits && size < groupBytes; n++ {
			if r := q.list[n]; r.state.CompareAndSwap(waiting, taken) {
				group = append(group, r)
				size += r.size
			}
		}
		rest := copy(q.list, q.list[n:])
		clear(q.list[rest:])
		q.list = q.list[:rest]
		if len(group) > 0 || q.closed && rest == 0 {
			return group
		}
	}
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.filled.Broadcast()
}

// Commit implements store.Store. A commit whose context ends while it is queued is withdrawn. After
// the committer has taken it, a caller whose context ends does not learn the outcome.
func (s *Store) Commit(ctx context.Context, writes ...store.Write) error {
	if err := store.Check(writes); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return store.NotApplied(err)
	}
	r := newRequest(writes)
	if err := s.queue.put(r); err != nil {
		return err
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		if r.state.CompareAndSwap(waiting, withdrawn) {
			return store.NotApplied(ctx.Err())
		}
		return fmt.Errorf("%w: the outcome is unknown: %w", store.ErrUnavailable, ctx.Err())
	}
}
