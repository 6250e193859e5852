package awscloud

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// AWS's error codes for faults that a user can resolve. The same fault has different codes in
// different services.
var (
	expired = []string{"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
	unknown = []string{"InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "AuthFailure", "InvalidSignatureException", "SignatureDoesNotMatch", "IncompleteSignature", "MissingAuthenticationToken"}
	skewed  = []string{"RequestExpired", "RequestTimeTooSkewed", "RequestInTheFuture"}
	denied  = []string{"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError", "Forbidden"}
	full    = []string{"LimitExceeded", "LimitExceededException", "ServiceQuotaExceededException", "TooManyBuckets"}
	missing = []string{"ResourceNotFoundException", "NoSuchBucket", "NoSuchKey", "NotFound", "TableNotFoundException", "StackNotFoundException", "TypeNotFoundException"}
)

// Problem converts an error of the SDK into a problem with a kind and a helpful text. The original
// error stays in the chain. A problem is returned unchanged.
func Problem(err error) error {
	var wrapped *problem.Error
	if err == nil || errors.As(err, &wrapped) {
		return err
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return apiProblem(err, api)
	}
	var region *aws.MissingRegionError
	var profile config.SharedConfigProfileNotExistError
	var wire net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return problem.Wrap(problem.Canceled, err, "interrupted")
	case errors.As(err, &region):
		return problem.Wrap(problem.Usage, err, "no AWS Region is set: set AWS_REGION, or region in ~/.aws/config")
	case errors.As(err, &profile):
		return problem.Wrap(problem.Usage, err, "AWS_PROFILE names the profile %q, which ~/.aws/config does not have", profile.Profile)
	case strings.Contains(err.Error(), "get credentials"), strings.Contains(err.Error(), "refresh cached credentials"):
		return credentialsProblem(context.Background(), err)
	case errors.As(err, &wire), errors.Is(err, context.DeadlineExceeded):
		return problem.Wrap(problem.Unavailable, innermost(err), "%s cannot be reached: is there a network, and is AWS_ENDPOINT_URL, if set, right?", serviceOf(err))
	}
	return problem.Wrap(problem.Internal, err, "%s failed", serviceOf(err))
}

// answer is AWS's error as the cause of a problem. Its Error method returns only the code, because
// the problem's text already contains the message.
type answer struct{ smithy.APIError }

func (a answer) Error() string { return a.ErrorCode() }

// apiProblem converts an error that AWS returned into a problem. The first argument is the SDK's
// error, which wraps that error. The problem does not wrap the SDK's error, because its text would
// repeat the message.
func apiProblem(whole error, api smithy.APIError) error {
	code, message := api.ErrorCode(), strings.TrimSuffix(api.ErrorMessage(), ".")
	what, err := serviceOf(whole), answer{api}
	has := func(codes []string) bool { return slices.Contains(codes, code) }
	_, throttled := retry.DefaultThrottleErrorCodes[code]
	switch {
	case has(expired):
		return problem.Wrap(problem.Unauthorized, err, "the AWS credentials have expired: get new ones (aws sso login, or new AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN)")
	case has(skewed), strings.Contains(message, "Signature expired"), strings.Contains(message, "Signature not yet current"):
		return problem.Wrap(problem.Clock, err, "AWS rejects the time of this request: set the clock of this machine")
	case has(unknown):
		return problem.Wrap(problem.Unauthorized, err, "AWS does not know these credentials (%s): check AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", code)
	case has(denied):
		return problem.Wrap(problem.Forbidden, err, "AWS denies these credentials %s: %s", what, message)
	case has(full):
		return problem.Wrap(problem.Unavailable, err, "a quota of this account is used up at %s: %s", what, message)
	case throttled:
		return problem.Wrap(problem.Unavailable, err, "AWS throttles %s: run the same command again in a minute", what)
	case has(missing), strings.HasSuffix(code, "ValidationError") && strings.Contains(message, "does not exist"):
		return problem.Wrap(problem.NotFound, err, "%s: %s", what, message)
	case err.ErrorFault() == smithy.FaultServer:
		return problem.Wrap(problem.Unavailable, err, "AWS failed at %s (%s): run the same command again", what, code)
	}
	return problem.Wrap(problem.Internal, err, "%s: %s: %s", what, code, message)
}

func credentialsProblem(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return problem.Wrap(problem.Canceled, err, "interrupted")
	}
	if text := err.Error(); strings.Contains(text, "SSO") || strings.Contains(text, "sso") {
		return problem.Wrap(problem.Unauthorized, err, "the session of AWS IAM Identity Center has expired: run aws sso login")
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return apiProblem(err, api) // refusal to assume a role
	}
	if strings.Contains(err.Error(), "no EC2 IMDS role found") {
		// No source has credentials. The last source in the SDK's chain is the EC2 metadata service,
		// so err would only explain why this machine is not an EC2 instance.
		err = nil
	}
	return problem.Wrap(problem.Unauthorized, err, "no AWS credentials were found: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run aws configure")
}

// serviceOf returns the operation of an error in IAM's form, for example Lambda:InvokeFunction.
func serviceOf(err error) string {
	var op *smithy.OperationError
	if errors.As(err, &op) {
		return op.Service() + ":" + op.Operation()
	}
	return "AWS"
}

// innermost returns the network error without the SDK's wrappers.
func innermost(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op
	}
	return err
}
