package kms

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// There are few tries, because a caller is waiting.
const (
	tryTimeout   = 3 * time.Second
	maxTries     = 3
	firstBackoff = 25 * time.Millisecond
)

func configureClient(o *kms.Options) {
	o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(tryTimeout)
	o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
		r.MaxAttempts = maxTries
		r.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
			return rand.N(firstBackoff << min(attempt, 4)), nil
		})
	})
}

func isRejectedBox(err error) bool {
	var invalid *types.InvalidCiphertextException
	var incorrect *types.IncorrectKeyException
	return errors.As(err, &invalid) || errors.As(err, &incorrect)
}

func describeErrorCode(code string) string {
	switch code {
	case "DisabledException":
		return "its key is disabled"
	case "KMSInvalidStateException":
		return "its key is about to be deleted or cannot be used in its present state"
	case "NotFoundException":
		return "its key does not exist in this account and Region"
	case "InvalidKeyUsageException":
		return "its key is of another kind"
	case accessDeniedCode:
		return "the key service refuses access"
	case "ExpiredTokenException", "ExpiredToken", "UnrecognizedClientException", "InvalidClientTokenId",
		"InvalidSignatureException", "MissingAuthenticationTokenException", "IncompleteSignature":
		return "the credentials are expired or wrong"
	}
	return "the key service failed"
}

// KMS returns accessDeniedCode if a policy forbids the request, for example opening seeds. The box
// may be intact.
const accessDeniedCode = "AccessDeniedException"

func unavailableError(err error, message string) error {
	var api smithy.APIError
	code := ""
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	if code == accessDeniedCode {
		err = errors.Join(custody.ErrWithheld, err)
	}
	return problem.Wrap(problem.Unavailable, err, "%s: %s", message, describeErrorCode(code))
}

func countRequest(ctx context.Context) { obs.UsageOf(ctx).CountKMSRequest() }
