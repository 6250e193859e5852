package awscloud

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Invoke implements cloud.Cloud.
func (c *Cloud) Invoke(ctx context.Context, function string, event []byte) (cloud.Answer, error) {
	out, err := c.lambda.Invoke(ctx, &lambda.InvokeInput{FunctionName: &function, Payload: event, LogType: types.LogTypeTail},
		func(o *lambda.Options) { o.RetryMaxAttempts = 1 }) // send an event once: a function may act on each
	if err != nil {
		return cloud.Answer{}, Problem(err)
	}
	log, err := base64.StdEncoding.DecodeString(aws.ToString(out.LogResult))
	if err != nil {
		return cloud.Answer{}, problem.Wrap(problem.Internal, err, "the log that came with the answer cannot be read")
	}
	return cloud.Answer{Payload: out.Payload, Error: aws.ToString(out.FunctionError), Log: string(log)}, nil
}

// UpdateCode implements cloud.Cloud.
func (c *Cloud) UpdateCode(ctx context.Context, function string, zip []byte) (changed bool, err error) {
	now, err := c.lambda.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &function})
	if err != nil {
		return false, Problem(err)
	}
	sum := sha256.Sum256(zip)
	if aws.ToString(now.CodeSha256) == base64.StdEncoding.EncodeToString(sum[:]) {
		return false, nil
	}
	return true, c.update(ctx, &lambda.UpdateFunctionCodeInput{FunctionName: &function, ZipFile: zip})
}

// RestoreCode implements cloud.Cloud.
func (c *Cloud) RestoreCode(ctx context.Context, function, bucket, key string) error {
	return c.update(ctx, &lambda.UpdateFunctionCodeInput{FunctionName: &function, S3Bucket: &bucket, S3Key: &key})
}

func (c *Cloud) update(ctx context.Context, in *lambda.UpdateFunctionCodeInput) error {
	if _, err := c.lambda.UpdateFunctionCode(ctx, in); err != nil {
		return Problem(err)
	}
	for {
		now, err := c.lambda.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: in.FunctionName})
		if err != nil {
			return Problem(err)
		}
		switch now.LastUpdateStatus {
		case types.LastUpdateStatusFailed:
			return problem.New(problem.Internal, "AWS could not put the new code of %s to work: %s", aws.ToString(in.FunctionName), aws.ToString(now.LastUpdateStatusReason))
		case types.LastUpdateStatusInProgress:
		default:
			return nil
		}
		if err := cloud.Wait(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}
