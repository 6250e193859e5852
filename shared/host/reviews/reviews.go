// Package reviews accepts signed reviews of answered calls, and computes reputations from them. The
// target of a review is the reviewed vacant. One commit stores a row in the target's stream, the
// target's book, and the reputation in its registration. A call has at most one review.
//
// The total weight of free reviews by reviewers on other hosts is limited, because anyone can
// create many keys.
package reviews

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

const (
	MaxPerPair     = 3  // reviews of one target per reviewer and day
	MaxPerReviewer = 20 // reviews per reviewer and day
)

// Service accepts the reviews of a host. All fields are required. A Service is safe for concurrent
// use. Several services may share a Store.
type Service struct {
	Store    store.Store
	Calls    *call.Host
	Vacants  *vacants.Directory
	Registry *registry.Registry
	Now      func() time.Time
	Rand     io.Reader // safe for concurrent use
}

func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }

func (s *Service) update(ctx context.Context, decide func(context.Context, *store.Tx) error) error {
	return registry.WrapStoreError(store.Updater{Store: s.Store, Rand: s.Rand}.Update(ctx, decide))
}

// Submit stores a review and returns its receipt. If the same review was stored before, the receipt
// is a Duplicate.
func (s *Service) Submit(ctx context.Context, rec review.Record) (registryclient.ReviewReceipt, error) {
	return s.submit(ctx, rec, nil, s.now(), nil)
}

// Issue signs rec as a vacant of this host, and stores it as Submit does. If rec.CallHash is zero,
// Issue reviews the last answered call.
func (s *Service) Issue(ctx context.Context, reviewer identity.ID, rec *review.Record) (out registryclient.ReviewReceipt, err error) {
	if rec.CallHash.IsZero() {
		last, err := s.Calls.FindLastDecision(ctx, call.Pair{Caller: reviewer, Vacant: rec.Target}, func(r *call.ResponseRow) bool { return r.Kind == call.RowAnswer })
		if err != nil {
			return out, err
		}
		if last == nil {
			return out, problem.New(problem.NoMatchingCall, "vacant %s has no answer of %s to review", reviewer.Short(), rec.Target.Short())
		}
		rec.CallHash, rec.Position = last.RequestHash, int64(last.RequestPosition)
	}
	earlier, _, err := s.findReview(ctx, s.Store, rec.Target, rec.CallHash)
	if err != nil {
		return out, store.AsProblem(err)
	}
	if rec.IssuedAt = canon.FormatTime(s.now()); earlier != nil {
		rec.IssuedAt = earlier.Record.IssuedAt // the same ratings then give the same signed bytes
	}
	if err := s.Vacants.WithSigner(ctx, reviewer, func(signer identity.Signer) error { return rec.Sign(ctx, signer) }); err != nil {
		return out, err
	}
	return s.submit(ctx, *rec, nil, s.now(), func(ctx context.Context, tx *store.Tx) error {
		row, err := s.Vacants.LogRow(ctx, vacants.LogEntry{ID: reviewer, Kind: logbook.KindReviewIssued, Payload: rec.WithoutClaim()})
		tx.Append(row.Stream, row.Position, row.Data)
		return err
	})
}

func (s *Service) submit(ctx context.Context, rec review.Record, reveal *review.Reveal, now time.Time, addEntry func(context.Context, *store.Tx) error) (out registryclient.ReviewReceipt, err error) {
	j, err := s.judge(ctx, rec, reveal)
	if err != nil || j.earlierReceipt.Duplicate {
		return j.earlierReceipt, err
	}
	err = s.update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if out, err = s.findDuplicate(ctx, tx, &rec); err != nil || out.Duplicate {
			return err
		}
		if out, err = s.addReview(ctx, tx, &j, now); err == nil && addEntry != nil {
			err = addEntry(ctx, tx)
		}
		return err
	})
	return out, err
}

func (s *Service) findReview(ctx context.Context, reader store.Reader, target identity.ID, callHash identity.Hash) (*review.Row, uint64, error) {
	position, d, err := ReviewedCallDocs.Get(ctx, reader, ReviewedCallKey(target, callHash))
	if err != nil || d.Version == 0 {
		return nil, 0, err
	}
	row, err := s.readRow(ctx, target, uint64(position))
	return &row, uint64(position), err
}

// findDuplicate returns an error of kind AlreadyReviewed if the call has another review.
func (s *Service) findDuplicate(ctx context.Context, reader store.Reader, rec *review.Record) (out registryclient.ReviewReceipt, err error) {
	row, position, err := s.findReview(ctx, reader, rec.Target, rec.CallHash)
	if err != nil || row == nil {
		return out, err
	}
	if !bytes.Equal(row.Record.Signature, rec.Signature) {
		return out, problem.New(problem.AlreadyReviewed, "the call %s was reviewed before, as review %d of the vacant", rec.CallHash, position)
	}
	book, _, err := BookDocs.Get(ctx, s.Store, BookKey(rec.Target))
	out = newReceipt(row, position)
	out.Duplicate, out.ScoreBefore, out.ScoreAfter = true, newEarned(book.State()), newEarned(book.State())
	return out, err
}

func newReceipt(row *review.Row, position uint64) registryclient.ReviewReceipt {
	return registryclient.ReviewReceipt{Target: row.Record.Target, Position: position, Class: row.Class, PartyReviewNumber: row.ReviewNumber, Substrate: row.Substrate, Weights: row.Weights}
}

func newEarned(s *reputation.State) registryclient.Earned {
	return registryclient.Earned{Score: s.EarnedScore(), Evidence: s.Evidence()}
}

func (s *Service) addReview(ctx context.Context, tx *store.Tx, j *judgement, now time.Time) (out registryclient.ReviewReceipt, err error) {
	target := j.rec.Target
	times, d, err := RecentReviewDocs.Get(ctx, tx, RecentReviewDocs.Key(j.reviewer.String()))
	if err != nil {
		return out, err
	}
	updated, ok := times.withReview(target, now)
	if !ok {
		return out, problem.New(problem.TooManyRequests, "the reviewer has reached the limit of %d reviews of a vacant or %d reviews in all in 24 hours; try again tomorrow", MaxPerPair, MaxPerReviewer)
	}
	putReviewTimes(tx, d.Key, updated, now)
	earlierReviews, d, err := PartyDocs.Get(ctx, tx, PartyDocs.Key(target.String(), j.party))
	if err != nil {
		return out, err
	}
	PartyDocs.Put(tx, d, earlierReviews+1)
	book, d, err := BookDocs.Get(ctx, tx, BookKey(target))
	if err != nil {
		return out, err
	}
	row := review.NewRow(j.rec, j.reveal)
	row.Prev, row.At, row.AnsweredAt, row.Class, row.ReviewNumber, row.Substrate = book.Tip, now, j.answeredAt, j.class, earlierReviews+1, j.substrate
	factors := reputation.Factors{Source: reputation.SourceCallerReview, SameFamily: j.sameFamily, ReviewNumber: row.ReviewNumber, Similarity: j.similarity}
	if j.reputation != nil {
		decayed := j.reputation.Decay(now)
		factors.Reviewer = &decayed
	}
	row.Weights = book.ComputeWeights(j.rec.Ratings, j.class, factors, now)
	data, err := json.Marshal(row)
	if err != nil {
		return out, problem.Wrap(problem.Internal, err, "")
	}
	earnedBefore := newEarned(book.State())
	if err := book.Add(&row, data); err != nil {
		return out, err
	}
	out = newReceipt(&row, book.Rows)
	out.ScoreBefore, out.ScoreAfter = earnedBefore, newEarned(book.State())
	tx.Append(Stream(target), book.Rows, data)
	BookDocs.Put(tx, store.Doc{Key: d.Key}, book)
	for _, hash := range []identity.Hash{j.rec.CallHash, j.rec.Commitment} {
		if !hash.IsZero() {
			ReviewedCallDocs.Put(tx, store.Doc{Key: ReviewedCallKey(target, hash)}, int64(book.Rows))
		}
	}
	if row.HasClaim {
		ClaimDocs.Put(tx, store.Doc{Key: ClaimKey(target, book.Rows)}, j.rec.Claim)
	}
	return out, s.Registry.SetReputation(ctx, tx, target, *book.State())
}

func (s *Service) readRow(ctx context.Context, target identity.ID, position uint64) (row review.Row, err error) {
	rows, err := s.Store.Rows(ctx, Stream(target), max(position, 1), 1, store.Ascending)
	if err != nil {
		return row, store.AsProblem(err)
	}
	if len(rows) == 0 || rows[0].Position != position {
		return row, noReviewError(target, position)
	}
	return review.DecodeRow(rows[0].Data)
}

func noReviewError(target identity.ID, position uint64) error {
	return problem.New(problem.NotFound, "vacant %s has no review %d", target.Short(), position)
}

func (s *Service) Reputation(ctx context.Context, id identity.ID) (out registryclient.Reputation, err error) {
	if err := s.checkVisible(ctx, id); err != nil {
		return out, err
	}
	book, _, err := BookDocs.Get(ctx, s.Store, BookKey(id))
	return registryclient.Reputation{ID: id, Earned: newEarned(book.State()), Book: book}, store.AsProblem(err)
}

func (s *Service) History(ctx context.Context, id identity.ID, from uint64, n int) (out registryclient.History, err error) {
	if err := s.checkVisible(ctx, id); err != nil {
		return out, err
	}
	rows, err := s.Store.Rows(ctx, Stream(id), from, n+1, store.Ascending)
	if err != nil {
		return out, store.AsProblem(err)
	}
	claims := ClaimDocs.Range(id.String())
	claims.Start, claims.End = ClaimKey(id, from).Sort, ClaimKey(id, from+uint64(n)).Sort
	texts := map[string]string{}
	for d, err := range store.Documents(ctx, s.Store, claims) {
		if err != nil {
			return out, store.AsProblem(err)
		}
		texts[d.Key.Sort] = string(d.Data)
	}
	out.Reviews = []registryclient.Review{}
	for i, row := range rows {
		if i == n {
			out.Next = strconv.FormatUint(row.Position, 10)
			break
		}
		entry := registryclient.Review{Position: row.Position, Row: row.Data}
		if claim, ok := texts[ClaimKey(id, row.Position).Sort]; ok {
			entry.Claim = &claim
		}
		out.Reviews = append(out.Reviews, entry)
	}
	return out, nil
}

// EraseClaim deletes the claim of a review. requester must be the reviewer, or nil for the
// operator.
func (s *Service) EraseClaim(ctx context.Context, target identity.ID, position uint64, requester *identity.ID) error {
	row, err := s.readRow(ctx, target, position)
	if err != nil {
		return err
	}
	if requester != nil && *requester != row.Reviewer() {
		return noReviewError(target, position) // the same error as for a missing review
	}
	return s.update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, ClaimKey(target, position))
		tx.Delete(d.Key)
		return err
	})
}
