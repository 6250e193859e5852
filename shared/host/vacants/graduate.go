package vacants

import (
	"context"
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// Graduation describes a closed child that has passed the gate, which checks whether it may become public.
type Graduation struct {
	Request   composite.GraduationRequest // signed by both parties
	Artefacts Artefacts
	When      time.Time // time of the register event
}

// Artefacts contains the signatures that a party created in advance, because this host does not
// have its key. Artefacts of a hosted party are ignored.
type Artefacts struct {
	// ManifestParent and ManifestChild sign the open manifest, which is the Graduated form of the
	// registered manifest.
	ManifestParent, ManifestChild []byte
	// Card is the serialized card of a child on another host. The fields after Card belong to the
	// child's register event.
	Card      []byte
	Time      int64 // Unix milliseconds
	ActorSeq  int64
	Key       string
	Signature []byte
}

func (a *Artefacts) IsZero() bool {
	return len(a.ManifestParent)+len(a.ManifestChild)+len(a.Card)+len(a.Signature) == 0 && a.Time == 0 && a.ActorSeq == 0 && a.Key == ""
}

type GraduationResult struct {
	Manifest composite.Manifest
	Card     card.Card
	Receipt  registry.Receipt
}

// LockGraduation locks the logbooks of parent and child and takes the registry's turn (its lock for
// appending events), so that the caller can plan and commit a graduation. It returns a function
// that releases all three locks.
func (v *Directory) LockGraduation(ctx context.Context, parent, child identity.ID) (done func(), err error) {
	if v.Registry == nil {
		return nil, problem.New(problem.Conflict, "this host has no registry")
	}
	end, err := v.lockAll(ctx, parent, child)
	if err != nil {
		return nil, err
	}
	return func() {
		v.memory.forget() // even if the outcome of the commit is unknown
		end()
	}, nil
}

// AddGraduation adds to tx the writes that make a closed child public: the open manifest, the
// records of child and parent with an entry in both logbooks, the card with its endpoint, and the
// register event. It omits the record and the entry of a party that is not hosted here. The caller
// must hold the locks of LockGraduation until tx is committed.
//
// AddGraduation checks again everything that may have changed since the gate's checks. The kind of an error is
// Consent, NotFound for an unknown child, Graduated for an open child, Revoked, Conflict for a
// party that cannot be called or a parent that is a closed child, and Malformed for a missing
// signature of a party on another host.
func (v *Directory) AddGraduation(ctx context.Context, tx *store.Tx, g Graduation) (GraduationResult, error) {
	p, err := v.graduating(ctx, &g)
	if err != nil {
		return GraduationResult{}, err
	}
	p.tx = tx
	for _, step := range []func(context.Context, *graduating) error{v.openManifest, v.publicCard, v.announceChild, v.graduationEntries} {
		if err := step(ctx, p); err != nil {
			if store.IsConflict(err) {
				return GraduationResult{}, err
			}
			return GraduationResult{}, store.AsProblem(err)
		}
	}
	return p.made, nil
}

// graduating is a graduation that is being planned.
type graduating struct {
	Graduation
	parent, child     Record             // records after the graduation, or zero if not hosted here
	before            composite.Manifest // the child's manifest before the graduation
	publication       registry.Publication
	made              GraduationResult
	tx                *store.Tx
	hasParent, hasKid bool // whether parent and child are hosted here
}

func (v *Directory) graduating(ctx context.Context, g *Graduation) (*graduating, error) {
	p := &graduating{Graduation: *g}
	r := &p.Request
	if err := r.Verify(); err != nil {
		return nil, err
	}
	doc, ok, err := v.Manifest(ctx, r.ChildID)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, registry.UnknownChildError(r.ChildID)
	case doc.Manifest.ParentID != r.ParentID:
		return nil, problem.New(problem.Consent, "graduation request names the parent %s, the manifest %s", r.ParentID.Short(), doc.Manifest.ParentID.Short())
	}
	p.before = doc.Manifest
	gone, err := v.Registry.AnyRevoked(ctx, r.ParentID, r.ChildID)
	if err != nil {
		return nil, err
	}
	for i, id := range []identity.ID{r.ParentID, r.ChildID} {
		if gone[i] {
			return nil, problem.New(problem.Revoked, "the key of vacant %s was revoked", id.Short())
		}
	}
	if p.parent, p.hasParent, err = v.restoreState(ctx, r.ParentID); err != nil {
		return nil, err
	}
	if p.child, p.hasKid, err = v.restoreState(ctx, r.ChildID); err != nil {
		return nil, err
	}
	if !p.hasParent && !p.hasKid {
		return nil, registry.UnknownChildError(r.ChildID)
	}
	// The public card would name the parent, but a closed child must look as if it were not hosted
	// here.
	closed := p.parent.Closed
	if !p.hasParent {
		above, ok, err := v.Manifest(ctx, p.Request.ParentID)
		if err != nil {
			return nil, err
		}
		closed = ok && above.IsClosed()
	}
	if closed {
		return nil, problem.New(problem.Conflict, "the parent %s is a closed child itself; it must graduate first", p.Request.ParentID.Short())
	}
	return p, nil
}

func (v *Directory) restoreState(ctx context.Context, id identity.ID) (Record, bool, error) {
	r, ok, err := v.read(ctx, id)
	if err != nil || !ok {
		return Record{}, false, err
	}
	if !r.State.CanBeCalled() {
		return Record{}, false, problem.New(problem.Conflict, "vacant %s is %s; only a vacant that is %s or %s can take part in a graduation", r.Name, r.State, lifecycle.Local, lifecycle.Active)
	}
	return r, true, nil
}

func (v *Directory) openManifest(ctx context.Context, p *graduating) error {
	m := p.before.AfterGraduation()
	for _, party := range []struct {
		role      string
		here      bool
		record    *Record
		sign      func(context.Context, identity.Signer) error
		signature *[]byte
		sent      []byte
	}{
		{"parent", p.hasParent, &p.parent, m.SignParent, &m.SignatureParent, p.Artefacts.ManifestParent},
		{"child", p.hasKid, &p.child, m.SignChild, &m.SignatureChild, p.Artefacts.ManifestChild},
	} {
		if !party.here {
			if len(party.sent) == 0 {
				return problem.Invalid("artefacts.manifest_signature_"+party.role, "the signature of the "+party.role+", who is not hosted here", "none")
			}
			*party.signature = party.sent
			continue
		}
		signer, err := v.signers.Signer(ctx, party.record.ID, party.record.seed)
		if err != nil {
			return err
		}
		if err := party.sign(ctx, signer); err != nil {
			return err
		}
	}
	p.made.Manifest = m
	return p.before.CheckGraduation(&m)
}

func (v *Directory) publicCard(ctx context.Context, p *graduating) error {
	if !p.hasKid {
		const field = "artefacts.capability_card_blob_hex"
		if len(p.Artefacts.Card) == 0 {
			return problem.Invalid(field, "the card of the child, who is not hosted here", "none")
		}
		c, err := card.Parse(p.Artefacts.Card)
		if err != nil {
			return err
		}
		switch {
		case c.VacantID != p.Request.ChildID || !c.Verify():
			return problem.Invalid(field, "a card that the child has signed", "another")
		case c.CapabilityText != p.Request.CapabilityText:
			return problem.Invalid(field, "the capability text of the request", clip(c.CapabilityText))
		case c.Endpoint == "":
			return problem.Invalid(field, "an endpoint", "none")
		}
		p.made.Card, p.publication.Card = c, p.Artefacts.Card
		return nil
	}
	if err := checkCapability(p.Request.CapabilityText); err != nil {
		return err
	}
	base, err := v.base(ctx)
	if err != nil {
		return err
	}
	p.made.Card, _, err = v.current(ctx, &p.child, base, p.Request.CapabilityText, nil)
	p.publication.Card = p.child.Card
	return err
}

func (v *Directory) announceChild(ctx context.Context, p *graduating) error {
	n := &p.publication
	n.State, n.Visibility, n.Name = lifecycle.Active, lifecycle.Public, p.child.Name
	if !p.hasKid {
		a := &p.Artefacts
		n.Time, n.ActorSeq, n.Key, n.Signature = a.Time, a.ActorSeq, a.Key, a.Signature
	} else {
		registration, _, err := v.Registry.Get(ctx, p.child.ID)
		if err != nil {
			return err
		}
		signer, err := v.signers.Signer(ctx, p.child.ID, p.child.seed)
		if err != nil {
			return err
		}
		c := &p.made.Card
		e := event.Event{
			Type: event.Register, Actor: p.child.ID, Time: p.When.UnixMilli(), ActorSeq: registration.ActorSeq + 1,
			Key:     fmt.Sprintf("graduate:%d", registration.ActorSeq+1),
			Payload: event.RegisterPayload(c.Hash(), c.HaloVersion, p.child.ID, lifecycle.Public),
		}
		if registration.FirstSeq > 0 && registration.CardHash != c.Hash() {
			e.Key = event.ReplacesKeyAt(registration.CardHash, e.ActorSeq)
		}
		if err := e.Sign(ctx, signer); err != nil {
			return err
		}
		n.Time, n.ActorSeq, n.Key, n.Signature = e.Time, e.ActorSeq, e.Key, e.Signature
	}
	receipt, err := v.Registry.Graduate(ctx, p.tx, *n, p.made.Manifest, p.hasKid)
	if err != nil && p.hasKid {
		err = v.asConflict(ctx, p.child.ID, n.ActorSeq, err)
	}
	if err != nil {
		return err
	}
	p.made.Receipt = receipt
	return nil
}

func (v *Directory) graduationEntries(ctx context.Context, p *graduating) error {
	e := &entry{logbook.KindGraduated, logbook.Graduation{
		Parent: p.Request.ParentID, Child: p.Request.ChildID, Capability: p.Request.CapabilityText,
	}.Payload()}
	if p.hasKid {
		p.child.State = lifecycle.Active
		p.child.bind(&p.made.Manifest)
		if err := v.addChange(ctx, p.tx, &p.child, e); err != nil {
			return err
		}
	}
	if !p.hasParent {
		return nil
	}
	return v.addChange(ctx, p.tx, &p.parent, e)
}
