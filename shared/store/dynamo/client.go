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
	// DynamoDB answers within milliseconds or not at all, and the next try uses another connection.
	tryTimeout   = 3 * time.Second
	maxTries     = 3
	firstBackoff = 25 * time.Millisecond
	// The SDK's default of 10 idle connections would force most concurrent calls to open a connection.
	maxIdleConnections = 128
)

// NewClient returns a client with retries and timeouts for the store. It adds the cost of each
// operation to the obs.Usage of the operation's context. opts are applied last.
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

// backoff returns a random pause. The SDK would wait for seconds, longer than callers can.
func backoff(attempt int, _ error) (time.Duration, error) {
	return rand.N(firstBackoff << min(attempt, 4)), nil
}

// WithDynamoDBLocal configures a client for DynamoDB Local. It disables response checksums, because
// DynamoDB Local sends wrong checksums with errors.
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
