package cloud

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
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

// Statuses of a stack, as CloudFormation spells them.
const (
	statusReview     = "REVIEW_IN_PROGRESS" // a change set awaits a decision
	statusRolledBack = "ROLLBACK_COMPLETE"  // the creation failed
	statusDeleted    = "DELETE_COMPLETE"
)

// Busy reports whether CloudFormation is changing the stack. A change set that
// awaits a decision changes nothing yet.
func (s Stack) Busy() bool {
	return strings.HasSuffix(s.Status, "_IN_PROGRESS") && s.Status != statusReview
}

// Deployed reports whether the stack has resources: it exists, and its creation
// did not fail.
func (s Stack) Deployed() bool {
	return s.Status != "" && s.Status != statusReview && s.Status != statusRolledBack
}

// Resource is one resource of a stack.
type Resource struct {
	Logical  string
	Physical string
	Type     string
	Status   string
	Reason   string
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
type Watch interface {
	// Next returns the events since the last Next, in the order of time. An absent
	// stack has none.
	Next(ctx context.Context) ([]Event, error)
}

// AwaitStack waits until CloudFormation is done with a stack. It returns the
// stack with its events; a deleted stack has the status DELETE_COMPLETE. show
// gets each event as it comes.
func AwaitStack(ctx context.Context, c Cloud, watch Watch, stack string, show func(Event)) (Stack, []Event, error) {
	var all []Event
	for {
		s, err := c.Stack(ctx, stack)
		if problem.Is(err, problem.NotFound) {
			s, err = Stack{ID: stack, Name: stack, Status: statusDeleted}, nil
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

// Templates returns the templates of a stage's deployed stacks: NotFound if
// there are none.
func Templates(ctx context.Context, c Cloud, stageName string) ([][]byte, error) {
	var found [][]byte
	for _, short := range stage.Stacks() {
		name := stage.Whole(stageName, short)
		s, err := c.Stack(ctx, name)
		if problem.Is(err, problem.NotFound) || err == nil && !s.Deployed() {
			continue
		}
		if err != nil {
			return nil, err
		}
		b, err := c.Template(ctx, name)
		if err != nil {
			return nil, err
		}
		found = append(found, b)
	}
	if len(found) == 0 {
		return nil, problem.New(problem.NotFound, "stage %s is not deployed to %s", stageName, c.Region())
	}
	return found, nil
}
