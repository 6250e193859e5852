package calltest

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/store"
)

// fact is something the pipeline keeps to, and its proof. The name states the
// fact.
type fact struct {
	name  string
	proof func(s *scene)
}

// Run proves the pipeline over the stores that open makes: one for each test,
// closed by open's own clean-up.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, group := range []struct {
		name  string
		facts []fact
	}{
		{"holes", holes},
		{"resets", resets},
		{"resends", resends},
		{"behaviours", behaviours},
		{"races", races},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, f := range group.facts {
				t.Run(f.name, func(t *testing.T) { f.proof(newScene(t, open(t))) })
			}
		})
	}
	t.Run("faults", func(t *testing.T) { Faults(t, open) })
}
