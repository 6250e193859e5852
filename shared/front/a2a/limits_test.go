package a2a_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// pairLimited serves a host where an address may begin n conversations.
func (w *world) pairLimited(n int) {
	w.serveAs(func(s *http.Server) {
		s.Handler = edge.Limit(edge.Config{PairRate: edge.Rate{PerSecond: 0.0001, Burst: n}, Now: time.Now}, s.Handler)
	})
}

// Only the first message of a chain begins a conversation.
func TestASignedChainTakesATokenOnce(t *testing.T) {
	w := newWorld(t)
	w.pairLimited(1)
	s := w.signer()
	first := s.envelope(w.echo.ID, 1, identity.Hash{}, "hi", "m1", "")
	if got := w.rpc("/v/echo", "SendMessage", params1(first, "")); got.status != 200 || at(t, got.body, "error") != "" {
		t.Fatalf("the first: %d %s", got.status, got.body)
	}
	second := s.envelope(w.echo.ID, 2, first.Hash(), "more", "m2", "")
	if got := w.rpc("/v/echo", "SendMessage", params1(second, "")); got.status != 200 || at(t, got.body, "error") != "" {
		t.Errorf("the second: %d %s", got.status, got.body)
	}
	if got := w.rpc("/v/echo", "SendMessage", params1(w.signer().envelope(w.echo.ID, 1, identity.Hash{}, "hi", "m1", ""), "")); got.status != 429 {
		t.Errorf("the first of another chain: %d %s, want 429", got.status, got.body)
	}
}

func TestATaskOfAnAccountThatGoesOnTakesNoToken(t *testing.T) {
	w := known(t)
	w.create("sut", "conformance")
	w.pairLimited(1)
	first := w.rpc("/v/sut", "SendMessage", withID("tck-input-required-1", "one", "}"), w.acme)
	more := withID("m2", "two", fmt.Sprintf(`,"taskId":%q}`, at(t, first.body, "result", "task", "id")))
	if got := w.rpc("/v/sut", "SendMessage", more, w.acme); at(t, got.body, "result", "task", "status", "state") != "TASK_STATE_COMPLETED" {
		t.Errorf("the task goes on: %d %s", got.status, got.body)
	}
	if got := w.rpc("/v/sut", "SendMessage", withID("m3", "new", "}"), w.acme); got.status != 429 {
		t.Errorf("another conversation: %d %s, want 429", got.status, got.body)
	}
}

// Without an envelope, plain off refuses an account that reads tasks, too.
func TestPlainOffShowsAccountsNoTasks(t *testing.T) {
	w := known(t)
	sent := w.rpc("/v/echo", "SendMessage", withID("m1", "hi", "}"), w.acme)
	id := at(t, sent.body, "result", "task", "id")
	off := vacants.PlainOff
	if _, err := w.server.Vacants.Update(t.Context(), w.echo.ID, vacants.Changes{Plain: &off}); err != nil {
		t.Fatal(err)
	}
	for method, params := range map[string]string{"GetTask": fmt.Sprintf(`{"id":%q}`, id), "ListTasks": "{}", "CancelTask": fmt.Sprintf(`{"id":%q}`, id)} {
		if got := w.rpc("/v/echo", method, params, w.acme); at(t, got.body, "error", "code") != "-32008" {
			t.Errorf("%s: %s", method, got.body)
		}
	}
}

func TestAnEndedTaskHasNoEventsAfterItsLast(t *testing.T) {
	w := newWorld(t)
	sent := w.rpc("/v/echo", "SendStreamingMessage", message("hi", ""))
	all := frames(sent.body)
	id := at(t, strings.TrimPrefix(all[0], "1 "), "result", "task", "id")
	last := fmt.Sprintf("Last-Event-ID: %d", len(all))
	if got := w.rpc("/v/echo", "SubscribeToTask", fmt.Sprintf(`{"id":%q}`, id), last); at(t, got.body, "error", "code") != "-32004" {
		t.Errorf("after the last event: %s", got.body)
	}
}

func TestAStreamShowsAsMuchHistoryAsIsAskedFor(t *testing.T) {
	w := newWorld(t)
	for length, want := range map[string]bool{"0": false, "1": true} {
		params := fmt.Sprintf(`{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"historyLength":%s}}`, length)
		all := frames(w.rpc("/v/echo", "SendStreamingMessage", params).body)
		if has := at(t, strings.TrimPrefix(all[0], "1 "), "result", "task", "history") != ""; has != want {
			t.Errorf("historyLength %s: %s, want that it has history: %t", length, all[0], want)
		}
	}
}

// By REST the task in the path is meant, whatever the body says of one.
func TestTheTaskInAPathIsMeant(t *testing.T) {
	w := newWorld(t)
	id := at(t, w.rpc("/v/echo", "SendMessage", message("hi", "")).body, "result", "task", "id")
	other := at(t, w.rpc("/v/echo", "SendMessage", message("ho", "")).body, "result", "task", "id")
	for _, key := range []string{"taskId", "task_id"} {
		body := fmt.Sprintf(`{"id":"c1","url":"https://hook.example/x",%q:%q}`, key, other)
		if got := w.do("POST", "/v/echo/tasks/"+id+"/pushNotificationConfigs", body); got.status != 200 || at(t, got.body, "taskId") != id {
			t.Errorf("with %s: %d %s", key, got.status, got.body)
		}
	}
}
