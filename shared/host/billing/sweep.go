package billing

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/due"
	"github.com/vacancy-host/vacancy/shared/store"
)

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

func (b *Billing) reminders() due.Reminders {
	return due.Reminders{Kind: DueDocs.Shape, Updater: b.updater(), Now: b.Now, Delay: time.Minute}
}

// Resolver decides overdue calls. *call.Host implements it.
type Resolver interface {
	ResolveOverdue(ctx context.Context, pair call.Pair, position uint64) (bool, error)
}

// Sweep decides the calls that are overdue by at least a minute.
func (b *Billing) Sweep(ctx context.Context, calls Resolver) (due.SweepResult, error) {
	return b.reminders().Sweep(ctx, func(ctx context.Context, d store.Doc) (bool, error) {
		pair, err := DueDocs.Parse(d)
		if err != nil {
			return false, err
		}
		return calls.ResolveOverdue(ctx, pair, uint64(d.Number))
	})
}
