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
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// reviews verifies the reviews of a vacant, and compares the reputation that they make with its book
// and its registration.
func (r *run) reviews(ctx context.Context, s store.Stream, id identity.ID) error {
	rows := r.reader(s)
	var folded reputation.Book
	whole := true
	for {
		row, more, err := rows.next(ctx)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if row.Position == 0 {
			whole = false
			continue
		}
		of, err := review.DecodeRow(row.Data)
		if err != nil {
			whole = false
			r.found(inStream(s, row.Position, Row, "a review", problem.Of(err).Text()))
			continue
		}
		if err := r.review(ctx, s, row.Position, &of); err != nil {
			return err
		}
		if whole && of.Prev != folded.Tip {
			r.found(inStream(s, row.Position, Prev, folded.Tip.String(), of.Prev.String()))
			whole = false
		}
		folded.Tip = of.Prev
		if err := folded.Add(&of, row.Data); err != nil {
			whole = false
			r.found(inStream(s, row.Position, Row, "a review that can be counted", problem.Of(err).Text()))
		}
	}
	if !whole {
		return nil
	}
	k := reviews.BookKey(id)
	d, err := r.document(ctx, k)
	if err != nil {
		return err
	}
	book, err := reviews.BookDocs.Parse(d)
	if err != nil {
		return r.broken(k, Document, "a reputation", err)
	}
	// The host may have counted reviews since the last row was read.
	if _, err := r.tail(ctx, s, rows.at, func(row store.Row) error {
		of, err := review.DecodeRow(row.Data)
		if err == nil && folded.Rows < book.Rows {
			err = folded.Add(&of, row.Data)
		}
		if err != nil {
			r.found(inStream(s, row.Position, Row, "a review that follows", problem.Of(err).Text()))
		}
		return nil
	}); err != nil {
		return err
	}
	if err := book.Compare(&folded); err != nil {
		r.foundAt(d.Version, inDocument(k, Reputation, "the reputation that the reviews make", problem.Of(err).Text()))
		return nil
	}
	return r.registeredReputation(ctx, id, d.Version, book.State())
}

func (r *run) review(ctx context.Context, s store.Stream, position uint64, of *review.Row) error {
	id, rec := s.IDs()[0], of.Record()
	k := reviews.ClaimKey(id, position)
	d, err := r.document(ctx, k)
	if err != nil {
		return err
	}
	var claim *string
	if d.Version > 0 {
		text := string(d.Data)
		claim = &text
	}
	if err := of.Verify(id, claim); err != nil {
		r.found(inStream(s, position, Signature, "a review of the vacant that the reviewer has signed", problem.Of(err).Text()))
	}
	k = reviews.OnceKey(id, rec.Call)
	if d, err = r.document(ctx, k); err != nil {
		return err
	}
	if d.Number != int64(position) {
		r.found(inDocument(k, Reputation, fmt.Sprintf("the position %d of the call's review", position), fmt.Sprint(d.Number)))
	}
	return nil
}

// registeredReputation compares the reputation in a registration. A vacant that was registered after
// its last review has none.
func (r *run) registeredReputation(ctx context.Context, id identity.ID, version uint64, s *reputation.State) error {
	k := registry.RegistrationKey(id)
	d, err := r.document(ctx, k)
	if err != nil || d.Version == 0 {
		return err
	}
	g, err := registry.RegistrationDocs.Parse(d) // registration reports one that cannot be read
	if err == nil && g.Status == registry.StatusActive && g.Reputation != nil && *g.Reputation != *s {
		r.foundAt(version, inDocument(k, Reputation, "the reputation in the vacant's book", "another"))
	}
	return nil
}

// reputationWithoutReviews reports a book without rows.
func (r *run) reputationWithoutReviews(ctx context.Context, id identity.ID) error {
	k := reviews.BookKey(id)
	d, err := r.document(ctx, k)
	if err != nil || d.Version == 0 {
		return err
	}
	some, err := r.any(ctx, reviews.Stream(id))
	if err == nil && !some {
		r.found(inDocument(k, Reputation, "none, as there are no reviews", "one"))
	}
	return err
}
