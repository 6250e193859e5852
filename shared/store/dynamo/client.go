package dynamo

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

const (
	// perTry ends a hanging request, so that the next try uses another
	// connection: DynamoDB answers in milliseconds or not at all.
	perTry = 3 * time.Second
	// After three tries within a fraction of a second the caller gets the
	// error: it answers 503, and the same writes come again.
	maxTries     = 3
	shortestWait = 25 * time.Millisecond
	// The SDK keeps 10 idle connections, fewer than a busy process has
	// concurrent calls; the others would dial each time.
	idleConnections = 128
)

// NewClient makes a client with retries and timeouts for the store: every write
// is safe to repeat. Costs are counted in the obs.Usage of the context. opts
// are applied last.
func NewClient(cfg aws.Config, opts ...func(*dynamodb.Options)) *dynamodb.Client {
	settings := func(o *dynamodb.Options) {
		o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(perTry).WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConns, t.MaxIdleConnsPerHost = idleConnections, idleConnections
		})
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts = maxTries
			r.Backoff = retry.BackoffDelayerFunc(backoff)
		})
		o.APIOptions = append(o.APIOptions, meter)
	}
	return dynamodb.NewFromConfig(cfg, append([]func(*dynamodb.Options){settings}, opts...)...)
}

// backoff waits before try attempt+1, with full jitter. The SDK waits seconds,
// which our callers do not have.
func backoff(attempt int, _ error) (time.Duration, error) {
	return rand.N(shortestWait << min(attempt, 4)), nil
}

// Local points a client at DynamoDB Local, or at a proxy before it, with dummy
// credentials. DynamoDB Local's errors have a wrong checksum, so it is not
// checked.
func Local(endpoint string) func(*dynamodb.Options) {
	return func(o *dynamodb.Options) {
		o.BaseEndpoint = &endpoint
		o.Region = "us-east-1"
		o.DisableValidateResponseChecksum = true
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
		})
	}
}
