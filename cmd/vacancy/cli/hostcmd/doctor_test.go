package hostcmd

import (
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
)

func TestDoctorSendsNoKeyInClear(t *testing.T) {
	a := &kit.App{Env: map[string]string{}}
	for url, want := range map[string]string{
		"https://host.example": "vop_k", "http://host.example": "", "http://127.0.0.1:4566": "vop_k", "http://x.localhost:4566": "vop_k", "http://%zz": "",
	} {
		if got := endpoints(a, doctor.Facts{}, stage.Record{AdminURL: url, OperatorKey: "vop_k"}).Key; got != want {
			t.Errorf("handlers() to %s has the key %q, want %q", url, got, want)
		}
	}
}
