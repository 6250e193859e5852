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
	Name          *string `json:"name,omitempty"`
	Capability    *string `json:"capability,omitempty"`
	Substrate     *string `json:"substrate,omitempty"`
	KeylessAccess *string `json:"plain,omitempty"` // open, off or shared
	CallTimeout   *string `json:"work,omitempty"`
	// BasedOn is the ChangedAt time of the Vacant on which the update is based. If BasedOn is nil, the
	// update overwrites concurrent changes.
	BasedOn *string `json:"seen,omitempty"`
}

func (d *api) updateVacant(ctx context.Context, in VacantRequest[Update]) (v Vacant, err error) {
	u := &in.Body
	c := vacants.Changes{Asker: askerOf(ctx), Name: u.Name, Capability: u.Capability, Substrate: u.Substrate}
	if u.KeylessAccess != nil {
		access, err := vacants.ParseKeylessAccess(*u.KeylessAccess)
		if err != nil {
			return v, err
		}
		c.KeylessAccess = &access
	}
	if u.CallTimeout != nil {
		callTimeout, err := vacants.ParseCallTimeout(*u.CallTimeout)
		if err != nil {
			return v, err
		}
		c.CallTimeout = &callTimeout
	}
	if u.BasedOn != nil {
		if c.IfChanged, err = canon.ParseTime(*u.BasedOn); err != nil {
			return v, problem.Invalid("seen", "the vacant's member \"changed\"", quoteTruncated(*u.BasedOn))
		}
	}
	rec, err := d.findVacant(ctx, in.Vacant)
	if err == nil {
		rec, err = d.Vacants.Update(ctx, rec.ID, c)
	}
	return vacantOf(&rec), err
}

type Check struct {
	OK      bool        `json:"ok"`
	Failure *call.Cause `json:"failure,omitempty"`
}

func (d *api) checkAgent(ctx context.Context, rec *vacants.Record, _ VacantRef) (Check, error) {
	start := time.Now()
	err := d.Answers.CheckAgent(ctx, rec.ID)
	if err == nil {
		return Check{OK: true}, nil
	}
	failure, err := d.failureCause(ctx, rec, err, start)
	return Check{Failure: failure}, err
}

func (d *api) failureCause(ctx context.Context, rec *vacants.Record, err error, start time.Time) (*call.Cause, error) {
	if kind := problem.AsError(err).Kind; !kind.IsFailure() && kind != problem.DeadlineExceeded {
		return nil, err
	}
	failure := call.NewCause(err, time.Since(start))
	if askerOf(ctx) != vacants.OperatorAsker() { // the cause may contain internal addresses
		d.Log.LogAttrs(ctx, slog.LevelInfo, "a tenant's agent failed its check", slog.String("vacant", rec.Name), slog.String("cause", failure.String()))
		failure.Text = problem.AsError(err).Text()
	}
	return failure, nil
}

// Tools lists the tools that a vacant's agent would be offered in a call now, and the omitted
// tools.
type Tools struct {
	Offered      []string          `json:"offered"`
	OmittedTools call.OmittedTools `json:"left_out"`
	Failure      *call.Cause       `json:"failure,omitempty"`
}

// ToolTexts contains the stored texts of tool calls, newest first. Destroyed is the number of calls
// whose text key was destroyed.
type ToolTexts struct {
	Calls     []call.ToolCallRecord `json:"calls"`
	Destroyed int                   `json:"destroyed"`
}

const maxToolTextCalls = 20

func (d *api) toolTexts(ctx context.Context, rec *vacants.Record, in ToolTextsRequest) (ToolTexts, error) {
	t := ToolTexts{Calls: []call.ToolCallRecord{}}
	switch {
	case in.Caller.IsZero():
		return t, problem.Invalid("caller", "the id of a caller", "none")
	case in.Last > maxToolTextCalls:
		return t, problem.Invalid("last", fmt.Sprintf("1 to %d", maxToolTextCalls), fmt.Sprint(in.Last))
	}
	calls, destroyed, err := d.Calls.ReadToolCalls(ctx, call.Pair{Caller: in.Caller, Vacant: rec.ID}, int(cmp.Or(in.Last, maxToolTextCalls)))
	t.Calls, t.Destroyed = append(t.Calls, calls...), destroyed
	return t, err
}

func (d *api) tools(ctx context.Context, rec *vacants.Record, _ VacantRef) (Tools, error) {
	t := Tools{Offered: []string{}}
	start := time.Now()
	offer, err := d.Answers.Offer(ctx, rec.ID)
	if err != nil {
		// NewCause reports only the text of the wrapped error. Therefore err is wrapped again.
		p := problem.AsError(err)
		t.Failure, err = d.failureCause(ctx, rec, problem.Wrap(p.Kind, err, "%s", p.Text()), start)
		return t, err
	}
	for _, tool := range offer.Tools {
		t.Offered = append(t.Offered, tool.Name)
	}
	t.OmittedTools = offer.OmittedTools
	return t, nil
}
