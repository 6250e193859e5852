package admin

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (d *api) spawnChild(ctx context.Context, in VacantRequest[Spawning]) (spawned Spawned, err error) {
	b := &in.Body
	agent, err := parseAgent(b.Agent)
	if err != nil {
		return spawned, problem.AtPath("agent", err)
	}
	if err := d.chooseModel(ctx, agent); err != nil {
		return spawned, err
	}
	parent, err := d.findVacant(ctx, in.Vacant)
	if err != nil {
		return spawned, err
	}
	spec := vacants.SpawnSpec{
		Asker: askerOf(ctx), Parent: parent.ID, Path: b.Path, Name: b.Name, Capability: b.Capability, Substrate: b.Substrate, Agent: agent,
		Tools: b.Tools, Rule: b.Rule, Reachability: b.Reachability, OutboundPolicy: b.OutboundPolicy,
	}
	if b.SecondParent != "" {
		secondParent, err := d.findVacant(ctx, b.SecondParent)
		if err != nil {
			e := problem.WithPlace(problem.AsError(err).Kind, "with", err)
			e.Field = "with"
			return spawned, e
		}
		spec.SecondParent = &secondParent.ID
	}
	existing, err := d.Vacants.GetByName(ctx, askerOf(ctx), spec.Name)
	if err != nil && !problem.Is(err, problem.NotFound) {
		return spawned, err
	}
	if spawned, err = d.createChild(ctx, spec); err != nil {
		return spawned, err
	}
	spawned.Unchanged = spawned.Vacant.ID == existing.ID
	return spawned, nil
}

func (d *api) createChild(ctx context.Context, spec vacants.SpawnSpec) (Spawned, error) {
	endpoints, err := d.resolveEndpoints(ctx, &spec)
	if err != nil {
		return Spawned{}, err
	}
	switch {
	case len(endpoints) == 0:
	case spec.OutboundPolicy == composite.NoExternal:
		return Spawned{}, problem.Invalid("outbound", "parent-permitted or unrestricted for a child whose substrate is at a URL, because it could not answer otherwise", string(spec.OutboundPolicy))
	case spec.OutboundPolicy == composite.ParentPermitted:
		spec.Tools = slices.Clone(spec.Tools)
		for _, endpoint := range endpoints {
			if !slices.Contains(spec.Tools, endpoint) {
				spec.Tools = append(spec.Tools, endpoint)
			}
		}
	}
	rec, m, err := d.Vacants.Spawn(ctx, spec)
	if err == nil {
		return Spawned{Vacant: vacantOf(&rec), Manifest: Manifest{Manifest: m.Blob()}}, nil
	}
	// The manifest names some fields differently from the request.
	p := problem.AsError(err)
	for manifestField, requestField := range map[string]string{"endpoint_reachability": "reach", "outbound_policy": "outbound"} {
		if rest, ok := strings.CutPrefix(p.Text(), manifestField+":"); ok {
			err = &problem.Error{Kind: p.Kind, Field: requestField, Detail: requestField + ":" + rest, Err: p.Err}
		}
	}
	return Spawned{}, err
}

// resolveEndpoints returns the URLs to which the child's agent sends requests. If the child would
// inherit its parent's plan, resolveEndpoints sets the default substrate.
func (d *api) resolveEndpoints(ctx context.Context, spec *vacants.SpawnSpec) ([]string, error) {
	agent := spec.Agent
	switch {
	case agent != nil:
	case spec.Substrate != "":
		s, err := substrate.Parse(spec.Substrate)
		if endpoint := s.Endpoint(); err == nil && endpoint != "" {
			return []string{endpoint}, nil
		}
		return nil, nil // opening the substrate reports the error
	default:
		// The request's sender was already authorized for the parent.
		parent, err := d.Vacants.Get(ctx, vacants.OperatorAsker(), spec.Parent)
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

func (d *api) children(ctx context.Context, parent *vacants.Record, in ChildrenRequest) (Children, error) {
	reports, next, err := d.ChildReport(ctx, askerOf(ctx), parent.ID, in.Cursor, int(cmp.Or(in.Limit, vacants.MaxPage)))
	if err != nil {
		return Children{}, err
	}
	page := Children{Children: make([]Child, len(reports)), Next: next}
	for i := range reports {
		report, c := &reports[i], &page.Children[i]
		*c = Child{Vacant: vacantOf(&report.Record), Calls: report.Calls, DecidedCalls: report.DecidedCalls, FailedCalls: report.FailedCalls}
		if report.DecidedCalls > report.FailedCalls {
			medianMS := report.MedianLatency.Milliseconds()
			c.MedianLatencyMS = &medianMS
		}
		switch {
		case report.Record.IsDeleted():
			c.UnavailableReason = "deleted"
		case !report.Record.State.CanBeCalled():
			c.UnavailableReason = string(report.Record.State)
		}
		m, ok, err := d.Vacants.Manifest(ctx, report.Record.ID)
		if err != nil {
			return Children{}, err
		}
		if ok {
			c.Path, c.Closed, c.Graduated = m.Manifest.BirthPath, m.Manifest.ClosedByDefault, m.Graduated
		}
	}
	return page, nil
}

func (d *api) manifest(ctx context.Context, in VacantRef) (Manifest, error) {
	child, err := d.childOf(ctx, in.Vacant)
	if err != nil {
		return Manifest{}, err
	}
	return d.showManifest(ctx, child)
}

func (d *api) showManifest(ctx context.Context, child identity.ID) (Manifest, error) {
	m, ok, err := d.Vacants.Manifest(ctx, child)
	switch {
	case err != nil:
		return Manifest{}, err
	case !ok:
		return Manifest{}, problem.New(problem.NotFound, "vacant %s is not a known child on this host", child.Short())
	}
	page := Manifest{Manifest: m.Manifest.Blob(), Graduated: m.Graduated}
	if m.PreviousManifest != nil {
		page.Replaced = m.PreviousManifest.Blob()
	}
	return page, nil
}

func (d *api) storeManifest(ctx context.Context, in VacantRequest[op.Raw[composite.ManifestDocument]]) (Manifest, error) {
	m, err := composite.ParseManifest(in.Body)
	if err != nil {
		return Manifest{}, err
	}
	rec, err := d.findVacant(ctx, in.Vacant)
	if err != nil {
		return Manifest{}, err
	}
	if m.ChildID != rec.ID {
		return Manifest{}, problem.Invalid("child_id", rec.ID.String(), m.ChildID.String())
	}
	if err := d.Vacants.StoreManifest(ctx, m); err != nil {
		return Manifest{}, err
	}
	return d.showManifest(ctx, rec.ID)
}

func (d *api) plan(ctx context.Context, rec *vacants.Record, _ VacantRef) (Plan, error) {
	p, ok, err := d.Vacants.Plan(ctx, rec.ID)
	switch {
	case err != nil:
		return Plan{}, err
	case !ok:
		return Plan{}, problem.New(problem.NotFound, "vacant %s has no plan", rec.Name)
	}
	return Plan{vacantOf(rec), p.Blob(), p.Hash()}, nil
}

func (d *api) setPlan(ctx context.Context, in VacantRequest[op.Raw[plan.Document]]) (Plan, error) {
	p, err := plan.Parse(in.Body)
	if err != nil {
		return Plan{}, err
	}
	rec, err := d.findVacant(ctx, in.Vacant)
	if err != nil {
		return Plan{}, err
	}
	if rec, p, err = d.Vacants.SetPlan(ctx, askerOf(ctx), rec.ID, p); err != nil {
		return Plan{}, err
	}
	return Plan{vacantOf(&rec), p.Blob(), p.Hash()}, nil
}
