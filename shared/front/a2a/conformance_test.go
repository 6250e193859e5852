package a2a_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
)

// sends sends a message with an id, a text and maybe a task to an agent under test.
func (w *world) sends(vacant, id, text, more string) answer {
	w.t.Helper()
	return w.rpc("/v/"+vacant, "SendMessage", fmt.Sprintf(`{"message":{"messageId":%q,"role":"ROLE_USER","parts":[{"text":%q}]%s}}`, id, text, more))
}

func TestTheAgentUnderTestDoesWhatTheKitsExpect(t *testing.T) {
	w := newWorld(t)
	w.create("sut", "conformance")
	for _, tt := range []struct {
		prefix, state, says string
		part                string // the first part of the first artifact
	}{
		{"tck-complete-task", "TASK_STATE_COMPLETED", "Hello from TCK", ""},
		{"tck-artifact-text", "TASK_STATE_COMPLETED", "done", `{"text":"Generated text content"}`},
		{"tck-artifact-data", "TASK_STATE_COMPLETED", "done", `{"data":{"count":42,"key":"value"},"mediaType":"application/json"}`},
		{"tck-artifact-file", "TASK_STATE_COMPLETED", "done", `{"filename":"output.txt","mediaType":"text/plain","raw":"R2VuZXJhdGVkIGZpbGUgY29udGVudA=="}`},
		{"tck-artifact-file-url", "TASK_STATE_COMPLETED", "done", `{"filename":"output.txt","mediaType":"text/plain","url":"https://example.com/output.txt"}`},
		{"tck-input-required", "TASK_STATE_INPUT_REQUIRED", "More input is needed", ""},
		{"tck-reject-task", "TASK_STATE_REJECTED", "Rejected", ""},
		{"tck-stream-basic", "TASK_STATE_COMPLETED", "done", `{"text":"Stream hello from TCK"}`},
		{"tck-stream-artifact-chunked", "TASK_STATE_COMPLETED", "done", `{"text":"chunk-1chunk-2"}`},
		{"tck-task-failure", "TASK_STATE_FAILED", "the vacant failed to answer: its agent refused the request", ""},
		{"anything", "TASK_STATE_COMPLETED", "done", ""},
	} {
		for how, got := range map[string]answer{"id": w.sends("sut", tt.prefix+"-123", "x", ""), "text": w.sends("sut", "m1", tt.prefix+" please", "")} {
			task := at(t, got.body, "result", "task")
			if at(t, task, "status", "state") != tt.state || at(t, task, "status", "message", "parts", 0, "text") != tt.says || at(t, task, "artifacts", 0, "parts", 0) != tt.part || at(t, task, "artifacts", 1) != "" {
				t.Errorf("%s by %s: %s", tt.prefix, how, got.body)
			}
		}
	}
	if got := w.sends("sut", "tck-message-response-1", "x", ""); at(t, got.body, "result", "message", "parts", 0, "text") != "Direct message response" || at(t, got.body, "result", "message", "taskId") != "" {
		t.Errorf("a bare message: %s", got.body)
	}
	stream := frames(w.rpc("/v/sut", "SendStreamingMessage", `{"message":{"messageId":"tck-message-response-2","role":"ROLE_USER","parts":[{"text":"x"}]}}`).body)
	if len(stream) != 1 || !strings.Contains(stream[0], `"result":{"message":`) {
		t.Errorf("a stream of a bare message: %q", stream)
	}
	chunks := frames(w.rpc("/v/sut", "SendStreamingMessage", `{"message":{"messageId":"tck-stream-artifact-chunked-1","role":"ROLE_USER","parts":[{"text":"x"}]}}`).body)
	if len(chunks) != 4 || !strings.Contains(chunks[1], `"append":false,"lastChunk":false`) || !strings.Contains(chunks[2], `"append":true,"lastChunk":true`) {
		t.Errorf("a stream of chunks:\n%s", strings.Join(chunks, "\n"))
	}
	for part, json := range map[string]string{"a file": `{"raw":"YQ=="}`, "data": `{"data":{"a":1}}`, "a URL": `{"url":"https://example.com/"}`} {
		got := w.rpc("/v/sut", "SendMessage", `{"message":{"messageId":"tck-complete-task-1","role":"ROLE_USER","parts":[`+json+`]}}`)
		if at(t, got.body, "result", "task", "status", "state") != "TASK_STATE_COMPLETED" || at(t, got.body, "result", "task", "history", 0, "parts", 0) != json {
			t.Errorf("%s: %s", part, got.body)
		}
	}
	// Its card says what it takes.
	for what, body := range map[string]string{
		"a part of an unknown type": `{"message":{"messageId":"tck-complete-task-1","role":"ROLE_USER","parts":[{"raw":"YQ==","mediaType":"application/x-unsupported-tck-type"}]}}`,
		"an unknown output mode":    `{"message":{"messageId":"tck-complete-task-1","role":"ROLE_USER","parts":[{"text":"x"}]},"configuration":{"acceptedOutputModes":["application/x-unsupported"]}}`,
	} {
		if got := w.rpc("/v/sut", "SendMessage", body); at(t, got.body, "error", "code") != "-32005" {
			t.Errorf("%s: %s", what, got.body)
		}
	}
	if got := w.rpc("/v/sut", "SendMessage", `{"message":{"messageId":"tck-artifact-data-1","role":"ROLE_USER","parts":[{"raw":"e30=","mediaType":"application/json"}]},"configuration":{"acceptedOutputModes":["application/json"]}}`); at(t, got.body, "result", "task", "status", "state") != "TASK_STATE_COMPLETED" {
		t.Errorf("JSON: %s", got.body)
	}
	if card := w.do("GET", "/v/sut", ""); at(t, card.body, "defaultInputModes") != `["text/plain","text","application/json"]` {
		t.Errorf("its card says %s", at(t, card.body, "defaultInputModes"))
	}
	if card := w.do("GET", "/v/sut", ""); at(t, card.body, "protocolVersion") != "" {
		t.Errorf("its card is not that of 1.0 alone: %s", card.body)
	}
	id := at(t, w.sends("sut", "tck-complete-task-9", "x", "").body, "result", "task", "id")
	if got := w.do("POST", "/v/sut/tasks/"+id+":cancel", ""); got.status != 409 {
		t.Errorf("cancel of an ended task by REST: %d %s", got.status, got.body)
	}
	if got := w.rpc("/v/sut", "ListTasks", `{"pageSize":100}`); at(t, got.body, "result", "totalSize") == "0" {
		t.Errorf("its tasks are not shared: %s", got.body)
	}
}

func TestATaskThatWaitsGoesOn(t *testing.T) {
	w := newWorld(t)
	w.create("sut", "conformance")
	first := w.sends("sut", "tck-input-required-1", "one", "")
	id, conversation := at(t, first.body, "result", "task", "id"), at(t, first.body, "result", "task", "contextId")
	more := fmt.Sprintf(`,"taskId":%q`, id)
	if got := w.sends("sut", "m2", "two", more+`,"contextId":"another"`); at(t, got.body, "error", "code") != "-32602" {
		t.Errorf("another context: %s", got.body)
	}
	second := w.sends("sut", "m2", "two", more)
	task := at(t, second.body, "result", "task")
	if at(t, task, "id") != id || at(t, task, "contextId") != conversation || at(t, task, "status", "state") != "TASK_STATE_COMPLETED" {
		t.Fatalf("the next message: %s", second.body)
	}
	// The history has both messages, and what was said between them, in their order.
	for i, want := range []string{"one", "More input is needed", "two"} {
		if got := at(t, task, "history", i, "parts", 0, "text"); got != want {
			t.Errorf("history %d is %q, want %q", i, got, want)
		}
	}
	// Envelopes are shown, in the history too, to who lists the extension.
	for want, headers := range map[int][]string{0: nil, 2: {"A2A-Extensions: " + a2awire.Extension}} {
		if got := w.do("GET", "/v/sut/tasks/"+id, "", headers...); strings.Count(got.body, `"`+a2awire.Extension+`"`) != want {
			t.Errorf("with %v: %s, want %d envelopes", headers, got.body, want)
		}
	}
	if got := w.sends("sut", "m3", "three", more); at(t, got.body, "error", "code") != "-32004" || !strings.Contains(got.body, "has ended") {
		t.Errorf("a message to an ended task: %s", got.body)
	}
	// A conversation of several turns ends when it is told to.
	several := w.sends("sut", "tck-multi-turn-1", "one", "")
	more = fmt.Sprintf(`,"taskId":%q`, at(t, several.body, "result", "task", "id"))
	if got := w.sends("sut", "tck-multi-turn-2", "two", more); at(t, got.body, "result", "task", "status", "state") != "TASK_STATE_INPUT_REQUIRED" {
		t.Errorf("the second of several: %s", got.body)
	}
	if got := w.sends("sut", "m3", "three", more); at(t, got.body, "result", "task", "status", "state") != "TASK_STATE_INPUT_REQUIRED" {
		t.Errorf("a message without a prefix in a conversation of several turns: %s", got.body)
	}
	// A prefix of its own decides.
	again := w.sends("sut", "tck-input-required-7", "one", "")
	again7 := fmt.Sprintf(`,"taskId":%q`, at(t, again.body, "result", "task", "id"))
	if got := w.sends("sut", "tck-input-required-8", "done", again7); at(t, got.body, "result", "task", "status", "state") != "TASK_STATE_INPUT_REQUIRED" {
		t.Errorf("the same prefix again: %s", got.body)
	}
	if got := w.sends("sut", "tck-artifact-text-9", "x", again7); at(t, got.body, "result", "task", "status", "state") != "TASK_STATE_COMPLETED" || at(t, got.body, "result", "task", "artifacts", 0, "parts", 0, "text") != "Generated text content" {
		t.Errorf("another prefix: %s", got.body)
	}
	stream := frames(w.rpc("/v/sut", "SendStreamingMessage", `{"message":{"messageId":"tck-multi-turn-3","role":"ROLE_USER","parts":[{"text":"done"}]`+more+`}}`).body)
	if len(stream) < 2 || !strings.Contains(stream[0], `"task":{"id"`) || !strings.Contains(stream[0], "TASK_STATE_WORKING") || !strings.Contains(stream[len(stream)-1], "TASK_STATE_COMPLETED") {
		t.Errorf("the last of several, as a stream:\n%s", strings.Join(stream, "\n"))
	}
	// A task that waits can be canceled, and continued in the background.
	waiting := w.sends("sut", "tck-input-required-2", "one", "")
	if got := w.rpc("/v/sut", "CancelTask", fmt.Sprintf(`{"id":%q}`, at(t, waiting.body, "result", "task", "id"))); at(t, got.body, "result", "status", "state") != "TASK_STATE_CANCELED" {
		t.Errorf("cancel: %s", got.body)
	}
	waiting = w.sends("sut", "tck-input-required-3", "one", "")
	id = at(t, waiting.body, "result", "task", "id")
	got := w.rpc("/v/sut", "SendMessage", fmt.Sprintf(`{"message":{"messageId":"m","taskId":%q,"role":"ROLE_USER","parts":[{"text":"two"}]},"configuration":{"returnImmediately":true}}`, id))
	if at(t, got.body, "result", "task", "status", "state") == "TASK_STATE_INPUT_REQUIRED" {
		t.Errorf("in the background: %s", got.body)
	}
	if ended := frames(w.rpc("/v/sut", "SubscribeToTask", fmt.Sprintf(`{"id":%q}`, id)).body); len(ended) > 0 && !strings.Contains(ended[len(ended)-1], "TASK_STATE_COMPLETED") {
		t.Errorf("it ends with %s", ended[len(ended)-1])
	}
}

func TestTheAgentUnderTestOf03Parks(t *testing.T) {
	w := newWorld(t)
	w.create("old", "conformance:0.3")
	send := func(more string) answer {
		return w.rpc("/v/old", "message/send", `{"message":{"kind":"message","messageId":"m1","role":"user","parts":[{"kind":"text","text":"hi"}]`+more+`}}`)
	}
	first := send("")
	if at(t, first.body, "result", "status", "state") != "input-required" {
		t.Fatalf("the first message: %s", first.body)
	}
	more := fmt.Sprintf(`,"taskId":%q`, at(t, first.body, "result", "id"))
	if second := send(more); at(t, second.body, "result", "status", "state") != "input-required" || at(t, second.body, "result", "history", 2, "messageId") != "m1" {
		t.Errorf("the second: %s", second.body)
	}
	if got := w.rpc("/v/old", "tasks/cancel", fmt.Sprintf(`{"id":%q}`, at(t, first.body, "result", "id"))); at(t, got.body, "result", "status", "state") != "canceled" {
		t.Errorf("cancel: %s", got.body)
	}
	if got := w.rpc("/v/old", "tasks/cancel", fmt.Sprintf(`{"id":%q}`, at(t, first.body, "result", "id"))); at(t, got.body, "error", "code") != "-32002" {
		t.Errorf("cancel again: %s", got.body)
	}
	if card := w.do("GET", "/v/old", ""); at(t, card.body, "protocolVersion") != "0.3.0" {
		t.Errorf("its card: %s", card.body)
	}
}

func TestTwoMessagesToOneTaskAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("sut", "conformance")
	first := w.sends("sut", "tck-input-required-1", "one", "")
	id := at(t, first.body, "result", "task", "id")
	// The second turn takes a while; a third message meets a busy task.
	started := make(chan answer)
	go func() { started <- w.sends("sut", "tck-long-running-1", "two", fmt.Sprintf(`,"taskId":%q`, id)) }()
	busy := false
	for range 400 {
		got := w.rpc("/v/sut", "GetTask", fmt.Sprintf(`{"id":%q}`, id))
		if at(t, got.body, "result", "status", "state") == "TASK_STATE_WORKING" {
			busy = true
			break
		}
	}
	if !busy {
		t.Fatal("the task was never at work")
	}
	if got := w.sends("sut", "m3", "three", fmt.Sprintf(`,"taskId":%q`, id)); at(t, got.body, "error", "data", 0, "reason") != "TASK_BUSY" {
		t.Errorf("a message to a busy task: %s", got.body)
	}
	if got := w.do("POST", "/v/sut/message:send", fmt.Sprintf(`{"message":{"messageId":"m3","taskId":%q,"role":"ROLE_USER","parts":[{"text":"x"}]}}`, id)); got.status != 409 {
		t.Errorf("by REST: %d %s", got.status, got.body)
	}
	if got := w.rpc("/v/sut", "CancelTask", fmt.Sprintf(`{"id":%q}`, id)); at(t, got.body, "result", "status", "state") != "TASK_STATE_CANCELED" {
		t.Errorf("cancel: %s", got.body)
	}
	if got := await.Receive(t, "the second turn ends", started); at(t, got.body, "result", "task", "status", "state") != "TASK_STATE_CANCELED" {
		t.Errorf("the second turn: %s", got.body)
	}
}
