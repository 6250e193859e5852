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
	var last uint64       // position of the last row
	var held money.Amount // sum that is held for the call to the venue
	whole := true         // whether all rows so far are readable
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
		bookingRow, err := hostbooking.DecodeRow(row)
		if err != nil {
			whole = false
			r.addFinding(inStream(s, row.Position, Row, "a row of a booking", problem.AsError(err).Text()))
			continue
		}
		if whole && !follows(&bookingRow, state, row.Position) {
			r.addFinding(inStream(s, row.Position, Row, fmt.Sprintf("a transition that is allowed after state %q", state), fmt.Sprintf("%s to %s", bookingRow.Kind, bookingRow.To)))
		}
		state = bookingRow.To
		held += bookingRow.Held
		if bookingRow.Amount != 0 || bookingRow.Held != 0 {
			if err := r.bookingMoney(ctx, s, row.Position, &bookingRow); err != nil {
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
		r.addFinding(inDocument(key, Document, "the booking of its rows", "none"))
		return nil
	}
	b, err := hostbooking.BookingDocs.Parse(d)
	switch {
	case err != nil:
		r.addFinding(inDocument(key, Document, "a booking", problem.AsError(err).Error()))
	case whole && b.Rows == last && b.State != state:
		r.addFinding(inDocument(key, Document, "state "+string(state)+", according to its rows", string(b.State)))
	case whole && b.Rows == last && b.Held != held:
		r.addFinding(inDocument(key, Money, fmt.Sprintf("%s held for the venue, according to its rows", held), b.Held.String()))
	case b.Rows < last:
		r.addFinding(inDocument(key, Document, fmt.Sprintf("%d rows", last), fmt.Sprint(b.Rows)))
	}
	return nil
}

func follows(row *hostbooking.Row, state booking.State, position uint64) bool {
	switch row.Kind {
	case hostbooking.RowCreated:
		return position == 1 && row.To == booking.Pending
	case hostbooking.RowTransition:
		return position > 1 && row.From == state && booking.CheckTransition(state, row.To) == nil
	case hostbooking.RowPaid:
		return position > 1 && state == booking.Dispatched && row.From == state && row.To == state
	case hostbooking.RowCancelled:
		return position > 1 && row.From == state && (row.To == state || booking.CheckTransition(state, row.To) == nil)
	}
	return false
}

func (r *run) bookingMoney(ctx context.Context, s store.Stream, position uint64, row *hostbooking.Row) error {
	if !r.moveBooked(row) {
		r.addFinding(inStream(s, position, Money, "the account of an amount", fmt.Sprintf("%.80q", row.Account)))
		return nil
	}
	if row.Amount == 0 {
		return nil // held money has no event; the venue's call is charged later
	}
	e := hostbooking.Event{ID: row.Event, Account: row.Account, At: row.At}
	got, _, err := hostbooking.EventDocs.Require(ctx, r.view, hostbooking.EventKey(&e))
	if err != nil && !isDamaged(err) {
		return err
	}
	if err != nil || got.Amount != row.Amount || got.ID != row.Event {
		r.addFinding(inStream(s, position, Money, fmt.Sprintf("an event of %s for this row", row.Amount), fmt.Sprintf("one of %s", got.Amount)))
	}
	return nil
}

// moveBooked applies a row's amounts to the ledger of its account. It returns false if the account
// in the row is invalid.
func (r *run) moveBooked(row *hostbooking.Row) bool {
	raw, err := hex.DecodeString(row.Account)
	if err != nil || len(raw) != identity.Size {
		return false
	}
	l := r.ledgerOf([32]byte(raw))
	l.move(-row.Amount)
	l.move(-row.Held)
	l.spend(row.At, row.Amount)
	return true
}
