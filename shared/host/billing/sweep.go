package billing

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/due"
	"github.com/vacancy-host/vacancy/shared/store"
)

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// due are the reminders of calls. A call is voided a minute after it is due.
func (b *Billing) due() due.Reminders {
	return due.Reminders{Of: DueDocs.Shape, With: b.updater(), Now: b.Now, After: time.Minute}
}

// Resolver decides overdue calls (call.Host).
type Resolver interface {
	ResolveOverdue(ctx context.Context, pair call.Pair, position uint64) (bool, error)
}

// Sweep follows the reminders of calls that are due, and voids the calls that are
// undecided a minute later. A call that waits for its settlement is followed again.
func (b *Billing) Sweep(ctx context.Context, calls Resolver) (due.Swept, error) {
	return b.due().Sweep(ctx, func(ctx context.Context, d store.Doc) (bool, error) {
		pair, err := DueDocs.Parse(d)
		if err != nil {
			return false, err
		}
		return calls.ResolveOverdue(ctx, pair, uint64(d.Number))
	})
}
