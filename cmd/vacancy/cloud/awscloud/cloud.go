// Package awscloud implements cloud.Cloud with the AWS SDK. Credentials, Region and endpoint come
// from the SDK's chain: environment, shared files, SSO, container and instance. AWS_ENDPOINT_URL
// may name a local server.
package awscloud

import (
	"context"
	"net/http"

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

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
)

type Cloud struct {
	cfg     aws.Config
	stacks  *cloudformation.Client
	lambda  *lambda.Client
	logs    *cloudwatchlogs.Client
	buckets *s3.Client
	secrets *secretsmanager.Client
	tables  *dynamodb.Client
}

func Open(ctx context.Context, region string) (cloud.Cloud, error) {
	c, err := openCloud(ctx, region)
	if err != nil {
		return nil, &cloud.OpenError{CredentialProblem: classifyCredentialError(err), Err: err}
	}
	return c, nil
}

func openCloud(ctx context.Context, region string) (*Cloud, error) {
	httpClient := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.DialContext, t.Proxy = dispatch.Dial, dispatch.ProxyURL
	})
	// The SDK's log messages would appear between the command's own output on standard error.
	opts := []func(*config.LoadOptions) error{config.WithHTTPClient(httpClient), config.WithLogger(logging.Nop{})}
	if region != "" {
		opts = append(opts, config.WithRegion(region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return nil, ToProblem(err)
	}
	if cfg.Region == "" {
		return nil, problem.New(problem.Usage, "no AWS Region is set: set AWS_REGION, or region in ~/.aws/config")
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, convertCredentialError(ctx, err)
	}
	return New(cfg), nil
}

func New(cfg aws.Config) *Cloud {
	return &Cloud{
		cfg:    cfg,
		stacks: cloudformation.NewFromConfig(cfg),
		lambda: lambda.NewFromConfig(cfg),
		logs:   cloudwatchlogs.NewFromConfig(cfg),
		// Local servers have no host name per bucket.
		buckets: s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = o.BaseEndpoint != nil }),
		secrets: secretsmanager.NewFromConfig(cfg),
		tables:  dynamo.NewClient(cfg, func(o *dynamodb.Options) { o.DisableValidateResponseChecksum = o.BaseEndpoint != nil }),
	}
}

func (c *Cloud) Config() aws.Config { return c.cfg }

func (c *Cloud) Region() string { return c.cfg.Region }

func (c *Cloud) OpenStore(rows, docs string) store.Store {
	return dynamo.New(c.tables, dynamo.TableNames{Rows: rows, Docs: docs})
}

func (c *Cloud) ConvertError(err error) error { return ToProblem(err) }

func (c *Cloud) CallerIdentity(ctx context.Context) (cloud.CallerIdentity, error) {
	out, err := sts.NewFromConfig(c.cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return cloud.CallerIdentity{}, ToProblem(err)
	}
	return cloud.CallerIdentity{Account: aws.ToString(out.Account), ARN: aws.ToString(out.Arn)}, nil
}
