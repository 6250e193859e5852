package onlambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestWhatFailsComesAgainAndTheRestDoesNot(t *testing.T) {
	var log bytes.Buffer
	ended := 0
	r := &receiver{log: slog.New(obs.NewHandler(&log, obs.Config{Stage: "dev", Function: "worker"})), afterEvent: func() { ended++ },
		handle: func(_ context.Context, m events.SQSMessage) (bool, error) {
			switch m.Body {
			case "panic":
				panic("inside")
			case "fault":
				return false, problem.Wrap(problem.Unavailable, errors.New("inside"), "storage is away")
			}
			return m.Body == "done", nil
		}}
	event := events.SQSEvent{}
	for i, body := range []string{"done", "again", "fault", "panic", "done"} {
		event.Records = append(event.Records, events.SQSMessage{MessageId: string(rune('a' + i)), Body: body, EventSourceARN: "arn:aws:sqs:us-east-1:123456789012:vacancy-dev-tasks"})
	}
	b, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.invoke(t.Context(), b)
	var again []string
	for _, f := range out.BatchItemFailures {
		again = append(again, f.ItemIdentifier)
	}
	if diff := cmp.Diff([]string{"b", "c", "d"}, again); err != nil || diff != "" || ended != 1 {
		t.Errorf("%v, ended %d times; to come again (-want +got):\n%s", err, ended, diff)
	}
	verdicts := map[string]int{}
	for line := range bytes.Lines(log.Bytes()) {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		verdicts[m["verdict"].(string)]++
		if m["queue"] != "vacancy-dev-tasks" || m["_aws"] == nil {
			t.Errorf("a line without its queue or metrics: %v", m)
		}
	}
	if diff := cmp.Diff(map[string]int{"ok": 2, "again": 1, "unavailable": 1, "internal": 1}, verdicts); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	for _, bad := range []string{`{}`, `[]`, `{"Records":[]}`, `no JSON`} {
		if _, err := r.invoke(t.Context(), json.RawMessage(bad)); err == nil || !strings.Contains(err.Error(), "does not come from a queue") {
			t.Errorf("invoke(%s) = %v, want it refused", bad, err)
		}
	}
}
