package awscloud

import (
	"context"
	"encoding/base64"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (c *Cloud) Invoke(ctx context.Context, function string, event []byte) (cloud.InvokeResult, error) {
	out, err := c.lambda.Invoke(ctx, &lambda.InvokeInput{FunctionName: &function, Payload: event, LogType: types.LogTypeTail},
		// An event is sent only once, because a function may act on each event.
		func(o *lambda.Options) { o.RetryMaxAttempts = 1 })
	if err != nil {
		return cloud.InvokeResult{}, ToProblem(err)
	}
	log, err := base64.StdEncoding.DecodeString(aws.ToString(out.LogResult))
	if err != nil {
		return cloud.InvokeResult{}, problem.Wrap(problem.Internal, err, "the log in Lambda's answer cannot be read")
	}
	return cloud.InvokeResult{Payload: out.Payload, FunctionError: aws.ToString(out.FunctionError), Log: string(log)}, nil
}

func (c *Cloud) ReservedConcurrency(ctx context.Context, function string) (int, error) {
	out, err := c.lambda.GetFunctionConcurrency(ctx, &lambda.GetFunctionConcurrencyInput{FunctionName: &function})
	if err != nil {
		return 0, ToProblem(err)
	}
	if out.ReservedConcurrentExecutions == nil {
		return cloud.Unreserved, nil
	}
	return int(*out.ReservedConcurrentExecutions), nil
}

func (c *Cloud) SetReservedConcurrency(ctx context.Context, function string, n int) (err error) {
	if n == cloud.Unreserved {
		_, err = c.lambda.DeleteFunctionConcurrency(ctx, &lambda.DeleteFunctionConcurrencyInput{FunctionName: &function})
	} else {
		_, err = c.lambda.PutFunctionConcurrency(ctx, &lambda.PutFunctionConcurrencyInput{FunctionName: &function, ReservedConcurrentExecutions: aws.Int32(int32(n))})
	}
	if err != nil {
		return ToProblem(err)
	}
	return nil
}
