package vacants

import (
	"context"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// Changes contains the arguments of Update. Nil fields are left unchanged.
type Changes struct {
	// By is the party that changes the vacant and that chose Substrate and Agent. It must be allowed
	// to know the vacants in Agent.Vacants, except public vacants.
	By               Asker
	Name, Capability *string
	Substrate        *string // string form of a substrate.Spec, for a default agent
	// Agent is the next version of the agent. Its Vacants may be names. Agent and Substrate exclude
	// each other.
	Agent *definition.Agent
	// IfAgent is the version of the agent on which the change is based. If the agent has another
	// version now, Update fails. If IfAgent is nil, any version is replaced.
	IfAgent *int
	Plain   *Plain
	Work    *time.Duration // zero means the host's limit
	// IfChanged is the Changed time of the record on which the changes are based. If the record has
	// changed since then, Update fails. If IfChanged is zero, any record is changed.
	IfChanged time.Time
}

// Update changes the name, the capability, the substrate, the agent or settings of a vacant that is
// not terminal. If the card changes, it is signed and, if the vacant is published, published in the
// same commit. The old name stays reserved for the tenant. Calls that were already accepted are
// answered with the old substrate and agent.
//
// Repeating the same changes has no effect. The error is Conflict if IfAgent or IfChanged does not
// match, the name is taken or the state is terminal, and Malformed for invalid changes.
func (v *Directory) Update(ctx context.Context, id identity.ID, c Changes) (Record, error) {
	if err := v.checkChanges(&c); err != nil {
		return Record{}, err
	}
	if err := v.openKey(ctx, id); err != nil {
		return Record{}, err
	}
	ctx, cancel := store.WithPatience(ctx)
	defer cancel()
	lock := v.lockAll
	if v.Registry == nil {
		lock = v.logs.Lock
	}
	done, err := lock(ctx, id)
	if err != nil {
		return Record{}, err
	}
	defer done()
	var r Record
	err = v.update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		r, err = v.updateOnce(ctx, tx, id, &c)
		return err
	})
	return r, err
}

func (v *Directory) checkChanges(c *Changes) error {
	if c.Name == nil && c.Capability == nil && c.Substrate == nil && c.Agent == nil && c.Plain == nil && c.Work == nil {
		return problem.Invalid("changes", "name, capability, substrate, agent, plain or work", "none of them")
	}
	if c.Work != nil && *c.Work != 0 {
		if err := CheckWork(*c.Work); err != nil {
			return err
		}
	}
	if c.Name != nil {
		if err := registry.CheckNewName(*c.Name); err != nil {
			return err
		}
	}
	if c.Capability != nil {
		if err := checkCapability(*c.Capability); err != nil {
			return err
		}
	}
	if c.Agent != nil {
		text := ""
		if c.Substrate != nil {
			text = *c.Substrate
		}
		_, err := v.substrateText(text, c.Agent)
		return err
	}
	if c.Substrate == nil {
		return nil
	}
	spec, err := v.Resources.ParseSubstrate(*c.Substrate)
	text := spec.String()
	c.Substrate = &text
	return err
}

func (v *Directory) updateOnce(ctx context.Context, tx *store.Tx, id identity.ID, c *Changes) (Record, error) {
	r, err := v.GetExisting(ctx, id)
	if err != nil {
		return r, err
	}
	next, err := v.nextAgent(ctx, &r, c)
	by := c.chosenBy(&r, next)
	if err != nil || c.done(&r) && next == nil && by == r.Chooser {
		return r, err
	}
	switch {
	case c.IfAgent != nil && *c.IfAgent != r.Agent:
		return r, problem.New(problem.Conflict, "the agent of vacant %s is at version %d, not %d; read the vacant again and repeat the change", r.Name, r.Agent, *c.IfAgent)
	case !c.IfChanged.IsZero() && !r.Changed.Equal(c.IfChanged):
		return r, problem.New(problem.Conflict, "vacant %s was changed concurrently; read the vacant again and repeat the change", r.Name)
	case r.State.IsClosed():
		return r, problem.New(problem.Conflict, "vacant %s is %s; it cannot be updated", r.Name, r.State)
	}
	if err := v.rename(ctx, tx, &r, c); err != nil {
		return r, err
	}
	if c.Plain != nil {
		r.KeylessAccess = *c.Plain
	}
	if c.Work != nil {
		r.MaxCallTime = *c.Work
	}
	r.Chooser = by
	allowed, err := r.setSubstrate(c.Substrate, next)
	if err == nil && (c.Substrate != nil || next != nil) {
		err = v.Resources.CheckAgentOfTenant(ctx, r.Tenant, r.Substrate, next)
	}
	if err != nil {
		return r, err
	}
	base, err := v.base(ctx)
	if err != nil {
		return r, err
	}
	capability := r.Capability
	if c.Capability != nil {
		capability = *c.Capability
	}
	after := r
	card, signed, err := v.current(ctx, &after, base, capability, allowed)
	if err != nil {
		return r, err
	}
	e := &entry{logbook.KindUpdated, logbook.UpdatedPayload(r.Name, kindOf(r.Substrate))}
	if signed {
		published, err := v.isPublished(ctx, id)
		if err != nil {
			return r, err
		}
		if published {
			r, _, err = v.publishOnce(ctx, tx, r, "updated", func(g *registry.Registration) (PublishOptions, error) {
				return PublishOptions{Capability: &capability, Visibility: &g.SignedVisibility, allowed: allowed}, nil
			})
			return r, err
		}
		e = &entry{logbook.KindCardSigned, logbook.CardSignedPayload(card.Hash(), card.Endpoint)}
	}
	if v.Registry != nil {
		if err := v.Registry.SetName(ctx, tx, id, r.Name); err != nil {
			return r, err
		}
	}
	return after, v.addChange(ctx, tx, &after, e)
}

// chosenBy returns the party that chose r's substrate or agent after the change c. If a tenant sets
// the current value again, the chooser stays the same. If the operator does, the operator becomes
// the chooser.
func (c *Changes) chosenBy(r *Record, next *definition.Agent) outbound.URLChooser {
	set := c.Substrate != nil || c.Agent != nil
	same := next == nil && (c.Substrate == nil || *c.Substrate == r.Substrate)
	if !set || same && c.By != Operator() {
		return r.Chooser
	}
	return ChooserOf(r.Tenant, c.By.chooser())
}

func (r *Record) setSubstrate(text *string, next *definition.Agent) (allowed []string, err error) {
	switch {
	case next != nil:
		r.next = next
		if r.Substrate, err = textOf(next); err != nil {
			return nil, err
		}
	case text != nil && *text != r.Substrate:
		r.Substrate = *text
	default:
		return nil, nil
	}
	spec, err := substrate.Parse(r.Substrate)
	return cardWords(spec, next), err
}

func (v *Directory) rename(ctx context.Context, tx *store.Tx, r *Record, c *Changes) error {
	if c.Name == nil || *c.Name == r.Name {
		return nil
	}
	old, err := NameDoc(ctx, tx, r.Name)
	if err != nil {
		return err
	}
	if err := v.claim(ctx, tx, c.By, *c.Name, r); err != nil {
		return err
	}
	if old.Key != NameKey(*c.Name) {
		tx.Delete(old.Key)
	}
	if !strings.EqualFold(*c.Name, r.Name) {
		err = r.giveUp(ctx, tx, old.Key)
	}
	r.Name = *c.Name
	return err
}

// done reports whether r already has all values in c, apart from the agent.
func (c *Changes) done(r *Record) bool {
	return (c.Name == nil || *c.Name == r.Name) && (c.Capability == nil || *c.Capability == r.Capability) &&
		(c.Substrate == nil || *c.Substrate == r.Substrate) && (c.Plain == nil || *c.Plain == r.KeylessAccess) &&
		(c.Work == nil || *c.Work == r.MaxCallTime)
}

func kindOf(text string) string {
	spec, _ := substrate.Parse(text)
	return spec.Kind
}
