package admin

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Update is the body of an update. Nil members are unchanged.
type Update struct {
	Name       *string `json:"name,omitempty"`
	Capability *string `json:"capability,omitempty"`
	Substrate  *string `json:"substrate,omitempty"`
	Plain      *string `json:"plain,omitempty"` // open, off or shared
	// Work limits the duration of a call, for example "5m". "" means the host's limit.
	Work *string `json:"work,omitempty"`
	// BasedOn is the Changed time of the Vacant on which the update is based. If BasedOn is nil, the
	// update overwrites concurrent changes.
	Seen *string `json:"seen,omitempty"`
}

func (d *api) update(ctx context.Context, in With[Update]) (v Vacant, err error) {
	u := &in.Body
	c := vacants.Changes{By: askerOf(ctx), Name: u.Name, Capability: u.Capability, Substrate: u.Substrate}
	if u.Plain != nil {
		p, err := vacants.ParsePlain(*u.Plain)
		if err != nil {
			return v, err
		}
		c.Plain = &p
	}
	if u.Work != nil {
		work, err := vacants.ParseWork(*u.Work)
		if err != nil {
			return v, err
		}
		c.Work = &work
	}
	if u.Seen != nil {
		if c.IfChanged, err = canon.ParseTime(*u.Seen); err != nil {
			return v, problem.Invalid("seen", "the member changed of the vacant", clip(*u.Seen))
		}
	}
	rec, err := d.find(ctx, in.Vacant)
	if err == nil {
		rec, err = d.Vacants.Update(ctx, rec.ID, c)
	}
	return vacantOf(&rec), err
}

// Check is the result of a test question to a vacant's agent. Failure is the reason why a call
// would currently fail, or nil.
type Check struct {
	OK      bool        `json:"ok"`
	Failure *call.Cause `json:"failure,omitempty"`
}

func (d *api) check(ctx context.Context, rec *vacants.Record, _ VacantRequest) (Check, error) {
	began := time.Now()
	err := d.Answers.CheckAgent(ctx, rec.ID)
	if err == nil {
		return Check{OK: true}, nil
	}
	failure, err := d.failure(ctx, rec, err, began)
	return Check{Failure: failure}, err
}

// failure returns the reason why an agent failed a check that began at the time start. If the agent
// did not cause err, failureCause returns err.
func (d *api) failure(ctx context.Context, rec *vacants.Record, err error, began time.Time) (*call.Cause, error) {
	if kind := problem.AsError(err).Kind; !kind.IsFailure() && kind != problem.Deadline {
		return nil, err
	}
	failure := call.CauseOf(err, time.Since(began))
	if askerOf(ctx) != vacants.Operator() { // the cause may contain internal addresses
		d.Log.LogAttrs(ctx, slog.LevelInfo, "a tenant's agent failed its check", slog.String("vacant", rec.Name), slog.String("cause", failure.String()))
		failure.Text = problem.AsError(err).Text()
	}
	return failure, nil
}

// Tools lists the tools that a vacant's agent would be offered in a call now, and the tools that
// are left out. If the tools are unknown, Failure is the reason.
type Tools struct {
	Offered []string          `json:"offered"`
	LeftOut call.OmittedTools `json:"left_out"`
	Failure *call.Cause       `json:"failure,omitempty"`
}

// ToolTexts contains the stored texts of tool calls, starting with the newest call. Destroyed is
// the number of calls whose texts are unreadable, because the key that encrypted the texts of their
// day was destroyed.
type ToolTexts struct {
	Calls     []call.CallTools `json:"calls"`
	Destroyed int              `json:"destroyed"`
}

// maxToolTexts limits the ended calls whose texts a request reads.
const maxToolTexts = 20

func (d *api) toolTexts(ctx context.Context, rec *vacants.Record, in ToolTextsOf) (ToolTexts, error) {
	t := ToolTexts{Calls: []call.CallTools{}}
	switch {
	case in.Caller.IsZero():
		return t, problem.Invalid("caller", "the id of a caller", "none")
	case in.Last > maxToolTexts:
		return t, problem.Invalid("last", fmt.Sprintf("1 to %d", maxToolTexts), fmt.Sprint(in.Last))
	}
	calls, destroyed, err := d.Calls.ReadToolCalls(ctx, call.Pair{Caller: in.Caller, Vacant: rec.ID}, int(cmp.Or(in.Last, maxToolTexts)))
	t.Calls, t.Destroyed = append(t.Calls, calls...), destroyed
	return t, err
}

func (d *api) tools(ctx context.Context, rec *vacants.Record, _ VacantRequest) (Tools, error) {
	t := Tools{Offered: []string{}}
	began := time.Now()
	offer, err := d.Answers.Offer(ctx, rec.ID)
	if err != nil {
		// CauseOf uses only the text of the wrapped error. err is therefore wrapped in an error
		// with the same text, so that the failure contains it.
		p := problem.AsError(err)
		t.Failure, err = d.failure(ctx, rec, problem.Wrap(p.Kind, err, "%s", p.Text()), began)
		return t, err
	}
	for _, tool := range offer.Tools {
		t.Offered = append(t.Offered, tool.Name)
	}
	t.LeftOut = offer.LeftOut
	return t, nil
}
