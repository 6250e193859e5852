// Package asl renders the gate's list of steps into a state machine of Step
// Functions, in the Amazon States Language.
//
// The invariants: the states come in the order of the list, and each catches
// the refusals that the list says of it, one by one and by name; a refusal ends
// an execution well, so that an alarm on executions that fail is about faults;
// only what is passing or unknown is tried again.
package asl

import (
	"encoding/json"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

// Times in seconds. A task ends by itself before the machine gives it up, and
// the machine before the attempt is overdue (two minutes after it began).
const (
	TaskSeconds    = 10 // of a function
	taskSeconds    = TaskSeconds + 2
	MachineSeconds = 90
)

// The states beside the steps.
const (
	recordRefusal = "record refusal"
	recordFailure = "record failure"
	refused       = "refused"
	accepted      = "accepted"
	failed        = "failed"
)

// Function is the function of a step: the name of its directory.
func Function(s gate.StepName) string { return strings.ReplaceAll(string(s), "_", "") }

// Recorder is the function that writes down how an attempt ended.
const Recorder = "record"

// Machine is a state machine. Its members stand in the order in which a person
// reads them.
type Machine struct {
	Comment        string
	StartAt        string
	TimeoutSeconds int
	States         states
}

// State is one of its states.
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

// states keeps their order, which a map would not.
type states []named

type named struct {
	name  string
	state State
}

// MarshalJSON implements json.Marshaler.
func (s states) MarshalJSON() ([]byte, error) {
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

// Gate is the state machine of a list of steps. In the place of a function's ARN
// stands its Placeholder.
//
// An execution is given {"state": …}; each step is given the state and gives
// the next one. What a step refuses or breaks on lies beside the state, where
// the recorder finds both.
func Gate(steps []gate.Step) Machine {
	m := Machine{
		Comment:        "The gate: a closed child asks to become public. Made of gate.Steps by infra/asl.",
		StartAt:        string(steps[0].Name),
		TimeoutSeconds: MachineSeconds,
	}
	for i, s := range steps {
		next := accepted
		if i+1 < len(steps) {
			next = string(steps[i+1].Name)
		}
		m.States = append(m.States, named{string(s.Name), step(s, next)})
	}
	m.States = append(m.States,
		named{accepted, State{Type: "Succeed", Comment: "The child is open."}},
		named{recordRefusal, record("A step said no. Nothing else has changed.", refused)},
		named{refused, State{Type: "Succeed", Comment: "A refusal is an answer: no alarm counts it."}},
		named{recordFailure, record("A step could not say. The attempt is over, and holds no slot.", failed)},
		named{failed, State{Type: "Fail", Error: "GateFailed", Cause: "A step broke: its event above says how."}},
	)
	return m
}

// step is the state of one: it refuses by name, and all else is a failure.
func step(s gate.Step, next string) State {
	return State{
		Type: "Task", Comment: s.Says, Resource: Placeholder(Function(s.Name)),
		InputPath: "$.state", ResultPath: path("$.state"), TimeoutSeconds: taskSeconds, Retry: retries(),
		Catch: catches(s.Refuses),
		Next:  next,
	}
}

// catches has one for each refusal, so that each says for itself where it leads,
// and one for everything else, which must be the last.
func catches(refuses []problem.Kind) (all []catch) {
	for _, k := range refuses {
		all = append(all, catch{ErrorEquals: []string{gate.ErrorName(k)}, ResultPath: "$.error", Next: recordRefusal})
	}
	return append(all, catch{ErrorEquals: []string{"States.ALL"}, ResultPath: "$.error", Next: recordFailure})
}

// record writes down what ended the attempt. Where even that fails the attempt
// is overdue soon, and whoever looks at it then says so.
func record(says, next string) State {
	return State{
		Type: "Task", Comment: says, Resource: Placeholder(Recorder), ResultPath: path("$.status"), TimeoutSeconds: taskSeconds, Retry: retries(),
		Catch: []catch{{ErrorEquals: []string{"States.ALL"}, ResultPath: "$.record", Next: failed}},
		Next:  next,
	}
}

func path(p string) *string { return &p }

// retries: what passes is waited for; a function that died or hung may have done
// its work or not, and is given it once more. Each step may be done twice.
func retries() []retry {
	return []retry{
		{ErrorEquals: []string{"Lambda.ServiceException", "Lambda.AWSLambdaException", "Lambda.SdkClientException", "Lambda.TooManyRequestsException",
			gate.ErrorName(problem.Unavailable)}, IntervalSeconds: 1, MaxAttempts: 4, BackoffRate: 2, JitterStrategy: "FULL"},
		{ErrorEquals: []string{"Lambda.Unknown", "Runtime.ExitError", "Sandbox.Timedout", "States.Timeout"}, IntervalSeconds: 1, MaxAttempts: 1, BackoffRate: 1},
	}
}

// Placeholder stands for the ARN of a function, until CloudFormation has it.
func Placeholder(function string) string { return "${" + Substitution(function) + "}" }

// Substitution is the name that CloudFormation knows the ARN by.
func Substitution(function string) string { return function + "Arn" }

// JSON is the machine for people and for Step Functions.
func (m Machine) JSON() (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(m)
	return b.String(), err
}
