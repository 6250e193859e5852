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

// party is the parent or child of a graduation: a vacant of the gate's host, a local identity, or
// the other party that has signed already.
type party struct {
	id        identity.ID
	own       *datadir.Identity // nil if the host signs or the party has signed
	signature []byte            // signature of a party that has signed
}

// partyNamed finds a party by name or id, first among the host's vacants, then among the local
// identities.
func partyNamed(a *kit.App, ctx context.Context, c *kit.AdminAPI, name string, half *graduation.Submission) (party, error) {
	v, err := c.Show(ctx, name)
	if err == nil {
		return party{id: v.ID}, nil
	}
	if !problem.Is(err, problem.NotFound) {
		return party{}, err
	}
	if id, parseErr := identity.ParseID(name); parseErr == nil {
		return partyOf(a, ctx, c, id, half)
	}
	h, homeErr := a.DataHome()
	if homeErr != nil {
		return party{}, homeErr
	}
	own, openErr := h.Open(name)
	if openErr != nil {
		return party{}, err
	}
	return party{id: own.ID(), own: own}, nil
}

// partyOf finds out who signs for an id: the other party in its printed request, the host, or a
// local identity.
func partyOf(a *kit.App, ctx context.Context, c *kit.AdminAPI, id identity.ID, half *graduation.Submission) (party, error) {
	if half != nil {
		switch r := &half.Request; {
		case id == r.ParentID && len(r.SignatureParent) > 0:
			return party{id: id, signature: r.SignatureParent}, nil
		case id == r.ChildID && len(r.SignatureChild) > 0:
			return party{id: id, signature: r.SignatureChild}, nil
		}
	}
	_, err := c.Show(ctx, id.String())
	if err == nil {
		return party{id: id}, nil
	}
	if !problem.Is(err, problem.NotFound) {
		return party{}, err
	}
	h, err := a.DataHome()
	if err != nil {
		return party{}, err
	}
	names, err := h.Names()
	if err != nil {
		return party{}, err
	}
	for _, name := range names {
		// Skip damaged identities. Commands that use them report the error.
		if own, err := h.Open(name); err == nil && own.ID() == id {
			return party{id: id, own: own}, nil
		}
	}
	return party{}, problem.New(problem.NotFound, "vacant %s is neither hosted there nor an identity of yours, so no key to sign for it is available", id.Short())
}

func signAsParty(a *kit.App, ctx context.Context, c *kit.AdminAPI, p party, r *composite.GraduationRequest) error {
	if p.signature != nil {
		return addSignature(p, r, p.signature)
	}
	if p.own != nil {
		if p.id == r.ParentID {
			return r.SignParent(ctx, p.own.Key)
		}
		return r.SignChild(ctx, p.own.Key)
	}
	got, err := admin.SignGraduation.Call(ctx, c, admin.ForVacant(p.id.String(), admin.GraduationRequest{ParentID: r.ParentID, ChildID: r.ChildID, CapabilityText: r.CapabilityText}))
	if err != nil {
		return err
	}
	sig, err := hex.DecodeString(got.Signature)
	if err != nil {
		sig = nil
	}
	return addSignature(p, r, sig)
}

// addSignature adds a signature by the host or the other party after it has verified the signature.
func addSignature(p party, r *composite.GraduationRequest, sig []byte) error {
	if !identity.Verify(p.id, r.SigningBytes(), sig) {
		return problem.New(problem.Untrusted, "the file does not contain a valid signature of %s", p.id.Short())
	}
	if p.id == r.ParentID {
		r.SignatureParent = sig
	} else {
		r.SignatureChild = sig
	}
	return nil
}

// signArtefacts signs the documents that take effect if the gate accepts the child: the new
// manifest with the key of each party that is a local identity and, for a local child, its public
// card and the event that registers the card. The function parameter returns the URL of the
// registry that lists the child.
func signArtefacts(a *kit.App, ctx context.Context, where func() (string, error), f graduateFlags, m *composite.Manifest, parent, child party, sub *graduation.Submission) error {
	out, own, graduated := &sub.Artefacts, child.own, m.AfterGraduation()
	if parent.own != nil {
		if err := graduated.SignParent(ctx, parent.own.Key); err != nil {
			return err
		}
		out.ManifestParent = graduated.SignatureParent
	}
	if own == nil {
		return nil
	}
	if err := graduated.SignChild(ctx, own.Key); err != nil {
		return err
	}
	out.ManifestChild = graduated.SignatureChild
	// Sign the public card and the event that registers it.
	url, err := where()
	if err != nil {
		return err
	}
	registry := &registryclient.Client{Transport: a.HTTP(0), URL: url, Reader: own.Key, Now: a.Now}
	o := &vacantcmd.Own{Identity: own, Registry: registry}
	if err := o.Look(ctx); err != nil {
		return err
	}
	next := card.Card{VacantID: own.ID(), HaloVersion: card.Version}
	if o.Card != nil {
		next = *o.Card
	}
	next.CapabilityText = f.capability
	if f.endpoint != "" {
		if next.Endpoint, err = dispatch.SendURL(f.endpoint); err != nil {
			return err
		}
	}
	if next.Endpoint == "" {
		return kit.WithHint(problem.New(problem.Usage, "--endpoint: expected the URL at which %s takes calls, for example https://agents.example.org, got none", own.Name), "--endpoint https://HOST")
	}
	if err := next.Sign(ctx, own.Key); err != nil {
		return err
	}
	standing, err := registry.KeyState(ctx, own.ID())
	if err != nil {
		return err
	}
	key := "graduation:" + next.Hash().String()
	if !standing.Card.IsZero() && standing.Card != next.Hash() {
		key = event.ReplacesKeyAt(standing.Card, standing.NextSeq)
	}
	d := registryclient.Draft{Card: next, State: lifecycle.Active, Visibility: lifecycle.Public}
	h, err := d.Sign(ctx, own.Key, standing.NextSeq, key, a.Now())
	if err != nil {
		return err
	}
	out.Card, out.Time, out.ActorSeq, out.Key = next.Blob(), h.Time, h.ActorSeq, h.Key
	out.Signature, err = hex.DecodeString(h.Signature)
	return err
}
