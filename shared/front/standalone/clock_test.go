package standalone

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestRequestsSetTheTestClock(t *testing.T) {
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	c := &testClock{realNow: func() time.Time { return at }}
	var seen time.Time
	h := c.withClockHeader(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen = c.Now() }))
	for _, step := range []struct {
		header string
		status int
		want   time.Time
	}{
		{"", 200, at}, {"2026-11-25T12:00:00Z", 200, at.Add(24 * time.Hour)}, {"", 200, at.Add(24 * time.Hour)},
		{"tomorrow", 400, at.Add(24 * time.Hour)}, {"2026-11-24T13:00:00+01:00", 200, at},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		if step.header != "" {
			r.Header.Set(ClockHeader, step.header)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != step.status || !seen.Equal(step.want) {
			t.Errorf("%s %q = %d at %s, want %d at %s", ClockHeader, step.header, w.Code, seen, step.status, step.want)
		}
	}
	at = at.Add(time.Minute)
	if got := c.Now(); !got.Equal(at) {
		t.Errorf("the clock stands at %s, want that it runs on to %s", got, at)
	}
}
