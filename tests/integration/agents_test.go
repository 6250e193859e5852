package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens/tokenstest"
	"github.com/vacancy-host/vacancy/shared/host/queue/queuetest"
	"github.com/vacancy-host/vacancy/shared/host/queue/sqs"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type object = map[string]any

// rpc calls a method of A2A at a vacant and returns its result or error.
func (s *deployed) rpc(t *testing.T, to identity.ID, method, params string) object {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	reply, err := web(t, s.aws, "").Post(s.URL+"/v/"+to.String(), "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(reply.Body)
	var answer struct{ Result, Error object }
	if err != nil || json.Unmarshal(b, &answer) != nil {
		t.Fatalf("%s = %d %s, %v", method, reply.StatusCode, b, err)
	}
	if answer.Error != nil {
		return answer.Error
	}
	return answer.Result
}

// posted posts JSON to the stage, whose answer has to contain says.
func (s *deployed) posted(t *testing.T, path, body, says string, headers ...string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	reply, err := web(t, s.aws, "").Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if b, err := io.ReadAll(reply.Body); err != nil || reply.StatusCode != http.StatusOK || !strings.Contains(string(b), says) {
		t.Errorf("POST %s = %d %s, %v; want %s in it", path, reply.StatusCode, b, err, says)
	}
}

// message is the parameters of a message.
func message(text, configuration string) string {
	return fmt.Sprintf(`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":%q}]},"configuration":{%s}}`, text, configuration)
}

// stateOf is the id and state of a task.
func stateOf(t *testing.T, o object) (id, state string) {
	t.Helper()
	if inner, ok := o["task"].(object); ok {
		o = inner
	}
	status, ok := o["status"].(object)
	if !ok {
		t.Fatalf("%v is no task", o)
	}
	return o["id"].(string), status["state"].(string)
}

// ended waits until a task has ended.
func (s *deployed) ended(t *testing.T, vacant identity.ID, id string) (state string) {
	t.Helper()
	await.Until(t, "task "+id+" has ended", func() bool {
		_, state = stateOf(t, s.rpc(t, vacant, "GetTask", fmt.Sprintf(`{"id":%q}`, id)))
		return state != "TASK_STATE_SUBMITTED" && state != "TASK_STATE_WORKING"
	})
	return state
}

// askedByOthers asks the function agent as clients of MCP and of OpenAI do.
func (s *deployed) askedByOthers(t *testing.T) {
	t.Helper()
	echo := s.vacant(t)
	s.posted(t, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_agents","arguments":{"query":"echo"}}}`, `"structuredContent":`)
	s.posted(t, "/v/"+echo.String()+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"message":"hi by MCP"}}}`, "hi by MCP")
	for range 2 { // the second is the first
		s.posted(t, "/v/"+echo.String()+"/v1/chat/completions", `{"model":"echo","messages":[{"role":"user","content":"hi by OpenAI"}]}`, "hi by OpenAI", "X-Stainless-Retry-Count: 1")
	}
}

// askedByTokens sends tokens of an issuer that cannot be reached. No issuer of this machine could be
// reached by functions; package tokens and tests/interop have some that answer.
func (s *deployed) askedByTokens(t *testing.T) {
	t.Helper()
	api := s.admin(t)
	if _, err := account.OpenAccount.Call(t.Context(), api, op.NewBody(account.Opening{Tenant: "logins"})); err != nil {
		t.Fatal(err)
	}
	for n, at := range []string{s.URL + "/v/" + s.vacant(t).String() + "/text", strings.TrimSuffix(s.GatewayURL, "/") + "/v1/account"} {
		// Each function asks another issuer, because an issuer is asked once in half a minute.
		issuer := fmt.Sprintf("https://login%d.invalid", n)
		if _, err := account.AddIssuer.Call(t.Context(), api, op.NewBody(account.NewIssuer{Tenant: "logins", Issuer: issuer, IssuerOptions: billing.IssuerOptions{SubjectDailyCap: 1, TotalDailyCap: 1, AllowAll: true}})); err != nil {
			t.Fatal(err)
		}
		token, err := tokenstest.Sign("ES256", "ES256", map[string]any{"iss": issuer, "sub": "ann", "aud": at, "exp": time.Now().Add(time.Hour).Unix()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		method := []string{http.MethodPost, http.MethodGet}[n]
		r, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader("hi"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		reply, err := web(t, s.aws, "").Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		if b, err := io.ReadAll(reply.Body); err != nil || reply.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(b), "the keys of the issuer") {
			t.Errorf("%s %s = %d %s, %v; want a refusal because of the issuer", method, at, reply.StatusCode, b, err)
		}
	}
}

// tasked makes agent and worker do all that they ever do.
func (s *deployed) tasked(t *testing.T) {
	t.Helper()
	if s.aws != nil { // a cold call is recorded with all that a function asks for when it starts
		s.kill(t, "agent")
	}
	echo := s.vacant(t)
	client := web(t, s.aws, "")
	for path, says := range map[string]string{"/.well-known/agent-card.json": "", "/v/" + echo.String(): `"url":"` + s.URL + "/v/" + echo.String() + `"`, "/v/" + echo.String() + "/health": "LOCAL"} {
		reply, err := client.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(reply.Body)
		reply.Body.Close()
		if err != nil || !strings.Contains(string(b), says) {
			t.Errorf("%s = %s, %v; want %s in it", path, b, err, says)
		}
	}
	p := s.pair(t, echo)
	p.url = s.URL
	p.say("a signed call by agent")
	stranger := s.pair(t, s.pair(t, echo).Key.ID())
	stranger.url = s.URL
	stranger.send(stranger.Call("is anybody there", time.Now()))

	whole := s.rpc(t, echo, "SendMessage", message("hello", ""))
	id, state := stateOf(t, whole)
	if state != "TASK_STATE_COMPLETED" {
		t.Errorf("a task that is waited for is %s", state)
	}
	conversation := whole["task"].(object)["contextId"].(string)
	if listed := s.rpc(t, echo, "ListTasks", fmt.Sprintf(`{"contextId":%q}`, conversation)); listed["totalSize"] != 1. {
		t.Errorf("list: %v", listed)
	}
	// A configuration is added, and removed. Nothing is delivered: no URL of this machine is
	// reached.
	if refused := s.rpc(t, echo, "CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"url":"https://127.0.0.1/hook"}`, id)); refused["code"] != -32602. {
		t.Errorf("a URL of this machine: %v", refused)
	}
	added := s.rpc(t, echo, "CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"id":"c","url":"https://nobody.invalid/hook"}`, id))
	if added["id"] != "c" {
		t.Errorf("a configuration: %v", added)
	}
	s.rpc(t, echo, "DeleteTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"id":"c"}`, id))

	since := time.Now()
	const hook = `"taskPushNotificationConfig":{"url":"https://nobody.invalid/hook"}`
	id, _ = stateOf(t, s.rpc(t, echo, "SendMessage", message("later", `"returnImmediately":true,`+hook)))
	if state := s.ended(t, echo, id); state != "TASK_STATE_COMPLETED" {
		t.Errorf("a task in the background is %s", state)
	}
	// Turns of a model, in both; the second is canceled while it runs.
	sage := s.agent(t, "slowly", "", object{"provider": "mock", "system": "```mock\nwait: 1500ms\ntext: done\n```"})
	id, _ = stateOf(t, s.rpc(t, sage, "SendMessage", message("think", `"returnImmediately":true`)))
	s.rpc(t, sage, "SendMessage", message("think", ""))
	if state := s.ended(t, sage, id); state != "TASK_STATE_COMPLETED" {
		t.Errorf("a model's task in the background is %s", state)
	}
	id, _ = stateOf(t, s.rpc(t, sage, "SendMessage", message("think", `"returnImmediately":true`)))
	if _, state := stateOf(t, s.rpc(t, sage, "CancelTask", fmt.Sprintf(`{"id":%q}`, id))); state != "TASK_STATE_CANCELED" {
		t.Errorf("a canceled task is %s", state)
	}
	// A message whose task is not there comes again.
	s.queue(t, "tasks").send(t, echo.String()+"#guest#"+strings.Repeat("0", 32))
	s.lines(t, "worker", since, func(all []line) bool {
		again, done := 0, 0
		for _, l := range all {
			again += strings.Count(l.raw, `"verdict":"again"`)
			done += strings.Count(l.raw, `"verdict":"ok"`)
		}
		return again > 0 && done > 4
	})
}

func TestTasksOutliveTheirRequestsOnTheStage(t *testing.T) {
	s := shared(t)
	s.tasked(t)
	stream, err := web(t, s.aws, "").Post(s.URL+"/v/"+s.vacant(t).String(), "application/json",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":`+message("hello", "")+`}`))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if b, err := io.ReadAll(stream.Body); err != nil || stream.Header.Get("Content-Type") != "text/event-stream" || !strings.Contains(string(b), "TASK_STATE_COMPLETED") {
		t.Errorf("a stream = %v %s, %v", stream.Header, b, err)
	}
	s.whole(t)
}

// queue is a queue of the stage, or one that a test makes.
type queue struct {
	client *awssqs.Client
	url    string
}

func (s *deployed) queue(t *testing.T, name string) queue {
	t.Helper()
	client := awssqs.NewFromConfig(operator(s.aws))
	full := s.function(name)
	out, err := client.GetQueueUrl(t.Context(), &awssqs.GetQueueUrlInput{QueueName: &full})
	if err != nil {
		t.Fatal(err)
	}
	return queue{client, *out.QueueUrl}
}

func (q queue) send(t *testing.T, body string) {
	t.Helper()
	if _, err := q.client.SendMessage(t.Context(), &awssqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &body}); err != nil {
		t.Fatal(err)
	}
}

// receive passes messages to a queue's Handle until ctx ends, as Lambda does.
func (q queue) receive(ctx context.Context, t *testing.T, to *sqs.Queue, handle func(context.Context, string) error) {
	var running sync.WaitGroup
	defer running.Wait()
	for ctx.Err() == nil {
		out, err := q.client.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{QueueUrl: &q.url, MaxNumberOfMessages: 10, WaitTimeSeconds: 1,
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll}})
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return
		}
		for _, m := range out.Messages {
			first, err := strconv.ParseInt(m.Attributes["ApproximateFirstReceiveTimestamp"], 10, 64)
			if err != nil {
				t.Error(err)
			}
			count, err := strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
			if err != nil {
				t.Error(err)
			}
			running.Go(func() {
				own := context.WithoutCancel(ctx)
				done, _ := to.Handle(own, sqs.Message{Body: *m.Body, ReceiptHandle: *m.ReceiptHandle, FirstDelivery: time.UnixMilli(first), DeliveryCount: count}, handle)
				if done {
					if _, err := q.client.DeleteMessage(own, &awssqs.DeleteMessageInput{QueueUrl: &q.url, ReceiptHandle: m.ReceiptHandle}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

func TestAQueueAtSQSKeepsTheContract(t *testing.T) {
	const patience = 6 * time.Second // a message is refused twice within it, also while stages are deployed beside
	s := local(t)
	client, n := awssqs.NewFromConfig(operator(s)), 0
	alone := func(t *testing.T, test func(*testing.T)) { t.Parallel(); test(t) }
	var mu sync.Mutex
	queuetest.RunContract(t, alone, func(t *testing.T) queuetest.Subject {
		mu.Lock()
		n++
		name := fmt.Sprint("contract-", n)
		mu.Unlock()
		made, err := client.CreateQueue(t.Context(), &awssqs.CreateQueueInput{QueueName: &name, Attributes: map[string]string{"VisibilityTimeout": "60"}})
		if err != nil {
			t.Fatal(err)
		}
		q := queue{client, *made.QueueUrl}
		t.Cleanup(func() {
			if _, err := client.DeleteQueue(context.Background(), &awssqs.DeleteQueueInput{QueueUrl: made.QueueUrl}); err != nil {
				t.Error(err)
			}
		})
		own := sqs.New(sqs.Config{Client: sqs.NewClient(operator(s)), URL: q.url, Log: slog.New(slog.DiscardHandler), Now: time.Now, RetryTime: patience})
		return queuetest.Subject{Queue: own, RetryTime: patience, MaxDelay: 10 * patience, Run: func(ctx context.Context, handle func(context.Context, string) error) {
			q.receive(ctx, t, own, handle)
		}}
	})
}

// Stock clients talk to the stage: the clients of tests/interop whose answers are not
// streams. The local AWS holds streams back.
func TestStockClientsAreAnsweredByTheStage(t *testing.T) {
	s := shared(t)
	target, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	// The clients resolve no name below localhost.
	proxy := &httputil.ReverseProxy{Transport: web(t, s.aws, "").Transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	for name, script := range map[string]string{"slow": "text: wait\nwait: 500ms\ntext: \" done\"", "slower": "text: wait\nwait: 20s", "failing": "fail: busy"} {
		s.agent(t, name, "", object{"provider": "mock", "system": "```mock\n" + script + "\n```"})
	}
	if _, err := admin.ShowVacant.Call(t.Context(), s.admin(t), admin.VacantRef{Vacant: "echo"}); err != nil {
		s.named(t, "echo")
	}
	// Cards name the URL at which the clients reach the host. Only agent reads it there.
	_, docs := s.tables(t)
	id := store.WriteID{9}
	if err := docs.Commit(t.Context(), store.Put{Key: vacants.URLKey(), WriteID: id, Data: fmt.Appendf(nil, `{"format":1,"url":%q}`, server.URL)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := docs.Commit(context.Background(), store.Delete{Key: vacants.URLKey(), IfVersion: 1}); err != nil {
			t.Error(err)
		}
	})
	cmd := exec.CommandContext(t.Context(), "go", "test", "./tests/interop", "-count=1", "-at", server.URL)
	cmd.Dir = root(t)
	cmd.Env = os.Environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
