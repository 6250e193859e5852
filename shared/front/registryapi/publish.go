package registryapi

import (
	"cmp"
	"context"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// Operations that write. Anyone may send them, because their content is signed. The functions parse
// the bodies themselves, because an invalid shape becomes 422 as in the reference.
var (
	Publish     = op.Op[op.Body[op.Raw[registryclient.Publication]], registryclient.Receipt]{Method: "POST", Path: "/v1/halo", Access: op.Access{Anybody: true}, Doc: "publishes a card that its vacant has signed"}
	Revoke      = op.Op[op.Body[op.Raw[registryclient.Revocation]], registryclient.Receipt]{Method: "POST", Path: "/v1/revoke_halo", Access: op.Access{Anybody: true}, Doc: "revokes a key permanently, by its own signature"}
	PutListing  = op.Op[SignedListing, registryclient.Match]{Method: "PUT", Path: "/v1/listing/{id}", Access: op.Access{Anybody: true}, Doc: "stores a listing that its vacant has signed"}
	AddManifest = op.Op[op.Body[op.Raw[composite.ManifestDocument]], registryclient.Manifest]{Method: "POST", Path: "/v1/manifests", Access: op.Access{Anybody: true}, Doc: "stores the edge to a child, which parent and child have signed"}
)

// SignedListing is a listing of the vacant that the path names.
type SignedListing struct {
	ID   string                   `path:"id"`
	Body op.Raw[listing.Document] `body:"json"`
}

func (d *api) publish(ctx context.Context, in op.Body[op.Raw[registryclient.Publication]]) (out registryclient.Receipt, err error) {
	h, l, err := readHalo(in.Body)
	if err != nil {
		return out, err
	}
	blob, err := unhex("capability_card_blob_hex", h.Card)
	if err != nil {
		return out, err
	}
	sig, err := unhex("event_signature_hex", h.Signature)
	if err != nil {
		return out, err
	}
	receipt, err := d.Registry.Publish(ctx, registry.Publication{
		Card: blob, State: h.State, Visibility: h.Visibility,
		BaseModel: h.BaseModel, Family: h.Family, Owner: h.Owner, Version: h.Version,
		Declared: h.Declared, Parent: h.Parent, Listing: l,
		Time: h.Time, ActorSeq: h.ActorSeq, Key: h.Key, Signature: sig,
	})
	status := registry.StatusActive
	if receipt.Replayed {
		status = "" // the stored receipt's status may be outdated, because the key may have been revoked since
	}
	return receiptOf(&receipt, status), err
}

// revoke accepts a revocation in a form of this project, because the reference only answers 501.
func (d *api) revoke(ctx context.Context, in op.Body[op.Raw[registryclient.Revocation]]) (out registryclient.Receipt, err error) {
	v, err := readRevocation(in.Body)
	if err != nil {
		return out, err
	}
	sig, err := unhex("event_signature_hex", v.Signature)
	if err != nil {
		return out, err
	}
	receipt, err := d.Vacants.AcceptRevocation(ctx, registry.Revocation{
		ID: v.ID, Reason: v.Reason, Time: v.Time, ActorSeq: v.ActorSeq, Key: v.Key, Signature: sig,
	})
	return receiptOf(&receipt, registry.StatusRevoked), err
}

// receiptOf converts a receipt. For a revoked key that was never registered, it reports visibility
// NONE, because the reference's form allows no empty member.
func receiptOf(r *registry.Receipt, status registry.Status) registryclient.Receipt {
	return registryclient.Receipt{
		ID: r.ID, Visibility: cmp.Or(r.Visibility, lifecycle.Hidden), Seq: r.Seq, CardHash: r.CardHash, Status: string(status), Replayed: r.Replayed, Unreached: r.Unreached,
	}
}

// listing stores a listing signed by its vacant. The operator's listing is set by a route of the
// admin API.
func (d *api) listing(ctx context.Context, in SignedListing) (m registryclient.Match, err error) {
	id, err := vacantID(in.ID)
	if err != nil {
		return m, err
	}
	l, err := listing.Parse(in.Body)
	switch {
	case err != nil:
		return m, schema(err)
	case l.VacantID != id:
		return m, &problem.Error{Kind: problem.Schema, Field: "vacant_id", Want: "the id of the path", Got: l.VacantID.String()}
	}
	g, err := d.Registry.PutListing(ctx, l)
	if err != nil {
		return m, err
	}
	m = matchOf(&g, d.Now())
	// The sender may be a third party that repeats a stored listing. Show the registration only if
	// anyone may read it.
	if !g.ReadableBy(nil) {
		m = registryclient.Match{ID: m.ID, Visibility: m.Visibility, Listing: m.Listing, Source: m.Source}
	}
	return m, nil
}

func (d *api) manifest(ctx context.Context, in op.Body[op.Raw[composite.ManifestDocument]]) (out registryclient.Manifest, err error) {
	m, err := composite.ParseManifest(in.Body)
	if err != nil {
		return out, schema(err)
	}
	err = d.Vacants.AddManifest(ctx, m)
	return registryclient.Manifest{Parent: m.ParentID, Child: m.ChildID, Hash: m.Hash(), Closed: m.ClosedByDefault}, err
}
