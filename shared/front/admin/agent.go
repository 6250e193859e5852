package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Agent is a version of a vacant's agent. Version is 0 for one of defaults that was
// never set. Settings are what is in force, but for the texts.
type Agent struct {
	Vacant   Vacant               `json:"vacant"`
	Version  int                  `json:"version"`
	Agent    json.RawMessage      `json:"agent"`
	Settings []definition.Setting `json:"settings"`
}

// agent answers with a version of a vacant's agent, the current one if the query
// names none.
func (d *api) agent(w http.ResponseWriter, r *http.Request) error {
	version, err := version(r.URL.Query(), "version", 0)
	if err != nil {
		return err
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	return d.showAgent(w, r, &rec, version)
}

func (d *api) showAgent(w http.ResponseWriter, r *http.Request, rec *vacants.Record, version int) error {
	a, err := d.Vacants.Agent(r.Context(), rec, version)
	if err != nil {
		return err
	}
	if version == 0 {
		version = rec.Agent
	}
	return httpapi.Answer(w, http.StatusOK, Agent{vacantOf(rec), version, a.Blob(), a.Settings(rec.Tenant)})
}

// setAgent makes the next version of a vacant's agent, unless there is another than
// the one that the query's after names.
func (d *api) setAgent(w http.ResponseWriter, r *http.Request) error {
	after, err := version(r.URL.Query(), "after", -1)
	if err != nil {
		return err
	}
	body, err := httpapi.Body(w, r, definition.MaxBlob)
	if err != nil {
		return err
	}
	a, err := definition.Parse(body)
	if err == nil {
		err = d.choose(r.Context(), &a)
	}
	if err != nil {
		return err
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	c := vacants.Changes{By: askerOf(r.Context()), Agent: &a}
	if after >= 0 {
		c.After = &after
	}
	if rec, err = d.Vacants.Update(r.Context(), rec.ID, c); err != nil {
		return err
	}
	return d.showAgent(w, r, &rec, 0)
}

// choose sets the model of an agent with a tier. a may be nil.
func (d *api) choose(ctx context.Context, a *definition.Agent) error {
	if a == nil || a.Tier == "" {
		return nil
	}
	if d.Vacants.Resources.Models == nil {
		return problem.Invalid("tier", "a model, because this host has no table of models", string(a.Tier))
	}
	t, err := d.Vacants.Resources.Models.Current(ctx)
	if err != nil {
		return err
	}
	return a.Choose(&t)
}

// version reads the number of a version, from 0, in the query.
func version(q url.Values, name string, missing int) (int, error) {
	s := q.Get(name)
	if s == "" {
		return missing, nil
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, problem.Invalid(name, "the number of a version", clip(s))
	}
	return int(n), nil
}

// Agent returns a version of a vacant's agent; 0 is the current one.
func (c *Client) Agent(ctx context.Context, vacant string, version int) (out Agent, err error) {
	path := pathOf(vacant) + "/agent"
	if version > 0 {
		path += "?version=" + strconv.Itoa(version)
	}
	return c.agent(ctx, http.MethodGet, path, nil)
}

// SetAgent makes the next version of a vacant's agent, in JSON. It fails with
// Conflict if the current version is another than after.
func (c *Client) SetAgent(ctx context.Context, vacant string, agent []byte, after int) (Agent, error) {
	return c.agent(ctx, http.MethodPut, pathOf(vacant)+"/agent?after="+strconv.Itoa(after), agent)
}

func (c *Client) agent(ctx context.Context, method, path string, body []byte) (out Agent, err error) {
	if err := c.do(ctx, method, path, body, &out); err != nil {
		return Agent{}, err
	}
	return out, out.Vacant.sound()
}

// Forgetting is what an agent is to forget: of a caller, in a thread; of everybody, or
// in every thread, if they are nil.
type Forgetting struct {
	Caller    *identity.ID `json:"caller,omitempty"`
	ContextID *string      `json:"context_id,omitempty"`
}

func (d *api) forget(w http.ResponseWriter, r *http.Request) error {
	f, err := read[Forgetting](w, r)
	if err != nil {
		return err
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	if rec, err = d.Vacants.ForgetThread(r.Context(), rec.ID, f.Caller, f.ContextID); err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, vacantOf(&rec))
}

// ForgetThread lets a vacant's agent forget.
func (c *Client) ForgetThread(ctx context.Context, vacant string, f Forgetting) (Vacant, error) {
	body, err := json.Marshal(f)
	if err != nil {
		return Vacant{}, problem.Wrap(problem.Usage, err, "the body is not JSON")
	}
	return c.vacant(ctx, http.MethodPost, pathOf(vacant)+"/forget", body)
}
