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
	ListBookings = op.Twin[BookingsRequest, Bookings]{
		Operator: op.Op[BookingsRequest, Bookings]{Method: "GET", Path: operatorPath, Doc: "lists the bookings of a venue, or of the whole host by account"},
		Key:      op.Op[BookingsRequest, Bookings]{Method: "GET", Path: BookingsPath, Access: partyAccess, Doc: "lists the bookings that a key may see, or the bookings of one venue"},
	}
	GetBooking = op.Twin[BookingRef, Booking]{
		Operator: op.Op[BookingRef, Booking]{Method: "GET", Path: operatorPath + "/{id}", Doc: "shows a booking with its history"},
		Key:      op.Op[BookingRef, Booking]{Method: "GET", Path: BookingsPath + "/{id}", Access: partyAccess, Doc: "shows a booking with its history to its parties"},
	}
	MoveBooking = op.Twin[MoveRequest, Booking]{
		Operator: op.Op[MoveRequest, Booking]{Method: "POST", Path: operatorPath + "/{id}/transition", MaxBody: maxMoveBytes, Doc: "moves a booking to any state that may follow its current state"},
		Key:      op.Op[MoveRequest, Booking]{Method: "POST", Path: BookingsPath + "/{id}/transition", Access: partyAccess, MaxBody: maxMoveBytes, Doc: "moves a booking to a state, for its venue"},
	}
	CancelBooking = op.Op[CancelRequest, Booking]{Method: "POST", Path: BookingsPath + "/{id}/cancel", Access: op.Access{Key: billing.KeyRequirement{Scope: billing.ScopeAGP, AllowsTest: true}}, Doc: "cancels a booking, for the key or account that made it"}
)

const (
	operatorPath = "/v1/admin/bookings"
	metricsPath  = "/v1/admin/metrics"
)

// partyAccess admits keys and vacants. api.findBooking decides which bookings the sender may see.
var partyAccess = op.Access{Vacant: true, Key: billing.KeyRequirement{Scope: billing.ScopeRead, AllowsTest: true}}

type (
	// BookingsRequest selects a page of bookings. If Venue is "", the page depends on the sender. A
	// key gets the bookings that it may see, a vacant its own bookings, and the operator the bookings
	// of the host.
	BookingsRequest struct {
		Venue  string `query:"venue"`
		Cursor string `query:"cursor"`
	}
	BookingRef struct {
		ID string `path:"id"`
	}
	MoveRequest struct {
		BookingRef
		Body Move `body:"json"`
	}
	// Move is a change of a booking's state. The venue may choose ChangeID, which the history
	// stores.
	Move struct {
		To       string `json:"to" canon:"max=32"`
		Reason   string `json:"reason"`
		ChangeID string `json:"event_id"`
	}
	CancelRequest struct {
		BookingRef
		op.IgnoredBody
	}
)

// Booking is the JSON form of a booking for its parties.
type Booking struct {
	ID        string         `json:"booking_id"`
	Status    booking.Status `json:"status"`
	Envelope  booking.State  `json:"envelope_status"`
	Reason    string         `json:"cancel_reason,omitempty"`
	From      string         `json:"from"` // sender that the envelope names
	Venue     identity.ID    `json:"venue_id"`
	Slug      string         `json:"venue_slug"`
	Name      string         `json:"venue_name"`
	Start     time.Time      `json:"starts_at,omitzero"`
	PartySize int64          `json:"party_size"`
	Price     string         `json:"price_usd"`
	// VenuePrice is the maximum price of the call to the venue. It is omitted if the call is free.
	VenuePrice string          `json:"venue_price_usd,omitempty"`
	Refunded   string          `json:"credited_usd,omitempty"`
	Test       bool            `json:"test,omitempty"`
	Guest      json.RawMessage `json:"guest,omitempty"`
	Notes      string          `json:"notes,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	// CutReason is the reason why the venue's answer may be incomplete.
	CutReason string    `json:"cut,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at"`
	History   []Change  `json:"history,omitempty"`
}

// Change is a row in the history of a booking.
type Change struct {
	Seq      int              `json:"seq"`
	Kind     bookings.RowKind `json:"kind"`
	From     booking.State    `json:"from,omitempty"`
	To       booking.State    `json:"to"`
	Actor    string           `json:"actor"`
	Reason   string           `json:"reason,omitempty"`
	ChangeID string           `json:"event_id,omitempty"`
	Time     time.Time        `json:"ts"`
}

// Bookings is a page of bookings, oldest first.
type Bookings struct {
	Bookings []Booking `json:"bookings"`
	Next     string    `json:"next"`
}

func bookingOf(b *bookings.Booking) Booking {
	out := Booking{
		ID: b.ID, Status: b.Status(), Envelope: b.State, Reason: b.Reason, From: b.From, Venue: b.Venue, Slug: b.Slug, Name: b.Name,
		Start: b.Start, PartySize: b.PartySize, Price: formatDollars(b.Price), Test: b.Test, CutReason: string(b.CutReason), CreatedAt: b.CreatedAt, ChangedAt: b.ChangedAt,
	}
	if b.VenuePrice > 0 {
		out.VenuePrice = formatDollars(b.VenuePrice)
	}
	if b.Refunded > 0 {
		out.Refunded = formatDollars(b.Refunded)
	}
	return out
}

// party is the sender of a request about bookings.
type party struct {
	isOperator bool
	key        *billing.Key
	vacant     *identity.ID // vacant that signed the request
	isVenue    bool         // true if the party is the booking's venue or the venue's owner
}

func (p *party) String() string {
	switch {
	case p.isOperator:
		return "operator"
	case p.vacant != nil:
		return "venue " + p.vacant.Short()
	}
	return "key " + p.key.ID
}

func partyOf(ctx context.Context) *party {
	c := op.CallerOf(ctx)
	return &party{isOperator: c.IsOperator, key: c.Key, vacant: c.Vacant}
}

// findBooking returns a booking that p may see, and sets p.isVenue. The operator, the venue and the
// key that made a booking may see it. Keys with the scope manage may also see the bookings of their
// account and of their tenant's venues. All others get NotFound.
func (d *api) findBooking(ctx context.Context, id string, p *party) (bookings.Booking, error) {
	b, err := d.Bookings.Get(ctx, id)
	if err != nil || p.isOperator {
		return b, err
	}
	if p.vacant != nil {
		p.isVenue = *p.vacant == b.Venue && !b.Test
	} else {
		if mayManage(p.key, &b) {
			return b, nil
		}
		p.isVenue, err = d.ownsVenue(ctx, p.key, b.Venue)
	}
	if err == nil && (!p.isVenue || b.Test) {
		err = problem.New(problem.NotFound, "no such booking")
	}
	return b, err
}

// mayManage reports whether a key made a booking or manages the bookings of the account that made
// it. Test keys can see only test bookings, and live keys only live ones.
func mayManage(k *billing.Key, b *bookings.Booking) bool {
	return k.Account == b.Account && (k.ID == b.KeyID || k.HasScope(billing.ScopeManage)) && k.Test == b.Test
}

func (d *api) ownsVenue(ctx context.Context, k *billing.Key, venue identity.ID) (bool, error) {
	if k.Test || !k.HasScope(billing.ScopeManage) {
		return false, nil
	}
	owner, err := d.TenantOf(ctx, venue)
	return owner != "" && owner == k.Tenant, err
}

// fullBooking returns a booking with its details and history, or err if err is not nil.
func (d *api) fullBooking(ctx context.Context, b bookings.Booking, err error) (Booking, error) {
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
		out.History = append(out.History, Change{i + 1, row.Kind, row.From, row.To, row.Actor, row.Reason, row.ChangeID, row.Time})
	}
	return out, err
}

const maxPageSize = 100

func (d *api) listBookings(ctx context.Context, in BookingsRequest) (page Bookings, err error) {
	p := partyOf(ctx)
	ref := in.Venue
	if ref == "" && p.vacant != nil {
		ref = p.vacant.String()
	}
	var items []bookings.Booking
	switch {
	case ref != "":
		v, err := d.Bookings.FindVenue(ctx, ref)
		if err != nil {
			return page, err
		}
		isAllowed := p.isOperator || p.vacant != nil && *p.vacant == v.ID
		if p.key != nil {
			if isAllowed, err = d.ownsVenue(ctx, p.key, v.ID); err != nil {
				return page, err
			}
		}
		if !isAllowed {
			return page, problem.New(problem.NotFound, "you have no venue %.80q", ref)
		}
		if items, page.Next, err = d.Bookings.ListVenueBookings(ctx, v.ID, in.Cursor, maxPageSize); err != nil {
			return page, err
		}
	case p.key == nil:
		if items, page.Next, err = d.listHostBookings(ctx, in.Cursor); err != nil {
			return page, err
		}
	default:
		if items, page.Next, err = d.Bookings.ListAccountBookings(ctx, p.key.Account, in.Cursor, maxPageSize); err != nil {
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

// maxAccountsPerRequest limits how many accounts one request searches for bookings.
const maxAccountsPerRequest = 100

// listHostBookings returns a page of the host's bookings. It lists them account by account, because
// bookings are stored by account. A cursor consists of the account cursor and, after a ".", the
// cursor within the account.
func (d *api) listHostBookings(ctx context.Context, cursor string) (items []bookings.Booking, next string, err error) {
	accountCursor, bookingCursor, _ := strings.Cut(cursor, ".")
	for range maxAccountsPerRequest {
		accounts, nextAccount, err := d.Bookings.Billing.Accounts(ctx, accountCursor, 1)
		if err != nil {
			return nil, "", err
		}
		nextBooking := ""
		if len(accounts) > 0 {
			if items, nextBooking, err = d.Bookings.ListAccountBookings(ctx, accounts[0].ID, bookingCursor, maxPageSize); err != nil {
				return nil, "", err
			}
		}
		if nextBooking != "" {
			return items, accountCursor + "." + nextBooking, nil
		}
		if accountCursor, bookingCursor = nextAccount, ""; accountCursor == "" || len(items) > 0 {
			break
		}
	}
	return items, accountCursor, nil
}

const (
	maxMoveBytes     = 4 << 10
	maxReasonBytes   = 512
	maxChangeIDBytes = 128
)

func (d *api) moveBooking(ctx context.Context, in MoveRequest) (Booking, error) {
	body, p := in.Body, partyOf(ctx)
	for _, part := range []struct {
		field, text string
		max         int
	}{{"reason", body.Reason, maxReasonBytes}, {"event_id", body.ChangeID, maxChangeIDBytes}} {
		if len(part.text) > part.max {
			return Booking{}, problem.Invalid(part.field, fmt.Sprintf("at most %d bytes", part.max), fmt.Sprint(len(part.text)))
		}
	}
	to, err := booking.ParseState(body.To)
	if err != nil {
		return Booking{}, err
	}
	b, err := d.findBooking(ctx, in.ID, p)
	if err == nil && !p.isOperator && !p.isVenue {
		err = problem.New(problem.NotFound, "your venues have no such booking")
	}
	if err == nil {
		b, err = d.Bookings.Transition(ctx, b.ID, bookings.TransitionRequest{To: to, Actor: p.String(), AllowHostStates: p.isOperator, Reason: body.Reason, ChangeID: body.ChangeID})
	}
	return d.fullBooking(ctx, b, err)
}

func (d *api) cancelBooking(ctx context.Context, in CancelRequest) (Booking, error) {
	p := partyOf(ctx)
	b, err := d.findBooking(ctx, in.ID, p)
	if err == nil && p.isVenue {
		err = problem.New(problem.NotFound, "no such booking of this key")
	}
	if err == nil {
		b, err = d.Bookings.Cancel(ctx, b.ID, p.String())
	}
	return d.fullBooking(ctx, b, err)
}

func (d *api) bookingRoutes(s op.Server) []op.Route {
	routes := []op.Route{
		op.NewTwinRoute(s, ListBookings, d.listBookings),
		op.NewTwinRoute(s, GetBooking, func(ctx context.Context, in BookingRef) (Booking, error) {
			b, err := d.findBooking(ctx, in.ID, partyOf(ctx))
			return d.fullBooking(ctx, b, err)
		}),
		op.NewTwinRoute(s, MoveBooking, d.moveBooking),
	}
	if !s.OperatorOnly {
		routes = append(routes, op.NewRoute(s, CancelBooking, d.cancelBooking))
	}
	for i := range routes {
		routes[i].Serve, routes[i].ErrorType = d.withRequestID(routes[i].Serve), reflect.TypeFor[failure]()
	}
	return routes
}

// OperatorRoutes returns the operator's routes, or nil if the host has no bookings. The host must
// authorize their requests.
func OperatorRoutes(c Config) []op.Route {
	if c.Bookings == nil {
		return nil
	}
	return newAPI(c).operatorRoutes(op.Server{OperatorOnly: true})
}

func (d *api) operatorRoutes(s op.Server) []op.Route {
	return append(d.bookingRoutes(s), d.metricsRoute(metricsPath, op.Access{}))
}
