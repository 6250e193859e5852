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

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing/exports"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob/s3"
	"github.com/vacancy-host/vacancy/shared/store/dynamo/feed"
)

// trimmed is the metric of rows that were gone before they were folded.
const trimmed = "trimmed"

// Run folds at each invocation what is there, then exports what is due, and ignores the
// event. It does not return.
func Run() {
	onlambda.Run(onlambda.Meter, func(env *onlambda.Env) onlambda.Work {
		meter := env.Server.Meter()
		client := s3.NewClient(env.AWS, func(o *awss3.Options) {
			o.UsePathStyle = env.AWS.BaseEndpoint != nil // other servers have no host name per bucket
		})
		exporter := &exports.Exporter{Billing: env.Server.Billing, Blobs: s3.New(client, env.Blobs, rand.Reader)}
		return func(ctx context.Context, _ json.RawMessage) ([]slog.Attr, error) {
			folded, err := meter.Fold(ctx)
			if errors.Is(err, store.ErrTrimmed) {
				// The rest is folded. An alarm counts these lines.
				env.Log.LogAttrs(ctx, slog.LevelError, "rows are gone that were not folded into usage", slog.String("cause", err.Error()),
					slog.Int(trimmed, 1), obs.Block(time.Now(), trimmed))
				err = nil
			}
			files := 0
			if err == nil { // what is exported is whole
				files, err = exporter.Run(ctx)
			}
			return []slog.Attr{slog.Int("rows", folded.Rows), slog.Int("commits", folded.Commits), slog.Int("files", files)}, err
		}
	}, func(env *onlambda.Env, c *serve.Config) {
		c.Feed = feed.New(feed.NewClient(env.AWS), env.RowsStream)
	})
}
