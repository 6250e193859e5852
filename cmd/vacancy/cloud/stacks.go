package cloud

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Stack is a CloudFormation stack.
type Stack struct {
	ID      string // its ARN, which also names a deleted stack
	Name    string
	Status  string // CloudFormation's, for example UPDATE_COMPLETE
	Reason  string
	Outputs map[string]string
}

// Busy reports whether CloudFormation is changing the stack. A change set that
// awaits a decision is no change.
func (s Stack) Busy() bool {
	return strings.HasSuffix(s.Status, "_IN_PROGRESS") && s.Status != string(types.StackStatusReviewInProgress)
}

// Deployed reports whether the stack has resources: it exists, and its creation
// did not fail.
func (s Stack) Deployed() bool {
	switch types.StackStatus(s.Status) {
	case "", types.StackStatusReviewInProgress, types.StackStatusRollbackComplete:
		return false
	}
	return true
}

// Stack returns a stack by name or ARN: NotFound if it does not exist or was
// deleted.
func (c *Cloud) Stack(ctx context.Context, name string) (Stack, error) {
	out, err := c.stacks.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	if err != nil {
		return Stack{}, Problem(err)
	}
	if len(out.Stacks) == 0 || out.Stacks[0].StackStatus == types.StackStatusDeleteComplete {
		return Stack{}, problem.New(problem.NotFound, "there is no stack %s", name)
	}
	s := out.Stacks[0]
	found := Stack{aws.ToString(s.StackId), aws.ToString(s.StackName), string(s.StackStatus), aws.ToString(s.StackStatusReason), map[string]string{}}
	for _, o := range s.Outputs {
		found.Outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	return found, nil
}

// Template is the original template of a deployed stack.
func (c *Cloud) Template(ctx context.Context, stack string) ([]byte, error) {
	out, err := c.stacks.GetTemplate(ctx, &cloudformation.GetTemplateInput{StackName: &stack, TemplateStage: types.TemplateStageOriginal})
	if err != nil {
		return nil, Problem(err)
	}
	return []byte(aws.ToString(out.TemplateBody)), nil
}

// Resource is one resource of a stack.
type Resource struct {
	Logical  string
	Physical string
	Type     string
	Status   string
	Reason   string
}

// Resources lists the existing resources of a stack.
func (c *Cloud) Resources(ctx context.Context, stack string) ([]Resource, error) {
	var found []Resource
	pages := cloudformation.NewListStackResourcesPaginator(c.stacks, &cloudformation.ListStackResourcesInput{StackName: &stack})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, Problem(err)
		}
		for _, r := range page.StackResourceSummaries {
			if r.ResourceStatus == types.ResourceStatusDeleteComplete {
				continue
			}
			found = append(found, Resource{aws.ToString(r.LogicalResourceId), aws.ToString(r.PhysicalResourceId), aws.ToString(r.ResourceType), string(r.ResourceStatus), aws.ToString(r.ResourceStatusReason)})
		}
	}
	return found, nil
}

// Delete starts the deletion of a stack. AwaitStack follows it.
func (c *Cloud) Delete(ctx context.Context, stack string) error {
	_, err := c.stacks.DeleteStack(ctx, &cloudformation.DeleteStackInput{StackName: &stack})
	return Problem(err)
}

// Event is an event of a stack's change.
type Event struct {
	ID       string
	Stack    string // its name
	Resource string // logical id; the stack's own name for the stack itself
	Type     string
	Status   string
	Reason   string
	At       time.Time
}

// OfStack reports whether the event is about the stack itself.
func (e Event) OfStack() bool { return e.Type == "AWS::CloudFormation::Stack" && e.Resource == e.Stack }

// Failed reports whether the step failed.
func (e Event) Failed() bool { return strings.HasSuffix(e.Status, "_FAILED") }

// cancelled are the reasons of resources that failed only because another did:
// they name no cause.
var cancelled = []string{"resource creation cancelled", "resource update cancelled", "resource deletion cancelled", "resource creation canceled", "resource update canceled"}

// Cause is the first real failure among the events of a change, in the order of
// time; false if none failed.
func Cause(events []Event) (Event, bool) {
	var found Event
	for _, e := range events {
		if !e.Failed() || slices.Contains(cancelled, strings.ToLower(e.Reason)) {
			continue
		}
		if !e.OfStack() {
			return e, true
		}
		if found.ID == "" {
			found = e // the stack's own reason, if no resource has one
		}
	}
	return found, found.ID != ""
}

// Watch reads the events of stacks. It is for one goroutine.
type Watch struct {
	cloud  *Cloud
	stacks []string
	last   map[string]string // stack: the newest event returned
}

// Watch watches stacks, by name or ARN, from their latest event on. It does not
// use time, because this machine's clock may be off.
func (c *Cloud) Watch(ctx context.Context, stacks ...string) (*Watch, error) {
	w := &Watch{c, stacks, map[string]string{}}
	for _, stack := range stacks {
		out, err := c.stacks.DescribeStackEvents(ctx, &cloudformation.DescribeStackEventsInput{StackName: &stack})
		if err = Problem(err); err != nil && !problem.Is(err, problem.NotFound) {
			return nil, err
		}
		if err == nil && len(out.StackEvents) > 0 {
			w.last[stack] = aws.ToString(out.StackEvents[0].EventId)
		}
	}
	return w, nil
}

// Next returns the events since the last Next, in the order of time. An absent
// stack has none.
func (w *Watch) Next(ctx context.Context) ([]Event, error) {
	var all []Event
	for _, stack := range w.stacks {
		events, err := w.of(ctx, stack)
		if err != nil && !problem.Is(err, problem.NotFound) {
			return all, err
		}
		all = append(all, events...)
	}
	slices.SortStableFunc(all, func(a, b Event) int { return a.At.Compare(b.At) })
	return all, nil
}

// of reads a stack's events, newest first, back to the last one returned.
func (w *Watch) of(ctx context.Context, stack string) ([]Event, error) {
	var found []Event
	pages := cloudformation.NewDescribeStackEventsPaginator(w.cloud.stacks, &cloudformation.DescribeStackEventsInput{StackName: &stack})
pages:
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, Problem(err)
		}
		for _, e := range page.StackEvents {
			if aws.ToString(e.EventId) == w.last[stack] {
				break pages
			}
			found = append(found, Event{aws.ToString(e.EventId), aws.ToString(e.StackName), aws.ToString(e.LogicalResourceId), aws.ToString(e.ResourceType), string(e.ResourceStatus), aws.ToString(e.ResourceStatusReason), aws.ToTime(e.Timestamp)})
		}
	}
	if len(found) > 0 {
		w.last[stack] = found[0].ID
	}
	slices.Reverse(found)
	return found, nil
}

// AwaitStack waits until CloudFormation is done with a stack. It returns the
// stack with its events; a deleted stack has the status DELETE_COMPLETE. show
// gets each event as it comes.
func (c *Cloud) AwaitStack(ctx context.Context, watch *Watch, stack string, show func(Event)) (Stack, []Event, error) {
	var all []Event
	for {
		s, err := c.Stack(ctx, stack)
		if problem.Is(err, problem.NotFound) {
			s, err = Stack{ID: stack, Name: stack, Status: string(types.StackStatusDeleteComplete)}, nil
		}
		if err != nil {
			return s, all, err
		}
		// Read events after the status, so that the last ones are included.
		events, err := watch.Next(ctx)
		if err != nil {
			return s, all, err
		}
		for _, e := range events {
			show(e)
		}
		all = append(all, events...)
		if !s.Busy() {
			return s, all, nil
		}
		if err := Wait(ctx, pollTime); err != nil {
			return s, all, err
		}
	}
}

// pollTime is the pause between two polls: CloudFormation throttles frequent
// polls of several stacks.
const pollTime = 2 * time.Second
