package interop

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// ownDialects are the ways in which our own client speaks A2A.
var ownDialects = map[string]ownClient{
	"1.0 JSON-RPC":  {version: "1.0", binding: "JSONRPC"},
	"1.0 HTTP+JSON": {version: "1.0", binding: "HTTP+JSON"},
	"0.3 JSON-RPC":  {version: "0.3", binding: "JSONRPC"},
}

// Our own client has each of the eleven methods of A2A, in each dialect of a host.
func TestOwnClientCallsEachMethod(t *testing.T) {
	needsLocalHost(t)
	key := ""
	url := hostIn(t, filepath.Join(t.TempDir(), "host"), nil, func(h *standalone.Host) {
		must(t, errorOf(h.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "priced", Capability: "counts", Substrate: "echo"})))
		priced(t, h, "priced", 2000)
		_, key = openAcme(t, h, 0)
	})
	for name, o := range ownDialects {
		t.Run(name, func(t *testing.T) {
			o.url = url
			open := func(vacant string) *agents.Agent {
				agent := o.open(t, vacant)
				agent.BearerToken = key
				return agent
			}
			ownMethods(t, open, strings.ReplaceAll(strings.ReplaceAll(name, " ", ""), "+", ""))
		})
	}
}

// ownMethods calls each method. of is part of what the calls make, which no other dialect sees.
func ownMethods(t *testing.T, open func(vacant string) *agents.Agent, of string) {
	ctx := t.Context()
	echo, slow, slower := open("echo"), open("slow"), open("slower")
	say := func(text string, more ...func(*a2awire.SendRequest)) a2awire.SendRequest {
		q := a2awire.SendRequest{Message: task.Message{ID: of + text, Context: "room " + of, Role: task.User, Parts: []task.Part{{Kind: task.Text, Text: text}}}}
		for _, f := range more {
			f(&q)
		}
		return q
	}
	hooked := make(chan *http.Request, 99)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hooked <- r.Clone(context.Background()) }))
	defer receiver.Close()

	// Send, with a configuration, and Get.
	sent, err := echo.Send(ctx, say("one", func(q *a2awire.SendRequest) {
		q.Push = &task.PushConfig{URL: receiver.URL + "/sent", Token: "token of " + of, Scheme: "Bearer", Credentials: "secret"}
	}))
	must(t, err)
	got, err := echo.GetTask(ctx, sent.Task.ID)
	if err != nil || got.Status.State != task.Completed || !strings.HasSuffix(ownText(got.Artifacts[0].Parts), "one") {
		t.Errorf("Get() = %+v, %v", got, err)
	}
	told := await.Receive(t, "the end of the task is told", hooked)
	if told.URL.Path != "/sent" || told.Header.Get("A2A-Notification-Token") != "token of "+of || told.Header.Get("Authorization") != "Bearer secret" {
		t.Errorf("a notification %s with %v", told.URL, told.Header)
	}

	// ListTasks, page by page.
	for _, text := range []string{"two", "three"} {
		_, err := echo.Send(ctx, say(text))
		must(t, err)
	}
	var listed []string
	for q := (a2awire.ListRequest{Context: "room " + of, PageSize: 2, IncludeArtifacts: true}); ; {
		page, err := echo.ListTasks(ctx, q)
		must(t, err)
		if page.Total != 3 || len(page.Tasks) > q.PageSize {
			t.Errorf("a page has %d tasks of %d", len(page.Tasks), page.Total)
		}
		for _, one := range page.Tasks {
			_, said, _ := strings.Cut(ownText(one.Artifacts[0].Parts), ": ")
			listed = append(listed, said)
		}
		if q.PageToken = page.Next; q.PageToken == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"three", "two", "one"}, listed); diff != "" {
		t.Errorf("the tasks (-want +got):\n%s", diff)
	}
	if page, err := echo.ListTasks(ctx, a2awire.ListRequest{Context: "room " + of, State: task.Failed}); err != nil || len(page.Tasks) != 0 {
		t.Errorf("failed tasks: %v, %v", page.Tasks, err)
	}
	if _, err := echo.ListTasks(ctx, a2awire.ListRequest{PageToken: "%"}); !problem.Is(err, problem.Forbidden) || !strings.Contains(err.Error(), "-32602") {
		t.Errorf("a token that is none: %v", err)
	}

	// Stream, Subscribe and Cancel.
	pieces := ""
	must(t, slow.Stream(ctx, say("streamed"), func(a a2awire.Answer) bool {
		if a.Artifact == nil {
			return true
		}
		if pieces += ownText(a.Artifact.Artifact.Parts); pieces == "wait" {
			must(t, slow.Subscribe(ctx, a.TaskID, func(a a2awire.Answer) bool {
				if a.Artifact != nil {
					pieces += "|" + ownText(a.Artifact.Artifact.Parts)
				}
				return true
			}))
		}
		return true
	}))
	if pieces != "wait| done| done" {
		t.Errorf("the pieces are %q", pieces)
	}
	running, err := slower.Send(ctx, say("canceled", func(q *a2awire.SendRequest) { q.ReturnImmediately = true }))
	must(t, err)

	// The four methods of push configurations.
	first, err := slower.SetPushConfig(ctx, running.Task.ID, task.PushConfig{URL: receiver.URL + "/first"})
	if err != nil || first.ID == "" {
		t.Fatalf("SetPushConfig() = %+v, %v", first, err)
	}
	second, err := slower.SetPushConfig(ctx, running.Task.ID, task.PushConfig{ID: "a b%c", URL: receiver.URL + "/second", Token: "t", Scheme: "Basic", Credentials: "eDp5"})
	must(t, err)
	if again, err := slower.GetPushConfig(ctx, running.Task.ID, second.ID); err != nil || cmp.Diff(second, again) != "" || again.ID != "a b%c" || again.Scheme != "Basic" {
		t.Errorf("GetPushConfig() = %+v, %v, want %+v", again, err, second)
	}
	if _, err := slower.GetPushConfig(ctx, running.Task.ID, "none"); !problem.Is(err, problem.NotFound) {
		t.Errorf("GetPushConfig(none) = %v", err)
	}
	ids := func() (ids []string) {
		all, err := slower.ListPushConfigs(ctx, running.Task.ID)
		must(t, err)
		for _, c := range all {
			ids = append(ids, c.ID)
		}
		slices.Sort(ids)
		return ids
	}
	both := []string{first.ID, second.ID}
	slices.Sort(both)
	if got := ids(); !slices.Equal(got, both) {
		t.Errorf("ListPushConfigs() = %q, want %q", got, both)
	}
	must(t, slower.DeletePushConfig(ctx, running.Task.ID, first.ID))
	if got := ids(); !slices.Equal(got, []string{second.ID}) {
		t.Errorf("ListPushConfigs() after a deletion = %q", got)
	}
	canceled, err := slower.CancelTask(ctx, running.Task.ID)
	if err != nil || canceled.Status.State != task.Canceled {
		t.Errorf("CancelTask() = %+v, %v", canceled.Status, err)
	}
	await.Until(t, "the second receiver is told", func() bool {
		return await.Receive(t, "a notification", hooked).URL.Path == "/second"
	})
	if _, err := slower.CancelTask(ctx, running.Task.ID); err == nil || !strings.Contains(err.Error(), "-32002") {
		t.Errorf("CancelTask() again = %v", err)
	}

	// The extended card: of a vacant that takes guests it is the public one.
	for _, vacant := range []string{"echo", "priced"} {
		if card, err := open(vacant).ExtendedCard(ctx); err != nil || card.Name != vacant || len(card.CheckSignatures(nil)) == 0 {
			t.Errorf("the extended card of %s: %+v, %v", vacant, card, err)
		}
	}
	guest := open("priced")
	guest.BearerToken = ""
	if _, err := guest.ExtendedCard(ctx); err == nil || !strings.Contains(fmt.Sprint(err), "for keys of accounts") {
		t.Errorf("the extended card for a guest: %v", err)
	}
}
