// Package reviews counts signed reviews of answered calls, and keeps the reputation that follows
// from them.
//
// A review that is counted is one commit: its row in the stream of its target, the target's book, and
// its registration's reputation. A call is reviewed once. Claims are documents of their own, which
// can be erased. Weights depend only on what the host knows itself. Reviews of calls that nobody paid
// for, by reviewers that are not hosted here, count a quarter, and all of them together only so much
// (reputation.Book), so that new keys cost nothing and move nothing.
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

// Limits of reviews in 24 hours.
const (
	MaxPair     = 3  // by a reviewer of a target
	MaxReviewer = 20 // by a reviewer
)

// Service counts reviews. All fields are required. It is safe for concurrent use, and several services
// may share a store.
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
	return registry.Problem(store.Updater{Store: s.Store, Rand: s.Rand}.Update(ctx, decide))
}

// Submit counts a review and returns its receipt. reveal is nil unless the review is blinded. If the
// same review was counted before, the receipt says Duplicate.
//
// The refusals, in order: BadSignature; NotFound if this host does not run the target, or conceals
// it from the reviewer; Reviewed; Ineligible or Revoked; NoCall; TooMany.
func (s *Service) Submit(ctx context.Context, rec review.Record, reveal *review.Reveal) (registryclient.ReviewReceipt, error) {
	return s.submit(ctx, rec, reveal, s.now(), nil)
}

// Issue signs rec as a vacant that this host runs, and counts it as Submit does, in one commit with an
// entry of the vacant's logbook. If rec names no call, it becomes the review of the last answered one.
// The same review of a call again is a duplicate.
func (s *Service) Issue(ctx context.Context, reviewer identity.ID, rec *review.Record) (out registryclient.ReviewReceipt, err error) {
	if rec.Call.IsZero() {
		last, err := s.Calls.LastDecided(ctx, call.Pair{Caller: reviewer, Vacant: rec.Target}, func(r *call.ResponseRow) bool { return r.Kind == call.RowAnswer })
		if err != nil {
			return out, err
		}
		if last == nil {
			return out, problem.New(problem.NoCall, "vacant %s has no answer of %s to review", reviewer.Short(), rec.Target.Short())
		}
		rec.Call, rec.Position = last.RequestHash, int64(last.Request)
	}
	earlier, _, err := s.reviewOf(ctx, s.Store, rec.Target, rec.Call)
	if err != nil {
		return out, store.Problem(err)
	}
	if rec.IssuedAt = canon.FormatTime(s.now()); earlier != nil {
		rec.IssuedAt = earlier.Record.IssuedAt // signs the same bytes again
	}
	if err := s.Vacants.Sign(ctx, reviewer, func(signer identity.Signer) error { return rec.Sign(ctx, signer) }); err != nil {
		return out, err
	}
	return s.submit(ctx, *rec, nil, s.now(), func(ctx context.Context, tx *store.Tx) error {
		row, err := s.Vacants.LogRow(ctx, vacants.LogEntry{ID: reviewer, Kind: logbook.KindReviewIssued, Payload: rec.WithoutClaim()})
		tx.Append(row.Stream, row.Position, row.Data)
		return err
	})
}

// submit is Submit at a time. beside adds writes to the commit of the review. It may be nil.
func (s *Service) submit(ctx context.Context, rec review.Record, reveal *review.Reveal, at time.Time, beside func(context.Context, *store.Tx) error) (out registryclient.ReviewReceipt, err error) {
	j, err := s.judge(ctx, rec, reveal)
	if err != nil || j.earlier.Duplicate {
		return j.earlier, err
	}
	err = s.update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if out, err = s.earlier(ctx, tx, &rec); err != nil || out.Duplicate {
			return err
		}
		if out, err = s.count(ctx, tx, &j, at); err == nil && beside != nil {
			err = beside(ctx, tx)
		}
		return err
	})
	return out, err
}

// reviewOf returns the review of a call, or nil, and its position.
func (s *Service) reviewOf(ctx context.Context, from store.Reader, target identity.ID, call identity.Hash) (*review.Row, uint64, error) {
	n, d, err := OnceDocs.Get(ctx, from, OnceKey(target, call))
	if err != nil || d.Version == 0 {
		return nil, 0, err
	}
	row, err := s.row(ctx, target, uint64(n))
	return &row, uint64(n), err
}

// earlier returns the receipt of the same review if it was counted before, which is a duplicate. If the
// call has another review, the error is Reviewed.
func (s *Service) earlier(ctx context.Context, from store.Reader, rec *review.Record) (out registryclient.ReviewReceipt, err error) {
	row, n, err := s.reviewOf(ctx, from, rec.Target, rec.Call)
	if err != nil || row == nil {
		return out, err
	}
	if !bytes.Equal(row.Record.Signature, rec.Signature) {
		return out, problem.New(problem.Reviewed, "the call %s was reviewed before, as review %d of the vacant", rec.Call, n)
	}
	b, _, err := BookDocs.Get(ctx, s.Store, BookKey(rec.Target))
	out = receiptOf(row, n)
	out.Duplicate, out.Before, out.After = true, earned(b.State()), earned(b.State())
	return out, err
}

func receiptOf(row *review.Row, position uint64) registryclient.ReviewReceipt {
	return registryclient.ReviewReceipt{Target: row.Record.Target, Position: position, Class: row.Class, Nth: row.Nth, Substrate: row.Substrate, Weights: row.Weights}
}

func earned(s *reputation.State) registryclient.Earned {
	return registryclient.Earned{Score: s.Earned(), Evidence: s.Evidence()}
}

// count adds the writes of a review to tx.
func (s *Service) count(ctx context.Context, tx *store.Tx, j *judgement, at time.Time) (out registryclient.ReviewReceipt, err error) {
	target := j.rec.Target
	last, d, err := RecentDocs.Get(ctx, tx, RecentDocs.Key(j.reviewer.String()))
	if err != nil {
		return out, err
	}
	next, ok := last.take(target, at)
	if !ok {
		return out, problem.New(problem.TooMany, "a reviewer writes at most %d reviews of a vacant and %d in all in 24 hours; try again tomorrow", MaxPair, MaxReviewer)
	}
	RecentDocs.Put(tx, store.Doc{Key: d.Key, Expires: at.Add(25 * time.Hour).Truncate(time.Second)}, next)
	nth, d, err := PartyDocs.Get(ctx, tx, PartyDocs.Key(target.String(), j.party))
	if err != nil {
		return out, err
	}
	PartyDocs.Put(tx, d, nth+1)
	book, d, err := BookDocs.Get(ctx, tx, BookKey(target))
	if err != nil {
		return out, err
	}
	row := review.NewRow(j.rec, j.reveal)
	row.Prev, row.At, row.Answered, row.Class, row.Nth, row.Substrate = book.Tip, at, j.answered, j.class, nth+1, j.substrate
	factors := reputation.Factors{Source: reputation.CallerReview, SameFamily: j.sameFamily, Nth: row.Nth, Similarity: j.similarity}
	if j.reputation != nil {
		own := j.reputation.At(at)
		factors.Reviewer = &own
	}
	row.Weights = book.Weigh(j.rec.Ratings, j.class, factors, at)
	data, err := json.Marshal(row)
	if err != nil {
		return out, problem.Wrap(problem.Internal, err, "")
	}
	before := earned(book.State())
	if err := book.Add(&row, data); err != nil {
		return out, err
	}
	out = receiptOf(&row, book.Rows)
	out.Before, out.After = before, earned(book.State())
	tx.Append(Stream(target), book.Rows, data)
	BookDocs.Put(tx, store.Doc{Key: d.Key}, book)
	for _, hash := range []identity.Hash{j.rec.Call, j.rec.Commitment} {
		if !hash.IsZero() {
			OnceDocs.Put(tx, store.Doc{Key: OnceKey(target, hash)}, int64(book.Rows))
		}
	}
	if row.Claimed {
		ClaimDocs.Put(tx, store.Doc{Key: ClaimKey(target, book.Rows)}, j.rec.Claim)
	}
	return out, s.Registry.AddReputation(ctx, tx, target, *book.State())
}

// row returns the review at a position.
func (s *Service) row(ctx context.Context, target identity.ID, position uint64) (row review.Row, err error) {
	rows, err := s.Store.Rows(ctx, Stream(target), max(position, 1), 1, store.Ascending)
	if err != nil {
		return row, store.Problem(err)
	}
	if len(rows) == 0 || rows[0].Position != position {
		return row, noReview(target, position)
	}
	return review.DecodeRow(rows[0].Data)
}

func noReview(target identity.ID, position uint64) error {
	return problem.New(problem.NotFound, "vacant %s has no review %d", target.Short(), position)
}

// Reputation returns the reputation of a vacant that this host runs. A closed child is not found.
func (s *Service) Reputation(ctx context.Context, id identity.ID) (out registryclient.Reputation, err error) {
	if err := s.checkVisible(ctx, id); err != nil {
		return out, err
	}
	b, _, err := BookDocs.Get(ctx, s.Store, BookKey(id))
	return registryclient.Reputation{ID: id, Earned: earned(b.State()), Book: b}, store.Problem(err)
}

// History returns up to n reviews of a vacant from a position on.
func (s *Service) History(ctx context.Context, id identity.ID, from uint64, n int) (out registryclient.History, err error) {
	if err := s.checkVisible(ctx, id); err != nil {
		return out, err
	}
	rows, err := s.Store.Rows(ctx, Stream(id), from, n+1, store.Ascending)
	if err != nil {
		return out, store.Problem(err)
	}
	claims := ClaimDocs.All(id.String())
	claims.First, claims.Last = ClaimKey(id, from).Sort, ClaimKey(id, from+uint64(n)).Sort
	texts := map[string]string{}
	for d, err := range store.All(ctx, s.Store, claims) {
		if err != nil {
			return out, store.Problem(err)
		}
		texts[d.Key.Sort] = string(d.Data)
	}
	out.Reviews = []registryclient.Review{}
	for i, row := range rows {
		if i == n {
			out.Next = strconv.FormatUint(row.Position, 10)
			break
		}
		one := registryclient.Review{Position: row.Position, Row: row.Data}
		if claim, ok := texts[ClaimKey(id, row.Position).Sort]; ok {
			one.Claim = &claim
		}
		out.Reviews = append(out.Reviews, one)
	}
	return out, nil
}

// EraseClaim deletes the claim of a review for its reviewer, or for the operator if by is nil. It
// succeeds if the claim was erased before.
func (s *Service) EraseClaim(ctx context.Context, target identity.ID, position uint64, by *identity.ID) error {
	row, err := s.row(ctx, target, position)
	if err != nil {
		return err
	}
	if by != nil && *by != row.Reviewer() {
		return noReview(target, position) // as for a review of a closed child
	}
	return s.update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, ClaimKey(target, position))
		tx.Delete(d.Key)
		return err
	})
}
