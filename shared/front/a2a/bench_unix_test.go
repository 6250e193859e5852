//go:build unix

package a2a_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkCompletion compares a chat completion and the same plain message: cpu-ratio is at most 1.3. They
// alternate, because the machine may do other work.
func BenchmarkCompletion(b *testing.B) {
	w := newWorld(b)
	spent := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	serve := func(path, body, want string) time.Duration {
		before := spent()
		for range 100 {
			q := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
			q.Header.Set("Content-Type", "application/json")
			out := httptest.NewRecorder()
			w.http.Config.Handler.ServeHTTP(out, q)
			if out.Code != http.StatusOK || !strings.Contains(out.Body.String(), want) {
				b.Fatalf("%d %s", out.Code, out.Body)
			}
		}
		return spent() - before
	}
	var plain, completion time.Duration
	for b.Loop() {
		plain += serve("/v/echo", send(message("hello", "")), "TASK_STATE_COMPLETED")
		completion += serve("/v/echo/v1/chat/completions", `{"model":"echo","messages":[{"role":"user","content":"hello"}]}`, `"finish_reason":"stop"`)
	}
	b.ReportMetric(completion.Seconds()/plain.Seconds(), "cpu-ratio")
	b.ReportMetric(float64(completion.Microseconds())/float64(100*b.N), "cpu-µs/completion")
}
