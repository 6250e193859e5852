// Package collusionevidence collects what the gate's collusion check judges by:
// what the host itself has seen of a child, its parent and its siblings.
//
// The invariants: what is not there, not readable, not of the vacant or not of
// the last seven days is missing, with the reason, and never a zero; a storage
// that is out of reach is an error and no evidence; whatever the number of
// children, calls and plans and the size of texts, it reads of at most ten
// vacants, and of rows and plans no more than MaxUnits read units (read budget.go
// says how); what is beyond is missing, the same in every host. Beside them it
// reads four documents of each vacant. No text leaves it: a style is sixteen
// numbers.
package collusionevidence

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/call/callstats"
	"github.com/vacancy-host/vacancy/shared/host/family/plan"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/collusion"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The bounds of a collection.
const (
	// MaxSiblings are compared: the graduated first, the latest first.
	MaxSiblings = 8
	// MaxResponses of a vacant make its style.
	MaxResponses = collusion.LastResponses
	// MaxCallers are the others whose responses are read where those to the
	// parent are too few.
	MaxCallers = 8
	// Window is how old evidence may be.
	Window = callstats.Hours * time.Hour

	atOnce = 4
)

// Vacants reads the records and the plans of hosted vacants; *vacants.Directory does.
type Vacants interface {
	Get(ctx context.Context, id identity.ID) (vacants.Record, error)
	Plan(ctx context.Context, id identity.ID) (p plan.Plan, ok bool, err error)
}

// Registry tells who the children of a parent are, and what is registered of
// whom; *registry.Registry does.
type Registry interface {
	ChildrenIndex(ctx context.Context, parent identity.ID, n int) ([]registry.ManifestDocument, error)
	GetMany(ctx context.Context, ids []identity.ID) ([]registry.Registration, error)
}

// Texts opens the texts of rows; *textkeys.Keys does. Safe for concurrent use.
type Texts interface {
	Open(ctx context.Context, bound []byte, s textkeys.Sealed) ([]byte, error)
}

// Collector collects. It is safe for concurrent use.
type Collector struct {
	Store    store.Store
	Vacants  Vacants
	Registry Registry
	Texts    Texts
	Now      func() time.Time
}

// subject is one vacant that is compared.
type subject struct {
	id     identity.ID
	parent *identity.ID // who delegates to it; nil of the parent itself
	owner  string       // of its signed listing
	closed bool         // by its manifest, where it is not hosted here

	hosted    bool
	substrate string
	composed  bool // it answers in its children's words
	refs      []callstats.Reference
}

// Collect is the evidence for a graduation of child, which is parent's. What
// costs by its size is read of one after the other, the child first, so that the
// same is read wherever it is done.
func (c *Collector) Collect(ctx context.Context, child, parent identity.ID) (gate.Evidence, error) {
	all, err := c.subjects(ctx, child, parent)
	if err != nil {
		return gate.Evidence{}, err
	}
	seen := make([]gate.Observation, len(all))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range all {
		g.Go(func() (err error) {
			seen[i], err = c.observe(gctx, &all[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return gate.Evidence{}, err
	}
	p := &readBudget{left: AllUnits}
	for i := range all {
		if !all[i].hosted {
			continue
		}
		units := SiblingTreeUnits
		if i == 0 {
			units = TreeUnits
		}
		if err := c.families(ctx, &all[i], &seen[i], p.share(units)); err != nil {
			return gate.Evidence{}, err
		}
	}
	if err := c.styles(ctx, all, seen, p); err != nil {
		return gate.Evidence{}, err
	}
	e := gate.Evidence{Child: child, Parent: parent}
	for i := 1; i < len(all); i++ {
		role := gate.Sibling
		if i == 1 {
			role = gate.Parent
		}
		// No Ancestor: a child has one line, and where it meets the parent's is the
		// edge itself, or above it.
		e.Pairs = append(e.Pairs, gate.Pair{With: all[i].id, Role: role, A: seen[0], B: seen[i]})
	}
	return e, nil
}

// subjects are the child, the parent and the siblings.
func (c *Collector) subjects(ctx context.Context, child, parent identity.ID) ([]subject, error) {
	siblings, err := c.Registry.ChildrenIndex(ctx, parent, MaxSiblings+1)
	if err != nil {
		return nil, err
	}
	all := []subject{{id: child, parent: &parent, closed: true}, {id: parent}}
	for _, m := range siblings {
		if id := m.Manifest.ChildID; id != child && len(all) < 2+MaxSiblings {
			all = append(all, subject{id: id, parent: &parent, closed: m.Closed()})
		}
	}
	return all, c.owners(ctx, all)
}

// owners fills in whom the listings name that vacants have signed themselves.
func (c *Collector) owners(ctx context.Context, all []subject) error {
	ids := make([]identity.ID, len(all))
	for i := range all {
		ids[i] = all[i].id
	}
	registered, err := c.Registry.GetMany(ctx, ids)
	if err != nil {
		return err
	}
	for i, g := range registered {
		if g.Listing != nil && g.ListingSource == registry.SourceSigned {
			all[i].owner = g.Listing.Owner
		}
	}
	return nil
}

// observe is what the documents of one vacant say.
func (c *Collector) observe(ctx context.Context, s *subject) (gate.Observation, error) {
	o := gate.Observation{ID: s.id, Owner: s.owner, Closed: s.closed, Why: map[gate.Name]string{}}
	r, err := c.Vacants.Get(ctx, s.id)
	switch {
	case problem.Is(err, problem.NotFound):
		return without(o, "it is not hosted here"), nil
	case err != nil:
		return o, err
	case r.IsDeleted():
		return without(o, "it was deleted"), nil
	}
	o.Tenant, o.Closed = r.Tenant, r.Closed
	s.hosted, s.substrate, s.composed = true, r.Substrate, r.Substrate == plan.Kind
	calls, err := callstats.Read(ctx, c.Store, s.id)
	switch {
	case problem.Is(err, problem.Damaged):
		o.Why[gate.Activity] = problem.Of(err).Text()
	case err != nil:
		return o, err
	default:
		var why string
		if o.Activity, why = calls.Activity(c.Now()); why != "" {
			o.Why[gate.Activity] = why
		}
	}
	s.refs = calls.References()
	return o, nil
}

// without is o of whom this host sees nothing.
func without(o gate.Observation, why string) gate.Observation {
	for _, name := range []gate.Name{gate.Activity, gate.Substrate, gate.Style} {
		o.Why[name] = why
	}
	return o
}
