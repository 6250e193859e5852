//go:build unix

package lambda

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/queue"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/sqslocal"
)

// Workers run two turns of an address, and others beside. The next turn runs when one of the two has
// ended and its message comes again.
func TestAnAddressHasTwoTurnsOnAllWorkers(t *testing.T) {
	host := operated(t)
	c := newCloud(t, host, host.Endpoint, Options{})
	slow := mocked("wait: 60s\ntext: late", "")
	crowded, other := c.create(t, host, slow), c.create(t, host, strings.Replace(slow, "sage", "other", 1))
	thinks := make(chan *Function, 4) // one for each turn that runs, and one for the turn that waits
	for range cap(thinks) {
		thinks <- run(t, "think", host, "VACANCY_MOCK=true")
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		// Lambda runs the function to its end, whether the client waits or not.
		if reply, err := (<-thinks).Invoke(context.WithoutCancel(r.Context()), body); err == nil {
			_, _ = w.Write(reply)
		}
	}))
	t.Cleanup(api.Close)
	env := append(c.env(), "AWS_ENDPOINT_URL_LAMBDA="+api.URL, "VACANCY_TURNS=16")
	agent := run(t, "agent", host, env...)
	start := func(id identity.ID, address string) string {
		t.Helper()
		event := NewEvent("/v/"+id.String(), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":%s}`, saying("hi", `"returnImmediately":true`)))
		event.RequestContext.HTTP.SourceIP = address
		r, err := agent.Send(t.Context(), event.Encode())
		var answer struct{ Result object }
		if err != nil || json.Unmarshal([]byte(r.Body), &answer) != nil {
			t.Fatalf("%d %s, %v", r.Status, r.Body, err)
		}
		task, s := state(t, answer.Result)
		if s != "TASK_STATE_SUBMITTED" {
			t.Fatalf("a task begins %s", s)
		}
		return task
	}
	receive := func() sqslocal.Message {
		t.Helper()
		got := host.Queues.Receive("tasks", 1, 15*time.Minute)
		if len(got) != 1 {
			t.Fatalf("the queue has no message to deliver: %v", host.Queues.Waiting("tasks"))
		}
		return got[0]
	}
	// deliver hands a message to a worker of its own. done tells whether the worker is done with the message.
	deliver := func(m sqslocal.Message) (done <-chan bool) {
		t.Helper()
		b, err := json.Marshal(object{"Records": []any{sqslocal.Record("tasks", m)}})
		if err != nil {
			t.Fatal(err)
		}
		worker, handled := run(t, "worker", host, env...), make(chan bool, 1)
		go func() {
			reply, err := worker.Invoke(t.Context(), b)
			if err != nil {
				t.Errorf("worker: %v\n%s", err, worker.Log())
			}
			handled <- !strings.Contains(string(reply), m.ID)
		}()
		return handled
	}
	becomes := func(id identity.ID, task, want string) {
		t.Helper()
		await.Until(t, "task "+task+" is "+want, func() bool {
			_, s := state(t, rpc(t, agent, id, "GetTask", fmt.Sprintf(`{"id":%q}`, task)))
			return s == want
		})
	}
	var tasks []string
	var ran []<-chan bool
	for range 2 {
		tasks = append(tasks, start(crowded, "203.0.113.7"))
		ran = append(ran, deliver(receive()))
		becomes(crowded, tasks[len(tasks)-1], "TASK_STATE_WORKING")
	}
	third := start(crowded, "203.0.113.7")
	waits := receive()
	if done, hidden := <-deliver(waits), host.Queues.Hidden("tasks", waits.ID); done || hidden > queue.RoomWait {
		t.Errorf("a worker is done with the third turn of the address: %t, hidden for %v; want it to come again", done, hidden)
	}
	becomes(crowded, third, "TASK_STATE_SUBMITTED")
	beside := start(other, "203.0.113.8")
	ran = append(ran, deliver(receive()))
	becomes(other, beside, "TASK_STATE_WORKING")
	cancel := func(id identity.ID, task string) {
		t.Helper()
		if _, s := state(t, rpc(t, agent, id, "CancelTask", fmt.Sprintf(`{"id":%q}`, task))); s != "TASK_STATE_CANCELED" {
			t.Errorf("a canceled task is %s", s)
		}
	}
	cancel(crowded, tasks[0])
	<-ran[0]
	ran = append(ran[1:], deliver(waits))
	becomes(crowded, third, "TASK_STATE_WORKING")
	cancel(crowded, tasks[1])
	cancel(crowded, third)
	cancel(other, beside)
	for _, done := range ran {
		await.Receive(t, "the worker ends", done)
	}
	wantSound(t, host)
}
