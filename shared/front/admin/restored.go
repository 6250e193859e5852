package admin

import (
	"context"
	"log/slog"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Restored describes a page of vacants: the number whose floor was raised, the latest of these
// floors, and the errors of the others. Next is the cursor of the next page, or "" on the last
// page.
type Restored struct {
	Vacants int               `json:"vacants"`
	Until   time.Time         `json:"refused_until,omitzero"`
	Next    string            `json:"next"`
	Failed  []httpapi.Refusal `json:"failed,omitempty"`
}

// restoredPage is the number of vacants per request. A function has half a minute, and each vacant
// takes some tens of milliseconds.
const restoredPage = 50

func (d *api) raiseFloors(ctx context.Context, in RestoredFrom) (Restored, error) {
	raised, next, failed, err := d.Vacants.RaiseFloorsPage(ctx, in.Cursor, restoredPage)
	if err != nil {
		return Restored{}, err
	}
	page := Restored{Vacants: raised.Vacants, Until: raised.Until, Next: next}
	for _, err := range failed {
		p := problem.AsError(err)
		d.Log.LogAttrs(ctx, slog.LevelError, "not restored", slog.String("cause", p.Error()))
		page.Failed = append(page.Failed, httpapi.Refusal{Detail: p.Text(), Code: p.Kind.String(), Field: p.Field})
	}
	return page, nil
}

// ReportRestore tells the host, page by page, that its data were restored from a backup. It returns the
// sums over all pages. Errors of single vacants do not stop the others; ReportRestore returns the first
// one.
func (c Client) ReportRestore(ctx context.Context) (total Restored, err error) {
	failed, first := 0, error(nil)
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := RestoredFromBackup.Call(ctx, c, RestoredFrom{cursor})
		if err != nil {
			return total, err
		}
		if page.Next != "" && page.Next == cursor {
			return total, problem.New(problem.Untrusted, "the host returned the same page twice")
		}
		total.Vacants, cursor = total.Vacants+page.Vacants, page.Next
		if page.Until.After(total.Until) {
			total.Until = page.Until
		}
		if n := len(page.Failed); n > 0 && failed == 0 {
			first = page.Failed[0].Problem()
		}
		failed += len(page.Failed)
	}
	if failed > 0 {
		return total, problem.Wrap(problem.AsError(first).Kind, first, "%d vacants accept only messages signed later than five minutes from now, %d could not be changed: run the same command again; the first failure: %s",
			total.Vacants, failed, problem.AsError(first).Text())
	}
	return total, nil
}
