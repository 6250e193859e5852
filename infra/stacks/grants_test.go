package stacks

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/infra/settings"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

func TestEveryFunctionHasGrantsAndEveryGrantAFunction(t *testing.T) {
	want, got := map[string]bool{}, map[string]bool{}
	for _, f := range functions.All() {
		want[f.Name] = true
	}
	for f := range allGrants(settings.Settings{}) {
		got[f.Name] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("functions with grants (-of the table +granted):\n%s", diff)
	}
}
