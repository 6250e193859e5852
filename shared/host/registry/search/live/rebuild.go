package live

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
)

// Progress is the progress of Rebuild.
type Progress struct {
	Read   int // registrations
	Listed int // of them in the index
}

// Rebuild fills an empty index with all listed vacants and sets its mark. tell
// is called after each page; it may be nil. Concurrent changes come later in
// the feed.
func Rebuild(ctx context.Context, index search.Index, feed Feed, now func() time.Time, tell func(Progress)) error {
	var p Progress
	for cursor, mark := "", ""; ; {
		changes, next, err := feed.Changes(ctx, "", page, cursor)
		if err != nil {
			return err
		}
		b := search.Batch{Mark: mark}
		for i := range changes {
			add(&b, &changes[i])
			b.Mark = max(b.Mark, min(changes[i].ChangeKey, registry.ChangeKeyAt(now())))
		}
		if err := index.Apply(ctx, b); err != nil {
			return err
		}
		mark = b.Mark
		p.Read += len(changes)
		p.Listed += len(b.Put)
		if tell != nil && len(changes) > 0 {
			tell(p)
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}
