package cloud

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type Stack struct {
	ID      string // ARN, which also identifies a deleted stack
	Name    string
	Status  string
	Reason  string
	Outputs map[string]string
}

const (
	statusReview     = "REVIEW_IN_PROGRESS" // a change set awaits a decision
	statusRolledBack = "ROLLBACK_COMPLETE"  // the creation failed
	statusDeleted    = "DELETE_COMPLETE"
)

func (s Stack) IsBusy() bool {
	return strings.HasSuffix(s.Status, "_IN_PROGRESS") && s.Status != statusReview
}

func (s Stack) IsDeployed() bool {
	return s.Status != "" && s.Status != statusReview && s.Status != statusRolledBack
}

type Resource struct {
	LogicalID  string
	PhysicalID string
	Type       string
	Status     string
	Reason     string
}

type Event struct {
	ID       string
	Stack    string
	Resource string
	Type     string
	Status   string
	Reason   string
	Time     time.Time
}

func (e Event) IsStackEvent() bool {
	return e.Type == "AWS::CloudFormation::Stack" && e.Resource == e.Stack
}

func (e Event) IsFailure() bool { return strings.HasSuffix(e.Status, "_FAILED") }

// cancelledReasons lists the reasons of resources that failed only because another resource failed.
var cancelledReasons = []string{"resource creation cancelled", "resource update cancelled", "resource deletion cancelled", "resource creation canceled", "resource update canceled"}

// FirstFailure returns the first failure with its own cause. The events must be in order of time.
func FirstFailure(events []Event) (Event, bool) {
	var stackFailure Event
	for _, e := range events {
		if !e.IsFailure() || slices.Contains(cancelledReasons, strings.ToLower(e.Reason)) {
			continue
		}
		if !e.IsStackEvent() {
			return e, true
		}
		if stackFailure.ID == "" {
			stackFailure = e
		}
	}
	return stackFailure, stackFailure.ID != ""
}

// EventReader is for use by one goroutine.
type EventReader interface {
	// Next returns the events since the previous Next in order of time.
	Next(ctx context.Context) ([]Event, error)
}

// AwaitStack waits until CloudFormation has finished with a stack.
func AwaitStack(ctx context.Context, c Cloud, reader EventReader, stack string, show func(Event)) (Stack, []Event, error) {
	var history []Event
	for {
		s, err := c.Stack(ctx, stack)
		if problem.Is(err, problem.NotFound) {
			s, err = Stack{ID: stack, Name: stack, Status: statusDeleted}, nil
		}
		if err != nil {
			return s, history, err
		}
		// Read the events after the status, so that the last events are included.
		events, err := reader.Next(ctx)
		if err != nil {
			return s, history, err
		}
		for _, e := range events {
			show(e)
		}
		history = append(history, events...)
		if !s.IsBusy() {
			return s, history, nil
		}
		if err := Sleep(ctx, pollInterval); err != nil {
			return s, history, err
		}
	}
}

// pollInterval is long because CloudFormation throttles frequent polls.
const pollInterval = 2 * time.Second

func LoadTemplates(ctx context.Context, c Cloud, stageName string) ([][]byte, error) {
	var templates [][]byte
	for _, short := range stage.StackNames() {
		name := stage.FullName(stageName, short)
		s, err := c.Stack(ctx, name)
		if problem.Is(err, problem.NotFound) || err == nil && !s.IsDeployed() {
			continue
		}
		if err != nil {
			return nil, err
		}
		b, err := c.Template(ctx, name)
		if err != nil {
			return nil, err
		}
		templates = append(templates, b)
	}
	if len(templates) == 0 {
		return nil, problem.New(problem.NotFound, "stage %s is not deployed in this account and Region (%s)", stageName, c.Region())
	}
	return templates, nil
}
