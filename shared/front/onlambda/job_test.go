package onlambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestAJobTellsWhatItDidAndFailsToBeTriedAgain(t *testing.T) {
	for _, tt := range []struct {
		name    string
		work    func() error
		verdict string
		says    string // of the error that Lambda gets
	}{
		{"done", func() error { return nil }, "ok", ""},
		{"a fault", func() error { return problem.Wrap(problem.Unavailable, errors.New("inside"), "storage is away") }, "unavailable", "storage is away"},
		{"an error of another kind", func() error { return errors.New("inside") }, "internal", "internal error"},
		{"a panic", func() error { panic("inside") }, "internal", "internal error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			j := &job{log: slog.New(obs.NewHandler(&log, obs.Config{Stage: "dev", Function: "sweeper"})),
				work: func(context.Context, json.RawMessage) ([]slog.Attr, error) {
					return []slog.Attr{slog.Int("days", 3)}, tt.work()
				}}
			err := j.invoke(t.Context(), nil)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.says {
				t.Errorf("invoke() = %q, want %q", got, tt.says)
			}
			var m map[string]any
			if err := json.Unmarshal(log.Bytes(), &m); err != nil {
				t.Fatalf("%v: %s", err, log.Bytes())
			}
			if m["verdict"] != tt.verdict || m["_aws"] == nil || (tt.verdict != "ok") != strings.Contains(log.String(), "inside") {
				t.Errorf("line = %v, want verdict %s and the whole cause", m, tt.verdict)
			}
			if _, failed := m["failed"]; failed != (tt.verdict != "ok") {
				t.Errorf("failed is counted: %t", failed)
			}
		})
	}
}
