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

// As in store/dynamo, there are few attempts with short backoffs, because a caller is waiting and
// can send the request again.
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

// isRejectedBox reports whether KMS rejected a box after it tried the key: the box has another
// context or another key, or it is damaged. Other errors do not depend on the box. (For some boxes
// of other keys, AWS returns AccessDenied. Such a box is reported as withheld.)
func isRejectedBox(err error) bool {
	var invalid *types.InvalidCiphertextException
	var incorrect *types.IncorrectKeyException
	return errors.As(err, &invalid) || errors.As(err, &incorrect)
}

func describeErrorCode(code string) string {
	// Only causes that an operator can remove are described. Other failures, such as throttling and
	// timeouts, are temporary.
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

// accessDeniedCode is the error code for missing permissions. A key policy may let an operator open
// text keys but not seeds. Package fsck then reports the box as withheld and not as damaged.
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
