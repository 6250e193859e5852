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

type Graduation struct {
	Request   composite.GraduationRequest
	Artefacts Artefacts
	EventTime time.Time
}

// Artefacts contains the signatures that a party on another host created in advance, because this
// host does not have its key.
type Artefacts struct {
	// ManifestParent and ManifestChild are signatures of the open manifest.
	ManifestParent, ManifestChild []byte
	// Card is the serialized card of a child on another host. The fields after Card belong to the
	// child's register event.
	Card           []byte
	Time           int64 // Unix milliseconds
	ActorSeq       int64
	IdempotencyKey string
	Signature      []byte
}

func (a *Artefacts) IsZero() bool {
	return len(a.ManifestParent)+len(a.ManifestChild)+len(a.Card)+len(a.Signature) == 0 && a.Time == 0 && a.ActorSeq == 0 && a.IdempotencyKey == ""
}

type GraduationResult struct {
	Manifest composite.Manifest
	Card     card.Card
	Receipt  registry.Receipt
}

// LockGraduation locks the logbooks of parent and child and acquires the registry's turn, which is
// its lock for appending events. unlock releases all locks.
func (v *Directory) LockGraduation(ctx context.Context, parent, child identity.ID) (unlock func(), err error) {
	if v.Registry == nil {
		return nil, problem.New(problem.Conflict, "this host has no registry")
	}
	unlockAll, err := v.lockWithTurn(ctx, parent, child)
	if err != nil {
		return nil, err
	}
	return func() {
		v.cache.invalidate() // even if the outcome of the commit is unknown
		unlockAll()
	}, nil
}

// AddGraduation adds to tx the writes that make a closed child public. It checks again everything
// that may have changed since the caller's checks. The caller must hold the locks of LockGraduation
// until tx is committed.
func (v *Directory) AddGraduation(ctx context.Context, tx *store.Tx, g Graduation) (GraduationResult, error) {
	p, err := v.planGraduation(ctx, &g)
	if err != nil {
		return GraduationResult{}, err
	}
	p.tx = tx
	for _, step := range []func(context.Context, *graduationPlan) error{v.signOpenManifest, v.preparePublicCard, v.addRegistration, v.addGraduationEntries} {
		if err := step(ctx, p); err != nil {
			if store.IsConflict(err) {
				return GraduationResult{}, err
			}
			return GraduationResult{}, store.AsProblem(err)
		}
	}
	return p.result, nil
}

type graduationPlan struct {
	Graduation
	parent, child       Record
	oldManifest         composite.Manifest
	publication         registry.Publication
	result              GraduationResult
	tx                  *store.Tx
	hasParent, hasChild bool
}

func (v *Directory) planGraduation(ctx context.Context, g *Graduation) (*graduationPlan, error) {
	p := &graduationPlan{Graduation: *g}
	request := &p.Request
	if err := request.Verify(); err != nil {
		return nil, err
	}
	doc, ok, err := v.Manifest(ctx, request.ChildID)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, registry.UnknownChildError(request.ChildID)
	case doc.Manifest.ParentID != request.ParentID:
		return nil, problem.New(problem.ConsentRequired, "the graduation request names the parent %s, but the manifest names %s", request.ParentID.Short(), doc.Manifest.ParentID.Short())
	}
	p.oldManifest = doc.Manifest
	revoked, err := v.Registry.AreRevoked(ctx, request.ParentID, request.ChildID)
	if err != nil {
		return nil, err
	}
	for i, id := range []identity.ID{request.ParentID, request.ChildID} {
		if revoked[i] {
			return nil, problem.New(problem.Revoked, "the key of vacant %s was revoked", id.Short())
		}
	}
	if p.parent, p.hasParent, err = v.findParty(ctx, request.ParentID); err != nil {
		return nil, err
	}
	if p.child, p.hasChild, err = v.findParty(ctx, request.ChildID); err != nil {
		return nil, err
	}
	if !p.hasParent && !p.hasChild {
		return nil, registry.UnknownChildError(request.ChildID)
	}
	// A closed parent must stay hidden, but the public card names the parent.
	isParentClosed := p.parent.Closed
	if !p.hasParent {
		parentManifest, ok, err := v.Manifest(ctx, p.Request.ParentID)
		if err != nil {
			return nil, err
		}
		isParentClosed = ok && parentManifest.IsClosed()
	}
	if isParentClosed {
		return nil, problem.New(problem.Conflict, "the parent %s is a closed child itself; it must graduate first", p.Request.ParentID.Short())
	}
	return p, nil
}

func (v *Directory) findParty(ctx context.Context, id identity.ID) (Record, bool, error) {
	r, ok, err := v.readRecord(ctx, id)
	if err != nil || !ok {
		return Record{}, false, err
	}
	if !r.State.CanBeCalled() {
		return Record{}, false, problem.New(problem.Conflict, "vacant %s is %s; only a vacant that is %s or %s can take part in a graduation", r.Name, r.State, lifecycle.Local, lifecycle.Active)
	}
	return r, true, nil
}

func (v *Directory) signOpenManifest(ctx context.Context, p *graduationPlan) error {
	m := p.oldManifest.AfterGraduation()
	for _, party := range []struct {
		role      string
		here      bool
		record    *Record
		sign      func(context.Context, identity.Signer) error
		signature *[]byte
		sent      []byte
	}{
		{"parent", p.hasParent, &p.parent, m.SignParent, &m.SignatureParent, p.Artefacts.ManifestParent},
		{"child", p.hasChild, &p.child, m.SignChild, &m.SignatureChild, p.Artefacts.ManifestChild},
	} {
		if !party.here {
			if len(party.sent) == 0 {
				return problem.Invalid("artefacts.manifest_signature_"+party.role, "the signature of the "+party.role+", who is not hosted here", "none")
			}
			*party.signature = party.sent
			continue
		}
		signer, err := v.signers.Signer(ctx, party.record.ID, party.record.sealedSeed)
		if err != nil {
			return err
		}
		if err := party.sign(ctx, signer); err != nil {
			return err
		}
	}
	p.result.Manifest = m
	return p.oldManifest.CheckGraduation(&m)
}

func (v *Directory) preparePublicCard(ctx context.Context, p *graduationPlan) error {
	if !p.hasChild {
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
			return problem.Invalid(field, "the capability text of the request", quoteTruncated(c.CapabilityText))
		case c.Endpoint == "":
			return problem.Invalid(field, "an endpoint", "none")
		}
		p.result.Card, p.publication.Card = c, p.Artefacts.Card
		return nil
	}
	if err := checkCapability(p.Request.CapabilityText); err != nil {
		return err
	}
	base, err := v.requireBaseURL(ctx)
	if err != nil {
		return err
	}
	p.result.Card, _, err = v.getOrSignCard(ctx, &p.child, base, p.Request.CapabilityText, nil)
	p.publication.Card = p.child.Card
	return err
}

func (v *Directory) addRegistration(ctx context.Context, p *graduationPlan) error {
	publication := &p.publication
	publication.State, publication.Visibility, publication.Name = lifecycle.Active, lifecycle.Public, p.child.Name
	if !p.hasChild {
		a := &p.Artefacts
		publication.Time, publication.ActorSeq, publication.IdempotencyKey, publication.Signature = a.Time, a.ActorSeq, a.IdempotencyKey, a.Signature
	} else {
		registration, _, err := v.Registry.Get(ctx, p.child.ID)
		if err != nil {
			return err
		}
		signer, err := v.signers.Signer(ctx, p.child.ID, p.child.sealedSeed)
		if err != nil {
			return err
		}
		c := &p.result.Card
		e := event.Event{
			Type: event.Register, Actor: p.child.ID, Time: p.EventTime.UnixMilli(), ActorSeq: registration.ActorSeq + 1,
			IdempotencyKey: fmt.Sprintf("graduate:%d", registration.ActorSeq+1),
			Payload:        event.RegisterPayload(c.Hash(), c.HaloVersion, p.child.ID, lifecycle.Public),
		}
		if registration.FirstSeq > 0 && registration.CardHash != c.Hash() {
			e.IdempotencyKey = event.ReplacesKeyAt(registration.CardHash, e.ActorSeq)
		}
		if err := e.Sign(ctx, signer); err != nil {
			return err
		}
		publication.Time, publication.ActorSeq, publication.IdempotencyKey, publication.Signature = e.Time, e.ActorSeq, e.IdempotencyKey, e.Signature
	}
	receipt, err := v.Registry.Graduate(ctx, p.tx, *publication, p.result.Manifest, p.hasChild)
	if err != nil && p.hasChild {
		err = v.convertSequenceError(ctx, p.child.ID, publication.ActorSeq, err)
	}
	if err != nil {
		return err
	}
	p.result.Receipt = receipt
	return nil
}

func (v *Directory) addGraduationEntries(ctx context.Context, p *graduationPlan) error {
	e := &entry{logbook.KindGraduated, logbook.Graduation{
		Parent: p.Request.ParentID, Child: p.Request.ChildID, Capability: p.Request.CapabilityText,
	}.Payload()}
	if p.hasChild {
		p.child.State = lifecycle.Active
		p.child.applyManifest(&p.result.Manifest)
		if err := v.addChange(ctx, p.tx, &p.child, e); err != nil {
			return err
		}
	}
	if !p.hasParent {
		return nil
	}
	return v.addChange(ctx, p.tx, &p.parent, e)
}
