package a2a_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/a2a"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
)

// The host writes answers as the OpenAPI document describes them: each member of an answer is a
// member of its shape. A body of that shape is read whole.
func TestAnswersHaveTheMembersOfTheirShapes(t *testing.T) {
	object := json.RawMessage(`{"a":1}`)
	parts := []task.Part{
		{Kind: task.Text, Text: "t", Metadata: object}, {Kind: task.URL, Text: "https://a.example", MediaType: "text/plain", Filename: "f"},
		{Kind: task.Raw, Raw: []byte("raw")}, {Kind: task.Data, Data: json.RawMessage(`[1]`)},
	}
	message := task.Message{ID: "m", Context: "c", Task: "t", Role: task.Agent, Parts: parts, Metadata: object, Extensions: []string{"e"}, References: []string{"r"}}
	artifact := task.Artifact{ID: "a", Name: "n", Description: "d", Parts: parts, Metadata: object, Extensions: []string{"e"}}
	status := task.Status{State: task.Completed, Message: &message, Time: time.Unix(1_800_000_000, 0)}
	whole := task.Task{ID: "t", Context: "c", Status: status, Artifacts: []task.Artifact{artifact}, History: []task.Message{message}, Metadata: object}
	push := task.PushConfig{ID: "p", URL: "https://a.example", Token: "t", Scheme: "Bearer", Credentials: "c"}
	for name, tt := range map[string]struct {
		written []byte
		shape   any
	}{
		"a task that was sent":    {a2awire.EncodeSendResult(a2awire.V1, &whole), new(a2a.Sent)},
		"a message that was sent": {a2awire.EncodeMessageResult(a2awire.V1, &message), new(a2a.Sent)},
		"a task":                  {a2awire.EncodeTask(a2awire.V1, &whole), new(a2a.Task)},
		"tasks":                   {a2awire.EncodeListResult(a2awire.V1, &task.Page{Tasks: []task.Task{whole}, Next: "n", Total: 2}, 1, true), new(a2a.Tasks)},
		"a status":                {a2awire.EncodeStreamResult(a2awire.V1, &whole, task.Event{Status: &status}), new(a2a.Streamed)},
		"an artifact":             {a2awire.EncodeStreamResult(a2awire.V1, &whole, task.Event{Artifact: &task.Chunk{Artifact: artifact, Append: true, Last: true}}), new(a2a.Streamed)},
		"a configuration":         {a2awire.EncodePushConfig(a2awire.V1, "t", &push), new(a2a.PushConfig)},
		"configurations":          {a2awire.EncodePushConfigs(a2awire.V1, "t", []task.PushConfig{push}), new(a2a.PushConfigs)},
	} {
		d := json.NewDecoder(strings.NewReader(string(tt.written)))
		d.DisallowUnknownFields()
		if err := d.Decode(tt.shape); err != nil {
			t.Errorf("%s: %v: %s", name, err, tt.written)
			continue
		}
		again, err := json.Marshal(tt.shape)
		must(t, err)
		var got, want any
		must(t, json.Unmarshal(again, &got))
		must(t, json.Unmarshal(tt.written, &want))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-written +shape):\n%s", name, diff)
		}
	}

	body, err := json.Marshal(a2a.Send{
		Message: a2a.Message{ID: "m", Role: "ROLE_USER", Parts: []a2a.Part{{Text: "hi"}}},
		Config: &a2a.SendConfig{
			OutputModes: []string{"text"}, History: 3, Immediately: true,
			Push: &a2a.PushConfig{ID: "p", URL: "https://a.example", Token: "t", Authentication: &a2a.Authentication{Scheme: "Bearer", Credentials: "c"}},
		},
	})
	must(t, err)
	push.Dialect = uint8(a2awire.V1)
	want := a2awire.SendRequest{
		Message: task.Message{ID: "m", Role: task.User, Parts: []task.Part{{Kind: task.Text, Text: "hi"}}}, HistoryLength: new(3), ReturnImmediately: true, Push: &push, OutputModes: []string{"text"},
	}
	got, err := a2awire.DecodeSend(a2awire.V1, body)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("DecodeSend() = %v (-want +got):\n%s", err, diff)
	}
}
