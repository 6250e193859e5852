package witness

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const maxConcurrentRequests = 8

const (
	eventVerified = 1 + iota
	eventHidden
)

func (f Follower) verifyEvents(ctx context.Context, r *Report, leaves []identity.Hash, first uint64) error {
	for first <= r.Size {
		last := min(first+leavesPerRequest-1, r.Size)
		results := make([]int, last-first+1)
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(maxConcurrentRequests)
		for seq := first; seq <= last; seq++ {
			g.Go(func() (err error) {
				results[seq-first], err = f.verifyEvent(gctx, leaves, seq)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for _, result := range results {
			switch result {
			case eventVerified:
				r.VerifiedCount++
			case eventHidden:
				r.HiddenCount++
			}
		}
		f.reportProgress("events", last, r.Size)
		first = last + 1
	}
	return nil
}

// verifyEvent verifies an event against its leaf hash, which covers the complete event. The
// signature proves the actor.
func (f Follower) verifyEvent(ctx context.Context, leaves []identity.Hash, seq uint64) (int, error) {
	e, prev, err := f.Log.Event(ctx, seq)
	if err != nil {
		return 0, err
	}
	if e == nil {
		return eventHidden, nil
	}
	var wantPrev identity.Hash
	if seq > 1 {
		wantPrev = leaves[seq-2]
	}
	switch {
	case prev != wantPrev:
		return 0, inconsistencyError("event %d does not follow event %d: it names the previous hash %s, expected %s", seq, seq-1, prev, wantPrev)
	case e.Hash(prev) != leaves[seq-1]:
		return 0, inconsistencyError("event %d, as the host returned it, differs from the event in the log", seq)
	case !e.Verify():
		return 0, inconsistencyError("event %d is in the log, but not signed by its actor %s", seq, e.Actor)
	}
	return eventVerified, nil
}
