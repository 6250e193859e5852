package agp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	bookings "github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/booking"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Paths of the operator.
const (
	OperatorBookingsPath = "/v1/admin/bookings"
	OperatorMetricsPath  = "/v1/admin/metrics"
)

// Booking is a booking as its parties see it.
type Booking struct {
	ID       string         `json:"booking_id"`
	Status   booking.Status `json:"status"`
	Envelope booking.State  `json:"envelope_status"`
	Reason   string         `json:"cancel_reason,omitempty"`
	From     string         `json:"from"` // as the key claims
	Venue    identity.ID    `json:"venue_id"`
	Slug     string         `json:"venue_slug"`
	Name     string         `json:"venue_name"`
	Starts   time.Time      `json:"starts_at,omitzero"`
	Party    int64          `json:"party_size"`
	Price    string         `json:"price_usd"`
	// VenuePrice is the most that the venue charges for its call; absent if it is free.
	VenuePrice string          `json:"venue_price_usd,omitempty"`
	Credited   string          `json:"credited_usd,omitempty"`
	Test       bool            `json:"test,omitempty"`
	Guest      json.RawMessage `json:"guest,omitempty"`
	Notes      string          `json:"notes,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Created    time.Time       `json:"created_at"`
	Changed    time.Time       `json:"changed_at"`
	History    []Change        `json:"history,omitempty"`
}

// Change is a row of a booking's history.
type Change struct {
	Seq     int              `json:"seq"`
	Kind    bookings.RowKind `json:"kind"`
	From    booking.State    `json:"from,omitempty"`
	To      booking.State    `json:"to"`
	Actor   string           `json:"actor"`
	Reason  string           `json:"reason,omitempty"`
	EventID string           `json:"event_id,omitempty"`
	At      time.Time        `json:"ts"`
}

// Bookings is a page of bookings, the oldest first.
type Bookings struct {
	Bookings []Booking `json:"bookings"`
	Next     string    `json:"next"`
}

func bookingOf(b *bookings.Booking) Booking {
	out := Booking{
		ID: b.ID, Status: b.Status(), Envelope: b.State, Reason: b.Reason, From: b.From, Venue: b.Venue, Slug: b.Slug, Name: b.Name,
		Starts: b.Starts, Party: b.Party, Price: dollars(b.Price), Test: b.Test, Created: b.Created, Changed: b.Changed,
	}
	if b.VenuePrice > 0 {
		out.VenuePrice = dollars(b.VenuePrice)
	}
	if b.Credited > 0 {
		out.Credited = dollars(b.Credited)
	}
	return out
}

// party is who asks about bookings.
type party struct {
	operator bool
	key      *billing.Key
	vacant   *identity.ID // by its signature
	venue    bool         // it is the booking's venue, or its owner
}

func (p *party) String() string {
	switch {
	case p.operator:
		return "operator"
	case p.vacant != nil:
		return "venue " + p.vacant.Short()
	}
	return "key " + p.key.ID
}

// who finds out who asks.
func (d *api) who(r *http.Request, body []byte) (p party, err error) {
	id, err := d.Callers.Of(r, body)
	if err != nil || id != nil {
		p.vacant = id
		return p, err
	}
	k, err := d.authenticate(r, billing.ScopeRead)
	p.key = &k
	return p, err
}

// find returns a booking that a party may see: the key that made it, a key of its account
// that manages it, its venue, and the venue's owner. For others there is none.
func (d *api) find(ctx context.Context, id string, p *party) (bookings.Booking, error) {
	b, err := d.Bookings.Get(ctx, id)
	if err != nil || p.operator {
		return b, err
	}
	if p.vacant != nil {
		p.venue = *p.vacant == b.Venue && !b.Test
	} else {
		if mayManage(p.key, &b) {
			return b, nil
		}
		p.venue, err = d.owns(ctx, p.key, b.Venue)
	}
	if err == nil && (!p.venue || b.Test) {
		err = problem.New(problem.NotFound, "no such booking")
	}
	return b, err
}

// mayManage reports whether a key made a booking, or manages those of the account that made
// it. Test keys see test bookings only, and live keys live ones.
func mayManage(k *billing.Key, b *bookings.Booking) bool {
	return k.Account == b.Account && (k.ID == b.Key || k.Has(billing.ScopeManage)) && k.Test == b.Test
}

// owns reports whether a key manages the vacants of a vacant's owner.
func (d *api) owns(ctx context.Context, k *billing.Key, venue identity.ID) (bool, error) {
	if k.Test || !k.Has(billing.ScopeManage) {
		return false, nil
	}
	owner, err := d.Owner(ctx, venue)
	return owner != "" && owner == k.Tenant, err
}

func (d *api) show(w http.ResponseWriter, r *http.Request) error {
	p, err := d.who(r, nil)
	if err != nil {
		return err
	}
	return d.showTo(w, r, &p)
}

func (d *api) showTo(w http.ResponseWriter, r *http.Request, p *party) error {
	b, err := d.find(r.Context(), r.PathValue("id"), p)
	if err != nil {
		return err
	}
	return d.answer(w, r, &b)
}

// answer answers with a booking, its details and its history.
func (d *api) answer(w http.ResponseWriter, r *http.Request, b *bookings.Booking) error {
	out := bookingOf(b)
	details, err := d.Bookings.Details(r.Context(), b.ID)
	if err != nil {
		return err
	}
	out.Guest, out.Notes, out.Input, out.Result = details.Guest, details.Notes, details.Input, details.Result
	rows, err := d.Bookings.History(r.Context(), b.ID)
	if err != nil {
		return err
	}
	for i, row := range rows {
		out.History = append(out.History, Change{i + 1, row.Kind, row.From, row.To, row.Actor, row.Reason, row.EventID, row.At})
	}
	return httpapi.Answer(w, http.StatusOK, out)
}

// maxPage is the length of a page of bookings.
const maxPage = 100

func (d *api) list(w http.ResponseWriter, r *http.Request) error {
	p, err := d.who(r, nil)
	if err != nil {
		return err
	}
	return d.listTo(w, r, &p)
}

func (d *api) listTo(w http.ResponseWriter, r *http.Request, p *party) error {
	ctx, q := r.Context(), r.URL.Query()
	var all []bookings.Booking
	var next string
	ref := q.Get("venue")
	if ref == "" && p.vacant != nil {
		ref = p.vacant.String()
	}
	switch {
	case ref != "":
		v, err := d.Bookings.Find(ctx, ref)
		if err != nil {
			return err
		}
		allowed := p.operator || p.vacant != nil && *p.vacant == v.ID
		if p.key != nil {
			if allowed, err = d.owns(ctx, p.key, v.ID); err != nil {
				return err
			}
		}
		if !allowed {
			return problem.New(problem.NotFound, "no venue %.80q of yours", ref)
		}
		if all, next, err = d.Bookings.OfVenue(ctx, v.ID, q.Get("cursor"), maxPage); err != nil {
			return err
		}
	case p.key == nil:
		return problem.Invalid("venue", "a venue", "none")
	default:
		var err error
		if all, next, err = d.Bookings.OfAccount(ctx, p.key.Account, q.Get("cursor"), maxPage); err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(b bookings.Booking) bool { return !mayManage(p.key, &b) })
	}
	page := Bookings{Bookings: make([]Booking, len(all)), Next: next}
	for i := range all {
		page.Bookings[i] = bookingOf(&all[i])
	}
	return httpapi.Answer(w, http.StatusOK, page)
}

// maxChange bounds the body of a transition, and its texts.
const (
	maxChange = 4 << 10
	maxReason = 512
	maxEvent  = 128
)

func (d *api) transition(w http.ResponseWriter, r *http.Request) error {
	body, err := httpapi.Body(w, r, maxChange)
	if err != nil {
		return err
	}
	p, err := d.who(r, body)
	if err != nil {
		return err
	}
	return d.transitionBy(w, r, body, &p)
}

func (d *api) transitionBy(w http.ResponseWriter, r *http.Request, body []byte, p *party) error {
	var is struct {
		To      string `json:"to" canon:"max=32"`
		Reason  string `json:"reason"`
		EventID string `json:"event_id"`
	}
	if err := canon.Unmarshal(body, &is, canon.Limits{Bytes: maxChange, Depth: 2, Keys: 8}); err != nil {
		return err
	}
	for _, text := range []struct {
		field, text string
		max         int
	}{{"reason", is.Reason, maxReason}, {"event_id", is.EventID, maxEvent}} {
		if len(text.text) > text.max {
			return problem.Invalid(text.field, fmt.Sprintf("at most %d bytes", text.max), fmt.Sprint(len(text.text)))
		}
	}
	c := bookings.Change{Actor: p.String(), Any: p.operator, Reason: is.Reason, EventID: is.EventID}
	var err error
	c.To, err = booking.ParseState(is.To)
	if err != nil {
		return err
	}
	b, err := d.find(r.Context(), r.PathValue("id"), p)
	if err != nil {
		return err
	}
	if !p.operator && !p.venue {
		return problem.New(problem.NotFound, "no such booking of a venue of yours")
	}
	if b, err = d.Bookings.Transition(r.Context(), b.ID, c); err != nil {
		return err
	}
	return d.answer(w, r, &b)
}

func (d *api) cancel(w http.ResponseWriter, r *http.Request) error {
	k, err := d.authenticate(r, billing.ScopeAGP)
	if err != nil {
		return err
	}
	p := party{key: &k}
	b, err := d.find(r.Context(), r.PathValue("id"), &p)
	if err == nil && p.venue {
		err = problem.New(problem.NotFound, "no such booking of this key")
	}
	if err == nil {
		b, err = d.Bookings.Cancel(r.Context(), b.ID, p.String())
	}
	if err != nil {
		return err
	}
	return d.answer(w, r, &b)
}

// Operator returns the routes of the operator, for whom the host decides.
//
//	GET  /v1/admin/bookings?venue=&cursor=
//	GET  /v1/admin/bookings/{id}
//	POST /v1/admin/bookings/{id}/transition  {"to", "reason", "event_id"}, to any state
//	GET  /v1/admin/metrics
func Operator(c Config) map[string]httpapi.Methods {
	if c.Bookings == nil {
		return nil
	}
	d := newAPI(c)
	one := OperatorBookingsPath + "/{id}"
	return map[string]httpapi.Methods{
		OperatorBookingsPath: {http.MethodGet: d.own(func(w http.ResponseWriter, r *http.Request) error { return d.listTo(w, r, &party{operator: true}) })},
		one:                  {http.MethodGet: d.own(func(w http.ResponseWriter, r *http.Request) error { return d.showTo(w, r, &party{operator: true}) })},
		one + "/transition": {http.MethodPost: d.own(func(w http.ResponseWriter, r *http.Request) error {
			body, err := httpapi.Body(w, r, maxChange)
			if err != nil {
				return err
			}
			return d.transitionBy(w, r, body, &party{operator: true})
		})},
		OperatorMetricsPath: {http.MethodGet: d.serveMetrics},
	}
}
