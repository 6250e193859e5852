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

// Spec describes a vacant to create. A Spec with a Key imports a vacant that
// lived elsewhere: its logbook is continued, and its chains as a caller are
// kept.
type Spec struct {
	// By creates the vacant, and so chose Substrate and Agent. The Vacants of the agent
	// are some that By knows, or public ones.
	By         Asker
	Name       string
	Capability string
	Substrate  string // a substrate.Spec in its text form; "" if there is an Agent
	// Agent is the first version of the agent, whose Vacants may be names. With nil,
	// the agent has the defaults of Substrate.
	Agent  *definition.Agent
	Tenant string        // tenant that the vacant is hosted for; may be ""
	Work   time.Duration // bound of a call; zero means the host's

	Key     *identity.Key   // nil makes a new key
	Logbook []logbook.Entry // only with a Key; may be empty
	// Manifest makes the vacant a child; only with a Key. It may be nil if the
	// registry has the manifest. A logbook that begins with BIRTH needs one or
	// the other.
	Manifest *composite.Manifest
	Chains   map[identity.ID][]byte // only with a Key; by target, documents of the caller's state
}

// Limits of an import.
const (
	MaxEntries = 10_000
	MaxChains  = 1000
	MaxChain   = 64 << 10 // bytes of one chain
)

// Create makes a vacant. Its state is LOCAL, or the state at the end of the
// given logbook; a terminal state is refused with Gone. A taken name is refused
// with Conflict. Repeating the call with the same key and text succeeds without
// effect.
func (v *Directory) Create(ctx context.Context, s Spec) (Record, error) {
	r, allowed, err := v.plan(s)
	if err != nil {
		return Record{}, err
	}
	base, err := v.base(ctx)
	if err != nil {
		return Record{}, err
	}
	if err := v.trusted(ctx, s.Key); err != nil {
		return Record{}, err
	}
	key := s.Key
	if s.Agent != nil {
		self, err := v.importing(ctx, &s)
		if err != nil {
			return Record{}, err
		}
		next, err := v.resolved(ctx, s.By, &self, *s.Agent)
		if err != nil {
			return Record{}, err
		}
		r.next = &next
	}
	if err := v.Resources.CheckTenant(ctx, r.Tenant, r.Substrate, r.next); err != nil {
		return Record{}, err
	}
	if key == nil {
		if key, err = identity.NewKey(v.Rand); err != nil {
			return Record{}, err
		}
		defer key.Wipe()
	}
	r.ID = key.ID()
	if r.seed, err = sealed.Vacant.Seal(ctx, v.Vault, key); err != nil {
		return Record{}, err
	}
	c, err := sign(ctx, &r, base, allowed, key)
	if err != nil {
		return Record{}, err
	}
	if there, err := v.present(ctx, &r, &s); there != nil || err != nil {
		return deref(there), err
	}
	first := &entry{logbook.KindGenesis, logbook.Genesis(r.Name, r.ID)}
	if s.Key != nil {
		began, err := v.importLogbook(ctx, &r, s.Logbook)
		if err != nil {
			return Record{}, err
		}
		if began == logbook.KindBirth {
			if err := v.needManifest(ctx, r.ID, s.Manifest); err != nil {
				return Record{}, err
			}
		}
		if began != "" {
			first = &entry{logbook.KindCardSigned, logbook.CardSigned(c.Hash(), c.Endpoint)}
		}
	}
	if err := v.keepChains(ctx, &r, s.Chains); err != nil {
		return Record{}, err
	}
	if r, err = v.found(ctx, r, first, &s); err != nil || v.URL != "" {
		return r, err
	}
	return v.currentCard(ctx, r, base)
}

// importing returns the known part of the vacant of s before it has a record: its
// tenant, and, if it has a key already, its id and its parent.
func (v *Directory) importing(ctx context.Context, s *Spec) (self Record, err error) {
	self.Tenant = s.Tenant
	if s.Key == nil {
		return self, nil
	}
	self.ID = s.Key.ID()
	m := s.Manifest
	if m == nil {
		d, ok, err := v.Manifest(ctx, self.ID)
		if err != nil || !ok {
			return self, err
		}
		m = &d.Manifest
	}
	self.Parent = &m.ParentID
	return self, nil
}

// currentCard signs r's card again if the host's URL changed while r was
// created: SetURL stores the URL before it looks for cards and may have missed
// r. After a crash here, a repeated SetURL finds the card.
func (v *Directory) currentCard(ctx context.Context, r Record, signed string) (Record, error) {
	base, err := v.base(ctx)
	if err != nil || base == signed {
		return r, err
	}
	if _, err := v.rebase(ctx, r.ID, base); err != nil {
		return Record{}, err
	}
	return v.get(ctx, r.ID)
}

// plan makes the checks that need no store.
func (v *Directory) plan(s Spec) (r Record, allowed []string, err error) {
	if err := registry.CheckNewName(s.Name); err != nil {
		return r, nil, err
	}
	if err := checkCapability(s.Capability); err != nil {
		return r, nil, err
	}
	if err := tenant.Check(s.Tenant); err != nil {
		return r, nil, err
	}
	if s.Work != 0 {
		if err := CheckWork(s.Work); err != nil {
			return r, nil, err
		}
	}
	text, err := v.substrateText(s.Substrate, s.Agent)
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
	if len(s.Logbook) > MaxEntries {
		return r, nil, problem.Invalid("logbook", fmt.Sprintf("at most %d entries", MaxEntries), fmt.Sprint(len(s.Logbook)))
	}
	if len(s.Chains) > MaxChains {
		return r, nil, problem.Invalid("chains", fmt.Sprintf("at most %d", MaxChains), fmt.Sprint(len(s.Chains)))
	}
	for target, chain := range s.Chains {
		if len(chain) == 0 || len(chain) > MaxChain {
			return r, nil, problem.Invalid("chain with "+target.Short(), fmt.Sprintf("1 to %d bytes", MaxChain), fmt.Sprint(len(chain)))
		}
	}
	if s.Key != nil {
		if err := s.Key.ID().Check(); err != nil {
			return r, nil, err
		}
		if err := logbook.VerifyChain(s.Key.ID(), s.Logbook); err != nil {
			return r, nil, problem.Wrap(problem.Untrusted, err, "the logbook does not verify: %v", err)
		}
		if err := checkOwn(s.Manifest, s.Key.ID()); err != nil {
			return r, nil, err
		}
	}
	r = Record{
		Name: s.Name, State: lifecycle.Local, Capability: s.Capability, Substrate: spec.String(),
		Tenant: s.Tenant, By: ChooserOf(s.Tenant, s.By.chooser()), Work: s.Work, Created: v.now(),
	}
	if s.Key != nil {
		r.Floor = v.floor() // another host may have answered what callers signed before
	}
	return r, cardWords(spec, s.Agent), nil
}

// present looks for what prevents r: nothing (nil), the requested vacant itself
// (returned, if the key was given: a repeated command), another vacant or
// another's child (Conflict). A vacant of another tenant is refused without a word
// about it, though who asks holds its key.
func (v *Directory) present(ctx context.Context, r *Record, s *Spec) (*Record, error) {
	there, ok, err := v.read(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	switch {
	case ok && there.Tenant != r.Tenant:
		return nil, problem.New(problem.Conflict, "vacant %s is or was hosted here for another tenant", r.ID.Short())
	case ok && there.IsDeleted():
		return nil, deleted(&there)
	case ok && s.Key != nil && there.Name == r.Name && there.Capability == r.Capability && there.Substrate == r.Substrate:
		return &there, there.stays(s.Manifest)
	case ok:
		return nil, problem.New(problem.Conflict, "vacant %s is hosted here already, as %s", r.ID.Short(), there.Name)
	}
	_, err = v.checkName(ctx, v.Store, s.By, r.Name, r)
	return nil, store.Problem(err)
}

// found creates r in one commit: record, name, logbook entry and, for an
// imported child, its kinship.
func (v *Directory) found(ctx context.Context, r Record, first *entry, s *Spec) (Record, error) {
	var there *Record
	retried := false
	var made Record
	err := v.update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if retried {
			// Another writer took the name, the id or the next place in the logbook.
			if there, err = v.present(ctx, &r, s); there != nil || err != nil {
				return err
			}
		}
		retried = true
		made = r
		if err := v.addKinship(ctx, tx, &made, s); err != nil {
			return err
		}
		if err := v.addChange(ctx, tx, &made, first); err != nil {
			return err
		}
		return v.claimFree(ctx, tx, s.By, made.Name, &made)
	})
	switch {
	case err != nil:
		return Record{}, err
	case there != nil:
		return *there, nil
	}
	return made, nil
}

// addKinship makes r, which is imported, the child of the parent in its
// manifest: the one in the import, or else the one in the registry. tx conflicts
// if another manifest is registered first.
func (v *Directory) addKinship(ctx context.Context, tx *store.Tx, r *Record, s *Spec) error {
	if v.Registry == nil || s.Key == nil {
		return nil
	}
	m := s.Manifest
	if m != nil {
		added, err := v.Registry.AddManifest(ctx, tx, m)
		if err != nil {
			return err
		}
		if added {
			r.bind(m)
			return v.markParent(ctx, tx, m.ParentID)
		}
	}
	if err := v.Registry.AddGuard(ctx, tx, r.ID); err != nil {
		return err
	}
	known, ok, err := v.Registry.Manifest(ctx, r.ID)
	if err != nil {
		return err
	}
	if ok {
		r.bind(&known.Manifest)
		r.Closed = known.Closed()
	}
	children, _, err := v.Registry.Children(ctx, r.ID, "", 1)
	r.Kin = r.Kin || len(children) > 0
	return err
}

// needManifest refuses a child whose manifest is neither given nor in the
// registry: without a manifest a closed child would be open here.
func (v *Directory) needManifest(ctx context.Context, id identity.ID, m *composite.Manifest) error {
	if v.Registry == nil || m != nil {
		return nil
	}
	_, ok, err := v.Registry.Manifest(ctx, id)
	if err == nil && !ok {
		err = problem.Invalid("manifest", "the manifest of the child, whose logbook begins with "+logbook.KindBirth, "none")
	}
	return err
}

// checkOwn checks that m, if not nil, is a manifest of child.
func checkOwn(m *composite.Manifest, child identity.ID) error {
	if m == nil {
		return nil
	}
	if m.ChildID != child {
		return problem.Invalid("manifest", "the manifest of "+child.String(), "the manifest of "+m.ChildID.String())
	}
	if err := m.Check(); err != nil {
		return err
	}
	return m.Verify()
}

// stateOf returns the state at the end of owner's logbook.
func stateOf(owner identity.ID, entries []logbook.Entry) (lifecycle.State, error) {
	state := lifecycle.Local
	for i := range entries {
		next, ok, err := entries[i].State(owner)
		if err != nil {
			return "", problem.Wrap(problem.Malformed, err, "logbook entry %d: %s", i, problem.Of(err).Text())
		}
		if ok {
			state = next
		}
	}
	if state.Closed() {
		return "", problem.New(problem.Gone, "the logbook ends in %s; a closed vacant is not hosted again", state)
	}
	return state, nil
}

// importLogbook stores the entries of an imported logbook, one commit each. A
// logbook without a record is not a vacant yet, so a crash leaves only entries
// that the repeated import finds. Stored entries must be a prefix of the
// import, or the import a prefix of them. r gets the state at the end of the
// logbook; began is the kind of its first entry, "" if it is empty.
func (v *Directory) importLogbook(ctx context.Context, r *Record, entries []logbook.Entry) (began string, err error) {
	kept, err := v.kept(ctx, r.ID)
	if err != nil {
		return "", err
	}
	for i := range min(len(kept), len(entries)) {
		if kept[i].Hash() != entries[i].Hash() {
			return "", problem.New(problem.Conflict, "logbook entry %d differs from the one kept here: two histories under one key", i)
		}
	}
	whole := kept
	if len(entries) > len(kept) {
		whole = entries
	}
	if r.State, err = stateOf(r.ID, whole); err != nil {
		return "", err
	}
	// The children may be hosted elsewhere; then only the logbook shows them.
	r.Kin = slices.ContainsFunc(whole, func(e logbook.Entry) bool { return e.Kind == logbook.KindSpawn })
	s := store.StreamOf(store.KindLogbook, r.ID)
	for i := len(kept); i < len(entries); i++ {
		if err := v.importEntry(ctx, s, uint64(i)+1, &entries[i]); err != nil {
			return "", err
		}
	}
	if len(whole) == 0 {
		return "", nil
	}
	return whole[0].Kind, nil
}

// kept returns the whole stored logbook of id.
func (v *Directory) kept(ctx context.Context, id identity.ID) ([]logbook.Entry, error) {
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

func (v *Directory) importEntry(ctx context.Context, s store.Stream, p uint64, e *logbook.Entry) error {
	writeID, err := v.updater().NewWriteID()
	if err != nil {
		return err
	}
	data, err := e.MarshalBinary()
	if err != nil {
		return err
	}
	err = v.updater().Commit(ctx, store.Append{Stream: s, Position: p, WriteID: writeID, Data: data})
	var taken *store.TakenError
	if errors.As(err, &taken) && bytes.Equal(taken.Occupant.Data, data) {
		return nil // the same import runs twice
	}
	return store.Problem(err)
}

// keepChains stores the caller's chains before the record exists. An aborted
// import leaves chains that nobody reads.
func (v *Directory) keepChains(ctx context.Context, r *Record, chains map[identity.ID][]byte) error {
	for target, data := range chains {
		err := v.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			kept, d, err := ChainDocs.Get(ctx, tx, ChainDocs.Key(r.ID.String(), target.String()))
			if err != nil || d.Version > 0 && bytes.Equal(kept, data) {
				return err
			}
			ChainDocs.Put(tx, store.Doc{Key: d.Key}, data)
			return v.useBytes(ctx, tx, r.Tenant, int64(len(data)-len(kept)))
		})
		if err != nil {
			return store.Problem(v.Quotas.Explain(err))
		}
		r.Stored += int64(len(data))
	}
	return nil
}

// deref returns the value that p points to, or the zero T.
func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
