package booking

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/booking"
)

func (s *Service) pause(ctx context.Context, d time.Duration) error {
	if s.Wait == nil {
		return retry.Sleep(ctx, d)
	}
	return s.Wait(ctx, d)
}

// step is a change of a booking.
type step struct {
	To     booking.State // empty for a cancellation
	Actor  string
	Reason string
	// EventID identifies the change, or is "". If the booking already stores this id, the step was
	// applied earlier and has no effect.
	EventID string
	Result  json.RawMessage
	Cut     call.CutReason // reason why the venue's answer may be incomplete
	// wait, if not zero, is the new due time of the reminder. Such a step does not change the state.
	wait time.Time
}

const (
	reasonTimeout = "timeout"
	// reasonSlow means that the host did not call the venue, because its turn may take longer than maxWork.
	reasonSlow        = "too_slow"
	reasonUnreachable = "unreachable"
	reasonExpired     = "expired"
	reasonGuest       = "guest"
)

// maxEvents limits the event ids that a booking stores.
const maxEvents = 32

// move applies the step that decide returns to a booking, and appends the step's row in the same
// commit. If another process changes the booking concurrently, move calls decide again. If decide
// returns nil, the booking stays unchanged.
func (s *Service) move(ctx context.Context, id string, decide func(b *Booking) (*step, error)) (b Booking, err error) {
	stream, err := Stream(id)
	if err != nil {
		return b, err
	}
	err = s.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		current, d, err := BookingDocs.Get(ctx, tx, Key(id))
		if err != nil {
			return err
		}
		if d.Version == 0 {
			return notFound()
		}
		b = current.Booking
		next, err := decide(&current.Booking)
		if err != nil || next == nil || next.EventID != "" && slices.Contains(current.Events, next.EventID) {
			return err
		}
		before := current.Due
		current.Answered = current.Answered || next.Result != nil
		current.Truncation = cmp.Or(next.Cut, current.Truncation)
		if !next.wait.IsZero() {
			current.Due = next.wait
			if end := expiry(&current.Booking); current.State == booking.Pending && end.Before(current.Due) {
				current.Due = end
			}
		} else {
			row, err := s.apply(tx, &current, next)
			if err != nil {
				return err
			}
			if err := appendRow(tx, stream, current.Rows, &row); err != nil {
				return err
			}
		}
		if err := s.moveReminder(ctx, tx, &current, before); err != nil {
			return err
		}
		if next.Result != nil {
			details, d, err := DetailsDocs.Get(ctx, tx, DetailsDocs.Key(id))
			if err != nil {
				return err
			}
			if d.Version > 0 { // the details may have expired
				details.Result = next.Result
				DetailsDocs.Put(tx, d, details)
			}
		}
		BookingDocs.Put(tx, current.document(), current)
		b = current.Booking
		return nil
	})
	return b, store.AsProblem(err)
}

func (s *Service) apply(tx *store.Tx, b *stored, next *step) (Row, error) {
	now := s.now()
	row := Row{Kind: RowTransition, From: b.State, To: next.To, Actor: next.Actor, Reason: next.Reason, EventID: next.EventID, At: now}
	if next.To == "" {
		if b.Cancelled || b.State.IsTerminal() {
			return row, problem.New(problem.Conflict, "the booking is %s", b.Status())
		}
		b.Cancelled, row.Kind, row.To = true, RowCancelled, b.State
		if b.State == booking.Pending {
			row.To = booking.Expired // the venue does not know the booking
		}
		b.State = row.To
	} else if err := booking.CheckTransition(b.State, next.To); err != nil {
		return row, problem.Wrap(problem.Conflict, err, "%s", err.Error())
	} else {
		b.State = next.To
		if !b.Test {
			tx.Add(CounterAdd("a2a_envelope_transitions_total", 1, "from", string(row.From), "to", string(row.To)))
		}
	}
	b.Rows, b.Changed = b.Rows+1, now
	ended := b.State == booking.Rejected || b.State == booking.Expired
	// The reason of a cancellation is not replaced by the reason of a later step.
	if row.Kind == RowCancelled || ended && !b.Cancelled {
		b.Reason = next.Reason
	}
	if next.EventID != "" && len(b.Events) < maxEvents {
		b.Events = append(b.Events, next.EventID)
	}
	if b.State == booking.Dispatched {
		b.Attempts, b.Sent = b.Attempts+1, now
	}
	if b.Slot && (b.Cancelled || ended) {
		b.Slot = false
		tx.Add(store.Add{Key: slotKey(b.Venue, b.Starts), Delta: -b.Party, Max: math.MaxInt64})
	}
	undelivered := b.State == booking.Expired || b.State == booking.Rejected && next.Reason == reasonUnreachable
	if err := s.giveBack(tx, b, &row, undelivered); err != nil {
		return row, err
	}
	b.Due = s.dueAfter(b)
	return row, nil
}

// giveBack refunds the price of a booking that never reached its venue. It also releases the money
// that is held for the venue's call when the booking stops waiting for the venue. It adds both
// amounts in one write, because a commit may change a balance only once.
func (s *Service) giveBack(tx *store.Tx, b *stored, row *Row, undelivered bool) error {
	if undelivered && b.Price > b.Credited {
		row.Amount = b.Credited - b.Price
		b.Credited = b.Price
		e := Event{ID: b.ID[:24] + "-credit", Account: b.Account, Key: b.Key, Intent: IntentConfirm, Amount: row.Amount, Booking: b.ID, Tier: b.Tier, Version: 1, At: row.At}
		row.Event = e.ID
		EventDocs.Put(tx, store.Doc{Key: EventKey(&e)}, e)
	}
	if b.Cancelled || !b.awaitsVenue() {
		row.Held, b.Held = -b.Held, 0
	}
	back := -row.Amount - row.Held
	if back == 0 {
		return nil
	}
	account, err := hex.DecodeString(b.Account)
	if err != nil || len(account) != 32 {
		return problem.New(problem.Damaged, "account %.80q has no id", b.Account)
	}
	row.Account = b.Account
	tx.Add(billing.RefundWrite([32]byte(account), b.Shard, back))
	return nil
}

// passHeldMoney returns the writes that pass the booking's held money to the venue's call. The commit
// that accepts the call includes these writes. If the booking was cancelled or has changed,
// passHeldMoney returns an error, which refuses the call.
func (s *Service) passHeldMoney(ctx context.Context, snapshot *Booking) ([]store.Write, error) {
	stream, err := Stream(snapshot.ID)
	if err != nil {
		return nil, err
	}
	b, d, err := BookingDocs.Require(ctx, s.Store, Key(snapshot.ID))
	switch {
	case err != nil:
		return nil, store.AsProblem(err)
	case b.Cancelled:
		return nil, problem.New(problem.Conflict, "the guest has cancelled the booking")
	case b.State != booking.Dispatched || b.Attempts != snapshot.Attempts || b.Held != snapshot.Held:
		return nil, errChanged
	case b.Held == 0:
		return nil, nil
	}
	id, err := s.updater().NewWriteID()
	if err != nil {
		return nil, err
	}
	b.Rows++
	row := Row{Kind: RowPaid, From: b.State, To: b.State, Actor: actorHost, Account: b.Account, Held: -b.Held, At: s.now()}
	b.Held, b.Changed = 0, row.At
	encodedRow, err1 := rows.Encode(row)
	changed, err2 := BookingDocs.Encode(b)
	return []store.Write{
		store.Append{Stream: stream, Position: b.Rows, WriteID: id, Data: encodedRow},
		store.Put{Key: d.Key, IfVersion: d.Version, WriteID: id, Data: changed, Index: b.document().Index},
	}, errors.Join(err1, err2)
}

func (s *Service) dueAfter(b *stored) time.Time {
	now := s.now()
	switch b.State {
	case booking.Pending:
		return now.Add(time.Minute)
	case booking.Dispatched:
		return now.Add(answerTime)
	case booking.DispatchFailed:
		if n := b.Attempts; n <= len(retries) && n > 0 && !b.Cancelled {
			return now.Add(retries[n-1])
		}
		return now
	case booking.Accepted:
		if b.isSettling() {
			return now // the reminder completes the booking if the current process does not
		}
		start := now
		if b.Starts.After(now) {
			start = b.Starts
		}
		return start.Add(completeAfter)
	}
	return time.Time{}
}

// expiry returns the time at which a booking that was not sent to its venue expires.
func expiry(b *Booking) time.Time {
	end := b.Created.Add(MaxPending)
	if !b.Starts.IsZero() && b.Starts.Before(end) {
		end = b.Starts
	}
	return end
}

func (s *Service) moveReminder(ctx context.Context, tx *store.Tx, b *stored, before time.Time) error {
	old, next := s.due().Key(before, b.ID), s.due().Key(b.Due, b.ID)
	if !before.IsZero() && (b.Due.IsZero() || old != next) {
		if _, err := tx.Doc(ctx, old); err != nil {
			return err
		}
		tx.Delete(old)
	}
	if b.Due.IsZero() || !before.IsZero() && old == next {
		return nil
	}
	d, err := tx.Doc(ctx, next)
	if err == nil && d.Version == 0 {
		DueDocs.Put(tx, store.Doc{Key: next}, b.ID)
	}
	return err
}

// TransitionRequest is a requested change of a booking's state.
type TransitionRequest struct {
	To      booking.State
	Actor   string
	Reason  string
	EventID string // id of the change; a second change with the same id has no effect
	// AllowHostStates allows the operator to set all states, including those that only the host sets.
	AllowHostStates bool
}

var venueStates = []booking.State{booking.Accepted, booking.Rejected, booking.Completed, booking.NoShow}

// Transition changes the state of a booking. If the state may not follow the current one, the error
// is Conflict with a *booking.IllegalError in its chain. If only the host may set the state, the
// error is Forbidden.
func (s *Service) Transition(ctx context.Context, id string, c TransitionRequest) (Booking, error) {
	return s.move(ctx, id, func(b *Booking) (*step, error) {
		if err := booking.CheckTransition(b.State, c.To); err == nil && !c.AllowHostStates && !slices.Contains(venueStates, c.To) {
			return nil, problem.New(problem.Forbidden, "a venue can set only accepted, rejected, completed or no_show, got %s", c.To)
		}
		return &step{To: c.To, Actor: c.Actor, Reason: c.Reason, EventID: c.EventID}, nil
	})
}

// Cancel cancels a booking for its guest. A booking that was not sent to its venue expires and is
// refunded. If the booking has already ended, the error is Conflict.
func (s *Service) Cancel(ctx context.Context, id, actor string) (Booking, error) {
	return s.move(ctx, id, func(b *Booking) (*step, error) {
		if b.Cancelled {
			return nil, nil
		}
		return &step{Actor: actor, Reason: reasonGuest}, nil
	})
}
