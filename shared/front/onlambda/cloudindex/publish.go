package cloudindex

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/snapshot"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
)

const (
	// maxTries limits the attempts of a run if other indexers publish first.
	maxTries = 3
	// retryDelay is a second because the limits of DynamoDB are per second.
	retryDelay = time.Second
)

// PublishWork returns the work of the indexer. The event {"reindex": true} rebuilds the index from
// all registrations.
func PublishWork(env *onlambda.Env) onlambda.WorkFunc {
	r, s := openRegistry(env), openSnapshots(env)
	return func(ctx context.Context, event json.RawMessage) ([]slog.Attr, error) {
		var command struct{ Reindex bool }
		_ = json.Unmarshal(event, &command) // stream records lack the member
		p := publisher{snapshots: s, index: newIndex(s, r, os.TempDir(), wallClock), rebuild: command.Reindex}
		return p.publish(ctx)
	}
}

type publisher struct {
	snapshots *snapshot.Snapshots
	index     *index
	rebuild   bool
}

func (p *publisher) publish(ctx context.Context) (attrs []slog.Attr, err error) {
	for range maxTries {
		attrs, err = p.tryPublish(ctx)
		if !errors.Is(err, snapshot.ErrOvertaken) {
			return attrs, err
		}
	}
	return attrs, problem.Wrap(problem.Unavailable, err, "another indexer published first at each attempt")
}

func (p *publisher) tryPublish(ctx context.Context) (attrs []slog.Attr, err error) {
	c, err := p.openIndex(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.closeAndRemove()) }()
	oldMark, err := c.Mark(ctx)
	if err == nil {
		err = retryUnavailable(ctx, c.live.CatchUp)
	}
	if err != nil {
		return nil, err
	}
	mark, err := c.Mark(ctx)
	if err != nil {
		return nil, err
	}
	if mark == oldMark && c.version.Tag != "" && !p.rebuild {
		return []slog.Attr{slog.Bool("published", false)}, nil
	}
	v, err := p.snapshots.Publish(ctx, c.Index, c.version)
	if err != nil {
		return nil, err
	}
	return []slog.Attr{slog.Bool("published", true), slog.Int("entries", v.Manifest.Entries), slog.Int64("bytes", v.Manifest.Size)}, nil
}

func (p *publisher) openIndex(ctx context.Context) (*localIndex, error) {
	if !p.rebuild {
		c, version, err := p.index.openNewest(ctx)
		if !problem.Is(err, problem.Damaged) {
			return c, err
		}
		p.rebuild = true
		return p.index.open(version, "")
	}
	version, err := p.snapshots.Latest(ctx)
	if err != nil && !problem.Is(err, problem.Damaged) {
		return nil, err
	}
	return p.index.open(version, "")
}

// retryUnavailable may repeat fn, which continues where the previous attempt ended.
func retryUnavailable(ctx context.Context, fn func(context.Context) error) error {
	for {
		err := fn(ctx)
		if err == nil || !problem.Is(err, problem.Unavailable) {
			return err
		}
		if retry.Sleep(ctx, retryDelay) != nil {
			return err
		}
	}
}
