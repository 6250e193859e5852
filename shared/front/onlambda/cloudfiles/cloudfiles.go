// Package cloudfiles stores the files in workspaces as objects in the bucket of the stage. Package
// cost derives the rate limits from the maximum cost of a day.
package cloudfiles

import (
	"context"
	"crypto/rand"
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

// AddFiles sets the storage of files, as an onlambda.Feature.
func AddFiles(env *onlambda.Env, c *serve.Config) {
	if env.Bucket == "" {
		return
	}
	bucket := s3.New(s3.NewClient(env.AWS), env.Bucket, rand.Reader)
	limitedBlobs := &rateLimitedBlobs{Blobs: bucket, writeLimit: rateLimit{rate: env.PutRate, requestKind: "writes", now: c.Now}, readLimit: rateLimit{rate: env.GetRate, requestKind: "reads", now: c.Now}}
	c.Blobs = func() (blob.Blobs, error) { return limitedBlobs, nil }
}

// rateLimitedBlobs does not limit Delete, which is free, or Head, which workspaces do not use.
type rateLimitedBlobs struct {
	blob.Blobs
	writeLimit, readLimit rateLimit
}

func (l *rateLimitedBlobs) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, cond blob.Condition) (string, error) {
	if err := l.writeLimit.takeToken(); err != nil {
		return "", err
	}
	return l.Blobs.Put(ctx, key, body, size, cond)
}

func (l *rateLimitedBlobs) List(ctx context.Context, prefix string, n int, cursor string) ([]blob.Info, string, error) {
	// A listing costs as much as a write.
	if err := l.writeLimit.takeToken(); err != nil {
		return nil, "", err
	}
	return l.Blobs.List(ctx, prefix, n, cursor)
}

func (l *rateLimitedBlobs) Get(ctx context.Context, key string) (blob.Object, error) {
	if err := l.readLimit.takeToken(); err != nil {
		return blob.Object{}, err
	}
	return l.Blobs.Get(ctx, key)
}

type rateLimit struct {
	rate        edge.Rate
	requestKind string
	now         func() time.Time

	mu sync.Mutex
	ratelimit.Bucket
}

func (l *rateLimit) takeToken() error {
	if l.rate == (edge.Rate{}) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Fill(l.rate.PerSecond, l.now())
	if missingTokens := l.Spent + 1 - float64(l.rate.Burst); missingTokens > 0 {
		return problem.New(problem.TooManyRequests, "the host has reached its rate limit for file %s; try again in %.0f s", l.requestKind, math.Ceil(missingTokens/l.rate.PerSecond))
	}
	l.Spent++
	return nil
}
