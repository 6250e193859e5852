package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/answer/delegation"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// spawn makes a child at the operator's request.
func (d *api) spawn(w http.ResponseWriter, r *http.Request) error {
	spawnRequest, err := read[Spawning](w, r)
	if err != nil {
		return err
	}
	agent, err := readAgent(spawnRequest.Agent)
	if err != nil {
		return problem.Below("agent", err)
	}
	if err := d.choose(r.Context(), agent); err != nil {
		return err
	}
	parent, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	spec := vacants.SpawnSpec{
		By: askerOf(r.Context()), Parent: parent.ID, Path: spawnRequest.Path, Name: spawnRequest.Name, Capability: spawnRequest.Capability, Substrate: spawnRequest.Substrate, Agent: agent,
		Tools: spawnRequest.Tools, Rule: spawnRequest.Rule, Reach: spawnRequest.Reach, Outbound: spawnRequest.Outbound,
	}
	if spawnRequest.With != "" {
		with, err := d.find(r.Context(), spawnRequest.With)
		if err != nil {
			e := problem.Within(problem.Of(err).Kind, "with", err)
			e.Field = "with"
			return e
		}
		spec.With = &with.ID
	}
	had, err := d.Vacants.ByName(r.Context(), askerOf(r.Context()), spec.Name)
	if err != nil && !problem.Is(err, problem.NotFound) {
		return err
	}
	made, err := d.makeChild(r.Context(), spec)
	if err != nil {
		return err
	}
	if made.Unchanged = made.Vacant.ID == had.ID; made.Unchanged {
		return httpapi.Answer(w, http.StatusOK, made)
	}
	return httpapi.Answer(w, http.StatusCreated, made)
}

// result makes the child and answers with it.
func (d *api) result(w http.ResponseWriter, r *http.Request, spec vacants.SpawnSpec) error {
	made, err := d.makeChild(r.Context(), spec)
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusCreated, made)
}

// makeChild makes the child. A child that inherits the substrate of a parent
// with a plan gets echo.
func (d *api) makeChild(ctx context.Context, spec vacants.SpawnSpec) (Spawned, error) {
	reached, err := d.endpoints(ctx, &spec)
	if err != nil {
		return Spawned{}, err
	}
	if err := reaches(&spec, reached); err != nil {
		return Spawned{}, err
	}
	rec, m, err := d.Vacants.Spawn(ctx, spec)
	if err != nil {
		return Spawned{}, asSent(err)
	}
	return Spawned{Vacant: vacantOf(&rec), Manifest: Manifest{Manifest: m.Blob()}}, nil
}

// endpoints are the URLs that the child's agent sends requests to. A child that would
// have its parent's plan gets the default substrate.
func (d *api) endpoints(ctx context.Context, spec *vacants.SpawnSpec) ([]string, error) {
	agent := spec.Agent
	switch {
	case agent != nil:
	case spec.Substrate != "":
		s, err := substrate.Parse(spec.Substrate)
		if at := s.Endpoint(); err == nil && at != "" {
			return []string{at}, nil
		}
		return nil, nil // opening it reports what is wrong
	default:
		parent, err := d.Vacants.Get(ctx, vacants.Operator(), spec.Parent) // it was found
		if err != nil {
			return nil, err
		}
		if parent.Substrate == plan.Kind { // the plan belongs to the parent
			spec.Substrate = defaultSubstrate
			return nil, nil
		}
		a, err := d.Vacants.Agent(ctx, &parent, 0)
		if err != nil {
			return nil, err
		}
		agent = &a
	}
	return agent.Endpoints(), nil
}

// reaches allows a child to reach its own endpoints: it adds them to the tools of a
// child that reaches only its tools, and of one without a policy. A child that may
// reach nothing could never answer.
func reaches(spec *vacants.SpawnSpec, endpoints []string) error {
	switch {
	case len(endpoints) == 0:
	case spec.Outbound == composite.NoExternal:
		return problem.Invalid("outbound", "parent-permitted or unrestricted for a child whose substrate is at a URL, which could not answer else", string(spec.Outbound))
	case spec.Outbound == composite.ParentPermitted:
		spec.Tools = slices.Clone(spec.Tools)
		for _, at := range endpoints {
			if !slices.Contains(spec.Tools, at) {
				spec.Tools = append(spec.Tools, at)
			}
		}
	}
	return nil
}

// asSent renames a field to the name that was sent, if the manifest has another
// name for it.
func asSent(err error) error {
	for member, sent := range map[string]string{"endpoint_reachability": "reach", "outbound_policy": "outbound"} {
		p := problem.Of(err)
		if rest, ok := strings.CutPrefix(p.Text(), member+":"); ok {
			return &problem.Error{Kind: p.Kind, Field: sent, Detail: sent + ":" + rest, Err: p.Err}
		}
	}
	return err
}

// children answers with a page of a vacant's children and figures of its calls
// to them.
func (d *api) children(w http.ResponseWriter, r *http.Request) error {
	limit, err := number(r.URL.Query(), "limit", vacants.MaxPage)
	if err != nil {
		return err
	}
	parent, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	if d.ChildReport == nil {
		return problem.New(problem.NotFound, "this host does not serve %s", r.URL.Path)
	}
	all, next, err := d.ChildReport(r.Context(), askerOf(r.Context()), parent.ID, r.URL.Query().Get("cursor"), int(limit))
	if err != nil {
		return err
	}
	page := Children{Children: make([]Child, len(all)), Next: next}
	for i := range all {
		if page.Children[i], err = d.child(r, &all[i]); err != nil {
			return err
		}
	}
	return httpapi.Answer(w, http.StatusOK, page)
}

func (d *api) child(r *http.Request, one *delegation.Child) (Child, error) {
	c := Child{Vacant: vacantOf(&one.Record), Calls: one.Calls, Decided: one.Decided, Failures: one.Failures}
	if one.Decided > one.Failures {
		took := one.Median.Milliseconds()
		c.MedianMS = &took
	}
	switch {
	case one.Record.IsDeleted():
		c.UnavailableReason = "deleted"
	case !one.Record.State.CanBeCalled():
		c.UnavailableReason = string(one.Record.State)
	}
	m, ok, err := d.Vacants.Manifest(r.Context(), one.Record.ID)
	if ok {
		c.Path, c.Closed, c.Graduated = m.Manifest.BirthPath, m.Manifest.ClosedByDefault, m.Graduated
	}
	return c, err
}

// manifest answers with a child's manifest.
func (d *api) manifest(w http.ResponseWriter, r *http.Request) error {
	child, err := d.childOf(r)
	if err != nil {
		return err
	}
	return d.showManifest(w, r, child)
}

func (d *api) showManifest(w http.ResponseWriter, r *http.Request, child identity.ID) error {
	m, ok, err := d.Vacants.Manifest(r.Context(), child)
	switch {
	case err != nil:
		return err
	case !ok:
		return problem.New(problem.NotFound, "vacant %s is not a known child on this host", child.Short())
	}
	return httpapi.Answer(w, http.StatusOK, manifestPage(&m))
}

func manifestPage(m *registry.ManifestDocument) Manifest {
	page := Manifest{Manifest: m.Manifest.Blob(), Graduated: m.Graduated}
	if m.Replaced != nil {
		page.Replaced = m.Replaced.Blob()
	}
	return page
}

// storeManifest stores a manifest that both parties signed.
func (d *api) storeManifest(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	m, err := composite.Parse(body)
	if err != nil {
		return err
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	if m.ChildID != rec.ID {
		return problem.Invalid("child_id", rec.ID.String(), m.ChildID.String())
	}
	if err := d.Vacants.StoreManifest(r.Context(), m); err != nil {
		return err
	}
	return d.showManifest(w, r, rec.ID)
}

// plan answers with a composite's plan.
func (d *api) plan(w http.ResponseWriter, r *http.Request) error {
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	p, ok, err := d.Vacants.Plan(r.Context(), rec.ID)
	switch {
	case err != nil:
		return err
	case !ok:
		return problem.New(problem.NotFound, "vacant %s has no plan", rec.Name)
	}
	return httpapi.Answer(w, http.StatusOK, planPage(&rec, &p))
}

func planPage(rec *vacants.Record, p *plan.Plan) Plan {
	return Plan{vacantOf(rec), json.RawMessage(p.Blob()), p.Hash()}
}

func (d *api) setPlan(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	p, err := plan.Parse(body)
	if err != nil {
		return err
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	rec, p, err = d.Vacants.SetPlan(r.Context(), askerOf(r.Context()), rec.ID, p)
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, planPage(&rec, &p))
}
