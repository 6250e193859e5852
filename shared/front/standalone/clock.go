package standalone

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// ClockHeader sets the host's clock for the request and all later ones if Config.TestClock is set.
const ClockHeader = "X-Dev-Now"

type testClock struct {
	realNow func() time.Time
	offset  atomic.Int64 // in nanoseconds
}

func (c *testClock) Now() time.Time { return c.realNow().Add(time.Duration(c.offset.Load())) }

func (c *testClock) withClockHeader(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text := r.Header.Get(ClockHeader); text != "" {
			testTime, err := time.Parse(time.RFC3339, text)
			if err != nil {
				httpapi.Fail(w, problem.Invalid(ClockHeader, "a time such as 2026-11-24T12:00:00Z", httpapi.QuoteTruncated(text)))
				return
			}
			c.offset.Store(int64(testTime.Sub(c.realNow())))
		}
		next.ServeHTTP(w, r)
	})
}
