package cloudthink

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
)

// What message and admin offer, this function answers, and nothing else.
func TestThinkOffersItsKinds(t *testing.T) {
	for _, mock := range []bool{true, false} {
		env := &onlambda.Env{Settings: onlambda.Settings{Host: setting.Host{AllowMocks: mock}}}
		var c serve.Config
		addModels(env, &c)
		want := slices.Sorted(slices.Values(env.ThinkKinds()))
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(c.Models(outbound.New(outbound.Options{}))))); diff != "" {
			t.Errorf("mock %v: kinds (-want +got):\n%s", mock, diff)
		}
	}
}
