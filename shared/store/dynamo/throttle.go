package dynamo

import (
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// throttledError is a throttling error with a short text. AWS's text has 500 bytes. Strangers can
// cause many throttling errors, and logs are charged by the byte.
type throttledError struct {
	error
	limit string
}

func (t *throttledError) Error() string {
	if t.limit == "" {
		return "throttled"
	}
	return "throttled: " + t.limit
}

func (t *throttledError) Unwrap() error { return t.error }

func shortenThrottling(err error) error {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return err
	}
	if _, ok := retry.DefaultThrottleErrorCodes[api.ErrorCode()]; !ok {
		return err
	}
	return &throttledError{err, exceededLimit(api)}
}

func exceededLimit(err error) string {
	var reasons []types.ThrottlingReason
	switch e := err.(type) {
	case *types.ThrottlingException:
		reasons = e.ThrottlingReasons
	case *types.ProvisionedThroughputExceededException:
		reasons = e.ThrottlingReasons
	case *types.RequestLimitExceeded:
		reasons = e.ThrottlingReasons
	}
	for _, r := range reasons {
		if r.Reason != nil {
			limit := strings.TrimSuffix(strings.TrimSuffix(*r.Reason, "Exceeded"), "Throughput")
			return limit[:min(len(limit), 24)]
		}
	}
	return ""
}
