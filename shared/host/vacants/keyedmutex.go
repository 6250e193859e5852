package vacants

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// keyedMutex serializes the writers of one logbook within a process. Writers in other processes
// conflict in the store. A caller that also needs the registry's turn must take this lock first.
type keyedMutex struct {
	mu    sync.Mutex
	locks map[identity.ID]*keyLock
}

type keyLock struct {
	token chan struct{}
	users int
}

func (t *keyedMutex) Lock(ctx context.Context, ids ...identity.ID) (unlock func(), err error) {
	// All callers lock in the same order to avoid deadlocks.
	ids = slices.Clone(ids)
	slices.SortFunc(ids, func(a, b identity.ID) int { return bytes.Compare(a[:], b[:]) })
	ids = slices.Compact(ids)
	for i, id := range ids {
		if err := t.lockOne(ctx, id); err != nil {
			t.release(ids[:i])
			return nil, err
		}
	}
	return func() { t.release(ids) }, nil
}

func (t *keyedMutex) lockOne(ctx context.Context, id identity.ID) error {
	t.mu.Lock()
	if t.locks == nil {
		t.locks = make(map[identity.ID]*keyLock)
	}
	lock := t.locks[id]
	if lock == nil {
		lock = &keyLock{token: make(chan struct{}, 1)}
		lock.token <- struct{}{}
		t.locks[id] = lock
	}
	lock.users++
	t.mu.Unlock()
	select {
	case <-lock.token:
		return nil
	case <-ctx.Done():
		t.removeUser(id, lock)
		return problem.Wrap(problem.Unavailable, ctx.Err(), "too many concurrent writes to the logbook of vacant %s; run the same command again", id.Short())
	}
}

func (t *keyedMutex) release(ids []identity.ID) {
	for _, id := range ids {
		t.mu.Lock()
		lock := t.locks[id]
		t.mu.Unlock()
		lock.token <- struct{}{}
		t.removeUser(id, lock)
	}
}

func (t *keyedMutex) removeUser(id identity.ID, lock *keyLock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if lock.users--; lock.users == 0 {
		delete(t.locks, id)
	}
}
