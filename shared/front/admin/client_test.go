package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Anybody may run a remote host: its answers are printed to a terminal, and one
// names the file that an export is written to.
func TestAClientTakesNothingForAVacantThatIsNone(t *testing.T) {
	const good = `{"vacant_id":"%s","name":%s,"state":%s,"card":null,"created":%s,"changed":"2026-01-02T03:04:05.000000+00:00"}`
	id := strings.Repeat("ab", 32)
	quoted := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	answer := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }))
	t.Cleanup(s.Close)
	c := &Client{HTTP: s.Client(), URL: s.URL}
	for _, tt := range []struct {
		what, name, state, created string
		ok                         bool
	}{
		{"a vacant", "scribe", "LOCAL", "2026-01-02T03:04:05.000000+00:00", true},
		{"one of another folder", "../../.config/scribe", "LOCAL", "2026-01-02T03:04:05.000000+00:00", false},
		{"one that clears the screen", "scribe\x1b[2J", "LOCAL", "2026-01-02T03:04:05.000000+00:00", false},
		{"no name", "", "LOCAL", "2026-01-02T03:04:05.000000+00:00", false},
		{"a state that is none", "scribe", "\u009b2J", "2026-01-02T03:04:05.000000+00:00", false},
		{"a time that is none", "scribe", "LOCAL", "now\x1b[2J", false},
	} {
		one := fmt.Sprintf(good, id, quoted(tt.name), quoted(tt.state), quoted(tt.created))
		answer = one
		_, shown := ShowVacant.Call(t.Context(), c, VacantRef{Vacant: "scribe"})
		_, changed := PauseVacant.Call(t.Context(), c, VacantRef{Vacant: "scribe"})
		_, gone := DeleteVacant.Call(t.Context(), c, VacantRef{Vacant: "scribe"})
		_, made := CreateVacant.Call(t.Context(), c, op.NewBody(Creation{Name: "scribe"}))
		answer = `{"vacants":[` + one + `],"next":""}`
		_, listed := ListVacants.Call(t.Context(), c, ListVacantsRequest{Cursor: "", All: false})
		for op, err := range map[string]error{"Show": shown, "Change": changed, "Delete": gone, "Create": made, "List": listed} {
			if tt.ok && err != nil || !tt.ok && !problem.Is(err, problem.Untrusted) {
				t.Errorf("%s() of %s = %v, want it taken: %t", op, tt.what, err, tt.ok)
			}
		}
	}
	answer = fmt.Sprintf(`{"vacant":`+good+`,"receipt":{"event_seq":1,"visibility":"PUBLIC\u001b[2J"}}`, id, `"scribe"`, `"ACTIVE"`, `"2026-01-02T03:04:05.000000+00:00"`)
	if _, err := PublishVacant.Call(t.Context(), c, NewVacantRequest("scribe", Publication{})); !problem.Is(err, problem.Untrusted) {
		t.Errorf("Publish() = %v, want that the receipt is none", err)
	}
	answer = `{"entries":[{"position":1,"kind":"born","payload":{},"ts":"now\u001b[2J"}],"next":2}`
	if _, err := GetLogbook.Call(t.Context(), c, LogbookRequest{VacantRef: VacantRef{Vacant: "scribe"}, From: 1}); err == nil {
		t.Error("Logbook() takes an entry whose time is none")
	}
}
