package registry_test

import (
	"path/filepath"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

func TestRegistryOverMemory(t *testing.T) {
	registrytest.Run(t, func(testing.TB) store.Store { return memory.New() })
}

func TestRegistryOverBolt(t *testing.T) {
	registrytest.Run(t, func(t testing.TB) store.Store {
		s, err := bolt.Open(filepath.Join(t.TempDir(), "store.db"), bolt.Options{})
		must(t, err)
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	})
}
