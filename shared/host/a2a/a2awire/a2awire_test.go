package a2awire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
)

// everything is a task with each member that A2A has.
func everything() task.Task {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.UTC)
	parts := []task.Part{
		{Kind: task.Text, Text: "a\nü\u2028🦊", Metadata: json.RawMessage(`{"n":9007199254740993}`)},
		{Kind: task.Raw, Raw: []byte{0, 1, 255}, Filename: "f.bin", MediaType: "application/octet-stream"},
		{Kind: task.URL, Text: "https://example.com/a", MediaType: "text/html"},
		{Kind: task.Data, Data: json.RawMessage(`{"b":[1,null,1.0]}`)},
	}
	m := task.Message{
		ID: "m1", Context: "c1", Task: "t1", Role: task.User, Parts: parts, Metadata: json.RawMessage(`{"big":123456789012345678901234567890}`),
		Extensions: []string{"urn:a"}, References: []string{"t0"},
	}
	answer := m
	answer.Role = task.Agent
	return task.Task{
		ID: "t1", Context: "c1", Status: task.Status{State: task.InputRequired, Message: &answer, Time: at},
		Artifacts: []task.Artifact{{ID: "a1", Name: "n", Description: "d", Parts: parts, Metadata: json.RawMessage(`{}`), Extensions: []string{"urn:a"}}},
		History:   []task.Message{m}, Metadata: json.RawMessage(`{"k":"v"}`),
	}
}

func TestEachDialectSaysATaskItsOwnWay(t *testing.T) {
	const message1 = `{"messageId":"m1","contextId":"c1","taskId":"t1","role":"ROLE_USER","parts":[` +
		`{"text":"a\nü` + "\u2028" + `🦊","metadata":{"n":9007199254740993}},{"raw":"AAH/","filename":"f.bin","mediaType":"application/octet-stream"},` +
		`{"url":"https://example.com/a","mediaType":"text/html"},{"data":{"b":[1,null,1.0]}}],` +
		`"metadata":{"big":123456789012345678901234567890},"extensions":["urn:a"],"referenceTaskIds":["t0"]}`
	const message03 = `{"kind":"message","messageId":"m1","contextId":"c1","taskId":"t1","role":"user","parts":[` +
		`{"kind":"text","text":"a\nü` + "\u2028" + `🦊","metadata":{"n":9007199254740993}},{"kind":"file","file":{"name":"f.bin","mimeType":"application/octet-stream","bytes":"AAH/"}},` +
		`{"kind":"file","file":{"mimeType":"text/html","uri":"https://example.com/a"}},{"kind":"data","data":{"b":[1,null,1.0]}}],` +
		`"metadata":{"big":123456789012345678901234567890},"extensions":["urn:a"],"referenceTaskIds":["t0"]}`
	rest := func(message, agent, state, kind string) string {
		parts := message[strings.Index(message, `"parts"`):strings.Index(message, `,"metadata":{"big"`)]
		return kind + `"id":"t1","contextId":"c1","status":{"state":"` + state + `","message":` + strings.Replace(message, `"role":"`+map[bool]string{true: "user", false: "ROLE_USER"}[kind != ""], `"role":"`+agent, 1) +
			`,"timestamp":"2026-01-02T03:04:05.678Z"},"artifacts":[{"artifactId":"a1","name":"n","description":"d",` + parts + `,"metadata":{},"extensions":["urn:a"]}],"history":[` + message + `],"metadata":{"k":"v"}}`
	}
	whole := everything()
	for d, want := range map[a2awire.Dialect]string{
		a2awire.V1: "{" + rest(message1, "ROLE_AGENT", "TASK_STATE_INPUT_REQUIRED", ""), a2awire.V03: "{" + rest(message03, "agent", "input-required", `"kind":"task",`),
		a2awire.V1Snake: "{" + strings.NewReplacer(`"messageId"`, `"message_id"`, `"contextId"`, `"context_id"`, `"taskId"`, `"task_id"`, `"mediaType"`, `"media_type"`,
			`"referenceTaskIds"`, `"reference_task_ids"`, `"artifactId"`, `"artifact_id"`).Replace(rest(message1, "ROLE_AGENT", "TASK_STATE_INPUT_REQUIRED", "")),
	} {
		if diff := cmp.Diff(want, string(a2awire.EncodeTask(d, &whole))); diff != "" {
			t.Errorf("dialect %d (-want +got):\n%s", d, diff)
		}
	}
}

func TestWhatIsWrittenIsReadByTheClient(t *testing.T) {
	same := cmp.Comparer(func(a, b json.RawMessage) bool { return string(a) == string(b) })
	whole := everything()
	whole.Status.Time = whole.Status.Time.Truncate(time.Millisecond)
	for d := range a2awire.V03 + 1 {
		got, err := a2awire.ReadTask(d, a2awire.EncodeTask(d, &whole))
		if diff := cmp.Diff(whole, got, same); err != nil || diff != "" {
			t.Errorf("dialect %d: %v (-want +got):\n%s", d, err, diff)
		}
		chunk := task.Chunk{Artifact: whole.Artifacts[0], Append: true, Last: true}
		for name, e := range map[string]task.Event{"task": {Task: &whole}, "status": {Status: &whole.Status}, "artifact": {Artifact: &chunk}} {
			a, err := a2awire.ReadAnswer(d, a2awire.EncodeStreamResult(d, &whole, e))
			if diff := cmp.Diff(e, a.Event, same); err != nil || diff != "" || name != "task" && (a.TaskID != "t1" || a.Context != "c1") {
				t.Errorf("dialect %d, %s: %v (-want +got):\n%s", d, name, err, diff)
			}
		}
		m := whole.History[0]
		if a, err := a2awire.ReadAnswer(d, a2awire.EncodeMessageResult(d, &m)); err != nil || a.Message == nil || cmp.Diff(m, *a.Message, same) != "" {
			t.Errorf("dialect %d, message: %+v, %v", d, a.Message, err)
		}
		page := task.Page{Tasks: []task.Task{whole}, Next: "n", Total: 7}
		if got, err := a2awire.ReadList(d, a2awire.EncodeListResult(d, &page, 1, true)); err != nil || cmp.Diff(page, got, same) != "" {
			t.Errorf("dialect %d, list: %+v, %v", d, got, err)
		}
		q := a2awire.SendRequest{Message: m, ReturnImmediately: true, HistoryLength: new(int), OutputModes: []string{"text/plain"}}
		if got, err := a2awire.DecodeSend(d, a2awire.EncodeSendParams(d, &q)); err != nil || cmp.Diff(q, got, same) != "" {
			t.Errorf("dialect %d, parameters: %v %s", d, err, cmp.Diff(q, got, same))
		}
		q.Push = &task.PushConfig{ID: "p", URL: "https://a.example/hook", Token: "t", Scheme: "Bearer", Credentials: "c", Dialect: uint8(d)}
		if got, err := a2awire.DecodeSend(d, a2awire.EncodeSendParams(d, &q)); err != nil || cmp.Diff(q, got, same) != "" {
			t.Errorf("dialect %d, parameters with a configuration: %v %s", d, err, cmp.Diff(q, got, same))
		}
		if got, err := a2awire.DecodePushCreate(d, a2awire.EncodePushConfig(d, "t1", q.Push)); err != nil || got.TaskID != "t1" || got.Config != *q.Push {
			t.Errorf("dialect %d, a new configuration: %+v, %v", d, got, err)
		}
		if got, err := a2awire.ReadPushConfig(d, a2awire.EncodePushConfig(d, "t1", q.Push)); err != nil || got != *q.Push {
			t.Errorf("dialect %d, a configuration: %+v, %v", d, got, err)
		}
		if got, next, err := a2awire.ReadPushConfigs(d, a2awire.EncodePushConfigs(d, "t1", []task.PushConfig{*q.Push})); err != nil || next != "" || len(got) != 1 || got[0] != *q.Push {
			t.Errorf("dialect %d, configurations: %+v, %q, %v", d, got, next, err)
		}
		if got, err := a2awire.DecodePushParams(d, a2awire.EncodePushParams(d, "t1", "p")); err != nil || got.TaskID != "t1" || got.ConfigID != "p" {
			t.Errorf("dialect %d, the name of a configuration: %+v, %v", d, got, err)
		}
		list := a2awire.ListRequest{Context: "c", State: task.Failed, PageSize: 3, PageToken: "t", HistoryLength: new(int), UpdatedAfter: time.Unix(5, 0).UTC(), IncludeArtifacts: true}
		if got, err := a2awire.DecodeList(d, a2awire.EncodeListParams(d, &list)); err != nil || cmp.Diff(list, got) != "" {
			t.Errorf("dialect %d, list parameters: %v %s", d, err, cmp.Diff(list, got))
		}
		for o := a2awire.Send; o <= a2awire.ExtendedCard; o++ {
			if back, of, ok := a2awire.ParseMethod(a2awire.MethodName(d, o)); !ok || back != o || (of == a2awire.V1) != (d == a2awire.V1) {
				t.Errorf("dialect %d: operation %d is method %q", d, o, a2awire.MethodName(d, o))
			}
		}
	}
}

// Agents answer details that decide nothing in other forms, and leave members out.
func TestListsAndConfigurationsOfOtherAgents(t *testing.T) {
	if p, err := a2awire.ReadList(a2awire.V1, []byte(`{"tasks":[],"totalSize":"many"}`)); err != nil || p.Total != -1 || p.Next != "" {
		t.Errorf("a list without a number: %+v, %v", p, err)
	}
	if c, err := a2awire.ReadPushConfig(a2awire.V1, []byte(`{"id":5,"url":"https://a.example/","token":null,"created_at":1}`)); err != nil || c.URL != "https://a.example/" || c.ID != "" {
		t.Errorf("a configuration: %+v, %v", c, err)
	}
	if _, next, err := a2awire.ReadPushConfigs(a2awire.V1, []byte(`{"configs":null,"next_page_token":"n"}`)); err != nil || next != "n" {
		t.Errorf("no configurations: %q, %v", next, err)
	}
	for _, bad := range []string{`[]`, `{"id":"p"}`, `null`, `{"url":""}`} {
		if c, err := a2awire.ReadPushConfig(a2awire.V1, []byte(bad)); err == nil {
			t.Errorf("%s is the configuration %+v", bad, c)
		}
	}
	for _, bad := range []string{`[{"id":"p"}]`, `{"configs":[5]}`, `"x"`} {
		if all, _, err := a2awire.ReadPushConfigs(a2awire.V1, []byte(bad)); err == nil {
			t.Errorf("%s are the configurations %+v", bad, all)
		}
	}
	for body, code := range map[string]int64{
		`{"error":{"code":404,"status":"NOT_FOUND","message":"no","details":[{"@type":"x","reason":"TASK_NOT_FOUND"}]}}`: -32001,
		`{"error":{"code":403,"message":"no"}}`: -32000, `{"error":{"message":"no","details":"none"}}`: -32000,
		`{"error":{"message":""}}`: 0, `{"detail":"no"}`: 0, `<html>`: 0, ``: 0, `{"error":5}`: 0,
	} {
		var fault *a2awire.RPCError
		if err := a2awire.ReadRESTError([]byte(body)); errors.As(err, &fault) != (code != 0) || code != 0 && fault.Code != code {
			t.Errorf("%s is the error %v, want code %d", body, err, code)
		}
	}
}

func TestResponses(t *testing.T) {
	if b, err := a2awire.ReadResponse([]byte(`{"jsonrpc":"2.0","id":7,"result":{"a":1}}`), "7"); err != nil || string(b) != `{"a":1}` {
		t.Errorf("ReadResponse() = %s, %v", b, err)
	}
	var fault *a2awire.RPCError
	if _, err := a2awire.ReadResponse([]byte(`{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"no","data":[1]}}`), "7"); !errors.As(err, &fault) || fault.Code != -32001 || string(fault.Data) != "[1]" {
		t.Errorf("ReadResponse(error) = %v", err)
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"id":8,"result":{}}`, `{"id":7}`, `{"id":7,"result":{}} x`, `{"id":7,"id":7,"result":1}`} {
		if b, err := a2awire.ReadResponse([]byte(bad), "7"); err == nil {
			t.Errorf("ReadResponse(%s) = %s", bad, b)
		}
	}
}

// FuzzRead reads hostile answers in each dialect.
func FuzzRead(f *testing.F) {
	whole := everything()
	for d := range a2awire.V03 + 1 {
		f.Add(byte(d), a2awire.EncodeStreamResult(d, &whole, task.Event{Task: &whole}))
		f.Add(byte(d), a2awire.EncodeStreamResult(d, &whole, task.Event{Status: &whole.Status}))
	}
	f.Fuzz(func(t *testing.T, b byte, raw []byte) {
		d := a2awire.Dialect(b % 3)
		_, _ = a2awire.ReadTask(d, raw)
		_, _ = a2awire.ReadList(d, raw)
		_, _ = a2awire.ReadResponse(raw, "1")
		_ = a2awire.ReadRESTError(raw)
		_, _ = a2awire.ReadPushConfig(d, raw)
		_, _, _ = a2awire.ReadPushConfigs(d, raw)
		a, err := a2awire.ReadAnswer(d, raw)
		if err != nil || a.Task == nil {
			return
		}
		again, err := a2awire.ReadAnswer(d, a2awire.EncodeStreamResult(d, a.Task, task.Event{Task: a.Task}))
		if err != nil || again.Task.ID != a.Task.ID || len(again.Task.Artifacts) != len(a.Task.Artifacts) {
			t.Fatalf("%s is read and written, and then read as %+v, %v", raw, again, err)
		}
	})
}

func TestEventsOfEachDialect(t *testing.T) {
	whole := task.Task{ID: "t", Context: "c", Status: task.Status{State: task.Working, Time: time.Unix(0, 0)}}
	status := task.Event{Status: &task.Status{State: task.Completed, Time: time.Unix(0, 0)}}
	chunk := task.Event{Artifact: &task.Chunk{Artifact: task.Artifact{ID: "a", Parts: []task.Part{{Kind: task.Text, Text: "x"}}}, Append: true}}
	for _, tt := range []struct {
		d    a2awire.Dialect
		e    task.Event
		want string
	}{
		{a2awire.V1, task.Event{Task: &whole}, `{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING","timestamp":"1970-01-01T00:00:00.000Z"}}}`},
		{a2awire.V03, task.Event{Task: &whole}, `{"kind":"task","id":"t","contextId":"c","status":{"state":"working","timestamp":"1970-01-01T00:00:00.000Z"}}`},
		{a2awire.V1, status, `{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED","timestamp":"1970-01-01T00:00:00.000Z"}}}`},
		{a2awire.V03, status, `{"kind":"status-update","taskId":"t","contextId":"c","status":{"state":"completed","timestamp":"1970-01-01T00:00:00.000Z"},"final":true}`},
		{a2awire.V1Snake, chunk, `{"artifact_update":{"task_id":"t","context_id":"c","artifact":{"artifact_id":"a","parts":[{"text":"x"}]},"append":true,"last_chunk":false}}`},
		{a2awire.V03, chunk, `{"kind":"artifact-update","taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[{"kind":"text","text":"x"}]},"append":true,"lastChunk":false}`},
	} {
		if got := string(a2awire.EncodeStreamResult(tt.d, &whole, tt.e)); got != tt.want {
			t.Errorf("dialect %d: %s, want %s", tt.d, got, tt.want)
		}
	}
}

// The map of states, both ways: what A2A 1.0 and 0.3 call each state.
func TestStateMap(t *testing.T) {
	want := map[task.State]string{
		task.Submitted: "TASK_STATE_SUBMITTED", task.Working: "TASK_STATE_WORKING", task.InputRequired: "TASK_STATE_INPUT_REQUIRED", task.AuthRequired: "TASK_STATE_AUTH_REQUIRED",
		task.Completed: "TASK_STATE_COMPLETED", task.Canceled: "TASK_STATE_CANCELED", task.Failed: "TASK_STATE_FAILED", task.Rejected: "TASK_STATE_REJECTED",
	}
	if len(want) != len(task.States()) {
		t.Fatalf("%d states, want %d", len(task.States()), len(want))
	}
	for s, name := range want {
		for d, text := range map[a2awire.Dialect]string{a2awire.V1: name, a2awire.V1Snake: name, a2awire.V03: string(s)} {
			one := task.Task{ID: "t", Status: task.Status{State: s}}
			if !strings.Contains(string(a2awire.EncodeTask(d, &one)), fmt.Sprintf(`"state":%q`, text)) {
				t.Errorf("dialect %d writes %s as %s", d, s, a2awire.EncodeTask(d, &one))
			}
			if q, err := a2awire.DecodeList(d, fmt.Appendf(nil, `{"status":%q}`, text)); err != nil || q.State != s {
				t.Errorf("dialect %d reads %s as %q, %v", d, text, q.State, err)
			}
		}
	}
}

func TestDataOf1ThatIsNoObjectBecomesOneIn03(t *testing.T) {
	whole := task.Task{ID: "t", Artifacts: []task.Artifact{{ID: "a", Parts: []task.Part{{Kind: task.Data, Data: json.RawMessage(`[1]`)}}}}}
	if got := string(a2awire.EncodeTask(a2awire.V03, &whole)); !strings.Contains(got, `{"kind":"data","data":{"value":[1]}}`) {
		t.Errorf("Task() = %s", got)
	}
}

func TestSendParameters(t *testing.T) {
	five := 5
	m := task.Message{ID: "m", Role: task.User, Parts: []task.Part{{Kind: task.Text, Text: ""}}}
	for name, tt := range map[string]struct {
		d      a2awire.Dialect
		params string
		want   a2awire.SendRequest
	}{
		"1.0":             {a2awire.V1, `{"tenant":"x","message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":""}],"contextId":null,"unknown":{"a":1}},"configuration":{"returnImmediately":true,"historyLength":5,"acceptedOutputModes":["text/plain"]}}`, a2awire.SendRequest{Message: m, ReturnImmediately: true, HistoryLength: &five, OutputModes: []string{"text/plain"}}},
		"1.0 in snake":    {a2awire.V1, `{"message":{"message_id":"m","role":"ROLE_USER","parts":[{"text":""}]},"configuration":{"return_immediately":true,"task_push_notification_config":{}}}`, a2awire.SendRequest{Message: m, ReturnImmediately: true, Push: &task.PushConfig{Dialect: uint8(a2awire.V1)}}},
		"0.3":             {a2awire.V03, `{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":""}]},"configuration":{"blocking":false}}`, a2awire.SendRequest{Message: m, ReturnImmediately: true}},
		"0.3 blocks":      {a2awire.V03, `{"message":{"messageId":"m","role":"user","parts":[{"kind":"text","text":""}]},"configuration":{"blocking":true,"pushNotificationConfig":{"url":"x"}}}`, a2awire.SendRequest{Message: m, Push: &task.PushConfig{URL: "x", Dialect: uint8(a2awire.V03)}}},
		"1.0 in the past": {a2awire.V1, `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":""}]},"configuration":{"blocking":false}}`, a2awire.SendRequest{Message: m}},
	} {
		got, err := a2awire.DecodeSend(tt.d, []byte(tt.params))
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestPushConfigsOfEachDialect(t *testing.T) {
	want := task.PushConfig{ID: "c", URL: "https://example.com/p", Token: "t", Scheme: "Bearer", Credentials: "k"}
	for d, params := range map[a2awire.Dialect]string{
		a2awire.V1:      `{"taskId":"t1","id":"c","url":"https://example.com/p","token":"t","authentication":{"scheme":"Bearer","credentials":"k"}}`,
		a2awire.V1Snake: `{"task_id":"t1","id":"c","url":"https://example.com/p","token":"t","authentication":{"scheme":"Bearer","credentials":"k"}}`,
		a2awire.V03:     `{"taskId":"t1","pushNotificationConfig":{"id":"c","url":"https://example.com/p","token":"t","authentication":{"schemes":["Bearer"],"credentials":"k"}}}`,
	} {
		want.Dialect = uint8(d)
		got, err := a2awire.DecodePushCreate(d, []byte(params))
		if diff := cmp.Diff(a2awire.PushRequest{TaskID: "t1", Config: want}, got); err != nil || diff != "" {
			t.Errorf("dialect %d: %v (-want +got):\n%s", d, err, diff)
		}
		if got := string(a2awire.EncodePushConfig(d, "t1", &want)); got != params {
			t.Errorf("dialect %d writes %s, want %s", d, got, params)
		}
		if none := string(a2awire.EncodePushConfigs(d, "t1", nil)); none != "[]" && !strings.HasPrefix(none, `{"configs":[],"next`) {
			t.Errorf("dialect %d writes none as %s", d, none)
		}
	}
	for d, params := range map[a2awire.Dialect]string{a2awire.V1: `{"taskId":"t1","id":"c"}`, a2awire.V03: `{"id":"t1","pushNotificationConfigId":"c"}`} {
		if got, err := a2awire.DecodePushParams(d, []byte(params)); err != nil || got.TaskID != "t1" || got.ConfigID != "c" {
			t.Errorf("dialect %d: %+v, %v", d, got, err)
		}
		if _, err := a2awire.DecodePushParams(d, []byte(`{}`)); err == nil {
			t.Errorf("dialect %d: a request without a task is read", d)
		}
	}
}

// FuzzDecode reads hostile parameters in each dialect. A message that is read is
// written, and read again, as the same message.
func FuzzDecode(f *testing.F) {
	whole := everything()
	for d := range a2awire.V03 + 1 {
		var m struct{ History []json.RawMessage }
		if err := json.Unmarshal(a2awire.EncodeTask(d, &whole), &m); err != nil {
			f.Fatal(err)
		}
		f.Add(byte(d), fmt.Appendf(nil, `{"message":%s,"configuration":{"historyLength":1}}`, m.History[0]))
	}
	f.Add(byte(0), []byte(`{"id":"t","history_length":3,"contextId":"c","pageSize":5,"status":"TASK_STATE_WORKING","statusTimestampAfter":"2026-01-02T03:04:05Z"}`))
	f.Fuzz(func(t *testing.T, b byte, params []byte) {
		d := a2awire.Dialect(b % 3)
		_, _ = a2awire.DecodeTask(d, params)
		_, _ = a2awire.DecodeList(d, params)
		_, _ = a2awire.DecodePushParams(d, params)
		_, _ = a2awire.DecodePushCreate(d, params)
		q, err := a2awire.DecodeSend(d, params)
		if err != nil {
			return
		}
		one := task.Task{ID: "t", Status: task.Status{State: task.Working}, History: []task.Message{q.Message}}
		var written struct{ History []json.RawMessage }
		if err := json.Unmarshal(a2awire.EncodeTask(d, &one), &written); err != nil {
			t.Fatalf("%s is written as no JSON: %v", params, err)
		}
		again, err := a2awire.DecodeSend(d, fmt.Appendf(nil, `{"message":%s}`, written.History[0]))
		if err != nil {
			t.Fatalf("%s is read and written as %s, which is not read: %v", params, written.History[0], err)
		}
		if diff := cmp.Diff(q.Message, again.Message, cmp.Comparer(func(a, b json.RawMessage) bool { return string(a) == string(b) })); diff != "" {
			t.Fatalf("%s is read and written (-first +again):\n%s", params, diff)
		}
	})
}
