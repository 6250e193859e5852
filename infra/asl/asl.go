// Package asl renders the steps of the gate, which decides whether a closed child may become
// public, as a state machine in the Amazon States Language.
//
// A refusal ends an execution successfully, so an alarm on failed executions reports only faults.
package asl

import (
	"encoding/json"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

// Timeouts in seconds. A task times out before the state machine. The state machine times out
// before an attempt is overdue, which happens after two minutes.
const (
	taskSeconds    = functions.StepSeconds + 2
	MachineSeconds = 90
)

const (
	recordRefusalState = "record refusal"
	recordFailureState = "record failure"
	refusedState       = "refused"
	acceptedState      = "accepted"
	failedState        = "failed"
)

func FunctionName(s gate.StepName) string { return strings.ReplaceAll(string(s), "_", "") }

// Machine is a state machine. Its fields are in the order in which people read the JSON.
type Machine struct {
	Comment        string
	StartAt        string
	TimeoutSeconds int
	States         stateList
}

type State struct {
	Type           string
	Comment        string  `json:",omitempty"`
	Resource       string  `json:",omitempty"`
	InputPath      string  `json:",omitempty"`
	ResultPath     *string `json:",omitempty"`
	TimeoutSeconds int     `json:",omitempty"`
	Retry          []retry `json:",omitempty"`
	Catch          []catch `json:",omitempty"`
	Error          string  `json:",omitempty"`
	Cause          string  `json:",omitempty"`
	Next           string  `json:",omitempty"`
}

type retry struct {
	ErrorEquals     []string
	IntervalSeconds int
	MaxAttempts     int
	BackoffRate     float64
	JitterStrategy  string `json:",omitempty"`
}

type catch struct {
	ErrorEquals []string
	ResultPath  string
	Next        string
}

type stateList []namedState

type namedState struct {
	name  string
	state State
}

func (s stateList) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	for i, n := range s {
		name, err := json.Marshal(n.name)
		if err != nil {
			return nil, err
		}
		state, err := json.Marshal(n.state)
		if err != nil {
			return nil, err
		}
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		b.Write(name)
		b.WriteByte(':')
		b.Write(state)
	}
	return []byte(b.String() + "}"), nil
}

// GateMachine returns the state machine of a list of steps, with placeholders for function ARNs.
// The input of an execution is {"state": …}. Each step gets the state and returns the next one.
func GateMachine(steps []gate.Step) Machine {
	m := Machine{
		Comment:        "The gate: a closed child asks to become public. Generated from gate.Steps by infra/asl.",
		StartAt:        string(steps[0].Name),
		TimeoutSeconds: MachineSeconds,
	}
	for i, s := range steps {
		next := acceptedState
		if i+1 < len(steps) {
			next = string(steps[i+1].Name)
		}
		m.States = append(m.States, namedState{string(s.Name), stepState(s, next)})
	}
	m.States = append(m.States,
		namedState{acceptedState, State{Type: "Succeed", Comment: "The child is open."}},
		namedState{recordRefusalState, recordState("A step refused the request. Nothing else has changed.", refusedState)},
		namedState{refusedState, State{Type: "Succeed", Comment: "A refusal is a normal result and raises no alarm."}},
		namedState{recordFailureState, recordState("A step failed without a verdict. The attempt has ended and holds no slot.", failedState)},
		namedState{failedState, State{Type: "Fail", Error: "GateFailed", Cause: "A step failed. Its event above contains the cause."}},
	)
	return m
}

func stepState(s gate.Step, next string) State {
	return State{
		Type: "Task", Comment: s.Description, Resource: ARNPlaceholder(FunctionName(s.Name)),
		InputPath: "$.state", ResultPath: strPtr("$.state"), TimeoutSeconds: taskSeconds, Retry: retries(),
		Catch: refusalCatches(s.RefusalKinds),
		Next:  next,
	}
}

// refusalCatches ends with States.ALL, as Step Functions requires.
func refusalCatches(refusalKinds []problem.Kind) (list []catch) {
	for _, k := range refusalKinds {
		list = append(list, catch{ErrorEquals: []string{gate.ErrorName(k)}, ResultPath: "$.error", Next: recordRefusalState})
	}
	return append(list, catch{ErrorEquals: []string{"States.ALL"}, ResultPath: "$.error", Next: recordFailureState})
}

// recordState returns the state that records the end of an attempt. If the state fails, the next
// read of the overdue attempt ends it.
func recordState(comment, next string) State {
	return State{
		Type: "Task", Comment: comment, Resource: ARNPlaceholder(functions.Record.Name), ResultPath: strPtr("$.status"), TimeoutSeconds: taskSeconds, Retry: retries(),
		Catch: []catch{{ErrorEquals: []string{"States.ALL"}, ResultPath: "$.record", Next: failedState}},
		Next:  next,
	}
}

func strPtr(p string) *string { return &p }

func retries() []retry {
	// A function that died or timed out is retried once, although it may have done its work. A step
	// must therefore be idempotent.
	return []retry{
		{ErrorEquals: []string{"Lambda.ServiceException", "Lambda.AWSLambdaException", "Lambda.SdkClientException", "Lambda.TooManyRequestsException",
			gate.ErrorName(problem.Unavailable)}, IntervalSeconds: 1, MaxAttempts: 4, BackoffRate: 2, JitterStrategy: "FULL"},
		{ErrorEquals: []string{"Lambda.Unknown", "Runtime.ExitError", "Sandbox.Timedout", "States.Timeout"}, IntervalSeconds: 1, MaxAttempts: 1, BackoffRate: 1},
	}
}

func ARNPlaceholder(function string) string { return "${" + SubstitutionName(function) + "}" }

func SubstitutionName(function string) string { return function + "Arn" }

func (m Machine) JSON() (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(m)
	return b.String(), err
}
