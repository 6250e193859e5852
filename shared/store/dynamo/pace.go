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

// A client with WithReadRate serves an operator, who can wait: it retries a page for about six
// minutes.
const (
	pacedTries        = 40
	firstPacedBackoff = 50 * time.Millisecond
	maxPacedBackoff   = 20 * time.Second
)

// WithReadRate limits a client to the given read units per second, averaged over a second or two,
// and gives it more retries. If unitsPerSecond is 0 or less, the rate is not limited.
func WithReadRate(unitsPerSecond float64, now func() time.Time, wait func(context.Context, time.Duration) error) func(*dynamodb.Options) {
	p := &readPacer{unitsPerSecond: unitsPerSecond, now: now}
	return func(o *dynamodb.Options) {
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts = pacedTries
			r.RateLimiter = ratelimit.None
			r.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
				return rand.N(min(firstPacedBackoff<<min(attempt, 10), maxPacedBackoff)), nil
			})
		})
		if unitsPerSecond > 0 {
			o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
				return stack.Initialize.Add(p.middleware(wait), middleware.Before)
			})
		}
	}
}

// readPacer delays each read until paidUntil. A read that costs n units moves paidUntil forward by
// n/unitsPerSecond seconds.
type readPacer struct {
	unitsPerSecond float64
	now            func() time.Time

	mu        sync.Mutex
	paidUntil time.Time
}

func (p *readPacer) middleware(wait func(context.Context, time.Duration) error) middleware.InitializeMiddleware {
	return middleware.InitializeMiddlewareFunc("pace", func(
		ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
	) (out middleware.InitializeOutput, metadata middleware.Metadata, err error) {
		if delay := p.waitTime(); delay > 0 {
			if err := wait(ctx, delay); err != nil {
				return out, metadata, err
			}
		}
		requestConsumedCapacity(in.Parameters)
		out, metadata, err = next.HandleInitialize(ctx, in)
		reads, _ := consumedUnits(in.Parameters, out.Result, err)
		p.charge(reads)
		return out, metadata, err
	})
}

func (p *readPacer) waitTime() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paidUntil.Sub(p.now())
}

func (p *readPacer) charge(units float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.now(); p.paidUntil.Before(now) {
		p.paidUntil = now // unused capacity is not saved
	}
	p.paidUntil = p.paidUntil.Add(time.Duration(units / p.unitsPerSecond * float64(time.Second)))
}
