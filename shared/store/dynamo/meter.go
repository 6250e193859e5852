package dynamo

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/vacancy-host/vacancy/shared/obs"
)

// addUsageMiddleware adds the cost of every operation to the usage of its context. An operation
// with retries counts as one.
func addUsageMiddleware(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("usage", func(
		ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
	) (middleware.InitializeOutput, middleware.Metadata, error) {
		requestConsumedCapacity(in.Parameters)
		u := obs.UsageOf(ctx)
		start := u.BeginRequest()
		out, metadata, err := next.HandleInitialize(ctx, in)
		reads, writes := consumedUnits(in.Parameters, out.Result, err)
		u.EndRequest(start, reads, writes)
		return out, metadata, err
	}), middleware.After)
}

func requestConsumedCapacity(parameters any) {
	const total = types.ReturnConsumedCapacityTotal
	switch in := parameters.(type) {
	case *dynamodb.GetItemInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.QueryInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.ScanInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.PutItemInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.DeleteItemInput:
		in.ReturnConsumedCapacity = total
	case *dynamodb.TransactWriteItemsInput:
		in.ReturnConsumedCapacity = total
	}
}

func consumedUnits(parameters, result any, err error) (reads, writes float64) {
	if err != nil {
		return 0, failedConditionUnits(parameters, err)
	}
	switch out := result.(type) {
	case *dynamodb.GetItemOutput:
		return capacityUnits(out.ConsumedCapacity), 0
	case *dynamodb.QueryOutput:
		return capacityUnits(out.ConsumedCapacity), 0
	case *dynamodb.ScanOutput:
		return capacityUnits(out.ConsumedCapacity), 0
	case *dynamodb.PutItemOutput:
		return 0, capacityUnits(out.ConsumedCapacity)
	case *dynamodb.DeleteItemOutput:
		return 0, capacityUnits(out.ConsumedCapacity)
	case *dynamodb.TransactWriteItemsOutput:
		for i := range out.ConsumedCapacity {
			writes += capacityUnits(&out.ConsumedCapacity[i])
		}
		return 0, writes
	}
	return 0, 0
}

// failedConditionUnits computes the cost of a failed condition, which DynamoDB charges but does not
// report.
func failedConditionUnits(parameters any, err error) float64 {
	failure, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		return 0
	}
	size := max(1, ItemSize(failure.Item))
	if put, ok := parameters.(*dynamodb.PutItemInput); ok {
		size = max(size, ItemSize(put.Item))
	}
	return float64(WriteUnits(size))
}

func capacityUnits(c *types.ConsumedCapacity) float64 {
	if c == nil || c.CapacityUnits == nil {
		return 0
	}
	return *c.CapacityUnits
}
