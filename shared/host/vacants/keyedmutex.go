package vacants

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// keyedMutex serializes the writers of one logbook within a process. Otherwise concurrent writers
// would conflict and have to read and sign again. Writers in other processes conflict in the store.
// A caller that also needs the registry's turn must take this lock first.
type keyedMutex struct {
	mu    sync.Mutex
	queue map[identity.ID]*keyLock
}

type keyLock struct {
	token chan struct{} // contains a token while unlocked
	users int           // holders and waiters
}

// Lock locks the logbooks of ids, which may contain duplicates, and returns a function that unlocks
// them.
func (t *keyedMutex) Lock(ctx context.Context, ids ...identity.ID) (done func(), err error) {
	// All callers lock in the same order to avoid deadlocks.
	ids = slices.Clone(ids)
	slices.SortFunc(ids, func(a, b identity.ID) int { return bytes.Compare(a[:], b[:]) })
	ids = slices.Compact(ids)
	for i, id := range ids {
		if err := t.lockOne(ctx, id); err != nil {
			t.give(ids[:i])
			return nil, err
		}
	}
	return func() { t.give(ids) }, nil
}

func (t *keyedMutex) lockOne(ctx context.Context, id identity.ID) error {
	t.mu.Lock()
	if t.queue == nil {
		t.queue = make(map[identity.ID]*keyLock)
	}
	lock := t.queue[id]
	if lock == nil {
		lock = &keyLock{token: make(chan struct{}, 1)}
		lock.token <- struct{}{}
		t.queue[id] = lock
	}
	lock.users++
	t.mu.Unlock()
	select {
	case <-lock.token:
		return nil
	case <-ctx.Done():
		t.unlock(id, lock)
		return problem.Wrap(problem.Unavailable, ctx.Err(), "too many concurrent writes to the logbook of vacant %s; run the same command again", id.Short())
	}
}

func (t *keyedMutex) give(ids []identity.ID) {
	for _, id := range ids {
		t.mu.Lock()
		lock := t.queue[id]
		t.mu.Unlock()
		lock.token <- struct{}{}
		t.unlock(id, lock)
	}
}

func (t *keyedMutex) unlock(id identity.ID, lock *keyLock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if lock.users--; lock.users == 0 {
		delete(t.queue, id)
	}
}
