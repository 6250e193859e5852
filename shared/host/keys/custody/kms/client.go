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

// Short tries with short waits, as in store/dynamo: a caller is waiting and
// will come again.
const (
	perTry       = 3 * time.Second
	maxTries     = 3
	shortestWait = 25 * time.Millisecond
)

func settings(o *kms.Options) {
	o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(perTry)
	o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
		r.MaxAttempts = maxTries
		r.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
			return rand.N(shortestWait << min(attempt, 4)), nil
		})
	})
}

// foreign reports whether KMS refused a box after using its key on it: another
// context, other bytes, another key. Any other error says nothing about the
// box. (AWS answers AccessDenied to some boxes of foreign keys; they count as
// unchecked.)
func foreign(err error) bool {
	var invalid *types.InvalidCiphertextException
	var incorrect *types.IncorrectKeyException
	return errors.As(err, &invalid) || errors.As(err, &incorrect)
}

// reasons are causes that an operator can remove, by error code. Others
// (throttling, timeouts, internal failures) pass.
func reason(code string) string {
	switch code {
	case "DisabledException":
		return "its key is disabled"
	case "KMSInvalidStateException":
		return "its key is about to be deleted, or not in a state to be used"
	case "NotFoundException":
		return "its key does not exist in this account and Region"
	case "InvalidKeyUsageException":
		return "its key is of another kind"
	case denied:
		return "the key service refuses access"
	case "ExpiredTokenException", "ExpiredToken", "UnrecognizedClientException", "InvalidClientTokenId",
		"InvalidSignatureException", "MissingAuthenticationTokenException", "IncompleteSignature":
		return "the credentials are expired or wrong"
	}
	return "the key service does not answer as it should"
}

// denied is the error code for a key that may not be used with a context. A key
// policy may let an operator open text keys but no seeds: for fsck that means
// withheld, which says nothing about the box.
const denied = "AccessDeniedException"

// unavailable is an error of the service, not of the data.
func unavailable(err error, what string) error {
	var api smithy.APIError
	code := ""
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	if code == denied {
		err = errors.Join(custody.ErrWithheld, err)
	}
	return problem.Wrap(problem.Unavailable, err, "%s: %s", what, reason(code))
}

// count adds a request to the call's usage.
func count(ctx context.Context) { obs.UsageOf(ctx).AskedKMS() }
