package collusionevidence

import (
	"cmp"
	"context"
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// A family names the model or the server that answers.
const (
	reasonUnknown       = "its substrate is not known"
	reasonFormerUnknown = "the substrate of an earlier version is not known"
	reasonComposite     = "its children answer its calls"
	reasonTooLarge      = "too large to read"
)

func familyOf(text string) string {
	s, err := substrate.Parse(text)
	if err != nil || s.Kind == plan.Kind {
		return ""
	}
	return s.Family()
}

// addFamilies uses all families in a composite's plan, because a child could otherwise hide its
// parent's family in a plan. For the child's parent, it omits the families of the children in the
// plan.
func (c *Collector) addFamilies(ctx context.Context, s *subject, o *gate.Observation, budget *readBudget) error {
	if !s.isComposite {
		var err error
		if o.Families, err = c.agentFamilies(ctx, &s.record, budget); err == nil && len(o.Families) == 0 {
			o.MissingReasons[gate.Substrate] = reasonUnknown
		}
		return err
	}
	visitor := planVisitor{collector: c, readBudget: budget, visited: map[identity.ID]bool{s.id: true}}
	err := visitor.visitPlan(ctx, s.id, s.parent != nil, 1)
	slices.Sort(visitor.families)
	o.Families = slices.Compact(visitor.families)
	switch {
	case visitor.reason != "":
		o.MissingReasons[gate.Substrate] = visitor.reason
	case len(o.Families) == 0:
		o.MissingReasons[gate.Substrate] = reasonComposite
	}
	return err
}

// agentFamilies returns no family if the substrate's or the fallback model's family is unknown.
func (c *Collector) agentFamilies(ctx context.Context, r *vacants.Record, budget *readBudget) ([]string, error) {
	primary := familyOf(r.Substrate)
	if primary == "" || r.AgentVersion == 0 {
		return familyList(primary), nil
	}
	a, err := c.Vacants.Agent(ctx, r, 0)
	budget.spend(len(a.Blob()))
	switch {
	case problem.Is(err, problem.Damaged):
		return nil, nil
	case err != nil:
		return nil, err
	}
	fallback, ok := a.Fallback()
	if !ok || fallback.Family() == primary {
		return familyList(primary), nil
	}
	families := []string{primary, fallback.Family()}
	slices.Sort(families)
	return families, nil
}

func (c *Collector) addEarlierFamilies(ctx context.Context, s *subject, o *gate.Observation, budget *readBudget) error {
	// If only the current version were considered, an owner could hide a model by replacing it
	// before a graduation.
	for v := range s.versions {
		if v.number == s.record.AgentVersion {
			continue
		}
		family, err := c.versionFamily(ctx, s, v, budget)
		if err != nil {
			return err
		}
		if family == "" {
			o.MissingReasons[gate.Substrate] = reasonFormerUnknown
			continue
		}
		o.Families = append(o.Families, family)
	}
	slices.Sort(o.Families)
	o.Families = slices.Compact(o.Families)
	return nil
}

func (c *Collector) versionFamily(ctx context.Context, s *subject, v agentVersion, budget *readBudget) (string, error) {
	// The family of version 0 is unknown, because its substrate is not stored.
	if v.number == 0 {
		return "", nil
	}
	a, err := c.Vacants.Agent(ctx, &s.record, v.number)
	budget.spend(len(a.Blob()))
	switch {
	case problem.Is(err, problem.Damaged), problem.Is(err, problem.NotFound):
		return "", nil
	case err != nil:
		return "", err
	}
	if fallback, ok := a.Fallback(); ok && v.isFallback {
		return fallback.Family(), nil
	}
	spec, err := a.Spec()
	if err != nil {
		return "", nil
	}
	return spec.Family(), nil
}

func familyList(family string) []string {
	if family == "" {
		return nil
	}
	return []string{family}
}

type planVisitor struct {
	collector  *Collector
	readBudget *readBudget
	visited    map[identity.ID]bool
	families   []string
	reason     string // first reason why the families are incomplete
}

func (t *planVisitor) addReason(reason string) {
	t.reason = cmp.Or(t.reason, reason)
}

func (t *planVisitor) visitPlan(ctx context.Context, id identity.ID, withChildren bool, depth int) error {
	if depth > plan.MaxDepth || t.readBudget.isEmpty() {
		t.addReason("its tree of plans is " + reasonTooLarge)
		return nil
	}
	p, ok, err := t.collector.Vacants.Plan(ctx, id)
	t.readBudget.spend(len(p.Blob()))
	switch {
	case problem.Is(err, problem.Damaged):
		t.addReason("a plan in its tree is not readable")
		return nil
	case err != nil:
		return err
	case !ok:
		t.addReason(reasonComposite)
		return nil
	}
	if p.Aggregate.Method == plan.BySubstrate {
		if f := familyOf(p.Aggregate.Substrate); f != "" {
			t.families = append(t.families, f)
		} else {
			t.addReason("a substrate that answers for it is not known")
		}
	}
	if !withChildren {
		return nil
	}
	children, err := p.Children()
	if err != nil {
		t.addReason("a plan in its tree is not readable")
		return nil
	}
	for _, child := range children {
		if err := t.visitChild(ctx, child, depth); err != nil {
			return err
		}
	}
	return nil
}

func (t *planVisitor) visitChild(ctx context.Context, id identity.ID, depth int) error {
	if t.visited[id] {
		return nil
	}
	t.visited[id] = true
	if t.readBudget.isEmpty() {
		t.addReason("its tree of plans is " + reasonTooLarge)
		return nil
	}
	r, err := t.collector.Vacants.Get(ctx, vacants.OperatorAsker(), id)
	// The size of the record is an estimate.
	t.readBudget.spend(2*len(r.Card) + len(r.Capability) + len(r.Substrate) + 1<<10)
	switch {
	case problem.Is(err, problem.NotFound):
		t.addReason("one of its children is not hosted here")
		return nil
	case err != nil:
		return err
	case r.IsDeleted():
		return nil
	case r.Substrate == plan.Kind:
		return t.visitPlan(ctx, id, true, depth+1)
	}
	families, err := t.collector.agentFamilies(ctx, &r, t.readBudget)
	if err == nil && len(families) == 0 {
		t.addReason("a substrate that answers for it is not known")
	}
	t.families = append(t.families, families...)
	return err
}
