// Package cloudmeter is functions/meter: it folds the stream of the table of rows into usage.
package cloudmeter

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/dynamo/feed"
)

// trimmed is the metric of rows that were gone before they were folded.
const trimmed = "trimmed"

// Run folds at each invocation what is there, and ignores the event. It does not return.
func Run() {
	onlambda.Run(onlambda.Meter, func(env *onlambda.Env) onlambda.Work {
		meter := env.Server.Meter()
		return func(ctx context.Context, _ json.RawMessage) ([]slog.Attr, error) {
			folded, err := meter.Fold(ctx)
			if errors.Is(err, store.ErrTrimmed) {
				// The rest is folded. An alarm counts these lines.
				env.Log.LogAttrs(ctx, slog.LevelError, "rows are gone that were not folded into usage", slog.String("cause", err.Error()),
					slog.Int(trimmed, 1), obs.Block(time.Now(), trimmed))
				err = nil
			}
			return []slog.Attr{slog.Int("rows", folded.Rows), slog.Int("commits", folded.Commits)}, err
		}
	}, func(env *onlambda.Env, c *serve.Config) {
		c.Feed = feed.New(feed.NewClient(env.AWS), env.RowsStream)
	})
}
