package awscloud

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
)

const maxExecutions = 100

// fetchGate returns the state of a state machine, and its failed executions after since.
func (c *Cloud) fetchGate(ctx context.Context, arn string, since time.Time) doctor.Gate {
	if arn == "" {
		return doctor.Gate{NameUnknown: true}
	}
	client := sfn.NewFromConfig(c.cfg)
	machine, err := client.DescribeStateMachine(ctx, &sfn.DescribeStateMachineInput{StateMachineArn: &arn})
	var missing *types.StateMachineDoesNotExist
	switch {
	case errors.As(err, &missing):
		return doctor.Gate{Missing: true}
	case err != nil:
		return doctor.Gate{Err: ToProblem(err)}
	}
	g := doctor.Gate{Status: string(machine.Status)}
	for _, status := range []types.ExecutionStatus{types.ExecutionStatusFailed, types.ExecutionStatusTimedOut, types.ExecutionStatusAborted} {
		page, err := client.ListExecutions(ctx, &sfn.ListExecutionsInput{StateMachineArn: &arn, StatusFilter: status, MaxResults: maxExecutions})
		if err != nil {
			return doctor.Gate{Err: ToProblem(err)}
		}
		for _, e := range page.Executions {
			if stopTime := aws.ToTime(e.StopDate); stopTime.After(since) {
				g.Failed++
				if stopTime.After(g.LastFailure) {
					g.LastFailure = stopTime
				}
			}
		}
	}
	return g
}
