package call_test

import (
	"path/filepath"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

func TestPipelineInMemory(t *testing.T) {
	t.Parallel()
	calltest.Run(t, func(*testing.T) store.Store { return memory.New() })
}

func TestPipelineOverBolt(t *testing.T) {
	t.Parallel()
	calltest.RunSampled(t, func(t *testing.T) store.Store {
		s, err := bolt.Open(filepath.Join(t.TempDir(), "vacancy.db"), bolt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	})
}
