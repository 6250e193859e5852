package dynamo

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
)

// Retries of a client that reads a table for an operator while a host uses it. If the client is
// throttled or disconnected, it retries the same page for about six minutes. The client of a host
// gives up after maxTries.
const (
	paceTries   = 40
	paceShort   = 50 * time.Millisecond
	paceLongest = 20 * time.Second
)

// WithReadRate limits a client to the given read units per second, averaged over a second or two. The
// limit uses the cost that each response reports: a strongly consistent read of 4 KB costs one unit.
// wait sleeps, or returns early if its context ends. If units is 0 or less, the rate is not limited.
func WithReadRate(units float64, now func() time.Time, wait func(context.Context, time.Duration) error) func(*dynamodb.Options) {
	p := &pace{units: units, now: now}
	return func(o *dynamodb.Options) {
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts = paceTries
			r.RateLimiter = ratelimit.None
			r.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
				return rand.N(min(paceShort<<min(attempt, 10), paceLongest)), nil
			})
		})
		if units > 0 {
			o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
				return stack.Initialize.Add(p.middleware(wait), middleware.Before)
			})
		}
	}
}

// pace delays reads until the time paid, when the rate has covered the cost of all earlier reads.
type pace struct {
	units float64
	now   func() time.Time

	mu   sync.Mutex
	paid time.Time
}

func (p *pace) middleware(wait func(context.Context, time.Duration) error) middleware.InitializeMiddleware {
	return middleware.InitializeMiddlewareFunc("pace", func(
		ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
	) (out middleware.InitializeOutput, metadata middleware.Metadata, err error) {
		if due := p.waitTime(); due > 0 {
			if err := wait(ctx, due); err != nil {
				return out, metadata, err
			}
		}
		askForUnits(in.Parameters)
		out, metadata, err = next.HandleInitialize(ctx, in)
		reads, _ := unitsOf(in.Parameters, out.Result, err)
		p.charge(reads)
		return out, metadata, err
	})
}

func (p *pace) waitTime() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paid.Sub(p.now())
}

func (p *pace) charge(units float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.now(); p.paid.Before(now) {
		p.paid = now // unused capacity is not saved
	}
	p.paid = p.paid.Add(time.Duration(units / p.units * float64(time.Second)))
}
