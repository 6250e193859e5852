package tamper_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/tamper"
	"github.com/vacancy-host/vacancy/shared/host/fsck/canary"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func now() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// look gives an event to a detector and returns the content of its log lines.
func look(t *testing.T, event string) (tampered, canaries int, told [][]any) {
	t.Helper()
	var log bytes.Buffer
	w := tamper.New(obs.NewHandler(&log, obs.Config{Stage: "dev", Function: "tamper"}), now)
	tampered, err := w.Check(t.Context(), []byte(event))
	if err != nil {
		t.Fatalf("Look() = %v", err)
	}
	for line := range bytes.Lines(log.Bytes()) {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if m["canaries"] == 1. && m["_aws"] != nil && m["level"] == "INFO" {
			canaries++
			continue
		}
		if m["tampered"] != 1. || m["_aws"] == nil || m["level"] != "ERROR" {
			t.Errorf("the line counts nothing: %s", line)
		}
		told = append(told, []any{m["event"], m["stream"], m["position"]})
	}
	return tampered, canaries, told
}

func TestEveryChangeAndRemovalIsToldAndCounted(t *testing.T) {
	const keys = `"Keys":{"pk":{"B":"cmVxIwEC"},"sk":{"N":"7"}}`
	for _, tt := range []struct {
		name, event string
		want        [][]any
	}{
		{"a change", `{"Records":[{"eventName":"MODIFY","dynamodb":{` + keys + `,"NewImage":{"d":{"B":"AA=="}}}}]}`, [][]any{{"MODIFY", "726571230102", "7"}}},
		{"a removal", `{"Records":[{"eventName":"REMOVE","dynamodb":{` + keys + `}}]}`, [][]any{{"REMOVE", "726571230102", "7"}}},
		{"rows put for the first time", `{"Records":[{"eventName":"INSERT","dynamodb":{` + keys + `}}]}`, nil},
		{"a canary, told too but no tampering", `{"Records":[{"eventName":"INSERT","dynamodb":{"Keys":{"pk":{"B":"` + tamper.CanaryKey + `"},"sk":{"N":"7"}}}}]}`, nil},
		{"a canary that was changed", `{"Records":[{"eventName":"MODIFY","dynamodb":{"Keys":{"pk":{"B":"` + tamper.CanaryKey + `"},"sk":{"N":"7"}}}}]}`, [][]any{{"MODIFY", hex.EncodeToString([]byte(canary.Stream())), "7"}}},
		{"several", `{"Records":[{"eventName":"INSERT","dynamodb":{}},{"eventName":"MODIFY","dynamodb":{` + keys + `}},{"eventName":"REMOVE","dynamodb":{` + keys + `}}]}`,
			[][]any{{"MODIFY", "726571230102", "7"}, {"REMOVE", "726571230102", "7"}}},
		{"one without keys", `{"Records":[{"eventName":"MODIFY"}]}`, [][]any{{"MODIFY", "unreadable", ""}}},
		{"one with keys of another kind", `{"Records":[{"eventName":"MODIFY","dynamodb":{"Keys":{"pk":{"S":"a"},"sk":{"S":"b"}}}}]}`, [][]any{{"MODIFY", "unreadable", ""}}},
		{"one with a key that is no base64", `{"Records":[{"eventName":"MODIFY","dynamodb":{"Keys":{"pk":{"B":"%"},"sk":{"N":"7"}}}}]}`, [][]any{{"MODIFY", "unreadable", "7"}}},
		{"one that is no object, and one behind it", `{"Records":[17,{"eventName":"REMOVE","dynamodb":{` + keys + `}}]}`,
			[][]any{{"unreadable", "unreadable", ""}, {"REMOVE", "726571230102", "7"}}},
		{"a kind of event that nobody knows", `{"Records":[{"eventName":7,"dynamodb":{` + keys + `}}]}`, [][]any{{"unreadable", "726571230102", "7"}}},
		{"no records", `{"Records":[]}`, nil},
		{"another event", `{"detail-type":"Scheduled Event"}`, [][]any{{"unreadable", nil, nil}}},
		{"no object", `[]`, [][]any{{"unreadable", nil, nil}}},
		{"no JSON", `{`, [][]any{{"unreadable", nil, nil}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tampered, canaries, told := look(t, tt.event)
			if diff := cmp.Diff(tt.want, told); diff != "" || tampered != len(tt.want) || canaries != strings.Count(tt.event, `INSERT","dynamodb":{"Keys":{"pk":{"B":"`+tamper.CanaryKey) {
				t.Errorf("Look() = %d and %d canaries, told (-want +got):\n%s", tampered, canaries, diff)
			}
		})
	}
}

// broken is a writer that fails.
type broken struct{ slog.Handler }

func (broken) Handle(context.Context, slog.Record) error { return errors.New("no room") }

func TestUnreportedFindingIsRetried(t *testing.T) {
	for _, event := range []string{`{"Records":[{"eventName":"MODIFY"}]}`, `[]`} {
		_, err := tamper.New(broken{}, now).Check(t.Context(), []byte(event))
		if !problem.Is(err, problem.Unavailable) {
			t.Errorf("Look(%s) = %v, want it to fail", event, err)
		}
	}
}

func FuzzLook(f *testing.F) {
	f.Add([]byte(`{"Records":[{"eventName":"MODIFY","dynamodb":{"Keys":{"pk":{"B":"AA=="},"sk":{"N":"7"}}}}]}`))
	f.Add([]byte(`{"Records":[null,1,{}]}`))
	f.Fuzz(func(t *testing.T, event []byte) {
		var log bytes.Buffer
		n, err := tamper.New(obs.NewHandler(&log, obs.Config{Stage: "dev", Function: "tamper"}), now).Check(t.Context(), event)
		if lines := bytes.Count(log.Bytes(), []byte(`"tampered":1`)); err != nil || lines != n {
			t.Errorf("Look() = %d, %v, in %d lines", n, err, lines)
		}
	})
}
