package delegation

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const MaxRecentCalls = 50

const maxConcurrentReads = 8

type Child struct {
	Record vacants.Record
	Calls  uint64
	// The statistics cover the last MaxRecentCalls decided calls. MedianLatency is the median of
	// answered calls.
	DecidedCalls, FailedCalls int
	MedianLatency             time.Duration
}

type ChildLister interface {
	Children(ctx context.Context, asker vacants.Asker, parent identity.ID, cursor string, n int) ([]vacants.Record, string, error)
}

// ReportChildren returns a page of parent's children that asker may see.
func ReportChildren(ctx context.Context, asker vacants.Asker, lister ChildLister, s store.Store, parent identity.ID, cursor string, n int) ([]Child, string, error) {
	records, next, err := lister.Children(ctx, asker, parent, cursor, n)
	if err != nil {
		return nil, "", err
	}
	children := make([]Child, len(records))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxConcurrentReads)
	for i, r := range records {
		g.Go(func() (err error) {
			children[i], err = readChild(gctx, s, parent, r)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, "", err
	}
	return children, next, nil
}

func readChild(ctx context.Context, s store.Store, parent identity.ID, r vacants.Record) (Child, error) {
	c, pair := Child{Record: r}, call.Pair{Caller: parent, Vacant: r.ID}
	tip, err := s.Tip(ctx, pair.Requests())
	if err != nil {
		return c, unavailableError(err)
	}
	if tip.Position == 0 {
		return c, nil
	}
	lastRequest, err := call.DecodeRequest(tip)
	if err != nil {
		return c, damagedError(pair, err)
	}
	c.Calls = lastRequest.Position - lastRequest.Epoch // Epoch is the number of resets, which are rows but not calls
	if tip, err = s.Tip(ctx, pair.Responses()); err != nil || tip.Position == 0 {
		return c, unavailableError(err)
	}
	rows, err := s.Rows(ctx, pair.Responses(), tip.Position, MaxRecentCalls, store.Descending)
	if err != nil {
		return c, unavailableError(err)
	}
	var latencies []time.Duration
	for _, row := range rows {
		rsp, err := call.DecodeResponse(row)
		if err != nil {
			return c, damagedError(pair, err)
		}
		if rsp.Kind == call.RowVoid {
			c.FailedCalls++
		} else {
			latencies = append(latencies, rsp.Duration)
		}
	}
	c.DecidedCalls = len(rows)
	if len(latencies) > 0 {
		slices.Sort(latencies)
		c.MedianLatency = latencies[len(latencies)/2]
	}
	return c, nil
}

func unavailableError(err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Unavailable, err, "storage is unavailable; run the same command again")
}

func damagedError(p call.Pair, err error) error {
	return problem.Wrap(problem.Damaged, err, "the calls of %s by %s are damaged; the operator should run verify", p.Vacant.Short(), p.Caller.Short())
}
