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
	// tryTimeout is the timeout of one try. DynamoDB answers within milliseconds or not at all, and
	// the next try uses another connection.
	tryTimeout = 3 * time.Second
	// Three tries take a fraction of a second. The caller then answers 503, and its client sends
	// the same writes again.
	maxTries     = 3
	firstBackoff = 25 * time.Millisecond
	// The SDK keeps 10 idle connections by default, so a busy process would open a new connection for
	// most of its concurrent calls.
	maxIdleConnections = 128
)

// NewClient returns a client with retries and timeouts for the store, whose writes are all safe to
// repeat. The client adds the cost of each operation to the obs.Usage of the operation's context.
// opts are applied last.
func NewClient(cfg aws.Config, opts ...func(*dynamodb.Options)) *dynamodb.Client {
	settings := func(o *dynamodb.Options) {
		o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(tryTimeout).WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConns, t.MaxIdleConnsPerHost = maxIdleConnections, maxIdleConnections
		})
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts = maxTries
			r.Backoff = retry.BackoffDelayerFunc(backoff)
		})
		o.APIOptions = append(o.APIOptions, addUsageMiddleware)
	}
	return dynamodb.NewFromConfig(cfg, append([]func(*dynamodb.Options){settings}, opts...)...)
}

// backoff returns the pause before try attempt+1, with full jitter. The SDK would wait for seconds,
// longer than callers can.
func backoff(attempt int, _ error) (time.Duration, error) {
	return rand.N(firstBackoff << min(attempt, 4)), nil
}

// WithDynamoDBLocal configures a client for DynamoDB Local, or a proxy in front of it, with dummy
// credentials. It disables response checksums, because DynamoDB Local sends wrong checksums with
// errors.
func WithDynamoDBLocal(endpoint string) func(*dynamodb.Options) {
	return func(o *dynamodb.Options) {
		o.BaseEndpoint = &endpoint
		o.Region = "us-east-1"
		o.DisableValidateResponseChecksum = true
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
		})
	}
}
