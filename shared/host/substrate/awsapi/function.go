package awsapi

import (
	"context"
	"iter"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/httpagent"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func LambdaKinds(client *outbound.Client, cfg aws.Config) substrate.Kinds {
	api := lambda.NewFromConfig(cfg, func(o *lambda.Options) {
		o.Retryer, o.HTTPClient = aws.NopRetryer{}, HTTPClient()
	})
	return substrate.Kinds{substrate.KindLambda: func(arn string) (substrate.Substrate, error) {
		if err := substrate.CheckFunction(arn); err != nil {
			return nil, err
		}
		return &function{client, api, substrate.Spec{Kind: substrate.KindLambda, Argument: arn}}, nil
	}}
}

// function is a Lambda function whose event is the question in JSON (httpagent.AppendQuestion).
type function struct {
	client *outbound.Client
	api    *lambda.Client
	spec   substrate.Spec
}

func (f *function) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		events, err := f.invoke(ctx, &r)
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func (f *function) invoke(ctx context.Context, r *substrate.Request) ([]substrate.Event, error) {
	if err := CheckPermitted(ctx, f.client, r, f.spec); err != nil {
		return nil, err
	}
	reply, err := f.api.Invoke(ctx, &lambda.InvokeInput{FunctionName: &f.spec.Argument, Payload: httpagent.AppendQuestion(ctx, nil, r)})
	if err != nil {
		return nil, ConvertError(ctx, err)
	}
	if reply.FunctionError != nil {
		return nil, substrate.AnswerError(http.StatusInternalServerError, nil, reply.Payload, problem.New(problem.SubstrateUnavailable, "the function failed: %s", aws.ToString(reply.FunctionError)))
	}
	events, err := httpagent.ParseAnswer(reply.Payload)
	if err != nil {
		err = substrate.AnswerError(http.StatusOK, nil, reply.Payload, err)
	}
	return events, err
}
