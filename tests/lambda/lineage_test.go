//go:build unix

package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/sqslocal"
)

// isRecursive reports whether the template of a function allows recursive loops.
func isRecursive(tb testing.TB, function string) bool {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "infra", "testdata", "functions.json"))
	must(tb, err)
	var template struct {
		Resources map[string]struct {
			Properties struct{ RecursiveLoop string }
		}
	}
	must(tb, json.Unmarshal(b, &template))
	return template.Resources[strings.ToUpper(function[:1])+function[1:]].Properties.RecursiveLoop == "Allow"
}

// invoked hands one message of a queue to a function, and returns how often the message's chain has invoked it. The
// message is deleted if the function is done with it.
func invoked(t *testing.T, f *Function, host *awshost.Host, queue string) (count int, err error) {
	t.Helper()
	host.Queues.Show(queue) // the time for which it is hidden is over
	got := host.Queues.Receive(queue, 1, 15*time.Minute)
	if len(got) == 0 {
		t.Fatalf("the queue %s is empty\n%s", queue, f.Log())
	}
	b, err := json.Marshal(object{"Records": []any{sqslocal.Record(queue, got[0])}})
	must(t, err)
	_, count = traceOf(f.name, b)
	reply, err := f.Invoke(t.Context(), b)
	if err == nil && !strings.Contains(string(reply), got[0].ID) {
		host.Queues.Delete(queue, got[0].ID)
	}
	return count, err
}

// While a turn of ten minutes runs, a notice sends itself again some twenty times. Lambda takes that for an endless loop,
// and stops it unless the template of worker allows recursive loops.
func TestNoticesOfALongTurnAreNotStopped(t *testing.T) {
	host := operated(t)
	const limit = 15 * time.Minute
	c := newCloud(t, host, host.Endpoint, Options{Limit: limit})
	id := c.create(t, host, mocked("wait: 10m\ntext: late", ""))
	env := append(host.Env(host.Endpoint), c.env()...)
	agent, turns := run(t, "agent", host, c.env()...), Start(t, bootstrap(t, "worker"), Options{Env: env, Limit: limit})
	push := `"returnImmediately":true,"taskPushNotificationConfig":{"url":"https://receiver.example/hook"}`
	task, _ := state(t, rpc(t, agent, id, "SendMessage", saying("hi", push)))
	ran := make(chan error, 1)
	m := host.Queues.Receive("tasks", 1, limit)
	b, err := json.Marshal(object{"Records": []any{sqslocal.Record("tasks", m[0])}})
	must(t, err)
	go func() {
		_, err := turns.Invoke(context.WithoutCancel(t.Context()), b)
		ran <- err
	}()
	await.Until(t, "the turn runs", func() bool {
		_, s := state(t, rpc(t, agent, id, "GetTask", fmt.Sprintf(`{"id":%q}`, task)))
		return s == "TASK_STATE_WORKING" && len(host.Queues.Waiting("pushes")) > 0
	})
	worker := run(t, "worker", host, c.env()...)
	// The message of the turn comes twice, as if it was hidden for too short a time.
	if _, err := worker.Invoke(t.Context(), b); err != nil {
		t.Errorf("the message of a turn that runs: %v", err)
	}
	if _, s := state(t, rpc(t, agent, id, "GetTask", fmt.Sprintf(`{"id":%q}`, task))); s != "TASK_STATE_WORKING" {
		t.Errorf("after its message came twice, the task is %s", s)
	}
	for count := 0; count < maxRecursion+3; {
		if count, err = invoked(t, worker, host, "pushes"); err != nil {
			t.Fatalf("%v\n%s", err, worker.Log())
		}
	}
	stopped := Start(t, bootstrap(t, "worker"), Options{Env: env})
	if _, err := invoked(t, stopped, host, "pushes"); !errors.Is(err, ErrRecursion) {
		t.Errorf("without RecursiveLoop: Allow: %v, want it stopped", err)
	}
	rpc(t, agent, id, "CancelTask", fmt.Sprintf(`{"id":%q}`, task))
	if err := <-ran; err != nil {
		t.Errorf("the turn: %v", err)
	}
	wantSound(t, host)
}

// A stage of the least worst day runs one turn of a vacant at a time. Twenty tasks all come to their turn.
func TestTwentyTasksOfOneSlowVacantAllRun(t *testing.T) {
	host := operated(t)
	c := newCloud(t, host, host.Endpoint, Options{})
	id := c.create(t, host, mocked("wait: 200ms\ntext: done", ""))
	env := append(c.env(), "VACANCY_TURNS=2")
	agent, workers := run(t, "agent", host, env...), []*Function{run(t, "worker", host, env...), run(t, "worker", host, env...)}
	var tasks []string
	for range 20 {
		task, _ := state(t, rpc(t, agent, id, "SendMessage", saying("hi", `"returnImmediately":true`)))
		tasks = append(tasks, task)
	}
	waiting, done := make(chan sqslocal.Message, len(tasks)), make(chan bool, len(tasks))
	for _, m := range host.Queues.Receive("tasks", len(tasks), time.Hour) {
		waiting <- m
	}
	for _, w := range workers {
		go func() {
			for m := range waiting {
				b, _ := json.Marshal(object{"Records": []any{sqslocal.Record("tasks", m)}})
				reply, err := w.Invoke(context.WithoutCancel(t.Context()), b)
				if err != nil {
					t.Errorf("worker: %v\n%s", err, w.Log())
				}
				if err == nil && strings.Contains(string(reply), m.ID) {
					time.Sleep(20 * time.Millisecond) // hidden, as it has no room
					waiting <- m
				} else {
					done <- true
				}
			}
		}()
	}
	for range tasks {
		<-done
	}
	close(waiting)
	for _, task := range tasks {
		if _, s := state(t, rpc(t, agent, id, "GetTask", fmt.Sprintf(`{"id":%q}`, task))); s != "TASK_STATE_COMPLETED" {
			t.Errorf("task %s is %s", task, s)
		}
	}
	wantSound(t, host)
}
