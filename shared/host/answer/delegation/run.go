package delegation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

type run struct {
	*Runner
	host
	path     delegationPath
	question substrate.Request
	plan     *plan.Plan
}

type result struct {
	child            identity.ID
	kind, task, text string
	cutReason        call.CutReason
}

func (r *run) delegateInOrder(ctx context.Context) (results []result, joinedErr error) {
	previous := ""
	for i := range r.plan.Delegations {
		d := &r.plan.Delegations[i]
		res, err := r.delegate(ctx, d, d.RenderTask(r.question.Text(), previous))
		if err != nil {
			joinedErr = errors.Join(joinedErr, err)
			if r.plan.OnFailure == plan.Abort || ctx.Err() != nil {
				return nil, joinedErr
			}
			continue
		}
		results, previous = append(results, res), res.cutReason.AppendRemark(res.text)
		if r.plan.Aggregate.Method == plan.First {
			break
		}
	}
	return results, joinedErr
}

func (r *run) delegateInParallel(ctx context.Context) (results []result, joinedErr error) {
	type outcome struct {
		result
		err error
	}
	// Wait for all calls even if one fails. A running call cannot be canceled, and AWS Lambda would
	// freeze it.
	outcomes := make([]outcome, len(r.plan.Delegations))
	var group sync.WaitGroup
	for i := range r.plan.Delegations {
		d := &r.plan.Delegations[i]
		group.Go(func() {
			defer func() {
				if p := recover(); p != nil { // the call fails, but the process continues
					outcomes[i].err = fmt.Errorf("delegation panicked: %v\n%s", p, debug.Stack())
				}
			}()
			outcomes[i].result, outcomes[i].err = r.delegate(ctx, d, d.RenderTask(r.question.Text(), ""))
		})
	}
	group.Wait()
	for _, res := range outcomes {
		if res.err != nil {
			joinedErr = errors.Join(joinedErr, res.err)
			continue
		}
		results = append(results, res.result)
	}
	return results, joinedErr
}

func (r *run) delegate(ctx context.Context, d *plan.Delegation, task string) (result, error) {
	child, err := identity.ParseID(d.Child)
	if err != nil {
		return result{}, err
	}
	res := result{child: child, kind: d.Kind, task: task}
	if err := r.path.countDelegation(); err != nil {
		return res, err
	}
	// A child that cannot answer is refused before entries are written, because a terminal vacant
	// cannot sign a logbook entry.
	c, err := r.loadIfTimeRemains(ctx, child)
	switch {
	case err != nil:
	case c.Parent == nil || *c.Parent != r.question.Vacant:
		err = problem.New(problem.Forbidden, "it is not a child of vacant %s", r.question.Vacant.Short())
	case !c.State.CanBeCalled():
		err = problem.New(problem.NotAccepting, "it is %s", c.State)
	}
	if err != nil {
		return res, wrapChildError(child, err)
	}
	parent := r.question.Vacant
	entry := logbook.Delegation{Parent: parent, Child: child, SubtaskKind: cmp.Or(d.Kind, logbook.SubtaskKind(canon.NewString(d.Task))), TaskHash: identity.Sum([]byte(task))}
	err = r.vacants.AppendEntries(ctx,
		vacants.LogEntry{ID: parent, Kind: logbook.KindDelegate, Payload: entry.DelegatePayload()},
		vacants.LogEntry{ID: child, Kind: logbook.KindExecute, Payload: entry.ExecutePayload()})
	if err != nil {
		return res, wrapChildError(child, err)
	}
	res.text, res.cutReason, err = r.ask(ctx, child, task)
	return res, wrapChildError(child, err)
}

// loadIfTimeRemains returns an error if the vacant may take longer than the remaining time.
func (r *run) loadIfTimeRemains(ctx context.Context, id identity.ID) (vacants.Record, error) {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= r.ReplyMargin {
		return vacants.Record{}, problem.New(problem.DeadlineExceeded, "too little time is left to ask")
	}
	c, ok, err := r.vacants.FindCached(ctx, id)
	if err == nil && !ok {
		err = problem.New(problem.NotFound, "it is no longer hosted here")
	}
	if deadline, hasDeadline := ctx.Deadline(); err == nil && hasDeadline {
		err = call.CheckTimeLeft(c.CallTimeout, time.Until(deadline)-r.ReplyMargin)
	}
	return c, err
}

func wrapChildError(child identity.ID, err error) error {
	if err == nil {
		return nil
	}
	p := problem.AsError(err)
	if p.Kind.IsFailure() && p.Text() == p.Kind.Forms().DefaultMessage {
		// The parent's error repeats the default message, so omit it here.
		return problem.Wrap(p.Kind, p.Err, "child %s failed", child.Short())
	}
	return problem.WithPlace(p.Kind, "child "+child.Short(), err)
}
