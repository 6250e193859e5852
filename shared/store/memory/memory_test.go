package memory_test

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
)

var home = storetest.Adapter{Open: func(testing.TB) store.Store { return memory.New() }}

func TestStore(t *testing.T) { storetest.Run(t, home) }

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, home, 1, 10_000, 1_000_000) }
