package vacants

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/family/plan"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

const planSort = "plan"

// PlanKey is where the plan of a composite lies.
func PlanKey(id identity.ID) store.Key {
	return store.Key{Partition: "v#" + id.String(), Sort: planSort}
}

// DecodePlan reads the plan document of id. The error is of kind Damaged if it
// is unreadable.
func DecodePlan(id identity.ID, d store.Doc) (plan.Plan, error) {
	p, err := plan.Parse(d.Data)
	if err == nil && !bytes.Equal(p.Blob(), d.Data) {
		err = problem.New(problem.Damaged, "it is not in its canonical form")
	}
	if err == nil {
		_, err = p.Children()
	}
	if err != nil {
		return p, problem.Wrap(problem.Damaged, err, "plan of vacant %s: %s", id.Short(), problem.Of(err).Text())
	}
	return p, nil
}

// Plan returns the plan of id, read from the store; ok is false if it has none.
func (v *Directory) Plan(ctx context.Context, id identity.ID) (p plan.Plan, ok bool, err error) {
	d, err := v.Store.Doc(ctx, PlanKey(id))
	if err != nil || d.Version == 0 {
		return p, false, store.Problem(err)
	}
	p, err = DecodePlan(id, d)
	return p, err == nil, err
}

// SetPlan makes id a composite that answers by p, and returns p as it is kept,
// with the ids of its children. They must be id's own by their manifests, and
// be hosted here and not be closed; with their own plans the tree must be free
// of cycles and within plan.MaxDepth and plan.MaxCalls, also as seen from the
// composites above. The plan, the record and the entry are one commit. What
// id's card says stays as it is. Set again, the same plan changes nothing.
func (v *Directory) SetPlan(ctx context.Context, id identity.ID, p plan.Plan) (Record, plan.Plan, error) {
	if err := v.offered(&p); err != nil {
		return Record{}, p, err
	}
	ctx, cancel := store.WithPatience(ctx)
	defer cancel()
	done, err := v.logs.Lock(ctx, id)
	if err != nil {
		return Record{}, p, err
	}
	defer done()
	var r Record
	var set plan.Plan
	err = v.update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		r, set, err = v.setPlan(ctx, tx, id, p)
		return err
	})
	if err != nil {
		return Record{}, p, err
	}
	return r, set, nil
}

// offered checks what needs no store: the form, and that this host has the
// substrates.
func (v *Directory) offered(p *plan.Plan) error {
	if err := p.Check(); err != nil {
		return err
	}
	if _, _, err := v.openSubstrate(plan.Kind, nil); err != nil {
		return err
	}
	if p.Aggregate.How != plan.BySubstrate {
		return nil
	}
	if _, _, err := v.openSubstrate(p.Aggregate.Substrate, nil); err != nil {
		return &problem.Error{Kind: problem.Malformed, Field: "aggregate.substrate", Detail: "aggregate." + problem.Of(err).Text(), Err: err}
	}
	return nil
}

// setPlan is one try of SetPlan.
func (v *Directory) setPlan(ctx context.Context, tx *store.Tx, id identity.ID, p plan.Plan) (Record, plan.Plan, error) {
	r, err := v.Get(ctx, id)
	if err == nil && r.IsDeleted() {
		err = deleted(&r)
	}
	if err == nil && r.State.Closed() {
		err = problem.New(problem.Gone, "vacant %s is %s; it answers by no plan any more", r.Name, r.State)
	}
	if err != nil {
		return r, p, err
	}
	old, err := tx.Doc(ctx, PlanKey(id))
	if err != nil {
		return r, p, store.Problem(err)
	}
	if p, err = v.importVacant(ctx, &r, p); err != nil {
		return r, p, err
	}
	if r.Substrate == plan.Kind && old.Version > 0 && bytes.Equal(old.Data, p.Blob()) {
		return r, p, nil
	}
	if err := v.fits(ctx, &r, &p); err != nil {
		return r, p, err
	}
	r.Substrate = plan.Kind
	tx.Put(store.Doc{Key: old.Key, Data: p.Blob()})
	return r, p, v.addChange(ctx, tx, &r, &entry{logbook.KindPlanChanged, logbook.PlanChanged(p.Hash())})
}

// importVacant replaces names by ids, and refuses who is not r's own child.
func (v *Directory) importVacant(ctx context.Context, r *Record, p plan.Plan) (plan.Plan, error) {
	p.Delegate = slices.Clone(p.Delegate)
	known := map[string]identity.ID{}
	for i := range p.Delegate {
		d := &p.Delegate[i]
		id, ok := known[d.Child]
		if !ok {
			child, err := v.own(ctx, r, d.Child)
			if err != nil {
				field := fmt.Sprintf("delegate[%d].child", i)
				e := problem.Within(problem.Of(err).Kind, field, err)
				e.Field = field
				return p, e
			}
			id = child.ID
			known[d.Child] = id
		}
		d.Child = id.String()
	}
	return p, nil
}

// own returns the record of a child of r, found by name or id.
func (v *Directory) own(ctx context.Context, r *Record, what string) (Record, error) {
	child, err := v.Find(ctx, what)
	if err != nil {
		return child, err
	}
	if child.IsDeleted() {
		return child, deleted(&child)
	}
	if child.State.Closed() {
		return child, problem.New(problem.Gone, "vacant %s is %s", child.Name, child.State)
	}
	m, ok, err := v.Manifest(ctx, child.ID)
	if err == nil && (!ok || m.Manifest.ParentID != r.ID) {
		err = problem.New(problem.Malformed, "expected a child of %s, got %s (%s), who has no manifest with it", r.Name, child.Name, child.ID.Short())
	}
	return child, err
}

// fits walks the tree that p makes of r's children, and the trees of those
// above that r is in.
func (v *Directory) fits(ctx context.Context, r *Record, p *plan.Plan) error {
	t := tree{vacants: v, id: r.ID, plan: p}
	top := *r
	for range plan.MaxDepth + 1 { // from further up, r would lie too deep already
		if err := t.check(ctx, &top); err != nil {
			return err
		}
		m, ok, err := v.Manifest(ctx, top.ID)
		if err != nil || !ok {
			return err
		}
		above, ok, err := v.read(ctx, m.Manifest.ParentID)
		if err != nil || !ok || above.Substrate != plan.Kind {
			return err
		}
		top = above
	}
	return nil
}

// tree is that of the plans below a composite, with one of them as it is to be.
type tree struct {
	vacants *Directory
	id      identity.ID
	plan    *plan.Plan
	calls   int
}

func (t *tree) check(ctx context.Context, top *Record) error {
	t.calls = 0
	return t.walk(ctx, top, nil)
}

// walk goes down from r. path are those above it.
func (t *tree) walk(ctx context.Context, r *Record, path []*Record) error {
	if slices.ContainsFunc(path, func(above *Record) bool { return above.ID == r.ID }) {
		return problem.New(problem.Malformed, "plan: it would ask itself: %s", names(append(path, r)))
	}
	p, ok, err := t.planOf(ctx, r)
	if err != nil || !ok {
		return err
	}
	path = append(slices.Clone(path), r)
	if len(path) > plan.MaxDepth {
		return problem.New(problem.Malformed, "plan: expected at most %d plans above each other, got %s", plan.MaxDepth, names(path))
	}
	for i := range p.Delegate {
		if t.calls++; t.calls > plan.MaxCalls {
			return problem.New(problem.Malformed, "plan: expected at most %d delegations in all, got more from %s on", plan.MaxCalls, path[0].Name)
		}
		id, err := identity.ParseID(p.Delegate[i].Child)
		if err != nil {
			return err
		}
		child, ok, err := t.vacants.read(ctx, id)
		if err != nil {
			return err
		}
		if !ok {
			continue // it left: the delegation fails when it is made
		}
		if err := t.walk(ctx, &child, path); err != nil {
			return err
		}
	}
	return nil
}

// planOf is the plan that r has, or is to have.
func (t *tree) planOf(ctx context.Context, r *Record) (plan.Plan, bool, error) {
	if r.ID == t.id {
		return *t.plan, true, nil
	}
	if r.Substrate != plan.Kind {
		return plan.Plan{}, false, nil
	}
	return t.vacants.Plan(ctx, r.ID)
}

// names are those of a path, from the top.
func names(path []*Record) string {
	all := make([]string, len(path))
	for i, r := range path {
		all[i] = r.Name
	}
	return strings.Join(all, " -> ")
}

// cardWord is what a card says of a substrate of a kind.
func cardWord(kind string) string {
	if kind == plan.Kind {
		return plan.CardWord
	}
	return kind
}
