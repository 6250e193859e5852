package hostcmd

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/setting"
)

func TestDoctorSendsNoKeyInClear(t *testing.T) {
	a := &kit.App{Env: map[string]string{}}
	for url, want := range map[string]string{
		"https://host.example": "vop_k", "http://host.example": "", "http://127.0.0.1:4566": "vop_k", "http://x.localhost:4566": "vop_k", "http://%zz": "",
	} {
		if got := stageURLs(a, doctor.Facts{}, stage.Record{AdminURL: url, OperatorKey: "vop_k"}).OperatorKey; got != want {
			t.Errorf("handlers() to %s has the key %q, want %q", url, got, want)
		}
	}
}

func TestDoctorReadsTheSettingsThatTheStageStores(t *testing.T) {
	stack := func(text string) doctor.Stack {
		return doctor.Stack{Outputs: map[string]string{setting.StoredOutput: text}}
	}
	// An earlier release wrote the settings into the record.
	rec := stage.Record{Context: map[string]string{"keep": "false"}}
	for name, tc := range map[string]struct {
		stacks map[string]doctor.Stack
		want   map[string]string
	}{
		"stored":                   {map[string]doctor.Stack{"functions": stack(`{"mock":"true"}`), "data": stack(`{}`)}, map[string]string{"mock": "true"}},
		"stored defaults":          {map[string]doctor.Stack{"functions": stack(`{}`)}, map[string]string{}},
		"a failed first deploy":    {map[string]doctor.Stack{"functions": {}, "data": stack(`{"mock":"true"}`)}, map[string]string{"mock": "true"}},
		"of an earlier release":    {map[string]doctor.Stack{"functions": {}, "data": {}}, rec.Context},
		"stacks that are not read": {nil, rec.Context},
	} {
		got := findSettings(doctor.Facts{Stacks: tc.stacks}, rec)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: findSettings() (-want +got):\n%s", name, diff)
		}
	}
	if got := findSettings(doctor.Facts{}, stage.Record{}); got != nil {
		t.Errorf("findSettings() of an unknown stage = %v, want nil", got)
	}
}
