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
	expiredCodes           = []string{"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
	unknownCredentialCodes = []string{"InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "AuthFailure", "InvalidSignatureException", "SignatureDoesNotMatch", "IncompleteSignature", "MissingAuthenticationToken"}
	skewedCodes            = []string{"RequestExpired", "RequestTimeTooSkewed", "RequestInTheFuture"}
	deniedCodes            = []string{"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError", "Forbidden"}
	quotaCodes             = []string{"LimitExceeded", "LimitExceededException", "ServiceQuotaExceededException", "TooManyBuckets"}
	missingCodes           = []string{"ResourceNotFoundException", "NoSuchBucket", "NoSuchKey", "NotFound", "TableNotFoundException", "StackNotFoundException", "TypeNotFoundException"}
)

// ToProblem converts an error of the SDK into a problem that names a remedy. A problem is returned
// unchanged.
func ToProblem(err error) error {
	var wrapped *problem.Error
	if err == nil || errors.As(err, &wrapped) {
		return err
	}
	var apiErr smithy.APIError
	if errors.As(err, &apiErr) {
		return convertAPIError(err, apiErr)
	}
	var region *aws.MissingRegionError
	var profile config.SharedConfigProfileNotExistError
	var netErr net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return problem.Wrap(problem.Canceled, err, "interrupted")
	case errors.As(err, &region):
		return problem.Wrap(problem.Usage, err, "no AWS Region is set: set AWS_REGION, or region in ~/.aws/config")
	case errors.As(err, &profile):
		return problem.Wrap(problem.Usage, err, "~/.aws/config has no profile %q: check AWS_PROFILE", profile.Profile)
	case strings.Contains(err.Error(), "get credentials"), strings.Contains(err.Error(), "refresh cached credentials"):
		return convertCredentialError(context.Background(), err)
	case errors.As(err, &netErr), errors.Is(err, context.DeadlineExceeded):
		return problem.Wrap(problem.Unavailable, unwrapNetError(err), "%s cannot be reached: check the network, and AWS_ENDPOINT_URL if it is set", operationName(err))
	}
	return problem.Wrap(problem.Internal, err, "%s failed", operationName(err))
}

// codeError is AWS's error as the cause of a problem. Its Error method returns only the code, because
// the problem's text already contains the message.
type codeError struct{ smithy.APIError }

func (a codeError) Error() string { return a.ErrorCode() }

// convertAPIError converts apiErr into a problem. The problem does not wrap sdkErr, because the
// text of sdkErr would repeat the message.
func convertAPIError(sdkErr error, apiErr smithy.APIError) error {
	code, message := apiErr.ErrorCode(), strings.TrimSuffix(apiErr.ErrorMessage(), ".")
	operation, err := operationName(sdkErr), codeError{apiErr}
	isOneOf := func(codes []string) bool { return slices.Contains(codes, code) }
	_, isThrottled := retry.DefaultThrottleErrorCodes[code]
	switch {
	case isOneOf(expiredCodes):
		return problem.Wrap(problem.Unauthorized, err, "the AWS credentials have expired: get new ones (aws sso login, or new AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN)")
	case isOneOf(skewedCodes), strings.Contains(message, "Signature expired"), strings.Contains(message, "Signature not yet current"):
		return problem.Wrap(problem.ClockSkew, err, "AWS rejects the time of this request: set the clock of this machine")
	case isOneOf(unknownCredentialCodes):
		return problem.Wrap(problem.Unauthorized, err, "AWS does not know these credentials (%s): check AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", code)
	case isOneOf(deniedCodes):
		return problem.Wrap(problem.Forbidden, err, "AWS denies these credentials %s: %s", operation, message)
	case isOneOf(quotaCodes):
		return problem.Wrap(problem.Unavailable, err, "%s needs more than a quota of this account allows: %s", operation, message)
	case isThrottled:
		return problem.Wrap(problem.Unavailable, err, "AWS throttles %s: run the same command again in a minute", operation)
	case isOneOf(missingCodes), strings.HasSuffix(code, "ValidationError") && strings.Contains(message, "does not exist"):
		return problem.Wrap(problem.NotFound, err, "%s: %s", operation, message)
	case err.ErrorFault() == smithy.FaultServer:
		return problem.Wrap(problem.Unavailable, err, "AWS failed at %s (%s): run the same command again", operation, code)
	}
	return problem.Wrap(problem.Internal, err, "%s: %s: %s", operation, code, message)
}

func convertCredentialError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return problem.Wrap(problem.Canceled, err, "interrupted")
	}
	if text := err.Error(); strings.Contains(text, "SSO") || strings.Contains(text, "sso") {
		return problem.Wrap(problem.Unauthorized, err, "the session of AWS IAM Identity Center has expired: run aws sso login")
	}
	var apiErr smithy.APIError
	if errors.As(err, &apiErr) {
		return convertAPIError(err, apiErr) // refusal to assume a role
	}
	if strings.Contains(err.Error(), "no EC2 IMDS role found") {
		// No source has credentials. The last source in the SDK's chain is the EC2 metadata service,
		// so err would only explain why this machine is not an EC2 instance.
		err = nil
	}
	return problem.Wrap(problem.Unauthorized, err, "no AWS credentials were found: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run aws configure")
}

// operationName returns the operation of an error in IAM's form, for example Lambda:InvokeFunction.
func operationName(err error) string {
	var op *smithy.OperationError
	if errors.As(err, &op) {
		return op.Service() + ":" + op.Operation()
	}
	return "AWS"
}

func unwrapNetError(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op
	}
	return err
}
