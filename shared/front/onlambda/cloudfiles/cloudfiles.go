// Package cloudfiles gives functions the files in workspaces, whose bytes are objects of the stage's bucket.
//
// Each instance sends a limited number of requests that write and that read objects. The stack derives both limits from
// the worst day.
package cloudfiles

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/ratelimit"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/s3"
)

// Part is an onlambda.Part. A function without a bucket has no workspaces.
func Part(env *onlambda.Env, c *serve.Config) {
	if env.Blobs == "" {
		return
	}
	bucket := s3.New(s3.NewClient(env.AWS), env.Blobs, rand.Reader)
	all := &limited{Blobs: bucket, puts: newBucket(env.Puts, "writes", c.Now), gets: newBucket(env.Gets, "reads", c.Now)}
	c.Blobs = func() (blob.Blobs, error) { return all, nil }
}

// limited limits the requests to the bucket. Deletions are free.
type limited struct {
	blob.Blobs
	puts, gets *bucket
}

// Put implements blob.Blobs.
func (l *limited) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, cond blob.If) (string, error) {
	if err := l.puts.take(); err != nil {
		return "", err
	}
	return l.Blobs.Put(ctx, key, body, size, cond)
}

// List implements blob.Blobs. A listing costs as much as a write.
func (l *limited) List(ctx context.Context, prefix string, n int, cursor string) ([]blob.Info, string, error) {
	if err := l.puts.take(); err != nil {
		return nil, "", err
	}
	return l.Blobs.List(ctx, prefix, n, cursor)
}

// Get implements blob.Blobs.
func (l *limited) Get(ctx context.Context, key string) (blob.Object, error) {
	if err := l.gets.take(); err != nil {
		return blob.Object{}, err
	}
	return l.Blobs.Get(ctx, key)
}

// Head implements blob.Blobs.
func (l *limited) Head(ctx context.Context, key string) (blob.Info, error) {
	if err := l.gets.take(); err != nil {
		return blob.Info{}, err
	}
	return l.Blobs.Head(ctx, key)
}

// bucket is a token bucket. A nil bucket has no limit.
type bucket struct {
	rate edge.Rate
	what string
	now  func() time.Time

	mu sync.Mutex
	ratelimit.Bucket
}

func newBucket(rate edge.Rate, what string, now func() time.Time) *bucket {
	if rate == (edge.Rate{}) {
		return nil
	}
	return &bucket{rate: rate, what: what, now: now}
}

func (b *bucket) take() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Fill(b.rate.PerSecond, b.now())
	if lacks := b.Spent + 1 - float64(b.rate.Burst); lacks > 0 {
		wait := fmt.Sprintf("%.0f s", math.Ceil(lacks/b.rate.PerSecond))
		return problem.New(problem.TooMany, "the host has reached its limit of %s of files; try again in %s", b.what, wait)
	}
	b.Spent++
	return nil
}
