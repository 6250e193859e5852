// Package roundtrips counts what a piece of work asks of DynamoDB: requests,
// round trips one after another, and read and write units.
//
// The invariant: a count does not depend on the machine's speed. Calls that can
// overlap are held until they do, and what DynamoDB Local counts wrongly is
// computed.
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

// Call is one operation, with whatever retries the SDK made of it.
type Call struct {
	Operation  string
	ReadUnits  float64
	WriteUnits float64
	Err        error

	start, end int // ticks of the counter, not of a clock
}

// Counter counts the calls of the clients that carry its Option. The zero
// Counter is ready.
type Counter struct {
	// Hold delays each call before it is sent, so that calls started together
	// overlap for certain, however fast the server is. 20 ms is plenty.
	Hold time.Duration

	mu    sync.Mutex
	tick  int
	calls []Call
}

// Option attaches the counter to a client of the dynamo adapter, which has every
// answer bring its cost.
func (c *Counter) Option(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("roundtrips", c.count), middleware.After)
	})
}

// Reset forgets what was counted.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = nil
}

// Calls are the calls that have ended, in the order of their ends.
func (c *Counter) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Operations are the names of the calls that have ended, in that order.
func (c *Counter) Operations() []string {
	var names []string
	for _, call := range c.Calls() {
		names = append(names, call.Operation)
	}
	return names
}

// Trips is the length of the longest row of calls each of which began after
// the one before had ended: what the work waits for. Overlapping calls count
// once.
func (c *Counter) Trips() int {
	trips, free := 0, 0
	for _, call := range c.Calls() { // by their ends: the greedy choice is the longest
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

// WriteUnits is the sum over all calls. A refused condition costs what the
// write would have; it is not in here, for an error brings no count.
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

// units is what an answer cost. DynamoDB Local's count for a transaction does
// not depend on its items, so that is computed.
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

// transaction computes the write units of a transaction on the tables
// themselves. An update and a delete are taken at the size of what they name:
// documents that they meet here are below 1 KB.
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
