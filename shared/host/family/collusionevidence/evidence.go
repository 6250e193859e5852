// Package collusionevidence collects the evidence for the gate's collusion
// check: the host's observations about a child, its parent and its siblings.
//
// The invariants: evidence that is absent, unreadable, not the vacant's or
// older than seven days is missing, with the reason, and never a zero. An
// unavailable storage is an error and not evidence. It reads at most ten
// vacants, and at most MaxUnits read units of rows and plans (budget.go), even
// if there are more children, calls and plans, or longer texts. Evidence beyond
// that is missing, equally on every host. It also reads four documents of each
// vacant. No text leaves the package: a style is sixteen numbers.
package collusionevidence

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/callstats"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/collusion"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Bounds of a collection.
const (
	// MaxSiblings bounds the siblings that are compared: graduated first, then
	// the latest.
	MaxSiblings = 8
	// MaxResponses bounds the responses that make a vacant's style.
	MaxResponses = collusion.LastResponses
	// MaxCallers bounds the other callers whose responses are read if the
	// responses to the parent are too few.
	MaxCallers = 8
	// Window is the maximum age of evidence.
	Window = callstats.Hours * time.Hour

	atOnce = 4
)

// Vacants reads records and plans of hosted vacants; *vacants.Directory
// implements it.
type Vacants interface {
	Get(ctx context.Context, by vacants.Asker, id identity.ID) (vacants.Record, error)
	Plan(ctx context.Context, id identity.ID) (p plan.Plan, ok bool, err error)
	Agent(ctx context.Context, r *vacants.Record, version int) (definition.Agent, error)
}

// Registry reads children and registrations; *registry.Registry implements it.
type Registry interface {
	ChildrenIndex(ctx context.Context, parent identity.ID, n int) ([]registry.ManifestDocument, error)
	GetMany(ctx context.Context, ids []identity.ID) ([]registry.Registration, error)
}

// Texts opens the texts of rows; *textkeys.Keys implements it. Safe for
// concurrent use.
type Texts interface {
	Open(ctx context.Context, bound []byte, s textkeys.Sealed) ([]byte, error)
}

// Collector collects evidence. It is safe for concurrent use.
type Collector struct {
	Store    store.Store
	Vacants  Vacants
	Registry Registry
	Texts    Texts
	Now      func() time.Time
}

// subject is one of the compared vacants.
type subject struct {
	id     identity.ID
	parent *identity.ID // the delegating parent; nil for the parent itself
	owner  string       // in its signed listing
	closed bool         // by its manifest, if it is not hosted here

	record   vacants.Record // zero unless it is hosted here
	hosted   bool
	composed bool // its answers combine its children's
	refs     []callstats.Reference
	versions map[version]bool // of its agent that answered, by the rows that were read
}

// version is a version of a vacant's agent, or its fallback model.
type version struct {
	agent    int
	fallback bool
}

// Collect returns the evidence for a graduation of child under parent. Parts
// whose cost depends on size are read one after the other, the child first, so
// every host reads the same.
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
		// No Ancestor: a child has one line of parents, and that meets the
		// parent's line at the edge itself or above.
		e.Pairs = append(e.Pairs, gate.Pair{With: all[i].id, Role: role, A: seen[0], B: seen[i]})
	}
	return e, nil
}

// subjects returns the child, the parent and the siblings.
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
	// An owner is the owner in the signed listing.
	ids := make([]identity.ID, len(all))
	for i := range all {
		ids[i] = all[i].id
	}
	registered, err := c.Registry.GetMany(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i, g := range registered {
		if g.Listing != nil && g.ListingSource == registry.SourceSigned {
			all[i].owner = g.Listing.Owner
		}
	}
	return all, nil
}

// observe reads the documents of one vacant.
func (c *Collector) observe(ctx context.Context, s *subject) (gate.Observation, error) {
	o := gate.Observation{ID: s.id, Owner: s.owner, Closed: s.closed, Why: map[gate.Name]string{}}
	r, err := c.Vacants.Get(ctx, vacants.Operator(), s.id)
	switch {
	case problem.Is(err, problem.NotFound):
		return without(o, "it is not hosted here"), nil
	case err != nil:
		return o, err
	case r.IsDeleted():
		return without(o, "it was deleted"), nil
	}
	o.Tenant, o.Closed = r.Tenant, r.Closed
	s.record, s.hosted, s.composed = r, true, r.Substrate == plan.Kind
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

// without is o for a vacant of which this host sees nothing.
func without(o gate.Observation, why string) gate.Observation {
	for _, name := range []gate.Name{gate.Activity, gate.Substrate, gate.Style} {
		o.Why[name] = why
	}
	return o
}
