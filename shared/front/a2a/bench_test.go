package a2a_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// BenchmarkSend compares the handlers of a plain message that blocks and of a signed
// call to the same echo over a memory store.
func BenchmarkSend(b *testing.B) {
	w := newWorld(b)
	serve := func(b *testing.B, path, body, want string) {
		q := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		q.Header.Set("Content-Type", "application/json")
		out := httptest.NewRecorder()
		w.http.Config.Handler.ServeHTTP(out, q)
		if out.Code != http.StatusOK || !strings.Contains(out.Body.String(), want) { // an error of JSON-RPC has status 200
			b.Fatalf("%d %s", out.Code, out.Body)
		}
	}
	b.Run("plain", func(b *testing.B) {
		body := send(message("hello", ""))
		for b.Loop() {
			serve(b, "/v/echo", body, "TASK_STATE_COMPLETED")
		}
	})
	b.Run("signed", func(b *testing.B) {
		s := w.signer()
		var prev identity.Hash
		bodies := make([]string, 0, b.N)
		seq := int64(0)
		for b.Loop() {
			b.StopTimer()
			seq++
			e := s.envelope(w.echo.ID, seq, prev, "hello", "", "")
			prev = e.Hash()
			bodies = append(bodies[:0], string(envelope.AppendRequest(nil, nil, e)))
			b.StartTimer()
			serve(b, "/a2a/message/send", bodies[0], `"result"`)
		}
	})
}

// BenchmarkStreams runs many streams at once.
func BenchmarkStreams(b *testing.B) {
	w := newWorld(b)
	body := send(message("hello", ""))
	body = strings.Replace(body, "SendMessage", "SendStreamingMessage", 1)
	var n atomic.Int64
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			q := httptest.NewRequest(http.MethodPost, "/v/echo", strings.NewReader(body))
			q.Header.Set("Content-Type", "application/json")
			out := httptest.NewRecorder()
			w.http.Config.Handler.ServeHTTP(out, q)
			if !strings.Contains(out.Body.String(), "TASK_STATE_COMPLETED") {
				b.Errorf("%d %s", out.Code, out.Body)
				return
			}
			n.Add(int64(strings.Count(out.Body.String(), "\ndata: ")))
		}
	})
	b.ReportMetric(float64(n.Load())/float64(b.N), "events/op")
}

// BenchmarkPickUp measures from the acceptance of a message in the background to the
// start of its turn, by the times of its events.
func BenchmarkPickUp(b *testing.B) {
	w := newWorld(b)
	body := strings.TrimSuffix(message("hi", ""), "}") + `,"configuration":{"returnImmediately":true}}`
	var waits []time.Duration
	for b.Loop() {
		id := at(b, w.rpc("/v/echo", "SendMessage", body).body, "result", "task", "id")
		var times []time.Time
		for len(times) < 2 {
			times = times[:0]
			for _, f := range frames(w.rpc("/v/echo", "SubscribeToTask", `{"id":"`+id+`"}`, "Last-Event-ID: 0").body) {
				_, f, _ = strings.Cut(f, " ")
				for _, name := range []string{"task", "statusUpdate"} {
					if s, err := time.Parse(time.RFC3339Nano, at(b, f, "result", name, "status", "timestamp")); err == nil {
						times = append(times, s)
					}
				}
			}
		}
		waits = append(waits, times[1].Sub(times[0]))
	}
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)/2].Milliseconds()), "ms-p50")
}
