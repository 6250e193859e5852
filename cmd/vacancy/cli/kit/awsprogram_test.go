package kit

import (
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestProgramsOfTwoBuildsDoNotMix(t *testing.T) {
	for _, tt := range []struct {
		replaced, own string
		fits          bool
	}{{"", "", true}, {"", "1a2b", true}, {"1a2b", "", true}, {"1a2b", "1a2b", true}, {"1a2b", "3c4d", false}} {
		err := checkSameBuild(tt.replaced, tt.own)
		if tt.fits && err != nil || !tt.fits && (!problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), tt.replaced) || !strings.Contains(err.Error(), tt.own)) {
			t.Errorf("checkBuilt(%q, %q) = %v, want fits = %t", tt.replaced, tt.own, err, tt.fits)
		}
	}
}
