// Package delegation is the substrate of composites. It answers a call by calling the vacant's own
// children through the same signed pipeline as any other call, and combines their answers. The
// agents of vacants use it to ask other vacants with tools (Runner.VacantTools).
//
// delegate writes a task into the logbooks of parent and child before ask sends the signed task.
// Answer combines the answers and writes the result into the parent's logbook. If the process dies
// between these steps, the logbooks contain a task that was never answered.
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

// Vacants must be safe for concurrent use. *vacants.Directory implements it.
type Vacants interface {
	Plan(ctx context.Context, id identity.ID) (p plan.Plan, ok bool, err error)
	// FindCached returns a record that is at most a second old.
	FindCached(ctx context.Context, id identity.ID) (r vacants.Record, ok bool, err error)
	// FindAskable omits vacants that the agent of asker may not ask.
	FindAskable(ctx context.Context, asker, id identity.ID) (r vacants.Record, ok bool, err error)
	// AppendEntries writes both entries in one commit. second may be the zero value.
	AppendEntries(ctx context.Context, first, second vacants.LogEntry, extraWrites ...store.Write) error
	WithSigner(ctx context.Context, id identity.ID, fn func(identity.Signer) error) error
}

// Calls must be safe for concurrent use. *call.Host implements it.
type Calls interface {
	Send(ctx context.Context, route identity.ID, e *envelope.Envelope) call.Outcome
}

type Config struct {
	Store      store.Store
	Substrates substrate.Kinds
	Now        func() time.Time
	Rand       io.Reader // safe for concurrent use
	// Guard decides whether a vacant may call another vacant that is not its child.
	Guard outbound.EndpointGuard
	Wait  func(ctx context.Context, d time.Duration) error
	// ReplyMargin is the part of a call's time that is reserved for the pipeline.
	ReplyMargin time.Duration
}

// Runner answers for composites. It is safe for concurrent use.
type Runner struct{ Config }

type host struct {
	vacants Vacants
	calls   Calls
}

func New(c Config) *Runner {
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	c.ReplyMargin = cmp.Or(c.ReplyMargin, call.DefaultReplyMargin)
	return &Runner{Config: c}
}

// Answer answers q with the plan of q.Vacant. Its errors are for the log and not for the caller.
func (r *Runner) Answer(ctx context.Context, v Vacants, c Calls, q substrate.Request) (string, error) {
	ctx, path := extendDelegationPath(ctx, q.Vacant)
	if err := path.checkDepth(); err != nil {
		return "", err
	}
	p, ok, err := v.Plan(ctx, q.Vacant)
	if err == nil && !ok {
		err = problem.New(problem.SubstrateMisconfigured, "vacant %s has no plan", q.Vacant.Short())
	}
	if err != nil {
		return "", err
	}
	planRun := &run{Runner: r, host: host{v, c}, path: path, question: q, plan: &p}
	delegateAll := planRun.delegateInOrder
	if p.Parallel {
		delegateAll = planRun.delegateInParallel
	}
	results, err := delegateAll(ctx)
	if canSkip := p.OnFailure == plan.Skip && len(results) > 0 && ctx.Err() == nil; err != nil && !canSkip {
		return "", asDeadlineError(ctx, err)
	}
	text, err := planRun.combine(ctx, results)
	if err != nil {
		return "", asDeadlineError(ctx, err)
	}
	a := logbook.Aggregation{CombinedHash: identity.Sum([]byte(text))}
	for _, res := range results {
		a.Children = append(a.Children, res.child)
		a.TaskHashes = append(a.TaskHashes, identity.Sum([]byte(res.task)))
		a.ResultHashes = append(a.ResultHashes, identity.Sum([]byte(res.text)))
	}
	err = v.AppendEntries(ctx, vacants.LogEntry{ID: q.Vacant, Kind: logbook.KindAggregate, Payload: a.Payload()}, vacants.LogEntry{})
	return text, asDeadlineError(ctx, err)
}

func asDeadlineError(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || problem.Is(err, problem.DeadlineExceeded) {
		return err
	}
	return problem.Wrap(problem.DeadlineExceeded, err, "the plan did not finish in time")
}

// delegationPath limits the delegations of a call. Plans are checked when they are set, but may
// change during a call.
type delegationPath struct {
	ids       []identity.ID // the last one delegates
	callCount *atomic.Int32
}

type delegationPathKey struct{}

func extendDelegationPath(ctx context.Context, id identity.ID) (context.Context, delegationPath) {
	path, ok := ctx.Value(delegationPathKey{}).(delegationPath)
	if !ok {
		path.callCount = new(atomic.Int32)
	}
	path.ids = append(slices.Clip(path.ids), id)
	return context.WithValue(ctx, delegationPathKey{}, path), path
}

func (p delegationPath) checkDepth() error {
	if n := len(p.ids); n > plan.MaxDepth {
		return problem.New(problem.SubstrateMisconfigured, "vacant %s is number %d in a chain of vacants that ask each other, expected at most %d", p.ids[n-1].Short(), n, plan.MaxDepth)
	}
	return nil
}

func (p delegationPath) countDelegation() error {
	if n := p.callCount.Add(1); n > plan.MaxCalls {
		return problem.New(problem.SubstrateMisconfigured, "the plans of this call make more than %d delegations", plan.MaxCalls)
	}
	return nil
}

func (r *Runner) backOff(ctx context.Context, try int) error {
	return store.Updater{Rand: r.Rand, Wait: r.Wait}.Backoff(ctx, try)
}
