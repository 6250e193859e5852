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
	// Asker must know the vacants in Agent.Vacants that are not public.
	Asker            Asker
	Name, Capability *string
	Substrate        *string // string form of a substrate.Spec
	// Agent is the next version of the agent. Agent and Substrate exclude each other.
	Agent *definition.Agent
	// If IfAgentVersion is set and the agent has another version, Update fails.
	IfAgentVersion *int
	KeylessAccess  *KeylessAccess
	CallTimeout    *time.Duration // zero means the host's limit
	// If IfChanged is set and differs from the record's ChangedAt, Update fails.
	IfChanged time.Time
}

// Update changes a vacant that is not terminal. If the card changes, the same commit contains the
// new card and, for a published vacant, its publication.
func (v *Directory) Update(ctx context.Context, id identity.ID, c Changes) (Record, error) {
	if err := v.checkChanges(&c); err != nil {
		return Record{}, err
	}
	if err := v.preloadKey(ctx, id); err != nil {
		return Record{}, err
	}
	ctx, cancel := store.WithDefaultTimeout(ctx)
	defer cancel()
	lock := v.lockWithTurn
	if v.Registry == nil {
		lock = v.logbookLocks.Lock
	}
	unlock, err := lock(ctx, id)
	if err != nil {
		return Record{}, err
	}
	defer unlock()
	var r Record
	err = v.commitTx(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		r, err = v.updateOnce(ctx, tx, id, &c)
		return err
	})
	return r, err
}

func (v *Directory) checkChanges(c *Changes) error {
	if c.Name == nil && c.Capability == nil && c.Substrate == nil && c.Agent == nil && c.KeylessAccess == nil && c.CallTimeout == nil {
		return problem.Invalid("changes", "name, capability, substrate, agent, plain or work", "none of them")
	}
	if c.CallTimeout != nil && *c.CallTimeout != 0 {
		if err := CheckCallTimeout(*c.CallTimeout); err != nil {
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
		_, err := v.resolveSubstrateText(text, c.Agent)
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
	chooser := c.nextChooser(&r, next)
	if err != nil || c.isApplied(&r) && next == nil && chooser == r.Chooser {
		return r, err
	}
	switch {
	case c.IfAgentVersion != nil && *c.IfAgentVersion != r.AgentVersion:
		return r, problem.New(problem.Conflict, "the agent of vacant %s is at version %d, not %d; read the vacant again and repeat the change", r.Name, r.AgentVersion, *c.IfAgentVersion)
	case !c.IfChanged.IsZero() && !r.ChangedAt.Equal(c.IfChanged):
		return r, problem.New(problem.Conflict, "vacant %s was changed concurrently; read the vacant again and repeat the change", r.Name)
	case r.State.IsRetired():
		return r, problem.New(problem.Conflict, "vacant %s is %s; it cannot be updated", r.Name, r.State)
	}
	if err := v.rename(ctx, tx, &r, c); err != nil {
		return r, err
	}
	if c.KeylessAccess != nil {
		r.KeylessAccess = *c.KeylessAccess
	}
	if c.CallTimeout != nil {
		r.CallTimeout = *c.CallTimeout
	}
	r.Chooser = chooser
	cardSubstrates, err := r.setSubstrate(c.Substrate, next)
	if err == nil && (c.Substrate != nil || next != nil) {
		err = v.Resources.CheckAgentOfTenant(ctx, r.Tenant, r.Substrate, next)
	}
	if err != nil {
		return r, err
	}
	base, err := v.requireBaseURL(ctx)
	if err != nil {
		return r, err
	}
	capability := r.Capability
	if c.Capability != nil {
		capability = *c.Capability
	}
	updated := r
	card, isCardNew, err := v.getOrSignCard(ctx, &updated, base, capability, cardSubstrates)
	if err != nil {
		return r, err
	}
	e := &entry{logbook.KindUpdated, logbook.UpdatedPayload(r.Name, substrateKind(r.Substrate))}
	if isCardNew {
		isPublished, err := v.isPublished(ctx, id)
		if err != nil {
			return r, err
		}
		if isPublished {
			r, _, err = v.publishOnce(ctx, tx, r, "updated", func(registration *registry.Registration) (PublishOptions, error) {
				return PublishOptions{Capability: &capability, Visibility: &registration.SignedVisibility, cardSubstrates: cardSubstrates}, nil
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
	return updated, v.addChange(ctx, tx, &updated, e)
}

// nextChooser returns the party that chose r's substrate or agent after the change c. A tenant that
// sets the current value again does not become the chooser.
func (c *Changes) nextChooser(r *Record, next *definition.Agent) outbound.URLChooser {
	isSet := c.Substrate != nil || c.Agent != nil
	isSame := next == nil && (c.Substrate == nil || *c.Substrate == r.Substrate)
	if !isSet || isSame && c.Asker != OperatorAsker() {
		return r.Chooser
	}
	return ChooserOf(r.Tenant, c.Asker.chooser())
}

func (r *Record) setSubstrate(text *string, next *definition.Agent) (cardSubstrates []string, err error) {
	switch {
	case next != nil:
		r.nextAgent = next
		if r.Substrate, err = formatSubstrate(next); err != nil {
			return nil, err
		}
	case text != nil && *text != r.Substrate:
		r.Substrate = *text
	default:
		return nil, nil
	}
	spec, err := substrate.Parse(r.Substrate)
	return listCardSubstrates(spec, next), err
}

func (v *Directory) rename(ctx context.Context, tx *store.Tx, r *Record, c *Changes) error {
	if c.Name == nil || *c.Name == r.Name {
		return nil
	}
	old, err := ReadNameDoc(ctx, tx, r.Name)
	if err != nil {
		return err
	}
	if err := v.claimName(ctx, tx, c.Asker, *c.Name, r); err != nil {
		return err
	}
	if old.Key != NameKey(*c.Name) {
		tx.Delete(old.Key)
	}
	if !strings.EqualFold(*c.Name, r.Name) {
		err = r.reserveOldName(ctx, tx, old.Key)
	}
	r.Name = *c.Name
	return err
}

// isApplied reports whether r already has all values in c, apart from the agent.
func (c *Changes) isApplied(r *Record) bool {
	return (c.Name == nil || *c.Name == r.Name) && (c.Capability == nil || *c.Capability == r.Capability) &&
		(c.Substrate == nil || *c.Substrate == r.Substrate) && (c.KeylessAccess == nil || *c.KeylessAccess == r.KeylessAccess) &&
		(c.CallTimeout == nil || *c.CallTimeout == r.CallTimeout)
}

func substrateKind(text string) string {
	spec, _ := substrate.Parse(text)
	return spec.Kind
}
