// Package cloudmeter is functions/meter: it folds the stream of the table of rows into usage,
// and exports the usage of days that are over to the bucket.
package cloudmeter

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/usage/exports"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob/s3"
	"github.com/vacancy-host/vacancy/shared/store/dynamo/feed"
)

// trimmed counts folds that found rows missing from the stream.
const trimmed = "trimmed"

// Run folds all new rows at each invocation, then exports the days that are over. It ignores
// the event and does not return.
func Run() {
	onlambda.Run(functions.Meter, func(env *onlambda.Env) onlambda.Work {
		meter := env.Server.Meter()
		exporter := &exports.Exporter{Billing: env.Server.Billing, Blobs: s3.New(s3.NewClient(env.AWS), env.Blobs, rand.Reader)}
		return func(ctx context.Context, _ json.RawMessage) ([]slog.Attr, error) {
			folded, err := meter.Fold(ctx)
			serve.LogUnreported(ctx, folded, env.Log)
			if errors.Is(err, store.ErrTrimmed) {
				// Fold has folded the remaining rows. The alarm usage-lost counts these lines.
				env.Log.LogAttrs(ctx, slog.LevelError, "the stream dropped rows before they were folded into usage", slog.String("cause", err.Error()),
					slog.Int(trimmed, 1), obs.Block(time.Now(), trimmed))
				err = nil
			}
			files := 0
			if err == nil { // an incomplete fold would export incomplete days
				files, err = exporter.Run(ctx)
			}
			return []slog.Attr{slog.Int("rows", folded.Rows), slog.Int("commits", folded.Commits), slog.Int("files", files)}, err
		}
	}, func(env *onlambda.Env, c *serve.Config) {
		c.Feed = feed.New(feed.NewClient(env.AWS), env.RowsStream)
	})
}
