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

// mostExecutions is the maximum number of executions that are read for each status.
const mostExecutions = 100

// gateFacts returns facts about a state machine. It counts the executions that failed, timed out or
// were aborted after since.
func (c *Cloud) gateFacts(ctx context.Context, arn string, since time.Time) doctor.Gate {
	if arn == "" {
		return doctor.Gate{Absent: true}
	}
	client := sfn.NewFromConfig(c.cfg)
	found, err := client.DescribeStateMachine(ctx, &sfn.DescribeStateMachineInput{StateMachineArn: &arn})
	var missing *types.StateMachineDoesNotExist
	switch {
	case errors.As(err, &missing):
		return doctor.Gate{Missing: true}
	case err != nil:
		return doctor.Gate{Err: Problem(err)}
	}
	g := doctor.Gate{Status: string(found.Status)}
	for _, status := range []types.ExecutionStatus{types.ExecutionStatusFailed, types.ExecutionStatusTimedOut, types.ExecutionStatusAborted} {
		page, err := client.ListExecutions(ctx, &sfn.ListExecutionsInput{StateMachineArn: &arn, StatusFilter: status, MaxResults: mostExecutions})
		if err != nil {
			return doctor.Gate{Err: Problem(err)}
		}
		for _, e := range page.Executions {
			if stopTime := aws.ToTime(e.StopDate); stopTime.After(since) {
				g.Failed++
				if stopTime.After(g.Last) {
					g.Last = stopTime
				}
			}
		}
	}
	return g
}
