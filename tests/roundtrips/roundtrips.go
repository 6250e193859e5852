// Package roundtrips counts the DynamoDB usage of an operation: requests, sequential round trips,
// and read and write units.
//
// A count does not depend on the speed of the machine: calls that can overlap are held until they
// do. Units that DynamoDB Local counts wrongly are computed.
package roundtrips

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/vacancy-host/vacancy/shared/store/dynamo"
)

// Call is one operation, including the SDK's retries.
type Call struct {
	Operation  string
	ReadUnits  float64
	WriteUnits float64
	Err        error

	start, end int // ticks of the counter, not of a clock
}

// Counter counts the calls of clients with its Option. The zero Counter is
// ready to use.
type Counter struct {
	// Hold delays each call before it is sent, so that calls started together
	// overlap however fast the server is. 20 ms is enough.
	Hold time.Duration

	mu    sync.Mutex
	tick  int
	calls []Call
}

// Option attaches the counter to a client of the dynamo adapter, which makes
// every answer include its consumed capacity.
func (c *Counter) Option(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("roundtrips", c.count), middleware.After)
	})
}

// Reset discards all counts.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = nil
}

// Calls returns the finished calls, ordered by their ends.
func (c *Counter) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Operations returns the names of the finished calls, in the same order.
func (c *Counter) Operations() []string {
	var names []string
	for _, call := range c.Calls() {
		names = append(names, call.Operation)
	}
	return names
}

// Trips is the length of the longest sequence of calls that do not overlap: the
// number of round trips the operation waits for.
func (c *Counter) Trips() int {
	trips, free := 0, 0
	for _, call := range c.Calls() { // ordered by end, so the greedy choice is the longest
		if call.start >= free {
			trips, free = trips+1, call.end
		}
	}
	return trips
}

// ReadUnits is the sum over all calls.
func (c *Counter) ReadUnits() (sum float64) {
	for _, call := range c.Calls() {
		sum += call.ReadUnits
	}
	return sum
}

// WriteUnits is the sum over all calls. It lacks the units of refused
// conditions, which cost as much as the write but whose errors report no
// capacity.
func (c *Counter) WriteUnits() (sum float64) {
	for _, call := range c.Calls() {
		sum += call.WriteUnits
	}
	return sum
}

func (c *Counter) now() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tick++
	return c.tick
}

func (c *Counter) count(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
	middleware.InitializeOutput, middleware.Metadata, error,
) {
	call := Call{Operation: middleware.GetOperationName(ctx), start: c.now()}
	time.Sleep(c.Hold)
	out, metadata, err := next.HandleInitialize(ctx, in)
	call.Err = err
	call.ReadUnits, call.WriteUnits = units(in.Parameters, out.Result)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tick++
	call.end = c.tick
	c.calls = append(c.calls, call)
	return out, metadata, err
}

// units returns the consumed capacity of an answer. It computes the capacity of
// transactions, because DynamoDB Local's number does not depend on the items.
func units(parameters, result any) (reads, writes float64) {
	of := func(c *types.ConsumedCapacity) float64 {
		if c == nil || c.CapacityUnits == nil {
			return 0
		}
		return *c.CapacityUnits
	}
	switch out := result.(type) {
	case *dynamodb.GetItemOutput:
		reads = of(out.ConsumedCapacity)
	case *dynamodb.QueryOutput:
		reads = of(out.ConsumedCapacity)
	case *dynamodb.ScanOutput:
		reads = of(out.ConsumedCapacity)
	case *dynamodb.PutItemOutput:
		writes = of(out.ConsumedCapacity)
	case *dynamodb.DeleteItemOutput:
		writes = of(out.ConsumedCapacity)
	case *dynamodb.TransactWriteItemsOutput:
		if in, ok := parameters.(*dynamodb.TransactWriteItemsInput); ok {
			writes = float64(transaction(in.TransactItems))
		}
	}
	return reads, writes
}

// transaction computes the write units of a transaction on the base tables. It
// takes an update or delete as the size of its keys and values: here all
// documents are below 1 KB.
func transaction(actions []types.TransactWriteItem) int {
	sizes := make([]int, len(actions))
	for i, a := range actions {
		switch {
		case a.Put != nil:
			sizes[i] = dynamo.ItemSize(a.Put.Item)
		case a.Update != nil:
			sizes[i] = dynamo.ItemSize(a.Update.Key)
		case a.Delete != nil:
			sizes[i] = dynamo.ItemSize(a.Delete.Key)
		case a.ConditionCheck != nil:
			sizes[i] = dynamo.ItemSize(a.ConditionCheck.Key)
		}
	}
	return dynamo.WriteUnits(sizes...)
}
