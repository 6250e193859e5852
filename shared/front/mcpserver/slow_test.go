package mcpserver_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// An answer that takes longer than a response may is fetched later, or stopped.
func TestASlowAnswerIsFetchedLater(t *testing.T) {
	w := newWorldWithin(t, 50*time.Millisecond, func(c *serve.Config) { c.CallTimeout = 5 * time.Minute })
	w.create(vacants.CreateSpec{Name: "slow", Substrate: "slow"})
	first := w.call("/v/slow/mcp", "ask", `{"message":"hi"}`)
	task := fmt.Sprintf(`{"task":%q}`, first.Data["task"])
	if first.Is || first.Data["state"] != "working" || !strings.Contains(first.text(), `with the tool get_task and {"task": "`) || first.Data["text"] != nil {
		t.Fatalf("%s %v", first.text(), first.Data)
	}
	if got := w.call("/v/slow/mcp", "get_task", task); got.Is || got.Data["state"] != "working" || got.Data["context"] != first.Data["context"] {
		t.Errorf("while it works: %v", got.Data)
	}
	w.gate <- "done"
	close(w.gate)
	if got := w.call("/v/slow/mcp", "get_task", strings.TrimSuffix(task, "}")+`,"wait":20}`); got.Is || got.text() != "done" || got.Data["finish"] != "stop" {
		t.Errorf("at the end: %s %v", got.text(), got.Data)
	}
}

func TestASlowAnswerIsStopped(t *testing.T) {
	w := newWorldWithin(t, 50*time.Millisecond, func(c *serve.Config) { c.CallTimeout = 5 * time.Minute })
	w.create(vacants.CreateSpec{Name: "slow", Substrate: "slow"})
	for _, said := range []string{"", "a part"} {
		first := w.call("/v/slow/mcp", "ask", `{"message":"hi"}`)
		task := fmt.Sprintf(`{"task":%q}`, first.Data["task"])
		if said != "" {
			w.gate <- said
			await.Until(t, "the piece can be read", func() bool {
				got := w.do("GET", "/v/slow/tasks/"+first.Data["task"].(string), "", "A2A-Version: 1.0")
				return strings.Contains(got.body, said)
			})
		}
		got := w.call("/v/slow/mcp", "stop_task", task)
		want := map[string]string{"": "The task is canceled, without an answer.", "a part": "a part"}[said]
		if got.Is || got.text() != want || (said == "") != (got.Data["state"] == "canceled") || (said != "") != (got.Data["finish"] == "canceled") {
			t.Errorf("stopped after %q: %s %v", said, got.text(), got.Data)
		}
	}
}

// A client that goes away stops nothing: its question is answered once, and found by its key.
func TestAQuestionIsAnsweredWithoutItsClient(t *testing.T) {
	for _, meta := range []string{`{"io.github.vacancy-host/idempotency-key":"a"}`, `{"io.github.vacancy-host/idempotency-key":"b","progressToken":1}`} {
		w := newWorld(t, func(c *serve.Config) { c.CallTimeout = 5 * time.Minute })
		w.create(vacants.CreateSpec{Name: "slow", Substrate: "slow"})
		acme := "Authorization: Bearer " + w.key("acme", billing.KeyOptions{})
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan bool)
		go func() {
			defer close(gone)
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"message":"hi"},"_meta":` + meta + `}}`
			q, _ := http.NewRequestWithContext(ctx, "POST", w.http.URL+"/v/slow/mcp", strings.NewReader(body))
			q.Header.Set("Content-Type", "application/json")
			q.Header.Set("Accept", "*/*")
			q.Header.Set("Authorization", strings.TrimPrefix(acme, "Authorization: "))
			if r, err := http.DefaultClient.Do(q); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				r.Body.Close()
			}
		}()
		w.gate <- "a " // the turn runs
		leave()
		<-gone
		w.gate <- "b"
		close(w.gate)
		meta = strings.Replace(meta, `,"progressToken":1`, "", 1)
		if got := w.callMeta("/v/slow/mcp", "ask", `{"message":"hi"}`, meta, acme); got.text() != "a b" {
			t.Errorf("the answer is %q %v, want the one of the turn that ran", got.text(), got.Data)
		}
	}
}

// A client that asks for the task learns it before the first piece, and stops the work by it.
func TestAQuestionNamesItsTaskBeforeItsAnswer(t *testing.T) {
	w := newWorld(t)
	w.create(vacants.CreateSpec{Name: "slow", Substrate: "slow"})
	tasks := make(chan string, 3)
	s := w.connect("/v/slow/mcp", "", &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		task, _ := r.Params.Meta[mcptool.MetaTaskID].(string)
		tasks <- task + r.Params.Message
	}})
	done := make(chan *sdk.CallToolResult, 1)
	go func() {
		p := &sdk.CallToolParams{Meta: sdk.Meta{mcptool.MetaTaskID: true}, Name: "ask", Arguments: map[string]any{"message": "hi"}}
		p.SetProgressToken("t")
		got, err := s.CallTool(t.Context(), p)
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	id := <-tasks
	w.gate <- "a part"
	if piece := <-tasks; piece != "a part" {
		t.Errorf("the first piece is %q", piece)
	}
	stopped := w.call("/v/slow/mcp", "stop_task", fmt.Sprintf(`{"task":%q}`, id))
	if got := <-done; stopped.Is || stopped.Data["finish"] != "canceled" || got == nil || got.IsError || got.Content[0].(*sdk.TextContent).Text != "a part" {
		t.Errorf("the task %q: stopped %v, answered %+v", id, stopped.Data, got)
	}
}

// An address has as many streams at the host's server as at the servers of vacants, together.
func TestStreamsAtTheHostsServerAreCounted(t *testing.T) {
	w := newWorld(t, func(c *serve.Config) { c.CallTimeout = 5 * time.Minute })
	w.publish(w.create(vacants.CreateSpec{Name: "slow", Substrate: "slow"}))
	const most = 16
	body := func(tool, arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `,"_meta":{"progressToken":1}}}`
	}
	first := w.rpc("/v/slow", "SendMessage", `{"message":{"role":"ROLE_USER","messageId":"m","parts":[{"text":"hi"}]},"configuration":{"returnImmediately":true}}`)
	var sent struct {
		Result struct{ Task struct{ ID string } }
	}
	w.Must(json.Unmarshal([]byte(first.body), &sent))
	follow := body("get_task", fmt.Sprintf(`{"agent":"slow","task":%q,"wait":20}`, sent.Result.Task.ID))
	answers := make(chan answer, most+4)
	for range most + 4 {
		go func() {
			answers <- w.do("POST", "/mcp", follow, "Content-Type: application/json", "Accept: application/json, text/event-stream")
		}()
	}
	for range 4 {
		if got := <-answers; got.status != http.StatusTooManyRequests || !strings.Contains(got.body, "you have 16 streams open") {
			t.Errorf("a stream above the limit: %d %s", got.status, got.body)
		}
	}
	if got := w.do("POST", "/v/echo/mcp", body("ask", `{"message":"hi"}`), "Content-Type: application/json", "Accept: application/json, text/event-stream"); got.status != http.StatusTooManyRequests {
		t.Errorf("a stream of a vacant besides: %d %s", got.status, got.body)
	}
	w.gate <- "done"
	close(w.gate)
	for range most {
		if got := <-answers; got.status != http.StatusOK || !strings.Contains(got.body, `"text":"done"`) {
			t.Errorf("a stream within the limit: %d %s", got.status, got.body)
		}
	}
}

// A signed call of a slow vacant is pending, and the same envelope gets the answer.
func TestASignedCallOfASlowVacantIsPending(t *testing.T) {
	w := newWorld(t)
	slow := w.create(vacants.CreateSpec{Name: "slow", Substrate: "slow", CallTimeout: 5 * time.Minute})
	key, err := identity.NewKey(rand.Reader)
	w.Must(err)
	envelope, _ := w.signed(key, slow.ID, 1, identity.Hash{})
	arguments := `{"envelope":` + envelope + `}`
	for range 2 {
		if got := w.call("/v/slow/mcp", "vacant_call", arguments); !got.Is || got.Data["state"] != "pending" || got.Data["due"] == nil {
			t.Fatalf("%s %v", got.text(), got.Data)
		}
	}
	w.gate <- "done"
	close(w.gate)
	await.Until(t, "the answer is there", func() bool {
		got := w.call("/v/slow/mcp", "vacant_call", arguments)
		return got.Data["state"] == "answered" && strings.Contains(fmt.Sprint(got.Data["reply"]), "done")
	})
}

// lines is a log that handlers write at once.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A caller that asks again and again for a failed task writes no errors of the host into the log.
func TestAFailureOfAnAgentIsNoErrorOfTheHost(t *testing.T) {
	var log lines
	w := newWorldWithin(t, 50*time.Millisecond, func(c *serve.Config) {
		c.CallTimeout, c.Log = 5*time.Minute, slog.New(slog.NewTextHandler(&log, nil))
	})
	w.create(vacants.CreateSpec{Name: "slow", Substrate: "slow"})
	first := w.call("/v/slow/mcp", "ask", `{"message":"hi"}`)
	close(w.gate) // an answer without a text is a failure
	if got := w.call("/v/slow/mcp", "get_task", fmt.Sprintf(`{"task":%q,"wait":20}`, first.Data["task"])); !got.Is {
		t.Fatalf("get_task = %s %v, want a failure", got.text(), got.Data)
	}
	const polled = "level=INFO msg=mcp path=/v/slow/mcp operation=\"tools/call get_task\" verdict=substrate_unavailable status=200"
	await.Until(t, "the line of get_task is written", func() bool { return strings.Contains(log.String(), "get_task") })
	if all := log.String(); !strings.Contains(all, polled) || strings.Contains(all, "level=ERROR msg=mcp") {
		t.Errorf("the log is\n%s\nwant %s", all, polled)
	}
}
