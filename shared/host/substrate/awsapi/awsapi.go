// Package awsapi is the substrate for Lambda functions. It also contains code for other substrates
// that use the AWS SDK with the host's own credentials.
package awsapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// idleTimeout is short because connections break while a Lambda function is frozen.
const idleTimeout = 20 * time.Second

// HTTPClient returns a client that uses no proxy and limits answers to outbound.MaxStreamBytes bytes.
func HTTPClient() aws.HTTPClient {
	return limitedClient{awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.Proxy = nil
		t.IdleConnTimeout = idleTimeout
	})}
}

type limitedClient struct{ aws.HTTPClient }

func (l limitedClient) Do(r *http.Request) (*http.Response, error) {
	// The SDK (smithy-go v1.28.8) closes the body when the answer starts. A body with a method
	// WriteTo then fails, and net/http truncates the answer.
	if r.Body != nil {
		r = r.WithContext(r.Context())
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	reply, err := l.HTTPClient.Do(r)
	if err == nil {
		reply.Body = http.MaxBytesReader(nil, reply.Body, outbound.MaxStreamBytes)
	}
	return reply, err
}

func CheckPermitted(ctx context.Context, client *outbound.Client, r *substrate.Request, s substrate.Spec) error {
	if err := client.CheckPermission(ctx, outbound.VacantActor(r.Vacant, r.Chooser), s.Endpoint()); err != nil {
		return substrate.ConvertRequestError(err)
	}
	return nil
}

// ConvertError converts an error of the SDK to the error of a substrate.
func ConvertError(ctx context.Context, err error) error {
	var respErr *awshttp.ResponseError
	var apiErr smithy.APIError
	var tooLargeErr *http.MaxBytesError
	switch {
	case ctx.Err() != nil:
		return substrate.ContextError(ctx, "the agent")
	case errors.As(err, &tooLargeErr):
		return problem.Wrap(problem.SubstrateTooLarge, err, "the agent's answer is longer than %d bytes", tooLargeErr.Limit)
	case errors.As(err, &respErr) && errors.As(err, &apiErr):
		body := []byte(apiErr.ErrorCode() + ": " + apiErr.ErrorMessage())
		cause := substrate.StatusError(respErr.HTTPStatusCode())
		switch {
		case apiErr.ErrorCode() == modelErrorCode:
			cause = problem.New(problem.SubstrateUnavailable, "the model failed")
		// The AWS account must first accept the terms of third-party models in the console.
		case strings.Contains(apiErr.ErrorMessage(), "aws-marketplace:"), strings.Contains(apiErr.ErrorMessage(), "use case details"):
			cause = problem.New(problem.SubstrateMisconfigured, "the AWS account has not accepted the model's terms: call the model once in the console of Bedrock to accept them")
		}
		return substrate.AnswerError(respErr.HTTPStatusCode(), respErr.Response.Header, body, cause)
	case errors.As(err, &apiErr): // an error within a stream
		return substrate.AnswerError(http.StatusOK, nil, []byte(apiErr.ErrorCode()+": "+apiErr.ErrorMessage()), streamError(apiErr.ErrorCode()))
	}
	return problem.Wrap(problem.SubstrateUnavailable, err, "the agent cannot be reached, or its answer was interrupted")
}

const modelErrorCode = "ModelErrorException"

func streamError(code string) error {
	switch code {
	case "ThrottlingException", "throttlingException":
		return problem.New(problem.SubstrateBusy, "the model is temporarily throttled")
	case "ValidationException", "validationException":
		return problem.New(problem.SubstrateMisconfigured, "the model refuses the request")
	}
	return problem.New(problem.SubstrateUnavailable, "the model's answer ends with an error")
}
