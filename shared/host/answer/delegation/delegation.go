// Package delegation is the substrate of composites: it answers a call by
// calling the vacant's own children, through the same signed pipeline as any
// call, and combines their answers. In the same way the agents of vacants ask
// others, as a tool (Runner.VacantTools).
//
// The invariants: a task is in both logbooks before it is sent, and the
// combined answer in the parent's before it is returned. An envelope of unknown
// outcome is sent again unchanged and never signed for another position. A
// child's answers and errors leave only through the plan. A call makes at most
// plan.MaxCalls delegations, plan.MaxDepth deep, within its deadline.
//
// # The life of a delegation
//
//  1. The child's record is read; a paused, terminal, deleted or foreign child is not called (delegate).
//  2. COMPOSITE_DELEGATE and COMPOSITE_EXECUTE are written in one transaction (delegate).
//  3. The tip of the pair's requests is read, and the parent signs the task for the next position (ask).
//  4. It is sent through call.Host.Send. Overtaken, it is signed for the position that the refusal names; of unknown outcome, the same bytes are sent again (send).
//  5. When all have answered, the combiner runs, and only if it succeeds COMPOSITE_AGGREGATE is written (Answer).
//
// A crash between two steps leaves entries of a task that was never answered,
// or a call that is voided once it is due. Both are true and complete records.
package delegation

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// Vacants reads and writes the vacants of this host; *vacants.Directory
// implements it. Safe for concurrent use.
type Vacants interface {
	// Plan reads id's plan from the store.
	Plan(ctx context.Context, id identity.ID) (p plan.Plan, ok bool, err error)
	// Show returns id's record, at most a second old.
	Show(ctx context.Context, id identity.ID) (r vacants.Record, ok bool, err error)
	// Askable is Show for a vacant that the agent of asker may ask; ok is false for
	// every other.
	Askable(ctx context.Context, asker, id identity.ID) (r vacants.Record, ok bool, err error)
	// Entries writes one entry into each of two logbooks, in one commit. With a
	// zero second, it writes only into the first.
	Entries(ctx context.Context, first, second vacants.LogEntry, beside ...store.Write) error
	// Sign calls fn with id's signer.
	Sign(ctx context.Context, id identity.ID, fn func(identity.Signer) error) error
}

// Calls is the pipeline; *call.Host implements it. Safe for concurrent use.
type Calls interface {
	Send(ctx context.Context, route identity.ID, e *envelope.Envelope) call.Outcome
}

// Config configures a Runner. Guard, Wait and Margin are optional.
type Config struct {
	Store store.Store
	// Substrates can combine answers.
	Substrates substrate.Kinds
	Now        func() time.Time
	Rand       io.Reader // safe for concurrent use
	// Guard decides whether a vacant may call another than its own child.
	Guard outbound.Guard
	// Wait sleeps between tries, or returns early when ctx ends.
	Wait func(ctx context.Context, d time.Duration) error
	// Margin is the part of a call's deadline that the pipeline needs;
	// call.DefaultMargin if 0.
	Margin time.Duration
}

// Runner answers for composites. It is safe for concurrent use.
type Runner struct{ Config }

// host is the environment in which one question is answered.
type host struct {
	vacants Vacants
	calls   Calls
}

// New makes a Runner.
func New(c Config) *Runner {
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	c.Margin = cmp.Or(c.Margin, call.DefaultMargin)
	return &Runner{Config: c}
}

// Answer answers q by the plan in v of the vacant that is asked, and calls its
// children through c. Errors are for the log: the pipeline tells the caller only
// that the vacant failed or that time ran out.
func (r *Runner) Answer(ctx context.Context, v Vacants, c Calls, q substrate.Request) (string, error) {
	ctx, w := deeper(ctx, q.Vacant)
	if err := w.checkDepth(); err != nil {
		return "", err
	}
	p, ok, err := v.Plan(ctx, q.Vacant)
	if err == nil && !ok {
		err = problem.New(problem.SubstrateMisconfigured, "vacant %s has no plan", q.Vacant.Short())
	}
	if err != nil {
		return "", err
	}
	one := &run{Runner: r, host: host{v, c}, walk: w, question: q, plan: &p}
	delegateAll := one.sequential
	if p.Parallel {
		delegateAll = one.parallel
	}
	results, err := delegateAll(ctx)
	if skip := p.OnFailure == plan.Skip && len(results) > 0 && ctx.Err() == nil; err != nil && !skip {
		return "", late(ctx, err)
	}
	text, err := one.combine(ctx, results)
	if err != nil {
		return "", late(ctx, err)
	}
	a := logbook.Aggregation{Result: identity.Sum([]byte(text))}
	for _, res := range results {
		a.Children = append(a.Children, res.child)
		a.Tasks = append(a.Tasks, identity.Sum([]byte(res.task)))
		a.Results = append(a.Results, identity.Sum([]byte(res.text)))
	}
	err = v.Entries(ctx, vacants.LogEntry{ID: q.Vacant, Kind: logbook.KindAggregate, Payload: a.Payload()}, vacants.LogEntry{})
	return text, late(ctx, err)
}

// late gives err the kind Deadline if the deadline has passed, whatever it
// says.
func late(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || problem.Is(err, problem.Deadline) {
		return err
	}
	return problem.Wrap(problem.Deadline, err, "the plan did not come to its end in time")
}

// walk is the path of vacants that wait for an answer, and the number of the
// delegations in a call. Plans were checked when they were set; this also holds
// if they change during a call.
type walk struct {
	path  []identity.ID // from the first vacant to the one that delegates
	calls *atomic.Int32
}

type walkKey struct{}

// deeper returns ctx for the delegations of a vacant.
func deeper(ctx context.Context, id identity.ID) (context.Context, walk) {
	w, ok := ctx.Value(walkKey{}).(walk)
	if !ok {
		w.calls = new(atomic.Int32)
	}
	w.path = append(slices.Clip(w.path), id)
	return context.WithValue(ctx, walkKey{}, w), w
}

// checkDepth returns an error if the vacant that delegates is too deep.
func (w walk) checkDepth() error {
	if n := len(w.path); n > plan.MaxDepth {
		return problem.New(problem.SubstrateMisconfigured, "vacant %s is the %dth of vacants that ask each other, expected at most %d", w.path[n-1].Short(), n, plan.MaxDepth)
	}
	return nil
}

// spend counts a delegation.
func (w walk) spend() error {
	if n := w.calls.Add(1); n > plan.MaxCalls {
		return problem.New(problem.SubstrateMisconfigured, "the plans of this call make more than %d delegations", plan.MaxCalls)
	}
	return nil
}

// backOff waits before the next try.
func (r *Runner) backOff(ctx context.Context, try int) error {
	return store.Updater{Rand: r.Rand, Wait: r.Wait}.Backoff(ctx, try)
}
