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

func (r *run) checkBooking(ctx context.Context, s store.Stream, id identity.ID) error {
	rows := r.newReader(s)
	var state booking.State
	var lastPosition uint64
	var heldAmount money.Amount
	isComplete := true
	for {
		row, more, err := rows.next(ctx)
		if err != nil {
			return err
		}
		if !more {
			r.nextPositions[s] = rows.nextPosition
			break
		}
		if row.Position == 0 {
			isComplete = false
			continue
		}
		lastPosition = row.Position
		bookingRow, err := hostbooking.DecodeRow(row)
		if err != nil {
			isComplete = false
			r.addFinding(newStreamFinding(s, row.Position, Row, "a row of a booking", problem.AsError(err).Text()))
			continue
		}
		if isComplete && !isValidNextRow(&bookingRow, state, row.Position) {
			r.addFinding(newStreamFinding(s, row.Position, Row, fmt.Sprintf("a transition that is allowed after state %q", state), fmt.Sprintf("%s to %s", bookingRow.Kind, bookingRow.To)))
		}
		state = bookingRow.To
		heldAmount += bookingRow.Held
		if bookingRow.Amount != 0 || bookingRow.Held != 0 {
			if err := r.checkBookingMoney(ctx, s, row.Position, &bookingRow); err != nil {
				return err
			}
		}
	}
	key := hostbooking.Key(id.String())
	d, err := r.readDocument(ctx, key)
	if err != nil {
		return err
	}
	if d.Version == 0 {
		r.addFinding(newDocumentFinding(key, Document, "the booking of its rows", "none"))
		return nil
	}
	b, err := hostbooking.BookingDocs.Parse(d)
	switch {
	case err != nil:
		r.addFinding(newDocumentFinding(key, Document, "a booking", problem.AsError(err).Error()))
	case isComplete && b.RowCount == lastPosition && b.State != state:
		r.addFinding(newDocumentFinding(key, Document, "state "+string(state)+", according to its rows", string(b.State)))
	case isComplete && b.RowCount == lastPosition && b.Held != heldAmount:
		r.addFinding(newDocumentFinding(key, Money, fmt.Sprintf("%s held for the venue, according to its rows", heldAmount), b.Held.String()))
	case b.RowCount < lastPosition:
		r.addFinding(newDocumentFinding(key, Document, fmt.Sprintf("%d rows", lastPosition), fmt.Sprint(b.RowCount)))
	}
	return nil
}

func isValidNextRow(row *hostbooking.Row, state booking.State, position uint64) bool {
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

func (r *run) checkBookingMoney(ctx context.Context, s store.Stream, position uint64, row *hostbooking.Row) error {
	if !r.applyBookingAmounts(row) {
		r.addFinding(newStreamFinding(s, position, Money, "the account of an amount", fmt.Sprintf("%.80q", row.Account)))
		return nil
	}
	if row.Amount == 0 {
		return nil // a row that only holds money has no usage event
	}
	e := hostbooking.UsageEvent{ID: row.UsageEventID, Account: row.Account, Time: row.Time}
	got, _, err := hostbooking.EventDocs.Require(ctx, r.view, hostbooking.EventKey(&e))
	if err != nil && !isDamaged(err) {
		return err
	}
	if err != nil || got.Amount != row.Amount || got.ID != row.UsageEventID {
		r.addFinding(newStreamFinding(s, position, Money, fmt.Sprintf("an event of %s for this row", row.Amount), fmt.Sprintf("an event of %s", got.Amount)))
	}
	return nil
}

// applyBookingAmounts returns false if the account in the row is invalid.
func (r *run) applyBookingAmounts(row *hostbooking.Row) bool {
	accountID, err := hex.DecodeString(row.Account)
	if err != nil || len(accountID) != identity.Size {
		return false
	}
	l := r.ledgerOf([32]byte(accountID))
	l.addAmount(-row.Amount)
	l.addAmount(-row.Held)
	l.addCost(row.Time, row.Amount)
	return true
}
