package onlambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// A step's error, its log line, and the recorder's input name the same outcome.
func TestAStepFailsByTheNameThatTheMachineCatches(t *testing.T) {
	for _, tt := range []struct {
		name           string
		task           func() (graduation.RunState, error)
		error          string
		requiredFields []any // verdict, refused, failed
		kind           problem.Kind
	}{
		{"it passes", func() (graduation.RunState, error) { return graduation.RunState{Position: 3}, nil }, "", []any{"ok", nil, nil}, 0},
		{"it refuses", func() (graduation.RunState, error) {
			return graduation.RunState{}, problem.New(problem.ConsentRequired, "graduation request signatures did not verify")
		}, "GraduationConsentError", []any{"graduation_consent", 1., nil}, problem.ConsentRequired},
		{"another step's refusal is a fault", func() (graduation.RunState, error) {
			return graduation.RunState{}, problem.New(problem.CollusionFound, "collusion signals too high")
		}, "GraduationCollusionError", []any{"graduation_collusion", nil, 1.}, problem.CollusionFound},
		{"storage does not answer", func() (graduation.RunState, error) {
			return graduation.RunState{}, problem.Wrap(problem.Unavailable, errors.New("no route to 10.0.0.1"), "storage is unavailable")
		}, "Unavailable", []any{"unavailable", nil, 1.}, problem.Unavailable},
		{"something else", func() (graduation.RunState, error) { return graduation.RunState{}, errors.New("a private word") },
			gate.OtherErrorName, []any{"internal", nil, 1.}, problem.Internal},
		{"a panic", func() (graduation.RunState, error) { panic("a private word") }, gate.OtherErrorName, []any{"internal", nil, 1.}, problem.Internal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			s := &stepRunner{name: gate.StepConsent, log: slog.New(obs.NewHandler(&log, obs.Config{Stage: "dev", Function: "consent"})),
				runTask: func(context.Context, gate.StepName, graduation.RunState) (graduation.RunState, error) {
					return tt.task()
				}}
			next, err := s.invoke(t.Context(), graduation.RunState{Child: identity.ID{1}, Position: 3})
			var line map[string]any
			if err := json.Unmarshal(log.Bytes(), &line); err != nil {
				t.Fatalf("%v: want one line: %s", err, log.Bytes())
			}
			if diff := cmp.Diff(tt.requiredFields, []any{line["verdict"], line["refused"], line["failed"]}); diff != "" || line["step"] != "consent" {
				t.Errorf("line of %v (-want +got):\n%s", line["step"], diff)
			}
			if tt.error == "" {
				if err != nil || next.Position != 3 {
					t.Errorf("invoke() = %+v, %v, want the state of the next step", next, err)
				}
				return
			}
			var failed messages.InvokeResponse_Error
			if !errors.As(err, &failed) || failed.Type != tt.error || strings.Contains(failed.Message, "private") || strings.Contains(failed.Message, "10.0.0.1") {
				t.Fatalf("invoke() = %#v, want an error %s without its cause", err, tt.error)
			}
			cause, err := json.Marshal(failed)
			if err != nil {
				t.Fatal(err)
			}
			if got := graduation.ParseCause(gate.StepConsent, failed.Type, string(cause)); got.Error != tt.error || got.Step != gate.StepConsent || got.Kind != tt.kind.String() {
				t.Errorf("the recorder reads %+v, want %s, %s at consent", got, tt.error, tt.kind)
			}
		})
	}
}

func TestTheRecorderRefusesWhatNoMachineSends(t *testing.T) {
	for _, event := range []string{`{`, `[]`, `{"state":7}`, `{"state":{"child":"no id"}}`} {
		if _, err := recorder(nil)(t.Context(), json.RawMessage(event)); !problem.Is(err, problem.Malformed) {
			t.Errorf("recorder(%s) = %v, want Malformed", event, err)
		}
	}
}
