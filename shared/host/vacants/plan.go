package vacants

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

func PlanKey(id identity.ID) store.Key { return PlanDocs.Key(id.String()) }

func (v *Directory) Plan(ctx context.Context, id identity.ID) (p plan.Plan, ok bool, err error) {
	p, d, err := PlanDocs.Get(ctx, v.Store, PlanKey(id))
	return p, err == nil && d.Version > 0, store.AsProblem(err)
}

// SetPlan makes id a composite that answers with p. It returns p with ids instead of the children's
// names.
func (v *Directory) SetPlan(ctx context.Context, asker Asker, id identity.ID, p plan.Plan) (Record, plan.Plan, error) {
	if err := v.Resources.CheckPlan(&p); err != nil {
		return Record{}, p, err
	}
	ctx, cancel := store.WithDefaultTimeout(ctx)
	defer cancel()
	unlock, err := v.logbookLocks.Lock(ctx, id)
	if err != nil {
		return Record{}, p, err
	}
	defer unlock()
	var r Record
	var stored plan.Plan
	err = v.commitTx(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		r, stored, err = v.setPlanOnce(ctx, tx, asker, id, p)
		return err
	})
	if err != nil {
		return Record{}, p, err
	}
	return r, stored, nil
}

func (v *Directory) setPlanOnce(ctx context.Context, tx *store.Tx, asker Asker, id identity.ID, p plan.Plan) (Record, plan.Plan, error) {
	r, err := v.GetExisting(ctx, id)
	if err == nil && r.State.IsRetired() {
		err = problem.New(problem.Gone, "vacant %s is %s; it cannot answer with a plan", r.Name, r.State)
	}
	if err != nil {
		return r, p, err
	}
	old, err := tx.Doc(ctx, PlanKey(id))
	if err != nil {
		return r, p, store.AsProblem(err)
	}
	if p, err = v.resolveChildren(ctx, asker, &r, p); err != nil {
		return r, p, err
	}
	if r.Substrate == plan.Kind && old.Version > 0 && bytes.Equal(old.Data, p.Blob()) {
		return r, p, nil
	}
	if err := v.checkPlanTree(ctx, &r, &p); err != nil {
		return r, p, err
	}
	r.Substrate, r.Input, r.Memory = plan.Kind, nil, false
	PlanDocs.Put(tx, store.Doc{Key: old.Key}, p)
	return r, p, v.addChange(ctx, tx, &r, &entry{logbook.KindPlanChanged, logbook.PlanChangedPayload(p.Hash())})
}

func (v *Directory) resolveChildren(ctx context.Context, asker Asker, r *Record, p plan.Plan) (plan.Plan, error) {
	p.Delegations = slices.Clone(p.Delegations)
	childIDs := map[string]identity.ID{}
	for i := range p.Delegations {
		d := &p.Delegations[i]
		id, ok := childIDs[d.Child]
		if !ok {
			child, err := v.findChildOf(ctx, asker, r, d.Child)
			if err != nil {
				field := fmt.Sprintf("delegate[%d].child", i)
				fieldErr := problem.WithPlace(problem.AsError(err).Kind, field, err)
				fieldErr.Field = field
				return p, fieldErr
			}
			id = child.ID
			childIDs[d.Child] = id
		}
		d.Child = id.String()
	}
	return p, nil
}

func (v *Directory) findChildOf(ctx context.Context, asker Asker, r *Record, query string) (Record, error) {
	child, err := v.Find(ctx, asker, query)
	if err != nil {
		return child, err
	}
	if child.IsDeleted() {
		return child, deletedError(&child)
	}
	if child.State.IsRetired() {
		return child, problem.New(problem.Gone, "vacant %s is %s", child.Name, child.State)
	}
	m, ok, err := v.Manifest(ctx, child.ID)
	if err == nil && (!ok || m.Manifest.ParentID != r.ID) {
		err = problem.New(problem.Malformed, "expected a child of %s, got %s (%s), which has no manifest with this parent", r.Name, child.Name, child.ID.Short())
	}
	return child, err
}

func (v *Directory) checkPlanTree(ctx context.Context, r *Record, p *plan.Plan) error {
	t := planTree{directory: v, composite: r, plan: p}
	top := *r
	for range plan.MaxDepth + 1 { // composites further above cannot reach this plan within MaxDepth
		t.visitedCalls = 0
		if err := t.walk(ctx, &top, nil); err != nil {
			return err
		}
		m, ok, err := v.Manifest(ctx, top.ID)
		if err != nil || !ok {
			return err
		}
		parent, ok, err := v.readRecord(ctx, m.Manifest.ParentID)
		if err != nil || !ok || parent.Substrate != plan.Kind {
			return err
		}
		top = parent
	}
	return nil
}

type planTree struct {
	directory    *Directory
	composite    *Record
	plan         *plan.Plan
	visitedCalls int
}

func (t *planTree) walk(ctx context.Context, r *Record, path []*Record) error {
	if slices.ContainsFunc(path, func(above *Record) bool { return above.ID == r.ID }) {
		return problem.New(problem.Malformed, "plan: the vacant would call itself: %s", t.formatPath(append(path, r)))
	}
	p, ok := *t.plan, r.ID == t.composite.ID
	if !ok && r.Substrate == plan.Kind {
		var err error
		if p, ok, err = t.directory.Plan(ctx, r.ID); err != nil {
			return err
		}
	}
	if !ok {
		return nil
	}
	path = append(slices.Clone(path), r)
	if len(path) > plan.MaxDepth {
		return problem.New(problem.Malformed, "plan: expected plans that are nested at most %d deep, got %s", plan.MaxDepth, t.formatPath(path))
	}
	for i := range p.Delegations {
		if t.visitedCalls++; t.visitedCalls > plan.MaxCalls {
			return problem.New(problem.Malformed, "plan: expected at most %d delegations in total, got more below %s", plan.MaxCalls, path[0].nameVisibleTo(t.composite))
		}
		id, err := identity.ParseID(p.Delegations[i].Child)
		if err != nil {
			return err
		}
		child, ok, err := t.directory.readRecord(ctx, id)
		if err != nil {
			return err
		}
		if !ok {
			continue // the child has left this host, so calls to it will fail
		}
		if err := t.walk(ctx, &child, path); err != nil {
			return err
		}
	}
	return nil
}

func (t *planTree) formatPath(path []*Record) string {
	pathNames := make([]string, len(path))
	for i, r := range path {
		pathNames[i] = r.nameVisibleTo(t.composite)
	}
	return strings.Join(pathNames, " -> ")
}

func listCardSubstrates(s substrate.Spec, a *definition.Agent) []string {
	switch {
	case s.Kind == plan.Kind:
		return []string{plan.CardKind}
	case a != nil && len(a.Allow) > 0:
		return a.Allow
	}
	return []string{s.Kind}
}
