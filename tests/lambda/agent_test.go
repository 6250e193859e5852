//go:build unix

package lambda

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
	"github.com/vacancy-host/vacancy/tests/sqslocal"
)

// rpc calls a method of A2A at a vacant and returns the result or the error.
func rpc(t *testing.T, f *Function, to identity.ID, method, params string) (result object) {
	t.Helper()
	r, err := f.Post(t.Context(), "/v/"+to.String(), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
	if err != nil || r.Status != 200 {
		t.Fatalf("%s = %d %s, %v\n%s", method, r.Status, r.Body, err, f.Log())
	}
	var answer struct{ Result, Error object }
	if err := json.Unmarshal([]byte(r.Body), &answer); err != nil {
		t.Fatalf("%s: %v in %s", method, err, r.Body)
	}
	if answer.Error != nil {
		return answer.Error
	}
	return answer.Result
}

// saying is the parameters of a message.
func saying(text, configuration string) string {
	return fmt.Sprintf(`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":%q}]},"configuration":{%s}}`, text, configuration)
}

// state is the id and state of a task.
func state(t *testing.T, of object) (id, state string) {
	t.Helper()
	if inner, ok := of["task"].(object); ok {
		of = inner
	}
	status, ok := of["status"].(object)
	if !ok {
		t.Fatalf("%v is no task", of)
	}
	return of["id"].(string), status["state"].(string)
}

// deliver gives the messages of a queue that are due to a worker, as Lambda does, so many
// times each, and returns how many are left.
func deliver(t *testing.T, worker *Function, host *awshost.Host, queue string, times int) (left int) {
	t.Helper()
	const all = 10
	got := host.Queues.Receive(queue, all, 15*time.Minute)
	if len(got) == 0 {
		return len(host.Queues.Waiting(queue))
	}
	var event object
	for _, m := range got {
		records, _ := event["Records"].([]any)
		event = object{"Records": append(records, sqslocal.Record(queue, m))}
	}
	b, err := json.Marshal(event)
	must(t, err)
	again := map[string]bool{}
	for range times {
		reply, err := worker.Invoke(t.Context(), b)
		var failures struct {
			BatchItemFailures []struct{ ItemIdentifier string }
		}
		if err != nil || json.Unmarshal(reply, &failures) != nil {
			t.Fatalf("worker: %s, %v\n%s", reply, err, worker.Log())
		}
		clear(again)
		for _, f := range failures.BatchItemFailures {
			again[f.ItemIdentifier] = true
		}
	}
	for _, m := range got {
		if !again[m.ID] {
			host.Queues.Delete(queue, m.ID)
		}
	}
	return len(host.Queues.Waiting(queue))
}

func TestAgentAndWorkerAnswerTheSampleEvents(t *testing.T) {
	host := awshost.New(t)
	early := func() time.Time { return signedAt.Add(-time.Hour) }
	spec := vacants.CreateSpec{Name: "sample", Capability: "echoes", Substrate: "echo", Key: sampleVacant}
	must(t, errorOf(host.Open(t, host.Store(host.Endpoint), early, nil).Vacants.Create(t.Context(), spec)))
	f := run(t, "agent", host)
	echo := "echo from " + sampleVacant.ID().Short() + ": hello"
	replay(t, f, []step{
		{"agent-card.json", 200, `"protocolBinding":"JSONRPC"`},
		{"agent-well-known.json", 200, `"signatures":[`},
		{"agent-send.json", 200, echo},
		{"agent-send-03.json", 200, echo},
		{"agent-send-rest.json", 200, echo},
		{"agent-background.json", 200, "TASK_STATE_SUBMITTED"},
		{"agent-stream.json", 200, "TASK_STATE_COMPLETED"},
		{"agent-credentials.json", 401, `"code":"unauthorized"`},
		{"agent-admin.json", 404, "no such path"},
		{"agent-send-signed.json", 200, echo},
		{"agent-send-signed.json", 409, `"code":"replay"`},
	})
	for _, m := range lines(t, f) {
		if m["_aws"] == nil {
			t.Errorf("a line without metrics: %v", m)
		}
	}
	worker := run(t, "worker", host)
	const again = `{"batchItemFailures":[{"itemIdentifier":"059f36b4-87a3-44ab-83d2-661975830a7d"}]}`
	for file, want := range map[string]string{
		"worker-turn.json":   `{"batchItemFailures":[]}`, // old, and without a task: dropped
		"worker-notice.json": `{"batchItemFailures":[]}`,
		"worker-other.json":  again,
	} {
		if reply, err := worker.Invoke(t.Context(), sample(t, file)); err != nil || string(reply) != want {
			t.Errorf("%s = %s, %v; want %s\n%s", file, reply, err, want, worker.Log())
		}
	}
	if deliver(t, worker, host, "tasks", 1) != 0 {
		t.Errorf("the turn of agent-background.json is left: %v\n%s", host.Queues.Waiting("tasks"), worker.Log())
	}
}

// The pieces of a stream leave the function while its turn runs, and nothing comes after
// its end: the function is frozen there.
func TestAStreamLeavesTheFunctionAsItComes(t *testing.T) {
	host := operated(t)
	c := newCloud(t, host, host.Endpoint, Options{})
	id := c.create(t, host, mocked("wait: 700ms\ntext: a", ""))
	var mu sync.Mutex
	var at []time.Time
	var pieces []string
	f := Start(t, bootstrap(t, "agent"), Options{Env: append(host.Env(host.Endpoint), c.env()...), Freeze: true, Piece: func(p []byte) {
		mu.Lock()
		defer mu.Unlock()
		at, pieces = append(at, time.Now()), append(pieces, string(p))
	}})
	for range 2 {
		mu.Lock()
		at, pieces = nil, nil
		mu.Unlock()
		body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":%s}`, saying("hi", ""))
		r, err := f.Post(t.Context(), "/v/"+id.String(), body)
		if err != nil || r.Status != 200 || r.Headers["Content-Type"] != "text/event-stream" || r.Headers["Cache-Control"] != "no-store" {
			t.Fatalf("%d %v, %v\n%s", r.Status, r.Headers, err, f.Log())
		}
		first, last := slices.IndexFunc(pieces, func(p string) bool { return strings.Contains(p, `"task":`) }), len(pieces)-1
		if first < 0 || !strings.Contains(pieces[last], "TASK_STATE_COMPLETED") || at[last].Sub(at[first]) < 500*time.Millisecond {
			t.Errorf("%d pieces, the task %v before the end: %q", len(pieces), at[last].Sub(at[max(first, 0)]), pieces)
		}
		wantStopped(t, f.cmd.Process.Pid)
	}
	wantSound(t, host)
}

// wantSound requires the rows of all pairs to obey their rules: guests have pairs of their
// own.
func wantSound(t *testing.T, host *awshost.Host) {
	t.Helper()
	s := host.Store(host.Endpoint)
	var streams []store.Stream
	if err := s.Walk(t.Context(), func(v store.View) (err error) {
		streams, _, err = v.Streams(t.Context(), "", 100, "")
		return err
	}); err != nil || len(streams) == 0 {
		t.Fatalf("%d streams, %v", len(streams), err)
	}
	for _, stream := range streams {
		if ids := stream.IDs(); stream.Kind() == store.KindRequest {
			sound(t, host, call.Pair{Caller: ids[0], Vacant: ids[1]})
		}
	}
}

func TestATurnInTheBackgroundRunsOnceHoweverOftenItComes(t *testing.T) {
	host := awshost.New(t)
	id := host.Create(t, "echo", nil)
	agent, worker := run(t, "agent", host), Start(t, bootstrap(t, "worker"), Options{Env: host.Env(host.Endpoint), Freeze: true})
	var ids []string
	for i := range 3 {
		task, first := state(t, rpc(t, agent, id, "SendMessage", saying(fmt.Sprint("hello ", i), `"returnImmediately":true`)))
		if first != "TASK_STATE_SUBMITTED" {
			t.Errorf("the task begins %s", first)
		}
		ids = append(ids, task)
	}
	for _, m := range host.Queues.Waiting("tasks") {
		if strings.Contains(m, "hello") || !strings.HasPrefix(m, id.String()+"#guest#") {
			t.Errorf("the queue carries %q, want a task's key", m)
		}
	}
	if left := deliver(t, worker, host, "tasks", 3); left != 0 {
		t.Errorf("%d messages are left", left)
	}
	for _, one := range ids {
		if _, s := state(t, rpc(t, agent, id, "GetTask", fmt.Sprintf(`{"id":%q}`, one))); s != "TASK_STATE_COMPLETED" {
			t.Errorf("task %s is %s\n%s", one, s, worker.Log())
		}
	}
	if n := strings.Count(worker.Log(), `"msg":"done"`); n != 9 {
		t.Errorf("%d lines of messages, want 9:\n%s", n, worker.Log())
	}
	wantSound(t, host)
}

// A task that runs in one instance is canceled by another, and its agent is not waited
// for.
func TestAnyInstanceCancelsATurnOfTheWorker(t *testing.T) {
	host := operated(t)
	c := newCloud(t, host, host.Endpoint, Options{})
	id := c.create(t, host, mocked("wait: 20s\ntext: late", ""))
	agent, worker := run(t, "agent", host, c.env()...), run(t, "worker", host, c.env()...)
	task, _ := state(t, rpc(t, agent, id, "SendMessage", saying("hi", `"returnImmediately":true`)))
	ended := make(chan time.Time, 1)
	go func() {
		deliver(t, worker, host, "tasks", 1)
		ended <- time.Now()
	}()
	await.Until(t, "the worker has the task", func() bool {
		_, s := state(t, rpc(t, agent, id, "GetTask", fmt.Sprintf(`{"id":%q}`, task)))
		return s == "TASK_STATE_WORKING"
	})
	canceled := time.Now()
	if _, s := state(t, rpc(t, agent, id, "CancelTask", fmt.Sprintf(`{"id":%q}`, task))); s != "TASK_STATE_CANCELED" {
		t.Errorf("the task is %s", s)
	}
	if again := rpc(t, agent, id, "CancelTask", fmt.Sprintf(`{"id":%q}`, task)); again["code"] != -32002. {
		t.Errorf("canceled again: %v", again)
	}
	if took := await.Receive(t, "the worker ends", ended).Sub(canceled); took > 20*time.Second {
		t.Errorf("the worker ended %v after the task", took)
	}
	// The model is not waited for, and nobody pays for the rest of its answer.
	await.Until(t, "think has ended", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.ended) > 0
	})
	c.mu.Lock()
	if len(c.ended) != 1 || c.ended[0] > 20*time.Second {
		t.Errorf("think ran for %v, want it ended with the task, before its 20 s", c.ended)
	}
	c.mu.Unlock()
	if left := host.Queues.Waiting("tasks"); len(left) != 0 {
		t.Errorf("messages are left: %v", left)
	}
	wantSound(t, host)
}

// An agent whose queue is away refuses what it would have to keep there, and nothing else.
func TestWithoutQueuesNothingIsAcceptedForThem(t *testing.T) {
	host := awshost.New(t)
	id := host.Create(t, "echo", nil)
	f := run(t, "agent", host, "AWS_ENDPOINT_URL_SQS=http://127.0.0.1:1")
	r, err := f.Post(t.Context(), "/v/"+id.String(), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":%s}`, saying("hi", `"returnImmediately":true`)))
	if err != nil || r.Status != 503 || !strings.Contains(r.Body, "send the same request again") {
		t.Errorf("in the background = %d %s, %v; want 503", r.Status, r.Body, err)
	}
	if _, s := state(t, rpc(t, f, id, "SendMessage", saying("hi", ""))); s != "TASK_STATE_COMPLETED" {
		t.Errorf("a message that is waited for is %s", s)
	}
	if diff := cmp.Diff([][]any{{"unavailable"}}, pick(lines(t, f), "a2a", "verdict")[:1]); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
	wantSound(t, host)
}

func TestNoLineOfA2AIsLonger(t *testing.T) {
	host := awshost.New(t)
	id := host.Create(t, "besieged", nil)
	proxy := faultproxy.Start(t, host.Endpoint)
	agent, worker := Start(t, bootstrap(t, "agent"), Options{Env: host.Env(proxy.URL)}), Start(t, bootstrap(t, "worker"), Options{Env: host.Env(proxy.URL)})
	for _, fault := range []faultproxy.Fault{faultproxy.Pass, faultproxy.Throttle, faultproxy.Exceed} {
		proxy.Set()
		if fault != faultproxy.Pass {
			proxy.Set(faultproxy.Rule{Fault: fault})
		}
		for _, odd := range []string{"", "a", "\x01", "\"", "\u2028", "%01"} {
			long := strings.Repeat(odd, 300)
			for _, event := range []Event{NewEvent("/v/"+long, nil), NewEvent("/v/"+id.String()+"/tasks/"+long, nil), NewEvent("/v/"+id.String(), []byte(long)),
				NewEvent("/v/"+id.String(), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":%s}`, saying(long, `"returnImmediately":true`)))} {
				must(t, errorOf(agent.Send(t.Context(), event.Encode())))
			}
			for _, queue := range []string{"tasks", "pushes", long} {
				b, err := json.Marshal(object{"Records": []any{sqslocal.Record(queue, sqslocal.Message{ID: "1", Body: long, Sent: time.Now(), Count: 1})}})
				must(t, err)
				must(t, errorOf(worker.Invoke(t.Context(), b)))
			}
		}
		deliver(t, worker, host, "tasks", 1)
	}
	within(t, agent)
	within(t, worker)
	if bytes.Contains([]byte(agent.Log()), []byte("panic")) {
		t.Errorf("a panic:\n%s", agent.Log())
	}
}
