package onlambda

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestAStreamComesInPiecesAndEndsLast(t *testing.T) {
	gate := make(chan bool)
	b := newBench(Settings{}, func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 5 || r.Header.Get("Cookie") != "a=1; b=2" || r.Host != "x.lambda-url.us-east-1.on.aws" {
			t.Errorf("the request has %d bytes, cookies %q, host %q", r.ContentLength, r.Header.Get("Cookie"), r.Host)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		http.SetCookie(w, &http.Cookie{Name: "c", Value: "3"})
		_, _ = io.WriteString(w, "one,")
		_ = http.NewResponseController(w).Flush()
		<-gate
		_, _ = io.WriteString(w, "two")
	})
	ended := false
	b.afterRequest = func() { ended = true }
	e := strings.Replace(event("POST", "/x", "aGVsbG8="), `"body"`, `"isBase64Encoded":true,"cookies":["a=1","b=2"],"body"`, 1)
	s, err := b.invokeStream(t.Context(), json.RawMessage(e))
	if err != nil || s.StatusCode != 200 || s.Headers["Content-Type"] != "text/event-stream" || len(s.Cookies) != 1 {
		t.Fatalf("stream() = %+v, %v", s, err)
	}
	first := make([]byte, 4)
	if _, err := io.ReadFull(s.Body, first); err != nil || string(first) != "one," {
		t.Errorf("the first piece = %q, %v", first, err)
	}
	close(gate) // while the handler waited, its first piece came
	rest, err := io.ReadAll(s.Body)
	if err != nil || string(rest) != "two" || !ended {
		t.Errorf("the rest = %q, %v; ended before the end of the stream: %t", rest, err, ended)
	}
}
