package fsck

import (
	"context"
	"encoding/hex"
	"fmt"

	hostbooking "github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/booking"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (r *run) bookingRows(ctx context.Context, s store.Stream, id identity.ID) error {
	rows := r.reader(s)
	var state booking.State
	var last uint64
	var held money.Amount // held for the venue's call
	whole := true
	for {
		row, more, err := rows.next(ctx)
		if err != nil {
			return err
		}
		if !more {
			r.tips[s] = rows.at
			break
		}
		if row.Position == 0 {
			whole = false
			continue
		}
		last = row.Position
		one, err := hostbooking.DecodeRow(row)
		if err != nil {
			whole = false
			r.found(inStream(s, row.Position, Row, "a row of a booking", problem.Of(err).Text()))
			continue
		}
		if whole && !follows(&one, state, row.Position) {
			r.found(inStream(s, row.Position, Row, fmt.Sprintf("what may follow %q", state), fmt.Sprintf("%s to %s", one.Kind, one.To)))
		}
		state = one.To
		held += one.Held
		if one.Amount != 0 || one.Held != 0 {
			if err := r.bookingMoney(ctx, s, row.Position, &one); err != nil {
				return err
			}
		}
	}
	key := hostbooking.Key(id.String())
	d, err := r.document(ctx, key)
	if err != nil {
		return err
	}
	if d.Version == 0 {
		r.found(inDocument(key, Document, "the booking of its rows", "none"))
		return nil
	}
	b, err := hostbooking.BookingDocs.Parse(d)
	switch {
	case err != nil:
		r.found(inDocument(key, Document, "a booking", problem.Of(err).Error()))
	case whole && b.Rows == last && b.State != state:
		r.found(inDocument(key, Document, "state "+string(state)+", as its rows say", string(b.State)))
	case whole && b.Rows == last && b.Held != held:
		r.found(inDocument(key, Money, fmt.Sprintf("%s held for the venue, as its rows say", held), b.Held.String()))
	case b.Rows < last:
		r.found(inDocument(key, Document, fmt.Sprintf("%d rows", last), fmt.Sprint(b.Rows)))
	}
	return nil
}

func follows(one *hostbooking.Row, state booking.State, position uint64) bool {
	switch one.Kind {
	case hostbooking.RowCreated:
		return position == 1 && one.To == booking.Pending
	case hostbooking.RowTransition:
		return position > 1 && one.From == state && booking.Transition(state, one.To) == nil
	case hostbooking.RowPaid:
		return position > 1 && state == booking.Dispatched && one.From == state && one.To == state
	case hostbooking.RowCancelled:
		return position > 1 && one.From == state && (one.To == state || booking.Transition(state, one.To) == nil)
	}
	return false
}

func (r *run) bookingMoney(ctx context.Context, s store.Stream, position uint64, one *hostbooking.Row) error {
	if !r.moveBooked(one) {
		r.found(inStream(s, position, Money, "the account of an amount", fmt.Sprintf("%.80q", one.Account)))
		return nil
	}
	if one.Amount == 0 {
		return nil // held money has no event; the venue's call is charged later
	}
	e := hostbooking.Event{ID: one.Event, Account: one.Account, At: one.At}
	got, _, err := hostbooking.EventDocs.Need(ctx, r.view, hostbooking.EventKey(&e))
	if err != nil && !damaged(err) {
		return err
	}
	if err != nil || got.Amount != one.Amount || got.ID != one.Event {
		r.found(inStream(s, position, Money, fmt.Sprintf("an event of %s beside it", one.Amount), fmt.Sprintf("one of %s", got.Amount)))
	}
	return nil
}

// moveBooked adds a row's amounts to its account. It returns false if the account in the row is
// invalid.
func (r *run) moveBooked(one *hostbooking.Row) bool {
	raw, err := hex.DecodeString(one.Account)
	if err != nil || len(raw) != identity.Size {
		return false
	}
	l := r.ledgerOf([32]byte(raw))
	l.move(-one.Amount)
	l.move(-one.Held)
	l.spend(one.At, one.Amount)
	return true
}
