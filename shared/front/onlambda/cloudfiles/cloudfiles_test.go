package cloudfiles

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// counted counts requests.
type counted struct {
	blob.Blobs
	puts, lists, gets, deletes int
}

func (c *counted) Get(context.Context, string) (blob.Object, error) {
	c.gets++
	return blob.Object{}, nil
}
func (c *counted) Delete(context.Context, string) error { c.deletes++; return nil }
func (c *counted) Put(context.Context, string, io.ReadSeeker, int64, blob.Condition) (string, error) {
	c.puts++
	return "", nil
}
func (c *counted) List(context.Context, string, int, string) ([]blob.Info, string, error) {
	c.lists++
	return nil, "", nil
}

func TestAnInstanceSendsALimitedNumberOfRequests(t *testing.T) {
	now := time.Unix(1e9, 0)
	clock := func() time.Time { return now }
	bucket := &counted{}
	l := &rateLimitedBlobs{Blobs: bucket, writeLimit: rateLimit{rate: edge.Rate{PerSecond: 0.5, Burst: 3}, requestKind: "writes", now: clock}, readLimit: rateLimit{rate: edge.Rate{PerSecond: 2, Burst: 1}, requestKind: "reads", now: clock}}
	ctx := t.Context()
	put := func() error { _, err := l.Put(ctx, "a", strings.NewReader(""), 0, blob.Condition{}); return err }
	list := func() error { _, _, err := l.List(ctx, "a", 1, ""); return err }
	get := func() error { _, err := l.Get(ctx, "a"); return err }
	if err := errors.Join(put(), list(), put(), get()); err != nil {
		t.Fatal(err)
	}
	for _, f := range []func() error{put, list, get} {
		if err := f(); !problem.Is(err, problem.TooManyRequests) || !strings.Contains(err.Error(), "try again in ") {
			t.Errorf("beyond the limit: %v", err)
		}
	}
	now = now.Add(2 * time.Second)
	if err := errors.Join(put(), get(), l.Delete(ctx, "a")); err != nil {
		t.Errorf("two seconds later: %v", err)
	}
	if *bucket != (counted{puts: 3, lists: 1, gets: 2, deletes: 1}) {
		t.Errorf("requests are %+v", *bucket)
	}
	l = &rateLimitedBlobs{Blobs: bucket}
	for range 100 {
		if err := errors.Join(put(), get()); err != nil {
			t.Fatal(err)
		}
	}
}
