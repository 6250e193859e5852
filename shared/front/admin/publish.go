package admin

import (
	"encoding/json"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// Receipt is the result of a publication or a revocation. Unchanged: it was
// stored already.
type Receipt struct {
	Seq        uint64               `json:"event_seq"`
	CardHash   identity.Hash        `json:"capability_card_hash_hex"`
	Visibility lifecycle.Visibility `json:"visibility"`
	Unchanged  bool                 `json:"unchanged,omitempty"`
}

// Published is a hosted vacant and the receipt of its publication.
type Published struct {
	Vacant  Vacant  `json:"vacant"`
	Receipt Receipt `json:"receipt"`
}

// Listed is a registration's listing as the operator set it.
type Listed struct {
	ID      identity.ID `json:"vacant_id"`
	Source  string      `json:"listing_source"`
	Listing Listing     `json:"listing"`
}

// Listing is what a vacant is found by besides its card. Price is in
// micro-dollars a call.
type Listing struct {
	Tags    []string `json:"tags,omitempty"`
	Skills  []string `json:"skills,omitempty"`
	Summary string   `json:"summary,omitempty"`
	Family  string   `json:"family,omitempty"`
	Owner   string   `json:"owner,omitempty"`
	Price   int64    `json:"price"`
	// Venue is what the vacant is as a venue; nil: as before.
	Venue *listing.Venue `json:"venue,omitempty"`
}

// VenueChange changes what a vacant is as a venue; nil members are left unchanged.
type VenueChange struct {
	Slug     *string   `json:"slug,omitempty"`
	Name     *string   `json:"name,omitempty"`
	Category *string   `json:"category,omitempty"`
	Location *string   `json:"location,omitempty"`
	Areas    *[]string `json:"areas,omitempty"`
	Bookable *bool     `json:"bookable,omitempty"`
	Capacity *int64    `json:"capacity,omitempty"`
	Hours    *string   `json:"hours,omitempty"`
	Referral *int64    `json:"referral_fee,omitempty"`
}

// Publication is the body of a publish; nil members are left unchanged.
type Publication struct {
	Capability *string               `json:"capability,omitempty"`
	Visibility *lifecycle.Visibility `json:"visibility,omitempty"`
	Listing    *Listing              `json:"listing,omitempty"`
	Venue      *VenueChange          `json:"venue,omitempty"`
}

func (d *api) publish(w http.ResponseWriter, r *http.Request) error {
	b, err := read[Publication](w, r)
	if err != nil {
		return err
	}
	wishes, err := b.options()
	if err != nil {
		return err
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	rec, receipt, err := d.Vacants.Publish(r.Context(), rec.ID, wishes)
	return published(w, &rec, receipt, err)
}

func (d *api) unpublish(w http.ResponseWriter, r *http.Request) error {
	if err := noBody(r); err != nil {
		return err
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	rec, receipt, err := d.Vacants.Unpublish(r.Context(), rec.ID)
	return published(w, &rec, receipt, err)
}

// Revocation says why a key is revoked.
type Revocation struct {
	Reason string `json:"reason"`
}

func (d *api) revoke(w http.ResponseWriter, r *http.Request) error {
	b, err := read[Revocation](w, r)
	if err != nil {
		return err
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	rec, receipt, err := d.Vacants.Revoke(r.Context(), rec.ID, b.Reason)
	return published(w, &rec, receipt, err)
}

func published(w http.ResponseWriter, r *vacants.Record, receipt registry.Receipt, err error) error {
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, Published{vacantOf(r), Receipt{receipt.Seq, receipt.CardHash, receipt.Visibility, receipt.Replayed}})
}

// setListing sets the operator's listing of a registration, hosted here or not.
func (d *api) setListing(w http.ResponseWriter, r *http.Request) error {
	if d.Vacants.Registry == nil {
		return problem.New(problem.NotFound, "this host keeps no registry")
	}
	id, err := identity.ParseID(r.PathValue("vacant"))
	if err != nil {
		return problem.Invalid("vacant", "an id of 64 hex digits", clip(r.PathValue("vacant")))
	}
	wishes, err := read[Listing](w, r)
	if err != nil {
		return err
	}
	rec, err := d.Vacants.Get(r.Context(), askerOf(r.Context()), id)
	switch {
	case err == nil && !rec.IsDeleted():
		if wishes.Price, err = rec.ListedPrice(wishes.Price); err != nil {
			return err
		}
	case err != nil && !problem.Is(err, problem.NotFound):
		return err
	}
	l := listing.Listing{Tags: wishes.Tags, Skills: wishes.Skills, Summary: wishes.Summary, Family: wishes.Family, Owner: wishes.Owner, Price: wishes.Price, Venue: wishes.Venue}
	g, err := d.Vacants.Registry.SetListing(r.Context(), id, l)
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, Listed{id, g.ListingSource, Listing{
		g.Listing.Tags, g.Listing.Skills, g.Listing.Summary, g.Listing.Family, g.Listing.Owner, g.Listing.Price, g.Listing.Venue,
	}})
}

// options returns the options of the publication.
func (p *Publication) options() (w vacants.PublishOptions, err error) {
	w = vacants.PublishOptions{Capability: p.Capability, Visibility: p.Visibility}
	if v := p.Visibility; v != nil && *v != lifecycle.Hidden && *v != lifecycle.Restricted && *v != lifecycle.Public {
		return w, problem.Invalid("visibility", "NONE, RESTRICTED or PUBLIC", clip(string(*v)))
	}
	if p.Listing != nil {
		l := vacants.ListingOptions(*p.Listing)
		w.Listing = &l
	}
	if p.Venue == nil {
		return w, nil
	}
	w.Venue = p.Venue.apply
	v := listing.DefaultVenue()
	return w, w.Venue(&v) // before anything is read or written
}

// apply changes a venue.
func (c *VenueChange) apply(v *listing.Venue) error {
	members, err := json.Marshal(c)
	if err != nil {
		return problem.Wrap(problem.Internal, err, "venue")
	}
	if err := canon.Unmarshal(members, v, limits()); err != nil {
		return problem.Below("venue", err)
	}
	if err := v.Check(); err != nil {
		return problem.Below("venue", err)
	}
	return nil
}
