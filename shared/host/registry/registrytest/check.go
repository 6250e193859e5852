package registrytest

import (
	"context"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// Check returns all violations of the registry's invariants in s. For example, all events must form
// one chain, and each registration must match the last event of its vacant.
func Check(ctx context.Context, s store.Store) []error {
	c := checker{store: s, lastEvents: map[identity.ID]registry.LoggedEvent{}, firstSeqs: map[identity.ID]uint64{}}
	if err := c.checkChain(ctx); err != nil {
		return append(c.violations, err)
	}
	for id := range c.lastEvents {
		if err := c.checkActor(ctx, id); err != nil {
			c.violations = append(c.violations, err)
		}
	}
	return c.violations
}

type checker struct {
	store      store.Store
	lastEvents map[identity.ID]registry.LoggedEvent
	firstSeqs  map[identity.ID]uint64
	violations []error
}

func (c *checker) reportf(format string, args ...any) {
	c.violations = append(c.violations, fmt.Errorf(format, args...))
}

func (c *checker) checkChain(ctx context.Context) error {
	var prev identity.Hash
	for next := uint64(1); ; {
		rows, err := c.store.Rows(ctx, registry.EventStream(), next, store.MaxPage, store.Ascending)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, row := range rows {
			leaf, err := registry.DecodeEventRow(row)
			if err != nil {
				return err
			}
			if err := c.checkEvent(ctx, leaf, prev); err != nil {
				return err
			}
			prev, next = leaf.Hash, leaf.Seq+1
		}
	}
}

func (c *checker) checkEvent(ctx context.Context, leaf registry.EventLeaf, prev identity.Hash) error {
	actorRows, err := c.store.Rows(ctx, registry.ActorStream(leaf.Actor), uint64(leaf.ActorSeq), 1, store.Ascending)
	if err != nil {
		return err
	}
	if len(actorRows) == 0 {
		return fmt.Errorf("event %d is missing in its actor's stream", leaf.Seq)
	}
	logged, err := registry.DecodeActorRow(leaf.Actor, actorRows[0])
	if err != nil {
		return err
	}
	if logged.Seq != leaf.Seq || logged.Hash != leaf.Hash || logged.Prev != prev || leaf.Prev != prev || !logged.Verify() {
		c.reportf("event %d does not continue the chain", leaf.Seq)
	}
	if last := c.lastEvents[logged.Actor]; logged.ActorSeq != last.ActorSeq+1 || last.Type == event.Revoke {
		c.reportf("event %d of %s follows its event %d of type %s", logged.ActorSeq, logged.Actor.Short(), last.ActorSeq, last.Type)
	}
	if c.lastEvents[logged.Actor] = logged; c.firstSeqs[logged.Actor] == 0 {
		c.firstSeqs[logged.Actor] = logged.Seq
	}
	return nil
}

func (c *checker) checkActor(ctx context.Context, id identity.ID) error {
	lastEvent := c.lastEvents[id]
	tip, err := c.store.Tip(ctx, registry.ActorStream(id))
	if err != nil {
		return err
	}
	if tip.Position != uint64(lastEvent.ActorSeq) {
		c.reportf("%s has %d events, %d of them in the chain", id.Short(), tip.Position, lastEvent.ActorSeq)
	}
	revocation, err := c.store.Doc(ctx, registry.RevokedKey(id))
	if err != nil {
		return err
	}
	revoked := lastEvent.Type == event.Revoke
	if (revocation.Version > 0) != revoked {
		c.reportf("%s: revocation at version %d, its last event is %s", id.Short(), revocation.Version, lastEvent.Type)
	}
	doc, err := c.store.Doc(ctx, registry.RegistrationKey(id))
	if err != nil || doc.Version == 0 && revoked && lastEvent.ActorSeq == 1 {
		return err // the key was revoked without a registration
	}
	registration, err := registry.RegistrationDocs.Parse(doc)
	if err != nil {
		return err
	}
	if registration.LastSeq != lastEvent.Seq || registration.ActorSeq != lastEvent.ActorSeq || registration.FirstSeq != c.firstSeqs[id] || (registration.Status == registry.StatusRevoked) != revoked {
		c.reportf("registration of %s = last %d, count %d, joined %d, %s; its last event is %d", id.Short(), registration.LastSeq, registration.ActorSeq, registration.FirstSeq, registration.Status, lastEvent.Seq)
	}
	if revoked {
		return nil
	}
	payload, err := lastEvent.ParseRegister()
	if err == nil && (payload.CardHash != registration.CardHash || payload.Visibility != registration.SignedVisibility || registration.Closed && registration.Visibility != lifecycle.Hidden) {
		c.reportf("registration of %s = %s, %s, its event says %+v", id.Short(), registration.CardHash, registration.Visibility, payload)
	}
	return err
}
