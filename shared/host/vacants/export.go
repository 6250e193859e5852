package vacants

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody/sealed"
	"github.com/vacancy-host/vacancy/shared/host/vacants/bundle"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// Export returns id as a bundle with the unencrypted key, which the caller must wipe. It records
// the export in the logbook. The entry remains if a later step fails.
func (v *Directory) Export(ctx context.Context, id identity.ID) ([]byte, Record, error) {
	r, err := v.getAsOperator(ctx, id)
	if err != nil {
		return nil, r, err
	}
	if r.IsDeleted() {
		return nil, Record{}, deletedError(&r)
	}
	// The key is opened first, so that an unreachable vault leaves no entry.
	key, err := sealed.Vacant.Open(ctx, v.Vault, id, r.sealedSeed)
	if err != nil {
		return nil, Record{}, err
	}
	defer key.Wipe()
	base, err := v.BaseURL(ctx)
	if err != nil {
		return nil, Record{}, err
	}
	r, err = v.changeRecord(ctx, id, func(r *Record) (*entry, error) {
		if r.IsDeleted() {
			return nil, deletedError(r)
		}
		return &entry{logbook.KindKeyExported, logbook.KeyExportedPayload(base)}, nil
	})
	if err != nil {
		return nil, Record{}, err
	}
	b := bundle.Bundle{Name: r.Name, Key: key}
	if c, err := card.Parse(r.Card); err == nil { // vacancy verify reports a damaged card
		b.Card = c.Blob()
	}
	m, isChild, err := v.Manifest(ctx, id)
	if err != nil {
		return nil, Record{}, err
	}
	if isChild {
		b.Manifest = m.Manifest.Blob()
	}
	if r.AgentVersion > 0 {
		a, err := v.agentVersion(ctx, id, r.AgentVersion)
		if err != nil {
			return nil, Record{}, err
		}
		b.Agent = a.Blob()
	}
	if b.Logbook, err = v.readLogbook(ctx, id); err != nil {
		return nil, Record{}, err
	}
	if b.Chains, err = v.loadChains(ctx, id); err != nil {
		return nil, Record{}, err
	}
	return b.AppendJSON(nil, v.now()), r, nil
}

func (v *Directory) loadChains(ctx context.Context, id identity.ID) ([]bundle.Chain, error) {
	var chains []bundle.Chain
	for d, err := range store.Documents(ctx, v.Store, ChainDocs.Range(id.String())) {
		if err != nil {
			return nil, store.AsProblem(err)
		}
		parts, _ := ChainDocs.Parts(d.Key)
		target, err := identity.ParseID(parts[1])
		if err != nil {
			return nil, problem.Wrap(problem.Damaged, err, "vacant %s has a chain whose target is not an id", id.Short())
		}
		chains = append(chains, bundle.Chain{Target: target, State: d.Data})
	}
	return chains, nil
}
