package hostcmd

import (
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
)

func TestARestoredHostIsNamedAsThePersonKnowsIt(t *testing.T) {
	endpoints := stage.Record{Stage: "dev", URL: "https://dev.example", AdminURL: "https://a.example"}
	for want, r := range map[string]restoredResult{
		"1 open vacant in stage dev on AWS refuses messages signed until five minutes from now\n":    restoredAt(&kit.RemoteHost{AWS: true, Stage: "dev", Record: endpoints}, 1),
		"0 open vacants in https://dev.example refuse messages signed until five minutes from now\n": restoredAt(&kit.RemoteHost{Stage: "dev", Record: endpoints}, 0),
		"2 open vacants in /srv/vacancy refuse messages signed until five minutes from now\n":        {Data: "/srv/vacancy", Vacants: 2},
	} {
		var out strings.Builder
		if r.Print(&out); out.String() != want {
			t.Errorf("restored = %q, want %q", out.String(), want)
		}
	}
}
