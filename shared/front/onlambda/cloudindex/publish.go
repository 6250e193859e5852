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
	// rivals limits the attempts to publish in one run. A run tries again if another indexer
	// published first.
	rivals = 3
	// between is the wait before a retry if the tables are unavailable, for example throttled. The
	// limits of DynamoDB are per second.
	between = time.Second
)

// Publish returns the work of the indexer. Any event means that registrations have changed, except
// {"reindex": true}, which rebuilds the index from all registrations.
func Publish(h *onlambda.Env) onlambda.Work {
	r, s := registrations(h), snapshots(h)
	return func(ctx context.Context, event json.RawMessage) ([]slog.Attr, error) {
		var asked struct{ Reindex bool }
		_ = json.Unmarshal(event, &asked) // records of a stream do not have the member
		p := publisher{to: s, index: newIndex(s, r, os.TempDir(), wall), fresh: asked.Reindex}
		return p.publish(ctx)
	}
}

type publisher struct {
	to    *snapshot.Snapshots
	index *index
	fresh bool // rebuild the index from all registrations
}

func (p *publisher) publish(ctx context.Context) (attrs []slog.Attr, err error) {
	for range rivals {
		attrs, err = p.once(ctx)
		if !errors.Is(err, snapshot.ErrOvertaken) {
			return attrs, err
		}
	}
	return attrs, problem.Wrap(problem.Unavailable, err, "other indexers published first at each attempt")
}

func (p *publisher) once(ctx context.Context) (attrs []slog.Attr, err error) {
	c, err := p.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.drop()) }()
	oldMark, err := c.Mark(ctx)
	if err == nil {
		err = patiently(ctx, c.live.CatchUp)
	}
	if err != nil {
		return nil, err
	}
	mark, err := c.Mark(ctx)
	if err != nil {
		return nil, err
	}
	if mark == oldMark && c.version.Tag != "" && !p.fresh {
		return []slog.Attr{slog.Bool("published", false)}, nil
	}
	v, err := p.to.Publish(ctx, c.Index, c.version)
	if err != nil {
		return nil, err
	}
	return []slog.Attr{slog.Bool("published", true), slog.Int("entries", v.Manifest.Entries), slog.Int64("bytes", v.Manifest.Size)}, nil
}

func (p *publisher) begin(ctx context.Context) (*copied, error) {
	if !p.fresh {
		c, version, err := p.index.newest(ctx)
		if !problem.Is(err, problem.Damaged) {
			return c, err
		}
		p.fresh = true // a damaged index is rebuilt
		return p.index.open(version, "")
	}
	version, err := p.to.Latest(ctx)
	if err != nil && !problem.Is(err, problem.Damaged) {
		return nil, err
	}
	return p.index.open(version, "")
}

// patiently repeats do while the tables are unavailable and time remains. Each attempt continues
// where the previous attempt ended.
func patiently(ctx context.Context, do func(context.Context) error) error {
	for {
		err := do(ctx)
		if err == nil || !problem.Is(err, problem.Unavailable) {
			return err
		}
		if retry.Sleep(ctx, between) != nil {
			return err
		}
	}
}
