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

const (
	MinReviewers = 3 // distinct reviewers
	maxWaitTime  = 30 * 24 * time.Hour
)

// ErrCommitmentUsed reports that a commitment was used before. Its text is the error code of the
// reference implementation.
var ErrCommitmentUsed = errors.New("commitment_already_spent")

type BlindedResult struct {
	Waiting   int
	Submitted int
}

// SubmitBlinded stores a blinded review, whose record names a commitment instead of the reviewer.
// When MinReviewers reviewers have reviewed the target, it submits all waiting reviews in random
// order and with the same time, which hides who wrote which review.
func (s *Service) SubmitBlinded(ctx context.Context, b review.Blinded) (out BlindedResult, err error) {
	j, err := s.judge(ctx, b.Record, &b.Reveal)
	if err != nil {
		return out, err
	}
	usedErr := problem.Wrap(problem.Conflict, ErrCommitmentUsed, "the commitment was used before")
	if j.earlierReceipt.Duplicate {
		return out, usedErr
	}
	target, now := b.Record.Target, s.now()
	err = s.update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, reviewedDoc, err := ReviewedCallDocs.Get(ctx, tx, ReviewedCallKey(target, b.Record.Commitment))
		if err != nil {
			return err
		}
		_, d, err := BlindedDocs.Get(ctx, tx, BlindedDocs.Key(target.String(), b.Record.Commitment.String()))
		switch {
		case err != nil:
			return err
		case reviewedDoc.Version > 0 || d.Version > 0 && !d.IsExpired(now):
			return usedErr
		}
		times, recentDoc, err := RecentReviewDocs.Get(ctx, tx, RecentReviewDocs.Key(j.reviewer.String()))
		if err != nil {
			return err
		}
		// This write makes concurrent reviews by the reviewer conflict, so that the reviewer cannot
		// exceed MaxPerPair.
		putReviewTimes(tx, recentDoc.Key, times, now)
		_, countByReviewer, err := s.listWaitingShuffled(ctx, target)
		switch {
		case err != nil:
			return err
		case countByReviewer[j.reviewer] >= MaxPerPair:
			return problem.New(problem.TooManyRequests, "%d blinded reviews of the vacant by this reviewer are waiting already, which is the limit; they are counted when %d reviewers have written theirs", MaxPerPair, MinReviewers)
		}
		BlindedDocs.Put(tx, store.Doc{Key: d.Key, Expires: now.Add(maxWaitTime).Truncate(time.Second)}, b)
		return nil
	})
	if err != nil {
		return out, err
	}
	return s.submitIfEnoughReviewers(ctx, target)
}

func (s *Service) listWaitingShuffled(ctx context.Context, target identity.ID) (docs []store.Doc, countByReviewer map[identity.ID]int, err error) {
	countByReviewer = map[identity.ID]int{}
	for d, err := range store.Documents(ctx, s.Store, BlindedDocs.Range(target.String())) {
		if err != nil {
			return nil, nil, store.AsProblem(err)
		}
		if d.IsExpired(s.now()) {
			continue
		}
		blinded, err := BlindedDocs.Parse(d)
		if err != nil {
			return nil, nil, err
		}
		var random [8]byte
		if _, err := io.ReadFull(s.Rand, random[:]); err != nil {
			return nil, nil, problem.Wrap(problem.Unavailable, err, "no randomness")
		}
		countByReviewer[blinded.Reveal.Reviewer]++
		docs = slices.Insert(docs, int(binary.BigEndian.Uint64(random[:])%uint64(len(docs)+1)), d)
	}
	return docs, countByReviewer, nil
}

// submitIfEnoughReviewers submits all waiting reviews before it deletes them. If the process dies in
// between, the next blinded review of the target repeats the work, but stores no review twice.
func (s *Service) submitIfEnoughReviewers(ctx context.Context, target identity.ID) (out BlindedResult, err error) {
	docs, countByReviewer, err := s.listWaitingShuffled(ctx, target)
	if err != nil || len(countByReviewer) < MinReviewers {
		return BlindedResult{Waiting: len(docs)}, err
	}
	now := s.now()
	for _, d := range docs {
		blinded, err := BlindedDocs.Parse(d)
		if err != nil {
			return out, err
		}
		_, err = s.submit(ctx, blinded.Record, &blinded.Reveal, now, nil)
		if problem.Is(err, problem.Unavailable) {
			return out, err
		}
		if err == nil { // a review that Submit would now refuse is dropped
			out.Submitted++
		}
	}
	for chunk := range slices.Chunk(docs, store.MaxWrites) {
		if err := s.update(ctx, func(ctx context.Context, tx *store.Tx) error {
			for _, d := range chunk {
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
