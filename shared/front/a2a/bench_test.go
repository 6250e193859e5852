package a2a_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// BenchmarkSend compares the handlers of a plain message that blocks and of a signed
// call to the same echo over a memory store.
func BenchmarkSend(b *testing.B) {
	w := newWorld(b)
	serve := func(b *testing.B, path, body string) {
		q := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		q.Header.Set("Content-Type", "application/json")
		out := httptest.NewRecorder()
		w.http.Config.Handler.ServeHTTP(out, q)
		if out.Code != http.StatusOK {
			b.Fatalf("%d %s", out.Code, out.Body)
		}
	}
	b.Run("plain", func(b *testing.B) {
		body := send(message("hello", ""))
		for b.Loop() {
			serve(b, "/v/echo", body)
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
			serve(b, "/a2a/message/send", bodies[0])
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
			n.Add(int64(strings.Count(out.Body.String(), "\ndata: ")))
		}
	})
	b.ReportMetric(float64(n.Load())/float64(b.N), "events/op")
}
