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

// run answers one call of a composite.
type run struct {
	*Runner
	host
	walk     walk
	question substrate.Request
	plan     *plan.Plan
}

type result struct {
	child            identity.ID
	kind, task, text string
	cut              call.CutReason
}

func (r *run) sequential(ctx context.Context) (results []result, failed error) {
	// The reference implementation also calls the children in their order.
	previous := ""
	for i := range r.plan.Delegate {
		d := &r.plan.Delegate[i]
		res, err := r.delegate(ctx, d, d.Fill(r.question.Text(), previous))
		if err != nil {
			failed = errors.Join(failed, err)
			if r.plan.OnFailure == plan.Abort || ctx.Err() != nil {
				return nil, failed
			}
			continue
		}
		results, previous = append(results, res), res.cut.Remark(res.text)
		if r.plan.Aggregate.How == plan.First {
			break // further answers would not be used
		}
	}
	return results, failed
}

func (r *run) parallel(ctx context.Context) (results []result, failed error) {
	type outcome struct {
		result
		err error
	}
	// All calls must end, because a running call cannot be canceled, and a Lambda function must not
	// be frozen during a call.
	outcomes := make([]outcome, len(r.plan.Delegate))
	var wait sync.WaitGroup
	for i := range r.plan.Delegate {
		d := &r.plan.Delegate[i]
		wait.Go(func() {
			defer func() {
				if p := recover(); p != nil { // the call fails, but the process continues
					outcomes[i].err = fmt.Errorf("delegation panicked: %v\n%s", p, debug.Stack())
				}
			}()
			outcomes[i].result, outcomes[i].err = r.delegate(ctx, d, d.Fill(r.question.Text(), ""))
		})
	}
	wait.Wait()
	for _, res := range outcomes {
		if res.err != nil {
			failed = errors.Join(failed, res.err)
			continue
		}
		results = append(results, res.result)
	}
	return results, failed
}

// delegate calls one child (steps 1 to 4 in the package documentation).
func (r *run) delegate(ctx context.Context, d *plan.Delegation, task string) (result, error) {
	child, err := identity.ParseID(d.Child)
	if err != nil {
		return result{}, err
	}
	res := result{child: child, kind: d.Kind, task: task}
	if err := r.walk.spend(); err != nil {
		return res, err
	}
	// A child that cannot answer is refused before entries are written. The pipeline would also
	// refuse the call, but a terminal vacant cannot sign a logbook entry.
	c, err := r.inTime(ctx, child)
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
	entry := logbook.Delegation{Parent: parent, Child: child, Kind: cmp.Or(d.Kind, logbook.SubtaskKind(canon.NewString(d.Task))), Task: identity.Sum([]byte(task))}
	err = r.vacants.Entries(ctx,
		vacants.LogEntry{ID: parent, Kind: logbook.KindDelegate, Payload: entry.DelegatePayload()},
		vacants.LogEntry{ID: child, Kind: logbook.KindExecute, Payload: entry.ExecutePayload()})
	if err != nil {
		return res, wrapChildError(child, err)
	}
	res.text, res.cut, err = r.ask(ctx, child, task)
	return res, wrapChildError(child, err)
}

// inTime returns the record of a vacant. It returns an error if the remaining time is shorter than
// the time that the vacant may take.
func (r *run) inTime(ctx context.Context, id identity.ID) (vacants.Record, error) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= r.Margin {
		return vacants.Record{}, problem.New(problem.Deadline, "too little time is left to ask")
	}
	c, ok, err := r.vacants.Show(ctx, id)
	if err == nil && !ok {
		err = problem.New(problem.NotFound, "it is no longer hosted here")
	}
	if end, limited := ctx.Deadline(); err == nil && limited {
		err = call.CheckTime(c.MaxCallTime, time.Until(end)-r.Margin)
	}
	return c, err
}

func wrapChildError(child identity.ID, err error) error {
	if err == nil {
		return nil
	}
	p := problem.AsError(err)
	if p.Kind.IsFailure() && p.Text() == p.Kind.Row().Text {
		// The pipeline adds the same words about the parent.
		return problem.Wrap(p.Kind, p.Err, "child %s failed", child.Short())
	}
	return problem.WithPlace(p.Kind, "child "+child.Short(), err)
}
