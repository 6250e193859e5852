package calltest

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
)

type contractTest struct {
	name string
	test func(s *scene)
}

// Run tests the pipeline with the stores that openStore returns, one for each test. openStore must
// register the cleanup of its store.
func Run(t *testing.T, openStore func(t *testing.T) store.Store) {
	runTests(t, openStore, func(int) bool { return true })
}

// RunSampled is like Run, but with -short it tests only a sample of the faults.
func RunSampled(t *testing.T, openStore func(t *testing.T) store.Store) {
	runTests(t, openStore, storetest.InSample)
}

func runTests(t *testing.T, openStore func(t *testing.T) store.Store, inSample func(n int) bool) {
	for _, group := range []struct {
		name  string
		facts []contractTest
	}{
		{"holes", modelDefectTests},
		{"resets", resetTests},
		{"resends", resendTests},
		{"behaviours", behaviourTests},
		{"races", raceTests},
		{"vouchers", voucherTests},
		{"cuts", cutTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, f := range group.facts {
				t.Run(f.name, func(t *testing.T) { f.test(newScene(t, openStore(t))) })
			}
		})
	}
	t.Run("faults", func(t *testing.T) { testFaults(t, openStore, inSample) })
}
