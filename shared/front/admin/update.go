package admin

import (
	"context"
	"log/slog"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Update is the body of an update. Nil members are left unchanged.
type Update struct {
	Name       *string `json:"name,omitempty"`
	Capability *string `json:"capability,omitempty"`
	Substrate  *string `json:"substrate,omitempty"`
	Plain      *string `json:"plain,omitempty"` // open, off or shared
	// Seen is the member changed of the Vacant that the update was decided on. If Seen is nil,
	// the update is made whatever was changed since.
	Seen *string `json:"seen,omitempty"`
}

func (d *api) update(ctx context.Context, in With[Update]) (Vacant, error) {
	changes, err := in.Body.changes()
	if err != nil {
		return Vacant{}, err
	}
	rec, err := d.find(ctx, in.Vacant)
	if err == nil {
		changes.By = askerOf(ctx)
		rec, err = d.Vacants.Update(ctx, rec.ID, changes)
	}
	return vacantOf(&rec), err
}

func (u *Update) changes() (c vacants.Changes, err error) {
	c = vacants.Changes{Name: u.Name, Capability: u.Capability, Substrate: u.Substrate}
	if u.Plain != nil {
		p, err := vacants.ParsePlain(*u.Plain)
		if err != nil {
			return c, err
		}
		c.Plain = &p
	}
	if u.Seen == nil {
		return c, nil
	}
	if c.Seen, err = canon.ParseTime(*u.Seen); err != nil {
		err = problem.Invalid("seen", "the member changed of the vacant", clip(*u.Seen))
	}
	return c, err
}

// Check is the outcome of asking a vacant's agent. Failure says why a call would
// fail now; nil if it would not.
type Check struct {
	OK      bool        `json:"ok"`
	Failure *call.Cause `json:"failure,omitempty"`
}

func (d *api) check(ctx context.Context, in One) (Check, error) {
	rec, err := d.find(ctx, in.Vacant)
	if err != nil {
		return Check{}, err
	}
	began := time.Now()
	if err = d.Answers.CheckAgent(ctx, rec.ID); err == nil {
		return Check{OK: true}, nil
	}
	if kind := problem.Of(err).Kind; !kind.IsFailure() && kind != problem.Deadline {
		return Check{}, err
	}
	failure := call.CauseOf(err, time.Since(began))
	if askerOf(ctx) != vacants.Operator() { // the cause may contain addresses inside
		d.Log.LogAttrs(ctx, slog.LevelInfo, "a tenant's agent fails its check", slog.String("vacant", rec.Name), slog.String("cause", failure.String()))
		failure.Text = problem.Of(err).Text()
	}
	return Check{Failure: failure}, nil
}
