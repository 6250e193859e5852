package promises

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
)

// mostWaits are the requests of one sender that may wait at once, by protocol: at an ordinary vacant,
// and at one that takes minutes.
var mostWaits = map[string]struct{ ordinary, slow int }{
	"text":               {64, 16},
	"a2a":                {64, 16},
	"a2a stream":         {16, 16},
	"a2a 0.3":            {64, 16},
	"mcp":                {64, 16},
	"mcp stream":         {16, 16},
	"host's mcp":         {64, 16},
	"completion":         {64, 16},
	"completion stream":  {16, 16},
	"response":           {64, 16},
	"response stream":    {16, 16},
	"a2a subscribe":      {16, 16},
	"mcp get_task":       {16, 16},
	"mcp get_task batch": {16, 16},
}

// Whatever waits holds a connection and memory, and the platform's time: no sender has more than its
// share, in whatever form it asks.
func TestWhatWaitsIsSharedOut(t *testing.T) {
	for name, most := range mostWaits {
		for kind, most := range map[string]int{"ordinary": most.ordinary, "slow": most.slow} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				w := openRuns(t, "priced")
				w.gate = make(chan struct{})
				_, err := w.Server.Vacants.SetPrice(t.Context(), w.shop.ID, price.Price{})
				w.Must(err)
				request := w.waiting(t, name)
				if kind == "slow" {
					w.slowly(func() {})
				}
				const above = 4
				var refused, ended atomic.Int64
				var all sync.WaitGroup
				for n := range most + above {
					r := request(n)
					all.Go(func() {
						rec := httptest.NewRecorder()
						w.Public.ServeHTTP(rec, r)
						if rec.Code == http.StatusTooManyRequests || strings.Contains(rec.Body.String(), `"too_many"`) {
							refused.Add(1)
						}
						ended.Add(1)
					})
				}
				await.Until(t, fmt.Sprintf("all but %d requests are refused", most), func() bool { return ended.Load() >= above })
				if refused.Load() != above {
					t.Errorf("%d of %d requests were refused, want %d", refused.Load(), most+above, above)
				}
				close(w.gate)
				all.Wait()
			})
		}
	}
}

// waiting returns the requests of a row, which wait until the gate opens.
func (w *runs) waiting(t *testing.T, name string) func(n int) *http.Request {
	t.Helper()
	row, ok := oneToken[name]
	if !ok {
		task := w.startTask(t)
		row.post = func(_ *runs, n int) (string, string, string) {
			get := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"get_task","arguments":{"task":%q,"wait":20}}}`, n, task)
			switch name {
			case "a2a subscribe":
				return w.at() + "/tasks/" + task + ":subscribe", w.key, ""
			case "mcp get_task batch":
				get = "[" + get + "]"
			}
			return w.at() + "/mcp", w.key, get
		}
	}
	return func(n int) *http.Request {
		path, key, body := row.post(w, n)
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)).WithContext(t.Context())
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("A2A-Version", "1.0")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if strings.HasSuffix(path, "/text") {
			r.Header.Set("Content-Type", "text/plain")
			r.Header.Set("Accept", "text/plain")
		}
		r.Header.Set("Authorization", "Bearer "+key)
		return r
	}
}

// startTask returns the id of a task at work.
func (w *runs) startTask(t *testing.T) string {
	t.Helper()
	var got struct {
		Task struct{ ID string }
	}
	if body := w.post(w.at()+"/message:send", w.key, sayAs(0, `,"configuration":{"returnImmediately":true}`)); json.Unmarshal([]byte(body), &got) != nil || got.Task.ID == "" {
		t.Fatalf("a message in the background = %s", body)
	}
	return got.Task.ID
}
