package fsck

import (
	"context"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/reviews"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// checkReviews verifies the reviews of a vacant and compares its stored reputation with them. A
// book is the document with a vacant's reputation.
func (r *run) checkReviews(ctx context.Context, s store.Stream, id identity.ID) error {
	var recounted reputation.Book
	rows, isComplete := r.newReader(s), true
	for {
		row, more, err := rows.next(ctx)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		isComplete = isComplete && row.Position > 0
		if row.Position > 0 {
			ok, err := r.checkReview(ctx, s, row, &recounted)
			if err != nil {
				return err
			}
			isComplete = isComplete && ok
		}
	}
	if !isComplete {
		return nil
	}
	k := reviews.BookKey(id)
	d, err := r.readDocument(ctx, k)
	if err != nil {
		return err
	}
	book, err := reviews.BookDocs.Parse(d)
	if err != nil {
		return r.reportDamage(k, Document, "a reputation", err)
	}
	// The host may have counted reviews since the last row was read.
	if _, err := r.eachNewRow(ctx, s, rows.nextPosition, func(row store.Row) (err error) {
		if recounted.Rows < book.Rows {
			_, err = r.checkReview(ctx, s, row, &recounted)
		}
		return err
	}); err != nil {
		return err
	}
	if err := book.CheckEqual(&recounted); err != nil {
		r.addFindingAt(d.Version, newDocumentFinding(k, Reputation, "the reputation that results from the reviews", problem.AsError(err).Text()))
		return nil
	}
	// A vacant that was registered after its last review has no reputation in its registration.
	registrationKey := registry.RegistrationKey(id)
	if d, err = r.readDocument(ctx, registrationKey); err != nil || d.Version == 0 {
		return err
	}
	reg, err := registry.RegistrationDocs.Parse(d) // an unreadable registration is reported with the events
	if err == nil && reg.Status == registry.StatusActive && reg.Reputation != nil && *reg.Reputation != *book.State() {
		r.addFinding(newDocumentFinding(registrationKey, Reputation, "the reputation in the vacant's book", "another"))
	}
	return nil
}

func (r *run) checkReview(ctx context.Context, s store.Stream, row store.Row, recounted *reputation.Book) (ok bool, err error) {
	id := s.IDs()[0]
	d, err := r.readDocument(ctx, reviews.ClaimKey(id, row.Position))
	if err != nil {
		return false, err
	}
	var claim *string
	if d.Version > 0 {
		text := string(d.Data)
		claim = &text
	}
	reviewRow, err := recounted.VerifyAndAdd(id, row.Data, claim)
	if err != nil {
		r.addFinding(newStreamFinding(s, row.Position, Row, "a review that is signed by its reviewer and follows the previous review", problem.AsError(err).Text()))
		recounted.Tip = identity.Sum(row.Data) // the next row may be intact
		return false, nil
	}
	k := reviews.ReviewedCallKey(id, reviewRow.Record.CallHash)
	if d, err = r.readDocument(ctx, k); err == nil && d.Number != int64(row.Position) {
		r.addFinding(newDocumentFinding(k, Reputation, fmt.Sprintf("the position %d of the call's review", row.Position), fmt.Sprint(d.Number)))
	}
	return true, err
}

func (r *run) checkReputationHasReviews(ctx context.Context, id identity.ID) error {
	k := reviews.BookKey(id)
	d, err := r.readDocument(ctx, k)
	if err != nil || d.Version == 0 {
		return err
	}
	hasRows, err := r.hasRows(ctx, reviews.Stream(id))
	if err == nil && !hasRows {
		r.addFinding(newDocumentFinding(k, Reputation, "none, as there are no reviews", "one"))
	}
	return err
}
