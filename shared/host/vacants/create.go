package vacants

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody/sealed"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/tenant"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// CreateSpec describes a vacant to create or, if Key is set, to import from another host.
type CreateSpec struct {
	// Asker is the party that creates the vacant. It must know the vacants in Agent.Vacants that
	// are not public.
	Asker      Asker
	Name       string
	Capability string
	Substrate  string // string form of a substrate.Spec, or "" if Agent is set
	// Agent is the first version of the agent. If it is nil, the default agent of Substrate is
	// used.
	Agent       *definition.Agent
	Tenant      string        // "" means the operator
	CallTimeout time.Duration // zero means the host's limit

	Key     *identity.Key   // nil creates a new key
	Logbook []logbook.Entry // requires a Key
	// Manifest makes the vacant a child. It requires a Key.
	Manifest *composite.Manifest
	// Chains maps each vacant that this vacant has called to the state of the calls (bundle.Chain).
	// It requires a Key.
	Chains map[identity.ID][]byte
}

const (
	MaxLogbookEntries = 10_000
	MaxChains         = 1000
	MaxChainBytes     = 64 << 10
)

// Create creates a vacant in the state LOCAL or, if a logbook is given, in the state at its end. A
// repeated call with the same key and texts has no effect.
func (v *Directory) Create(ctx context.Context, s CreateSpec) (Record, error) {
	r, cardSubstrates, err := v.prepareCreation(s)
	if err != nil {
		return Record{}, err
	}
	base, err := v.requireBaseURL(ctx)
	if err != nil {
		return Record{}, err
	}
	if v.Registry != nil && s.Key != nil { // a revoked key must not return as a new vacant
		isRevoked, err := v.Registry.IsRevoked(ctx, s.Key.ID())
		if err == nil && isRevoked {
			err = problem.New(problem.Revoked, "the key of %s was revoked; its vacant cannot be hosted again", s.Key.ID().Short())
		}
		if err != nil {
			return Record{}, err
		}
	}
	if s.Agent != nil {
		self := Record{Tenant: s.Tenant} // resolveVacants uses only Tenant, ID and Parent
		if s.Key != nil {
			self.ID = s.Key.ID()
			m := s.Manifest
			if m == nil {
				d, ok, err := v.Manifest(ctx, self.ID)
				if err != nil {
					return Record{}, err
				}
				if ok {
					m = &d.Manifest
				}
			}
			if m != nil {
				self.Parent = &m.ParentID
			}
		}
		next, err := v.resolveVacants(ctx, s.Asker, &self, *s.Agent)
		if err != nil {
			return Record{}, err
		}
		r.nextAgent = &next
	}
	if err := v.Resources.CheckAgentOfTenant(ctx, r.Tenant, r.Substrate, r.nextAgent); err != nil {
		return Record{}, err
	}
	key, wipe, err := v.sealKey(ctx, &r, s.Key)
	if err != nil {
		return Record{}, err
	}
	defer wipe()
	c, err := signCard(ctx, &r, base, cardSubstrates, key)
	if err != nil {
		return Record{}, err
	}
	find := func(ctx context.Context) (Record, error) { return v.findExisting(ctx, &r, &s) }
	if existing, err := find(ctx); err != nil || !existing.ID.IsZero() {
		return existing, err
	}
	firstEntry := entry{logbook.KindGenesis, logbook.GenesisPayload(r.Name, r.ID)}
	if s.Key != nil {
		firstKind, err := v.importLogbook(ctx, &r, s.Logbook)
		if err != nil {
			return Record{}, err
		}
		if firstKind == logbook.KindBirth && v.Registry != nil && s.Manifest == nil {
			// A closed child without its manifest would be open on this host.
			_, ok, err := v.Registry.Manifest(ctx, r.ID)
			if err == nil && !ok {
				err = problem.Invalid("manifest", "the manifest of the child, whose logbook begins with "+logbook.KindBirth, "none")
			}
			if err != nil {
				return Record{}, err
			}
		}
		if firstKind != "" {
			firstEntry = entry{logbook.KindCardSigned, logbook.CardSignedPayload(c.Hash(), c.Endpoint)}
		}
	}
	// The chains of an aborted import remain stored but are not used.
	for target, data := range s.Chains {
		err := v.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			storedChain, d, err := ChainDocs.Get(ctx, tx, ChainDocs.Key(r.ID.String(), target.String()))
			if err != nil || d.Version > 0 && bytes.Equal(storedChain, data) {
				return err
			}
			ChainDocs.Put(tx, store.Doc{Key: d.Key}, data)
			return v.addQuotaBytes(ctx, tx, r.Tenant, int64(len(data)-len(storedChain)))
		})
		if err != nil {
			return Record{}, store.AsProblem(v.Quotas.ConvertError(err))
		}
		r.StoredBytes += int64(len(data))
	}
	return v.commitNew(ctx, s.Asker, key, base, nil, find, func(ctx context.Context, tx *store.Tx) (Record, entry, error) {
		created := r
		if v.Registry == nil || s.Key == nil {
			return created, firstEntry, nil
		}
		if m := s.Manifest; m != nil {
			added, err := v.Registry.AddManifest(ctx, tx, m)
			if err != nil {
				return created, firstEntry, err
			}
			if added {
				created.applyManifest(m)
				return created, firstEntry, v.markAsParent(ctx, tx, m.ParentID)
			}
		}
		// If another manifest is registered concurrently, tx conflicts.
		if err := v.Registry.AddConflictWrite(ctx, tx, created.ID); err != nil {
			return created, firstEntry, err
		}
		manifestDoc, ok, err := v.Registry.Manifest(ctx, created.ID)
		if err != nil {
			return created, firstEntry, err
		}
		if ok {
			created.applyManifest(&manifestDoc.Manifest)
			created.Closed = manifestDoc.IsClosed()
		}
		children, _, err := v.Registry.ListChildIDs(ctx, created.ID, "", 1)
		created.HasKin = created.HasKin || len(children) > 0
		return created, firstEntry, err
	})
}

func (v *Directory) sealKey(ctx context.Context, r *Record, importedKey *identity.Key) (key *identity.Key, wipe func(), err error) {
	if key, wipe = importedKey, func() {}; key == nil {
		if key, err = identity.NewKey(v.Rand); err != nil {
			return nil, nil, err
		}
		wipe = key.Wipe
	}
	r.ID = key.ID()
	if r.sealedSeed, err = sealed.Vacant.Seal(ctx, v.Vault, key); err != nil {
		wipe()
	}
	return key, wipe, err
}

// commitNew commits the vacant and the first logbook entry that add returns. After a conflict, find
// returns the vacant if another process has created it.
func (v *Directory) commitNew(ctx context.Context, asker Asker, key *identity.Key, base string, locks []identity.ID, find func(context.Context) (Record, error), add func(context.Context, *store.Tx) (Record, entry, error)) (r Record, err error) {
	isRetry := false
	attempt := func(ctx context.Context, tx *store.Tx) (err error) {
		if isRetry {
			if r, err = find(ctx); err != nil || !r.ID.IsZero() {
				return err
			}
		}
		isRetry = true
		var firstEntry entry
		if r, firstEntry, err = add(ctx, tx); err != nil {
			return err
		}
		if err := v.addEntry(ctx, tx, key, &firstEntry); err != nil {
			return err
		}
		r.ChangedAt = v.now()
		if err := v.addQuotaUse(ctx, tx, &r); err != nil {
			return err
		}
		if err := r.addTo(tx); err != nil {
			return err
		}
		err = v.claimName(ctx, tx, asker, r.Name, &r)
		// The name was taken concurrently, so the retry checks its owner again.
		if problem.Is(err, problem.Conflict) {
			err = &store.ConflictError{Key: NameKey(r.Name)}
		}
		return err
	}
	if err := func() error {
		unlock, err := v.logbookLocks.Lock(ctx, locks...)
		if err != nil {
			return err
		}
		defer unlock()
		return v.commitTx(ctx, attempt)
	}(); err != nil {
		return Record{}, err
	}
	if v.URL != "" {
		return r, nil
	}
	// A concurrent SetURL may have searched for cards before r existed, so the URL is compared
	// again. If this process crashes now, a repeated SetURL finds the card.
	if newBase, err := v.requireBaseURL(ctx); err != nil || newBase == base {
		return r, err
	} else if _, err := v.updateCardURL(ctx, r.ID, newBase); err != nil {
		return Record{}, err
	}
	return v.getAsOperator(ctx, r.ID)
}

func (v *Directory) prepareCreation(s CreateSpec) (r Record, cardSubstrates []string, err error) {
	if err := registry.CheckNewName(s.Name); err != nil {
		return r, nil, err
	}
	if err := checkCapability(s.Capability); err != nil {
		return r, nil, err
	}
	if err := tenant.Check(s.Tenant); err != nil {
		return r, nil, err
	}
	if s.CallTimeout != 0 {
		if err := CheckCallTimeout(s.CallTimeout); err != nil {
			return r, nil, err
		}
	}
	text, err := v.resolveSubstrateText(s.Substrate, s.Agent)
	if err != nil {
		return r, nil, err
	}
	spec, err := v.Resources.ParseSubstrate(text)
	if err != nil {
		return r, nil, err
	}
	if s.Key == nil && (len(s.Logbook) > 0 || len(s.Chains) > 0 || s.Manifest != nil) {
		return r, nil, problem.Invalid("key", "the key of the logbook, the chains and the manifest", "none")
	}
	if len(s.Logbook) > MaxLogbookEntries {
		return r, nil, problem.Invalid("logbook", fmt.Sprintf("at most %d entries", MaxLogbookEntries), fmt.Sprint(len(s.Logbook)))
	}
	if len(s.Chains) > MaxChains {
		return r, nil, problem.Invalid("chains", fmt.Sprintf("at most %d", MaxChains), fmt.Sprint(len(s.Chains)))
	}
	for target, chain := range s.Chains {
		if len(chain) == 0 || len(chain) > MaxChainBytes {
			return r, nil, problem.Invalid("chain with "+target.Short(), fmt.Sprintf("1 to %d bytes", MaxChainBytes), fmt.Sprint(len(chain)))
		}
	}
	if s.Key != nil {
		if err := s.Key.ID().Check(); err != nil {
			return r, nil, err
		}
		if err := logbook.VerifyChain(s.Key.ID(), s.Logbook); err != nil {
			return r, nil, problem.Wrap(problem.Untrusted, err, "the logbook does not verify: %v", err)
		}
		if m := s.Manifest; m != nil {
			if m.ChildID != s.Key.ID() {
				return r, nil, problem.Invalid("manifest", "the manifest of "+s.Key.ID().String(), "the manifest of "+m.ChildID.String())
			}
			if err := m.Check(); err != nil {
				return r, nil, err
			}
			if err := m.Verify(); err != nil {
				return r, nil, err
			}
		}
	}
	r = Record{
		Name: s.Name, State: lifecycle.Local, Capability: s.Capability, Substrate: spec.String(),
		Tenant: s.Tenant, Chooser: ChooserOf(s.Tenant, s.Asker.chooser()), CallTimeout: s.CallTimeout, CreatedAt: v.now(),
	}
	if s.Key != nil {
		r.Floor = v.newFloor() // another host may have answered earlier envelopes of callers
	}
	return r, listCardSubstrates(spec, s.Agent), nil
}

// findExisting returns the vacant that an earlier run of the command created with the same key, or
// the zero Record if r can be created. For a vacant of another tenant, the error contains only the
// id.
func (v *Directory) findExisting(ctx context.Context, r *Record, s *CreateSpec) (existing Record, err error) {
	found, ok, err := v.readRecord(ctx, r.ID)
	if err != nil {
		return Record{}, err
	}
	switch {
	case ok && found.Tenant != r.Tenant:
		return Record{}, problem.New(problem.Conflict, "vacant %s is or was hosted here for another tenant", r.ID.Short())
	case ok && found.IsDeleted():
		return Record{}, deletedError(&found)
	case ok && s.Key != nil && found.Name == r.Name && found.Capability == r.Capability && found.Substrate == r.Substrate:
		return found, found.checkParent(s.Manifest)
	case ok:
		return Record{}, problem.New(problem.Conflict, "vacant %s is hosted here already, as %s", r.ID.Short(), found.Name)
	}
	_, err = v.checkNameAvailable(ctx, v.Store, s.Asker, r.Name, r)
	return Record{}, store.AsProblem(err)
}

// importLogbook stores the entries of an imported logbook, with one commit per entry, and sets r's
// state to the state at the end of the logbook. If the process dies here, a repeated import
// continues. The vacant does not exist until its record is stored.
func (v *Directory) importLogbook(ctx context.Context, r *Record, entries []logbook.Entry) (firstKind string, err error) {
	storedEntries, err := v.readLogbook(ctx, r.ID)
	if err != nil {
		return "", err
	}
	for i := range min(len(storedEntries), len(entries)) {
		if storedEntries[i].Hash() != entries[i].Hash() {
			return "", problem.New(problem.Conflict, "logbook entry %d differs from the entry stored here: the key has two histories", i)
		}
	}
	longest := storedEntries
	if len(entries) > len(storedEntries) {
		longest = entries
	}
	for i := range longest {
		next, ok, err := longest[i].StateAfter(r.ID)
		if err != nil {
			return "", problem.Wrap(problem.Malformed, err, "logbook entry %d: %s", i, problem.AsError(err).Text())
		}
		if ok {
			r.State = next
		}
	}
	if r.State.IsRetired() {
		return "", problem.New(problem.Gone, "the logbook ends in the state %s; a vacant in this state cannot be hosted again", r.State)
	}
	// If the children are hosted on other hosts, only the logbook shows them.
	r.HasKin = slices.ContainsFunc(longest, func(e logbook.Entry) bool { return e.Kind == logbook.KindSpawn })
	s := store.StreamOf(store.KindLogbook, r.ID)
	for i := len(storedEntries); i < len(entries); i++ {
		writeID, err := v.updater().NewWriteID()
		if err != nil {
			return "", err
		}
		data, err := entries[i].MarshalBinary()
		if err != nil {
			return "", err
		}
		err = v.updater().Commit(ctx, store.Append{Stream: s, Position: uint64(i) + 1, WriteID: writeID, Data: data})
		var takenErr *store.TakenError
		// A concurrent run of the same import may have stored the entry.
		if err != nil && !(errors.As(err, &takenErr) && bytes.Equal(takenErr.Occupant.Data, data)) {
			return "", store.AsProblem(err)
		}
	}
	if len(longest) == 0 {
		return "", nil
	}
	return longest[0].Kind, nil
}

func (v *Directory) readLogbook(ctx context.Context, id identity.ID) ([]logbook.Entry, error) {
	var entries []logbook.Entry
	for {
		page, err := v.Logbook(ctx, id, uint64(len(entries))+1, MaxPage)
		if err != nil || len(page) == 0 {
			return entries, err
		}
		for _, p := range page {
			entries = append(entries, p.Entry)
		}
	}
}
