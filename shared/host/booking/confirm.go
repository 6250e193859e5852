package booking

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/booking"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Request struct {
	From      string
	Agent     string
	Venue     string // in a form that FindVenue accepts
	Start     time.Time
	PartySize int64
	Details   Details
	// If IdempotencyKey was used with a different Hash, Confirm returns an error. IdempotencyKey
	// may be empty.
	IdempotencyKey, Hash string
	// MaxPrice limits the cost of the booking together with the venue's price. Nil means no limit.
	MaxPrice *money.Amount
	Wait     time.Duration
	// ExtraWrites are added to the commit of a booking that is not a test.
	ExtraWrites []store.Write
}

type ConfirmResult struct {
	Booking
	Venue     Venue
	Result    json.RawMessage
	Replayed  bool              // whether an earlier confirm created the booking
	Allowance billing.Allowance // zero if Replayed
}

var (
	ErrNotBookable = errors.New("the venue takes no bookings")
	ErrSlotTaken   = errors.New("the slot is taken")
)

type confirmRecord struct {
	Hash      string `json:"hash"`
	BookingID string `json:"booking"`
}

func confirmKey(keyID, idempotencyKey string) store.Key {
	return ConfirmDocs.Key(keyID, identity.Sum([]byte(idempotencyKey)).String())
}

func (s *Service) findEarlierBooking(ctx context.Context, reader store.Reader, keyID string, r *Request) (id string, err error) {
	if r.IdempotencyKey == "" {
		return "", nil
	}
	record, d, err := ConfirmDocs.Get(ctx, reader, confirmKey(keyID, r.IdempotencyKey))
	if err != nil || d.Version == 0 || d.IsExpired(s.Now()) {
		return "", err
	}
	if record.Hash != r.Hash {
		return "", problem.New(problem.IdempotencyConflict, "the idempotency key was used for another booking")
	}
	return record.BookingID, nil
}

// Confirm books a venue for a key. A repeated confirm returns the same booking without another
// charge. If the error is Unavailable, the booking may exist.
func (s *Service) Confirm(ctx context.Context, k *billing.Key, r Request) (c ConfirmResult, err error) {
	id, err := s.findEarlierBooking(ctx, s.Store, k.ID, &r)
	if err != nil {
		return c, store.AsProblem(err)
	}
	if id == "" {
		v, err := s.findBookableVenue(ctx, k, &r)
		if err != nil {
			return c, err
		}
		var random [32]byte
		if _, err := io.ReadFull(s.Rand, random[:]); err != nil {
			return c, problem.Wrap(problem.Unavailable, err, "no randomness")
		}
		newID := hex.EncodeToString(random[:])
		id, c.Allowance, err = s.createBooking(ctx, newID, k, &v, &r)
		if id != newID && !problem.Is(err, problem.Unavailable) {
			// Only the error Unavailable leaves open whether the booking was created. Details that
			// cannot be deleted expire.
			_ = s.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
				d, err := tx.Doc(ctx, DetailsDocs.Key(newID))
				tx.Delete(d.Key)
				return err
			})
		}
		if err != nil {
			return c, err
		}
		// If the queue refuses the booking, the reminder dispatches it.
		if confirmSend, err := s.enqueue(ctx, id, k.Account); err != nil {
			s.Log.LogAttrs(ctx, slog.LevelWarn, "booking not queued; its reminder will dispatch it", slog.String("booking", id), slog.String("cause", err.Error()))
		} else {
			confirmSend(ctx, true)
		}
		s.awaitChange(ctx, id, r.Wait)
	} else {
		c.Replayed = true
	}
	if c.Booking, err = s.Get(ctx, id); err != nil {
		return c, err
	}
	if c.Booking.Test {
		c.Venue = TestVenue()
	} else if c.Venue, err = s.FindVenue(ctx, c.Booking.Venue.String()); problem.Is(err, problem.NotFound) {
		c.Venue, err = Venue{ID: c.Booking.Venue}, nil // the booking recorded the slug and the name
		c.Venue.Slug, c.Venue.Name = c.Booking.Slug, c.Booking.Name
	}
	if err != nil {
		return c, err
	}
	details, err := s.Details(ctx, id)
	c.Result = details.Result
	return c, err
}

func (s *Service) findBookableVenue(ctx context.Context, k *billing.Key, r *Request) (v Venue, err error) {
	now := s.Now()
	if !r.Start.IsZero() && (r.Start.Before(now) || r.Start.After(now.Add(MaxLeadTime))) {
		return v, &problem.Error{Kind: problem.InvalidMember, Field: "starts_at", Want: "a time within 366 days from now", Got: r.Start.Format(time.RFC3339)}
	}
	if k.Test {
		if v = TestVenue(); r.Venue != v.Slug && r.Venue != v.AgentID() {
			return v, problem.New(problem.NotFound, "a test key can book only %s, got %.80q", v.AgentID(), r.Venue)
		}
		return v, nil
	}
	if v, err = s.FindVenue(ctx, r.Venue); err != nil {
		return v, err
	}
	registration, _, err := s.Registry.Get(ctx, v.ID)
	switch {
	case err != nil:
		return v, err
	case !registration.IsListed() || !v.Bookable:
		return v, problem.Wrap(problem.Conflict, ErrNotBookable, "venue %s takes no bookings now", v.Slug)
	case v.Capacity > 0 && r.PartySize > v.Capacity:
		return v, problem.Wrap(problem.Conflict, ErrSlotTaken, "venue %s has room for %d", v.Slug, v.Capacity)
	}
	return v, nil
}

// createBooking returns the id of the new booking, or of a booking that a concurrent repetition of
// the confirm has created.
func (s *Service) createBooking(ctx context.Context, id string, k *billing.Key, v *Venue, r *Request) (bookingID string, allowance billing.Allowance, err error) {
	stream, err := Stream(id)
	if err != nil {
		return "", allowance, err
	}
	now := s.currentMicrosecond()
	b := storedBooking{Booking: Booking{
		ID: id, Account: k.Account, KeyID: k.ID, Tier: k.Tier, Test: k.Test, From: r.From, Venue: v.ID, Slug: v.Slug, Name: v.Name,
		Start: r.Start.UTC(), PartySize: r.PartySize, State: booking.Pending, RowCount: 1, CreatedAt: now, ChangedAt: now,
	}, Due: now.Add(time.Minute), DailyCap: k.DailyCap, MaxCost: k.MaxPrice}
	if limit := r.MaxPrice; limit != nil && (b.MaxCost == 0 || *limit < b.MaxCost) {
		b.MaxCost = *limit
	}
	var purchase *billing.Purchase
	if !k.Test {
		if purchase, err = s.startPurchase(ctx, k, v, r, &b); err != nil {
			return "", allowance, err
		}
	}
	if err := s.storeDetails(ctx, &b, r, k); err != nil {
		return "", allowance, err
	}
	ctx, cancel := store.WithDefaultTimeout(ctx)
	defer cancel()
	for try := 1; ; try++ {
		earlierID := ""
		err := s.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
			if earlierID, err = s.findEarlierBooking(ctx, tx, k.ID, r); err != nil || earlierID != "" {
				return err
			}
			if allowance, _, err = s.Billing.CountUse(ctx, tx, k, r.Agent); err != nil {
				return err
			}
			return s.addBookingWrites(tx, stream, &b, v, r, purchase)
		})
		var bounds *store.BoundsError
		switch {
		case err == nil && earlierID != "":
			return earlierID, allowance, nil
		case err == nil:
			return id, allowance, nil
		case !errors.As(err, &bounds):
			return "", allowance, store.AsProblem(err)
		case bounds.Key == slotKey(v.ID, b.Start):
			return "", allowance, problem.Wrap(problem.Conflict, ErrSlotTaken, "venue %s has no room for %d at %s", v.Slug, b.PartySize, b.Start.Format(time.RFC3339))
		}
		if err = purchase.Replan(ctx, err); err != nil || s.updater().Backoff(ctx, try) != nil {
			return "", allowance, store.AsProblem(err)
		}
	}
}

func (s *Service) startPurchase(ctx context.Context, k *billing.Key, v *Venue, r *Request, b *storedBooking) (*billing.Purchase, error) {
	b.Price = s.Price
	if v.hosted {
		venue, ok, err := s.Calls.Directory.Vacant(ctx, v.ID, true)
		switch {
		case err != nil:
			return nil, store.AsProblem(err)
		case !ok:
			return nil, problem.Wrap(problem.Conflict, ErrNotBookable, "venue %s takes no bookings now", v.Slug)
		case !venue.Price.IsFree():
			b.VenuePrice, b.VenueVersion, b.Held = venue.Price.Hold(), venue.Price.Version, venue.Price.Hold()
		}
	}
	if limit := r.MaxPrice; limit != nil && b.Price+b.VenuePrice > *limit {
		cost := b.Price.String()
		if b.VenuePrice > 0 {
			cost += " and its venue up to " + b.VenuePrice.String()
		}
		return nil, problem.New(problem.PriceAboveMax, "a booking costs %s, more than the %s that the request allows", cost, *limit)
	}
	return s.Billing.PlanPurchase(ctx, k, b.Price+b.Held)
}

func (s *Service) storeDetails(ctx context.Context, b *storedBooking, r *Request, k *billing.Key) error {
	// If the commit of the booking fails later, the details expire.
	id, err := s.updater().NewWriteID()
	if err != nil {
		return err
	}
	end := b.CreatedAt
	if b.Start.After(end) {
		end = b.Start
	}
	data, err := DetailsDocs.Encode(r.Details)
	if err != nil {
		return err
	}
	writes := []store.Write{store.Put{Key: DetailsDocs.Key(b.ID), WriteID: id, Data: data, Expires: end.Add(detailsRetention).Truncate(time.Second)}}
	if !k.Test {
		writes = append(writes, s.Billing.AgentSeenWrite(r.Agent))
	}
	return store.AsProblem(s.updater().Commit(ctx, writes...))
}

func (s *Service) addBookingWrites(tx *store.Tx, stream store.Stream, b *storedBooking, v *Venue, r *Request, purchase *billing.Purchase) error {
	row := Row{Kind: RowCreated, To: booking.Pending, Actor: "key " + b.KeyID, Time: b.CreatedAt}
	if purchase != nil {
		e := UsageEvent{ID: b.ID[:32], Account: b.Account, KeyID: b.KeyID, Intent: IntentConfirm, Amount: b.Price, BookingID: b.ID, Tier: b.Tier, PriceVersion: 1, Time: b.CreatedAt}
		b.UsageEventID, b.Shard = e.ID, purchase.Shard()
		row.Account, row.Amount, row.Held, row.UsageEventID = b.Account, b.Price, b.Held, e.ID
		EventDocs.Put(tx, store.Doc{Key: EventKey(&e)}, e)
		tx.AddWrites(purchase.Writes()...)
		tx.AddWrites(r.ExtraWrites...)
	}
	if v.Capacity > 0 && !b.Start.IsZero() {
		b.OccupiesSlot = true
		tx.AddWrites(store.Add{Key: slotKey(v.ID, b.Start), Delta: b.PartySize, Max: v.Capacity, Expires: b.Start.Add(detailsRetention).Truncate(time.Second)})
	}
	if r.IdempotencyKey != "" {
		ConfirmDocs.Put(tx, store.Doc{Key: confirmKey(b.KeyID, r.IdempotencyKey), Expires: b.CreatedAt.Add(confirmRetention).Truncate(time.Second)}, confirmRecord{r.Hash, b.ID})
	}
	BookingDocs.Put(tx, b.newDoc(), *b)
	DueDocs.Put(tx, store.Doc{Key: s.reminders().Key(b.Due, b.ID)}, b.ID)
	return appendRow(tx, stream, 1, &row)
}

func appendRow(tx *store.Tx, s store.Stream, position uint64, r *Row) error {
	data, err := rowCodec.Encode(*r)
	tx.Append(s, position, data)
	return err
}

func (b *storedBooking) newDoc() store.Doc {
	d := store.Doc{Key: Key(b.ID)}
	if !b.Test {
		d.Index = BookingDocs.IndexKey(strconv.FormatInt(b.CreatedAt.UnixMicro(), 10)+"#"+b.ID, b.Venue.String())
	}
	return d
}

// A message is messagePrefix and the id of a booking. If the reminder is due, dueMarker precedes
// the id.
const (
	messagePrefix = "booking#"
	dueMarker     = "due#"
)

func IsMessage(m string) bool {
	return len(m) > len(messagePrefix) && m[:len(messagePrefix)] == messagePrefix
}

func (s *Service) enqueue(ctx context.Context, message, account string) (confirmSend func(context.Context, bool), err error) {
	return s.Queue.Send(ctx, messagePrefix+message, task.SenderOf(call.AccountOwner(account, ""), ""))
}

func (s *Service) awaitChange(ctx context.Context, id string, timeout time.Duration) {
	const minPause, maxPause = 10 * time.Millisecond, 500 * time.Millisecond
	for pause, waited := minPause, time.Duration(0); waited < timeout; pause = min(pause*2, maxPause) {
		pause = min(pause, timeout-waited)
		if s.pause(ctx, pause) != nil {
			return
		}
		waited += pause
		if b, err := s.Get(ctx, id); err != nil || !b.isAboutToChange() {
			return
		}
	}
}
