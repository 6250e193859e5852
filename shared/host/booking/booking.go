// Package booking books venues: a vacant that is listed is a venue, and a booking a paid
// call that outlives its request.
//
// The invariants: a booking, its event and its money are one commit, so there is never one
// without the others. Each change is a row of the booking's stream, in the commit that
// makes it; its state moves as vacant/booking says, and no other way. What cannot be
// delivered is given back, once.
//
// # The life of a booking
//
//  1. Confirm commits row 1, the booking, its event, the debit, and a reminder. The debit is
//     the price of a booking and the most that the venue charges for a call. Then Confirm
//     sends the booking to the queue, and waits a little for the venue.
//  2. Work dispatches it: the state is dispatched before the venue hears of it. A guest of
//     its own signs the envelope, so bookings of one venue run in parallel. The commit that
//     accepts the call passes what is held for the venue to the call's request row, which
//     names the account as payer: from then on the call is charged, or refunded, as any
//     other. A later dispatch holds the same price again.
//  3. The venue's answer moves it to accepted, rejected or, with a result, completed.
//  4. Sweep follows the reminders: it dispatches again, expires and completes.
//
// # Crashes
//
// Money that is held for a venue whose call was not accepted is given back by the step that
// ends the wait for the venue. A crash before 1 leaves nothing but details that expire.
// After 1 the reminder dispatches
// the booking. After 2 the reminder sends the same bytes again, which a venue of this host
// answers as before; to one elsewhere it is a dispatch that failed.
package booking

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/due"
	"github.com/vacancy-host/vacancy/shared/host/keys/guests"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/booking"
	"github.com/vacancy-host/vacancy/shared/vacant/certificate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// KindBooking is the kind of the stream of a booking's rows.
const KindBooking = "bkg"

// DefaultPrice is the default price of a booking.
const DefaultPrice = 250_000 * money.Amount(1)

// Cent is a cent: AGP tells money in cents.
const Cent = money.Dollar / 100

// Times of a booking.
const (
	// MaxPending bounds the time for which a booking waits to be dispatched.
	MaxPending = 24 * time.Hour
	// completeAfter is the time after its start at which an accepted booking is
	// completed.
	completeAfter = 24 * time.Hour
	// MaxAhead bounds the time from now to the start of a booking.
	MaxAhead = 366 * 24 * time.Hour
	// detailsAfter is the time for which details are kept after the start, or
	// after the confirm.
	detailsAfter = 30 * 24 * time.Hour
	// answerTime bounds the time that a venue takes to answer. After it, the
	// dispatch has failed.
	answerTime = 2 * time.Minute
	// work bounds the turn of a venue of this host, below answerTime.
	work = 90 * time.Second
	// repeats is the time for which a repeated confirm finds the booking that
	// the first one made.
	repeats = 24 * time.Hour
)

// retries are the times between dispatches that failed.
var retries = []time.Duration{time.Minute, 5 * time.Minute, 25 * time.Minute}

// Config configures a Service. All fields are required, except Wait, Outbound and Price.
type Config struct {
	Store    store.Store
	Billing  *billing.Billing
	Registry *registry.Registry
	Calls    *call.Host
	Guests   *guests.Keys
	// Signer returns the key that signs the claims of bookings of time at (signingkey.Keys).
	Signer func(ctx context.Context, at time.Time) (certificate.Signer, error)
	// URL returns the base URL of the host's AGP.
	URL func(context.Context) (string, error)
	// ByShort returns the listed vacant with the first 12 digits of an id; the zero id if
	// there is none.
	ByShort func(ctx context.Context, short string) (identity.ID, error)
	// Outbound reaches venues elsewhere. With nil, they cannot be booked.
	Outbound *outbound.Client
	Queue    task.Queue
	Price    money.Amount // a multiple of Cent; zero means DefaultPrice
	Log      *slog.Logger
	Now      func() time.Time
	Rand     io.Reader // safe for concurrent use
	Wait     func(ctx context.Context, d time.Duration) error
}

// Service books venues. It is safe for concurrent use, and any number of them may share a
// store.
type Service struct{ Config }

// New returns a Service.
func New(c Config) *Service {
	c.Price = cmp.Or(c.Price, DefaultPrice)
	return &Service{c}
}

func (s *Service) updater() store.Updater {
	return store.Updater{Store: s.Store, Rand: s.Rand, Wait: s.Wait}
}

func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }

func (s *Service) due() due.Reminders {
	return due.Reminders{Of: DueDocs.Shape, With: s.updater(), Now: s.Now}
}

// Booking is a booking as it is now, without its details.
type Booking struct {
	ID      string       `json:"booking_id"` // 32 random bytes, hex
	Account string       `json:"account"`
	Key     string       `json:"key"` // id of the key that made it
	Tier    billing.Tier `json:"tier"`
	Test    bool         `json:"test,omitempty"`
	From    string       `json:"from"` // as the key claims
	Venue   identity.ID  `json:"venue_id"`
	Slug    string       `json:"venue_slug"`
	Name    string       `json:"venue_name"`
	Starts  time.Time    `json:"starts_at,omitzero"`
	Party   int64        `json:"party_size"`
	Price   money.Amount `json:"price"` // micro-dollars
	Event   string       `json:"event_id,omitempty"`
	// VenuePrice is the most that the venue charges for its call, by version VenueVersion of
	// its price when the booking was made. Held is the part of it that is held for a call
	// that the venue has not accepted yet.
	VenuePrice   money.Amount `json:"venue_price,omitempty"`
	VenueVersion uint64       `json:"venue_price_version,omitempty"`
	Held         money.Amount `json:"held,omitempty"`
	// Credited is the amount that was given back.
	Credited money.Amount  `json:"credited,omitempty"`
	State    booking.State `json:"envelope_status"`
	// Cancelled: its guest has cancelled it. Reason is why it was cancelled or rejected.
	Cancelled bool      `json:"cancelled,omitempty"`
	Reason    string    `json:"cancel_reason,omitempty"`
	Rows      uint64    `json:"history"`
	Answered  bool      `json:"answered,omitempty"` // the venue gave a result
	Cut       call.Cut  `json:"cut,omitempty"`      // why the venue's answer may be incomplete; "" for a complete one
	Attempts  int       `json:"attempts"`           // dispatches
	Sent      time.Time `json:"dispatched_at,omitzero"`
	Created   time.Time `json:"created_at"`
	Changed   time.Time `json:"changed_at"`
}

// Status returns the booking's status for its guest.
func (b *Booking) Status() booking.Status {
	if b.Cancelled {
		return booking.StatusCancelled
	}
	return b.State.Status()
}

// settling reports whether a booking is to change at once: it is on its way, or its result
// completes it.
func (b *Booking) settling() bool {
	return b.State == booking.Pending || b.State == booking.Dispatched || b.State == booking.Accepted && b.Answered && b.Starts.IsZero()
}

// awaitsVenue reports whether the venue's call may still be accepted.
func (b *Booking) awaitsVenue() bool {
	return b.State == booking.Pending || b.State == booking.Dispatched || b.State == booking.DispatchFailed
}

// stored is the document of a booking.
type stored struct {
	Booking
	Shard int `json:"shard"`
	// Cap is the daily cap of the key that made the booking. It bounds later dispatches.
	Cap money.Amount `json:"cap,omitempty"`
	// Most is the limit of the booking and of the calls that the venue makes for it, by the key and
	// the confirm. Zero means no limit.
	Most   money.Amount `json:"most,omitempty"`
	Slot   bool         `json:"slot,omitempty"` // it has a place in the slot of its start
	Due    time.Time    `json:"due,omitzero"`   // of its reminder
	Events []string     `json:"events,omitempty"`
}

// RowKind names the event that a row of a booking records.
type RowKind string

// The kinds of row.
const (
	RowCreated    RowKind = "created"
	RowTransition RowKind = "transition"
	RowCancelled  RowKind = "cancelled"
	// RowPaid says that the venue accepted the call, which pays with the held money.
	RowPaid RowKind = "paid"
)

// Row is a row of a booking. Amount is the amount that the row takes from the account; a
// negative one is given back. Held is the amount that the row holds for the venue's call; a
// negative one is no longer held.
type Row struct {
	Kind    RowKind       `json:"kind"`
	From    booking.State `json:"from,omitempty"`
	To      booking.State `json:"to,omitempty"`
	Actor   string        `json:"actor"`
	Reason  string        `json:"reason,omitempty"`
	EventID string        `json:"event_id,omitempty"`
	Account string        `json:"account,omitempty"` // whose money Amount and Held are
	Amount  money.Amount  `json:"amount,omitempty"`
	Held    money.Amount  `json:"held,omitempty"`
	Event   string        `json:"usage_event,omitempty"` // beside the row
	At      time.Time     `json:"at"`
}

// Details are the guest's request and the venue's answer. They are deleted 30 days after
// the booking's start.
type Details struct {
	Guest  json.RawMessage `json:"guest,omitempty"`
	Notes  string          `json:"notes,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// Event is the usage event of a booking, or of a credit.
type Event struct {
	ID      string       `json:"event_id"`
	Account string       `json:"account"`
	Key     string       `json:"key"`
	Intent  string       `json:"intent"`
	Amount  money.Amount `json:"amount"` // micro-dollars; negative: a credit
	Booking string       `json:"booking_id"`
	Tier    billing.Tier `json:"tier"`
	Version int          `json:"price_version"`
	At      time.Time    `json:"at"`
}

// IntentConfirm is the intent of AGP that costs money.
const IntentConfirm = "booking.confirm"

// Key is the key of a booking's document.
func Key(id string) store.Key { return BookingDocs.Key(id) }

// eventTime begins the sort of an event.
const eventTime = "2006-01-02T15:04:05.000000"

// EventKey is the key of an event's document.
func EventKey(e *Event) store.Key {
	return EventDocs.Key(e.Account, e.At.UTC().Format(eventTime)+"#"+e.ID)
}

func slotKey(venue identity.ID, starts time.Time) store.Key {
	return SlotDocs.Key(venue.String(), starts.UTC().Format(time.RFC3339))
}

// Stream is the stream of a booking's rows.
func Stream(id string) (store.Stream, error) {
	raw, err := identity.ParseHex(id)
	if err != nil || len(raw) != identity.Size {
		return "", notFound()
	}
	return store.StreamOf(KindBooking, identity.ID(raw)), nil
}

func notFound() error { return problem.New(problem.NotFound, "no such booking") }

// DecodeRow reads a row of a booking's stream.
func DecodeRow(row store.Row) (Row, error) {
	r, err := rows.Decode(store.Doc{Data: row.Data})
	if err != nil {
		return r, problem.Wrap(problem.Damaged, err, "row %d of a booking is not readable", row.Position)
	}
	return r, nil
}

// Get returns a booking; NotFound if there is none.
func (s *Service) Get(ctx context.Context, id string) (Booking, error) {
	if _, err := Stream(id); err != nil {
		return Booking{}, err
	}
	b, d, err := BookingDocs.Get(ctx, s.Store, Key(id))
	if err != nil {
		return Booking{}, store.Problem(err)
	}
	if d.Version == 0 {
		return Booking{}, notFound()
	}
	return b.Booking, nil
}

// Details returns the details of a booking; none if they are deleted.
func (s *Service) Details(ctx context.Context, id string) (Details, error) {
	all, d, err := DetailsDocs.Get(ctx, s.Store, DetailsDocs.Key(id))
	if err != nil || d.Expired(s.Now()) {
		return Details{}, store.Problem(err)
	}
	return all, nil
}

// History returns the rows of a booking.
func (s *Service) History(ctx context.Context, id string) ([]Row, error) {
	stream, err := Stream(id)
	if err != nil {
		return nil, err
	}
	rows, err := s.Store.Rows(ctx, stream, 1, store.MaxPage, store.Ascending)
	if err != nil {
		return nil, store.Problem(err)
	}
	all := make([]Row, len(rows))
	for i, row := range rows {
		if all[i], err = DecodeRow(row); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// OfVenue returns a page of a venue's bookings, the oldest first, and the cursor of the
// next.
func (s *Service) OfVenue(ctx context.Context, venue identity.ID, cursor string, n int) (all []Booking, next string, err error) {
	docs, next, err := s.Store.Docs(ctx, BookingDocs.Indexed(venue.String()), n, cursor)
	for i := 0; err == nil && i < len(docs); i++ {
		var b stored
		b, err = BookingDocs.Parse(docs[i])
		all = append(all, b.Booking)
	}
	return all, next, store.Problem(err)
}

// OfAccount returns a page of an account's bookings, the oldest first.
func (s *Service) OfAccount(ctx context.Context, account, cursor string, n int) (all []Booking, next string, err error) {
	docs, next, err := s.Store.Docs(ctx, EventDocs.All(account), n, cursor)
	for _, d := range docs {
		e, err := EventDocs.Parse(d)
		if err == nil && e.Intent == IntentConfirm && e.Amount >= 0 {
			var b Booking
			b, err = s.Get(ctx, e.Booking)
			all = append(all, b)
		}
		if err != nil {
			return nil, "", err
		}
	}
	return all, next, store.Problem(err)
}

// Events calls fn with the events of an account from time from until time until.
func Events(ctx context.Context, s store.Store, account string, from, until time.Time, fn func(Event) error) error {
	r := EventDocs.All(account)
	r.First, r.Last = from.UTC().Format(eventTime), until.UTC().Format(eventTime)
	for e, err := range EventDocs.Each(ctx, s, r) {
		if err != nil {
			return store.Problem(err)
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

var errNoOutbound = errors.New("this host reaches no venue elsewhere")
