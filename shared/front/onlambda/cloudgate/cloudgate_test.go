package cloudgate

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// machines is a fake Step Functions that records requests.
type machines struct {
	started []sfn.StartExecutionInput
	looked  []string
	events  []types.HistoryEvent
	err     error
}

func (m *machines) StartExecution(_ context.Context, in *sfn.StartExecutionInput, _ ...func(*sfn.Options)) (*sfn.StartExecutionOutput, error) {
	m.started = append(m.started, *in)
	return &sfn.StartExecutionOutput{}, m.err
}

func (m *machines) GetExecutionHistory(_ context.Context, in *sfn.GetExecutionHistoryInput, _ ...func(*sfn.Options)) (*sfn.GetExecutionHistoryOutput, error) {
	m.looked = append(m.looked, aws.ToString(in.ExecutionArn))
	if !in.ReverseOrder || aws.ToBool(in.IncludeExecutionData) {
		return nil, errors.New("want the newest first, and no data")
	}
	return &sfn.GetExecutionHistoryOutput{Events: m.events}, m.err
}

const machine = "arn:aws:states:us-east-1:123456789012:stateMachine:vacancy-dev-gate"

func attempt() *graduation.Attempt {
	child, parent := identity.ID{1}, identity.ID{2}
	return &graduation.Attempt{
		ID:         graduation.ID{Child: child, Position: 7},
		Submission: graduation.Submission{Request: composite.GraduationRequest{ChildID: child, ParentID: parent, CapabilityText: "reads"}},
		StartedAt:  time.Unix(0, 0),
	}
}

func entered(names ...string) (events []types.HistoryEvent) {
	for _, name := range names {
		events = append(events, types.HistoryEvent{Type: types.HistoryEventTypeTaskStateEntered,
			StateEnteredEventDetails: &types.StateEnteredEventDetails{Name: aws.String(name)}})
		events = append(events, types.HistoryEvent{Type: types.HistoryEventTypeLambdaFunctionScheduled})
	}
	return events
}

// Name and input are a pure function of the attempt, so that starting an
// attempt again starts no second execution.
func TestAnAttemptIsStartedUnderItsOwnNameWithTheSameInput(t *testing.T) {
	m := &machines{}
	r := &executionClient{client: m, stateMachineARN: machine, log: slog.New(slog.DiscardHandler)}
	a := attempt()
	for _, err := range []error{nil, &types.ExecutionAlreadyExists{}} {
		m.err = err
		if err := r.startExecution(t.Context(), a); err != nil {
			t.Errorf("start() = %v, want a run that is there to be its own", err)
		}
	}
	first, second := m.started[0], m.started[1]
	want := []string{machine, a.Request.Hash().String()[:32] + "-7", `{"state":{"child":"` + a.Child.String() + `","position":7,"request":"` + a.Request.Hash().String() + `"}}`}
	if diff := cmp.Diff(want, []string{*first.StateMachineArn, *first.Name, *first.Input}); diff != "" {
		t.Errorf("machine, name and input (-want +got):\n%s", diff)
	}
	if *first.Name != *second.Name || *first.Input != *second.Input {
		t.Errorf("started again as %s %s, want the same name and input", *second.Name, *second.Input)
	}
	m.err = errors.New("no route")
	if err := r.startExecution(t.Context(), a); !problem.Is(err, problem.Unavailable) {
		t.Errorf("start() of a machine out of reach = %v, want Unavailable", err)
	}
}

func TestTheStepIsTheNewestThatWasEntered(t *testing.T) {
	const execution = "arn:aws:states:us-east-1:123456789012:execution:vacancy-dev-gate:"
	for _, tt := range []struct {
		name   string
		events []types.HistoryEvent
		err    error
		want   gate.StepName
	}{
		{"it has not begun", nil, nil, ""},
		{"the first", entered("consent"), nil, gate.StepConsent},
		{"the third", entered("collusion", "rate_limit", "consent"), nil, gate.StepCollusion},
		{"it is being recorded", entered("record refusal", "rate_limit", "consent"), nil, gate.StepRateLimit},
		{"an event without a name", append([]types.HistoryEvent{{Type: types.HistoryEventTypeTaskStateEntered}}, entered("commit")...), nil, gate.StepCommit},
		{"nobody says", nil, errors.New("no route"), ""},
		{"it has not started", nil, &types.ExecutionDoesNotExist{}, ""},
	} {
		m := &machines{events: tt.events, err: tt.err}
		r := &executionClient{client: m, stateMachineARN: machine, log: slog.New(slog.DiscardHandler)}
		a := attempt()
		if got := r.currentStep(t.Context(), a); got != tt.want {
			t.Errorf("%s: step() = %q, want %q", tt.name, got, tt.want)
		}
		if m.looked[0] != execution+a.ExecutionName() {
			t.Errorf("looked at %s, want %s", m.looked[0], execution+a.ExecutionName())
		}
	}
}
