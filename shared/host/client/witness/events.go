package witness

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// atOnce limits concurrent requests for events.
const atOnce = 8

// Results of checking an event.
const (
	checked = 1 + iota
	hidden
)

// events verifies the events from number first on against leaf hashes that result in the signed
// root.
func (f Follower) events(ctx context.Context, r *Report, leaves []identity.Hash, from uint64) error {
	for from <= r.Size {
		last := min(from+page-1, r.Size)
		verdicts := make([]int, last-from+1)
		g, each := errgroup.WithContext(ctx)
		g.SetLimit(atOnce)
		for seq := from; seq <= last; seq++ {
			g.Go(func() (err error) {
				verdicts[seq-from], err = f.event(each, leaves, seq)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for _, v := range verdicts {
			switch v {
			case checked:
				r.Checked++
			case hidden:
				r.Hidden++
			}
		}
		f.progress("events", last, r.Size)
		from = last + 1
	}
	return nil
}

// event verifies one event. The event's leaf hash covers the complete event, including the link to
// the previous event, and the signature proves the actor. If the event is not public, the result is
// eventHidden.
func (f Follower) event(ctx context.Context, leaves []identity.Hash, seq uint64) (int, error) {
	e, prev, err := f.Log.Event(ctx, seq)
	if err != nil {
		return 0, err
	}
	if e == nil {
		return hidden, nil
	}
	var before identity.Hash
	if seq > 1 {
		before = leaves[seq-2]
	}
	switch {
	case prev != before:
		return 0, inconsistent("event %d does not follow event %d: it names the previous hash %s, expected %s", seq, seq-1, prev, before)
	case e.Hash(prev) != leaves[seq-1]:
		return 0, inconsistent("event %d, as the host returned it, differs from the event in the log", seq)
	case !e.Verify():
		return 0, inconsistent("event %d is in the log, but not signed by its actor %s", seq, e.Actor)
	}
	return checked, nil
}
