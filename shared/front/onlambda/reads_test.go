package onlambda

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/obs"
)

// An instance's read limit counts all its invocations, whoever calls and
// whether they read or publish, and a refusal comes before any read. Revocations
// are counted apart.
func TestAnInstanceThatHasReadTooMuchRefusesUntilItIsPaidBack(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := Settings{EdgeSecrets: []string{secret}, ReadRate: edge.Rate{PerSecond: 12.5, Burst: 50}}
	read := 0.
	b := newBenchAt(s, func() time.Time { return at }, func(_ http.ResponseWriter, r *http.Request) {
		units, err := strconv.ParseFloat(r.URL.Query().Get("units"), 64)
		if err != nil {
			t.Error(err)
		}
		u := obs.UsageOf(r.Context())
		u.EndRequest(u.BeginRequest(), units, 0)
		read += units
	})
	known := func(method, path, units, from string) string {
		e := strings.Replace(event(method, path, ""), `"headers":{`, `"headers":{"x-vacancy-edge":"`+secret+`","cloudfront-viewer-address":"`+from+`:1",`, 1)
		return strings.Replace(e, `"rawPath"`, `"rawQueryString":"units=`+units+`","rawPath"`, 1)
	}
	type answer struct {
		Status int
		Retry  string
		Read   float64 // so far
	}
	for _, tt := range []struct {
		name  string
		after time.Duration
		event string
		want  answer
	}{
		{"a search of 20 hits", 0, known("GET", "/v1/search", "20", "192.0.2.1"), answer{200, "", 20}},
		{"another", 0, known("GET", "/v1/search", "20", "192.0.2.2"), answer{200, "", 40}},
		{"many events, into debt", 0, known("GET", "/v1/event_log/x", "60", "192.0.2.3"), answer{200, "", 100}},
		{"a stranger's publishing", 0, known("POST", "/v1/halo", "2", "192.0.2.4"), answer{429, "5", 100}},
		{"revoking has a budget of its own", time.Second, known("POST", "/v1/revoke_halo", "2", "192.0.2.5"), answer{200, "", 102}},
		{"what never came by the edge is not told so", 0, event("GET", "/v1/search", ""), answer{403, "", 102}},
		{"publishing when it is paid back", 3001 * time.Millisecond, known("POST", "/v1/halo", "2", "192.0.2.4"), answer{200, "", 104}},
		{"and no sooner the next", 0, known("GET", "/v1/search", "1", "192.0.2.4"), answer{429, "1", 104}},
	} {
		at = at.Add(tt.after)
		r := b.send(t, tt.event)
		if diff := cmp.Diff(tt.want, answer{r.StatusCode, r.Headers["Retry-After"], read}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if refused := `"code":"too_many"`; (r.StatusCode == 429) != strings.Contains(r.Body, refused) {
			t.Errorf("%s: answer = %d %s, want %s with 429", tt.name, r.StatusCode, r.Body, refused)
		}
		for _, line := range b.lines(t) {
			if (line["rcu"] != nil) != (r.StatusCode == 200) {
				t.Errorf("%s: the line of a %d tells of %v units read", tt.name, r.StatusCode, line["rcu"])
			}
		}
	}
}
