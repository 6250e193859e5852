// Package booking books venues. Every listed vacant is a venue. A booking is a paid call that may
// outlive its request.
//
// A booking, its usage event and its payment are written in one commit. Each later change is a row
// in the booking's stream, written in the commit of the change. The states change only as package
// vacant/booking allows. The price of a booking that cannot be delivered is refunded once.
//
// # The life of a booking
//
//  1. Confirm commits row 1, the booking, its usage event, the debit and a reminder. The debit is
//     the price of the booking plus the maximum charge for the venue's call, which is held. Then
//     Confirm sends the booking to the queue and waits a short time for the venue.
//  2. HandleMessage dispatches the booking. The state becomes dispatched before the venue is
//     called. A guest key of the booking signs the envelope, so that bookings of one venue run in
//     parallel. The commit that accepts the call moves the held money to the call's request row,
//     which names the account as payer. From then on, the call is charged or refunded like any
//     other call. If a later dispatch makes another call, the same price is held again.
//  3. The venue's answer changes the state to accepted, rejected or, with a result, completed.
//  4. Sweep handles due reminders: it dispatches again, and expires or completes bookings.
//
// # Crashes
//
// If the venue's call is never accepted, the held money is refunded when the booking stops waiting
// for the venue. A crash before the commit of step 1 leaves only the guest's details, which expire.
// If the host crashes after step 1, the reminder dispatches the booking. If the host crashes after
// step 2, the effect of the reminder depends on the venue. A venue on this host gets the same bytes
// again and returns the same answer. A dispatch to a venue on another host counts as failed.
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

// KindBooking is the stream kind of bookings.
const KindBooking = "bkg"

const DefaultPrice = 250_000 * money.Amount(1)

// Cent is the unit of amounts in AGP.
const Cent = money.Dollar / 100

const (
	// MaxPendingTime limits the time in which a booking must be dispatched.
	MaxPendingTime = 24 * time.Hour
	// completeAfter is the time after the start at which an accepted booking becomes completed.
	completeAfter = 24 * time.Hour
	// MaxLeadTime limits how far the start of a booking may be in the future.
	MaxLeadTime = 366 * 24 * time.Hour
	// detailsRetention is the retention of details after the start of the booking or, without a start,
	// after the confirm.
	detailsRetention = 30 * 24 * time.Hour
	// answerTimeout is the time in which a venue must answer. A dispatch that takes longer has failed.
	answerTimeout = 2 * time.Minute
	// venueCallTimeout limits the turn of a venue on this host, and the call to a venue on another
	// host. It is shorter than answerTimeout, so that the answer arrives before the dispatch counts as
	// failed.
	venueCallTimeout = 90 * time.Second
	// confirmRetention is the time for which a repeated confirm returns the booking of the first
	// confirm.
	confirmRetention = 24 * time.Hour
)

// retryPauses lists the pause after each failed dispatch. If the dispatch after the last pause also
// fails, the booking is rejected.
var retryPauses = []time.Duration{time.Minute, 5 * time.Minute, 25 * time.Minute}

// Config configures a Service. Wait, Outbound and Price are optional.
type Config struct {
	Store    store.Store
	Billing  *billing.Billing
	Registry *registry.Registry
	Calls    *call.Host
	Guests   *guests.Keys
	// Signer returns the key that signs booking statements at a time, for example
	// signingkey.Keys.Signer.
	Signer func(ctx context.Context, at time.Time) (certificate.Signer, error)
	// BaseURL returns the base URL of the host's AGP endpoints.
	BaseURL func(context.Context) (string, error)
	// FindByShortID returns the id of the listed vacant whose id starts with the 12 digits short, or
	// the zero id.
	FindByShortID func(ctx context.Context, short string) (identity.ID, error)
	// Outbound sends requests to venues on other hosts. If it is nil, these venues cannot be
	// booked.
	Outbound *outbound.Client
	Queue    task.Queue
	Price    money.Amount // multiple of Cent, where zero means DefaultPrice
	Log      *slog.Logger
	Now      func() time.Time
	Rand     io.Reader // safe for concurrent use
	Wait     func(ctx context.Context, d time.Duration) error
}

// Service books venues. It is safe for concurrent use, and several Services may share a store.
type Service struct{ Config }

func New(c Config) *Service {
	c.Price = cmp.Or(c.Price, DefaultPrice)
	return &Service{c}
}

func (s *Service) updater() store.Updater {
	return store.Updater{Store: s.Store, Rand: s.Rand, Wait: s.Wait}
}

func (s *Service) currentMicrosecond() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }

func (s *Service) reminders() due.Reminders {
	return due.Reminders{Kind: DueDocs.Shape, Updater: s.updater(), Now: s.Now}
}

// Booking is the current state of a booking without its details.
type Booking struct {
	ID           string       `json:"booking_id"` // 32 random bytes in hex
	Account      string       `json:"account"`
	KeyID        string       `json:"key"` // id of the account's key that made the booking
	Tier         billing.Tier `json:"tier"`
	Test         bool         `json:"test,omitempty"`
	From         string       `json:"from"` // sender as stated by the key's holder
	Venue        identity.ID  `json:"venue_id"`
	Slug         string       `json:"venue_slug"`
	Name         string       `json:"venue_name"`
	Start        time.Time    `json:"starts_at,omitzero"`
	PartySize    int64        `json:"party_size"`
	Price        money.Amount `json:"price"` // micro-dollars
	UsageEventID string       `json:"event_id,omitempty"`
	// VenuePrice is the maximum charge for the venue's call under version VenueVersion of its
	// price, which was current when the booking was created. Held is the part of VenuePrice that is
	// held for a call that the venue has not accepted yet.
	VenuePrice   money.Amount  `json:"venue_price,omitempty"`
	VenueVersion uint64        `json:"venue_price_version,omitempty"`
	Held         money.Amount  `json:"held,omitempty"`
	Refunded     money.Amount  `json:"credited,omitempty"`
	State        booking.State `json:"envelope_status"`
	// Cancelled reports whether the guest has cancelled the booking. Reason is the reason for the
	// cancellation, rejection or expiry.
	Cancelled bool   `json:"cancelled,omitempty"`
	Reason    string `json:"cancel_reason,omitempty"`
	RowCount  uint64 `json:"history"`            // number of rows in the booking's stream
	HasResult bool   `json:"answered,omitempty"` // whether the venue has returned a result
	// CutReason is the reason why the venue's answer may be incomplete, or "".
	CutReason    call.CutReason `json:"cut,omitempty"`
	Attempts     int            `json:"attempts"`               // number of dispatches
	LastDispatch time.Time      `json:"dispatched_at,omitzero"` // time of the last dispatch
	CreatedAt    time.Time      `json:"created_at"`
	ChangedAt    time.Time      `json:"changed_at"` // time of the last row
}

func (b *Booking) Status() booking.Status {
	if b.Cancelled {
		return booking.StatusCancelled
	}
	return b.State.Status()
}

// isAboutToChange reports whether the booking waits for its venue or is about to be completed. A
// booking without a start is completed when the venue returns a result.
func (b *Booking) isAboutToChange() bool {
	return b.State == booking.Pending || b.State == booking.Dispatched || b.State == booking.Accepted && b.HasResult && b.Start.IsZero()
}

func (b *Booking) awaitsVenue() bool {
	return b.State == booking.Pending || b.State == booking.Dispatched || b.State == booking.DispatchFailed
}

// storedBooking is the stored form of a booking.
type storedBooking struct {
	Booking
	Shard int `json:"shard"`
	// DailyCap is the daily cap of the key that created the booking. It also applies to the venue's
	// call.
	DailyCap money.Amount `json:"cap,omitempty"`
	// MaxCost limits the cost of the booking together with the calls that the venue makes for it. It
	// is the lower of the key's limit and the confirm's limit. Zero means no limit.
	MaxCost money.Amount `json:"most,omitempty"`
	// OccupiesSlot reports whether the guests are counted in the slot at the booking's start
	// (SlotDocs).
	OccupiesSlot bool      `json:"slot,omitempty"`
	Due          time.Time `json:"due,omitzero"` // due time of its reminder
	ChangeIDs    []string  `json:"events,omitempty"`
}

// RowKind is the kind of change that a row of a booking records.
type RowKind string

const (
	RowCreated    RowKind = "created"
	RowTransition RowKind = "transition"
	RowCancelled  RowKind = "cancelled"
	// RowPaid records that the venue has accepted the call, which pays with the held money.
	RowPaid RowKind = "paid"
)

// Row is a row of a booking. Amount is the amount that is debited from the account, or refunded if
// it is negative. Held is the amount that is held for the venue's call, or released if it is
// negative.
type Row struct {
	Kind         RowKind       `json:"kind"`
	From         booking.State `json:"from,omitempty"`
	To           booking.State `json:"to,omitempty"`
	Actor        string        `json:"actor"`
	Reason       string        `json:"reason,omitempty"`
	ChangeID     string        `json:"event_id,omitempty"`
	Account      string        `json:"account,omitempty"` // account that Amount and Held change
	Amount       money.Amount  `json:"amount,omitempty"`
	Held         money.Amount  `json:"held,omitempty"`
	UsageEventID string        `json:"usage_event,omitempty"` // usage event in the same commit
	Time         time.Time     `json:"at"`
}

// Details contains the guest's request and the venue's answer. It is deleted 30 days after the
// booking's start, or after the confirm if the booking has no start.
type Details struct {
	Guest  json.RawMessage `json:"guest,omitempty"`
	Notes  string          `json:"notes,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// UsageEvent is the usage event of a booking or a refund.
type UsageEvent struct {
	ID           string       `json:"event_id"`
	Account      string       `json:"account"`
	KeyID        string       `json:"key"`
	Intent       string       `json:"intent"`
	Amount       money.Amount `json:"amount"` // micro-dollars, negative for a refund
	BookingID    string       `json:"booking_id"`
	Tier         billing.Tier `json:"tier"`
	PriceVersion int          `json:"price_version"`
	Time         time.Time    `json:"at"`
}

// IntentConfirm is the AGP operation (intent) that confirms a booking and costs money.
const IntentConfirm = "booking.confirm"

func Key(id string) store.Key { return BookingDocs.Key(id) }

// eventTimeFormat is the format of the time at the start of an event's sort key.
const eventTimeFormat = "2006-01-02T15:04:05.000000"

func EventKey(e *UsageEvent) store.Key {
	return EventDocs.Key(e.Account, e.Time.UTC().Format(eventTimeFormat)+"#"+e.ID)
}

func slotKey(venue identity.ID, starts time.Time) store.Key {
	return SlotDocs.Key(venue.String(), starts.UTC().Format(time.RFC3339))
}

func Stream(id string) (store.Stream, error) {
	raw, err := identity.ParseHex(id)
	if err != nil || len(raw) != identity.Size {
		return "", notFound()
	}
	return store.StreamOf(KindBooking, identity.ID(raw)), nil
}

func notFound() error { return problem.New(problem.NotFound, "no such booking") }

func DecodeRow(row store.Row) (Row, error) {
	r, err := rowCodec.Decode(store.Doc{Data: row.Data})
	if err != nil {
		return r, problem.Wrap(problem.Damaged, err, "row %d of a booking is not readable", row.Position)
	}
	return r, nil
}

func (s *Service) Get(ctx context.Context, id string) (Booking, error) {
	if _, err := Stream(id); err != nil {
		return Booking{}, err
	}
	b, d, err := BookingDocs.Get(ctx, s.Store, Key(id))
	if err != nil {
		return Booking{}, store.AsProblem(err)
	}
	if d.Version == 0 {
		return Booking{}, notFound()
	}
	return b.Booking, nil
}

func (s *Service) Details(ctx context.Context, id string) (Details, error) {
	details, d, err := DetailsDocs.Get(ctx, s.Store, DetailsDocs.Key(id))
	if err != nil || d.IsExpired(s.Now()) {
		return Details{}, store.AsProblem(err)
	}
	return details, nil
}

func (s *Service) History(ctx context.Context, id string) ([]Row, error) {
	stream, err := Stream(id)
	if err != nil {
		return nil, err
	}
	rows, err := s.Store.Rows(ctx, stream, 1, store.MaxPage, store.Ascending)
	if err != nil {
		return nil, store.AsProblem(err)
	}
	history := make([]Row, len(rows))
	for i, row := range rows {
		if history[i], err = DecodeRow(row); err != nil {
			return nil, err
		}
	}
	return history, nil
}

// ListVenueBookings returns a page of a venue's bookings, oldest first, and the cursor of the next
// page.
func (s *Service) ListVenueBookings(ctx context.Context, venue identity.ID, cursor string, n int) (bookings []Booking, next string, err error) {
	docs, next, err := s.Store.Docs(ctx, BookingDocs.IndexRange(venue.String()), n, cursor)
	for i := 0; err == nil && i < len(docs); i++ {
		var b storedBooking
		b, err = BookingDocs.Parse(docs[i])
		bookings = append(bookings, b.Booking)
	}
	return bookings, next, store.AsProblem(err)
}

// ListAccountBookings returns a page of an account's bookings, oldest first, and the cursor of the
// next page. A page may have fewer than n bookings.
func (s *Service) ListAccountBookings(ctx context.Context, account, cursor string, n int) (bookings []Booking, next string, err error) {
	docs, next, err := s.Store.Docs(ctx, EventDocs.Range(account), n, cursor)
	for _, d := range docs {
		e, err := EventDocs.Parse(d)
		if err == nil && e.Intent == IntentConfirm && e.Amount >= 0 {
			var b Booking
			b, err = s.Get(ctx, e.BookingID)
			bookings = append(bookings, b)
		}
		if err != nil {
			return nil, "", err
		}
	}
	return bookings, next, store.AsProblem(err)
}

func EachUsageEvent(ctx context.Context, s store.Store, account string, from, until time.Time, fn func(UsageEvent) error) error {
	r := EventDocs.Range(account)
	r.Start, r.End = from.UTC().Format(eventTimeFormat), until.UTC().Format(eventTimeFormat)
	for e, err := range EventDocs.Each(ctx, s, r) {
		if err != nil {
			return store.AsProblem(err)
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

var errNoOutbound = errors.New("this host cannot call venues on other hosts")
