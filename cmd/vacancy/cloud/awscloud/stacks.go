package awscloud

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (c *Cloud) Stack(ctx context.Context, name string) (cloud.Stack, error) {
	out, err := c.stacks.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	if err != nil {
		return cloud.Stack{}, ToProblem(err)
	}
	if len(out.Stacks) == 0 || out.Stacks[0].StackStatus == types.StackStatusDeleteComplete {
		return cloud.Stack{}, problem.New(problem.NotFound, "there is no stack %s", name)
	}
	s := out.Stacks[0]
	found := cloud.Stack{
		ID: aws.ToString(s.StackId), Name: aws.ToString(s.StackName),
		Status: string(s.StackStatus), Reason: aws.ToString(s.StackStatusReason), Outputs: map[string]string{},
	}
	for _, o := range s.Outputs {
		found.Outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	return found, nil
}

func (c *Cloud) Template(ctx context.Context, stack string) ([]byte, error) {
	out, err := c.stacks.GetTemplate(ctx, &cloudformation.GetTemplateInput{StackName: &stack, TemplateStage: types.TemplateStageOriginal})
	if err != nil {
		return nil, ToProblem(err)
	}
	return []byte(aws.ToString(out.TemplateBody)), nil
}

func (c *Cloud) Resources(ctx context.Context, stack string) ([]cloud.Resource, error) {
	var resources []cloud.Resource
	pages := cloudformation.NewListStackResourcesPaginator(c.stacks, &cloudformation.ListStackResourcesInput{StackName: &stack})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, ToProblem(err)
		}
		for _, r := range page.StackResourceSummaries {
			if r.ResourceStatus == types.ResourceStatusDeleteComplete {
				continue
			}
			resources = append(resources, cloud.Resource{
				LogicalID: aws.ToString(r.LogicalResourceId), PhysicalID: aws.ToString(r.PhysicalResourceId), Type: aws.ToString(r.ResourceType),
				Status: string(r.ResourceStatus), Reason: aws.ToString(r.ResourceStatusReason),
			})
		}
	}
	return resources, nil
}

func (c *Cloud) DeleteStack(ctx context.Context, stack string) error {
	_, err := c.stacks.DeleteStack(ctx, &cloudformation.DeleteStackInput{StackName: &stack})
	return ToProblem(err)
}

// eventReader implements cloud.EventReader.
type eventReader struct {
	cloud       *Cloud
	stacks      []string
	lastEventID map[string]string // id of the last returned event of each stack
}

// WatchStacks implements cloud.Cloud. It uses event ids instead of times, because this machine's clock
// may be wrong.
func (c *Cloud) WatchStacks(ctx context.Context, stacks ...string) (cloud.EventReader, error) {
	reader := &eventReader{c, stacks, map[string]string{}}
	for _, stack := range stacks {
		out, err := c.stacks.DescribeStackEvents(ctx, &cloudformation.DescribeStackEventsInput{StackName: &stack})
		if err = ToProblem(err); err != nil && !problem.Is(err, problem.NotFound) {
			return nil, err
		}
		if err == nil && len(out.StackEvents) > 0 {
			reader.lastEventID[stack] = aws.ToString(out.StackEvents[0].EventId)
		}
	}
	return reader, nil
}

func (er *eventReader) Next(ctx context.Context) ([]cloud.Event, error) {
	var history []cloud.Event
	for _, stack := range er.stacks {
		events, err := er.readNewEvents(ctx, stack)
		if err != nil && !problem.Is(err, problem.NotFound) {
			return history, err
		}
		history = append(history, events...)
	}
	slices.SortStableFunc(history, func(a, b cloud.Event) int { return a.Time.Compare(b.Time) })
	return history, nil
}

// readNewEvents reads the events of a stack since the last returned event.
func (er *eventReader) readNewEvents(ctx context.Context, stack string) ([]cloud.Event, error) {
	var events []cloud.Event
	pages := cloudformation.NewDescribeStackEventsPaginator(er.cloud.stacks, &cloudformation.DescribeStackEventsInput{StackName: &stack})
pages:
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, ToProblem(err)
		}
		for _, e := range page.StackEvents {
			if aws.ToString(e.EventId) == er.lastEventID[stack] {
				break pages
			}
			events = append(events, cloud.Event{
				ID: aws.ToString(e.EventId), Stack: aws.ToString(e.StackName), Resource: aws.ToString(e.LogicalResourceId), Type: aws.ToString(e.ResourceType),
				Status: string(e.ResourceStatus), Reason: aws.ToString(e.ResourceStatusReason), Time: aws.ToTime(e.Timestamp),
			})
		}
	}
	if len(events) > 0 {
		er.lastEventID[stack] = events[0].ID
	}
	slices.Reverse(events)
	return events, nil
}
