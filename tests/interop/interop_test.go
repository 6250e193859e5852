// Package interop tests a host with the clients and SDKs of others, and runs one table of scenarios
// with each A2A client.
package interop

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/front/standalone/standalonetest"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// slow is a substrate that says a piece, waits, says another and waits for its end. Some clients drop a piece
// that they read together with the answer.
type slow struct{ wait, end time.Duration }

func (s slow) Infer(ctx context.Context, _ substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		if !yield(substrate.Text("wait"), nil) {
			return
		}
		select {
		case <-time.After(s.wait):
			if yield(substrate.Text(" done"), nil) {
				time.Sleep(s.end)
				yield(substrate.FinishStop, nil)
			}
		case <-ctx.Done():
			yield(nil, ctx.Err())
		}
	}
}

type failing struct{}

func (failing) Infer(context.Context, substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		yield(nil, problem.New(problem.SubstrateBusy, "not for callers"))
	}
}

// at is the base URL of a host that exists already, on Lambda. Only answers that are
// not streams are compared, because LocalStack holds streams back.
var at = flag.String("at", "", "base URL of a host with the vacants echo, slow, slower and failing")

// unary are the scenarios without a stream.
var unary = []string{"send", "get", "get unknown", "cancel ended", "send to ended", "fail", "immediately", "list", "no text"}

// needsLocalHost skips a test on a stage, because a stage holds streams back and sends
// notifications only to https.
func needsLocalHost(t *testing.T) {
	t.Helper()
	if *at != "" {
		t.Skip("needs a host of this machine")
	}
}

// host serves the vacants echo, slow, slower, failing and conformance, and returns the base
// URL.
func host(t *testing.T) string {
	t.Helper()
	if *at != "" {
		return *at
	}
	return hostWith(t, nil)
}

// hostWith serves more vacants, by name and substrate.
func hostWith(t *testing.T, more map[string]string) string {
	t.Helper()
	return hostIn(t, filepath.Join(t.TempDir(), "host"), more)
}

// hostIn is hostWith over a directory. Each prepare prepares the host before it serves.
func hostIn(t *testing.T, dir string, more map[string]string, prepare ...func(*standalone.Host)) string {
	t.Helper()
	return hostAt(t, dir, time.Now, more, prepare...)
}

// hostAt is hostIn by a clock.
func hostAt(t *testing.T, dir string, now func() time.Time, more map[string]string, prepare ...func(*standalone.Host)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	url := "http://" + listener.Addr().String()
	open := func(s substrate.Substrate) func(string) (substrate.Substrate, error) {
		return func(string) (substrate.Substrate, error) { return s, nil }
	}
	h, err := standalone.Open(standalone.Config{
		Dir: dir, URL: url, AllowNew: true, AllowLoopback: true, OwnMachine: true, Log: slog.New(slog.DiscardHandler), Now: now, Rand: rand.Reader,
		Substrates: substrate.Kinds{"slow": open(slow{wait: 500 * time.Millisecond}), "slower": open(slow{wait: 20 * time.Second}), "failing": open(failing{})},
	})
	must(t, err)
	viewer := definition.Agent{Provider: substrate.KindHTTP, BaseURL: viewing(t), Input: []string{"image/png", "application/json"}}
	must(t, errorOf(h.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "viewer", Capability: "Looks", Agent: &viewer})))
	all := map[string]string{"echo": "echo", "slow": "slow", "slower": "slower", "failing": "failing", "conformance": "conformance"}
	maps.Copy(all, more)
	for name, agent := range all {
		must(t, errorOf(h.Vacants.Create(t.Context(), vacants.CreateSpec{Name: name, Capability: "Answers übers \"Netz\" 🦊", Substrate: agent})))
	}
	for _, f := range prepare {
		f(h)
	}
	standalonetest.Run(t, h, standalone.RunConfig{Public: listener})
	return url
}

// openAcme opens the account acme with a credit, and returns it with a key.
func openAcme(t *testing.T, h *standalone.Host, credit money.Amount) (a billing.Account, key string) {
	t.Helper()
	a, err := h.Billing.OpenAccount(t.Context(), "acme", 1)
	must(t, err)
	if credit > 0 {
		_, _, err = h.Billing.Credit(t.Context(), a.ID, credit, "first", "")
		must(t, err)
	}
	_, key, err = h.Billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{})
	must(t, err)
	return a, key
}

// priced gives a vacant a price per call.
func priced(t *testing.T, h *standalone.Host, name string, flat money.Amount) vacants.Record {
	t.Helper()
	r, err := h.Vacants.GetByName(t.Context(), vacants.OperatorAsker(), name)
	must(t, err)
	r, err = h.Vacants.SetPrice(t.Context(), r.ID, price.Price{Flat: flat})
	must(t, err)
	return r
}

// viewing is a program that tells the files that it gets.
func viewing(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Files []struct {
				MediaType string `json:"media_type"`
				Data      []byte
			}
		}
		err := json.NewDecoder(r.Body).Decode(&q)
		var all []string
		for _, f := range q.Files {
			all = append(all, fmt.Sprintf("%s of %d", f.MediaType, len(f.Data)))
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, strings.Join(all, ", "))
		if err != nil {
			_, _ = io.WriteString(w, err.Error())
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// want are the scenarios and what each client reports. A client without a feature
// reports none.
var want = map[string]string{
	"send":           "completed echo: hi",
	"get":            "completed echo: hi",
	"get unknown":    "task not found",
	"cancel ended":   "task not cancelable",
	"send to ended":  "unsupported operation",
	"fail":           "failed the vacant failed to answer: its agent is overloaded",
	"stream":         "working; artifact wait; artifact  done; artifact ; completed wait done",
	"stream of echo": "working; artifact echo: hi; artifact ; completed echo: hi",
	"immediately":    "submitted, then completed wait done",
	"cancel":         "working, then canceled",
	"subscribe":      "working; artifact  done; artifact ; completed wait done",
	"follow unknown": "task not found",
	"waiting":        "input-required More input is needed; working; completed done",
	"list":           "2 of 2",
	"no text":        "content type not supported",
	"files":          "completed image/png of 8, application/json of 9",
}

func check(t *testing.T, got map[string]string, without ...string) {
	t.Helper()
	expected := map[string]string{}
	for k, v := range want {
		expected[k] = v
	}
	for _, k := range without {
		delete(expected, k)
	}
	if *at != "" {
		streams := func(k, _ string) bool { return !slices.Contains(unary, k) }
		maps.DeleteFunc(expected, streams)
		maps.DeleteFunc(got, streams)
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("scenarios (-want +got):\n%s", diff)
	}
}

func TestGoClients(t *testing.T) {
	url := host(t)
	rest := a2aclient.WithConfig(a2aclient.Config{PreferredTransports: []a2a.TransportProtocol{a2a.TransportProtocolHTTPJSON}})
	for name, c := range map[string]goClient{
		"1.0 JSON-RPC": {url: url}, "1.0 HTTP+JSON": {url: url, options: []a2aclient.FactoryOption{rest}},
		"0.3 JSON-RPC": {url: url, old: true, options: []a2aclient.FactoryOption{
			a2aclient.WithCompatTransport(a2av0.Version, a2a.TransportProtocolJSONRPC, a2av0.NewJSONRPCTransportFactory(a2av0.JSONRPCTransportConfig{})),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var without []string
			if c.old {
				without = []string{"list"}
			}
			check(t, c.run(t), without...)
		})
	}
}

type ownClient struct{ url, version, binding string }

// open makes an agent whose card names no other version and binding.
func (o ownClient) open(t *testing.T, name string) *agents.Agent {
	t.Helper()
	web := dispatch.NewHTTP(dispatch.HTTPOptions{})
	card, err := agents.FetchCard(t.Context(), web, o.url+"/v/"+name)
	must(t, err)
	for _, s := range card.CheckSignatures(agents.NewKeyFetcher(t.Context(), web)) {
		if !s.Verified || !s.ByVacant {
			t.Errorf("a signature of the card of %s: %+v", name, s)
		}
	}
	card.Interfaces = slices.DeleteFunc(card.Interfaces, func(i agents.Interface) bool { return i.Version != o.version || i.Binding != o.binding })
	agent, err := agents.NewAgent(web, card)
	must(t, err)
	return agent
}

func ownText(parts []task.Part) string {
	all := make(a2a.ContentParts, len(parts))
	for i, p := range parts {
		all[i] = a2a.NewTextPart(p.Text)
	}
	return shown(all)
}

// goClient drives the SDK of Go as a client.
type goClient struct {
	url     string
	old     bool
	options []a2aclient.FactoryOption
}

func (g goClient) open(t *testing.T, name string) *a2aclient.Client {
	t.Helper()
	resolver := *agentcard.DefaultResolver
	if g.old {
		resolver.CardParser = a2av0.NewAgentCardParser()
	}
	card, err := resolver.Resolve(t.Context(), g.url+"/v/"+name)
	must(t, err)
	if g.old {
		card.SupportedInterfaces = card.SupportedInterfaces[:0:0]
		card.SupportedInterfaces = append(card.SupportedInterfaces, &a2a.AgentInterface{URL: g.url + "/v/" + name, ProtocolBinding: a2a.TransportProtocolJSONRPC, ProtocolVersion: a2av0.Version})
	}
	c, err := a2aclient.NewFromCard(t.Context(), card, g.options...)
	must(t, err)
	return c
}

func say(text string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))}
}

func (g goClient) run(t *testing.T) map[string]string {
	ctx := t.Context()
	echo, slow, slower, failing := g.open(t, "echo"), g.open(t, "slow"), g.open(t, "slower"), g.open(t, "failing")
	got := map[string]string{}
	sent, err := echo.SendMessage(ctx, say("hi"))
	got["send"] = result(sent, err)
	task, ok := sent.(*a2a.Task)
	if !ok {
		t.Fatalf("SendMessage() = %T, %v", sent, err)
	}
	read, err := echo.GetTask(ctx, &a2a.GetTaskRequest{ID: task.ID})
	got["get"] = result(read, err)
	_, err = echo.GetTask(ctx, &a2a.GetTaskRequest{ID: "none"})
	got["get unknown"] = failure(err)
	_, err = echo.CancelTask(ctx, &a2a.CancelTaskRequest{ID: task.ID})
	got["cancel ended"] = failure(err)
	again := say("more")
	again.Message.TaskID = task.ID
	_, err = echo.SendMessage(ctx, again)
	got["send to ended"] = failure(err)
	failed, err := failing.SendMessage(ctx, say("hi"))
	got["fail"] = result(failed, err)
	_, err = echo.SendMessage(ctx, &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewDataPart(map[string]any{"a": 1}))})
	got["no text"] = failure(err)
	got["immediately"] = g.immediately(t, slow)
	if !g.old {
		got["list"] = g.list(t, echo)
	}
	if *at != "" {
		return got
	}
	png := a2a.NewRawPart([]byte("\x89PNG\r\n\x1a\n"))
	png.MediaType, png.Filename = "image/png", "a.png"
	seen, err := g.open(t, "viewer").SendMessage(ctx, &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("see"), png, a2a.NewDataPart(map[string]any{"a": "b"}))})
	got["files"] = result(seen, err)
	got["stream"] = events(slow.SendStreamingMessage(ctx, say("hi")))
	got["stream of echo"] = events(echo.SendStreamingMessage(ctx, say("hi")))
	got["cancel"] = g.cancel(t, slower)
	got["subscribe"] = g.subscribe(t, slow)
	for _, err := range echo.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: "none"}) {
		got["follow unknown"] = failure(err)
	}
	got["waiting"] = g.waiting(t)
	return got
}

// waiting follows a task that waits for a message, which comes later.
func (g goClient) waiting(t *testing.T) string {
	c, q := g.open(t, "conformance"), say("one")
	q.Message.ID = "tck-input-required-" + q.Message.ID
	sent, err := c.SendMessage(t.Context(), q)
	first, ok := sent.(*a2a.Task)
	if !ok {
		return fmt.Sprintf("%T %v", sent, err)
	}
	var all []a2a.Event
	for e, err := range c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: first.ID}) {
		if err != nil {
			return err.Error()
		}
		if len(all) == 0 {
			more := say("two")
			more.Message.TaskID = first.ID
			if _, err := c.SendMessage(t.Context(), more); err != nil {
				return err.Error()
			}
		}
		all = append(all, e)
	}
	return events(func(yield func(a2a.Event, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	})
}

func (g goClient) immediately(t *testing.T, c *a2aclient.Client) string {
	q := say("hi")
	q.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
	sent, err := c.SendMessage(t.Context(), q)
	first, ok := sent.(*a2a.Task)
	if !ok {
		return fmt.Sprintf("%T %v", sent, err)
	}
	var read *a2a.Task
	await.Until(t, "the task has ended", func() bool {
		read, err = c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: first.ID})
		return err != nil || read.Status.State.Terminal()
	})
	return state(first.Status.State) + ", then " + result(read, err)
}

func (g goClient) cancel(t *testing.T, c *a2aclient.Client) string {
	for e, err := range c.SendStreamingMessage(t.Context(), say("hi")) {
		first, ok := e.(*a2a.Task)
		if !ok {
			return fmt.Sprintf("%T %v", e, err)
		}
		ended, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: first.ID})
		if err != nil {
			return err.Error()
		}
		return state(first.Status.State) + ", then " + state(ended.Status.State)
	}
	return "no event"
}

func (g goClient) subscribe(t *testing.T, c *a2aclient.Client) string {
	for e, err := range c.SendStreamingMessage(t.Context(), say("hi")) {
		if chunk, ok := e.(*a2a.TaskArtifactUpdateEvent); ok {
			return events(c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: chunk.TaskID}))
		}
		if err != nil {
			return err.Error()
		}
	}
	return "no artifact"
}

func (g goClient) list(t *testing.T, c *a2aclient.Client) string {
	first, err := c.SendMessage(t.Context(), say("one"))
	if err != nil {
		return err.Error()
	}
	q := say("two")
	q.Message.ContextID = first.(*a2a.Task).ContextID
	if _, err := c.SendMessage(t.Context(), q); err != nil {
		return err.Error()
	}
	page, err := c.ListTasks(t.Context(), &a2a.ListTasksRequest{ContextID: q.Message.ContextID})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d of %d", len(page.Tasks), page.TotalSize)
}

func state(s a2a.TaskState) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(string(s), "TASK_STATE_")), "_", "-")
}

func result(r any, err error) string {
	if err != nil {
		return err.Error()
	}
	t, ok := r.(*a2a.Task)
	if !ok {
		return fmt.Sprintf("%T", r)
	}
	return strings.TrimSpace(state(t.Status.State) + " " + message(t.Status.Message))
}

func message(m *a2a.Message) (s string) {
	if m == nil {
		return ""
	}
	return shown(m.Parts)
}

// shown is the text of parts, without the id of the vacant that echoes.
func shown(parts a2a.ContentParts) (s string) {
	for _, p := range parts {
		s += p.Text()
	}
	if rest, ok := strings.CutPrefix(s, "echo from "); ok {
		_, said, _ := strings.Cut(rest, ": ")
		return "echo: " + said
	}
	return s
}

func events(all iter.Seq2[a2a.Event, error]) string {
	var seen []string
	for e, err := range all {
		switch e := e.(type) {
		case *a2a.Task:
			seen = append(seen, result(e, err))
		case *a2a.TaskStatusUpdateEvent:
			seen = append(seen, strings.TrimSpace(state(e.Status.State)+" "+message(e.Status.Message)))
		case *a2a.TaskArtifactUpdateEvent:
			seen = append(seen, "artifact "+shown(e.Artifact.Parts))
		default:
			seen = append(seen, fmt.Sprintf("%T %v", e, err))
		}
	}
	return strings.Join(seen, "; ")
}

func failure(err error) string {
	for name, known := range map[string]error{
		"task not found": a2a.ErrTaskNotFound, "task not cancelable": a2a.ErrTaskNotCancelable,
		"unsupported operation": a2a.ErrUnsupportedOperation, "content type not supported": a2a.ErrUnsupportedContentType,
	} {
		if errors.Is(err, known) {
			return name
		}
	}
	return fmt.Sprint(err)
}
