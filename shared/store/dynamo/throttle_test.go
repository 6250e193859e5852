package dynamo_test

import (
	"strings"
	"testing"

	"errors"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
)

func TestAThrottlingIsToldInFewWords(t *testing.T) {
	l := newLine(t)
	s := l.faulty(1)
	for _, tt := range []struct {
		fault faultproxy.Fault
		code  string
	}{{faultproxy.Throttle, "ThrottlingException"}, {faultproxy.Exceed, "ProvisionedThroughputExceededException"}} {
		l.proxy.Set(faultproxy.Rule{Fault: tt.fault})
		_, err := s.Tip(t.Context(), "any")
		if want := "reading rows: throttled: TableWriteMaxOnDemand"; !errors.Is(err, store.ErrUnavailable) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("Tip() = %v, want unavailable, ending in %q", err, want)
		}
		if api, ok := errors.AsType[smithy.APIError](err); !ok || api.ErrorCode() != tt.code {
			t.Errorf("Tip() = %v, want %s still found in it", err, tt.code)
		}
	}
	l.proxy.Set(faultproxy.Rule{Fault: faultproxy.Internal})
	_, err := s.Tip(t.Context(), "any")
	if _, ok := errors.AsType[*types.InternalServerError](err); !ok || !strings.Contains(err.Error(), "RequestID: ") {
		t.Errorf("Tip() = %v, want all that the service said", err)
	}
}
