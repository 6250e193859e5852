// Package thinkclient lets a Lambda function ask models through functions/think. A request that may
// have run is not repeated, because a model may have been paid for it.
package thinkclient

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/awsapi"
	"github.com/vacancy-host/vacancy/shared/host/substrate/think"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
)

func AddThinker(env *onlambda.Env, c *serve.Config) {
	if env.ThinkARN == "" {
		return
	}
	c.ThinkService = think.NewClient(NewInvoke(env.AWS, env.ThinkARN))
	c.ThinkerKinds = env.ThinkKinds()
}

// NewInvoke returns a function that invokes a Lambda function. It repeats a throttled request once,
// because such a request has not run.
func NewInvoke(cfg aws.Config, function string) think.Invoke {
	client := lambda.NewFromConfig(cfg, func(o *lambda.Options) {
		o.Retryer, o.HTTPClient = aws.NopRetryer{}, awsapi.HTTPClient()
	})
	return func(ctx context.Context, request []byte) ([]byte, error) {
		input := &lambda.InvokeInput{FunctionName: &function, Payload: request}
		reply, err := client.Invoke(ctx, input)
		if isThrottled(err) && retry.Sleep(ctx, throttleWait/2+rand.N(throttleWait)) == nil {
			reply, err = client.Invoke(ctx, input)
		}
		switch {
		case isThrottled(err):
			return nil, problem.Wrap(problem.SubstrateBusy, err, "all instances of the function that asks models are busy")
		case err != nil:
			// If the error wrapped the AWS error, an agent's loop would mistake it for an answer of
			// the model and retry.
			err = awsapi.ConvertError(ctx, err)
			p := problem.AsError(err)
			return nil, problem.Wrap(p.Kind, errors.New(err.Error()), "the function that asks models: %s", p.Text())
		case reply.FunctionError != nil:
			return nil, problem.Wrap(problem.SubstrateUnavailable, errors.New(substrate.Excerpt(reply.Payload)), "the function that asks models failed: %s", aws.ToString(reply.FunctionError))
		}
		return reply.Payload, nil
	}
}

const throttleWait = 250 * time.Millisecond

func isThrottled(err error) bool {
	var throttleErr *types.TooManyRequestsException
	return errors.As(err, &throttleErr)
}
