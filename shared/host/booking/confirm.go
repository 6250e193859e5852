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

// Request is a request to confirm a booking.
type Request struct {
	From    string // sender as stated by the key's holder
	Agent   string // part of From that names the agent
	Venue   string // reference to the venue in a form that Find accepts
	Starts  time.Time
	Party   int64
	Details Details
	// Hash is the hash of the request. If IdempotencyKey was used with a different Hash, Confirm
	// returns an error. If IdempotencyKey is empty, each request creates another booking.
	IdempotencyKey, Hash string
	// MaxPrice limits the cost of the booking together with the venue's price. If it is nil, there is
	// no limit.
	MaxPrice *money.Amount
	// Wait is the maximum time for which Confirm waits for the venue's answer. If Wait is zero,
	// Confirm does not wait.
	Wait time.Duration
	// Writes are added to the commit of the booking, unless it is a test booking.
	Writes []store.Write
}

type ConfirmResult struct {
	Booking
	Venue    Venue
	Result   json.RawMessage   // result that the venue returned, or nil
	Replayed bool              // whether an earlier confirm created the booking
	Left     billing.Allowance // remaining allowance of the key, zero if Replayed
}

// Confirm wraps these errors in a *problem.Error of kind Conflict.
var (
	ErrNotBookable = errors.New("the venue takes no bookings")
	ErrSlotTaken   = errors.New("the slot is taken")
)

// confirmRecord records the booking that a confirm created.
type confirmRecord struct {
	Hash    string `json:"hash"`
	Booking string `json:"booking"`
}

func onceKey(key, once string) store.Key {
	return OnceDocs.Key(key, identity.Sum([]byte(once)).String())
}

// earlierBooking returns the id of the booking that an earlier confirm with the same idempotency key
// created, or "". If the earlier confirm had a different hash, the error is Idempotency.
func (s *Service) earlierBooking(ctx context.Context, from store.Reader, key string, r *Request) (id string, err error) {
	if r.IdempotencyKey == "" {
		return "", nil
	}
	o, d, err := OnceDocs.Get(ctx, from, onceKey(key, r.IdempotencyKey))
	if err != nil || d.Version == 0 || d.IsExpired(s.Now()) {
		return "", err
	}
	if o.Hash != r.Hash {
		return "", problem.New(problem.Idempotency, "the idempotency key was used for another booking")
	}
	return o.Booking, nil
}

// Confirm books a venue for a key. It stores the booking before the venue is called. A repeated
// confirm returns the booking of the first one without another charge.
//
// No booking was created if the error is NotFound for the venue, Conflict with ErrNotBookable or
// ErrSlotTaken, Idempotency, Schema for a start out of bounds, PriceAboveMax, an error of
// billing.Purchase, or a *billing.QuotaError.
func (s *Service) Confirm(ctx context.Context, k *billing.Key, r Request) (c ConfirmResult, err error) {
	id, err := s.earlierBooking(ctx, s.Store, k.ID, &r)
	if err != nil {
		return c, store.AsProblem(err)
	}
	if id == "" {
		v, err := s.bookable(ctx, k, &r)
		if err != nil {
			return c, err
		}
		var random [32]byte
		if _, err := io.ReadFull(s.Rand, random[:]); err != nil {
			return c, problem.Wrap(problem.Unavailable, err, "no randomness")
		}
		fresh := hex.EncodeToString(random[:])
		id, c.Left, err = s.create(ctx, fresh, k, &v, &r)
		if id != fresh && !problem.Is(err, problem.Unavailable) {
			// No booking has the id fresh, because only the error Unavailable leaves open whether it
			// was created. If its details cannot be deleted, they expire.
			_ = s.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
				d, err := tx.Doc(ctx, DetailsDocs.Key(fresh))
				tx.Delete(d.Key)
				return err
			})
		}
		if err != nil {
			return c, err
		}
		// If the queue refuses the booking, the reminder dispatches it.
		if settle, err := s.queue(ctx, id, k.Account); err != nil {
			s.Log.LogAttrs(ctx, slog.LevelWarn, "a booking is dispatched later", slog.String("booking", id), slog.String("cause", err.Error()))
		} else {
			settle(ctx, true)
		}
		s.await(ctx, id, r.Wait)
	} else {
		c.Replayed = true
	}
	if c.Booking, err = s.Get(ctx, id); err != nil {
		return c, err
	}
	if c.Booking.Test {
		c.Venue = TestVenue()
	} else if c.Venue, err = s.Find(ctx, c.Booking.Venue.String()); problem.Is(err, problem.NotFound) {
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

func (s *Service) bookable(ctx context.Context, k *billing.Key, r *Request) (v Venue, err error) {
	now := s.Now()
	if !r.Starts.IsZero() && (r.Starts.Before(now) || r.Starts.After(now.Add(MaxAhead))) {
		return v, &problem.Error{Kind: problem.Schema, Field: "starts_at", Want: "a time within 366 days from now", Got: r.Starts.Format(time.RFC3339)}
	}
	if k.Test {
		if v = TestVenue(); r.Venue != v.Slug && r.Venue != v.AgentID() {
			return v, problem.New(problem.NotFound, "a test key can book only %s, got %.80q", v.AgentID(), r.Venue)
		}
		return v, nil
	}
	if v, err = s.Find(ctx, r.Venue); err != nil {
		return v, err
	}
	g, _, err := s.Registry.Get(ctx, v.ID)
	switch {
	case err != nil:
		return v, err
	case !g.IsListed() || !v.Bookable:
		return v, problem.Wrap(problem.Conflict, ErrNotBookable, "venue %s takes no bookings now", v.Slug)
	case v.Capacity > 0 && r.Party > v.Capacity:
		return v, problem.Wrap(problem.Conflict, ErrSlotTaken, "venue %s has room for %d", v.Slug, v.Capacity)
	}
	return v, nil
}

// create commits a new booking with an id and returns this id. If the same confirm has created a
// booking concurrently, it returns that booking's id.
func (s *Service) create(ctx context.Context, id string, k *billing.Key, v *Venue, r *Request) (made string, left billing.Allowance, err error) {
	stream, err := Stream(id)
	if err != nil {
		return "", left, err
	}
	now := s.now()
	b := stored{Booking: Booking{
		ID: id, Account: k.Account, Key: k.ID, Tier: k.Tier, Test: k.Test, From: r.From, Venue: v.ID, Slug: v.Slug, Name: v.Name,
		Starts: r.Starts.UTC(), Party: r.Party, State: booking.Pending, Rows: 1, Created: now, Changed: now,
	}, Due: now.Add(time.Minute), Cap: k.Cap, Most: k.MaxPrice}
	if limit := r.MaxPrice; limit != nil && (b.Most == 0 || *limit < b.Most) {
		b.Most = *limit
	}
	var bought *billing.Purchase
	if !k.Test {
		if bought, err = s.purchase(ctx, k, v, r, &b); err != nil {
			return "", left, err
		}
	}
	if err := s.keepDetails(ctx, &b, r, k); err != nil {
		return "", left, err
	}
	ctx, cancel := store.WithPatience(ctx)
	defer cancel()
	for try := 1; ; try++ {
		before := ""
		err := s.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
			if before, err = s.earlierBooking(ctx, tx, k.ID, r); err != nil || before != "" {
				return err
			}
			if left, _, err = s.Billing.CountUse(ctx, tx, k, r.Agent); err != nil {
				return err
			}
			return s.add(tx, stream, &b, v, r, bought)
		})
		var bounds *store.BoundsError
		switch {
		case err == nil && before != "":
			return before, left, nil
		case err == nil:
			return id, left, nil
		case !errors.As(err, &bounds):
			return "", left, store.AsProblem(err)
		case bounds.Key == slotKey(v.ID, b.Starts):
			return "", left, problem.Wrap(problem.Conflict, ErrSlotTaken, "venue %s has no room for %d at %s", v.Slug, b.Party, b.Starts.Format(time.RFC3339))
		}
		if err = bought.Replan(ctx, err); err != nil || s.updater().Backoff(ctx, try) != nil {
			return "", left, store.AsProblem(err)
		}
	}
}

func (s *Service) purchase(ctx context.Context, k *billing.Key, v *Venue, r *Request, b *stored) (*billing.Purchase, error) {
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
	return s.Billing.Purchase(ctx, k, b.Price+b.Held)
}

func (s *Service) keepDetails(ctx context.Context, b *stored, r *Request, k *billing.Key) error {
	// The details are stored before the booking is committed. If that commit fails, the details
	// belong to no booking and expire.
	id, err := s.updater().NewWriteID()
	if err != nil {
		return err
	}
	ends := b.Created
	if b.Starts.After(ends) {
		ends = b.Starts
	}
	data, err := DetailsDocs.Encode(r.Details)
	if err != nil {
		return err
	}
	writes := []store.Write{store.Put{Key: DetailsDocs.Key(b.ID), WriteID: id, Data: data, Expires: ends.Add(detailsAfter).Truncate(time.Second)}}
	if !k.Test {
		writes = append(writes, s.Billing.SeenWrite(r.Agent))
	}
	return store.AsProblem(s.updater().Commit(ctx, writes...))
}

func (s *Service) add(tx *store.Tx, stream store.Stream, b *stored, v *Venue, r *Request, bought *billing.Purchase) error {
	row := Row{Kind: RowCreated, To: booking.Pending, Actor: "key " + b.Key, At: b.Created}
	if bought != nil {
		e := Event{ID: b.ID[:32], Account: b.Account, Key: b.Key, Intent: IntentConfirm, Amount: b.Price, Booking: b.ID, Tier: b.Tier, Version: 1, At: b.Created}
		b.Event, b.Shard = e.ID, bought.Shard()
		row.Account, row.Amount, row.Held, row.Event = b.Account, b.Price, b.Held, e.ID
		EventDocs.Put(tx, store.Doc{Key: EventKey(&e)}, e)
		tx.Add(bought.Writes()...)
		tx.Add(r.Writes...)
	}
	if v.Capacity > 0 && !b.Starts.IsZero() {
		b.Slot = true
		tx.Add(store.Add{Key: slotKey(v.ID, b.Starts), Delta: b.Party, Max: v.Capacity, Expires: b.Starts.Add(detailsAfter).Truncate(time.Second)})
	}
	if r.IdempotencyKey != "" {
		OnceDocs.Put(tx, store.Doc{Key: onceKey(b.Key, r.IdempotencyKey), Expires: b.Created.Add(onceRetention).Truncate(time.Second)}, confirmRecord{r.Hash, b.ID})
	}
	BookingDocs.Put(tx, b.document(), *b)
	DueDocs.Put(tx, store.Doc{Key: s.due().Key(b.Due, b.ID)}, b.ID)
	return appendRow(tx, stream, 1, &row)
}

func appendRow(tx *store.Tx, s store.Stream, position uint64, r *Row) error {
	data, err := rows.Encode(*r)
	tx.Append(s, position, data)
	return err
}

func (b *stored) document() store.Doc {
	d := store.Doc{Key: Key(b.ID)}
	if !b.Test {
		d.Index = BookingDocs.IndexKey(strconv.FormatInt(b.Created.UnixMicro(), 10)+"#"+b.ID, b.Venue.String())
	}
	return d
}

// A message of this package in the shared queue consists of messagePrefix and the id of a booking. If
// the booking's reminder is due, dueMark precedes the id.
const (
	messagePrefix = "booking#"
	dueMark       = "due#"
)

func IsMessage(m string) bool {
	return len(m) > len(messagePrefix) && m[:len(messagePrefix)] == messagePrefix
}

func (s *Service) queue(ctx context.Context, message, account string) (settle func(context.Context, bool), err error) {
	return s.Queue.Send(ctx, messagePrefix+message, task.SenderOf(call.AccountOwner(account, ""), ""))
}

func (s *Service) await(ctx context.Context, id string, timeout time.Duration) {
	const first, longest = 10 * time.Millisecond, 500 * time.Millisecond
	for pause, waited := first, time.Duration(0); waited < timeout; pause = min(pause*2, longest) {
		pause = min(pause, timeout-waited)
		if s.pause(ctx, pause) != nil {
			return
		}
		waited += pause
		if b, err := s.Get(ctx, id); err != nil || !b.isSettling() {
			return // the caller reads the booking again
		}
	}
}
