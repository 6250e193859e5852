package a2a_test

import (
	"fmt"
	"net/http"
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

// A conversation is a chain, a context that the host made, or a task of an account.
func TestOnlyTheFirstMessageOfAConversationTakesAToken(t *testing.T) {
	w := known(t)
	w.create("sut", "conformance")
	s := w.signer()
	first := s.envelope(w.echo.ID, 1, identity.Hash{}, "hi", "m1", "")
	plain := func(more string) answer { return w.rpc("/v/echo", "SendMessage", message("hi", more)) }
	account := func(id, more string) answer {
		return w.rpc("/v/sut", "SendMessage", withID(id, "one", more+"}"), w.acme)
	}
	for name, tt := range map[string]struct {
		begin, next func() answer
		goOn        func(begun string) answer
	}{
		"a chain": {
			func() answer { return w.rpc("/v/echo", "SendMessage", params1(first, "")) },
			func() answer {
				return w.rpc("/v/echo", "SendMessage", params1(w.signer().envelope(w.echo.ID, 1, identity.Hash{}, "hi", "m1", ""), ""))
			},
			func(string) answer {
				return w.rpc("/v/echo", "SendMessage", params1(s.envelope(w.echo.ID, 2, first.Hash(), "more", "m2", ""), ""))
			},
		},
		"a context": {
			func() answer { return plain("") }, func() answer { return plain(`,"contextId":"chosen"`) },
			func(begun string) answer {
				return plain(fmt.Sprintf(`,"contextId":%q`, at(t, begun, "result", "task", "contextId")))
			},
		},
		"an account's task": {
			func() answer { return account("tck-input-required-1", "") }, func() answer { return account("m3", "") },
			func(begun string) answer {
				return account("m2", fmt.Sprintf(`,"taskId":%q`, at(t, begun, "result", "task", "id")))
			},
		},
	} {
		inner := w.http.Config.Handler
		w.pairLimited(1)
		begun := tt.begin()
		for _, got := range []answer{begun, tt.goOn(begun.body)} {
			if got.status != 200 || at(t, got.body, "error") != "" {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
		}
		if got := tt.next(); got.status != 429 || got.header.Get("Retry-After") == "" || at(t, got.body, "code") != "too_many" {
			t.Errorf("after %s, another conversation: %d %s, want 429", name, got.status, got.body)
		}
		w.http.Config.Handler = inner
	}
}

// A vacant with plain off accepts only signed calls, also from an account that reads its tasks.
func TestPlainOffRefusesMethodsWithoutAnEnvelope(t *testing.T) {
	w := known(t)
	sent := w.rpc("/v/echo", "SendMessage", withID("m1", "hi", "}"), w.acme)
	id := fmt.Sprintf(`{"id":%q}`, at(t, sent.body, "result", "task", "id"))
	w.setPlain(w.echo, vacants.KeylessOff)
	for method, params := range map[string]string{"GetTask": id, "ListTasks": "{}", "CancelTask": id, "SendMessage": withID("m2", "hi", "}")} {
		for who, headers := range map[string][]string{"the account": {w.acme}, "a guest": nil} {
			if got := w.rpc("/v/echo", method, params, headers...); at(t, got.body, "error", "code") != "-32008" {
				t.Errorf("%s by %s: %s", method, who, got.body)
			}
		}
	}
	if card := w.do("GET", "/v/echo", ""); at(t, card.body, "capabilities", "extensions", 0, "required") != "true" {
		t.Errorf("the card does not require the extension: %s", card.body)
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
