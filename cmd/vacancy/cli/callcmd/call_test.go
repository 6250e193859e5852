package callcmd

import (
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// A call is waited for as long as its host says, within bounds, unless the caller has set a time.
func TestACallIsWaitedForUntilItIsDue(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	pending := problem.New(problem.Pending, "not yet")
	for name, tt := range map[string]struct {
		patient bool
		due     time.Time
		err     error
		want    time.Duration
	}{
		"five minutes":           {true, now.Add(5 * time.Minute), pending, 5*time.Minute + afterDue},
		"longer than any call":   {true, now.Add(100 * time.Hour), pending, maxMore + afterDue},
		"with a time of its own": {false, now.Add(5 * time.Minute), pending, 0},
		"a host that says none":  {true, time.Time{}, pending, 0},
		"over":                   {true, now, pending, 0},
		"refused":                {true, now.Add(5 * time.Minute), problem.New(problem.Forbidden, "no"), 0},
		"answered":               {true, now.Add(5 * time.Minute), nil, 0},
	} {
		if got := (callFlags{patient: tt.patient}).more(dispatch.Result{Due: tt.due}, tt.err, now); got != tt.want {
			t.Errorf("%s: %s more, want %s", name, got, tt.want)
		}
	}
}
