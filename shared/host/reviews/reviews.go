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
	"context"
	"encoding/hex"
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
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// Limits of reviews in 24 hours.
const (
	MaxPair     = 3  // by a reviewer of a target
	MaxReviewer = 20 // by a reviewer
	window      = 24 * time.Hour
)

// Config configures a Service. All fields are required.
type Config struct {
	Store    store.Store
	Calls    *call.Host
	Vacants  *vacants.Directory
	Registry *registry.Registry
	Now      func() time.Time
	Rand     io.Reader // safe for concurrent use
}

// Service counts reviews. It is safe for concurrent use, and several services may share a store.
type Service struct {
	Config
	turn chan struct{} // contains a token while no review is written
}

func New(c Config) *Service {
	s := &Service{Config: c, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }

// Submit counts a review and returns its receipt. reveal is nil unless the review is blinded. If the
// same review was counted before, the receipt says Duplicate.
//
// The refusals, in order: BadSignature; NotFound if this host does not run the target, or conceals
// it from the reviewer; Reviewed; Ineligible or Revoked; NoCall; TooMany.
func (s *Service) Submit(ctx context.Context, rec review.Record, reveal *review.Reveal) (registryclient.ReviewReceipt, error) {
	return s.submit(ctx, rec, reveal, s.now(), nil)
}

// submit is Submit at a time. finish adds writes to the commit of the review. It may be nil.
func (s *Service) submit(ctx context.Context, rec review.Record, reveal *review.Reveal, at time.Time, finish func(*store.Tx)) (out registryclient.ReviewReceipt, err error) {
	j, err := s.judge(ctx, rec, reveal)
	if err != nil || j.duplicate != nil {
		return j.receipt(), err
	}
	select { // reviews of one process do not conflict with each other
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-ctx.Done():
		return out, problem.Wrap(problem.Unavailable, ctx.Err(), "many reviews arrive at once; send the same again")
	}
	err = store.Updater{Store: s.Store, Rand: s.Rand}.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if j.duplicate, err = s.earlier(ctx, tx, &rec); err != nil || j.duplicate != nil {
			return err
		}
		if out, err = s.count(ctx, tx, &j, at); err == nil && finish != nil {
			finish(tx)
		}
		return err
	})
	if err == nil && j.duplicate != nil {
		out = j.receipt()
	}
	return out, registry.Problem(err)
}

// earlier returns the receipt of a review that was counted before, or nil. If the call has another
// review, the error is Reviewed.
func (s *Service) earlier(ctx context.Context, from store.Reader, rec *review.Record) (*registryclient.ReviewReceipt, error) {
	n, d, err := OnceDocs.Get(ctx, from, OnceKey(rec.Target, rec.Call))
	if err != nil || d.Version == 0 {
		return nil, err
	}
	row, _, err := s.row(ctx, rec.Target, uint64(n))
	if err != nil {
		return nil, err
	}
	if row.Signature != hex.EncodeToString(rec.Signature) {
		return nil, problem.New(problem.Reviewed, "the call %s was reviewed before, as review %d of the vacant", rec.Call, n)
	}
	b, _, err := BookDocs.Get(ctx, s.Store, BookKey(rec.Target))
	standing := earned(b.State())
	return &registryclient.ReviewReceipt{
		Target: rec.Target, Position: uint64(n), Duplicate: true, Class: row.Class, Nth: row.Nth, Substrate: row.Substrate, Weights: row.Weights, Before: standing, After: standing,
	}, err
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
	if ok, wait := last.add(target, at); !ok {
		return out, problem.New(problem.TooMany, "a reviewer writes at most %d reviews of a vacant and %d in all in 24 hours; try again in %s", MaxPair, MaxReviewer, wait.Round(time.Minute)+time.Minute)
	}
	RecentDocs.Put(tx, store.Doc{Key: d.Key, Expires: at.Add(window + time.Hour).Truncate(time.Second)}, last)
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
	factors := reputation.Factors{Source: reputation.CallerReview, SameFamily: j.sameFamily, Nth: row.Nth}
	if j.mutual {
		factors.Similarity = 1
	}
	if j.reputation != nil {
		own := j.reputation.At(at)
		factors.Reviewer = &own
	}
	row.Weights = book.Weigh(j.rec.Ratings, j.class, factors, at)
	data, err := row.Encode()
	if err != nil {
		return out, problem.Wrap(problem.Internal, err, "")
	}
	out = registryclient.ReviewReceipt{Target: target, Position: book.Rows + 1, Class: row.Class, Nth: row.Nth, Substrate: row.Substrate, Weights: row.Weights, Before: earned(book.State())}
	if err := book.Add(&row, data); err != nil {
		return out, err
	}
	out.After = earned(book.State())
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

// row returns the review at a position and its bytes.
func (s *Service) row(ctx context.Context, target identity.ID, position uint64) (row review.Row, data []byte, err error) {
	if position == 0 {
		return row, nil, noReview(target, position)
	}
	rows, err := s.Store.Rows(ctx, Stream(target), position, 1, store.Ascending)
	if err != nil {
		return row, nil, store.Problem(err)
	}
	if len(rows) == 0 || rows[0].Position != position {
		return row, nil, noReview(target, position)
	}
	row, err = review.DecodeRow(rows[0].Data)
	return row, rows[0].Data, err
}

func noReview(target identity.ID, position uint64) error {
	return problem.New(problem.NotFound, "vacant %s has no review %d", target.Short(), position)
}

// Reputation returns the reputation of a vacant that this host runs. caller is the id that the
// reader has proved. It may be nil. For strangers a closed child is not found.
func (s *Service) Reputation(ctx context.Context, id identity.ID, caller *identity.ID) (out registryclient.Reputation, err error) {
	if err := s.checkVisible(ctx, id, caller); err != nil {
		return out, err
	}
	b, _, err := BookDocs.Get(ctx, s.Store, BookKey(id))
	return registryclient.Reputation{ID: id, Earned: earned(b.State()), Book: b}, store.Problem(err)
}

// History returns up to n reviews of a vacant from a position on.
func (s *Service) History(ctx context.Context, id identity.ID, caller *identity.ID, from uint64, n int) (out registryclient.History, err error) {
	if err := s.checkVisible(ctx, id, caller); err != nil {
		return out, err
	}
	rows, err := s.Store.Rows(ctx, Stream(id), from, n+1, store.Ascending)
	if err != nil {
		return out, store.Problem(err)
	}
	if out.Reviews = []registryclient.Review{}; len(rows) == 0 {
		return out, nil
	}
	claims := ClaimDocs.All(id.String())
	claims.First, claims.Last = ClaimKey(id, rows[0].Position).Sort, ClaimKey(id, rows[len(rows)-1].Position+1).Sort
	texts := map[string]string{}
	for d, err := range store.All(ctx, s.Store, claims) {
		if err != nil {
			return out, store.Problem(err)
		}
		texts[d.Key.Sort] = string(d.Data)
	}
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
	row, _, err := s.row(ctx, target, position)
	switch {
	case err != nil:
		return err
	case by != nil && *by != row.Reviewer():
		return noReview(target, position) // as for a review of a closed child
	}
	return store.Problem(store.Updater{Store: s.Store, Rand: s.Rand}.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, ClaimKey(target, position))
		tx.Delete(d.Key)
		return err
	}))
}
