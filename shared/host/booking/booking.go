// Package booking books venues. Every listed vacant is a venue. A booking is a paid call that may
// outlive its request.
//
// Confirm commits the booking with its price and a hold, which is the maximum charge for the
// venue's call. HandleMessage dispatches the booking, and the venue's call takes the hold. The
// venue's answer changes the state. Sweep dispatches again, and expires or completes bookings. A
// booking that cannot be delivered is refunded once.
//
// If the process dies during a dispatch, a venue on this host gets the same bytes again and returns
// the same answer. The dispatch to a venue on another host counts as failed.
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

const KindBooking = "bkg"

const DefaultPrice = 250_000 * money.Amount(1)

const Cent = money.Dollar / 100

const (
	// MaxPendingTime limits the time in which a booking must be dispatched.
	MaxPendingTime = 24 * time.Hour
	// completeAfter begins at the start of an accepted booking.
	completeAfter = 24 * time.Hour
	MaxLeadTime   = 366 * 24 * time.Hour
	// detailsRetention begins at the start of the booking or, without a start, at the confirm.
	detailsRetention = 30 * 24 * time.Hour
	answerTimeout    = 2 * time.Minute
	// venueCallTimeout is shorter than answerTimeout, so that the answer arrives before the
	// dispatch counts as failed.
	venueCallTimeout = 90 * time.Second
	// confirmRetention is the time for which a repeated confirm returns the same booking.
	confirmRetention = 24 * time.Hour
)

var retryPauses = []time.Duration{time.Minute, 5 * time.Minute, 25 * time.Minute}

// Config configures a Service. Wait, Outbound and Price are optional.
type Config struct {
	Store    store.Store
	Billing  *billing.Billing
	Registry *registry.Registry
	Calls    *call.Host
	Guests   *guests.Keys
	Signer   func(ctx context.Context, at time.Time) (certificate.Signer, error)
	BaseURL  func(context.Context) (string, error)
	// FindByShortID returns the listed vacant whose id starts with the 12 digits short, or the zero
	// id.
	FindByShortID func(ctx context.Context, short string) (identity.ID, error)
	// If Outbound is nil, venues on other hosts cannot be booked.
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

type Booking struct {
	ID           string       `json:"booking_id"` // 32 random bytes in hex
	Account      string       `json:"account"`
	KeyID        string       `json:"key"`
	Tier         billing.Tier `json:"tier"`
	Test         bool         `json:"test,omitempty"`
	From         string       `json:"from"` // sender as stated by the key's holder
	Venue        identity.ID  `json:"venue_id"`
	Slug         string       `json:"venue_slug"`
	Name         string       `json:"venue_name"`
	Start        time.Time    `json:"starts_at,omitzero"`
	PartySize    int64        `json:"party_size"`
	Price        money.Amount `json:"price"`
	UsageEventID string       `json:"event_id,omitempty"`
	// VenuePrice is the maximum charge for the venue's call under version VenueVersion of its
	// price. Held is the part that is held until the venue accepts the call.
	VenuePrice   money.Amount  `json:"venue_price,omitempty"`
	VenueVersion uint64        `json:"venue_price_version,omitempty"`
	Held         money.Amount  `json:"held,omitempty"`
	Refunded     money.Amount  `json:"credited,omitempty"`
	State        booking.State `json:"envelope_status"`
	// Reason explains a cancellation, rejection or expiry.
	Cancelled    bool           `json:"cancelled,omitempty"`
	Reason       string         `json:"cancel_reason,omitempty"`
	RowCount     uint64         `json:"history"`
	HasResult    bool           `json:"answered,omitempty"`
	CutReason    call.CutReason `json:"cut,omitempty"`
	Attempts     int            `json:"attempts"` // dispatches
	LastDispatch time.Time      `json:"dispatched_at,omitzero"`
	CreatedAt    time.Time      `json:"created_at"`
	ChangedAt    time.Time      `json:"changed_at"`
}

func (b *Booking) Status() booking.Status {
	if b.Cancelled {
		return booking.StatusCancelled
	}
	return b.State.Status()
}

func (b *Booking) isAboutToChange() bool {
	return b.State == booking.Pending || b.State == booking.Dispatched || b.State == booking.Accepted && b.HasResult && b.Start.IsZero()
}

func (b *Booking) awaitsVenue() bool {
	return b.State == booking.Pending || b.State == booking.Dispatched || b.State == booking.DispatchFailed
}

type storedBooking struct {
	Booking
	Shard int `json:"shard"`
	// DailyCap also applies to the venue's call.
	DailyCap money.Amount `json:"cap,omitempty"`
	// MaxCost limits the cost of the booking and the venue's calls. Zero means no limit.
	MaxCost      money.Amount `json:"most,omitempty"`
	OccupiesSlot bool         `json:"slot,omitempty"`
	Due          time.Time    `json:"due,omitzero"`
	ChangeIDs    []string     `json:"events,omitempty"`
}

type RowKind string

const (
	RowCreated    RowKind = "created"
	RowTransition RowKind = "transition"
	RowCancelled  RowKind = "cancelled"
	// RowPaid records that the held money pays for the accepted call.
	RowPaid RowKind = "paid"
)

// Row is a row of a booking. Amount is debited from the account, and Held is held for the venue's
// call. Negative values are refunded or released.
type Row struct {
	Kind         RowKind       `json:"kind"`
	From         booking.State `json:"from,omitempty"`
	To           booking.State `json:"to,omitempty"`
	Actor        string        `json:"actor"`
	Reason       string        `json:"reason,omitempty"`
	ChangeID     string        `json:"event_id,omitempty"`
	Account      string        `json:"account,omitempty"`
	Amount       money.Amount  `json:"amount,omitempty"`
	Held         money.Amount  `json:"held,omitempty"`
	UsageEventID string        `json:"usage_event,omitempty"` // usage event in the same commit
	Time         time.Time     `json:"at"`
}

// Details is deleted after detailsRetention.
type Details struct {
	Guest  json.RawMessage `json:"guest,omitempty"`
	Notes  string          `json:"notes,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

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

// IntentConfirm is the AGP operation (intent) that costs money.
const IntentConfirm = "booking.confirm"

func Key(id string) store.Key { return BookingDocs.Key(id) }

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
		return "", notFoundError()
	}
	return store.StreamOf(KindBooking, identity.ID(raw)), nil
}

func notFoundError() error { return problem.New(problem.NotFound, "no such booking") }

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
		return Booking{}, notFoundError()
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

func (s *Service) ListVenueBookings(ctx context.Context, venue identity.ID, cursor string, n int) (bookings []Booking, next string, err error) {
	docs, next, err := s.Store.Docs(ctx, BookingDocs.IndexRange(venue.String()), n, cursor)
	for i := 0; err == nil && i < len(docs); i++ {
		var b storedBooking
		b, err = BookingDocs.Parse(docs[i])
		bookings = append(bookings, b.Booking)
	}
	return bookings, next, store.AsProblem(err)
}

// ListAccountBookings may return fewer than n bookings on a page.
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
