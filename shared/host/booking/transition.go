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

type step struct {
	To     booking.State // empty for a cancellation
	Actor  string
	Reason string
	// ChangeID may be empty. A repeated ChangeID has no effect.
	ChangeID  string
	Result    json.RawMessage
	CutReason call.CutReason
	// postponeUntil, if not zero, is the new due time of the reminder. The state then stays
	// unchanged.
	postponeUntil time.Time
}

const (
	reasonTimeout = "timeout"
	// reasonSlow means that the venue's turn may take longer than venueCallTimeout.
	reasonSlow        = "too_slow"
	reasonUnreachable = "unreachable"
	reasonExpired     = "expired"
	reasonGuest       = "guest"
)

const maxChangeIDs = 32

// changeBooking applies the step that decide returns, if any, and appends its row in the same
// commit. It may call decide several times.
func (s *Service) changeBooking(ctx context.Context, id string, decide func(b *Booking) (*step, error)) (b Booking, err error) {
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
			return notFoundError()
		}
		b = current.Booking
		next, err := decide(&current.Booking)
		if err != nil || next == nil || next.ChangeID != "" && slices.Contains(current.ChangeIDs, next.ChangeID) {
			return err
		}
		oldDue := current.Due
		current.HasResult = current.HasResult || next.Result != nil
		current.CutReason = cmp.Or(next.CutReason, current.CutReason)
		if !next.postponeUntil.IsZero() {
			current.Due = next.postponeUntil
			if end := expiry(&current.Booking); current.State == booking.Pending && end.Before(current.Due) {
				current.Due = end
			}
		} else {
			row, err := s.applyStep(tx, &current, next)
			if err != nil {
				return err
			}
			if err := appendRow(tx, stream, current.RowCount, &row); err != nil {
				return err
			}
		}
		if err := s.replaceReminder(ctx, tx, &current, oldDue); err != nil {
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
		BookingDocs.Put(tx, current.newDoc(), current)
		b = current.Booking
		return nil
	})
	return b, store.AsProblem(err)
}

func (s *Service) applyStep(tx *store.Tx, b *storedBooking, next *step) (Row, error) {
	now := s.currentMicrosecond()
	row := Row{Kind: RowTransition, From: b.State, To: next.To, Actor: next.Actor, Reason: next.Reason, ChangeID: next.ChangeID, Time: now}
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
			tx.AddWrites(CounterWrite("a2a_envelope_transitions_total", 1, "from", string(row.From), "to", string(row.To)))
		}
	}
	b.RowCount, b.ChangedAt = b.RowCount+1, now
	hasEnded := b.State == booking.Rejected || b.State == booking.Expired
	if row.Kind == RowCancelled || hasEnded && !b.Cancelled {
		b.Reason = next.Reason
	}
	if next.ChangeID != "" && len(b.ChangeIDs) < maxChangeIDs {
		b.ChangeIDs = append(b.ChangeIDs, next.ChangeID)
	}
	if b.State == booking.Dispatched {
		b.Attempts, b.LastDispatch = b.Attempts+1, now
	}
	if b.OccupiesSlot && (b.Cancelled || hasEnded) {
		b.OccupiesSlot = false
		tx.AddWrites(store.Add{Key: slotKey(b.Venue, b.Start), Delta: -b.PartySize, Max: math.MaxInt64})
	}
	isUndelivered := b.State == booking.Expired || b.State == booking.Rejected && next.Reason == reasonUnreachable
	if err := s.addRefund(tx, b, &row, isUndelivered); err != nil {
		return row, err
	}
	b.Due = s.nextDue(b)
	return row, nil
}

// addRefund refunds an undelivered booking, and releases the hold when the booking stops waiting
// for its venue. A commit may change a balance only once, so one write contains both amounts.
func (s *Service) addRefund(tx *store.Tx, b *storedBooking, row *Row, isUndelivered bool) error {
	if isUndelivered && b.Price > b.Refunded {
		row.Amount = b.Refunded - b.Price
		b.Refunded = b.Price
		e := UsageEvent{ID: b.ID[:24] + "-credit", Account: b.Account, KeyID: b.KeyID, Intent: IntentConfirm, Amount: row.Amount, BookingID: b.ID, Tier: b.Tier, PriceVersion: 1, Time: row.Time}
		row.UsageEventID = e.ID
		EventDocs.Put(tx, store.Doc{Key: EventKey(&e)}, e)
	}
	if b.Cancelled || !b.awaitsVenue() {
		row.Held, b.Held = -b.Held, 0
	}
	refund := -row.Amount - row.Held
	if refund == 0 {
		return nil
	}
	account, err := hex.DecodeString(b.Account)
	if err != nil || len(account) != 32 {
		return problem.New(problem.Damaged, "account %.80q has an invalid id", b.Account)
	}
	row.Account = b.Account
	tx.AddWrites(billing.RefundWrite([32]byte(account), b.Shard, refund))
	return nil
}

// heldMoneyWrites returns writes that pass the held money to the venue's call in the commit that
// accepts the call. If the booking has changed, it returns an error, which refuses the call.
func (s *Service) heldMoneyWrites(ctx context.Context, snapshot *Booking) ([]store.Write, error) {
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
	b.RowCount++
	row := Row{Kind: RowPaid, From: b.State, To: b.State, Actor: actorHost, Account: b.Account, Held: -b.Held, Time: s.currentMicrosecond()}
	b.Held, b.ChangedAt = 0, row.Time
	encodedRow, err1 := rowCodec.Encode(row)
	encodedBooking, err2 := BookingDocs.Encode(b)
	return []store.Write{
		store.Append{Stream: stream, Position: b.RowCount, WriteID: id, Data: encodedRow},
		store.Put{Key: d.Key, IfVersion: d.Version, WriteID: id, Data: encodedBooking, Index: b.newDoc().Index},
	}, errors.Join(err1, err2)
}

func (s *Service) nextDue(b *storedBooking) time.Time {
	now := s.currentMicrosecond()
	switch b.State {
	case booking.Pending:
		return now.Add(time.Minute)
	case booking.Dispatched:
		return now.Add(answerTimeout)
	case booking.DispatchFailed:
		if n := b.Attempts; n <= len(retryPauses) && n > 0 && !b.Cancelled {
			return now.Add(retryPauses[n-1])
		}
		return now
	case booking.Accepted:
		if b.isAboutToChange() {
			return now // the reminder completes the booking if the current process does not
		}
		start := now
		if b.Start.After(now) {
			start = b.Start
		}
		return start.Add(completeAfter)
	}
	return time.Time{}
}

func expiry(b *Booking) time.Time {
	end := b.CreatedAt.Add(MaxPendingTime)
	if !b.Start.IsZero() && b.Start.Before(end) {
		end = b.Start
	}
	return end
}

func (s *Service) replaceReminder(ctx context.Context, tx *store.Tx, b *storedBooking, oldDue time.Time) error {
	oldKey, newKey := s.reminders().Key(oldDue, b.ID), s.reminders().Key(b.Due, b.ID)
	if !oldDue.IsZero() && (b.Due.IsZero() || oldKey != newKey) {
		if _, err := tx.Doc(ctx, oldKey); err != nil {
			return err
		}
		tx.Delete(oldKey)
	}
	if b.Due.IsZero() || !oldDue.IsZero() && oldKey == newKey {
		return nil
	}
	d, err := tx.Doc(ctx, newKey)
	if err == nil && d.Version == 0 {
		DueDocs.Put(tx, store.Doc{Key: newKey}, b.ID)
	}
	return err
}

type TransitionRequest struct {
	To              booking.State
	Actor           string
	Reason          string
	ChangeID        string // a second change with the same id has no effect
	AllowHostStates bool
}

var venueStates = []booking.State{booking.Accepted, booking.Rejected, booking.Completed, booking.NoShow}

// Transition changes the state of a booking. If the state may not follow the current one, the error
// is Conflict. If only the host may set the state, the error is Forbidden.
func (s *Service) Transition(ctx context.Context, id string, req TransitionRequest) (Booking, error) {
	return s.changeBooking(ctx, id, func(b *Booking) (*step, error) {
		if err := booking.CheckTransition(b.State, req.To); err == nil && !req.AllowHostStates && !slices.Contains(venueStates, req.To) {
			return nil, problem.New(problem.Forbidden, "a venue can set only accepted, rejected, completed or no_show, got %s", req.To)
		}
		return &step{To: req.To, Actor: req.Actor, Reason: req.Reason, ChangeID: req.ChangeID}, nil
	})
}

// Cancel cancels a booking for its guest. A booking that was not sent to its venue is refunded. If
// the booking has already ended, the error is Conflict.
func (s *Service) Cancel(ctx context.Context, id, actor string) (Booking, error) {
	return s.changeBooking(ctx, id, func(b *Booking) (*step, error) {
		if b.Cancelled {
			return nil, nil
		}
		return &step{Actor: actor, Reason: reasonGuest}, nil
	})
}
