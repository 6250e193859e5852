// Package hammer is a load generator. It creates callers in memory. Each caller calls a vacant
// again as soon as it has an answer, one call at a time on its own connection, and verifies each
// answer.
//
// An answer is accepted only if the target signed it for this caller and this request, at the next
// position of the response chain. A call whose answer was lost is sent again with the same bytes
// and never signed again. Only addresses of this machine are dialled.
//
// The generator runs on the machine that it measures, so it avoids unnecessary work: each caller
// writes its requests into one buffer, without reflection.
package hammer

import (
	"context"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// grace is the time that running calls get to end after the time is over.
const grace = 5 * time.Second

// Config configures a run.
type Config struct {
	Target Target
	Pairs  int           // callers, each a pair with the target
	For    time.Duration // how long calls are started
	Calls  int           // most calls to start; zero means no limit
	Size   int           // bytes of each text
	Now    func() time.Time
	Rand   io.Reader // safe for concurrent use
}

// run is a run in progress.
type run struct {
	Config
	Results
	left    atomic.Int64       // calls that may still be started
	over    atomic.Bool        // no more are started
	abandon context.CancelFunc // aborts running calls
}

// Run calls the target until the time is over, all calls are made, ctx ends or
// the target refuses for good. The Summary has what was measured, even with an
// error.
func Run(ctx context.Context, c Config) (Summary, error) {
	if c.Calls == 0 {
		c.Calls = math.MaxInt
	}
	callers := make([]*caller, c.Pairs)
	r := &run{Config: c, Results: newResults(c.Pairs)}
	r.left.Store(int64(c.Calls))
	for i := range callers {
		var err error
		if callers[i], err = r.caller(i); err != nil {
			return Summary{}, err
		}
	}
	work, abandon := context.WithCancel(ctx)
	defer abandon()
	r.abandon = abandon
	began := time.Now()
	var busy sync.WaitGroup
	for _, caller := range callers {
		busy.Go(func() { caller.work(work) })
	}
	done := make(chan struct{})
	go func() { busy.Wait(); close(done) }()
	r.watch(done)
	s := r.summary(time.Since(began))
	s.Interrupted = ctx.Err() != nil
	if err := r.refused(); err != nil {
		return s, err
	}
	if s.Interrupted {
		return s, problem.Wrap(problem.Canceled, ctx.Err(), "interrupted")
	}
	return s, nil
}

// watch returns when all callers have ended, and ends them when their time is over.
func (r *run) watch(done <-chan struct{}) {
	end := time.NewTimer(r.For)
	defer end.Stop()
	for {
		select {
		case <-done:
			return
		case <-end.C:
			if r.over.Swap(true) {
				r.abandon() // running calls had their grace
			}
			end.Reset(grace)
		}
	}
}

// start reports whether one more call may be started.
func (r *run) start() bool { return !r.over.Load() && r.left.Add(-1) >= 0 }
