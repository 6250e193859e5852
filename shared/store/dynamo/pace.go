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

// An operator's reader beside a running host: when throttled or cut off it
// waits and requests the same page again, for about six minutes in all, where a
// caller would get an error at once.
const (
	paceTries   = 40
	paceShort   = 50 * time.Millisecond
	paceLongest = 20 * time.Second
)

// Pace limits a client to units read units a second, over a second or two, by
// the cost in each answer (one unit for a strongly consistent read of 4 KB).
// wait sleeps, or returns early with its context. A rate of 0 or less is
// unlimited.
func Pace(units float64, now func() time.Time, wait func(context.Context, time.Duration) error) func(*dynamodb.Options) {
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

// pace knows when the reads so far are paid for.
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
		if due := p.due(); due > 0 {
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

// due returns the time to wait before the next read.
func (p *pace) due() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paid.Sub(p.now())
}

// charge pays for a read. Unused time is not saved.
func (p *pace) charge(units float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.now(); p.paid.Before(now) {
		p.paid = now
	}
	p.paid = p.paid.Add(time.Duration(units / p.units * float64(time.Second)))
}
