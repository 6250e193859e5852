package admin

import (
	"bytes"
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
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	wishes, err := readPublishOptions(body)
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

func (d *api) revoke(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	reason := ""
	dec := canon.NewDecoder(body, limits())
	if err := dec.Document(func(key string) (err error) {
		if key != "reason" {
			return unknown("", key, "reason")
		}
		reason, err = text(dec, key)
		return err
	}); err != nil {
		return err
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	rec, receipt, err := d.Vacants.Revoke(r.Context(), rec.ID, reason)
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
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	dec := canon.NewDecoder(body, limits())
	wishes, err := readListing(dec)
	if err == nil {
		err = dec.End()
	}
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

// readPublishOptions parses the body of a publish.
func readPublishOptions(body []byte) (w vacants.PublishOptions, err error) {
	d := canon.NewDecoder(body, limits())
	err = d.Document(func(key string) error {
		switch key {
		case "capability":
			s, err := text(d, key)
			w.Capability = &s
			return err
		case "visibility":
			s, err := text(d, key)
			v := lifecycle.Visibility(s)
			if err == nil && v != lifecycle.Hidden && v != lifecycle.Restricted && v != lifecycle.Public {
				err = problem.Invalid(key, "NONE, RESTRICTED or PUBLIC", clip(s))
			}
			w.Visibility = &v
			return err
		case "listing":
			l, err := readListing(d)
			w.Listing = &l
			return err
		case "venue":
			w.Venue, err = readVenueChange(d)
			return err
		}
		return unknown("", key, "capability, visibility, listing or venue")
	})
	return w, err
}

func readListing(d *canon.Decoder) (l vacants.ListingOptions, err error) {
	if k := d.Kind(); k != canon.Object {
		return l, problem.Invalid("listing", canon.Object.String(), k.String())
	}
	err = d.Object(func(key string) (err error) {
		switch field := "listing." + key; key {
		case "tags":
			l.Tags, err = texts(d, field)
		case "skills":
			l.Skills, err = texts(d, field)
		case "summary":
			l.Summary, err = text(d, field)
		case "family":
			l.Family, err = text(d, field)
		case "owner":
			l.Owner, err = text(d, field)
		case "price":
			if k := d.Kind(); k != canon.Int {
				return problem.Invalid(field, "micro-dollars a call, an integer", k.String())
			}
			l.Price, err = d.Int64()
		case "venue":
			l.Venue, err = listing.ReadVenue(d)
		default:
			err = unknown("listing.", key, "tags, skills, summary, family, owner, price or venue")
		}
		return err
	})
	return l, err
}

// readVenueChange reads the members of a venue that are to change.
func readVenueChange(d *canon.Decoder) (func(*listing.Venue) error, error) {
	if k := d.Kind(); k != canon.Object {
		return nil, problem.Invalid("venue", canon.Object.String(), k.String())
	}
	raw, err := d.Raw()
	if err != nil {
		return nil, err
	}
	raw = bytes.Clone(raw)
	change := func(v *listing.Venue) error {
		d := canon.NewDecoder(raw, limits())
		if err := d.Document(func(key string) error { return v.Set(d, key) }); err != nil {
			return problem.Within(problem.Malformed, "venue", err)
		}
		if err := v.Check(); err != nil {
			return problem.Within(problem.Malformed, "venue", err)
		}
		return nil
	}
	v := listing.DefaultVenue() // before anything is read or written
	return change, change(&v)
}

func texts(d *canon.Decoder, field string) (list []string, err error) {
	if k := d.Kind(); k != canon.Array {
		return nil, problem.Invalid(field, canon.Array.String(), k.String())
	}
	err = d.Array(func(int) error {
		s, err := text(d, field)
		list = append(list, s)
		return err
	})
	return list, err
}
