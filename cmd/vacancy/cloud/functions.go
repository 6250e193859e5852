package cloud

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Answer is the result of an invocation.
type Answer struct {
	Payload []byte
	Error   string // "" or AWS's term for the failure, for example Unhandled
	Log     string // the last 4 KB of the log
}

// Invoke invokes a function with an event and waits for its answer. A failed
// function is an Answer with Error, not an error.
func (c *Cloud) Invoke(ctx context.Context, function string, event []byte) (Answer, error) {
	out, err := c.lambda.Invoke(ctx, &lambda.InvokeInput{FunctionName: &function, Payload: event, LogType: types.LogTypeTail},
		func(o *lambda.Options) { o.RetryMaxAttempts = 1 }) // send an event once: a function may act on each
	if err != nil {
		return Answer{}, Problem(err)
	}
	log, err := base64.StdEncoding.DecodeString(aws.ToString(out.LogResult))
	if err != nil {
		return Answer{}, problem.Wrap(problem.Internal, err, "the log that came with the answer cannot be read")
	}
	return Answer{out.Payload, aws.ToString(out.FunctionError), string(log)}, nil
}

// UpdateCode gives a function the code in a zip, waits until the code is
// active, and reports whether it changed.
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

// RestoreCode gives a function the code of an object in a bucket, as in its
// template.
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
		if err := Wait(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}
