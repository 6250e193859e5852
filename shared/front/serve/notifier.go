package serve

import (
	"context"
	"sync/atomic"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/store"
)

// ChangeNotifier records whether the store has committed a registration, so that a search finds new
// publications of its own process immediately.
type ChangeNotifier struct {
	store.Store
	changed atomic.Bool
}

func NewChangeNotifier(s store.Store) *ChangeNotifier { return &ChangeNotifier{Store: s} }

// Commit implements store.Store. It records a change even if the commit failed, because the writes
// may have been applied nevertheless.
func (n *ChangeNotifier) Commit(ctx context.Context, writes ...store.Write) error {
	err := n.Store.Commit(ctx, writes...)
	for _, w := range writes {
		if put, ok := w.(store.Put); ok && put.Index.Partition == registry.RegistrationDocs.Index {
			n.changed.Store(true)
		}
	}
	return err
}

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
