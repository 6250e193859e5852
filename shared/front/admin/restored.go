package admin

import (
	"context"
	"log/slog"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Restored is the result for a page of vacants. Vacants is the number of vacants whose floor was
// raised: they refuse messages that were signed before the floor. Until is the latest floor, and
// Failed contains the errors of the other vacants. Next is the cursor of the next page, or "" on
// the last page.
type Restored struct {
	Vacants int               `json:"vacants"`
	Until   time.Time         `json:"refused_until,omitzero"`
	Next    string            `json:"next"`
	Failed  []httpapi.Refusal `json:"failed,omitempty"`
}

// restoredPageSize is the number of vacants per request. The function that serves the admin API has
// half a minute, and each vacant takes some tens of milliseconds.
const restoredPageSize = 50

func (d *api) raiseFloors(ctx context.Context, in RestoreRequest) (Restored, error) {
	raised, next, errs, err := d.Vacants.RaiseFloorsPage(ctx, in.Cursor, restoredPageSize)
	if err != nil {
		return Restored{}, err
	}
	page := Restored{Vacants: raised.Vacants, Until: raised.LatestFloor, Next: next}
	for _, err := range errs {
		p := problem.AsError(err)
		d.Log.LogAttrs(ctx, slog.LevelError, "floor not raised after a restore", slog.String("cause", p.Error()))
		page.Failed = append(page.Failed, httpapi.Refusal{Detail: p.Text(), Code: p.Kind.String(), Field: p.Field})
	}
	return page, nil
}

// ReportRestore reports to the host, page by page, that its data were restored from a backup. It
// returns the combined result of all pages. An error of a single vacant does not stop the others;
// at the end, ReportRestore returns the first such error.
func (c Client) ReportRestore(ctx context.Context) (total Restored, err error) {
	failedCount, firstErr := 0, error(nil)
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := RecordRestore.Call(ctx, c, RestoreRequest{cursor})
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
		if n := len(page.Failed); n > 0 && failedCount == 0 {
			firstErr = page.Failed[0].Problem()
		}
		failedCount += len(page.Failed)
	}
	if failedCount > 0 {
		return total, problem.Wrap(problem.AsError(firstErr).Kind, firstErr, "%d vacants accept only messages signed later than five minutes from now, %d could not be changed: run the same command again; the first failure: %s",
			total.Vacants, failedCount, problem.AsError(firstErr).Text())
	}
	return total, nil
}
