package serve

import (
	"context"
	"sync/atomic"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/store"
)

// ChangeNotifier is a store that records whether it has committed a registration. A search then
// finds a publication of its own process immediately instead of after the next poll.
type ChangeNotifier struct {
	store.Store
	changed atomic.Bool
}

func NewChangeNotifier(s store.Store) *ChangeNotifier { return &ChangeNotifier{Store: s} }

// Commit implements store.Store. It records a change even if the commit failed, because the writes
// may have been applied nevertheless, and an unnecessary update of the index costs only one poll.
func (n *ChangeNotifier) Commit(ctx context.Context, writes ...store.Write) error {
	err := n.Store.Commit(ctx, writes...)
	for _, w := range writes {
		if put, ok := w.(store.Put); ok && put.Index.Partition == registry.RegistrationDocs.Index {
			n.changed.Store(true)
		}
	}
	return err
}

// refresher returns a function that updates an index. The function calls refreshNow if s has
// detected a change, and otherwise refreshIfDue, which updates the index only at intervals.
func refresher(s store.Store, refreshNow, refreshIfDue func(context.Context) error) func(context.Context) error {
	n, ok := s.(*ChangeNotifier)
	if !ok {
		return refreshIfDue
	}
	return func(ctx context.Context) error {
		if !n.changed.Swap(false) {
			return refreshIfDue(ctx)
		}
		err := refreshNow(ctx)
		if err != nil {
			n.changed.Store(true)
		}
		return err
	}
}
