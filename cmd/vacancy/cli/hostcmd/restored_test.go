package hostcmd

import (
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/admin"
)

func TestARestoredHostIsNamedAsThePersonKnowsIt(t *testing.T) {
	endpoints := stage.Record{Stage: "dev", URL: "https://dev.example", AdminURL: "https://a.example"}
	until := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	const goesOn = " messages signed until 2026-05-06 07:08:09 UTC\n" +
		"  Calls by vacancy call go on now, because it signs later. If calls since the backup are lost, their callers start again by vacancy call TARGET --reset.\n"
	for want, r := range map[string]restoredResult{
		"1 open vacant in stage dev on AWS refuses" + goesOn: restoredAt(&kit.App{}, &kit.RemoteHost{AWS: true, Stage: "dev", Record: endpoints}, admin.Restored{Vacants: 1, Until: until}),
		"no open vacants in https://dev.example\n":           restoredAt(&kit.App{}, &kit.RemoteHost{Stage: "dev", Record: endpoints}, admin.Restored{}),
		"2 open vacants in /srv/vacancy refuse" + goesOn:     {Data: "/srv/vacancy", Vacants: 2, Until: until},
	} {
		var out strings.Builder
		r.call = "vacancy call"
		if r.Print(&out); out.String() != want {
			t.Errorf("restored = %q, want %q", out.String(), want)
		}
	}
}
