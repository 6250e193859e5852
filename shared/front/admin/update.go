package admin

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
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

func (d *api) update(w http.ResponseWriter, r *http.Request) error {
	u, err := read[Update](w, r)
	if err != nil {
		return err
	}
	changes, err := u.changes()
	if err != nil {
		return err
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	changes.By = askerOf(r.Context())
	if rec, err = d.Vacants.Update(r.Context(), rec.ID, changes); err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, vacantOf(&rec))
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

func (d *api) check(w http.ResponseWriter, r *http.Request) error {
	if err := noBody(r); err != nil {
		return err
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	began := time.Now()
	err = d.Answers.CheckAgent(r.Context(), rec.ID)
	if err == nil {
		return httpapi.Answer(w, http.StatusOK, Check{OK: true})
	}
	if kind := problem.Of(err).Kind; kind.IsFailure() || kind == problem.Deadline {
		failure := call.CauseOf(err, time.Since(began))
		if askerOf(r.Context()) != vacants.Operator() { // the cause may contain addresses inside
			d.Log.LogAttrs(r.Context(), slog.LevelInfo, "a tenant's agent fails its check", slog.String("vacant", rec.Name), slog.String("cause", failure.String()))
			failure.Text = problem.Of(err).Text()
		}
		return httpapi.Answer(w, http.StatusOK, Check{Failure: failure})
	}
	return err
}
