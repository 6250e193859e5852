package reviews

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// Limits of blinded reviews of a vacant.
const (
	Threshold   = 3 // distinct reviewers, at whom all that wait are counted
	MaxWaiting  = 64
	maxWaitTime = 30 * 24 * time.Hour
)

// ErrSpent is in the error chain if a commitment was used before. It has the words of the reference.
var ErrSpent = errors.New("commitment_already_spent")

// Blinded is the state of a vacant's blinded reviews.
type Blinded struct {
	Waiting int // reviews that wait
	Counted int // reviews that were counted now
}

// Blind keeps a blinded review until Threshold reviewers have reviewed its target, and then counts
// all that wait, in random order and at one time, so that neither order nor time tells who wrote
// which. A review that could not be counted is refused at once, as by Submit. Blind refuses
// what Submit refuses, and a used commitment with Conflict and ErrSpent in the chain.
func (s *Service) Blind(ctx context.Context, b review.Blinded) (out Blinded, err error) {
	j, err := s.judge(ctx, b.Record, &b.Reveal)
	if err != nil {
		return out, err
	}
	spent := problem.Wrap(problem.Conflict, ErrSpent, "the commitment was used before")
	if j.earlier.Duplicate {
		return out, spent
	}
	target, now := b.Record.Target, s.now()
	err = s.update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, once, err := OnceDocs.Get(ctx, tx, OnceKey(target, b.Record.Commitment))
		if err != nil {
			return err
		}
		_, d, err := BlindDocs.Get(ctx, tx, BlindDocs.Key(target.String(), b.Record.Commitment.String()))
		switch {
		case err != nil:
			return err
		case once.Version > 0 || d.Version > 0 && !d.Expired(now):
			return spent
		}
		docs, _, err := s.waiting(ctx, target)
		if err == nil && len(docs) >= MaxWaiting {
			err = problem.New(problem.TooMany, "%d blinded reviews of the vacant wait already", len(docs))
		}
		BlindDocs.Put(tx, store.Doc{Key: d.Key, Expires: now.Add(maxWaitTime).Truncate(time.Second)}, b)
		return err
	})
	if err != nil {
		return out, err
	}
	return s.release(ctx, target)
}

// waiting returns the blinded reviews of a vacant that have not expired, in random order.
func (s *Service) waiting(ctx context.Context, target identity.ID) (docs []store.Doc, reviewers map[identity.ID]bool, err error) {
	reviewers = map[identity.ID]bool{}
	for d, err := range store.All(ctx, s.Store, BlindDocs.All(target.String())) {
		if err != nil {
			return nil, nil, store.Problem(err)
		}
		if d.Expired(s.now()) {
			continue
		}
		one, err := BlindDocs.Parse(d)
		if err != nil {
			return nil, nil, err
		}
		var place [8]byte
		if _, err := io.ReadFull(s.Rand, place[:]); err != nil {
			return nil, nil, problem.Wrap(problem.Unavailable, err, "no randomness")
		}
		reviewers[one.Reveal.Reviewer] = true
		docs = slices.Insert(docs, int(binary.BigEndian.Uint64(place[:])%uint64(len(docs)+1)), d)
	}
	return docs, reviewers, nil
}

// release counts the waiting reviews of a vacant if there are enough reviewers, and only then deletes
// them all, so the next blinded review completes a release that a crash has ended.
func (s *Service) release(ctx context.Context, target identity.ID) (out Blinded, err error) {
	docs, reviewers, err := s.waiting(ctx, target)
	if err != nil || len(reviewers) < Threshold {
		return Blinded{Waiting: len(docs)}, err
	}
	now := s.now()
	for _, d := range docs {
		one, err := BlindDocs.Parse(d)
		if err != nil {
			return out, err
		}
		_, err = s.submit(ctx, one.Record, &one.Reveal, now, nil)
		if problem.Is(err, problem.Unavailable) {
			return out, err
		}
		if err == nil { // otherwise its call has another review by now, or its reviewer is revoked
			out.Counted++
		}
	}
	for some := range slices.Chunk(docs, store.MaxWrites) {
		if err := s.update(ctx, func(ctx context.Context, tx *store.Tx) error {
			for _, d := range some {
				if _, err := tx.Doc(ctx, d.Key); err != nil {
					return err
				}
				tx.Delete(d.Key)
			}
			return nil
		}); err != nil {
			return out, err
		}
	}
	return out, nil
}
