package bolt

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Limits of one group. They bound memory and the wait of the group's first commit.
const (
	maxGroupCommits = 1024
	maxGroupBytes   = 8 << 20
)

// request is a queued commit with its own copy of all bytes.
type request struct {
	writes  []store.Write
	encoded [][]byte // row or document; nil for Delete and Add
	size    int
	state   atomic.Uint32
	outcome chan error
}

const (
	stateWaiting uint32 = iota
	stateTaken
	stateWithdrawn
)

func newRequest(writes []store.Write) *request {
	r := &request{writes: make([]store.Write, len(writes)), encoded: make([][]byte, len(writes)), outcome: make(chan error, 1)}
	for i, w := range writes {
		switch w := w.(type) {
		case store.Append:
			r.encoded[i] = encodeRecord(w)
			w.Data = nil
			r.writes[i] = w
		case store.Put:
			r.encoded[i] = encodeDocument(store.Doc{Version: w.IfVersion + 1, WriteID: w.WriteID, Number: w.Number, Index: w.Index, Expires: w.Expires, Data: w.Data})
			w.Data = nil
			r.writes[i] = w
		default:
			r.writes[i] = w
		}
		r.size += len(r.encoded[i])
	}
	return r
}

type queue struct {
	mu       sync.Mutex
	notEmpty *sync.Cond
	requests []*request
	closed   bool
}

func (q *queue) init() { q.notEmpty = sync.NewCond(&q.mu) }

func (q *queue) enqueue(r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return store.NotAppliedError(store.ErrClosed)
	}
	q.requests = append(q.requests, r)
	q.notEmpty.Signal()
	return nil
}

// takeGroup waits for commits and appends one group of them to group. If the queue is closed and
// empty, takeGroup returns group unchanged.
func (q *queue) takeGroup(group []*request) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(q.requests) == 0 && !q.closed {
			q.notEmpty.Wait()
		}
		n, size := 0, 0
		for ; n < len(q.requests) && len(group) < maxGroupCommits && size < maxGroupBytes; n++ {
			if r := q.requests[n]; r.state.CompareAndSwap(stateWaiting, stateTaken) {
				group = append(group, r)
				size += r.size
			}
		}
		remaining := copy(q.requests, q.requests[n:])
		clear(q.requests[remaining:])
		q.requests = q.requests[:remaining]
		if len(group) > 0 || q.closed && remaining == 0 {
			return group
		}
	}
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.notEmpty.Broadcast()
}

// Commit implements store.Store. If the context ends while the commit is queued, the commit is
// withdrawn.
func (s *Store) Commit(ctx context.Context, writes ...store.Write) error {
	if err := store.CheckWrites(writes); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return store.NotAppliedError(err)
	}
	r := newRequest(writes)
	if err := s.queue.enqueue(r); err != nil {
		return err
	}
	select {
	case err := <-r.outcome:
		return err
	case <-ctx.Done():
		if r.state.CompareAndSwap(stateWaiting, stateWithdrawn) {
			return store.NotAppliedError(ctx.Err())
		}
		return fmt.Errorf("%w: the outcome is unknown: %w", store.ErrUnavailable, ctx.Err())
	}
}
