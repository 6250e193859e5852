package registryapi

import (
	"cmp"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// publish accepts a publication in the reference's form.
func (d *api) publish(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	h, l, err := readHalo(body)
	if err != nil {
		return err
	}
	blob, err := unhex("capability_card_blob_hex", h.Card)
	if err != nil {
		return err
	}
	sig, err := unhex("event_signature_hex", h.Signature)
	if err != nil {
		return err
	}
	receipt, err := d.Registry.Publish(r.Context(), registry.Publication{
		Card: blob, State: h.State, Visibility: h.Visibility,
		BaseModel: h.BaseModel, Family: h.Family, Owner: h.Owner, Version: h.Version,
		Declared: h.Declared, Parent: h.Parent, Listing: l,
		Time: h.Time, ActorSeq: h.ActorSeq, Key: h.Key, Signature: sig,
	})
	if err != nil {
		return err
	}
	status := registry.StatusActive
	if receipt.Replayed {
		status = "" // the receipt's status was true then; the key may be revoked since
	}
	return answer(w, receiptOf(&receipt, status))
}

// revoke accepts a revocation. The reference answers 501 here and defines no
// shape.
func (d *api) revoke(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	v, err := readRevocation(body)
	if err != nil {
		return err
	}
	sig, err := unhex("event_signature_hex", v.Signature)
	if err != nil {
		return err
	}
	receipt, err := d.Vacants.AcceptRevocation(r.Context(), registry.Revocation{
		ID: v.ID, Reason: v.Reason, Time: v.Time, ActorSeq: v.ActorSeq, Key: v.Key, Signature: sig,
	})
	if err != nil {
		return err
	}
	return answer(w, receiptOf(&receipt, registry.StatusRevoked))
}

// receiptOf reports a revoked key that was never registered as NONE: no member
// of the reference's shape may be empty.
func receiptOf(r *registry.Receipt, status registry.Status) registryclient.Receipt {
	return registryclient.Receipt{
		ID: r.ID, Visibility: cmp.Or(r.Visibility, lifecycle.Hidden), Seq: r.Seq, CardHash: r.CardHash, Status: string(status), Replayed: r.Replayed, Unreached: r.Unreached,
	}
}

// listing accepts a listing signed by its vacant: {vacant_id, version, …,
// signature}. The operator's listing has an admin route.
func (d *api) listing(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	l, err := listing.Parse(body)
	switch {
	case err != nil:
		return schema(err)
	case l.VacantID != id:
		return &problem.Error{Kind: problem.Schema, Field: "vacant_id", Want: "the id of the path", Got: l.VacantID.String()}
	}
	g, err := d.Registry.PutListing(r.Context(), l)
	if err != nil {
		return err
	}
	m := matchOf(&g, d.Now())
	// The sender of a listing need not be its signer, and a stored listing sent
	// again is accepted: show it only to those who may see it.
	if !g.ReadableBy(nil) {
		m = registryclient.HaloMatch{ID: m.ID, Visibility: m.Visibility, Listing: m.Listing, Source: m.Source}
	}
	return answer(w, m)
}

// manifest accepts a manifest signed by parent and child.
func (d *api) manifest(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	m, err := composite.Parse(body)
	if err != nil {
		return schema(err)
	}
	if err := d.Vacants.AddManifest(r.Context(), m); err != nil {
		return err
	}
	return answer(w, registryclient.Manifest{Parent: m.ParentID, Child: m.ChildID, Hash: m.Hash(), Closed: m.ClosedByDefault})
}
