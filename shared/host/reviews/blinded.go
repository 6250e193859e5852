package reviews

import (
	"context"
	"encoding/binary"
	"encoding/json"
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
func (s *Service) Blind(ctx context.Context, rec review.Record, reveal review.Reveal) (out Blinded, err error) {
	j, err := s.judge(ctx, rec, &reveal)
	if err != nil {
		return out, err
	}
	spent := problem.Wrap(problem.Conflict, ErrSpent, "the commitment was used before")
	if j.duplicate != nil {
		return out, spent
	}
	data, err := json.Marshal(rec)
	if err != nil {
		return out, problem.Wrap(problem.Internal, err, "")
	}
	now := s.now()
	err = store.Updater{Store: s.Store, Rand: s.Rand}.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, once, err := OnceDocs.Get(ctx, tx, OnceKey(rec.Target, rec.Commitment))
		if err != nil {
			return err
		}
		_, d, err := BlindDocs.Get(ctx, tx, BlindDocs.Key(rec.Target.String(), rec.Commitment.String()))
		switch {
		case err != nil:
			return err
		case once.Version > 0 || d.Version > 0 && !d.Expired(now):
			return spent
		}
		all, err := s.waiting(ctx, rec.Target)
		if err == nil && len(all) >= MaxWaiting {
			err = problem.New(problem.TooMany, "%d blinded reviews of the vacant wait already", len(all))
		}
		BlindDocs.Put(tx, store.Doc{Key: d.Key, Expires: now.Add(maxWaitTime).Truncate(time.Second)}, waiting{Record: data, Reveal: reveal, At: now})
		return err
	})
	if err != nil {
		return out, store.Problem(err)
	}
	return s.release(ctx, rec.Target)
}

// waiting returns the blinded reviews of a vacant that have not expired.
func (s *Service) waiting(ctx context.Context, target identity.ID) (all []store.Doc, err error) {
	for d, err := range store.All(ctx, s.Store, BlindDocs.All(target.String())) {
		if err != nil {
			return nil, store.Problem(err)
		}
		if !d.Expired(s.now()) {
			all = append(all, d)
		}
	}
	return all, nil
}

// release counts the waiting reviews of a vacant if there are enough reviewers, and those that an
// earlier release did not reach.
func (s *Service) release(ctx context.Context, target identity.ID) (out Blinded, err error) {
	docs, err := s.waiting(ctx, target)
	if err != nil {
		return out, err
	}
	reviewers := map[identity.ID]bool{}
	all := make([]waiting, len(docs))
	for i, d := range docs {
		if all[i], err = BlindDocs.Parse(d); err != nil {
			return out, err
		}
		reviewers[all[i].Reveal.Reviewer] = true
	}
	var last release
	err = store.Updater{Store: s.Store, Rand: s.Rand}.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		var d store.Doc
		if last, d, err = ReleaseDocs.Get(ctx, tx, ReleaseDocs.Key(target.String())); err == nil && len(reviewers) >= Threshold {
			last.At = s.now()
			ReleaseDocs.Put(tx, store.Doc{Key: d.Key}, last)
		}
		return err
	})
	if err != nil {
		return out, store.Problem(err)
	}
	order, err := s.shuffled(len(all))
	if err != nil {
		return out, err
	}
	for _, i := range order {
		if all[i].At.After(last.At) {
			out.Waiting++
			continue
		}
		rec, err := review.Parse(all[i].Record)
		if err == nil {
			_, err = s.submit(ctx, rec, &all[i].Reveal, last.At, func(tx *store.Tx) { tx.Add(store.Delete{Key: docs[i].Key, If: docs[i].Version}) })
		}
		switch {
		case problem.Is(err, problem.Unavailable):
			return out, err // the next release counts the rest
		case err == nil:
			out.Counted++
			continue
		}
		// The call has another review by now, or its reviewer is revoked.
		err = store.Updater{Store: s.Store, Rand: s.Rand}.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			d, err := tx.Doc(ctx, docs[i].Key)
			tx.Delete(d.Key)
			return err
		})
		if err != nil {
			return out, store.Problem(err)
		}
	}
	return out, nil
}

// shuffled returns the numbers below n in random order.
func (s *Service) shuffled(n int) ([]int, error) {
	bits, order := make([]byte, 8*n), make([]int, n)
	if _, err := io.ReadFull(s.Rand, bits); err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "no randomness")
	}
	for i := range order {
		order[i] = i
	}
	weight := func(i int) uint64 { return binary.BigEndian.Uint64(bits[8*i:]) }
	slices.SortFunc(order, func(a, b int) int {
		if weight(a) < weight(b) {
			return -1
		}
		return 1
	})
	return order, nil
}
