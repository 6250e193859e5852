// Package cloud is the command line's adapter to AWS: whose account it is, what
// its stacks are, have and do, the functions, their logs, buckets and secrets.
//
// Credentials, Region and endpoint come from the ordinary chain of the SDK
// (environment, shared files, SSO, container, instance; AWS_ENDPOINT_URL), so
// that a server on the laptop is the same path. The invariants: every error is
// a problem that names what to do; nothing here asks a person, and nothing
// prints.
package cloud

import (
	"context"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
)

// Cloud is one AWS account in one Region. It is safe for concurrent use.
type Cloud struct {
	cfg     aws.Config
	stacks  *cloudformation.Client
	lambda  *lambda.Client
	logs    *cloudwatchlogs.Client
	buckets *s3.Client
	secrets *secretsmanager.Client
	tables  *dynamodb.Client
}

// Open finds credentials and Region in the ordinary chain; region, unless
// empty, stands in for what the chain says. The errors: Unauthorized without
// credentials that can be had, Usage without a Region.
func Open(ctx context.Context, region string) (*Cloud, error) {
	web := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.DialContext, t.Proxy = dispatch.Dial, dispatch.Proxy
	})
	// The SDK's own remarks would stand on standard error between ours.
	opts := []func(*config.LoadOptions) error{config.WithHTTPClient(web), config.WithLogger(logging.Nop{})}
	if region != "" {
		opts = append(opts, config.WithRegion(region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return nil, Problem(err)
	}
	if cfg.Region == "" {
		return nil, problem.New(problem.Usage, "no AWS Region is set: set AWS_REGION, or region in ~/.aws/config")
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, credentialsProblem(ctx, err)
	}
	return With(cfg), nil
}

// With makes a Cloud of a configuration that was found elsewhere.
func With(cfg aws.Config) *Cloud {
	return &Cloud{
		cfg:    cfg,
		stacks: cloudformation.NewFromConfig(cfg),
		lambda: lambda.NewFromConfig(cfg),
		logs:   cloudwatchlogs.NewFromConfig(cfg),
		// A server that is no AWS has no name for each bucket.
		buckets: s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = o.BaseEndpoint != nil }),
		secrets: secretsmanager.NewFromConfig(cfg),
		tables:  dynamo.NewClient(cfg, func(o *dynamodb.Options) { o.DisableValidateResponseChecksum = o.BaseEndpoint != nil }),
	}
}

// Config is the configuration that every client is made of.
func (c *Cloud) Config() aws.Config { return c.cfg }

// Region is the Region that all calls go to.
func (c *Cloud) Region() string { return c.cfg.Region }

// Store opens the two tables of a host with the person's own credentials.
func (c *Cloud) Store(rows, docs string) *dynamo.Store {
	return dynamo.New(c.tables, dynamo.Tables{Rows: rows, Docs: docs})
}

// Caller is whose credentials are in use.
type Caller struct {
	Account string `json:"account"` // twelve digits
	ARN     string `json:"arn"`
}

// Caller asks AWS who the person is, which also proves that the credentials
// are good.
func (c *Cloud) Caller(ctx context.Context) (Caller, error) {
	out, err := sts.NewFromConfig(c.cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return Caller{}, Problem(err)
	}
	return Caller{aws.ToString(out.Account), aws.ToString(out.Arn)}, nil
}

// Wait waits between two looks at something that takes its time. Its error is
// that the person interrupted.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return problem.Wrap(problem.Canceled, ctx.Err(), "interrupted")
	case <-t.C:
		return nil
	}
}
