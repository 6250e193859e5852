package admin

import (
	"context"
	"encoding/json"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// Receipt is the result of a publication or revocation. Unchanged is true if the request repeats a
// stored one.
type Receipt struct {
	Seq        uint64               `json:"event_seq"`
	CardHash   identity.Hash        `json:"capability_card_hash_hex"`
	Visibility lifecycle.Visibility `json:"visibility"`
	Unchanged  bool                 `json:"unchanged,omitempty"`
}

type Published struct {
	Vacant  Vacant  `json:"vacant"`
	Receipt Receipt `json:"receipt"`
}

func (p *Published) Validate() error {
	if err := p.Vacant.Validate(); err != nil {
		return err
	}
	if v := p.Receipt.Visibility; v != "" && checkVisibility(v) != nil {
		return problem.New(problem.Untrusted, "the host's answer is not a receipt: it has no known visibility")
	}
	return nil
}

type Listed struct {
	ID      identity.ID `json:"vacant_id"`
	Source  string      `json:"listing_source"`
	Listing Listing     `json:"listing"`
}

// Listing describes a vacant for searches. Price is in micro-dollars per call.
type Listing struct {
	Tags    []string `json:"tags,omitempty"`
	Skills  []string `json:"skills,omitempty"`
	Summary string   `json:"summary,omitempty"`
	Family  string   `json:"family,omitempty"`
	Owner   string   `json:"owner,omitempty"`
	Price   int64    `json:"price"`
	// If Venue is nil, the stored venue is unchanged.
	Venue *listing.Venue `json:"venue,omitempty"`
}

// VenueChange changes the venue of a vacant. Nil members are unchanged.
type VenueChange struct {
	Slug        *string   `json:"slug,omitempty"`
	Name        *string   `json:"name,omitempty"`
	Category    *string   `json:"category,omitempty"`
	Location    *string   `json:"location,omitempty"`
	Areas       *[]string `json:"areas,omitempty"`
	Bookable    *bool     `json:"bookable,omitempty"`
	Capacity    *int64    `json:"capacity,omitempty"`
	Hours       *string   `json:"hours,omitempty"`
	ReferralFee *int64    `json:"referral_fee,omitempty"`
}

// Publication is the body of a publish request. Nil members are unchanged.
type Publication struct {
	Capability *string               `json:"capability,omitempty"`
	Visibility *lifecycle.Visibility `json:"visibility,omitempty"`
	Listing    *Listing              `json:"listing,omitempty"`
	Venue      *VenueChange          `json:"venue,omitempty"`
}

func (d *api) publishVacant(ctx context.Context, in VacantRequest[Publication]) (p Published, err error) {
	b := &in.Body
	options := vacants.PublishOptions{Asker: askerOf(ctx), Capability: b.Capability, Visibility: b.Visibility, Listing: (*vacants.ListingOptions)(b.Listing)}
	if b.Visibility != nil {
		if err := checkVisibility(*b.Visibility); err != nil {
			return p, err
		}
	}
	if b.Venue != nil {
		options.EditVenue = b.Venue.applyTo
		v := listing.DefaultVenue()
		if err := b.Venue.applyTo(&v); err != nil {
			return p, err
		}
	}
	rec, err := d.findVacant(ctx, in.Vacant)
	if err != nil {
		return p, err
	}
	return publishedOf(d.Vacants.Publish(ctx, rec.ID, options))
}

type Revocation struct {
	Reason string `json:"reason"`
}

func publishedOf(rec vacants.Record, r registry.Receipt, err error) (Published, error) {
	return Published{vacantOf(&rec), Receipt{r.Seq, r.CardHash, r.Visibility, r.Replayed}}, err
}

func (d *api) setListing(ctx context.Context, in VacantRequest[Listing]) (Listed, error) {
	id, err := identity.ParseID(in.Vacant)
	if err != nil {
		return Listed{}, problem.Invalid("vacant", "an id of 64 hex digits", quoteTruncated(in.Vacant))
	}
	requested := in.Body
	rec, err := d.Vacants.Get(ctx, askerOf(ctx), id)
	switch {
	case err == nil && !rec.IsDeleted():
		if requested.Price, err = rec.ListedPrice(requested.Price); err != nil {
			return Listed{}, err
		}
	case err != nil && !problem.Is(err, problem.NotFound):
		return Listed{}, err
	}
	l := listing.Listing{Tags: requested.Tags, Skills: requested.Skills, Summary: requested.Summary, ModelFamily: requested.Family, Owner: requested.Owner, Price: requested.Price, Venue: requested.Venue}
	g, err := d.Vacants.Registry.SetListing(ctx, id, l)
	if err != nil {
		return Listed{}, err
	}
	return Listed{id, g.ListingSource, Listing{
		g.Listing.Tags, g.Listing.Skills, g.Listing.Summary, g.Listing.ModelFamily, g.Listing.Owner, g.Listing.Price, g.Listing.Venue,
	}}, nil
}

func checkVisibility(v lifecycle.Visibility) error {
	switch v {
	case lifecycle.Hidden, lifecycle.Restricted, lifecycle.Public:
		return nil
	}
	return problem.Invalid("visibility", "NONE, RESTRICTED or PUBLIC", quoteTruncated(string(v)))
}

func (c *VenueChange) applyTo(v *listing.Venue) error {
	members, err := json.Marshal(c)
	if err != nil {
		return problem.Wrap(problem.Internal, err, "venue")
	}
	if err := canon.Unmarshal(members, v, bodyLimits()); err != nil {
		return problem.AtPath("venue", err)
	}
	if err := v.Check(); err != nil {
		return problem.AtPath("venue", err)
	}
	return nil
}
