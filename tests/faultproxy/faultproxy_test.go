package faultproxy_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/tests/faultproxy"
)

const transaction = `{"ClientRequestToken":"token","TransactItems":[{},{}]}`

// send posts a request like the SDK and returns its status and body; status 0
// is a broken connection, -1 a client that gave up.
func send(t *testing.T, url, operation, body string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	in, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	in.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	resp, err := http.DefaultClient.Do(in)
	if errors.Is(err, context.DeadlineExceeded) {
		return -1, ""
	}
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(answer)
}

func TestEachFaultIsWhatItSays(t *testing.T) {
	for _, tt := range []struct {
		fault     faultproxy.Fault
		forwarded int64
		status    int
		says      string
	}{
		{faultproxy.Pass, 1, 200, "answer 1"},
		{faultproxy.Drop, 0, 0, ""},
		{faultproxy.DropAnswer, 1, 0, ""},
		{faultproxy.FailAfter, 1, 500, "InternalServerError"},
		{faultproxy.Delay, 1, 200, "answer 1"},
		{faultproxy.Twice, 2, 200, "answer 2"},
		{faultproxy.TwiceLater, 2, 200, "answer 2 without token"},
		{faultproxy.Throttle, 0, 400, "ThrottlingException"},
		{faultproxy.Exceed, 0, 400, "ProvisionedThroughputExceededException"},
		{faultproxy.Conflict, 0, 400, `"CancellationReasons":[{"Code":"None"},{"Code":"TransactionConflict"`},
		{faultproxy.Internal, 0, 500, "InternalServerError"},
		{faultproxy.Hang, 0, -1, ""},
		{faultproxy.HangAfter, 1, -1, ""},
		{faultproxy.Late, 0, 500, "InternalServerError"},
	} {
		t.Run(tt.fault.String(), func(t *testing.T) {
			var forwarded atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				io.WriteString(w, "answer "+string(rune('0'+forwarded.Add(1))))
				if !strings.Contains(string(body), "token") {
					io.WriteString(w, " without token")
				}
			}))
			defer server.Close()
			p := faultproxy.Start(t, server.URL)
			p.Set(faultproxy.Rule{Operation: "TransactWriteItems", Nth: 2, Fault: tt.fault, For: 10 * time.Millisecond})
			// Neither another operation nor the first of its own kind gets a
			// fault.
			for _, operation := range []string{"GetItem", "TransactWriteItems"} {
				if status, _ := send(t, p.URL, operation, transaction); status != 200 {
					t.Fatalf("%s = %d, want 200", operation, status)
				}
			}
			forwarded.Store(0)
			status, body := send(t, p.URL, "TransactWriteItems", transaction)
			if status != tt.status || !strings.Contains(body, tt.says) {
				t.Errorf("answer = %d %s, want %d with %q", status, body, tt.status, tt.says)
			}
			if got := forwarded.Load(); got != tt.forwarded {
				t.Errorf("%d requests reached the server, want %d", got, tt.forwarded)
			}
			if got := p.Seen("TransactWriteItems"); got != 2 {
				t.Errorf("Seen() = %d, want 2", got)
			}
		})
	}
}

func TestLateRequestsArriveWhenReleased(t *testing.T) {
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
	}))
	defer server.Close()
	p := faultproxy.Start(t, server.URL)
	p.Set(faultproxy.Rule{Fault: faultproxy.Late})
	send(t, p.URL, "PutItem", "first")
	send(t, p.URL, "PutItem", "second")
	if len(bodies) != 0 {
		t.Fatalf("the server got %v before Release()", bodies)
	}
	statuses, err := p.Release()
	if err != nil || len(statuses) != 2 || statuses[0] != 200 || statuses[1] != 200 {
		t.Errorf("Release() = %v, %v, want two of 200", statuses, err)
	}
	if len(bodies) != 2 || bodies[0] != "first" || bodies[1] != "second" {
		t.Errorf("the server got %v, want first, second", bodies)
	}
}

func TestConflictOfASingleWriteHasItsOwnName(t *testing.T) {
	p := faultproxy.Start(t, "http://127.0.0.1:0")
	p.Set(faultproxy.Rule{Fault: faultproxy.Conflict})
	if status, body := send(t, p.URL, "PutItem", "{}"); status != 400 || !strings.Contains(body, "#TransactionConflictException") {
		t.Errorf("answer = %d %s, want 400 TransactionConflictException", status, body)
	}
}

func TestWatcherBreaksRequestsBeforeAndAfterTheServer(t *testing.T) {
	var forwarded atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		forwarded.Add(1)
		io.WriteString(w, "done")
	}))
	defer server.Close()
	p := faultproxy.Start(t, server.URL)
	for _, tt := range []struct {
		name      string
		watch     faultproxy.Watcher
		status    int
		forwarded int64
	}{
		{"before", func(string, []byte, bool) bool { return false }, 0, 0},
		{"after", func(_ string, _ []byte, carriedOut bool) bool { return !carriedOut }, 0, 1},
		{"never", func(operation string, body []byte, _ bool) bool {
			return operation == "PutItem" && string(body) == "item"
		}, 200, 1},
		{"unwatched", nil, 200, 1},
	} {
		forwarded.Store(0)
		p.Watch(tt.watch)
		if status, _ := send(t, p.URL, "PutItem", "item"); status != tt.status || forwarded.Load() != tt.forwarded {
			t.Errorf("%s: status = %d, %d forwarded; want %d, %d", tt.name, status, forwarded.Load(), tt.status, tt.forwarded)
		}
	}
}

func TestCutConnectionsAreMadeAgain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	p := faultproxy.Start(t, server.URL)
	client := &http.Client{Transport: &http.Transport{}}
	for range 2 {
		resp, err := client.Get(p.URL) // the first leaves an idle connection
		if err != nil {
			t.Fatalf("Get() = %v, want an answer", err)
		}
		resp.Body.Close()
		p.Cut()
	}
}
