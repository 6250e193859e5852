package childcmd

import (
	"context"
	"encoding/hex"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/vacantcmd"
	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// party is the parent or child of a graduation.
type party struct {
	id            identity.ID
	localIdentity *datadir.Identity // nil if the host signs or the party has signed
	signature     []byte            // signature of a party that has signed
}

// findParty finds a party by name or id, first among the host's vacants, then among the local
// identities.
func findParty(a *kit.App, ctx context.Context, c *kit.AdminAPI, name string, partial *graduation.Submission) (party, error) {
	v, err := c.ShowVacant(ctx, name)
	if err == nil {
		return party{id: v.ID}, nil
	}
	if !problem.Is(err, problem.NotFound) {
		return party{}, err
	}
	if id, parseErr := identity.ParseID(name); parseErr == nil {
		return findPartyByID(a, ctx, c, id, partial)
	}
	dir, homeErr := a.IdentityDir()
	if homeErr != nil {
		return party{}, homeErr
	}
	local, openErr := dir.Open(name)
	if openErr != nil {
		return party{}, err
	}
	return party{id: local.ID(), localIdentity: local}, nil
}

func findPartyByID(a *kit.App, ctx context.Context, c *kit.AdminAPI, id identity.ID, partial *graduation.Submission) (party, error) {
	if partial != nil {
		switch r := &partial.Request; {
		case id == r.ParentID && len(r.SignatureParent) > 0:
			return party{id: id, signature: r.SignatureParent}, nil
		case id == r.ChildID && len(r.SignatureChild) > 0:
			return party{id: id, signature: r.SignatureChild}, nil
		}
	}
	_, err := c.ShowVacant(ctx, id.String())
	if err == nil {
		return party{id: id}, nil
	}
	if !problem.Is(err, problem.NotFound) {
		return party{}, err
	}
	dir, err := a.IdentityDir()
	if err != nil {
		return party{}, err
	}
	names, err := dir.Names()
	if err != nil {
		return party{}, err
	}
	for _, name := range names {
		// Skip damaged identities. Commands that use them report the error.
		if local, err := dir.Open(name); err == nil && local.ID() == id {
			return party{id: id, localIdentity: local}, nil
		}
	}
	return party{}, problem.New(problem.NotFound, "vacant %s is not hosted on that host and is not one of your identities, so its key is not available for signing", id.Short())
}

func signAsParty(a *kit.App, ctx context.Context, c *kit.AdminAPI, p party, r *composite.GraduationRequest) error {
	if p.signature != nil {
		return addSignature(p, r, p.signature)
	}
	if p.localIdentity != nil {
		if p.id == r.ParentID {
			return r.SignParent(ctx, p.localIdentity.Key)
		}
		return r.SignChild(ctx, p.localIdentity.Key)
	}
	signed, err := admin.SignGraduation.Call(ctx, c, admin.NewVacantRequest(p.id.String(), admin.GraduationRequest{ParentID: r.ParentID, ChildID: r.ChildID, CapabilityText: r.CapabilityText}))
	if err != nil {
		return err
	}
	sig, err := hex.DecodeString(signed.Signature)
	if err != nil {
		sig = nil
	}
	return addSignature(p, r, sig)
}

// addSignature adds a signature by the host or the other party, after it has verified the
// signature.
func addSignature(p party, r *composite.GraduationRequest, sig []byte) error {
	if !identity.Verify(p.id, r.SignedBytes(), sig) {
		return problem.New(problem.Untrusted, "the file contains no valid signature of %s", p.id.Short())
	}
	if p.id == r.ParentID {
		r.SignatureParent = sig
	} else {
		r.SignatureChild = sig
	}
	return nil
}

// signArtefacts signs the documents that take effect if the gate accepts the child: the new
// manifest, and for a child that is a local identity also its public card. registryURL returns the
// URL of the registry that lists the child.
func signArtefacts(a *kit.App, ctx context.Context, registryURL func() (string, error), f graduateFlags, m *composite.Manifest, parent, child party, sub *graduation.Submission) error {
	artefacts, local, newManifest := &sub.Artefacts, child.localIdentity, m.AfterGraduation()
	if parent.localIdentity != nil {
		if err := newManifest.SignParent(ctx, parent.localIdentity.Key); err != nil {
			return err
		}
		artefacts.ManifestParent = newManifest.SignatureParent
	}
	if local == nil {
		return nil
	}
	if err := newManifest.SignChild(ctx, local.Key); err != nil {
		return err
	}
	artefacts.ManifestChild = newManifest.SignatureChild
	baseURL, err := registryURL()
	if err != nil {
		return err
	}
	registry := &registryclient.Client{Transport: a.HTTPTransport(0), URL: baseURL, Reader: local.Key, Now: a.Now}
	ownVacant := &vacantcmd.LocalIdentity{Identity: local, Registry: registry}
	if err := ownVacant.LoadCard(ctx); err != nil {
		return err
	}
	newCard := card.Card{VacantID: local.ID(), HaloVersion: card.Version}
	if ownVacant.Card != nil {
		newCard = *ownVacant.Card
	}
	newCard.CapabilityText = f.capability
	if f.endpoint != "" {
		if newCard.Endpoint, err = dispatch.SendURL(f.endpoint); err != nil {
			return err
		}
	}
	if newCard.Endpoint == "" {
		return kit.WithHint(problem.New(problem.Usage, "--endpoint: expected the URL at which %s takes calls, for example https://agents.example.org, got none", local.Name), "--endpoint https://HOST")
	}
	if err := newCard.Sign(ctx, local.Key); err != nil {
		return err
	}
	keyState, err := registry.KeyState(ctx, local.ID())
	if err != nil {
		return err
	}
	eventKey := "graduation:" + newCard.Hash().String()
	if !keyState.CardHash.IsZero() && keyState.CardHash != newCard.Hash() {
		eventKey = event.ReplacesKeyAt(keyState.CardHash, keyState.NextSeq)
	}
	draft := registryclient.Draft{Card: newCard, State: lifecycle.Active, Visibility: lifecycle.Public}
	signed, err := draft.Sign(ctx, local.Key, keyState.NextSeq, eventKey, a.Now())
	if err != nil {
		return err
	}
	artefacts.Card, artefacts.Time, artefacts.ActorSeq, artefacts.IdempotencyKey = newCard.Blob(), signed.Time, signed.ActorSeq, signed.IdempotencyKey
	artefacts.Signature, err = hex.DecodeString(signed.Signature)
	return err
}
