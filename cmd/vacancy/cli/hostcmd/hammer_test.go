package hostcmd

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/clitest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/hammer"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestASummaryIsShownAsWritten(t *testing.T) {
	target := hammer.Target{ID: identity.ID{1}, URL: &url.URL{Scheme: "http", Host: "127.0.0.1:40000", Path: "/a2a/message/send"}}
	r := newHammerResult(target, 64, hammer.Summary{
		Elapsed: 10*time.Second + 1234567, Calls: 41234, PerSecond: 4122.96, P50: 15 * time.Millisecond, P90: 22300 * time.Microsecond,
		P99: 41 * time.Millisecond, Max: 120 * time.Millisecond, Resent: 3,
		Errors: map[string]uint64{"no_answer": 2, "unavailable": 1}, First: map[string]string{"no_answer": "EOF", "unavailable": "storage\x1b is unavailable"},
	})
	var text, object strings.Builder
	r.Print(&text)
	if err := kit.WriteJSON(&object, r); err != nil {
		t.Fatal(err)
	}
	clitest.Golden(t, "hammer", text.String())
	clitest.Golden(t, "hammer.json", object.String())
}
