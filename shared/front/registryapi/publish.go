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

// Anyone may send these operations, because their content is signed. The functions parse the bodies
// themselves, because an invalid shape becomes 422 as in the reference.
var (
	Publish     = op.Op[op.Body[op.Raw[registryclient.Publication]], registryclient.Receipt]{Method: "POST", Path: "/v1/halo", Access: op.Access{Anybody: true}, Doc: "publishes a card that its vacant has signed"}
	Revoke      = op.Op[op.Body[op.Raw[registryclient.Revocation]], registryclient.Receipt]{Method: "POST", Path: "/v1/revoke_halo", Access: op.Access{Anybody: true}, Doc: "revokes a key permanently, by its own signature"}
	PutListing  = op.Op[ListingRequest, registryclient.Match]{Method: "PUT", Path: "/v1/listing/{id}", Access: op.Access{Anybody: true}, Doc: "stores a listing that its vacant has signed"}
	AddManifest = op.Op[op.Body[op.Raw[composite.ManifestDocument]], registryclient.Manifest]{Method: "POST", Path: "/v1/manifests", Access: op.Access{Anybody: true}, Doc: "stores the edge to a child, which parent and child have signed"}
)

type ListingRequest struct {
	ID   string                   `path:"id"`
	Body op.Raw[listing.Document] `body:"json"`
}

func (d *api) acceptPublication(ctx context.Context, in op.Body[op.Raw[registryclient.Publication]]) (out registryclient.Receipt, err error) {
	pub, signedListing, err := parsePublication(in.Body)
	if err != nil {
		return out, err
	}
	blob, err := decodeHex("capability_card_blob_hex", pub.Card)
	if err != nil {
		return out, err
	}
	sig, err := decodeHex("event_signature_hex", pub.Signature)
	if err != nil {
		return out, err
	}
	receipt, err := d.Registry.Publish(ctx, registry.Publication{
		Card: blob, State: pub.State, Visibility: pub.Visibility,
		BaseModel: pub.BaseModel, Family: pub.Family, Owner: pub.Owner, Version: pub.Version,
		DeclaredCapabilities: pub.DeclaredCapabilities, Parent: pub.Parent, Listing: signedListing,
		Time: pub.Time, ActorSeq: pub.ActorSeq, IdempotencyKey: pub.IdempotencyKey, Signature: sig,
	})
	status := registry.StatusActive
	if receipt.Replayed {
		status = "" // the key may have been revoked since the receipt was stored
	}
	return receiptOf(&receipt, status), err
}

// The reference only answers 501, so the form of a revocation is this project's own.
func (d *api) acceptRevocation(ctx context.Context, in op.Body[op.Raw[registryclient.Revocation]]) (out registryclient.Receipt, err error) {
	rev, err := parseRevocation(in.Body)
	if err != nil {
		return out, err
	}
	sig, err := decodeHex("event_signature_hex", rev.Signature)
	if err != nil {
		return out, err
	}
	receipt, err := d.Vacants.AcceptRevocation(ctx, registry.Revocation{
		ID: rev.ID, Reason: rev.Reason, Time: rev.Time, ActorSeq: rev.ActorSeq, IdempotencyKey: rev.IdempotencyKey, Signature: sig,
	})
	return receiptOf(&receipt, registry.StatusRevoked), err
}

// The reference's form allows no empty member, so the visibility of a revoked key that was never
// registered is NONE.
func receiptOf(r *registry.Receipt, status registry.Status) registryclient.Receipt {
	return registryclient.Receipt{
		ID: r.ID, Visibility: cmp.Or(r.Visibility, lifecycle.Hidden), Seq: r.Seq, CardHash: r.CardHash, Status: string(status), Replayed: r.Replayed, AwaitsProbe: r.AwaitsProbe,
	}
}

// acceptListing stores a listing signed by its vacant.
func (d *api) acceptListing(ctx context.Context, in ListingRequest) (m registryclient.Match, err error) {
	id, err := parseVacantID(in.ID)
	if err != nil {
		return m, err
	}
	l, err := listing.Parse(in.Body)
	switch {
	case err != nil:
		return m, schemaError(err)
	case l.VacantID != id:
		return m, &problem.Error{Kind: problem.InvalidMember, Field: "vacant_id", Want: "the id of the path", Got: l.VacantID.String()}
	}
	reg, err := d.Registry.PutListing(ctx, l)
	if err != nil {
		return m, err
	}
	m = newMatch(&reg, d.Now())
	// The sender may be a third party that repeats a stored listing. It sees the registration only
	// if anyone may read it.
	if !reg.IsVisibleTo(nil) {
		m = registryclient.Match{ID: m.ID, Visibility: m.Visibility, Listing: m.Listing, ListingSource: m.ListingSource}
	}
	return m, nil
}

func (d *api) acceptManifest(ctx context.Context, in op.Body[op.Raw[composite.ManifestDocument]]) (out registryclient.Manifest, err error) {
	m, err := composite.ParseManifest(in.Body)
	if err != nil {
		return out, schemaError(err)
	}
	err = d.Vacants.AddManifest(ctx, m)
	return registryclient.Manifest{Parent: m.ParentID, Child: m.ChildID, Hash: m.Hash(), Closed: m.ClosedByDefault}, err
}
