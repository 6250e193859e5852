package call_test

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

func TestPipelineInMemory(t *testing.T) {
	calltest.Run(t, func(*testing.T) store.Store { return memory.New() })
}
