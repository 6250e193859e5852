package vacants_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
)

// A caller without a deadline waits for the lock of a logbook at most as long
// as an update may take.
func TestAChangeWaitsForALogbookNoLongerThanItsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := fresh(t)
		r, err := v.Create(t.Context(), vacants.CreateSpec{Name: "busy", Capability: "waits", Substrate: "echo"})
		must(t, err)
		done, err := v.LockGraduation(t.Context(), r.ID, r.ID)
		must(t, err)
		defer done()
		began := time.Now()
		if _, err := v.Pause(context.Background(), r.ID); err == nil || time.Since(began) != store.DefaultTimeout {
			t.Errorf("Pause() = %v after %v, want an error after %v", err, time.Since(began), store.DefaultTimeout)
		}
	})
}
