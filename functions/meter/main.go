// Command meter is the Lambda function that adds the stored calls to the usage totals, and exports
// the usage of past days. It reads the DynamoDB stream itself, because Lambda's events do not name
// the shard.
package main

import (
	"crypto/rand"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/s3"
	"github.com/vacancy-host/vacancy/shared/store/dynamo/feed"
)

func main() {
	onlambda.RunJobs(functions.Meter, func(env *onlambda.Env) serve.JobParts {
		blobs := s3.New(s3.NewClient(env.AWS), env.Bucket, rand.Reader)
		return serve.JobParts{Exports: func() (blob.Blobs, error) { return blobs, nil }}
	}, func(env *onlambda.Env, c *serve.Config) {
		c.Feed = feed.New(feed.NewClient(env.AWS), env.RowsStreamARN)
	})
}
