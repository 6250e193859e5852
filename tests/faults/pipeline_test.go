package faults

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
)

func TestPipelineOverDynamoDBLocal(t *testing.T) {
	calltest.RunSampled(t, func(t *testing.T) store.Store { return dynamolocal.Store(t) })
}
