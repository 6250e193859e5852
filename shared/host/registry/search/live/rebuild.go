package live

import (
	"context"
	"iter"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/store"
)

type Progress struct {
	Registrations int
	Listed        int
}

// Rebuild fills an empty index with all listed vacants and sets its mark.
func Rebuild(ctx context.Context, index search.Index, feed ChangeFeed, now func() time.Time, report func(Progress)) error {
	var p Progress
	mark := ""
	for changes, err := range changesSince(ctx, feed, "") {
		if err != nil {
			return err
		}
		b := search.Batch{Mark: mark}
		for i := range changes {
			addToBatch(&b, &changes[i])
			b.Mark = max(b.Mark, min(changes[i].ChangeKey, registry.FormatChangeKey(now())))
		}
		if err := index.Apply(ctx, b); err != nil {
			return err
		}
		mark = b.Mark
		p.Registrations += len(changes)
		p.Listed += len(b.Put)
		if report != nil && len(changes) > 0 {
			report(p)
		}
	}
	return nil
}

func changesSince(ctx context.Context, feed ChangeFeed, since string) iter.Seq2[[]registry.Registration, error] {
	return store.AllPages(func(cursor string) ([]registry.Registration, string, error) {
		return feed.Changes(ctx, since, pageSize, cursor)
	})
}
