// Package collusionevidence collects the host's observations about a child, its parent and its
// siblings for the gate's check of collusion. Evidence is missing if it cannot be read, is older
// than seven days or exceeds the limits of reading. Missing evidence is never reported as zero.
// Texts are represented only by a vector of sixteen numbers, the style of writing.
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

const (
	// MaxSiblings limits the compared siblings: graduated siblings first, and then the latest.
	MaxSiblings  = 8
	MaxResponses = collusion.MaxResponses
	// MaxCallers limits the callers other than the parent whose responses are read.
	MaxCallers     = 8
	MaxEvidenceAge = callstats.MaxHours * time.Hour

	maxConcurrentVacants = 4
)

type Vacants interface {
	Get(ctx context.Context, by vacants.Asker, id identity.ID) (vacants.Record, error)
	Plan(ctx context.Context, id identity.ID) (p plan.Plan, ok bool, err error)
	Agent(ctx context.Context, r *vacants.Record, version int) (definition.Agent, error)
}

type Registry interface {
	ListChildManifests(ctx context.Context, parent identity.ID, n int) ([]registry.ManifestDocument, error)
	GetMany(ctx context.Context, ids []identity.ID) ([]registry.Registration, error)
}

// Texts must be safe for concurrent use.
type Texts interface {
	Open(ctx context.Context, bound []byte, s textkeys.Sealed) ([]byte, error)
}

type Collector struct {
	Store    store.Store
	Vacants  Vacants
	Registry Registry
	Texts    Texts
	Now      func() time.Time
}

type subject struct {
	id     identity.ID
	parent *identity.ID // nil for the child's parent
	owner  string       // owner in its signed listing
	closed bool

	record      vacants.Record // zero if not hosted
	hosted      bool
	isComposite bool
	refs        []callstats.Reference
	versions    map[agentVersion]bool
}

type agentVersion struct {
	number     int
	isFallback bool
}

// Collect returns the evidence for a graduation. It reads plans and responses in a fixed order, so
// that every host uses up the shared budget at the same place.
func (c *Collector) Collect(ctx context.Context, child, parent identity.ID) (gate.Evidence, error) {
	subjects, err := c.listSubjects(ctx, child, parent)
	if err != nil {
		return gate.Evidence{}, err
	}
	observations := make([]gate.Observation, len(subjects))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxConcurrentVacants)
	for i := range subjects {
		g.Go(func() (err error) {
			observations[i], err = c.collectObservation(gctx, &subjects[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return gate.Evidence{}, err
	}
	budget := &readBudget{units: CollectionUnits}
	for i := range subjects {
		if !subjects[i].hosted {
			continue
		}
		units := SiblingTreeUnits
		if i == 0 {
			units = TreeUnits
		}
		if err := c.addFamilies(ctx, &subjects[i], &observations[i], budget.newShare(units)); err != nil {
			return gate.Evidence{}, err
		}
	}
	if err := c.addStyles(ctx, subjects, observations, budget); err != nil {
		return gate.Evidence{}, err
	}
	e := gate.Evidence{Child: child, Parent: parent}
	for i := 1; i < len(subjects); i++ {
		role := gate.RoleSibling
		if i == 1 {
			role = gate.RoleParent
		}
		// HasCommonAncestor stays false. It ignores ancestors that the child has only through its
		// parent, and a child has no others.
		e.Pairs = append(e.Pairs, gate.Pair{OtherID: subjects[i].id, Role: role, Child: observations[0], Other: observations[i]})
	}
	return e, nil
}

func (c *Collector) listSubjects(ctx context.Context, child, parent identity.ID) ([]subject, error) {
	siblings, err := c.Registry.ListChildManifests(ctx, parent, MaxSiblings+1)
	if err != nil {
		return nil, err
	}
	subjects := []subject{{id: child, parent: &parent, closed: true}, {id: parent}}
	for _, m := range siblings {
		if id := m.Manifest.ChildID; id != child && len(subjects) < 2+MaxSiblings {
			subjects = append(subjects, subject{id: id, parent: &parent, closed: m.IsClosed()})
		}
	}
	// The owner is taken only from a listing that the vacant has signed. Other listings are claims
	// and not evidence.
	ids := make([]identity.ID, len(subjects))
	for i := range subjects {
		ids[i] = subjects[i].id
	}
	registrations, err := c.Registry.GetMany(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i, reg := range registrations {
		if reg.Listing != nil && reg.ListingSource == registry.SourceSigned {
			subjects[i].owner = reg.Listing.Owner
		}
	}
	return subjects, nil
}

func (c *Collector) collectObservation(ctx context.Context, s *subject) (gate.Observation, error) {
	o := gate.Observation{ID: s.id, Owner: s.owner, Closed: s.closed, MissingReasons: map[gate.SignalName]string{}}
	r, err := c.Vacants.Get(ctx, vacants.OperatorAsker(), s.id)
	switch {
	case problem.Is(err, problem.NotFound):
		return markEvidenceMissing(o, "it is not hosted here"), nil
	case err != nil:
		return o, err
	case r.IsDeleted():
		return markEvidenceMissing(o, "it was deleted"), nil
	}
	o.Tenant, o.Closed = r.Tenant, r.Closed
	s.record, s.hosted, s.isComposite = r, true, r.Substrate == plan.Kind
	calls, err := callstats.Read(ctx, c.Store, s.id)
	switch {
	case problem.Is(err, problem.Damaged):
		o.MissingReasons[gate.Activity] = problem.AsError(err).Text()
	case err != nil:
		return o, err
	default:
		var reason string
		if o.Activity, reason = calls.Activity(c.Now()); reason != "" {
			o.MissingReasons[gate.Activity] = reason
		}
	}
	s.refs = calls.References()
	return o, nil
}

func markEvidenceMissing(o gate.Observation, reason string) gate.Observation {
	for _, name := range []gate.SignalName{gate.Activity, gate.Substrate, gate.Style} {
		o.MissingReasons[name] = reason
	}
	return o
}
