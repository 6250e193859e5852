package calltest

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
)

// fact is a test of one guarantee of the pipeline. The name states the guarantee.
type fact struct {
	name  string
	proof func(s *scene)
}

// Run tests the pipeline with the stores that open returns, one for each test. open must register the
// cleanup of its store.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	run(t, open, func(int) bool { return true })
}

// RunSampled is like Run, but with -short it tests only a sample of the faults. It is for stores
// that pass the same contract suite as a store that was tested with Run.
func RunSampled(t *testing.T, open func(t *testing.T) store.Store) { run(t, open, storetest.InSample) }

func run(t *testing.T, open func(t *testing.T) store.Store, covers func(n int) bool) {
	for _, group := range []struct {
		name  string
		facts []fact
	}{
		{"holes", modelDefects},
		{"resets", resets},
		{"resends", resends},
		{"behaviours", behaviours},
		{"races", races},
		{"vouchers", vouchers},
		{"cuts", cuts},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, f := range group.facts {
				t.Run(f.name, func(t *testing.T) { f.proof(newScene(t, open(t))) })
			}
		})
	}
	t.Run("faults", func(t *testing.T) { proveFaults(t, open, covers) })
}
