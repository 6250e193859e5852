package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Fault is the fault that Lossy applies to a call.
type Fault int

// The faults. For a read, Lost, Unacknowledged and Delayed are equivalent, and Twice has no effect.
const (
	NoFault        Fault = iota // applied and acknowledged
	Lost                        // never applied; the caller gets an error
	Unacknowledged              // applied; the caller gets an error
	Delayed                     // the caller gets an error; ApplyPending applies the writes later
	Twice                       // applied twice; the caller gets the second outcome
)

var faultNames = map[Fault]string{NoFault: "no fault", Lost: "lost", Unacknowledged: "unacknowledged", Delayed: "delayed", Twice: "twice"}

func (f Fault) String() string { return faultNames[f] }

// Lossy wraps a store and makes calls fail in the ways in which real adapters fail. It calls
// ChooseFault before every Tip, Rows, Doc, Docs and Commit. For a read, writes is nil. ChooseFault
// must be safe for concurrent use.
type Lossy struct {
	store.Store
	ChooseFault func(op string, writes []store.Write) Fault

	mu      sync.Mutex
	pending [][]store.Write
}

var errLost = errors.New("injected fault")

func (l *Lossy) checkRead(op string) error {
	if f := l.ChooseFault(op, nil); f != NoFault && f != Twice {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, errLost)
	}
	return nil
}

func (l *Lossy) Tip(ctx context.Context, s store.Stream) (store.Row, error) {
	if err := l.checkRead("Tip"); err != nil {
		return store.Row{}, err
	}
	return l.Store.Tip(ctx, s)
}

func (l *Lossy) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	if err := l.checkRead("Rows"); err != nil {
		return nil, err
	}
	return l.Store.Rows(ctx, s, from, n, d)
}

func (l *Lossy) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	if err := l.checkRead("Doc"); err != nil {
		return store.Doc{}, err
	}
	return l.Store.Doc(ctx, k)
}

func (l *Lossy) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	if err := l.checkRead("Docs"); err != nil {
		return nil, "", err
	}
	return l.Store.Docs(ctx, r, n, cursor)
}

func (l *Lossy) Commit(ctx context.Context, writes ...store.Write) error {
	switch l.ChooseFault("Commit", writes) {
	case Lost:
	case Unacknowledged:
		// The caller gets the same error if the store refuses the writes.
		_ = l.Store.Commit(ctx, writes...)
	case Delayed:
		l.mu.Lock()
		l.pending = append(l.pending, writes)
		l.mu.Unlock()
	case Twice:
		// Only the second outcome is returned.
		_ = l.Store.Commit(ctx, writes...)
		return l.Store.Commit(ctx, writes...)
	default:
		return l.Store.Commit(ctx, writes...)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, errLost)
}

// ApplyPending applies the delayed commits in the order in which they were sent, and returns the
// error of each.
func (l *Lossy) ApplyPending(ctx context.Context) []error {
	l.mu.Lock()
	pending := l.pending
	l.pending = nil
	l.mu.Unlock()
	var errs []error
	for _, writes := range pending {
		errs = append(errs, l.Store.Commit(ctx, writes...))
	}
	return errs
}
