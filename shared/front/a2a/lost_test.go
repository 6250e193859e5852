package a2a_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/store"
)

// breaks sends a completion some times at once, and breaks the connections once the agents have been asked.
func (w *counting) breaks(t *testing.T, body string, times int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var gone sync.WaitGroup
	for range times {
		q := w.request(ctx, t, body)
		gone.Go(func() {
			if r, err := http.DefaultClient.Do(q); err == nil {
				<-ctx.Done()
				r.Body.Close()
			}
		})
	}
	for range times {
		await.Receive(t, "an agent is asked", w.begun)
	}
	cancel()
	gone.Wait()
	await.Until(t, "the host has recorded the breaks", func() bool { return w.lost(t) == times })
}

// request is a completion with the key of acme.
func (w *counting) request(ctx context.Context, t *testing.T, body string) *http.Request {
	t.Helper()
	q, err := http.NewRequestWithContext(ctx, "POST", w.http.URL+"/v/counter"+completions, strings.NewReader(body))
	must(t, err)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Authorization", strings.TrimPrefix(w.acme, "Authorization: "))
	return q
}

// lost counts the turns that are recorded as lost.
func (w *counting) lost(t *testing.T) (n int) {
	t.Helper()
	w.store.lost.Range(func(_, data any) bool {
		if !strings.Contains(data.(string), `"0001-01-01T00:00:00Z"`) {
			n++
		}
		return true
	})
	return n
}

// A client that says nothing repeats its request on another connection: if the host saw the first one break, it is
// the same call, whole and as a stream. Each break stands for one request.
func TestARequestWhoseConnectionBrokeIsChargedOnce(t *testing.T) {
	for name, more := range map[string]string{"whole": "", "stream": `,"stream":true`} {
		t.Run(name, func(t *testing.T) {
			w := countingWorld(t)
			body := asking("wait", more)
			said := func(got answer) string {
				if more == "" {
					return content(t, got)
				}
				return saidBy(chunksOf(t, got.body))
			}
			w.breaks(t, body, 1)
			next := make(chan answer)
			go func() { next <- w.do("POST", "/v/counter"+completions, body, w.acme) }()
			w.goOn <- struct{}{}
			if got := said(await.Receive(t, "the repeated request", next)); got != "answer 1" {
				t.Errorf("the request after the break: %q", got)
			}
			w.wantBalance("acme", 98_000)
			await.Until(t, "the host has recorded that the answer came", func() bool { return w.lost(t) == 0 })
			close(w.goOn)
			if got := said(w.do("POST", "/v/counter"+completions, body, w.acme)); got != "answer 2" {
				t.Errorf("an equal request after that: %q", got)
			}
			w.wantBalance("acme", 96_000)
		})
	}
}

// A break stands for no other payer, no other body, and not for long.
func TestABreakIsOfOnePayerAndBodyForAWhile(t *testing.T) {
	w := countingWorld(t)
	body := asking("wait", "")
	w.breaks(t, body, 1)
	close(w.goOn)
	ask := func(body string, headers ...string) string {
		return content(t, w.do("POST", "/v/counter"+completions, body, headers...))
	}
	if got := ask(body, w.other); got != "answer 2" {
		t.Errorf("another account: %q", got)
	}
	if got := ask(asking("wait", `,"seed":1`), w.acme); got != "answer 3" {
		t.Errorf("another body: %q", got)
	}
	w.skip.Add(int64(16 * time.Minute))
	if got := ask(body, w.acme); got != "answer 4" {
		t.Errorf("after 16 minutes: %q", got)
	}
	if got := ask(body, w.acme, again); got != "answer 4" {
		t.Errorf("a retry of that: %q", got)
	}
}

// A retry that breaks, too, leaves the answer for the next one, and a retry that says that it is one ends the
// break.
func TestABreakLastsUntilTheAnswerCame(t *testing.T) {
	w := countingWorld(t)
	body := asking("wait", "")
	w.breaks(t, body, 1)
	ctx, cancel := context.WithCancel(t.Context())
	q := w.request(ctx, t, body)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if r, err := http.DefaultClient.Do(q); err == nil {
			r.Body.Close()
		}
	}()
	cancel() // at once, or while it waits: the break stays recorded
	await.Receive(t, "the retry's client is gone", gone)
	close(w.goOn)
	if got := content(t, w.do("POST", "/v/counter"+completions, body, w.acme, again)); got != "answer 1" {
		t.Errorf("the next retry: %q", got)
	}
	await.Until(t, "the break is over", func() bool { return w.lost(t) == 0 })
	w.wantBalance("acme", 98_000)
}

// Ten equal requests at once are ten calls, also after one whose connection broke: one of them repeats it.
func TestEqualRequestsAtOnceStaySeparate(t *testing.T) {
	for name, broken := range map[string]int{"none broke": 0, "one broke": 1, "three broke": 3} {
		t.Run(name, func(t *testing.T) {
			w := countingWorld(t)
			body := asking("wait", "")
			if broken > 0 {
				w.breaks(t, body, broken)
			}
			var all sync.WaitGroup
			var mu sync.Mutex
			answers := map[string]int{}
			for range 10 {
				all.Go(func() {
					got := w.do("POST", "/v/counter"+completions, body, w.acme)
					mu.Lock()
					defer mu.Unlock()
					answers[content(t, got)]++
				})
			}
			for range 10 - broken {
				await.Receive(t, "an agent is asked", w.begun)
			}
			close(w.goOn)
			all.Wait()
			if len(answers) != 10 || w.turns.Load() != 10 {
				t.Errorf("%d turns ran, and the answers are %v; want ten of each", w.turns.Load(), answers)
			}
		})
	}
}

// A connection that breaks while the answer is written counts, and so does the stream of a client that is gone.
func TestAnAnswerThatCannotBeWrittenIsLost(t *testing.T) {
	w := countingWorld(t)
	body := asking("pieces", `,"stream":true`)
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.http.URL, "http://"))
	must(t, err)
	fmt.Fprintf(conn, "POST /v/counter%s HTTP/1.1\r\nHost: %s\r\n%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", completions, strings.TrimPrefix(w.http.URL, "http://"), w.acme, len(body), body)
	await.Receive(t, "the agent is asked", w.begun)
	got := make([]byte, 15)
	if _, err := conn.Read(got); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 200") {
		t.Fatalf("the stream begins %q, %v", got, err)
	}
	must(t, conn.(*net.TCPConn).SetLinger(0))
	conn.Close() // resets the connection
	await.Until(t, "the host has recorded the break", func() bool { return w.lost(t) == 1 })
	close(w.goOn)
	if text := saidBy(chunksOf(t, w.do("POST", "/v/counter"+completions, body, w.acme).body)); text != "one, two, answer 1" {
		t.Errorf("the repeated stream says %q", text)
	}
	w.wantBalance("acme", 98_000)
}

// An answer that was charged and could not be read is not charged again, though its caller is told to resend.
func TestAnAnswerThatStorageHidesIsChargedOnce(t *testing.T) {
	for name, more := range map[string]string{"whole": "", "stream": `,"stream":true`} {
		t.Run(name, func(t *testing.T) {
			w := countingWorld(t)
			body := asking("wait", more)
			first := make(chan answer)
			go func() { first <- w.do("POST", "/v/counter"+completions, body, w.acme) }()
			await.Receive(t, "the agent is asked", w.begun)
			w.store.armed.Store(armedToFail)
			close(w.goOn)
			if got := await.Receive(t, "the refusal", first); !strings.Contains(got.body, "storage is unavailable") {
				t.Fatalf("the first request: %d %s", got.status, got.body)
			}
			if got := w.do("POST", "/v/counter"+completions, body, w.acme); !strings.Contains(got.body, "answer 1") {
				t.Errorf("the second request: %d %s", got.status, got.body)
			}
			w.wantBalance("acme", 98_000)
		})
	}
}

// A turn that failed was not charged. The next request runs a new turn instead of repeating the failure.
func TestALostFailureIsNotRepeated(t *testing.T) {
	w := countingWorld(t)
	body := asking("wait busy", "")
	w.breaks(t, body, 1)
	close(w.goOn)
	await.Until(t, "the turn has failed, and a new one answers", func() bool {
		got := w.do("POST", "/v/counter"+completions, body, w.acme)
		return got.status == 200 && content(t, got) == "answer 2"
	})
	w.wantBalance("acme", 98_000)
}

// Older losses do not hide the newest one.
func TestManyLossesHideNone(t *testing.T) {
	w := countingWorld(t)
	body := asking("wait", "")
	w.breaks(t, body, 1)
	var rows []store.Write
	w.store.lost.Range(func(key, data any) bool {
		prefix, id, _ := strings.Cut(strings.TrimPrefix(key.(store.Key).Sort, "lost-"), "-")
		for n := range 100 {
			at := key.(store.Key)
			at.Sort = "lost-" + strings.Repeat("f", len(prefix)) + fmt.Sprintf("-%s%03d", id, n)
			rows = append(rows, store.Put{Key: at, WriteID: store.WriteID{byte(n + 1)}, Data: []byte(strings.ReplaceAll(data.(string), id, fmt.Sprintf("%s%03d", id, n)))})
		}
		return true
	})
	for _, row := range rows {
		must(t, w.store.Store.Commit(t.Context(), row))
	}
	close(w.goOn)
	if got := content(t, w.do("POST", "/v/counter"+completions, body, w.acme)); got != "answer 1" {
		t.Errorf("the request after the break: %q", got)
	}
}

// An answer that was paid for comes also if the account has too little money for a new call.
func TestALostAnswerComesWithoutMoney(t *testing.T) {
	w := countingWorld(t)
	body := asking("wait", "")
	w.breaks(t, body, 1)
	w.setPrice(price.Price{Flat: 1_000_000})
	close(w.goOn)
	if got := content(t, w.do("POST", "/v/counter"+completions, body, w.acme)); got != "answer 1" {
		t.Errorf("the request after the break: %q", got)
	}
	if got := w.do("POST", "/v/counter"+completions, body, w.acme); got.status != http.StatusPaymentRequired {
		t.Errorf("the next: %d %s", got.status, got.body)
	}
}
