package agp

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	bookings "github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/booking"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The operations on bookings. The operator may use them for all bookings; keys and venues may use
// them only for their own.
var (
	ListBookings = op.Twin[BookingList, Bookings]{
		Operator: op.Op[BookingList, Bookings]{Method: "GET", Path: operatorPath, Doc: "lists the bookings of a venue, or of the whole host by account"},
		Key:      op.Op[BookingList, Bookings]{Method: "GET", Path: BookingsPath, Access: parties, Doc: "lists the bookings that a key may see, or the bookings of one venue"},
	}
	GetBooking = op.Twin[OneBooking, Booking]{
		Operator: op.Op[OneBooking, Booking]{Method: "GET", Path: operatorPath + "/{id}", Doc: "shows a booking with its history"},
		Key:      op.Op[OneBooking, Booking]{Method: "GET", Path: BookingsPath + "/{id}", Access: parties, Doc: "shows a booking with its history to its parties"},
	}
	MoveBooking = op.Twin[Moving, Booking]{
		Operator: op.Op[Moving, Booking]{Method: "POST", Path: operatorPath + "/{id}/transition", Limit: maxChange, Doc: "moves a booking to any state that may follow its current state"},
		Key:      op.Op[Moving, Booking]{Method: "POST", Path: BookingsPath + "/{id}/transition", Access: parties, Limit: maxChange, Doc: "moves a booking to a state, for its venue"},
	}
	CancelBooking = op.Op[Cancelling, Booking]{Method: "POST", Path: BookingsPath + "/{id}/cancel", Access: op.Access{Key: billing.Demand{Scope: billing.ScopeAGP, Test: true}}, Doc: "cancels a booking, for the key or account that made it"}
)

const (
	operatorPath = "/v1/admin/bookings"
	metricsPath  = "/v1/admin/metrics" // path of the metrics for the operator
)

// parties admits keys and vacants. api.findBooking decides which bookings each of them may see.
var parties = op.Access{Vacant: true, Key: billing.Demand{Scope: billing.ScopeRead, Test: true}}

type (
	// BookingList selects a page of bookings. If Venue is "", the page lists the bookings that the
	// key may see, the bookings of the vacant that signed the request or, for the operator, the
	// bookings of the host.
	BookingList struct {
		Venue  string `query:"venue"`
		Cursor string `query:"cursor"`
	}
	OneBooking struct {
		ID string `path:"id"`
	}
	Moving struct {
		OneBooking
		Body Move `body:"json"`
	}
	// Move contains the new state of a booking and the reason. EventID is an optional id, chosen by
	// the venue, that the history stores.
	Move struct {
		To      string `json:"to" canon:"max=32"`
		Reason  string `json:"reason"`
		EventID string `json:"event_id"`
	}
	Cancelling struct {
		OneBooking
		op.IgnoreBody
	}
)

// Booking is the JSON form of a booking for its parties.
type Booking struct {
	ID       string         `json:"booking_id"`
	Status   booking.Status `json:"status"`
	Envelope booking.State  `json:"envelope_status"`
	Reason   string         `json:"cancel_reason,omitempty"`
	From     string         `json:"from"` // sender that the key claimed
	Venue    identity.ID    `json:"venue_id"`
	Slug     string         `json:"venue_slug"`
	Name     string         `json:"venue_name"`
	Starts   time.Time      `json:"starts_at,omitzero"`
	Party    int64          `json:"party_size"`
	Price    string         `json:"price_usd"`
	// VenuePrice is the maximum price of the call to the venue. It is omitted if the call is free.
	VenuePrice string          `json:"venue_price_usd,omitempty"`
	Credited   string          `json:"credited_usd,omitempty"`
	Test       bool            `json:"test,omitempty"`
	Guest      json.RawMessage `json:"guest,omitempty"`
	Notes      string          `json:"notes,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	// Cut is the reason why the venue's answer may be incomplete.
	Cut     string    `json:"cut,omitempty"`
	Created time.Time `json:"created_at"`
	Changed time.Time `json:"changed_at"`
	History []Change  `json:"history,omitempty"`
}

// Change is a row in the history of a booking.
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

// Bookings is a page of bookings, sorted from the oldest to the newest.
type Bookings struct {
	Bookings []Booking `json:"bookings"`
	Next     string    `json:"next"`
}

func bookingOf(b *bookings.Booking) Booking {
	out := Booking{
		ID: b.ID, Status: b.Status(), Envelope: b.State, Reason: b.Reason, From: b.From, Venue: b.Venue, Slug: b.Slug, Name: b.Name,
		Starts: b.Starts, Party: b.Party, Price: dollars(b.Price), Test: b.Test, Cut: string(b.Truncation), Created: b.Created, Changed: b.Changed,
	}
	if b.VenuePrice > 0 {
		out.VenuePrice = dollars(b.VenuePrice)
	}
	if b.Credited > 0 {
		out.Credited = dollars(b.Credited)
	}
	return out
}

// party is the sender of a request about bookings.
type party struct {
	operator bool
	key      *billing.Key
	vacant   *identity.ID // vacant that signed the request
	venue    bool         // true if the party is the booking's venue or the venue's owner
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

func partyOf(ctx context.Context) *party {
	c := op.CallerOf(ctx)
	return &party{operator: c.Operator, key: c.Key, vacant: c.Vacant}
}

// find returns a booking that a party may see. The parties are the key that made the booking, a key
// of the same account with the scope manage, the venue, and the venue's owner. All others get
// NotFound.
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

// mayManage reports whether a key made a booking or manages the bookings of the account that made
// it. Test keys can see only test bookings, and live keys only live ones.
func mayManage(k *billing.Key, b *bookings.Booking) bool {
	return k.Account == b.Account && (k.ID == b.Key || k.Has(billing.ScopeManage)) && k.Test == b.Test
}

func (d *api) owns(ctx context.Context, k *billing.Key, venue identity.ID) (bool, error) {
	if k.Test || !k.Has(billing.ScopeManage) {
		return false, nil
	}
	owner, err := d.Owner(ctx, venue)
	return owner != "" && owner == k.Tenant, err
}

// whole returns a booking with its details and history. If err is not nil, it only returns err.
func (d *api) whole(ctx context.Context, b bookings.Booking, err error) (Booking, error) {
	if err != nil {
		return Booking{}, err
	}
	out := bookingOf(&b)
	details, err := d.Bookings.Details(ctx, b.ID)
	if err != nil {
		return out, err
	}
	out.Guest, out.Notes, out.Input, out.Result = details.Guest, details.Notes, details.Input, details.Result
	rows, err := d.Bookings.History(ctx, b.ID)
	for i, row := range rows {
		out.History = append(out.History, Change{i + 1, row.Kind, row.From, row.To, row.Actor, row.Reason, row.EventID, row.At})
	}
	return out, err
}

// maxPage limits a page of bookings.
const maxPage = 100

func (d *api) list(ctx context.Context, in BookingList) (page Bookings, err error) {
	p := partyOf(ctx)
	ref := in.Venue
	if ref == "" && p.vacant != nil {
		ref = p.vacant.String()
	}
	var items []bookings.Booking
	switch {
	case ref != "":
		v, err := d.Bookings.Find(ctx, ref)
		if err != nil {
			return page, err
		}
		allowed := p.operator || p.vacant != nil && *p.vacant == v.ID
		if p.key != nil {
			if allowed, err = d.owns(ctx, p.key, v.ID); err != nil {
				return page, err
			}
		}
		if !allowed {
			return page, problem.New(problem.NotFound, "you have no venue %.80q", ref)
		}
		if items, page.Next, err = d.Bookings.ListVenueBookings(ctx, v.ID, in.Cursor, maxPage); err != nil {
			return page, err
		}
	case p.key == nil:
		if items, page.Next, err = d.ofHost(ctx, in.Cursor); err != nil {
			return page, err
		}
	default:
		if items, page.Next, err = d.Bookings.ListAccountBookings(ctx, p.key.Account, in.Cursor, maxPage); err != nil {
			return page, err
		}
		items = slices.DeleteFunc(items, func(b bookings.Booking) bool { return !mayManage(p.key, &b) })
	}
	page.Bookings = make([]Booking, len(items))
	for i := range items {
		page.Bookings[i] = bookingOf(&items[i])
	}
	return page, nil
}

// accountsAtOnce limits the accounts that one request reads while it finds no bookings.
const accountsAtOnce = 100

// ofHost returns a page of the host's bookings. It lists them account by account, because bookings
// are stored by account. A cursor consists of the account cursor and, after a ".", the cursor
// within the account.
func (d *api) ofHost(ctx context.Context, cursor string) (items []bookings.Booking, next string, err error) {
	account, inside, _ := strings.Cut(cursor, ".")
	for range accountsAtOnce {
		accounts, later, err := d.Bookings.Billing.Accounts(ctx, account, 1)
		if err != nil {
			return nil, "", err
		}
		more := ""
		if len(accounts) > 0 {
			if items, more, err = d.Bookings.ListAccountBookings(ctx, accounts[0].ID, inside, maxPage); err != nil {
				return nil, "", err
			}
		}
		if more != "" {
			return items, account + "." + more, nil
		}
		if account, inside = later, ""; account == "" || len(items) > 0 {
			break
		}
	}
	return items, account, nil
}

// Limits for a transition, in bytes of its body, reason and event id.
const (
	maxChange = 4 << 10
	maxReason = 512
	maxEvent  = 128
)

func (d *api) move(ctx context.Context, in Moving) (Booking, error) {
	is, p := in.Body, partyOf(ctx)
	for _, text := range []struct {
		field, text string
		max         int
	}{{"reason", is.Reason, maxReason}, {"event_id", is.EventID, maxEvent}} {
		if len(text.text) > text.max {
			return Booking{}, problem.Invalid(text.field, fmt.Sprintf("at most %d bytes", text.max), fmt.Sprint(len(text.text)))
		}
	}
	to, err := booking.ParseState(is.To)
	if err != nil {
		return Booking{}, err
	}
	b, err := d.find(ctx, in.ID, p)
	if err == nil && !p.operator && !p.venue {
		err = problem.New(problem.NotFound, "your venues have no such booking")
	}
	if err == nil {
		b, err = d.Bookings.Transition(ctx, b.ID, bookings.TransitionRequest{To: to, Actor: p.String(), AllowHostStates: p.operator, Reason: is.Reason, EventID: is.EventID})
	}
	return d.whole(ctx, b, err)
}

func (d *api) cancel(ctx context.Context, in Cancelling) (Booking, error) {
	p := partyOf(ctx)
	b, err := d.find(ctx, in.ID, p)
	if err == nil && p.venue {
		err = problem.New(problem.NotFound, "no such booking of this key")
	}
	if err == nil {
		b, err = d.Bookings.Cancel(ctx, b.ID, p.String())
	}
	return d.whole(ctx, b, err)
}

// bookings returns the routes for bookings that s serves. Their errors have AGP's form.
func (d *api) bookings(s op.Server) []op.Route {
	routes := []op.Route{
		op.OnTwin(s, ListBookings, d.list),
		op.OnTwin(s, GetBooking, func(ctx context.Context, in OneBooking) (Booking, error) {
			b, err := d.find(ctx, in.ID, partyOf(ctx))
			return d.whole(ctx, b, err)
		}),
		op.OnTwin(s, MoveBooking, d.move),
	}
	if !s.Operator {
		routes = append(routes, op.On(s, CancelBooking, d.cancel))
	}
	for i := range routes {
		routes[i].Serve, routes[i].Errors = d.withRequestID(routes[i].Serve), reflect.TypeFor[failure]()
	}
	return routes
}

// Operator returns the operator's routes, or nil if the host has no bookings. The host must
// authorize their requests.
func Operator(c Config) []op.Route {
	if c.Bookings == nil {
		return nil
	}
	return newAPI(c).operator(op.Server{Operator: true})
}

func (d *api) operator(s op.Server) []op.Route {
	return append(d.bookings(s), d.metricsAt(metricsPath, op.Access{}))
}
