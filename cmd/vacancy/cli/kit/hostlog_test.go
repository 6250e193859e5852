package kit

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/obs"
)

// The first lines of a new vacant have its name: the operator's change expires the names. A refused
// change does not, because strangers send those, and neither does one while listing vacants is slow.
func TestTheFirstLineOfANewVacantHasItsName(t *testing.T) {
	for name, tt := range map[string]struct {
		verdict string
		listing time.Duration
		want    string
	}{
		"created":              {"ok", time.Millisecond, "fox"},
		"refused":              {"unauthorized", time.Millisecond, "bbbb"},
		"many vacants":         {"ok", time.Second, "bbbb"},
		"as many as are quick": {"ok", maxExpiredPause / readTimeShare, "fox"},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
			hosted := map[string]string{"aaaa": "demo"}
			known := &nameCache{
				now:            func() time.Time { return now },
				identities:     func() map[string]string { return nil },
				statIdentities: func() time.Time { return time.Time{} },
				vacants: func() map[string]string {
					now = now.Add(tt.listing)
					all := map[string]string{}
					for id, name := range hosted {
						all[id] = name
					}
					return all
				},
			}
			var out bytes.Buffer
			log := slog.New(&nameHandler{names: known, handlers: []slog.Handler{newHumanLog(&out)}})
			call := func(vacant string) {
				log.Info(obs.CallMessage, FieldPair, "cccc>"+vacant, obs.AttrVerdict, "ok", "ms", 1)
			}
			call("aaaa")
			log.Info(adminMessage, obs.AttrVerdict, tt.verdict)
			hosted["bbbb"] = "fox"
			call("bbbb")
			lines := strings.Split(out.String(), "\n")
			if !strings.Contains(lines[0], "-> demo ") || !strings.Contains(lines[2], "-> "+tt.want+" ") {
				t.Errorf("got %q, want the names demo and %s", lines, tt.want)
			}
		})
	}
}
