package admin

import (
	"context"
	"log/slog"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Restored reports how the floors of vacants were raised after a restore. A vacant accepts only
// messages that were signed after its floor.
type Restored struct {
	VacantCount int               `json:"vacants"`
	LatestFloor time.Time         `json:"refused_until,omitzero"`
	Next        string            `json:"next"`
	Failed      []httpapi.Refusal `json:"failed,omitempty"`
}

// restoredPageSize limits the duration of a request. The function that serves the API has half a
// minute, and each vacant takes some tens of milliseconds.
const restoredPageSize = 50

func (d *api) raiseFloors(ctx context.Context, in RestoreRequest) (Restored, error) {
	raised, next, errs, err := d.Vacants.RaiseFloorsPage(ctx, in.Cursor, restoredPageSize)
	if err != nil {
		return Restored{}, err
	}
	page := Restored{VacantCount: raised.Vacants, LatestFloor: raised.LatestFloor, Next: next}
	for _, err := range errs {
		p := problem.AsError(err)
		d.Log.LogAttrs(ctx, slog.LevelError, "floor not raised after a restore", slog.String("cause", p.Error()))
		page.Failed = append(page.Failed, httpapi.Refusal{Detail: p.Text(), Code: p.Kind.String(), Field: p.Field})
	}
	return page, nil
}

// ReportRestore reports to the host that its data were restored from a backup. It continues after
// an error of a single vacant and returns the first such error at the end.
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
		total.VacantCount, cursor = total.VacantCount+page.VacantCount, page.Next
		if page.LatestFloor.After(total.LatestFloor) {
			total.LatestFloor = page.LatestFloor
		}
		if n := len(page.Failed); n > 0 && failedCount == 0 {
			firstErr = page.Failed[0].Problem()
		}
		failedCount += len(page.Failed)
	}
	if failedCount > 0 {
		return total, problem.Wrap(problem.AsError(firstErr).Kind, firstErr, "%d vacants accept only messages signed later than five minutes from now, %d could not be changed: run the same command again; the first failure: %s",
			total.VacantCount, failedCount, problem.AsError(firstErr).Text())
	}
	return total, nil
}
